"""M-CapEval1k (Kim et al. 2023) as a `datasets` loading script; the data were never released."""

import datasets

import capscore  # From: capscore

_CITATION = """\
@inproceedings{kim-etal-2023-pr,
  title = {{PR}-{MCS}: Perturbation Robust Metric for {M}ulti{L}ingual Image Captioning},
  author = {Kim, Yongil and Hwang, Yerin and Yun, Hyeongu and Yoon, Seunghyun and Bui, Trung and
    Jung, Kyomin},
  booktitle = {Findings of EMNLP}, year = {2023},
  url = {https://aclanthology.org/2023.findings-emnlp.819}}
"""
_LANGUAGES = ("en", "de", "es", "fr", "ja")


class MCapEval1k(capscore.CaptionBenchmark):
    """Rated machine captions, transferred by people into five languages so that the rating still holds."""

    VERSION = "1.0.0"
    DESCRIPTION = (
        "The 1,000 rated captions of CapEval1k (250 photos of COCO, four systems) in English, and "
        "transcreated into German, Spanish, French and Japanese by native speakers, who kept their mistakes. "
        "Described in the paper, never released."
    )
    CITATION = _CITATION
    HOMEPAGE = "https://github.com/yong1-kim/PR-MCS"
    LICENSE = "cc-by-nc-4.0 (as announced; never released); photos of COCO by their authors"
    FILES = {
        "captions": capscore.AnnotationFile(
            ("{config}.jsonl", "m_capeval1k/{config}.jsonl"),
            source="its authors: it was never released, and the card says how the file has to look",
        )
    }
    IMAGES = capscore.ImageFolders(("images", "val2014"), source="val2014.zip from https://cocodataset.org")
    BUILDER_CONFIGS = [
        capscore.BenchmarkConfig(name=language, language=language, description=f"captions in {language}")
        for language in _LANGUAGES
    ]
    COUNTS = {language: {"test": {"rows": 1000, "images": 250}} for language in _LANGUAGES}

    def fields(self):
        return {
            "caption": datasets.Value("string"),
            "references": datasets.Sequence(datasets.Value("string")),
            "rating": datasets.Value("float64"),
            "id": datasets.Value("string"),
            "language": datasets.Value("string"),
        }

    def rows(self, split):
        file = self.file("captions")
        seen = {}
        for line, row in file.jsonl("id", "image", "caption", "score"):
            row_id = file.identifier(row["id"], "'id'", line=line)
            file.once(seen, row_id, "'id'", line=line)
            references = file.items(row.get("references", []), "'references'", line=line)
            yield (
                row_id,
                {
                    "image_id": file.photo(row["image"], "'image'", line=line),
                    "caption": file.caption(row["caption"], "'caption'", line=line),
                    "references": [file.caption(text, "a reference", line=line) for text in references],
                    "rating": file.number(row["score"], "'score'", 0, 1, line=line),
                    "id": row_id,
                    "language": self.config.name,
                },
            )
