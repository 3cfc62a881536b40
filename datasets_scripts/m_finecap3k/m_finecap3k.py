"""M-FineCap3k (Kim et al. 2023; never released), or English FineCapEval, as a `datasets` loading script."""

from collections import Counter

import capscore  # From: capscore

# language → captions (Table 5 of the paper)
_LANGUAGES = {"en": 1000, "de": 3000, "es": 3000, "fr": 3000, "ja": 3000}
_FINECAPEVAL = "https://drive.google.com/drive/folders/1jlwInAsVo-PdBdJlmHKPp34dLnxIIMLx"
# the CSV's names of the phrases → ours; the paper's names in the JSONL are ours
_PHRASES = {"object": "critical_objects", "background": "backgrounds", "relation": "relationships"}


class MFineCap3k(capscore.CaptionBenchmark):
    """Long captions in English (1,000), German, Spanish, French and Japanese (3,000 each), with phrases.

    These are for critical objects, backgrounds and relationships. Described in the paper, never released;
    FineCapEval, which it extends, can be read for English.
    """

    HOMEPAGE = "https://github.com/yong1-kim/PR-MCS"
    LICENSE = "cc-by-nc-4.0 (as announced; never released); FineCapEval states none"
    FILES = {
        "captions": capscore.AnnotationFile(
            ("{config}.jsonl", "m_finecap3k/{config}.jsonl"),
            "its authors: it was never released, and the card says how the file has to look; for English "
            f"FineCapEval.csv does too, which is at {_FINECAPEVAL}",
        ),
        "finecapeval": capscore.AnnotationFile(
            ("FineCapEval.csv", "data/FineCapEval.csv", "FineCapEval/FineCapEval.csv"), _FINECAPEVAL
        ),
    }
    IMAGES = capscore.ImageFolders(("images", "FineCapEval/images"), f"images of {_FINECAPEVAL}")
    CONFIGS = {language: language for language in _LANGUAGES}
    COUNTS = {language: {"test": {"rows": rows}} for language, rows in _LANGUAGES.items()}
    FIELDS = {"caption": str, **{name: [str] for name in _PHRASES.values()}, "id": str}

    def published(self, split):
        # the authors' own reader of FineCapEval expects 5,000 rows
        return {"rows": 5000} if self._reads_finecapeval() else super().published(split)

    def rows(self, split):
        for row_id, row, phrases in self._finecapeval() if self._reads_finecapeval() else self._released():
            values = {
                "image_id": row.photo("image"),
                "caption": row.caption("caption"),
                **phrases,
                "id": row_id,
            }
            yield row_id, values

    def count(self, rows):
        phrases = {name: sum(len(row[name]) for row in rows) for name in _PHRASES.values()}
        return {**super().count(rows), **{name.replace("_", " "): n for name, n in phrases.items()}}

    def _reads_finecapeval(self):
        """Whether English captions come from FineCapEval, because M-FineCap3k's own are missing."""
        return self.config.name == "en" and not self.find("captions") and bool(self.find("finecapeval"))

    def _released(self):
        for row in self.file("captions").jsonl():
            yield row.identifier("id"), row, {name: row.captions(name) for name in _PHRASES.values()}

    def _finecapeval(self):
        number = Counter()
        for row in self.file("finecapeval").csv():
            number[row["image"]] += 1
            phrases = {ours: _phrases(row[name]) for name, ours in _PHRASES.items()}
            yield f"{row.photo('image')}#{number[row['image']]}", row, phrases


def _phrases(cell):
    """The phrases of a cell; it may be empty, and a separator may also end it."""
    return [" ".join(phrase.split()) for phrase in cell.split("\\;") if phrase.strip()]
