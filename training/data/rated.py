"""Rated captions, and images with captions in many languages → their rows, and the batches of each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from capscore.errors import InputError, Setting
from training.data.batches import ShuffledBatches
from training.data.captions import embed_captions
from training.data.pictures import Pictures
from training.data.rows import Row
from training.data.source import Source, rows_of
from training.data.split import Split

# What a file is for: the contrast, the correlation, or only to measure on.
Role = Literal["data", "ratings", "validation"]


class FilePart(NamedTuple):
    """Some rows of a file, its name, and the numbers of each row's picture and photo.

    A photo has several pictures where several texts stand in for it.
    """

    file: str
    pictures: Sequence[int]
    photos: Sequence[int]
    rows: Sequence[Row]


class RatedRows:
    """The rows of several files, one file after the other, and their pictures.

    `files` are role and name of each file, `file` (n,) the number of each row's.
    """

    def __init__(self, sources: Mapping[Role, Sequence[Source]], pictures: Pictures):
        self.sources = sources
        listed = [(role, source) for role, several in sources.items() for source in several]
        self.captions = embed_captions(rows_of(source for _, source in listed), pictures)
        self.files = [(role, source.spec) for role, source in listed]
        self.file = np.repeat(np.arange(len(listed)), [source.n for _, source in listed])

    def parts(self, role: Role, chosen: np.ndarray) -> Iterator[FilePart]:
        """Of each file of a role, those of the chosen rows that are its own."""
        of = self.captions
        for number, (own, spec) in enumerate(self.files):
            if own == role:
                kept = chosen[self.file[chosen] == number].tolist()
                pictures, photos = of.image[kept].tolist(), of.photos.number[kept].tolist()
                yield FilePart(spec, pictures, photos, [of.rows[row] for row in kept])

    def of(self, role: Role) -> np.ndarray:
        """bool (n,): the rows of the files of a role."""
        return np.isin(self.file, [number for number, (own, _) in enumerate(self.files) if own == role])

    def check(self, split: Split) -> None:
        """Raise InputError if a photo is in both parts of a split; names the rows."""
        photo, rows = self.captions.photos.number, self.captions.rows
        shared = split.training[np.isin(photo[split.training], photo[split.validation])]
        if len(shared):
            other = split.validation[photo[split.validation] == photo[shared[0]]][0]
            both = f"{rows[shared[0]].where}: its photo is in the measured rows too, {rows[other].where}"
            mended = "; remove one of the two, or name the photo in a list "
            raise InputError(both, mended, Setting("hold_out"), field="validation")


class ShownRow(NamedTuple):
    """A row of a contrastive batch: an image, by its number, and one of its captions."""

    picture: int
    caption: str


class PearsonRow(NamedTuple):
    """A row of a Pearson batch: an image, by its number, a caption and its rating.

    Ratings are scaled to mean 0 and variance 1 in each file, which r does not depend on.
    """

    picture: int
    caption: str
    rating: float


class ContrastiveBatches:
    """Batches of distinct images, each with one caption. Every image appears once per epoch.

    The caption of an image is drawn anew in each epoch: first its language, among those that the image has
    captions in, then the caption. So a language with few captions per image counts as much as one with many.
    """

    def __init__(self, parts: Sequence[FilePart], *, batch_size: int, seed: int):
        grouped: dict[int, dict[str, list[ShownRow]]] = {}
        for part in parts:
            for picture, photo, row in zip(part.pictures, part.photos, part.rows, strict=True):
                shown = ShownRow(picture, row.caption)
                grouped.setdefault(photo, {}).setdefault(row.language, []).append(shown)
        self._grouped, self.seed = list(grouped.values()), seed
        self._order = ShuffledBatches(range(len(grouped)), batch_size, seed, compared=range(len(grouped)))
        self.steps_per_epoch = self._order.steps_per_epoch

    def batch(self, epoch: int, step: int) -> list[ShownRow]:
        # a draw depends on seed, epoch and image, not on the step
        draws = np.random.default_rng([self.seed, epoch, 1]).random((len(self._grouped), 2))
        rows = []
        for number in self._order.batch(epoch, step):
            by_language = self._grouped[number]
            language, caption = draws[number]
            shown = by_language[sorted(by_language)[int(language * len(by_language))]]
            rows.append(shown[int(caption * len(shown))])
        return rows


class PearsonBatches:
    """Batches of rated captions of one file each, since the scales of files may differ.

    In a batch whose ratings came out equal, one row gives way to a row with another rating, drawn from the
    whole file; so every batch has a correlation. InputError if all ratings of a file are equal.
    """

    def __init__(self, parts: Sequence[FilePart], *, batch_size: int, seed: int):
        self.seed = seed
        self._files: list[tuple[list[PearsonRow], ShuffledBatches]] = []
        for name, pictures, _, rows in parts:
            ratings = np.array([row.rating for row in rows], dtype=np.float64)
            if len(np.unique(ratings)) < 2:
                problem = f"the {len(ratings):,} training rows of {name} do not have two different ratings"
                raise InputError(f"{problem}: nothing can be learned from them", field="ratings")
            scaled = ((ratings - ratings.mean()) / ratings.std()).tolist()
            captions = [row.caption for row in rows]
            shuffled = ShuffledBatches(range(len(ratings)), batch_size, seed, compared=range(len(ratings)))
            self._files.append((list(map(PearsonRow, pictures, captions, scaled)), shuffled))
        self._steps: list[tuple[int, int]] = []
        for file, (_, shuffled) in enumerate(self._files):
            self._steps += [(file, step) for step in range(shuffled.steps_per_epoch)]
        self.steps_per_epoch = len(self._steps)

    def batch(self, epoch: int, step: int) -> list[PearsonRow]:
        """The rows of a step, counted from 0 in each epoch; the files' batches come in random order."""
        order = np.random.default_rng([self.seed, epoch, 2]).permutation(len(self._steps))
        file, step_of_file = self._steps[order[step]]
        rows, shuffled = self._files[file]
        chosen = [rows[number] for number in shuffled.batch(epoch, step_of_file)]
        ratings = {row.rating for row in chosen}
        if len(ratings) == 1:
            others = [row for row in rows if row.rating not in ratings]
            chance = np.random.default_rng([self.seed, epoch, 3, file, step_of_file])
            chosen[0] = others[chance.integers(len(others))]
        return chosen
