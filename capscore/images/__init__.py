"""Images in any form → RGB pixels; columns of images as sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..files.lazy import lazy_attributes

if TYPE_CHECKING:
    from .load import content_key, load_image

__all__ = ["content_key", "load_image"]

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "content_key": "load",
        "load_image": "load",
        # names that were in the module of this name until 0.1
        "DECODING": "decoding",
        "Downloads": "downloads",
        "MAX_DOWNLOAD_BYTES": "fetch",
        "TIMEOUT": "fetch",
        "describe": "given",
    },
)
