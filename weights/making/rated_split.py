"""Flickr8k's rated photos → 700 whose ratings may be trained on, and 300 that are measured on.

Rule: the Flickr numbers of the rated photos, those of ExpertAnnotations.txt and CrowdFlowerAnnotations.txt,
are sorted by the SHA-256 digest of the number in decimal digits. The first 700 are for training, the others
are held out. It was written down before the first run, and depends on nothing but the numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.flickr8k_captions import listed_photos
from capscore.errors import InputError
from weights.making.photo_names import Photo, photo_of

FILES = ("ExpertAnnotations.txt", "CrowdFlowerAnnotations.txt")
N_TRAINING = 700


@dataclass(frozen=True)
class RatedSplit:
    """Numbers of the rated photos.

    Attributes:
        training: Photos whose ratings may be trained on.
        held_out: Photos that are measured on.
    """

    training: frozenset[int]
    held_out: frozenset[int]

    def refuse_held_out(self, names: Iterable[str], source: str) -> None:
        """Raise if a photo among training rows is held out.

        Args:
            names: Name of each row's photo, in the order of the rows.
            source: Data set or file that the rows are from.

        Raises:
            InputError: a photo is held out, or a name has no number; names the photo and the row.
        """
        for row, name in enumerate(names):
            photo = _photo(name, row, source)
            if photo.number in self.held_out:
                raise InputError(
                    f"{photo} ({name}) may not be trained on: it is one of the {len(self.held_out)} "
                    f"rated photos "
                    "that are measured on. Remove the row",
                    row=row,
                    field=source,
                )


def split_numbers(numbers: Iterable[int], n_training: int = N_TRAINING) -> RatedSplit:
    """Split Flickr numbers by the rule above.

    Args:
        numbers: Numbers of the rated photos; each counts once.
        n_training: Number of photos for training.

    Raises:
        InputError: there are not more photos than `n_training`, so that none would be held out.

    >>> split = split_numbers(range(10), n_training=7)
    >>> sorted(split.training), sorted(split.held_out)
    ([0, 1, 3, 4, 7, 8, 9], [2, 5, 6])
    """
    ordered = sorted(set(numbers), key=lambda number: hashlib.sha256(str(number).encode()).hexdigest())
    if len(ordered) <= n_training:
        raise InputError(f"{len(ordered)} rated photos: expected more than the {n_training} for training")
    return RatedSplit(frozenset(ordered[:n_training]), frozenset(ordered[n_training:]))


def rated_split(flickr8k: Path) -> RatedSplit:
    """The split of the rated photos in Flickr8k's files.

    Args:
        flickr8k: Folder with `FILES`.

    Raises:
        AnnotationError: a file is missing or damaged.
    """
    names = [name for file in FILES for name in listed_photos(AnnotationSource(flickr8k / file))]
    return split_numbers(_photo(name, row, "rated photos").number for row, name in enumerate(names))


def _photo(name: str, row: int, source: str) -> Photo:
    photo = photo_of(name)
    if photo is None or photo.collection != "flickr":
        raise InputError(f"{name!r:.80} has no Flickr number", row=row, field=source)
    return photo
