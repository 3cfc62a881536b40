"""Sentences → a teacher's embeddings, in a file that is computed once."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock

from capscore.backbones.base import Backbone, fingerprint_of
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, ResultWriteError
from training.engine.processes import say

# Sentences that the teacher embeds between two writes to disk.
_SLAB = 8192


def teacher_embeddings(
    teacher: Backbone, sentences: Sequence[str], folder: Path, *, prefix: str = ""
) -> np.ndarray:
    """The teacher's embeddings of distinct sentences, computed once, then read from a memory-mapped file.

    Args:
        teacher: Backbone that embeds the sentences.
        sentences: Distinct sentences.
        folder: Folder of the file, whose name is a digest of teacher, prefix and sentences. Interrupted work
            continues.
        prefix: Text put before every sentence.

    Returns:
        float32 (sentences, d), rows of unit length; a read-only memory map.

    Raises:
        ResultWriteError: the file cannot be written.
    """
    embedder = Embedder(teacher)
    # with their lengths, so that sentences that are joined differently have another digest
    digest = fingerprint_of(embedder.fingerprint, prefix, *(f"{len(s)}:{s}" for s in sentences))
    final = folder / f"{digest}.npy"
    if not final.is_file():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(folder / f".{digest}.lock"):
                if not final.is_file():
                    _write_embeddings(embedder, sentences, prefix, final)
        except OSError as error:
            if isinstance(error, CapscoreError):
                raise
            raise ResultWriteError(
                f"the teacher's embeddings {final} could not be written: {error.strerror or error}"
            ) from error
    return np.load(final, mmap_mode="r")


def _write_embeddings(embedder: Embedder, sentences: Sequence[str], prefix: str, final: Path) -> None:
    partial = final.with_name(f".{final.name}.partial")
    shape = (len(sentences), embedder.backbone.dim)
    truncated = 0
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    start, row = header.tell(), 4 * shape[1]
    with open(partial, "ab") as file:
        if file.tell() < start:  # new, or cut off within the header
            file.truncate(0)
            file.write(header.getvalue())
            file.flush()
        done = (file.tell() - start) // row
        file.truncate(start + done * row)  # a kill may have cut off the last row
        for first in range(done, len(sentences), _SLAB):
            part = embedder.texts(sentences[first : first + _SLAB], prefix=prefix)
            truncated += int(part.truncated[part.index].sum())
            file.write(part.matrix[part.index].astype("<f4").tobytes())
            file.flush()
            os.fsync(file.fileno())
            say(f"teacher: {min(first + _SLAB, len(sentences)):,} of {len(sentences):,} sentences embedded")
    os.replace(partial, final)
    if truncated:
        say(
            f"teacher: {truncated:,} sentences were longer than its {embedder.backbone.max_tokens} tokens "
            "and were cut"
        )
