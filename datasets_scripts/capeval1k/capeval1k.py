"""CapEval1k (Lee et al. 2021) as a `datasets` loading script."""

import re

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files


class CapEval1k(capscore.CaptionBenchmark):
    """1,000 captions of 250 photos of COCO by four systems, each with a human score from 0 to 1."""

    HOMEPAGE = "https://github.com/hwanheelee1993/UMIC"
    LICENSE = "mit; photos by their authors"
    FILES = {
        "captions": capscore.AnnotationFile(
            ("capeval1k.json", "umic_capeval1k_decoded.json"),
            f"txt_db/capeval1k of {HOMEPAGE}, its word pieces joined to text",
        ),
        **caption_files.COCO,
    }
    IMAGES = capscore.ImageFolders(("images", "val2014"), "val2014.zip from https://cocodataset.org")
    COUNTS = {"default": {"test": {"rows": 1000, "images": 250}}}
    FIELDS = {"caption": str, "references": [str], "rating": float}

    def rows(self, split):
        rated = [(_photo(row), row) for row in self.file("captions").json_rows()]
        references = caption_files.references_of(self, {photo for photo, _ in rated}, caption_files.COCO)
        for photo, row in rated:
            caption = row.caption("caption")
            values = {
                "image_id": photo,
                "caption": caption,
                "references": references.get(photo, []),
                "rating": row.number("score", 0, 1),
            }
            yield f"{photo}|{caption}", values


def _photo(row):
    """The official file name; UMIC calls COCO_val2014_000000000042.jpg coco_val2014_000000000042.npz."""
    name = row.either("image", "img")
    match = re.fullmatch(r"coco_(val|train)2014_(\d{12})\.(npz|jpg)", str(row[name]), re.IGNORECASE)
    if match is None:
        raise row.wrong(name, "a name such as COCO_val2014_000000000042.jpg")
    return f"COCO_{match[1].lower()}2014_{match[2]}.jpg"
