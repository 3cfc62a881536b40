"""Regions of photos that captions may mention: finders, the choice among what they find, and embeddings.

In: RGB photos and an `Embedder`. Out: one `Regions` per photo (boxes in pixels, confidences, labels), or with
embeddings an `ImageRegions`. A photo is decoded once for all of its embeddings.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import TYPE_CHECKING

import numpy as np

from ..backbones.base import Backbone, fingerprint_of
from ..errors import InputError, Setting
from ..images.boxes import areas, check_boxes, normalised, overlaps, suppress

if TYPE_CHECKING:
    from PIL import Image

    from ..embedding.embedder import Embedder
    from .mark_calibration import MarkCalibration
    from .marks import PhotoFeatures

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
MAX_REMEMBERED = 1024  # images whose regions stay in memory from call to call, 230 MB on `embedded`
# content key of an image, and digest of the boxes that were given for it ("" for none)
_Key = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Regions:
    """Regions of one photo.

    Attributes:
        boxes: float64 (m, 4), left, top, right, bottom in pixels, within the photo.
        confidences: float64 (m,), in [0, 1]: the finder's confidence that the box shows an object.
    """

    boxes: np.ndarray
    confidences: np.ndarray
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: np.ndarray) -> Regions:
        return replace(
            self,
            boxes=self.boxes[indices],
            confidences=self.confidences[indices],
            labels=tuple(self.labels[index] for index in np.asarray(indices).tolist()),
        )

    @classmethod
    def unlabelled(cls, boxes: np.ndarray, confidences: np.ndarray) -> Regions:
        return cls(boxes, confidences, ("",) * len(boxes))


class RegionFinder(ABC):
    """Proposes regions of photos.

    Attributes:
        name: Name in signatures, such as "windows".
        fingerprint: Digest that changes whenever the regions of a photo could.
    """

    name: str
    fingerprint: str
    max_regions: int

    @abstractmethod
    def find(self, images: Sequence[Image.Image]) -> list[Regions]:
        """RGB photos → the regions of each, at most `max_regions`, most confident first."""


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
            for (top, bottom), (left, right) in product(rows, columns):
                boxes.append((left, top, right, bottom))
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
    """Finds boxes of objects, and windows that show what is around them, such as grass or sky."""

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


def load_finder(
    spec: str | RegionFinder, embedder: Embedder, calibration: MarkCalibration | None = None
) -> RegionFinder:
    """A finder of regions, by its name.

    "windows" are of several sizes, ranked by the backbone; "things" are boxes that the mark calibration finds
    in the backbone's feature map, then windows. A finder is returned as it is. Raises InputError for another
    name, or "things" without a mark calibration.
    """
    check_finder(spec)
    if isinstance(spec, RegionFinder):
        return spec
    if spec == "windows":
        return WindowFinder(embedder)
    if calibration is None:
        raise InputError(
            Setting("regions", "things"),
            f" needs a mark calibration, and there is none for the backbone {embedder.backbone.name!r}",
        )
    return ObjectFinder(embedder, calibration)


def check_finder(spec: str | RegionFinder) -> None:
    if not isinstance(spec, RegionFinder) and not (isinstance(spec, str) and spec in ("things", "windows")):
        raise InputError(
            Setting("regions", spec),
            ": expected 'things', 'windows' or a RegionFinder; pass boxes as `boxes`",
        )


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


@dataclass(frozen=True, eq=False)
class ImageRegions(Regions):
    """The m regions of an image that are scored.

    Attributes:
        size: Width and height of the image in pixels.
        features: What a mark calibration sees of the image; None without one.
    """

    embeddings: np.ndarray
    size: tuple[int, int]
    given: bool = False
    features: PhotoFeatures | None = None

    def take(self, indices: np.ndarray) -> ImageRegions:
        taken = {**vars(super().take(indices)), "embeddings": self.embeddings[indices]}
        return ImageRegions(**taken)

    @property
    def shares(self) -> np.ndarray:
        """float64 (m, 4), the boxes as shares of the image's width and height."""
        return normalised(self.boxes, self.size)


