"""Regions of photos that captions may mention: finders without a detector, and the choice among regions.

In: RGB photos and an `Embedder`. Out: one `Regions` per photo: boxes in pixels, confidences, labels.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..backbones.base import fingerprint_of
from ..images.boxes import areas, overlaps, suppress

if TYPE_CHECKING:
    from PIL import Image

    from ..embedding.embedder import Embedder
    from .mark_calibration import MarkCalibration

# Number of boxes that the paper takes from its detector (Hu et al. 2023, section 4.1).
MAX_REGIONS = 100

# Side of a window divided by √(width · height) of the photo, and its shapes, width divided by height.
LAYOUT = ((0.75, (1.0,)), (0.5, (1.0, 0.5, 2.0)), (0.33, (1.0,)))
# Overlap, along a side, of neighbours of one size and shape.
_SHARED_SIDE = 0.35
# A window's side is at least the photo's side divided by this, so that narrow photos have few windows.
_MAX_ALONG = 6
# Overlap above which two windows show the same thing.
SAME_WINDOW = 0.5
# Factor by which a window must be larger than another to count as containing it.
_LARGER = 1.2

# Least confidence of an object's box, greatest number of them, overlap above which two boxes show the same
# object, and least side of a box, as a share of the photo's.
_MIN_CONFIDENCE, _MAX_OBJECTS, _SAME_OBJECT, _MIN_SIDE = 0.35, 12, 0.45, 0.04
# Windows are less certain to hold an object than any box of one: this brings their confidences below.
_WINDOW_CONFIDENCE = 0.3

_MAX_STEPS = 100  # of Lloyd's algorithm; a hundred rows converge in about ten


@dataclass(frozen=True, eq=False)
class Regions:
    """Regions of one photo.

    Attributes:
        boxes: float64 (m, 4), left, top, right, bottom in pixels, within the photo.
        confidences: float64 (m,), in [0, 1]: the finder's confidence that the box shows an object.
        labels: m names of the objects, "" if the finder does not name them.
    """

    boxes: np.ndarray
    confidences: np.ndarray
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: np.ndarray) -> Regions:
        """The regions at these indices, in this order."""
        labels = tuple(self.labels[index] for index in np.asarray(indices).tolist())
        return Regions(self.boxes[indices], self.confidences[indices], labels)

    @classmethod
    def unlabelled(cls, boxes: np.ndarray, confidences: np.ndarray) -> Regions:
        """Regions without names."""
        return cls(boxes, confidences, ("",) * len(boxes))


class RegionFinder(ABC):
    """Proposes regions of photos.

    Attributes:
        name: Name in signatures, such as "windows" or "detr:facebook/detr-resnet-50".
        fingerprint: Digest that changes whenever the regions of a photo could.
        max_regions: Maximum number of regions per photo.
        names: Names of objects that it looks for; () if it takes none.
    """

    name: str
    fingerprint: str
    max_regions: int
    names: tuple[str, ...] = ()

    @abstractmethod
    def find(self, images: Sequence[Image.Image]) -> list[Regions]:
        """RGB photos → the regions of each, at most `max_regions`, most confident first.

        The regions of a photo do not depend on the other photos. A detector may find nothing.
        """


class WindowFinder(RegionFinder):
    """Finds regions with the backbone's image tower alone; always finds some.

    About 35 windows per photo are ranked by their `contrast`; among overlapping windows the best stay. The
    whole photo is not one of the regions, unless it is the only window, as of a photo of one pixel.
    """

    name = "windows"

    def __init__(self, embedder: Embedder, *, max_regions: int = MAX_REGIONS):
        self.embedder, self.max_regions = embedder, max_regions
        settings = (LAYOUT, _SHARED_SIDE, _MAX_ALONG, SAME_WINDOW, _LARGER, max_regions)
        self.fingerprint = fingerprint_of("windows", embedder.fingerprint, *settings)

    def find(self, images: Sequence[Image.Image]) -> list[Regions]:
        """RGB photos → regions of each; confidences are `contrast` mapped to [0, 1]."""
        found = []
        listed = [windows(image.size) for image in images]
        for boxes, rows in zip(listed, self.embedder.regions(images, listed), strict=True):
            values = np.zeros(1)
            if len(boxes) > 1:
                boxes, values = boxes[1:], contrast(boxes, rows)[1:]
            regions = Regions.unlabelled(boxes, (1.0 + values / 2.0) / 2.0)
            found.append(regions.take(suppress(boxes, regions.confidences, SAME_WINDOW)[: self.max_regions]))
        return found


def windows(size: tuple[int, int]) -> np.ndarray:
    """The distinct windows of a photo of this size, float64 (m, 4); the first one is the whole photo."""
    width, height = size
    boxes = [(0, 0, width, height)]
    for share, shapes in LAYOUT:
        for shape in shapes:
            side = share * math.sqrt(width * height)
            columns = _intervals(width, side * math.sqrt(shape))
            rows = _intervals(height, side / math.sqrt(shape))
            boxes += [(left, top, right, bottom) for top, bottom in rows for left, right in columns]
    return np.array(list(dict.fromkeys(boxes)), np.float64)


def _intervals(length: int, side: float) -> list[tuple[int, int]]:
    """Evenly spaced intervals of about `side` pixels that cover 0…length, with distinct whole ends."""
    side = min(max(side, length / _MAX_ALONG, 1.0), float(length))
    count = round((length - side) / ((1.0 - _SHARED_SIDE) * side)) + 1
    starts = np.linspace(0.0, length - side, count) if count > 1 else np.array([(length - side) / 2.0])
    lefts = np.floor(starts + 0.5).astype(int)
    rights = np.maximum(np.floor(starts + side + 0.5).astype(int), lefts + 1).clip(max=length)
    return list(zip(np.minimum(lefts, rights - 1).tolist(), rights.tolist(), strict=True))


def contrast(boxes: np.ndarray, embeddings: np.ndarray) -> np.ndarray:
    """How object-like each window is: similar to windows that contain it, unlike windows beside it.

    It is the difference of two weighted mean cosines: with larger windows, weighted by the squared share of
    this window that they contain, and with all windows, weighted by the squared share of theirs outside this
    one. From boxes (m, 4), the first one the whole photo, and unit rows (m, d): float64 (m,) in [−2, 2].
    """
    rows = np.asarray(embeddings, np.float64)
    cosines = rows @ rows.T
    extents, shares = areas(boxes), overlaps(boxes, boxes)
    common = shares * (extents[:, None] + extents[None, :]) / (1.0 + shares)
    contains = (common / extents[:, None]) ** 2 * (extents[None, :] > _LARGER * extents[:, None])
    beside = (1.0 - common / extents[None, :]).clip(0.0) ** 2
    return _mean(cosines, contains) - _mean(cosines, beside)


def _mean(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted mean of each row; 0 if all weights are 0."""
    total = weights.sum(axis=1)
    return np.divide((weights * values).sum(axis=1), total, out=np.zeros(len(total)), where=total > 1e-9)


