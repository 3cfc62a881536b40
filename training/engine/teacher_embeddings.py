"""Sentences → a teacher's embeddings, in a file that is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from capscore.backbones.base import Backbone, fingerprint_of
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.embedding.photos import in_batches
from capscore.files.write import whole_file
from training.data.stored import StoredRows
from training.engine.processes import say

# Sentences that the teacher embeds at a time.
_SLAB = 8192


def teacher_embeddings(
    teacher: Backbone, sentences: Sequence[str], folder: Path, *, prefix: str = ""
) -> np.ndarray:
    """The teacher's embeddings of distinct sentences, computed once, then read from a memory-mapped file.

    Args:
        teacher: Backbone that embeds the sentences.
        sentences: Distinct sentences.
        folder: Folder of the file, whose name is a digest of teacher, prefix and sentences. Interrupted work
            continues from the cache.
        prefix: Text put before every sentence.

    Returns:
        float32 (sentences, d), rows of unit length; a read-only memory map.

    Raises:
        ResultWriteError: the file cannot be written.
    """
    embedder = Embedder(teacher, cache=EmbeddingCache(None))
    # with their lengths, so that sentences that are joined differently have another digest
    digest = fingerprint_of(embedder.fingerprint, prefix, *(f"{len(s)}:{s}" for s in sentences))
    final = folder / f"{digest}.npy"
    if not final.is_file():
        rows, n_cut = StoredRows(teacher.dim, None), 0
        for slab in in_batches(sentences, _SLAB):
            part = embedder.texts(slab, prefix=prefix)
            rows.append(part.matrix[part.index])
            n_cut += int(part.truncated[part.index].sum())
            say(f"teacher: {rows.n:,} of {len(sentences):,} sentences embedded")
        with whole_file(final, "the teacher's embeddings", make_folders=True) as file:
            np.save(file, rows.finish())
        if n_cut:
            say(f"teacher: {n_cut:,} sentences had more than {teacher.max_tokens} tokens and were cut")
    return np.load(final, mmap_mode="r")
