"""The log of a run, `log.jsonl`: a line per evaluation and per `log_every` steps, written and read back."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capscore.errors import CapscoreError, ResultWriteError
from capscore.files.write import whole_file

LOG = "log.jsonl"


class Log:
    """The log of a run: whole lines, none later than the step of the checkpoint that the run continues from.

    Step 0, without a checkpoint, replaces an old log.
    """

    def __init__(self, path: Path, step: int):
        lines = read_log(path.parent) if step and path.exists() else []
        with whole_file(path, "log", make_folders=True) as file:
            file.write(b"".join(_bytes(line) for line in lines if line["step"] <= step))
        self._file = open(path, "ab")

    def write(self, line: dict[str, Any], total: int, time_left: float) -> None:
        """Add a line (step, epoch, losses or evaluation), and print it with an estimate of the time left."""
        try:
            self._file.write(_bytes(line))
            self._file.flush()
        except OSError as error:
            problem = f"the log {self._file.name} could not be written: {error.strerror or error}"
            raise ResultWriteError(problem) from error
        shown = [f"step {line['step']}/{total}", f"epoch {line['epoch']:g}"]
        for name, value in {**line.get("losses", {}), **line.get("evaluation", {})}.items():
            shown.append(f"{name} {'–' if value is None else format(value, '.4g')}")
        if time_left:
            shown.append(f"{duration(time_left)} left")
        print("  ".join(shown), file=sys.stderr, flush=True)

    def settle(self) -> None:
        """Wait until the lines are on disk: a checkpoint is about to rely on them."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def duration(seconds: float) -> str:
    """A length of time in words.

    >>> duration(7.4), duration(90), duration(4000), duration(7200)
    ('7 s', '1 min 30 s', '1 h 6 min', '2 h 0 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    if minutes:
        return f"{minutes} min {rest} s"
    return f"{rest} s"


def read_log(out: str | Path) -> list[dict[str, Any]]:
    """The lines of the log in a run's folder, without a last line that a kill cut short."""
    path = Path(out).expanduser() / LOG
    if not path.is_file():
        raise CapscoreError(f"there is no {LOG} in {out}; expected the folder of a run")
    lines = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            lines.append(json.loads(line))
            int(lines[-1]["step"])
        except (ValueError, TypeError, KeyError):
            raise CapscoreError(f"{path}, line {number} is not a line of a log") from None
    return lines


def for_json(numbers: Mapping[str, float]) -> dict[str, float | None]:
    """Numbers as JSON has them: None for one that is not finite."""
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}


def _bytes(line: Mapping[str, object]) -> bytes:
    return json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"
