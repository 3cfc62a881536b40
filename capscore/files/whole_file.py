"""A file that has its name only once it is whole: written beside it, then renamed."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ..errors import ResultWriteError


@contextmanager
def whole_file(path: str | Path, what: str = "file", *, make_folders: bool = False) -> Iterator[IO[bytes]]:
    """Open a new file for writing bytes; it takes its name when the block ends without an error.

    A link stays a link, to the new content.

    Args:
        path: the name; what has it already is replaced.
        what: what is written, for the error.
        make_folders: make the folders above it that are missing.

    Raises:
        ResultWriteError: it cannot be written; what had the name before is as it was.

    >>> with whole_file("scores.txt") as file:                  # doctest: +SKIP
    ...     file.write(b"0.5")
    """
    path = Path(path).expanduser()
    target = Path(os.path.realpath(path))
    partial = target.with_name(f".{uuid.uuid4().hex[:12]}.partial")
    try:
        if make_folders:
            target.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except OSError as error:
        raise ResultWriteError(
            f"the {what} {str(path)!r} could not be written: {error.strerror or error}; what had that name "
            "before is as it was"
        ) from error
    finally:
        # Ctrl-C too leaves nothing half-written behind
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def write_text(path: str | Path, text: str, what: str = "file") -> None:
    """Write a UTF-8 file whole, in a folder that is made if need be; errors as in `whole_file`."""
    with whole_file(path, what, make_folders=True) as file:
        file.write(text.encode("utf-8"))
