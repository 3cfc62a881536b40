"""What is stored on disk: a matrix that may be too large for memory; a folder, whole or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from capscore.errors import CapscoreError, ResultWriteError
from capscore.files.scratch import scratch_folder


class StoredRows:
    """A matrix with rows of length `dim` that grows in a nameless file, which disappears with the process.

    Its folder is by default the system's folder for temporary files.
    """

    def __init__(self, dim: int, folder: str | Path | None = None, dtype: type = np.float32):
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


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to write into, which becomes `target` at the end, and nothing if there was an error."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(target) as scratch:
            whole = scratch / target.name
            whole.mkdir()
            yield whole
            os.replace(whole, target)
    except OSError as error:
        if isinstance(error, CapscoreError):
            raise
        raise ResultWriteError(f"{target} could not be written: {error.strerror or error}") from error
