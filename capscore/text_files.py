"""A text → a file that has its name only once it is whole."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import ResultWriteError


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 file beside its name, then rename it; missing folders are made.

    Raises:
        ResultWriteError: it cannot be written; what had the name before is left as it was.
    """
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ResultWriteError(f"{path} could not be written ({error.strerror})") from error
