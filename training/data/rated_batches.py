"""Rated captions, and images with captions in many languages → the batches of each epoch and step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from capscore.errors import InputError
from training.data.batches import ShuffledBatches


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

    Args:
        pictures, captions, languages: Number of the image, text and language of each caption.
        batch_size: Most images per batch.
        seed: Seed for orders and draws.

    Raises:
        InputError: fewer than two images: there is nothing to contrast.
    """

    def __init__(
        self,
        pictures: Sequence[int],
        captions: Sequence[str],
        languages: Sequence[str],
        *,
        batch_size: int,
        seed: int,
    ):
        grouped: dict[int, dict[str, list[str]]] = {}
        for picture, caption, language in zip(pictures, captions, languages, strict=True):
            grouped.setdefault(picture, {}).setdefault(language, []).append(caption)
        if len(grouped) < 2:
            raise InputError(
                f"contrastive batches need 2 images or more; the training captions show {len(grouped)}",
                field="data",
            )
        self._grouped, self.seed = list(grouped.items()), seed
        self._order = ShuffledBatches(range(len(grouped)), batch_size, seed)
        self.steps_per_epoch = self._order.steps_per_epoch

    def batch(self, epoch: int, step: int) -> list[ShownRow]:
        """The rows of a step, counted from 0 in each epoch."""
        # a draw depends on seed, epoch and image, not on the step
        draws = np.random.default_rng([self.seed, epoch, 1]).random((len(self._grouped), 2))
        rows = []
        for number in self._order.batch(epoch, step):
            picture, by_language = self._grouped[number]
            language, caption = draws[number]
            captions = by_language[sorted(by_language)[int(language * len(by_language))]]
            rows.append(ShownRow(picture, captions[int(caption * len(captions))]))
        return rows


class PearsonBatches:
    """Batches of rated captions of one file each, none of them with equal ratings alone.

    Files are not mixed: their scales may differ. In a batch whose ratings came out equal, one row gives way
    to a row with another rating, drawn from the whole file; so every batch has a correlation.

    Args:
        sources: For each file the pictures, captions and ratings of its training rows; each (n,).
        batch_size: Most rows per batch; at least 2.
        seed: Seed for orders and draws.

    Raises:
        InputError: a file has fewer than two rows, or equal ratings alone, or `batch_size` is below 2.

    >>> batches = PearsonBatches([([0, 1, 2, 3], "abcd", [1, 1, 1, 5])], batch_size=2, seed=0)
    >>> [len({row.rating for row in batches.batch(0, step)}) for step in range(2)]
    [2, 2]
    """

    def __init__(
        self,
        sources: Sequence[tuple[Sequence[int], Sequence[str], Sequence[float]]],
        *,
        batch_size: int,
        seed: int,
    ):
        if batch_size < 2:
            raise InputError(f"a batch of {batch_size} ratings has no correlation; expected at least 2")
        self.seed = seed
        self._files: list[tuple[list[PearsonRow], ShuffledBatches]] = []
        for number, (pictures, captions, given) in enumerate(sources, start=1):
            ratings = np.asarray(given, dtype=np.float64)
            if len(set(given)) < 2:
                raise InputError(
                    f"the {len(ratings):,} training rows of file {number} of the ratings have "
                    f"{len(set(given))} different ratings: nothing can be learned from them",
                    field="ratings",
                )
            scaled = (ratings - ratings.mean()) / ratings.std()
            shuffled = ShuffledBatches(range(len(ratings)), batch_size, seed)
            # a remainder of one row would have no correlation: a file's batches differ by at most one row
            shuffled.steps_per_epoch = max(1, min(shuffled.steps_per_epoch, len(ratings) // 2))
            self._files.append((list(map(PearsonRow, pictures, captions, scaled.tolist())), shuffled))
        self._steps = [
            (file, step)
            for file, (_, shuffled) in enumerate(self._files)
            for step in range(shuffled.steps_per_epoch)
        ]
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
