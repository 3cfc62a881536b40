"""Times functions and describes results: functions in, `Timing`s and `Figure`s out."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One measured number.

    Attributes:
        what: what was measured, for a reader who has not seen the code.
        value: the number.
        unit: how it is written, a format such as "{:.2f}×".
        target: what it ought to be at most (`at_most`) or at least; None where it is there to compare with.
        noise: how far the repetitions lie apart: median over best, less 1; None for a single measurement.
        disturbed: other programs were at work in every repetition, so that a time is too long.
    """

    what: str
    value: float
    unit: str
    target: float | None = None
    at_most: bool = False
    noise: float | None = None
    disturbed: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target


@dataclass(frozen=True)
class Timing:
    """Seconds of repeated runs, the shortest first, and whether other programs disturbed all of them."""

    runs: list[float]
    disturbed: bool = False

    @property
    def best(self) -> float:
        """The shortest run: other programs can only have lengthened the others."""
        return min(self.runs)

    def spread(self) -> dict[str, Any]:
        """The attributes of a `Figure` about its repetitions."""
        return {"noise": statistics.median(self.runs) / self.best - 1, "disturbed": self.disturbed}


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Time of a call, by default on the wall."""
    start = clock()
    work()
    return clock() - start


def repeat(
    works: dict[str, Callable[[], object]], times: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Timing]:
    """Each work timed `times` times by `clock`.

    The works take turns, so that whatever else the machine does falls on all of them. A run in which other
    programs had more than a twentieth of the cores is done again, for as many rounds as were asked for;
    disturbed runs stand only where there was no other.
    """
    calm: dict[str, list[float]] = {name: [] for name in works}
    disturbed: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(2 * times):
        for name, work in works.items():
            if len(calm[name]) < times:
                others = _others_seconds()
                took = seconds(work, clock)
                # the kernel counts in hundredths of a second, too coarse for a short run
                is_counted = took > 0.2 and clock is time.perf_counter
                disturbance = (_others_seconds() - others) / (took * cores()) if is_counted else 0.0
                (calm if disturbance < 0.05 else disturbed)[name].append(took)
        if all(len(some) == times for some in calm.values()):
            break
    return {name: Timing(sorted(calm[name] or disturbed[name]), disturbed=not calm[name]) for name in works}


def _others_seconds() -> float:
    """Processor seconds of all other programs so far; always 0 except on Linux."""
    file = Path("/proc/stat")
    if not file.exists():
        return 0.0
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, file.read_text().split()[1:9])
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return busy - sum(os.times()[:4])  # this process and the children it has waited for


def peak_memory() -> float:
    """Peak memory of this process, in MB (10⁶ bytes).

    On Linux VmHWM, which counts this program alone: ru_maxrss of a child starts at what its parent held.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most * (1 if sys.platform == "darwin" else 1024) / 1e6


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
