"""The log of a run, `log.jsonl`: a line per evaluation and per `log_every` steps, written and read back."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from capscore.errors import CapscoreError, ResultWriteError
from capscore.files.write import whole_file

LOG = "log.jsonl"


class Log:
    """The log of a run: whole lines, none of them later than the checkpoint that the run continues from.

    Args:
        path: Log file.
        step: Step that the run continues from.
        resumed: Whether the run continues from a checkpoint; else an old log is replaced.
    """

    def __init__(self, path: Path, step: int, resumed: bool):
        lines = _lines_until(path, step) if resumed and path.exists() else []
        with whole_file(path, "log", make_folders=True) as file:
            file.write(b"".join(lines))
        self._file = open(path, "ab")

    def write(self, line: dict[str, Any], total: int, time_left: float | None = None) -> None:
        """Add a line and print it.

        Args:
            line: Step, epoch, losses or evaluation.
            total: Number of steps of the run.
            time_left: Estimate of the remaining seconds, for the printed line; None or 0 prints none.
        """
        try:
            self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise ResultWriteError(
                f"the log {self._file.name} could not be written: {error.strerror or error}"
            ) from error
        numbers = {**line.get("losses", {}), **line.get("evaluation", {})}
        shown = "  ".join(f"{n} {'–' if v is None else format(v, '.4g')}" for n, v in numbers.items())
        left = "" if not time_left else f"  {duration(time_left)} left"
        said = f"step {line['step']}/{total}  epoch {line['epoch']:g}  {shown}{left}"
        print(said, file=sys.stderr, flush=True)

    def settle(self) -> None:
        """Wait until the lines are on disk: a checkpoint is about to rely on them."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def duration(seconds: float) -> str:
    """A length of time in words.

    >>> duration(7.4), duration(90), duration(4000), duration(7200)
    ('7 s', '1 min 30 s', '1 h 6 min', '2 h 0 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def read_log(out: str | Path) -> list[dict[str, Any]]:
    """The lines of a run's log; a last line that a kill cut short is left out.

    Args:
        out: Folder of the run.

    Raises:
        CapscoreError: there is no log, or a line before the last is damaged; names the line.
    """
    path = Path(out).expanduser() / LOG
    if not path.is_file():
        raise CapscoreError(f"there is no {LOG} in {out}; expected the folder of a run")
    lines = []
    raw = path.read_bytes().split(b"\n")
    for number, line in enumerate(raw[:-1], start=1):
        try:
            entry = json.loads(line)
            int(entry["step"])
        except (ValueError, TypeError, KeyError):
            raise CapscoreError(f"{path}, line {number} is not a line of a log") from None
        lines.append(entry)
    return lines


def _lines_until(path: Path, step: int) -> list[bytes]:
    return [
        json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        for line in read_log(path.parent)
        if line["step"] <= step
    ]
