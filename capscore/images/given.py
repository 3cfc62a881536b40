"""Objects handed over as images: their names in error messages, and locks, since threads may share them."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
from PIL import Image

from ..errors import ImageError, Part, address_name

# PIL images and open files may be shared by threads, and neither can be read by two at once.
_LOCKS = [threading.Lock() for _ in range(64)]


def image_error(*message: Part) -> ImageError:
    """An error about an image."""
    return ImageError(*message, field="image")


def lock_of(thing: object) -> threading.Lock:
    """The lock of an object."""
    return _LOCKS[(id(thing) >> 4) % len(_LOCKS)]


def describe(image: Any) -> str:
    """A short description of an object for error messages."""
    if isinstance(image, (str, os.PathLike)):
        text = address_name(os.fsdecode(image))
        return repr(text if len(text) <= 200 else f"{text[:60]}…({len(text)} characters)")
    if isinstance(image, (bytes, bytearray, memoryview)):
        return f"{type(image).__name__} of length {len(image)}"
    if isinstance(image, Image.Image):
        return f"PIL image (mode {image.mode}, {image.width} × {image.height})"
    try:
        if hasattr(image, "shape") and hasattr(image, "dtype"):
            kind = "array" if isinstance(image, np.ndarray) else type(image).__name__
            return f"{kind} of shape {tuple(image.shape)} and dtype {str(image.dtype).removeprefix('torch.')}"
    except Exception:  # a nested tensor has no shape, and raises when it is asked
        return f"an object of type {type(image).__name__}"
    if image is None or isinstance(image, (bool, int, float)):
        return repr(image)
    return f"an object of type {type(image).__name__}"
