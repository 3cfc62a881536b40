"""Boxes on a photo: checks, normalised coordinates, overlaps, non-maximum suppression, crops.

A box is (left, top, right, bottom) in pixels, counted from the upper left corner of the upright photo.
"""

from __future__ import annotations

import math
import reprlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError

if TYPE_CHECKING:
    from PIL import Image

MAX_BOXES = 1_000  # per photo: each is embedded, and attention takes the square of their number


def check_boxes(boxes: object, size: tuple[int, int], *, row: int | None = None) -> np.ndarray:
    """Boxes from a user → float64 (m, 4), clipped to the photo.

    Raises:
        InputError: a box is not four finite numbers, has no area, or lies outside the photo; the boxes are
            shares of the photo, from 0 to 1; or there are more than `MAX_BOXES`.

    >>> check_boxes([[-5, 10, 40, 99.5]], (64, 48))
    array([[ 0., 10., 40., 48.]])
    >>> check_boxes([[0, 0, 8, 8], [30, 10, 20, 40]], (64, 48), row=2)
    Traceback (most recent call last):
    capscore.errors.InputError: row 2, boxes: box 1 is [30, 10, 20, 40]: expected ...
    """

    def refuse(what: str) -> InputError:
        return InputError(what, row=row, field="boxes")

    listed = boxes.tolist() if hasattr(boxes, "tolist") else boxes
    if not isinstance(listed, (list, tuple)) or (listed and all(map(_is_number, listed))):
        raise refuse(f"expected a list of boxes (left, top, right, bottom), got {reprlib.repr(listed)}")
    if len(listed) > MAX_BOXES:
        raise refuse(f"{len(listed):,} boxes for one photo; expected at most {MAX_BOXES:,}")
    if _are_shares(listed) and max(size) > 1:
        raise refuse(
            f"the boxes lie within one pixel, such as {reprlib.repr(listed[0])}: they look like shares of "
            f"the photo; expected pixels: multiply left and right by {size[0]}, top and bottom by {size[1]}"
        )
    clipped = np.zeros((len(listed), 4))
    for number, given in enumerate(listed):
        box = given.tolist() if hasattr(given, "tolist") else given
        shown = f"box {number} is {reprlib.repr(box)}"
        if not isinstance(box, (list, tuple)) or len(box) != 4 or not all(map(_is_number, box)):
            raise refuse(f"{shown}: expected four finite numbers, left, top, right, bottom, in pixels")
        left, top, right, bottom = map(float, box)
        if left >= right or top >= bottom:
            raise refuse(f"{shown}: expected left below right, and top below bottom, in pixels")
        clipped[number] = np.clip((left, top, right, bottom), 0.0, (*size, *size))
        if (clipped[number, :2] >= clipped[number, 2:]).any():
            raise refuse(f"{shown}: it lies outside the photo of {size[0]} × {size[1]}")
    return clipped


def _are_shares(boxes: Any) -> bool:
    """Whether all boxes lie within one pixel, with some room for what detectors round."""
    try:
        numbers = np.array([[*box] for box in boxes], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):  # no boxes, as the check of each will say
        return False
    return numbers.ndim == 2 and numbers.shape[1] == 4 and bool((np.abs(numbers) <= 1.05).all())


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number, and no larger than a float can be."""
    try:
        return not isinstance(value, (bool, str, bytes)) and math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False


def normalised(boxes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Boxes (m, 4) in pixels → float64 (m, 4) in [0, 1]: x divided by the photo's width, y by its height."""
    return np.asarray(boxes, np.float64).reshape(-1, 4) / np.array([*size, *size], np.float64)


def areas(boxes: np.ndarray) -> np.ndarray:
    """Boxes (m, 4) → float64 (m,), pixels squared."""
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def overlaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union of each box in `a` (n, 4) with each in `b` (m, 4): float64 (n, m) in [0, 1]."""
    a = np.asarray(a, np.float64).reshape(-1, 1, 4)
    b = np.asarray(b, np.float64).reshape(1, -1, 4)
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    shared = sides.clip(min=0).prod(axis=-1)
    union = areas(a)[:, None] + areas(b)[None, :] - shared
    return np.divide(shared, union, out=np.zeros_like(union), where=union > 0)


def suppress(boxes: np.ndarray, confidences: np.ndarray, threshold: float) -> np.ndarray:
    """Greedy non-maximum suppression: int64 indices of the boxes that stay, most confident first.

    Args:
        confidences: (m,). Among equally confident boxes the first one in the list comes first.
        threshold: Intersection over union above which the less confident of two boxes is removed.
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
    """Crops of the photo along boxes (m, 4) within it, with every pixel that a box touches."""
    return [
        image.crop((math.floor(left), math.floor(top), math.ceil(right), math.ceil(bottom)))
        for left, top, right, bottom in np.asarray(boxes, np.float64).reshape(-1, 4).tolist()
    ]
