"""Captions → a split into training and validation by image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xxhash

from capscore.errors import InputError, Setting
from capscore.tables import counted
from training.data.photos import Photos, held_out


@dataclass(frozen=True, eq=False)
class Split:
    """Numbers of the captions to train on and to validate on; no image has captions in both parts.

    `held_out` says what a list holds out of both, and `n_left_out` how many captions share an image with
    few-shot training and did not fit.
    """

    training: np.ndarray
    validation: np.ndarray
    held_out: str = ""
    n_left_out: int = 0

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.training), len(self.validation)

    def described(self, n_measured: int) -> str:
        """The parts in words, for people; `n_measured` of the validation captions are measured."""
        parts = [
            f"{counted(len(self.training), 'caption')} to train on",
            f"{len(self.validation):,} for validation, {n_measured:,} of them measured",
        ]
        if self.held_out:
            parts.append(f"held out: {self.held_out}")
        if self.n_left_out:
            parts.append(f"{self.n_left_out:,} left out: they share an image with few-shot training")
        return "; ".join(parts)


def split_by_image(
    photos: Photos,
    *,
    validation_share: float = 0.1,
    few_shot: int | None = None,
    hold_out: Sequence[str] = (),
    measured: np.ndarray | None = None,
    seed: int = 0,
) -> Split:
    """Split captions so that each image is on one side only (Kim et al. 2023, App. B.1: 9:1).

    The side of an image depends on its content and the seed, not on the order of the data. `few_shot` is the
    number of captions to train on, with all others for validation (§5.4: 300, a 1:9 split of 3,000). Images
    that `hold_out` names are in neither part. `measured` (n,) says which captions to validate on.
    """
    share = Setting("validation_share", validation_share)
    if not 0 <= validation_share < 1:
        raise InputError(share, ": expected a share from 0 to below 1")
    if few_shot is not None and few_shot < 1:
        raise InputError(Setting("few_shot", few_shot), ": expected a number of captions, at least 1")
    image, n_images = photos.number, len(photos.keys)
    held, said = np.zeros(n_images, bool), ""
    if hold_out:
        held, said = held_out(photos, hold_out)
    free = np.flatnonzero(~held)
    if not len(free):
        problem = "images are on the list of images to hold out: nothing is left to train on"
        raise InputError(f"all {n_images:,} {problem}")
    if measured is not None:
        return Split(np.flatnonzero(~measured & ~held[image]), np.flatnonzero(measured & ~held[image]), said)
    drawn = [xxhash.xxh3_64_intdigest(f"{seed}|{photos.keys[number]}".encode()) for number in free.tolist()]
    order = free[np.argsort(drawn, kind="stable")]
    if few_shot is not None:
        return _few_shot(image, order, n_images, few_shot, said)
    n_validation = round(validation_share * len(order))
    if validation_share and len(order) > 1:
        n_validation = max(n_validation, 1)
    if n_validation == len(order):
        images = counted(len(order), "image")
        raise InputError(share, f" of {images} puts all captions in validation: nothing is left to train on")
    validates = np.isin(image, order[:n_validation])
    return Split(np.flatnonzero(~validates & ~held[image]), np.flatnonzero(validates), said)


def _few_shot(image: np.ndarray, order: np.ndarray, n_images: int, few_shot: int, said: str) -> Split:
    """The first captions in the order of their images; those of later images are for validation."""
    rank = np.full(n_images, -1)
    rank[order] = np.arange(len(order))
    rows = np.argsort(rank[image], kind="stable")
    rows = rows[rank[image[rows]] >= 0]
    training, rest = rows[:few_shot], rows[few_shot:]
    shared = np.isin(image[rest], image[training])
    if len(training) < few_shot or shared.all():
        problem = f": {counted(len(rows), 'caption')} are too few to train on that many and to validate"
        raise InputError(Setting("few_shot", few_shot), problem)
    return Split(np.sort(training), np.sort(rest[~shared]), said, int(shared.sum()))
