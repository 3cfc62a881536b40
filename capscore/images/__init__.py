"""Any way a person hands over an image → its RGB pixels, one by one or as a sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..files.lazy import lazy_attributes

if TYPE_CHECKING:
    from .load import content_key, load_image

__all__ = ["content_key", "load_image"]

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {"content_key": "load", "load_image": "load"},
)
