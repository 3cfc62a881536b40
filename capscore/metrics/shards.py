"""One file's rows in shards, shared out among processes: each scores some, and process 0 puts them together.

Processes meet in a folder beside the result, and nowhere else: a shard whose file is there is finished, and
its lock says who is at work on it. A lock ends with its process, so that the others, or the next run, take up
what a killed one left. On several machines the folder must be on a file system that they share.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ..errors import CapscoreError, InputError, ResultWriteError, Setting
from ..files.launch import Launch
from ..files.row_source import Chunk
from ..files.whole_file import write_text
from .base import PreparedRows
from .prepared_file import load_prepared, save_prepared

MOST_SHARD_ROWS = 16_384
SHARDS_PER_PROCESS = 8  # so that a slow process holds up the others by an eighth of a share at most
_FEWEST_SHARD_ROWS = 32
_LATE_S = 120.0  # how long process 0 waits for another one to begin, once all rows are scored
_POLL_S = 0.05

Prepared = dict[str, PreparedRows]


@dataclass(frozen=True)
class Shard:
    """Consecutive rows, from `start` to before `stop`, and the file that they are kept in once measured."""

    number: int
    start: int
    stop: int
    path: Path

    def __len__(self) -> int:
        return self.stop - self.start


def shards_folder(result: Path) -> Path:
    """Folder of the shards of a result: scores.jsonl → scores.jsonl.shards."""
    return result.with_name(f"{result.name}.shards")


class SharedWork:
    """The part of one process in the work on one result.

    Args:
        result: Path of the result; the shards are in a folder beside it.
        launch: This process among those of the launch.

    >>> work = SharedWork(Path("scores.jsonl"), this_process())            # doctest: +SKIP
    >>> with work.joined():                                                # doctest: +SKIP
    ...     shards = work.plan({"metrics": ["mcs"]}, n_rows)
    ...     work.do(shards, measure)
    """

    def __init__(self, result: Path, launch: Launch):
        self.result, self.launch = result, launch
        self.folder = shards_folder(result)

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Be this process of the launch until the block ends.

        Raises:
            InputError: Processes of another launch are at work on the same result, or another process has
                this one's number.
            ResultWriteError: The folder cannot be written.
        """
        with ExitStack() as held:
            with self._alone():
                others, noted = self._at_work(), self._read("launch.json")
                if others and noted.get("name") != self.launch.name:
                    raise self._taken(others)
                try:
                    held.enter_context(self._lock(f"process-{self.launch.rank}", wait=False))
                except Timeout:
                    raise self._taken([self.launch.rank]) from None
                self._note_launch(noted, begins=not others)
                self._write(f"joined-{self.launch.rank}", {})
            yield
            if not self.launch.is_first:
                self._write(f"joined-{self.launch.rank}", {"ended": True})

    def plan(
        self, about: Mapping[str, Any], n_rows: int, shard_rows: int | None = None, *, force: bool = False
    ) -> list[Shard]:
        """The shards of the work: those of an earlier run of the same work, if there is one.

        Args:
            about: What the numbers depend on, ready for JSON.
            n_rows: Number of rows.
            shard_rows: Rows of a shard; None for those of the earlier run, else for about eight shards per
                process.
            force: Whether shards of other work are removed.

        Raises:
            InputError: The folder holds shards of other work; names what differs.
        """
        with self._alone():
            known = self._read("work.json")
            asked = {**about, **({} if shard_rows is None else {"shard_rows": shard_rows})}
            different = [name for name, value in asked.items() if name in known and known[name] != value]
            different += [name for name in about if known and name not in known]
            if different:
                if not force:
                    raise InputError(
                        Setting("output", self.result),
                        f": {self.folder} holds shards of another run (another "
                        f"{', '.join(name.replace('_', ' ') for name in different)}); ",
                        Setting("force", True),
                        " removes them, and another output keeps them",
                    )
                for shard in self.folder.glob("shard-*"):
                    shard.unlink(missing_ok=True)
                known = {}
            if not known:
                each = -(-n_rows // (self.launch.world * SHARDS_PER_PROCESS))
                size = shard_rows or min(MOST_SHARD_ROWS, max(_FEWEST_SHARD_ROWS, each))
                known = {**about, "shard_rows": size}
                self._write("work.json", known)
        size = known["shard_rows"]
        return [
            Shard(number, start, min(start + size, n_rows), self.folder / f"shard-{number:06d}.parquet")
            for number, start in enumerate(range(0, n_rows, size))
        ]

    def do(
        self,
        shards: Sequence[Shard],
        measure: Callable[[Shard], Prepared],
        advance: Callable[[int], None] = lambda count: None,
    ) -> None:
        """Measure what is not finished and nobody is at work on: this process's shards, then the others'.

        Process 0 returns when every shard is finished; it measures what processes left that were killed.

        Args:
            shards: All shards, as `plan` gave them.
            measure: Function that measures the rows of a shard.
            advance: Function that is told the number of rows that were finished.
        """
        rank, world = self.launch.rank, self.launch.world
        own = [shard for shard in shards if shard.number % world == rank]
        others = [shard for shard in reversed(shards) if shard.number % world != rank]
        left = [shard for shard in (*own, *others) if not self._finish(shard, measure, advance, wait=False)]
        if self.launch.is_first:
            for shard in left:
                self._finish(shard, measure, advance, wait=True)

    def _finish(
        self,
        shard: Shard,
        measure: Callable[[Shard], Prepared],
        advance: Callable[[int], None],
        *,
        wait: bool,
    ) -> bool:
        """Whether a shard is finished now."""
        if not shard.path.exists():
            try:
                with self._lock(shard.path.stem, wait=wait):
                    if not shard.path.exists():
                        save_prepared(shard.path, measure(shard))
            except Timeout:
                return False
        advance(len(shard))
        return True

    def wait_for_all(self, say: Callable[[str], None]) -> None:
        """Wait until every process of the launch has joined: one that comes later would begin anew."""
        until = time.monotonic() + _LATE_S
        missing = set(range(self.launch.world))
        while missing and time.monotonic() < until:
            missing = {rank for rank in missing if not (self.folder / f"joined-{rank}").exists()}
            if missing:
                time.sleep(_POLL_S)
        for rank in sorted(missing):
            say(f"process {rank} of {self.launch.world} did not begin; the others have done its share")

    def clear(self) -> None:
        """Remove the folder, once the result is whole and the other processes have seen that nothing is left.

        A process that has not ended after two minutes keeps the folder.
        """
        with suppress(Timeout):
            for rank in range(1, self.launch.world):
                with self._lock(f"process-{rank}", wait=True, timeout=_LATE_S):
                    pass
            shutil.rmtree(self.folder, ignore_errors=True)

    # ------------------------------------------------------------ locks and notes

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock("begin", wait=True):
            yield

    @contextmanager
    def _lock(self, name: str, *, wait: bool, timeout: float = -1) -> Iterator[None]:
        """Hold a lock of the folder.

        Args:
            name: Name of the lock.
            wait: Whether to wait for a process that holds it.
            timeout: Most seconds to wait; −1 for as long as it takes.

        Raises:
            Timeout: Another process holds it.
        """
        lock = FileLock(self.folder / f"{name}.lock", timeout=timeout if wait else 0)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock.acquire(poll_interval=_POLL_S)
        except Timeout:
            raise
        except OSError as error:
            raise ResultWriteError(f"{self.folder} cannot be written: {error.strerror or error}") from error
        try:
            yield
        finally:
            lock.release()

    def _at_work(self) -> list[int]:
        """Numbers of the processes that hold their locks."""
        found = []
        for path in self.folder.glob("process-*.lock"):
            try:
                with self._lock(path.stem, wait=False):
                    pass
            except Timeout:
                found.append(int(path.stem.partition("-")[2]))
        return sorted(found)

    def _taken(self, ranks: Sequence[int]) -> InputError:
        world = self._read("launch.json").get("processes", "?")
        numbers = " and ".join(map(str, ranks))
        return InputError(
            Setting("output", self.result),
            f": another run is at work on it (process {numbers} of {world} holds its lock in {self.folder}); "
            "wait until it ends, or give this run an output of its own",
        )

    def _note_launch(self, noted: Mapping[str, Any], *, begins: bool) -> None:
        """Note whose folder this is, and forget processes that were killed, or were of an earlier launch.

        Processes of this launch that have ended are remembered: process 0 may begin after their end.
        """
        own, parents = self.launch, noted.get("parents", {})
        same = noted.get("name") == own.name and parents.get(own.machine, own.parent) == own.parent
        if begins:
            for mark in self.folder.glob("joined-*"):
                if not (same and self._read(mark.name).get("ended")):
                    mark.unlink(missing_ok=True)
        parents = {**(parents if same or not begins else {}), own.machine: own.parent}
        self._write("launch.json", {"name": own.name, "processes": own.world, "parents": parents})

    def _read(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        with suppress(FileNotFoundError):
            try:
                found = json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise CapscoreError(f"{path} is damaged ({error}); remove {self.folder}") from None
            if isinstance(found, dict):
                return found
        return {}

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        write_text(self.folder / name, json.dumps(content, ensure_ascii=False, indent=1), "note")


class FinishedShards:
    """Rows of shards that are finished, in order; one shard is in memory at a time.

    Args:
        shards: All shards.
        metrics: Metrics that each shard should have.
    """

    def __init__(self, shards: Sequence[Shard], metrics: Sequence[str]):
        self._shards, self._metrics = shards, [*metrics]
        self._open: tuple[int, Prepared] | None = None

    def of(self, chunk: Chunk) -> Prepared:
        """The rows of a chunk; errors as in `rows`."""
        return self.rows(chunk.start, chunk.start + len(chunk))

    def rows(self, start: int, stop: int) -> Prepared:
        """The rows from `start` to before `stop`, per metric.

        Raises:
            CapscoreError: A shard is damaged or has other rows; names its file.
        """
        size = len(self._shards[0])
        found: list[Prepared] = []
        while start < stop:
            shard = self._shards[start // size]
            end = min(stop, shard.stop)
            whole = self._load(shard)
            found.append(
                {metric: rows.part(start - shard.start, end - shard.start) for metric, rows in whole.items()}
            )
            start = end
        if len(found) == 1:
            return found[0]
        return {
            metric: PreparedRows.concatenate([part[metric] for part in found]) for metric in self._metrics
        }

    def _load(self, shard: Shard) -> Prepared:
        if self._open is None or self._open[0] != shard.number:
            loaded = load_prepared(shard.path)
            if [*loaded] != self._metrics or any(len(rows) != len(shard) for rows in loaded.values()):
                raise CapscoreError(
                    f"{shard.path} has other rows or metrics than rows {shard.start} to {shard.stop - 1} of "
                    f"{', '.join(self._metrics)}; remove it, and the next run scores its rows again"
                )
            self._open = shard.number, loaded
        return self._open[1]
