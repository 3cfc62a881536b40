"""Objects handed over as images, as error messages name them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from PIL import Image

from ..errors import ImageError, Part, address_name


def image_error(*message: Part) -> ImageError:
    """An error about an image."""
    return ImageError(*message, field="image")


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
        pass
    if image is None or isinstance(image, (bool, int, float)):
        return repr(image)
    return f"an object of type {type(image).__name__}"
