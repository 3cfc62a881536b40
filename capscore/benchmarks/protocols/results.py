"""What protocols and the robustness of metrics return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...options import Sampling
from ...statistics.bootstrap import Interval, bootstrap_intervals


class Statistic(NamedTuple):
    """One number of a protocol's table.

    Attributes:
        name: Name such as "accuracy_hc", "image_to_text_r@1" or "pearson_total_without_human".
        value: Share in [0, 1] or correlation in [-1, 1]; None if undefined, and `notes` says why.
        interval: Ends of the bootstrap interval; None if none was asked for.
        n: Number of comparisons, captions or queries behind it.
    """

    name: str
    value: float | None
    interval: tuple[float, float] | None
    n: int


@dataclass(frozen=True)
class ProtocolResult:
    """What a protocol found.

    Attributes:
        statistics: Numbers of the published table, the one that papers report first at the front.
        counts: Numbers of what was compared and of what was left out, by what was counted.
        notes: Remarks that a reader needs.
        details: Further numbers by name, ready for JSON; the protocol's docstring says which.
    """

    statistics: tuple[Statistic, ...]
    counts: dict[str, int]
    notes: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)

    def value(self, name: str) -> float | None:
        """The value of the statistic with a name; None if it is undefined."""
        return next(statistic.value for statistic in self.statistics if statistic.name == name)

    def table(self) -> list[tuple[str, float | None, int]]:
        """Rows of name, value (None if undefined), and number of comparisons or rows behind it."""
        return [(name.replace("_", " "), value, n) for name, value, _, n in self.statistics]


def ends(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)


def plain_mean(values: Sequence[float | None]) -> float | None:
    """The mean; None if one of the values is missing."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def estimates(
    values: Callable[[np.ndarray], np.ndarray],
    names: Sequence[str],
    *,
    unit: str,
    n_units: int,
    n_rows: int,
    sampling: Sampling,
) -> tuple[dict[str, tuple[float | None, tuple[float, float] | None]], list[str]]:
    """Statistics with their bootstrap intervals.

    Args:
        values: Function from weights of the units, (n_units, b), to the statistics, (names, b); NaN where one
            is undefined.
        names: What notes call the statistics.
        unit, n_units, n_rows, sampling: As in `bootstrap_intervals`.

    Returns:
        Name → value and ends of the interval, None where undefined; notes on the intervals.
    """
    point = values(np.ones((n_units, 1)))[:, 0].tolist() if names else []
    size = {"n_units": n_units, "n_rows": n_rows}
    intervals, notes = bootstrap_intervals(values, list(names), unit=unit, sampling=sampling, **size)
    found = {
        name: (value, ends(intervals.get(name))) if value == value else (None, None)
        for name, value in zip(names, point, strict=True)
    }
    return found, notes
