"""Standard input and pipes as files: what comes out is copied once, to be read as often as needed."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

from ..errors import InputError, Setting

STANDARD_INPUT = Path("-")
_copies: dict[Path, Path] = {}
_OTHER = (
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def take_in(path: Path) -> None:
    """Copy what a pipe or standard input (`-`) gives; of a regular file, nothing.

    Raises:
        InputError: It is a device, a socket or a terminal, or there is no room for the copy.
    """
    if path == STANDARD_INPUT:
        if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
            raise InputError(Setting("path", path), " is standard input, and nothing is piped into it")
        _copy(path, 0)
        return
    try:
        kind = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # who opens it says what is wrong
    for applies, what in _OTHER:
        if applies(kind):
            raise InputError(
                Setting("path", path), f" is {what}; expected a file, a pipe, or - for standard input"
            )
    if stat.S_ISFIFO(kind):
        _copy(path, path)


def local_file(path: Path) -> Path:
    """The file to open for a path: the copy of a pipe, or the path itself."""
    return _copies.get(path, path)


def is_stream(path: Path) -> bool:
    """Whether the rows of a path were taken in from a pipe or from standard input."""
    return path in _copies


def _copy(path: Path, place: int | Path) -> None:
    if path in _copies:
        _copies.pop(path).unlink(missing_ok=True)
    try:
        with (
            open(place, "rb", closefd=place != 0) as source,
            tempfile.NamedTemporaryFile(prefix="capscore-", delete=False) as copy,
        ):
            atexit.register(Path(copy.name).unlink, missing_ok=True)
            shutil.copyfileobj(source, copy)
    except OSError as error:
        raise InputError(
            Setting("path", path),
            f" cannot be copied to {tempfile.gettempdir()}, to be read from there: {error.strerror or error}",
        ) from None
    _copies[path] = Path(copy.name)
