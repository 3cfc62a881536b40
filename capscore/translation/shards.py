"""The blocks of a long job, each a file that is there once the block is done, so that nothing is done twice.

A folder beside the result holds the settings of the job and its finished blocks. Several processes, on one
machine or on several with a common folder, take the blocks of their share; a block that a process works on is
locked, and the lock goes with the process.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingExtraError, Setting
from ..files.whole_file import whole_file, write_text

_SETTINGS = "settings.json"


def parse_shard(text: str | None) -> tuple[int, int] | None:
    """A share of a job as it is typed: "2/4" is the second of four.

    Raises:
        InputError: Anything else.

    >>> parse_shard("2/4"), parse_shard(None)
    ((2, 4), None)
    """
    if text is None:
        return None
    part, slash, parts = text.partition("/")
    if slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts):
        return int(part), int(parts)
    raise InputError(Setting("shard", text), ": expected a share such as 2/4, the second of four")


class Blocks:
    """The finished blocks of a job.

    Args:
        folder: Folder of the blocks.
        settings: Everything that the content of a block depends on, ready for JSON.
        n_blocks: Number of blocks.
        force: Whether blocks of other settings are deleted.

    Raises:
        InputError: The folder holds blocks of other settings.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], n_blocks: int, *, force: bool = False):
        self.folder, self.n_blocks = folder, n_blocks
        place = folder / _SETTINGS
        settings = json.loads(json.dumps(settings))
        if folder.exists():
            before = _read_settings(place)
            if before is not None and before != settings:
                if not force:
                    raise InputError(
                        Setting("output"),
                        f": {folder} holds an unfinished translation with other settings: "
                        f"{_differences(before, settings)}; ",
                        Setting("force", True),
                        " starts again",
                    )
                shutil.rmtree(folder)
            elif before is None and any(folder.iterdir()):
                raise InputError(
                    Setting("output"),
                    f": {folder} is needed for unfinished work, and is something else; rename it",
                )
        write_text(place, json.dumps(settings, ensure_ascii=False, indent=2) + "\n", "settings of the job")

    def path(self, number: int) -> Path:
        """The file of a block."""
        return self.folder / f"{number:06d}.json"

    def mine(self, shard: tuple[int, int] | None) -> list[int]:
        """Numbers of the blocks of a share; all without a share."""
        part, parts = shard or (1, 1)
        return [number for number in range(self.n_blocks) if number % parts == part - 1]

    def done(self) -> list[int]:
        """Numbers of the finished blocks."""
        return [number for number in range(self.n_blocks) if self.path(number).is_file()]

    @contextmanager
    def locked(self, number: int) -> Iterator[None]:
        """Keep other processes from a block.

        Raises:
            InputError: Another process works on it.
        """
        try:
            from filelock import FileLock, Timeout
        except ImportError:
            raise MissingExtraError("filelock", "translate", "translation in shards") from None
        lock = FileLock(self.path(number).with_suffix(".lock"), timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise InputError(
                f"another process is translating block {number} of this job ({self.folder}): wait for it, or "
                "give each process a share of its own with ",
                Setting("shard"),
            ) from None
        try:
            yield
        finally:
            lock.release()

    def write(self, number: int, content: Any) -> None:
        """Keep a finished block."""
        with whole_file(self.path(number), "block of translations") as file:
            file.write(json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass"))

    def read(self, number: int) -> Any:
        """A finished block."""
        try:
            return json.loads(self.path(number).read_bytes().decode("utf-8", "surrogatepass"))
        except (OSError, ValueError) as error:
            raise InputError(
                f"the finished block {self.path(number)} cannot be read ({error}); delete it, and it is made "
                "again"
            ) from None

    def remove(self) -> None:
        """Delete the folder, once the result is written."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _read_settings(place: Path) -> Any:
    try:
        return json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _differences(before: Any, now: Mapping[str, Any]) -> str:
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return ", ".join(f"{name} was {before.get(name)!r:.60}, now {now.get(name)!r:.60}" for name in names)
