"""A matrix that may become too large for memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO

import numpy as np


class StoredRows:
    """A matrix that grows, in memory first, then in a nameless file that disappears with the process.

    Args:
        dim: Length of a row.
        folder: Folder of the file; None for the system's folder for temporary files.
        in_memory: Most bytes to keep in memory.
        dtype: Type of the numbers.
    """

    def __init__(self, dim: int, folder: str | Path | None, in_memory: int, dtype: type = np.float32):
        self._dim, self._folder, self._most, self._dtype = dim, folder, in_memory, dtype
        self._parts: list[np.ndarray] = []
        self._bytes = self._n = 0
        self._file: IO[bytes] | None = None

    def append(self, rows: np.ndarray) -> None:
        """Add rows (n, dim)."""
        self._n += len(rows)
        self._bytes += rows.nbytes
        self._parts.append(rows)
        if self._bytes > self._most:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)
            for part in self._parts:
                self._file.write(np.ascontiguousarray(part, dtype=self._dtype).data)
            self._parts, self._bytes = [], self._most

    def finish(self) -> np.ndarray:
        """The whole matrix; a read-only memory map where it is in a file."""
        if self._file is None:
            return np.concatenate(self._parts).astype(self._dtype, copy=False)
        for part in self._parts:
            self._file.write(np.ascontiguousarray(part, dtype=self._dtype).data)
        self._file.flush()
        return np.memmap(self._file, dtype=self._dtype, mode="r", shape=(self._n, self._dim))
