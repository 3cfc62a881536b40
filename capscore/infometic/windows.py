"""Regions without a detector: windows of several sizes, ranked by what the image tower sees in them.

In: RGB photos and an `Embedder`, whose backbone may be any. Out: `Regions` without labels. The cue needs no
training: a window with a thing in it looks like the larger windows that contain it, since they show the same
thing, and unlike the rest of the photo. A window of background looks like the rest; one that shows nothing
clearly looks unlike the windows around it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..backbones.base import fingerprint_of
from .boxes import areas, crops, overlaps, suppress
from .regions import MOST, RegionFinder, Regions

if TYPE_CHECKING:
    from PIL import Image

    from ..embedding.embedder import Embedder

# Side of a window as a share of √(width · height) of the photo, and its shapes as width over height.
LAYOUT = ((0.75, (1.0,)), (0.5, (1.0, 0.5, 2.0)), (0.33, (1.0,)))
# How much neighbours of one size and shape overlap along a side.
SHARED_SIDE = 0.35
# A window is no shorter than a photo's side over this: a strip of a photo has no hundreds of windows.
MOST_ALONG = 6
# Above this overlap two windows show the same.
SAME = 0.5
# A window has to be this much larger than another for it to be one that contains it.
LARGER = 1.2


class WindowFinder(RegionFinder):
    """Finds regions with nothing but the backbone's image tower; always has an answer.

    About 35 windows of a photo go through the image tower; the most thing-like of those that overlap stay.
    The whole photo is none of the regions, as InfoMetIC sees it anyway, unless there is no other window: a
    photo of one pixel has one region.

    Args:
        embedder: embeds the windows; its cache keeps them.
        most: how many regions of a photo to return at most.
    """

    name = "windows"

    def __init__(self, embedder: Embedder, *, most: int = MOST):
        self.embedder, self.most = embedder, most
        self.fingerprint = fingerprint_of(
            "windows", embedder.fingerprint, LAYOUT, SHARED_SIDE, MOST_ALONG, SAME, LARGER, most
        )

    def find(self, images: Sequence[Image.Image]) -> list[Regions]:
        """RGB photos → regions of each, most thing-like first.

        Confidences are `contrast` brought to [0, 1]: (1 + contrast / 2) / 2.
        """
        found = []
        for image in images:
            boxes = windows(image.size)
            rows = self.embedder.images(crops(image, boxes))
            if len(boxes) > 1:
                values = contrast(boxes, rows.matrix[rows.index])[1:]
                boxes = boxes[1:]
            else:
                values = np.zeros(1)
            confidences = (1.0 + values / 2.0) / 2.0
            kept = suppress(boxes, confidences, SAME)[: self.most]
            found.append(Regions(boxes[kept], confidences[kept], ("",) * len(kept)))
        return found


def windows(size: tuple[int, int]) -> np.ndarray:
    """The windows of a photo, float64 (m, 4) on whole pixels, all different; the first is the whole photo.

    Args:
        size: width and height of the photo in pixels.

    >>> windows((1, 1))
    array([[0., 0., 1., 1.]])
    >>> len(windows((500, 375)))
    34
    """
    width, height = size
    boxes = [(0, 0, width, height)]
    for share, shapes in LAYOUT:
        for shape in shapes:
            side = share * math.sqrt(width * height)
            columns = _intervals(width, side * math.sqrt(shape))
            rows = _intervals(height, side / math.sqrt(shape))
            boxes += [(left, top, right, bottom) for top, bottom in rows for left, right in columns]
    return np.array(list(dict.fromkeys(boxes)), np.float64)


def contrast(boxes: np.ndarray, embeddings: np.ndarray) -> np.ndarray:
    """How thing-like each window is: like the windows that contain it, unlike what lies beside it.

    The difference of two weighted mean cosines. A larger window weighs how much of this one it contains,
    squared; any window weighs how much of it lies outside this one, squared.

    Args:
        boxes: (m, 4), the first one the whole photo, which contains all others.
        embeddings: (m, d), rows of unit length.

    Returns:
        float64 (m,), in [−2, 2]; of the whole photo, which nothing contains, it says nothing.

    >>> boxes = np.array([[0, 0, 4, 4], [0, 0, 2, 2], [2, 2, 4, 4]])
    >>> thing, grass = [1.0, 0.0], [0.0, 1.0]
    >>> contrast(boxes, np.array([thing, thing, grass]))[1:]
    array([0.64, 0.  ])
    """
    rows = np.asarray(embeddings, np.float64)
    cosines = rows @ rows.T
    extents, shares = areas(boxes), overlaps(boxes, boxes)
    common = shares * (extents[:, None] + extents[None, :]) / (1.0 + shares)
    contains = (common / extents[:, None]) ** 2 * (extents[None, :] > LARGER * extents[:, None])
    beside = (1.0 - common / extents[None, :]).clip(0.0) ** 2
    return _mean(cosines, contains) - _mean(cosines, beside)


def _mean(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted mean of each row; 0 where nothing weighs."""
    total = weights.sum(axis=1)
    return np.divide((weights * values).sum(axis=1), total, out=np.zeros(len(total)), where=total > 1e-9)


def _intervals(length: int, side: float) -> list[tuple[int, int]]:
    """Evenly spread intervals of about `side` pixels that cover 0…length, their ends whole and apart."""
    side = min(max(side, length / MOST_ALONG, 1.0), float(length))
    count = round((length - side) / ((1.0 - SHARED_SIDE) * side)) + 1
    starts = np.linspace(0.0, length - side, count) if count > 1 else np.array([(length - side) / 2.0])
    lefts = np.floor(starts + 0.5).astype(int)
    rights = np.maximum(np.floor(starts + side + 0.5).astype(int), lefts + 1).clip(max=length)
    return list(zip(np.minimum(lefts, rights - 1).tolist(), rights.tolist(), strict=True))
