"""What a benchmark hands back, and how it times: functions and clocks in, `Figure`s out."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """One measured number.

    Attributes:
        what: what was measured, for a reader who has not seen the code.
        value: the number.
        unit: how it is written, a format such as "{:.2f}×".
        target: what it ought to be at most (`at_most`) or at least; None where it is there to compare with.
        noise: how far the repetitions lie apart: median over best, less 1; None for a single measurement.
    """

    what: str
    value: float
    unit: str
    target: float | None = None
    at_most: bool = False
    noise: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met, None where there is none."""
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target


def seconds(work: Callable[[], object]) -> float:
    """How long a call takes on the wall clock."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def noise(times: list[float]) -> float:
    """Median over best, less 1: what other programs on the machine took from the middle run."""
    return statistics.median(times) / min(times) - 1


def peak_memory() -> float:
    """The most memory this process ever held, in MB (10⁶ bytes).

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
