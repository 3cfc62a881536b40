"""CapEval1k (Lee et al. 2021) as a `datasets` loading script."""

import re

import datasets

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

_CITATION = """\
@inproceedings{lee-etal-2021-umic,
  title = {{UMIC}: An Unreferenced Metric for Image Captioning via Contrastive Learning},
  author = {Lee, Hwanhee and Yoon, Seunghyun and Dernoncourt, Franck and Bui, Trung and Jung, Kyomin},
  booktitle = {Proceedings of ACL-IJCNLP (Volume 2: Short Papers)}, year = {2021}, pages = {220--226},
  url = {https://aclanthology.org/2021.acl-short.29}}
"""
_HOMEPAGE = "https://github.com/hwanheelee1993/UMIC"


class CapEval1k(capscore.CaptionBenchmark):
    """Captions of four systems for 250 COCO photos, rated from 0 to 1."""

    VERSION = "1.0.0"
    DESCRIPTION = "1,000 captions of 250 photos of COCO by four systems, each with a human score from 0 to 1."
    CITATION = _CITATION
    HOMEPAGE = _HOMEPAGE
    LICENSE = "mit; photos by their authors"
    FILES = {
        "captions": capscore.AnnotationFile(
            ("capeval1k.json", "umic_capeval1k_decoded.json"),
            source=f"txt_db/capeval1k of {_HOMEPAGE}, its word pieces joined to text",
        ),
        **caption_files.COCO,
    }
    IMAGES = capscore.ImageFolders(("images", "val2014"), source="val2014.zip from https://cocodataset.org")
    BUILDER_CONFIGS = [capscore.BenchmarkConfig(name="default", language="en", description="CapEval1k")]
    COUNTS = {"default": {"test": {"rows": 1000, "images": 250}}}

    def fields(self):
        return {
            "caption": datasets.Value("string"),
            "references": datasets.Sequence(datasets.Value("string")),
            "rating": datasets.Value("float64"),
            "language": datasets.Value("string"),
        }

    def rows(self, split):
        rated = list(self._rated())
        photos = {photo for photo, _, _ in rated}
        references = caption_files.references_of(self, photos, list(caption_files.COCO))
        for photo, caption, rating in rated:
            yield (
                f"{photo}|{caption}",
                {
                    "image_id": photo,
                    "caption": caption,
                    "references": references.get(photo, []),
                    "rating": rating,
                    "language": "en",
                },
            )

    def _rated(self):
        file = self.file("captions")
        seen = {}
        for entry, row in enumerate(file.items(file.json(), "the document")):
            file.require(row, ["caption", "score"], entry=entry)
            name = "image" if "image" in row else "img"
            file.require(row, [name], entry=entry)
            caption = file.caption(row["caption"], "'caption'", entry=entry)
            rating = file.number(row["score"], "'score'", 0, 1, entry=entry)
            photo = self._photo(file, row[name], entry)
            file.once(seen, f"{photo} {caption}", "the pair", entry=entry)
            yield photo, caption, rating

    @staticmethod
    def _photo(file, name, entry):
        """The official file name; UMIC calls COCO_val2014_000000000042.jpg coco_val2014_000000000042.npz."""
        match = re.fullmatch(r"coco_(val|train)2014_(\d{12})\.(npz|jpg)", str(name), re.IGNORECASE)
        if match is None:
            raise file.error(
                f"the photo is {name!r}, expected a name such as COCO_val2014_000000000042.jpg", entry=entry
            )
        return f"COCO_{match[1].lower()}2014_{match[2]}.jpg"
