"""A matrix that may become too large for memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np


class StoredRows:
    """A matrix that grows in a nameless file, which disappears with the process.

    Args:
        dim: Length of a row.
        folder: Folder of the file; None for the system's folder for temporary files.
        dtype: Type of the numbers.
    """

    def __init__(self, dim: int, folder: str | Path | None, dtype: type = np.float32):
        self.dim, self.dtype, self.n = dim, dtype, 0
        self._file = tempfile.TemporaryFile(dir=folder)

    def append(self, rows: np.ndarray) -> range:
        """Add rows (n, dim); returns their numbers in the matrix."""
        self._file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self.n += len(rows)
        return range(self.n - len(rows), self.n)

    def finish(self) -> np.ndarray:
        """The whole matrix, a read-only memory map."""
        self._file.flush()
        if not self.n:
            return np.zeros((0, self.dim), self.dtype)
        return np.memmap(self._file, dtype=self.dtype, mode="r", shape=(self.n, self.dim))
