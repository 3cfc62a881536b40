"""Regions with things in them: boxes that the judge finds in the backbone's feature map, then windows.

In: RGB photos, an `Embedder` of a backbone with a feature map, and its judge. Out: `Regions` without labels.
The map is that of the photo's own embedding, so finding things costs two small convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..backbones.base import fingerprint_of
from ..images.boxes import suppress
from .judge_folder import LoadedJudge
from .regions import MOST, RegionFinder, Regions
from .windows import WindowFinder

if TYPE_CHECKING:
    from PIL import Image

    from ..embedding.embedder import Embedder

# Confidence that a box of a thing must have, and how many a photo has at most.
LEAST, MOST_THINGS = 0.35, 12
# Overlap above which two boxes show the same thing.
SAME = 0.45
# Least side of a box, as a share of the photo's.
SMALLEST = 0.04
# Windows are less certain to hold a thing than any box of one: their confidences end below `LEAST`.
_WINDOWS = 0.3


class ThingFinder(RegionFinder):
    """Finds boxes of things, and windows that show what is around them, such as grass or sky.

    Args:
        embedder: Embedder of the windows, whose backbone has a feature map.
        judge: Judge of that backbone.
        most: Maximum number of regions per photo.
    """

    name = "things"

    def __init__(self, embedder: Embedder, judge: LoadedJudge, *, most: int = MOST):
        self.embedder, self.judge, self.most = embedder, judge, most
        self.windows = WindowFinder(embedder, most=most)
        self.fingerprint = fingerprint_of(
            "things", self.windows.fingerprint, judge.name, LEAST, MOST_THINGS, SAME, SMALLEST, _WINDOWS, most
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
        kept = suppress(boxes, confidences, SAME)[: self.most]
        return Regions(boxes[kept], confidences[kept], ("",) * len(kept))


def _things(shares: np.ndarray, confidence: np.ndarray, size: tuple[int, int]) -> Regions:
    """Boxes of cells (c, 4) as shares → the boxes of things in pixels."""
    sides = shares[:, 2:] - shares[:, :2]
    sure = (confidence >= LEAST) & (sides >= SMALLEST).all(axis=1)
    # whole pixels, each box with an area
    pixels = np.round(shares[sure] * np.tile(np.array(size, np.float64), 2))
    pixels[:, :2] = np.minimum(pixels[:, :2], np.array(size) - 1.0)
    pixels[:, 2:] = np.maximum(pixels[:, 2:], pixels[:, :2] + 1.0)
    kept = suppress(pixels, confidence[sure], SAME)[:MOST_THINGS]
    return Regions(pixels[kept], confidence[sure][kept], ("",) * len(kept))
