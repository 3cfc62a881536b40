"""Captions → a split into training and validation by image."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import xxhash

from capscore.benchmarks.protocols.results import counted
from capscore.errors import InputError, Setting
from training.data.captions import Captions


@dataclass(frozen=True, eq=False)
class Split:
    """Numbers of the captions to train on and to validate on; no image has captions in both parts.

    Attributes:
        training: int64, numbers of the training captions, in the order of the data.
        validation: int64, numbers of the validation captions, in the order of the data.
        n_held_out: Number of captions, in neither part, of images that a list holds out.
        n_left_out: In few-shot mode, number of captions that share an image with training and did not fit.
    """

    training: np.ndarray
    validation: np.ndarray
    n_held_out: int
    n_left_out: int


def split_by_image(
    captions: Captions,
    *,
    validation_share: float = 0.1,
    few_shot: int | None = None,
    hold_out: Collection[str] = (),
    seed: int = 0,
) -> Split:
    """Split captions so that each image is on one side only (Kim et al. 2023, App. B.1: 9:1).

    The side of an image depends on its content and the seed, not on the order of the data.

    Args:
        captions: Captions to split.
        validation_share: Share of the images for validation; 0 for none.
        few_shot: Number of captions to train on, with all others for validation (Kim et al. 2023, §5.4: 300,
            a 1:9 split of 3,000); None to split by `validation_share`.
        hold_out: Ids and names of images; all captions of these images are in neither part.
        seed: Seed of the split.

    Raises:
        InputError: nothing would be left to train on, there are fewer captions than `few_shot`, or a setting
            is out of range.
    """
    if isinstance(validation_share, bool) or not 0 <= validation_share < 1:
        raise InputError(
            Setting("validation_share", validation_share), ": expected a share from 0 to below 1"
        )
    if few_shot is not None and (isinstance(few_shot, bool) or few_shot < 1):
        raise InputError(Setting("few_shot", few_shot), ": expected a number of captions, at least 1")
    n_images = len(captions.keys)
    held = np.zeros(n_images, dtype=bool)
    if hold_out:
        wanted = frozenset(hold_out)
        named = np.fromiter((not wanted.isdisjoint(names) for names in captions.names), bool, len(captions))
        held[captions.image[named]] = True
    free = np.flatnonzero(~held)
    if not len(free):
        raise InputError(
            f"all {n_images:,} images are on the list of images to hold out: nothing is left to train on"
        )
    order = free[np.argsort([_place(captions.keys[image], seed) for image in free], kind="stable")]
    rows_of = np.argsort(captions.image, kind="stable")
    starts = np.searchsorted(captions.image[rows_of], np.arange(n_images + 1))
    n_held_out = int(held[captions.image].sum())
    if few_shot is not None:
        return _few_shot(captions, order, rows_of, starts, few_shot, n_held_out)

    n_validation = round(validation_share * len(order))
    if validation_share and not n_validation and len(order) > 1:
        n_validation = 1
    if n_validation == len(order):
        raise InputError(
            Setting("validation_share", validation_share),
            f" of {counted(len(order), 'image')} puts all captions in the validation split: nothing is left "
            "to train on",
        )
    in_validation = np.zeros(n_images, dtype=bool)
    in_validation[order[:n_validation]] = True
    is_validation = in_validation[captions.image]
    is_held = held[captions.image]
    return Split(
        training=np.flatnonzero(~is_validation & ~is_held),
        validation=np.flatnonzero(is_validation),
        n_held_out=n_held_out,
        n_left_out=0,
    )


def _few_shot(
    captions: Captions,
    order: np.ndarray,
    rows_of: np.ndarray,
    starts: np.ndarray,
    few_shot: int,
    n_held_out: int,
) -> Split:
    training: list[int] = []
    images = iter(order.tolist())
    n_left_out = 0
    for image in images:
        rows = rows_of[starts[image] : starts[image + 1]].tolist()
        taken = rows[: few_shot - len(training)]
        training += taken
        n_left_out += len(rows) - len(taken)
        if len(training) == few_shot:
            break
    validation = [row for image in images for row in rows_of[starts[image] : starts[image + 1]].tolist()]
    if len(training) < few_shot or not validation:
        n = len(training) + n_left_out + len(validation)
        raise InputError(
            Setting("few_shot", few_shot),
            f": {counted(n, 'caption')} are not enough to train on that many and to validate on others",
        )
    return Split(
        training=np.sort(np.array(training, dtype=np.int64)),
        validation=np.sort(np.array(validation, dtype=np.int64)),
        n_held_out=n_held_out,
        n_left_out=n_left_out,
    )


def _place(key: str, seed: int) -> int:
    return xxhash.xxh3_64_intdigest(f"{seed}|{key}".encode())
