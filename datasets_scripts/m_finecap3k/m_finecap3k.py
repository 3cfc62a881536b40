"""M-FineCap3k (Kim et al. 2023; never released), or English FineCapEval, as a `datasets` loading script."""

from collections import Counter

import datasets

import capscore  # From: capscore

_CITATION = """\
@inproceedings{kim-etal-2023-pr,
  title = {{PR}-{MCS}: Perturbation Robust Metric for {M}ulti{L}ingual Image Captioning},
  author = {Kim, Yongil and Hwang, Yerin and Yun, Hyeongu and Yoon, Seunghyun and Bui, Trung and
    Jung, Kyomin},
  booktitle = {Findings of EMNLP}, year = {2023},
  url = {https://aclanthology.org/2023.findings-emnlp.819}}
@inproceedings{cho-etal-2022-fine,
  title = {Fine-grained Image Captioning with {CLIP} Reward},
  author = {Cho, Jaemin and Yoon, Seunghyun and Kale, Ajinkya and Dernoncourt, Franck and Bui, Trung and
    Bansal, Mohit},
  booktitle = {Findings of NAACL}, year = {2022}, url = {https://arxiv.org/abs/2205.13115}}
"""
# language → captions (Table 5 of the paper)
_LANGUAGES = {"en": 1000, "de": 3000, "es": 3000, "fr": 3000, "ja": 3000}
_FINECAPEVAL = "https://drive.google.com/drive/folders/1jlwInAsVo-PdBdJlmHKPp34dLnxIIMLx"
# the CSV's names of the phrases → ours; the paper's names in the JSONL are ours
_PHRASES = {"object": "critical_objects", "background": "backgrounds", "relation": "relationships"}


class MFineCap3k(capscore.CaptionBenchmark):
    """Long captions with their critical objects, backgrounds and relationships, in five languages."""

    VERSION = "1.0.0"
    DESCRIPTION = (
        "Long captions by native speakers in English (1,000), German, Spanish, French and Japanese (3,000 "
        "each), with the phrases for their critical objects, backgrounds and relationships, to be perturbed. "
        "Described in the paper, never released; FineCapEval, which it extends, can be read for English."
    )
    CITATION = _CITATION
    HOMEPAGE = "https://github.com/yong1-kim/PR-MCS"
    LICENSE = "cc-by-nc-4.0 (as announced; never released); FineCapEval states none"
    FILES = {
        "captions": capscore.AnnotationFile(
            ("{config}.jsonl", "m_finecap3k/{config}.jsonl"),
            source=(
                "its authors: it was never released, and the card says how the file has to look; for English "
                f"FineCapEval.csv does too, which is at {_FINECAPEVAL}"
            ),
        ),
        "finecapeval": capscore.AnnotationFile(
            ("FineCapEval.csv", "data/FineCapEval.csv", "FineCapEval/FineCapEval.csv"),
            source=_FINECAPEVAL,
            optional=True,
        ),
    }
    IMAGES = capscore.ImageFolders(("images", "FineCapEval/images"), source=f"images of {_FINECAPEVAL}")
    BUILDER_CONFIGS = [
        capscore.BenchmarkConfig(name=language, language=language, description=f"captions in {language}")
        for language in _LANGUAGES
    ]
    COUNTS = {language: {"test": {"rows": rows}} for language, rows in _LANGUAGES.items()}

    def fields(self):
        return {
            "caption": datasets.Value("string"),
            "critical_objects": datasets.Sequence(datasets.Value("string")),
            "backgrounds": datasets.Sequence(datasets.Value("string")),
            "relationships": datasets.Sequence(datasets.Value("string")),
            "id": datasets.Value("string"),
            "language": datasets.Value("string"),
        }

    def published(self, split):
        # the authors' own reader of FineCapEval expects 5,000 rows
        return {"rows": 5000} if self._reads_finecapeval() else super().published(split)

    def rows(self, split):
        read = self._finecapeval if self._reads_finecapeval() else self._m_finecap3k
        for row_id, row in read():
            yield row_id, {**row, "id": row_id, "language": self.config.name}

    def count(self, rows):
        return {
            **super().count(rows),
            **{name.replace("_", " "): sum(len(row[name]) for row in rows) for name in _PHRASES.values()},
        }

    def _reads_finecapeval(self):
        """Whether English captions come from FineCapEval, because M-FineCap3k's own are missing."""
        return self.config.name == "en" and not self.find("captions") and bool(self.find("finecapeval"))

    def _m_finecap3k(self):
        file = self.file("captions")
        seen = {}
        for line, row in file.jsonl("id", "image", "caption", *_PHRASES.values()):
            row_id = file.identifier(row["id"], "'id'", line=line)
            file.once(seen, row_id, "'id'", line=line)
            yield (
                row_id,
                {
                    "image_id": file.photo(row["image"], "'image'", line=line),
                    "caption": file.caption(row["caption"], "'caption'", line=line),
                    **{
                        name: [
                            file.caption(phrase, f"a phrase of {name!r}", line=line)
                            for phrase in file.items(row[name], f"'{name}'", line=line)
                        ]
                        for name in _PHRASES.values()
                    },
                },
            )

    def _finecapeval(self):
        file = self.file("finecapeval")
        number = Counter()
        for line, row in file.csv("image", "caption", *_PHRASES):
            photo = file.photo(row["image"], "'image'", line=line)
            number[photo] += 1
            yield (
                f"{photo}#{number[photo]}",
                {
                    "image_id": photo,
                    "caption": file.caption(row["caption"], "'caption'", line=line),
                    **{ours: _phrases(row[name]) for name, ours in _PHRASES.items()},
                },
            )


def _phrases(cell):
    """The phrases of a cell; it may be empty, and a separator may also end it."""
    return [" ".join(phrase.split()) for phrase in cell.split("\\;") if phrase.strip()]
