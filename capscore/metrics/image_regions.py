"""Decoded images → their regions with embeddings; an image is decoded once for all of its embeddings."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backbones.base import Backbone, fingerprint_of
from ..errors import InputError
from ..images.boxes import check_boxes, normalised
from ..infometic.regions import RegionFinder, Regions, choose, windows

if TYPE_CHECKING:
    from PIL import Image

    from ..embedding.embedder import Embedder
    from ..infometic.mark_calibration import MarkCalibration
    from ..infometic.marks import PhotoFeatures

MAX_REMEMBERED = 1024  # images whose regions stay in memory from call to call, 230 MB on `embedded`
# content key of an image, and digest of the boxes that were given for it ("" for none)
_Key = tuple[str, str]


@dataclass(frozen=True, eq=False)
class ImageRegions(Regions):
    """The m regions of an image that are scored.

    Attributes:
        embeddings: float32 (m, d).
        size: Width and height of the image in pixels.
        given: Whether the boxes were given.
        features: What a mark calibration sees of the image; None without one.
    """

    embeddings: np.ndarray
    size: tuple[int, int]
    given: bool = False
    features: PhotoFeatures | None = None

    @property
    def shares(self) -> np.ndarray:
        """float64 (m, 4), the boxes as shares of the image's width and height."""
        return normalised(self.boxes, self.size)


class RegionMaker:
    """Finds, chooses and embeds the regions of images, and remembers those of the latest images.

    Args:
        embedder: Embedder of the regions.
        finder: Finder of regions, for images without given boxes.
        n, seed: Number of regions to choose, and seed for the choice.
        calibration: Mark calibration, which needs features of the images; None for none.
    """

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
        """The regions of images, found and chosen."""
        made = []
        for regions in self.embed(images, self.finder.find(images) if images else []):
            rows = unit_rows_of(self.embedder.backbone, regions.embeddings)
            chosen = choose(regions, rows, n=self.n, seed=self.seed)
            taken = vars(Regions.take(regions, chosen))
            made.append(replace(regions, embeddings=regions.embeddings[chosen], **taken))
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

        from ..infometic.marks import PhotoFeatures

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

    def __init__(self, maker: RegionMaker, boxes: Sequence[Any] | None, on_error: str):
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
        missing = [key for name in images for key in self._missing[name]]
        without_boxes = [key for key in missing if not key[1]]
        found = self.maker.find([images[name] for name, _ in without_boxes])
        self._found.update(zip(without_boxes, found, strict=True))
        for key in missing:
            if key[1] and self.boxes:
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
        return {row: regions for key, regions in self._found.items() for row in self._rows[key]}


def _as_text(boxes: Any) -> str:
    """A text that different boxes do not share; an array inside a list would show only some digits."""
    boxes = boxes.tolist() if hasattr(boxes, "tolist") else boxes
    if isinstance(boxes, (list, tuple)):
        boxes = [box.tolist() if hasattr(box, "tolist") else box for box in boxes]
    try:
        return repr(boxes)
    except RecursionError:
        return "nested too deeply"  # no boxes, as `check_boxes` will say
