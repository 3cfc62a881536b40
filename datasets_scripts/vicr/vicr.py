"""VICR, the Validated Image Caption Rating data set (Narins et al. 2023), as a `datasets` loading script."""

import dataclasses
import re

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

# our splits → the file's names of them
_SPLITS = {"train": "train", "validation": "val", "test": "test"}


@dataclasses.dataclass
class VicrConfig(capscore.BenchmarkConfig):
    """VICR.

    Args:
        candidate_in_references: whether a candidate that is one of the photo's own captions stays among its
            references.
    """

    candidate_in_references: bool = False


class Vicr(capscore.CaptionBenchmark):
    """68,217 ratings (1 to 5) of 15,646 captions of 9,990 photos of COCO and Flickr8k, gathered in a game."""

    BUILDER_CONFIG_CLASS = VicrConfig
    HOMEPAGE = (
        "https://papers.nips.cc/paper_files/paper/2023/hash/"
        "c0b91f9a3587bf35287f41dba5d20233-Abstract-Datasets_and_Benchmarks.html"
    )
    LICENSE = "unknown; photos by their authors"
    FILES = {
        "ratings": capscore.AnnotationFile(
            # the last is the part of 249 captions that is public
            ("VICR.csv", "vicr.csv", "VICR_dataset.csv", "VICR_Sample250.csv"),
            "the authors of the paper",
        ),
        **caption_files.COCO,
        **caption_files.FLICKR8K,
    }
    IMAGES = capscore.ImageFolders(
        ("images", "val2014", *caption_files.FLICKR8K_FOLDERS),
        "val2014.zip from https://cocodataset.org; Flickr8k by request from its authors",
    )
    SPLITS = tuple(_SPLITS)
    COUNTS = {
        "default": {"train": {"rows": 10175}, "validation": {"rows": 2310}, "test": {"rows": 3161}},
    }
    FIELDS = {"caption": str, "references": [str], "ratings": [int]}

    def rows(self, split):
        rated = list(self._rated(split))
        photos = {photo for photo, _, _ in rated}
        coco = {photo for photo in photos if photo.startswith("COCO_")}
        references = {
            **caption_files.references_of(self, coco, caption_files.COCO),
            **caption_files.references_of(self, photos - coco, caption_files.FLICKR8K),
        }
        for photo, caption, ratings in rated:
            others = references.get(photo, [])
            if not self.config.candidate_in_references:
                others = caption_files.others_than(caption, others)
            values = {"image_id": photo, "caption": caption, "references": others, "ratings": ratings}
            yield f"{photo}|{caption}", values

    def count(self, rows):
        return {**super().count(rows), "ratings": sum(len(row["ratings"]) for row in rows)}

    def _rated(self, split):
        """(photo, caption, its ratings) of a split."""
        for row in self.file("ratings").csv():
            if row.choice("subset", _SPLITS.values()) != _SPLITS[split]:
                continue
            # the first rating's column is called "ratings", the next ones "rating_2", "rating_3", …
            columns = [name for name in row if re.fullmatch(r"ratings|rating_\d+", name)]
            ratings = [row.integer(name, 1, 5) for name in columns if row[name].strip()]
            if row.integer("num_ratings") != len(ratings):
                raise row.wrong("num_ratings", f"{len(ratings)}, the number of its ratings")
            # the address of a photo, or its name
            yield row.photo("image").rpartition("/")[2], row.caption("caption"), ratings
