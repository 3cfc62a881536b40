"""Shares and ratios of sums over photos, with bootstrap intervals that draw whole photos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from capscore.benchmarks.tasks import TaskOptions
from capscore.statistics.bootstrap import multiplicities, percentile_interval, resample


@dataclass(frozen=True)
class Share:
    """A number and the ends of its interval; None where there are none.

    >>> Share(0.2022, (0.1871, 0.2169)).in_percent
    '20.2 [18.7–21.7]'
    """

    value: float | None
    interval: tuple[float, float] | None = None

    @property
    def in_percent(self) -> str:
        """Both times 100, with one decimal."""
        if self.value is None:
            return "–"
        ends = "" if self.interval is None else "–".join(f"{100 * end:.1f}" for end in self.interval)
        return f"{100 * self.value:.1f}" + (f" [{ends}]" if ends else "")


def share_of_sums(parts: np.ndarray, wholes: np.ndarray, options: TaskOptions) -> Share:
    """Sum of parts over sum of wholes, both (n,), one number per photo; the bootstrap draws photos.

    >>> share_of_sums(np.array([1.0, 3.0]), np.array([2.0, 6.0]), TaskOptions()).interval
    (0.5, 0.5)
    """
    return _bootstrapped(lambda drawn: _quotient(parts @ drawn, wholes @ drawn), len(parts), options)


def ratio_of_shares(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], options: TaskOptions
) -> Share:
    """One share of sums over another, on the same photos; each draw of photos gives both.

    Args:
        first, second: Parts and wholes as in `share_of_sums`, the photos in the same order.
        options: How many draws, and which share of them lies inside.
    """

    def ratio(drawn: np.ndarray) -> np.ndarray:
        over, under = (_quotient(parts @ drawn, wholes @ drawn) for parts, wholes in (first, second))
        return _quotient(over, under)

    return _bootstrapped(ratio, len(first[0]), options)


def _quotient(over: np.ndarray, under: np.ndarray) -> np.ndarray:
    """over / under; NaN where under is 0."""
    return np.divide(over, under, out=np.full(np.shape(over), np.nan), where=under != 0)


def _bootstrapped(statistic: Callable[[np.ndarray], np.ndarray], n_units: int, options: TaskOptions) -> Share:
    """A statistic of weights (n_units, b) → (b,), for every unit once and for draws of the units."""
    value = float(statistic(np.ones((n_units, 1)))[0])
    if np.isnan(value):
        return Share(None)
    if not options.bootstrap:
        return Share(value)
    samples = resample(
        lambda drawn: statistic(drawn.astype(float))[None],
        multiplicities,
        n_units=n_units,
        n_samples=options.bootstrap,
        seed=options.seed,
        n_rows=n_units,
        label="Resampling photos",
    )
    found = percentile_interval(samples[0], options.confidence)
    return Share(value, None if found is None else (found.low, found.high))
