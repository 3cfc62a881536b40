"""Boxes on a photo: checks, normalised coordinates, overlaps, non-maximum suppression, crops.

In: boxes as (left, top, right, bottom) in pixels, counted from the upper left corner of the upright photo.
Out: float64 arrays (m, 4), indices, or cropped images.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError

if TYPE_CHECKING:
    from PIL import Image

MOST_GIVEN = 1_000  # boxes per photo: each is embedded, and attention takes the square of their number
CORNERS = "four finite numbers, left, top, right, bottom, in pixels"


def check_boxes(boxes: Any, size: tuple[int, int], *, row: int | None = None) -> np.ndarray:
    """Boxes from a user → float64 (m, 4), clipped to the photo.

    Args:
        boxes: m boxes (left, top, right, bottom) in pixels: lists, tuples, an array (m, 4) or a tensor. An
            empty list gives (0, 4).
        size: Width and height of the upright photo in pixels.
        row: Number of the boxes' row, for error messages.

    Raises:
        InputError: a box is not four finite numbers, is inverted or empty, or lies entirely outside the
            photo; the message has the number of the box, counted from 0. Or there are more than `MOST_GIVEN`.

    >>> check_boxes([[-5, 10, 40, 99.5]], (64, 48))
    array([[ 0., 10., 40., 48.]])
    >>> check_boxes([[0, 0, 8, 8], [30, 10, 20, 40]], (64, 48), row=2)
    Traceback (most recent call last):
    capscore.errors.InputError: row 2, boxes: box 1 is (30, 10, 20, 40): its right ...
    """
    checked = [_corners(box, number, row) for number, box in enumerate(_listed(boxes, row))]
    if not checked:
        return np.zeros((0, 4))
    array, (width, height) = np.array(checked, dtype=np.float64), size
    clipped = np.clip(array, 0.0, [width, height, width, height])
    outside = (clipped[:, 2] <= clipped[:, 0]) | (clipped[:, 3] <= clipped[:, 1])
    if outside.any():
        number = int(outside.argmax())
        raise _error(
            f"box {number} is {_shown(array[number])}: it lies outside the photo of {width} × {height}",
            row,
        )
    return clipped


def normalised(boxes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Boxes (m, 4) in pixels → float64 (m, 4) in [0, 1]: x divided by the photo's width, y by its height.

    InfoMetIC computes the positions of regions from them (Hu et al. 2023, section 3.1.2).

    >>> normalised(np.array([[16.0, 12.0, 64.0, 48.0]]), (64, 48))
    array([[0.25, 0.25, 1.  , 1.  ]])
    """
    width, height = size
    return np.asarray(boxes, np.float64).reshape(-1, 4) / np.array([width, height, width, height], np.float64)


def areas(boxes: np.ndarray) -> np.ndarray:
    """Boxes (m, 4) → float64 (m,), pixels squared."""
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def overlaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union of each box in `a` (n, 4) with each in `b` (m, 4): float64 (n, m) in [0, 1].

    The overlap is 0 if the union has no area.

    >>> overlaps(np.array([[0, 0, 2, 2]]), np.array([[1, 0, 3, 2], [0, 0, 2, 2], [5, 5, 6, 6]]))
    array([[0.33333333, 1.        , 0.        ]])
    """
    a = np.asarray(a, np.float64).reshape(-1, 1, 4)
    b = np.asarray(b, np.float64).reshape(1, -1, 4)
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    shared = sides.clip(min=0).prod(axis=-1)
    union = areas(a)[:, None] + areas(b)[None, :] - shared
    return np.divide(shared, union, out=np.zeros_like(union), where=union > 0)


def suppress(boxes: np.ndarray, confidences: np.ndarray, threshold: float) -> np.ndarray:
    """Greedy non-maximum suppression.

    The most confident box stays and removes all boxes that overlap it by more than the threshold, then the
    most confident of the rest does, and so on. Among equally confident boxes the first one in the list comes
    first.

    Args:
        boxes: (m, 4) in pixels.
        confidences: (m,).
        threshold: Intersection over union, in [0, 1], above which two boxes show the same thing.

    Returns:
        int64 indices of the boxes that stay, most confident first.

    >>> boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 9], [20, 20, 30, 30]])
    >>> suppress(boxes, np.array([0.5, 0.9, 0.1]), 0.5)
    array([1, 2])
    """
    # Importing torchvision's nms takes a hundred times longer than suppressing a photo's boxes.
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
    rest = np.argsort(-np.asarray(confidences, np.float64), kind="stable")
    kept: list[int] = []
    while rest.size:
        best, rest = rest[0], rest[1:]
        kept.append(int(best))
        rest = rest[overlaps(boxes[best], boxes[rest])[0] <= threshold]
    return np.array(kept, np.int64)


def crops(image: Image.Image, boxes: np.ndarray) -> list[Image.Image]:
    """Crops of the photo along boxes (m, 4), with every pixel that a box touches.

    A box narrower than a pixel still gives an image. Boxes must lie within the photo (see `check_boxes`).

    >>> from PIL import Image
    >>> [crop.size for crop in crops(Image.new("RGB", (64, 48)), np.array([[1.5, 2.0, 3.5, 2.2]]))]
    [(3, 1)]
    """
    return [
        image.crop((math.floor(left), math.floor(top), math.ceil(right), math.ceil(bottom)))
        for left, top, right, bottom in np.asarray(boxes, np.float64).reshape(-1, 4).tolist()
    ]


def _listed(boxes: Any, row: int | None) -> list[Any]:
    if isinstance(boxes, np.ndarray) or hasattr(boxes, "detach"):
        boxes = boxes.tolist()
    if not isinstance(boxes, Sequence) or isinstance(boxes, (str, bytes)):
        raise _error(f"{reprlib.repr(boxes)} is not a list of boxes, each of {CORNERS}", row)
    if len(boxes) == 4 and all(isinstance(number, Real) for number in boxes):
        raise _error(f"{reprlib.repr(list(boxes))} is one box, not a list of boxes: put it into a list", row)
    if len(boxes) > MOST_GIVEN:
        raise _error(f"{len(boxes):,} boxes for one photo; expected at most {MOST_GIVEN:,}", row)
    return list(boxes)


def _corners(box: Any, number: int, row: int | None) -> list[float]:
    if isinstance(box, np.ndarray) or hasattr(box, "detach"):
        box = box.tolist()
    if (
        not isinstance(box, Sequence)
        or isinstance(box, (str, bytes))
        or len(box) != 4
        or not all(isinstance(value, Real) and not isinstance(value, bool) for value in box)
    ):
        raise _error(f"box {number} is {reprlib.repr(box)}; expected {CORNERS}", row)
    try:
        corners = [float(value) for value in box]
    except OverflowError:  # a whole number with more digits than a float has
        raise _error(f"box {number} is {reprlib.repr(box)}; expected {CORNERS}", row) from None
    if not all(map(math.isfinite, corners)):
        raise _error(f"box {number} is {_shown(corners)}; expected {CORNERS}", row)
    left, top, right, bottom = corners
    for low, high, wrong in (
        (left, right, "its right is not right of its left"),
        (top, bottom, "its bottom is not below its top"),
    ):
        if high <= low:
            raise _error(f"box {number} is {_shown(corners)}: {wrong}; expected {CORNERS}", row)
    return corners


def _shown(corners: Sequence[float] | np.ndarray) -> str:
    return f"({', '.join(f'{float(value):g}' for value in corners)})"


def _error(message: str, row: int | None) -> InputError:
    return InputError(message, row=row, field="boxes")
