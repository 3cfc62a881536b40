"""Regions without a detector: windows of several sizes, ranked by their embeddings.

In: RGB photos and an `Embedder` of any backbone. Out: `Regions` without labels. The ranking needs no
training: a window around a thing is similar to the larger windows that contain it, which show the same thing,
and unlike the rest of the photo. A window of background is similar to the rest, and a window that shows
nothing clearly is unlike the windows around it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..backbones.base import fingerprint_of
from ..images.boxes import areas, overlaps, suppress
from .regions import MOST, RegionFinder, Regions

if TYPE_CHECKING:
    from PIL import Image

    from ..embedding.embedder import Embedder

# Side of a window divided by √(width · height) of the photo, and its shapes, width divided by height.
LAYOUT = ((0.75, (1.0,)), (0.5, (1.0, 0.5, 2.0)), (0.33, (1.0,)))
# Overlap, along a side, of neighbours of one size and shape.
SHARED_SIDE = 0.35
# A window's side is at least the photo's side divided by this, so that narrow photos have few windows.
MOST_ALONG = 6
# Overlap above which two windows show the same thing.
SAME = 0.5
# Factor by which a window must be larger than another to count as containing it.
LARGER = 1.2


class WindowFinder(RegionFinder):
    """Finds regions with the backbone's image tower alone; always finds some.

    About 35 windows per photo are embedded; among overlapping windows the most thing-like stay. The whole
    photo is not one of the regions, since InfoMetIC reads it anyway, unless it is the only window: a photo of
    one pixel has one region.

    Args:
        embedder: Embedder of the windows; its cache stores them.
        most: Maximum number of regions per photo.
    """

    name = "windows"

    def __init__(self, embedder: Embedder, *, most: int = MOST):
        self.embedder, self.most = embedder, most
        self.fingerprint = fingerprint_of(
            "windows", embedder.fingerprint, LAYOUT, SHARED_SIDE, MOST_ALONG, SAME, LARGER, most
        )

    def find(self, images: Sequence[Image.Image]) -> list[Regions]:
        """RGB photos → regions of each, the most thing-like first.

        Confidences are `contrast` mapped to [0, 1]: (1 + contrast / 2) / 2.
        """
        found = []
        listed = [windows(image.size) for image in images]
        for boxes, rows in zip(listed, self.embedder.regions(images, listed), strict=True):
            if len(boxes) > 1:
                values = contrast(boxes, rows)[1:]
                boxes = boxes[1:]
            else:
                values = np.zeros(1)
            confidences = (1.0 + values / 2.0) / 2.0
            kept = suppress(boxes, confidences, SAME)[: self.most]
            found.append(Regions(boxes[kept], confidences[kept], ("",) * len(kept)))
        return found


def windows(size: tuple[int, int]) -> np.ndarray:
    """The distinct windows of a photo, float64 (m, 4) in whole pixels; the first one is the whole photo.

    Args:
        size: Width and height of the photo in pixels.

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
    """How thing-like each window is: similar to windows that contain it, unlike windows beside it.

    It is the difference of two weighted mean cosines: with larger windows, weighted by the squared share of
    this window that they contain, and with all windows, weighted by the squared share of theirs outside this
    one.

    Args:
        boxes: (m, 4), the first one the whole photo, which contains all others.
        embeddings: (m, d), rows of unit length.

    Returns:
        float64 (m,) in [−2, 2]; meaningless for the whole photo, which no window contains.

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
    """Weighted mean of each row; 0 if all weights are 0."""
    total = weights.sum(axis=1)
    return np.divide((weights * values).sum(axis=1), total, out=np.zeros(len(total)), where=total > 1e-9)


def _intervals(length: int, side: float) -> list[tuple[int, int]]:
    """Evenly spaced intervals of about `side` pixels that cover 0…length, with distinct whole ends."""
    side = min(max(side, length / MOST_ALONG, 1.0), float(length))
    count = round((length - side) / ((1.0 - SHARED_SIDE) * side)) + 1
    starts = np.linspace(0.0, length - side, count) if count > 1 else np.array([(length - side) / 2.0])
    lefts = np.floor(starts + 0.5).astype(int)
    rights = np.maximum(np.floor(starts + side + 0.5).astype(int), lefts + 1).clip(max=length)
    return list(zip(np.minimum(lefts, rights - 1).tolist(), rights.tolist(), strict=True))
