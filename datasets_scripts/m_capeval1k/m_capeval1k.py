"""M-CapEval1k (Kim et al. 2023) as a `datasets` loading script; the data were never released."""

import capscore  # From: capscore

_LANGUAGES = ("en", "de", "es", "fr", "ja")


class MCapEval1k(capscore.CaptionBenchmark):
    """The 1,000 rated captions of CapEval1k in English, German, Spanish, French and Japanese.

    Native speakers transcreated them with their mistakes, so that the ratings still hold. Described in the
    paper, never released.
    """

    HOMEPAGE = "https://github.com/yong1-kim/PR-MCS"
    LICENSE = "cc-by-nc-4.0 (as announced; never released); photos of COCO by their authors"
    FILES = {
        "captions": capscore.AnnotationFile(
            ("{config}.jsonl", "m_capeval1k/{config}.jsonl"),
            "its authors: it was never released, and the card says how the file has to look",
        )
    }
    IMAGES = capscore.ImageFolders(("images", "val2014"), "val2014.zip from https://cocodataset.org")
    CONFIGS = {language: language for language in _LANGUAGES}
    COUNTS = {language: {"test": {"rows": 1000, "images": 250}} for language in _LANGUAGES}
    FIELDS = {"caption": str, "references": [str], "rating": float, "id": str}

    def rows(self, split):
        for row in self.file("captions").jsonl():
            values = {
                "image_id": row.photo("image"),
                "caption": row.caption("caption"),
                "references": row.captions("references") if "references" in row else [],
                "rating": row.number("score", 0, 1),
                "id": row.identifier("id"),
            }
            yield row.identifier("id"), values
