"""VICR, the Validated Image Caption Rating data set (Narins et al. 2023), as a `datasets` loading script."""

import dataclasses
import re

import datasets

import capscore  # From: capscore
from capscore.benchmarks.data import caption_files

_CITATION = """\
@inproceedings{narins2023validated,
  title = {Validated Image Caption Rating Dataset},
  author = {Narins, Lothar D and Scott, Andrew and Gautam, Aakash and Kulkarni, Anagha and Castanon, Mar and
    Kao, Benjamin and Ihorn, Shasta and Siu, Yue-Ting and Mason, James M. and Blum, Alexander and Yoon, Ilmi},
  booktitle = {NeurIPS Datasets and Benchmarks Track}, year = {2023}}
"""
# the file's names of the splits → ours
_SPLITS = {"train": "train", "val": "validation", "test": "test"}


@dataclasses.dataclass
class VicrConfig(capscore.BenchmarkConfig):
    """VICR.

    Args:
        candidate_in_references: whether a candidate that is one of the photo's own captions stays among its
            references.
    """

    candidate_in_references: bool = False


class Vicr(capscore.CaptionBenchmark):
    """Captions of COCO and Flickr8k photos, rated by several people each."""

    VERSION = "1.0.0"
    BUILDER_CONFIG_CLASS = VicrConfig
    DESCRIPTION = (
        "68,217 ratings (1 to 5) of 15,646 captions of 9,990 photos of COCO and Flickr8k, gathered in a game."
    )
    CITATION = _CITATION
    HOMEPAGE = (
        "https://papers.nips.cc/paper_files/paper/2023/hash/"
        "c0b91f9a3587bf35287f41dba5d20233-Abstract-Datasets_and_Benchmarks.html"
    )
    LICENSE = "unknown; photos by their authors"
    FILES = {
        "ratings": capscore.AnnotationFile(
            # the last is the part of 249 captions that is public
            ("VICR.csv", "vicr.csv", "VICR_dataset.csv", "VICR_Sample250.csv"),
            source="the authors of the paper",
        ),
        **caption_files.COCO,
        **caption_files.FLICKR8K,
    }
    IMAGES = capscore.ImageFolders(
        ("images", "val2014", "Flicker8k_Dataset", "Flickr8k_Dataset/Flicker8k_Dataset", "Flickr8k_Dataset"),
        source="val2014.zip from https://cocodataset.org; Flickr8k by request from its authors",
    )
    SPLITS = ("train", "validation", "test")
    BUILDER_CONFIGS = [VicrConfig(name="default", language="en", description="all three splits")]
    COUNTS = {
        "default": {"train": {"rows": 10175}, "validation": {"rows": 2310}, "test": {"rows": 3161}},
    }

    def fields(self):
        return {
            "caption": datasets.Value("string"),
            "references": datasets.Sequence(datasets.Value("string")),
            "ratings": datasets.Sequence(datasets.Value("int64")),
            "language": datasets.Value("string"),
        }

    def rows(self, split):
        rated = list(self._rated(split))
        references = self._references({photo for photo, _, _ in rated})
        for photo, caption, ratings in rated:
            others = references.get(photo, [])
            if not self.config.candidate_in_references:
                own = caption_files.letters_and_digits(caption)
                others = [text for text in others if caption_files.letters_and_digits(text) != own]
            yield (
                f"{photo}|{caption}",
                {
                    "image_id": photo,
                    "caption": caption,
                    "references": others,
                    "ratings": ratings,
                    "language": "en",
                },
            )

    def count(self, rows):
        return {**super().count(rows), "ratings": sum(len(row["ratings"]) for row in rows)}

    def _rated(self, split):
        """(photo, caption, its ratings) of a split."""
        file = self.file("ratings")
        seen = {}
        for line, row in file.csv("image", "caption", "subset", "num_ratings", "ratings", "rating_2"):
            if row["subset"] not in _SPLITS:
                raise file.error(
                    f"'subset' is {row['subset']!r}, expected one of {', '.join(_SPLITS)}", line=line
                )
            if _SPLITS[row["subset"]] != split:
                continue
            # the first rating's column is called "ratings", the next ones "rating_2", "rating_3", …
            columns = [name for name in row if re.fullmatch(r"ratings|rating_\d+", name)]
            ratings = [
                file.integer(row[name], f"'{name}'", 1, 5, line=line) for name in columns if row[name].strip()
            ]
            if row["num_ratings"].strip() != str(len(ratings)):
                raise file.error(
                    f"'num_ratings' is {row['num_ratings']!r}, but the line has {len(ratings)} ratings",
                    line=line,
                )
            # the address of a photo, or its name
            photo = file.photo(row["image"].rpartition("/")[2], "the photo in 'image'", line=line)
            caption = file.caption(row["caption"], "'caption'", line=line)
            file.once(seen, f"{photo} {caption}", "the pair", line=line)
            yield photo, caption, ratings

    def _references(self, photos):
        coco = {photo for photo in photos if photo.startswith("COCO_")}
        return {
            **caption_files.references_of(self, coco, list(caption_files.COCO)),
            **caption_files.references_of(self, photos - coco, list(caption_files.FLICKR8K)),
        }
