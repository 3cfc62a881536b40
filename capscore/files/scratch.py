"""Files and folders that are there for a while: while another is written, or until the process ends.

Their process holds a lock on them, so that those that killed processes left can be told, and are removed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

import xxhash

# in a folder for all users, what has such a name may be a link, or a pipe that would be waited for
_AS_IT_IS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def process_folder() -> Path:
    """A folder of this process and user alone, in that of temporary files; it goes when the process ends.

    What killed processes of this user left is removed first.
    """
    return _folder_of(os.getpid())


@cache
def _folder_of(process: int) -> Path:
    opened = ExitStack()
    atexit.register(opened.close)
    return opened.enter_context(scratch_folder(Path(tempfile.gettempdir()).absolute() / "capscore"))


@contextmanager
def scratch_folder(target: Path) -> Iterator[Path]:
    """A hidden folder beside a file or folder, for what becomes it; at the end the rest of it is removed.

    What killed runs left of the same target is removed first. OSError where it cannot be made.
    """
    process, partial = os.getpid(), _partial_of(target)
    begun = partial.with_suffix(".begun")
    begun.parent.mkdir(parents=True, exist_ok=True)
    begun.mkdir(mode=0o700)
    opened = -1
    try:
        with suppress(OSError):  # not every system opens folders
            opened = os.open(begun, os.O_RDONLY)
        if opened < 0 or not _lock(opened):
            partial = begun
        os.rename(begun, partial)
        yield partial
    finally:
        if os.getpid() == process:  # not in one that was forked meanwhile
            for left in (begun, partial):
                shutil.rmtree(left, ignore_errors=True)
        if opened >= 0:
            os.close(opened)


def open_partial(target: Path) -> tuple[Path, IO[bytes]]:
    """A new file that becomes another: locked before it has a name at which other runs look for leftovers."""
    partial = _partial_of(target)
    begun = partial.with_suffix(".begun")
    file = open(begun, "xb")
    try:
        if not _lock(file):
            return begun, file
        os.rename(begun, partial)
    except BaseException:
        file.close()
        begun.unlink()
        raise
    return partial, file


def name_partial(partial: Path, file: IO[bytes], target: Path) -> None:
    """Give a file of `open_partial` its name, then close it: another run removes a partial without a lock."""
    file.flush()
    os.fsync(file.fileno())
    if os.name == "nt":  # where files have no locks, and an open one keeps its name
        file.close()
    os.replace(partial, target)
    file.close()


def _partial_of(target: Path) -> Path:
    """Name of the file or folder that becomes another; those that killed runs left of it are removed."""
    mark = xxhash.xxh3_64_hexdigest(os.fsencode(target.name))
    for left in target.parent.glob(f".{mark}-*.partial"):
        with suppress(OSError):  # of another user
            opened = os.open(left, _AS_IT_IS)
            try:
                if _lock(opened):  # whoever wrote it has ended
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
            finally:
                os.close(opened)
    return target.with_name(f".{mark}-{uuid.uuid4().hex[:12]}.partial")


def _lock(opened: IO[bytes] | int) -> bool:
    """Lock a file or folder until it is closed, or its process ends; False where another has, or none can."""
    try:
        import fcntl

        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True
