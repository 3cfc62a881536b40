"""Regions of photos that captions may mention, and the interface of the finders that propose them.

In: RGB photos. Out: one `Regions` per photo: boxes in pixels, confidences, labels. `load_finder` loads a
finder by name: "windows" needs no weights besides the backbone's; detectors come from transformers or
torchvision.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..backbones.base import fingerprint_of
from ..errors import InputError, Setting
from ..images.boxes import areas, overlaps, suppress

if TYPE_CHECKING:
    from PIL import Image

    from ..embedding.embedder import Embedder
    from .mark_calibration import MarkCalibration


# Number of boxes that the paper takes from its detector (Hu et al. 2023, section 4.1).
MOST = 100
KINDS = ("things", "windows", "detr", "owlv2", "grounding-dino", "torchvision")
# Kinds that look for the things that they are told to find.
OPEN_VOCABULARY = ("owlv2", "grounding-dino")


@dataclass(frozen=True, eq=False)
class Regions:
    """Regions of one photo.

    Attributes:
        boxes: float64 (m, 4), left, top, right, bottom in pixels, within the photo.
        confidences: float64 (m,), in [0, 1]: the finder's confidence that the box shows a thing.
        labels: m names of the things, "" if the finder does not name them.

    Raises:
        InputError: the shapes of the arrays do not agree.
    """

    boxes: np.ndarray
    confidences: np.ndarray
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        boxes, confidences = np.shape(self.boxes), np.shape(self.confidences)
        if not len(boxes) == 2 or boxes[1] != 4 or not boxes[:1] == confidences == (len(self.labels),):
            raise InputError(
                f"regions with boxes of shape {boxes}, confidences of shape {confidences} and "
                f"{len(self.labels)} labels; expected (m, 4), (m,) and m"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: np.ndarray) -> Regions:
        """The regions at these indices, in this order.

        >>> both = Regions(np.array([[0, 0, 2, 2], [1, 1, 3, 3]]), np.array([0.2, 0.9]), ("cat", "dog"))
        >>> both.take(np.array([1])).labels
        ('dog',)
        """
        labels = tuple(self.labels[index] for index in np.asarray(indices).tolist())
        return Regions(self.boxes[indices], self.confidences[indices], labels)


class RegionFinder(ABC):
    """Proposes regions of photos.

    Attributes:
        name: Name in signatures, such as "windows" or "detr:facebook/detr-resnet-50".
        fingerprint: Digest that changes whenever the regions of a photo could.
        most: Maximum number of regions per photo.
        names: Things that it was told to look for; () if it takes no names.
    """

    name: str
    fingerprint: str
    most: int
    names: tuple[str, ...] = ()

    @abstractmethod
    def find(self, images: Sequence[Image.Image]) -> list[Regions]:
        """RGB photos → the regions of each, at most `most`, most confident first.

        The regions of a photo do not depend on the other photos. A detector may find nothing.
        """


def check_names(kind: str, names: Sequence[str] | None) -> tuple[str, ...]:
    """Names for a kind of finder, stripped and without repetitions; () if it takes none.

    Raises:
        InputError: names for a finder that takes none, none for one that needs them, or an empty one.
    """
    if kind not in OPEN_VOCABULARY:
        if names is not None:
            raise InputError(
                f"{names!r:.200} do not go with ",
                Setting("regions", kind),
                f", which takes none: names are for {' and '.join(OPEN_VOCABULARY)}",
                field="names",
            )
        return ()
    listed = [] if names is None or isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if not listed or not all(isinstance(name, str) for name in listed):
        raise InputError(
            Setting("regions", kind),
            f" finds what it is told to look for: expected a list of names such as ['dog', 'red ball'], got "
            f"{names!r:.200}",
            field="names",
        )
    stripped = [name.strip() for name in listed]
    if not all(stripped):
        raise InputError(f"name {stripped.index('')}, counted from 0, is empty", field="names")
    dotted = [name for name in stripped if kind == "grounding-dino" and "." in name]
    if dotted:
        raise InputError(
            f"{dotted[0]!r} has a full stop, which separates the names for {kind!r}", field="names"
        )
    return tuple(dict.fromkeys(stripped))


# Maximum number of Lloyd's steps; a hundred rows converge in about ten.
STEPS = 100


def choose(regions: Regions, embeddings: np.ndarray, n: int = 20, seed: int = 0) -> np.ndarray:
    """The n regions that represent a photo.

    The embeddings are clustered by k-means (with k-means++ starts) into n clusters, and the most confident
    region of each is chosen. If some regions look the same, so that there are fewer clusters, the most
    confident of the others are added. The choice depends on the seed, but not on the order of the regions.

    Args:
        regions: m regions.
        embeddings: (m, d), one row per region.
        n: Number of regions to choose, at least 1.
        seed: Seed of the clusters' starts.

    Returns:
        n int64 indices in ascending order; all m if there are no more than n regions.

    Raises:
        InputError: n is below 1, or there is not one embedding per region.

    >>> boxes = [[0.0, 0, 4, 4], [0, 0, 4, 5], [9, 9, 12, 12]]
    >>> regions = Regions(np.array(boxes), np.array([0.3, 0.6, 0.2]), ("", "", ""))
    >>> choose(regions, np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), n=2)
    array([1, 2])
    """
    if n < 1:
        raise InputError(Setting("n", n), ": expected at least 1 region to choose")
    embeddings = np.asarray(embeddings, np.float64)
    if embeddings.ndim != 2 or len(embeddings) != len(regions):
        raise InputError(
            f"embeddings of shape {embeddings.shape} for {len(regions)} regions; expected one row per region"
        )
    if len(regions) <= n:
        return np.arange(len(regions))

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
    centres = _starts(rows, n, random)
    clusters = np.full(len(rows), -1)
    for _ in range(STEPS):
        nearest = _distances(rows, centres).argmin(axis=1)
        if (nearest == clusters).all():
            break
        clusters = nearest
        sizes = np.bincount(clusters, minlength=len(centres))
        sums = np.zeros_like(centres)
        np.add.at(sums, clusters, rows)
        # An empty cluster keeps its centre.
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    return clusters


def _starts(rows: np.ndarray, n: int, random: np.random.Generator) -> np.ndarray:
    """k-means++: each centre is drawn by its squared distance from the previous ones."""
    centres = rows[[random.integers(len(rows))]]
    while len(centres) < n:
        away = _distances(rows, centres).min(axis=1)
        away[away < 1e-12] = 0.0  # rounding: a row has no distance from itself
        if not away.any():
            break  # no further row differs from all centres
        drawn = random.choice(len(rows), p=away / away.sum())
        centres = np.concatenate([centres, rows[[drawn]]])
    return centres


def _distances(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared distances (m, n)."""
    squares = (rows**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)[None, :]
    return (squares - 2.0 * rows @ centres.T).clip(min=0.0)


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


