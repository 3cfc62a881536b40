"""Images and texts → embeddings: each distinct item once, kept on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..files.lazy import lazy_attributes

if TYPE_CHECKING:
    from .embedder import EmbeddedRows, Embedder

__all__ = ["EmbeddedRows", "Embedder"]

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "EmbeddedRows": "embedder",
        "Embedder": "embedder",
        # names that were in the module of this name until 0.1
        "ENCODING": "embedder",
        "MEMORY_ENTRIES": "embedder",
        "SETTLED_NS": "known_files",
        "TEXT_BATCHES_A_SLAB": "embedder",
        "WRITE_EVERY": "embedder",
    },
)
