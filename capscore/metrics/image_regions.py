"""Decoded images → their regions with embeddings.

An image is decoded once, for its own embedding and for its regions: `RegionReading` reads the
images that an `Embedder` decodes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backbones.base import fingerprint_of
from ..errors import InputError
from ..images.boxes import check_boxes, normalised
from ..infometic.regions import Regions, choose, windows

if TYPE_CHECKING:
    from PIL import Image

    from ..backbones.base import Backbone
    from ..embedding.embedder import Embedder
    from ..infometic.mark_calibration import MarkCalibration
    from ..infometic.marks import PhotoFeatures
    from ..infometic.regions import RegionFinder

REMEMBERED = 1024  # images whose regions stay in memory from call to call, 230 MB on `embedded`
# an image, and the boxes that were given for it ("" for none)
_Place = tuple[str, str]


@dataclass(frozen=True, eq=False)
class ImageRegions:
    """The m regions of an image that are scored.

    Attributes:
        boxes: float64 (m, 4), left, top, right, bottom in pixels of the upright image.
        shares: float (m, 4), the boxes as shares of the image's width and height.
        confidences: float64 (m,), confidence of the finder; 1 for given boxes.
        labels: m names; "" where there is none.
        embeddings: float32 (m, d).
        size: Width and height of the image in pixels.
        given: Whether the boxes were given.
        sight: What a judge of marks sees of the image; None without a judge.
    """

    boxes: np.ndarray
    shares: np.ndarray
    confidences: np.ndarray
    labels: tuple[str, ...]
    embeddings: np.ndarray
    size: tuple[int, int]
    given: bool = False
    sight: PhotoFeatures | None = None


class RegionMaker:
    """Finds, chooses and embeds the regions of images, and remembers those of the latest images.

    Args:
        embedder: Embedder of the regions.
        finder: Finder of regions, for images without given boxes.
        n: Number of regions to choose.
        seed: Seed of the choice.
        judge: Mark calibration, which looks at the images too; None for none.
    """

    def __init__(
        self,
        embedder: Embedder,
        finder: RegionFinder,
        *,
        n: int,
        seed: int,
        judge: MarkCalibration | None = None,
    ):
        self.embedder, self.finder, self.n, self.seed = embedder, finder, n, seed
        self.judge = judge
        self.remembered: OrderedDict[_Place, ImageRegions] = OrderedDict()

    def reading(self, boxes: Sequence[Any] | None, on_error: str) -> RegionReading:
        """A reader of the images of rows; `boxes` has the given boxes of each row, if there are any."""
        return RegionReading(self, boxes, on_error)

    def find(self, images: Sequence[Image.Image]) -> list[ImageRegions]:
        """The regions of images, found and chosen."""
        found = self.finder.find(images) if images else []
        embedded = self.embedder.regions(images, [regions.boxes for regions in found])
        return [
            replace(self._choose(_image_regions(image, regions, rows), regions), sight=sight)
            for image, regions, rows, sight in zip(images, found, embedded, self._sights(images), strict=True)
        ]

    def at(self, image: Image.Image, boxes: Any, row: int) -> ImageRegions:
        """The regions at given boxes.

        Raises:
            InputError: a box that cannot be used; names the row.
        """
        checked = check_boxes(boxes, image.size, row=row)
        given = Regions(checked, np.ones(len(checked)), ("",) * len(checked))
        (rows,) = self.embedder.regions([image], [checked])
        (sight,) = self._sights([image])
        return replace(_image_regions(image, given, rows), given=True, sight=sight)

    def _sights(self, images: Sequence[Image.Image]) -> list[PhotoFeatures | None]:
        """What the judge sees of images: always all of an image, whatever its regions are."""
        if self.judge is None or not images:
            return [None] * len(images)
        import torch

        from ..infometic.marks import PhotoFeatures

        judge = self.judge.judge
        with torch.inference_mode():
            cells = judge.reduce(self.embedder.maps(images).to(judge.background.device))
        shown = self.embedder.regions(images, [windows(image.size)[1:] for image in images])
        return [
            PhotoFeatures(own, rows.astype(np.float16))
            for own, rows in zip(cells.half().cpu().numpy(), shown, strict=True)
        ]

    def _choose(self, all_regions: ImageRegions, found: Regions) -> ImageRegions:
        places = np.zeros(0, np.int64)
        if len(found):
            rows = unit_rows_of(self.embedder.backbone, all_regions.embeddings)
            places = np.asarray(choose(found, rows, n=self.n, seed=self.seed), np.int64)
        return replace(
            all_regions,
            boxes=all_regions.boxes[places],
            shares=all_regions.shares[places],
            confidences=all_regions.confidences[places],
            labels=tuple(all_regions.labels[place] for place in places),
            embeddings=all_regions.embeddings[places],
        )


def _image_regions(image: Image.Image, regions: Regions, rows: np.ndarray) -> ImageRegions:
    shares = normalised(regions.boxes, image.size)
    return ImageRegions(regions.boxes, shares, regions.confidences, regions.labels, rows, image.size)


def unit_rows_of(backbone: Backbone, rows: np.ndarray) -> np.ndarray:
    """Rows of a backbone, (n, d), with unit length; a zero row stays."""
    if backbone.unit_rows:
        return rows
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, 1.0, lengths)


class RegionReading:
    """Finds the regions of one call's images as the embedder decodes them (an `ImageReader`).

    Attributes:
        failures: Row → what is wrong with its boxes; empty with on_error="raise".
    """

    def __init__(self, maker: RegionMaker, boxes: Sequence[Any] | None, on_error: str):
        self.maker, self.on_error = maker, on_error
        self.boxes = boxes or ()
        self.failures: dict[int, InputError] = {}
        self._rows: dict[_Place, list[int]] = {}
        self._open: dict[str, list[_Place]] = {}
        self._found: dict[_Place, ImageRegions] = {}

    def wanted(self, keys: Sequence[str]) -> Collection[str]:
        """Keys of the images whose regions are not known yet; `keys` has one per row, "" for a failed row."""
        for row, key in enumerate(keys):
            if key:
                boxes = self.boxes[row] if self.boxes else None
                given = "" if boxes is None else fingerprint_of(_plain(boxes))
                self._rows.setdefault((key, given), []).append(row)
        for place in self._rows:
            if place in self.maker.remembered:
                self._found[place] = self.maker.remembered[place]
            else:
                self._open.setdefault(place[0], []).append(place)
        return self._open.keys()

    def look(self, images: Mapping[str, Image.Image]) -> None:
        """Find the regions of some decoded images, by key."""
        free = []
        for place in [place for key in images for place in self._open[key]]:
            key, given = place
            if not given:
                free.append(place)
                continue
            row = self._rows[place][0]
            try:
                self._found[place] = self.maker.at(images[key], self.boxes[row], row)
            except InputError as error:
                if self.on_error == "raise":
                    raise
                self.failures.update({same: error.at(same, "boxes") for same in self._rows[place]})
        found = self.maker.find([images[key] for key, _ in free])
        self._found.update(zip(free, found, strict=True))

    def regions(self) -> dict[int, ImageRegions]:
        """Row → the regions of its image, for all rows that did not fail; remembers them."""
        remembered = self.maker.remembered
        for place, regions in self._found.items():
            remembered[place] = regions
            remembered.move_to_end(place)
        while len(remembered) > REMEMBERED:
            remembered.popitem(last=False)
        return {row: regions for place, regions in self._found.items() for row in self._rows[place]}


def _plain(boxes: Any) -> str:
    """A text that different boxes do not share; an array inside a list would show only some digits."""
    plain = boxes.tolist() if hasattr(boxes, "tolist") else boxes
    if isinstance(plain, (list, tuple)):
        plain = [box.tolist() if hasattr(box, "tolist") else box for box in plain]
    try:
        return repr(plain)
    except RecursionError:
        return "nested too deeply"  # no boxes, as `check_boxes` will say