class ObjectFinder(RegionFinder):
    """Finds boxes of objects, and windows that show what is around them, such as grass or sky.

    The boxes come from the feature map of the photo's own embedding, so they cost two small convolutions.
    """

    name = "things"

    def __init__(self, embedder: Embedder, calibration: MarkCalibration, *, max_regions: int = MAX_REGIONS):
        self.embedder, self.network, self.max_regions = embedder, calibration.network, max_regions
        self.windows = WindowFinder(embedder, max_regions=max_regions)
        settings = (_MIN_CONFIDENCE, _MAX_OBJECTS, _SAME_OBJECT, _MIN_SIDE, _WINDOW_CONFIDENCE, max_regions)
        self.fingerprint = fingerprint_of("things", self.windows.fingerprint, calibration.name, *settings)

    def find(self, images: Sequence[Image.Image]) -> list[Regions]:
        """RGB photos → regions of each: objects, the most confident first, then windows."""
        import torch

        if not images:
            return []
        maps = self.embedder.maps(images)
        with torch.inference_mode():
            logits, shares = self.network.object_boxes(self.network.reduce(maps), *maps.shape[-2:])
        confidences = logits.sigmoid().double().cpu().numpy()
        boxes = shares.double().cpu().numpy().clip(0.0, 1.0)
        found = []
        parts = zip(images, boxes, confidences, self.windows.find(images), strict=True)
        for image, cells, confidence, around in parts:
            objects = _objects(cells, confidence, image.size)
            both = Regions.unlabelled(
                np.concatenate([objects.boxes, around.boxes]),
                np.concatenate([objects.confidences, around.confidences * _WINDOW_CONFIDENCE]),
            )
            found.append(both.take(suppress(both.boxes, both.confidences, _SAME_OBJECT)[: self.max_regions]))
        return found