class RegionMaker:
    """Finds, chooses and embeds the regions of images, and remembers those of the latest images."""

    def __init__(
        self,
        embedder: Embedder,
        finder: RegionFinder,
        n: int,
        seed: int,
        calibration: MarkCalibration | None = None,
    ):
        self.embedder, self.finder, self.n, self.seed = embedder, finder, n, seed
        self.calibration = calibration
        self.remembered: OrderedDict[_Key, ImageRegions] = OrderedDict()

    def find(self, images: Sequence[Image.Image]) -> list[ImageRegions]:
        made = []
        for regions in self.embed(images, self.finder.find(images) if images else []):
            rows = unit_rows_of(self.embedder.backbone, regions.embeddings)
            made.append(regions.take(choose(regions, rows, n=self.n, seed=self.seed)))
        return made

    def embed(self, images: Sequence[Image.Image], found: Sequence[Regions]) -> list[ImageRegions]:
        """The regions of images with their embeddings, and the images' features."""
        embedded = self.embedder.regions(images, [regions.boxes for regions in found])
        columns = zip(images, found, embedded, self._features(images), strict=True)
        return [
            ImageRegions(**vars(regions), embeddings=rows, size=image.size, features=features)
            for image, regions, rows, features in columns
        ]

    def _features(self, images: Sequence[Image.Image]) -> Sequence[PhotoFeatures | None]:
        if self.calibration is None or not images:
            return [None] * len(images)
        import torch

        from .marks import PhotoFeatures

        network = self.calibration.network
        with torch.inference_mode():
            cells = network.reduce(self.embedder.maps(images).to(network.background.device))
        around = self.embedder.regions(images, [windows(image.size)[1:] for image in images])
        return [
            PhotoFeatures(row, rows.astype(np.float16))
            for row, rows in zip(cells.half().cpu().numpy(), around, strict=True)
        ]


def unit_rows_of(backbone: Backbone, rows: np.ndarray) -> np.ndarray:
    """Rows of a backbone, (n, d), with unit length; a zero row stays."""
    if backbone.unit_rows:
        return rows
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, 1.0, lengths)


class RegionReader:
    """Finds the regions of one call's images as the embedder decodes them (an `ImageReader`).

    `boxes` are given for each row, None where there are none. With on_error="skip", `failures` holds what is
    wrong with boxes, by row.
    """

    def __init__(self, maker: RegionMaker, boxes: Sequence[object] | None, on_error: str):
        self.maker, self.boxes, self.on_error = maker, boxes, on_error
        self.failures: dict[int, InputError] = {}
        self._rows: dict[_Key, list[int]] = {}
        self._missing: dict[str, list[_Key]] = {}
        self._found: dict[_Key, ImageRegions] = {}

    def wanted(self, keys: Sequence[str]) -> Collection[str]:
        for row, image in enumerate(keys):
            if image:
                boxes = self.boxes[row] if self.boxes else None
                digest = "" if boxes is None else fingerprint_of(_as_text(boxes))
                self._rows.setdefault((image, digest), []).append(row)
        for key in self._rows:
            if key in self.maker.remembered:
                self._found[key] = self.maker.remembered[key]
            else:
                self._missing.setdefault(key[0], []).append(key)
        return self._missing.keys()

    def look(self, images: Mapping[str, Image.Image]) -> None:
        missing = [*chain.from_iterable(self._missing[name] for name in images)]
        without_boxes = [key for key in missing if not key[1]]
        found = self.maker.find([images[name] for name, _ in without_boxes])
        self._found.update(zip(without_boxes, found, strict=True))
        for key in missing:
            if not key[1] or not self.boxes:
                continue
            image, rows = images[key[0]], self._rows[key]
            try:
                boxes = check_boxes(self.boxes[rows[0]], image.size, row=rows[0])
            except InputError as error:
                if self.on_error == "raise":
                    raise
                self.failures.update({row: error.at(row, "boxes") for row in rows})
                continue
            (regions,) = self.maker.embed([image], [Regions.unlabelled(boxes, np.ones(len(boxes)))])
            self._found[key] = replace(regions, given=True)

    def regions(self) -> dict[int, ImageRegions]:
        """Row → the regions of its image, for all rows that did not fail; remembers them."""
        remembered = self.maker.remembered
        for key, regions in self._found.items():
            remembered[key] = regions
            remembered.move_to_end(key)
        while len(remembered) > MAX_REMEMBERED:
            remembered.popitem(last=False)
        found: dict[int, ImageRegions] = {}
        for key, regions in self._found.items():
            found.update(dict.fromkeys(self._rows[key], regions))
        return found


def _as_text(boxes: object) -> str:
    """A text that different boxes do not share; an array inside a list would show only some digits."""
    boxes = boxes.tolist() if hasattr(boxes, "tolist") else boxes
    if isinstance(boxes, (list, tuple)):
        boxes = [box.tolist() if hasattr(box, "tolist") else box for box in boxes]
    try:
        return repr(boxes)
    except RecursionError:
        return "nested too deeply"  # no boxes, as `check_boxes` will say
