"""The captions of rows → embeddings of the frozen text encoder, by language, in one memory-mapped file.

Row n's captions in a language are a slice: `embeddings.of("de", n)`. Languages lie one after another in the
file, and captions in the order of the rows. The file is computed again where captions or encoder differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

from capscore.errors import CapscoreError
from capscore.files.whole_file import whole_file, write_text
from weights.making.image_tower.rows import PhotoRow

# Texts → unit rows (n, dim), float32.
Encode = Callable[[Sequence[str]], np.ndarray]
_FORMAT = 1


@dataclass(frozen=True)
class CaptionEmbeddings:
    """Embeddings of the captions of n rows.

    Attributes:
        matrix: float16 (captions, dim), rows of unit length, memory-mapped.
        offsets: Language → int64 (n + 1,): row i's captions are at offsets[i] to offsets[i + 1] of `matrix`.
        digest: Digest of the captions and the encoder.
    """

    matrix: np.ndarray
    offsets: dict[str, np.ndarray]
    digest: str

    def of(self, language: str, row: int) -> np.ndarray:
        """Embeddings (captions, dim) of a row's captions in a language; none where it has none."""
        start, stop = self.offsets[language][row : row + 2]
        return self.matrix[start:stop]

    def rows_with(self, language: str) -> np.ndarray:
        """Numbers (int64) of the rows that have a caption in a language."""
        return np.flatnonzero(np.diff(self.offsets[language]))


def caption_embeddings(
    rows: Sequence[PhotoRow], encode: Encode, fingerprint: str, file: Path
) -> CaptionEmbeddings:
    """The embeddings of all captions of the rows, from the file if it is of these captions.

    Args:
        rows: Rows with captions.
        encode: Text encoder.
        fingerprint: What identifies the encoder.
        file: File to read, or to write; a file with .json behind it describes it.

    Raises:
        CapscoreError: a row of the encoder is not finite; names the caption. The file is damaged.
        ResultWriteError: the file cannot be written.
    """
    languages = sorted({language for row in rows for language in row.captions})
    offsets, texts = {}, []
    for language in languages:
        counts = [len(row.captions.get(language, ())) for row in rows]
        offsets[language] = len(texts) + np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        texts += [text for row in rows for text in row.captions.get(language, ())]
    digest = xxhash.xxh3_128(
        json.dumps([_FORMAT, fingerprint, languages, texts], ensure_ascii=False).encode()
    ).hexdigest()
    beside = file.with_name(f"{file.name}.json")
    if not _is_of(beside, digest):
        matrix = encode(texts) if texts else np.zeros((0, 0), dtype=np.float32)
        bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
        if len(bad):
            raise CapscoreError(f"the embedding of the caption {texts[bad[0]]!r:.80} is not finite")
        with whole_file(file, "embeddings of captions", make_folders=True) as stream:
            np.save(stream, matrix.astype(np.float16))
        write_text(beside, json.dumps({"digest": digest}), "digest of the captions")
    try:
        matrix = np.load(file, mmap_mode="r")
        if matrix.dtype != np.float16 or matrix.shape[:1] != (len(texts),):
            raise ValueError(f"{matrix.dtype} of {matrix.shape} for {len(texts)} captions")
    except (OSError, EOFError, ValueError) as error:
        raise CapscoreError(
            f"{file} is damaged ({error}): remove {beside}, and the captions are embedded again"
        ) from None
    return CaptionEmbeddings(matrix, offsets, digest)


def _is_of(beside: Path, digest: str) -> bool:
    """Whether a file of embeddings is there and of these captions."""
    try:
        return json.loads(beside.read_text(encoding="utf-8")) == {"digest": digest}
    except (OSError, ValueError):
        return False  # not written yet, or not wholly
