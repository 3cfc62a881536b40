"""Photos without numbers → the photos that are held out and look the same.

A photo of a collection of labels has no number by which it could be recognised in a test set. It is compared
by what it shows instead: the correlation of two small grey pictures, which stays near 1 for another size,
another encoder and other brightness.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from capscore.images.load import load_image

_SIDE = 16
# Two versions of one photo correlate more: halved and saved again as JPEG, each of 300 kept 0.9987 or more.
# Of 6,181 labelled photos and 18,034 of Flickr8k, COCO and VOC the most alike two had 0.982.
ALIKE = 0.985


class LookAlike(NamedTuple):
    """Two photos that look the same.

    Attributes:
        row: 0-based number of the first among those that were asked for.
        other: File of the second.
        correlation: Correlation of their small pictures, at most 1.
    """

    row: int
    other: Path
    correlation: float


def small_picture(image: Image.Image) -> np.ndarray:
    """The 16 × 16 grey levels of an image, centred and of unit length, float32 (256,); zeros for one colour.

    >>> ramp = Image.linear_gradient("L")
    >>> round(float(small_picture(ramp) @ small_picture(ramp.resize((90, 90)))), 4)
    1.0
    """
    grey = image.convert("L").resize((_SIDE, _SIDE), Image.Resampling.BOX)
    levels = np.asarray(grey, dtype=np.float32).ravel()
    levels = levels - levels.mean()
    length = np.linalg.norm(levels)
    return levels / length if length > 0 else levels


def look_alikes(files: Sequence[Path], held: Sequence[Path], alike: float = ALIKE) -> list[LookAlike]:
    """The photos among `files` that look like one that is held out, each with the one that is most alike.

    Raises:
        ImageError: a photo cannot be read.
    """
    if not files or not held:
        return []
    own, others = (np.stack([small_picture(load_image(file)) for file in part]) for part in (files, held))
    correlations = own @ others.T
    nearest = correlations.argmax(axis=1)
    found = correlations[np.arange(len(files)), nearest]
    return [
        LookAlike(int(row), held[nearest[row]], float(found[row])) for row in np.flatnonzero(found > alike)
    ]