# Confidence that a box of a thing must have, and how many a photo has at most.
MIN_CONFIDENCE, MAX_OBJECTS = 0.35, 12
# Overlap above which two boxes show the same thing.
SAME_OBJECT = 0.45
# Least side of a box, as a share of the photo's.
MIN_SIDE = 0.04
# Windows are less certain to hold a thing than any box of one: their confidences end below `MIN_CONFIDENCE`.
_WINDOWS = 0.3


class ObjectFinder(RegionFinder):
    """Finds boxes of things, and windows that show what is around them, such as grass or sky.

    Args:
        embedder: Embedder of the windows, whose backbone has a feature map.
        judge: Mark calibration of that backbone.
        most: Maximum number of regions per photo.
    """

    name = "things"

    def __init__(self, embedder: Embedder, judge: MarkCalibration, *, most: int = MOST):
        self.embedder, self.judge, self.most = embedder, judge, most
        self.windows = WindowFinder(embedder, most=most)
        self.fingerprint = fingerprint_of(
            "things",
            self.windows.fingerprint,
            judge.name,
            MIN_CONFIDENCE,
            MAX_OBJECTS,
            SAME_OBJECT,
            MIN_SIDE,
            _WINDOWS,
            most,
        )

    def find(self, images: Sequence[Image.Image]) -> list[Regions]:
        """RGB photos → regions of each: things, the most confident first, then windows."""
        import torch

        if not images:
            return []
        maps = self.embedder.maps(images)
        height, width = maps.shape[-2:]
        with torch.inference_mode():
            logits, shares = self.judge.judge.thing_boxes(self.judge.judge.reduce(maps), height, width)
        confidence = logits.sigmoid().double().cpu().numpy()
        boxes = shares.double().cpu().numpy().clip(0.0, 1.0)
        return [
            self._joined(_things(own, certain, image.size), around)
            for image, own, certain, around in zip(
                images, boxes, confidence, self.windows.find(images), strict=True
            )
        ]

    def _joined(self, things: Regions, around: Regions) -> Regions:
        boxes = np.concatenate([things.boxes, around.boxes])
        confidences = np.concatenate([things.confidences, around.confidences * _WINDOWS])
        kept = suppress(boxes, confidences, SAME_OBJECT)[: self.most]
        return Regions(boxes[kept], confidences[kept], ("",) * len(kept))


def _things(shares: np.ndarray, confidence: np.ndarray, size: tuple[int, int]) -> Regions:
    """Boxes of cells (c, 4) as shares → the boxes of things in pixels."""
    sides = shares[:, 2:] - shares[:, :2]
    sure = (confidence >= MIN_CONFIDENCE) & (sides >= MIN_SIDE).all(axis=1)
    # whole pixels, each box with an area
    pixels = np.round(shares[sure] * np.tile(np.array(size, np.float64), 2))
    pixels[:, :2] = np.minimum(pixels[:, :2], np.array(size) - 1.0)
    pixels[:, 2:] = np.maximum(pixels[:, 2:], pixels[:, :2] + 1.0)
    kept = suppress(pixels, confidence[sure], SAME_OBJECT)[:MAX_OBJECTS]
    return Regions(pixels[kept], confidence[sure][kept], ("",) * len(kept))