def _objects(shares: np.ndarray, confidence: np.ndarray, size: tuple[int, int]) -> Regions:
    """Boxes of cells (c, 4) as shares → the boxes of objects in whole pixels, each with an area."""
    sides = shares[:, 2:] - shares[:, :2]
    sure = (confidence >= _MIN_CONFIDENCE) & (sides >= _MIN_SIDE).all(axis=1)
    pixels = np.round(shares[sure] * np.tile(np.array(size, np.float64), 2))
    pixels[:, :2] = np.minimum(pixels[:, :2], np.array(size) - 1.0)
    pixels[:, 2:] = np.maximum(pixels[:, 2:], pixels[:, :2] + 1.0)
    regions = Regions.unlabelled(pixels, confidence[sure])
    return regions.take(suppress(pixels, confidence[sure], _SAME_OBJECT)[:_MAX_OBJECTS])


def choose(regions: Regions, embeddings: np.ndarray, n: int = 20, seed: int = 0) -> np.ndarray:
    """The n diverse regions that represent a photo (Hu et al. 2023, section 4.1).

    The embeddings (m, d) are clustered by k-means (with k-means++ starts from `seed`) into n clusters, and
    the most confident region of each is chosen. If there are fewer clusters, the most confident of the others
    are added. The choice does not depend on the order of the regions. Returns int64 indices in ascending
    order; all m if there are no more than n regions.
    """
    if len(regions) <= n:
        return np.arange(len(regions))
    embeddings = np.asarray(embeddings, np.float64)
    # Most confident first, ties broken by box, label and embedding, so that the rows alone fix the order.
    _, label_ranks = np.unique(np.array(regions.labels, dtype=str), return_inverse=True)
    keys = np.column_stack([-regions.confidences, regions.boxes, label_ranks, embeddings])
    order = np.lexsort(keys.T[::-1])
    clusters = _k_means(embeddings[order], n, np.random.default_rng(seed))
    _, firsts = np.unique(clusters, return_index=True)
    chosen = np.zeros(len(order), dtype=bool)
    chosen[firsts] = True
    chosen[np.flatnonzero(~chosen)[: n - len(firsts)]] = True
    return np.sort(order[chosen])


def _k_means(rows: np.ndarray, n: int, random: np.random.Generator) -> np.ndarray:
    """Cluster of each row, int64 (m,); a cluster may stay empty."""
    centres = rows[[random.integers(len(rows))]]
    while len(centres) < n:  # k-means++: centres are drawn by their squared distance from the previous ones
        away = _distances(rows, centres).min(axis=1)
        away[away < 1e-12] = 0.0  # rounding: a row has no distance from itself
        if not away.any():
            break  # no further row differs from all centres
        centres = np.concatenate([centres, rows[[random.choice(len(rows), p=away / away.sum())]]])
    clusters = np.full(len(rows), -1)
    for _ in range(_MAX_STEPS):
        nearest = _distances(rows, centres).argmin(axis=1)
        if (nearest == clusters).all():
            break
        clusters = nearest
        sizes = np.bincount(clusters, minlength=len(centres))[:, None]
        sums = np.zeros_like(centres)
        np.add.at(sums, clusters, rows)
        centres = np.where(sizes > 0, sums / np.maximum(sizes, 1), centres)
    return clusters


def _distances(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared distances (m, n)."""
    squares = (rows**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)[None, :]
    return (squares - 2.0 * rows @ centres.T).clip(min=0.0)
