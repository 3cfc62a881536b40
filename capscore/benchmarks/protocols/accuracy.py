"""Comparisons of two scores → shares of wins, with ties counted apart and intervals by image.

In: numbers of comparisons, wins and ties by unit (usually an image) and by category. Out: one `Accuracy` per
category, the interval of their mean, and notes on what is missing. A tie is never a win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...statistics.bootstrap import (
    Interval,
    check_sampling,
    coarseness,
    multiplicities,
    percentile_interval,
    resample,
)
from .results import Statistic, counted, ends


@dataclass(frozen=True)
class Accuracy:
    """Share of comparisons that were won.

    Attributes:
        n: Number of comparisons.
        wins: Number of comparisons whose better side scored strictly higher.
        ties: Number of comparisons with equal scores; they are not won.
        interval: Bootstrap interval of `value`; None if none was asked for.

    >>> Accuracy(n=4, wins=3, ties=1).value
    0.75
    """

    n: int
    wins: int
    ties: int
    interval: Interval | None = None

    @property
    def value(self) -> float | None:
        """wins / n, in [0, 1]; None without comparisons."""
        return self.wins / self.n if self.n else None

    def statistic(self, name: str) -> Statistic:
        """The share as a table's number."""
        return Statistic(name, self.value, ends(self.interval), self.n)

    def to_dict(self) -> dict[str, Any]:
        """Plain values: "value", "n", "wins", "ties", "interval"."""
        interval = self.interval and self.interval.to_dict()
        return {
            "value": self.value,
            "n": self.n,
            "wins": self.wins,
            "ties": self.ties,
            "interval": interval,
        }


@dataclass(frozen=True)
class Sampling:
    """How intervals are made.

    Args:
        bootstrap: Number of samples; 0 makes no intervals.
        confidence: Share of samples inside an interval.
        seed: Seed for the samples.
    """

    bootstrap: int
    confidence: float
    seed: int

    def __post_init__(self) -> None:
        check_sampling(self.bootstrap, self.confidence, self.seed, field="bootstrap", least=0)


@dataclass(frozen=True)
class Tally:
    """Numbers of comparisons by unit (what the bootstrap draws) and by category.

    Attributes:
        n, wins, ties: int64 (units, categories).
    """

    n: np.ndarray
    wins: np.ndarray
    ties: np.ndarray

    @classmethod
    def of(
        cls,
        better: np.ndarray,
        worse: np.ndarray,
        codes: np.ndarray,
        n_categories: int,
        units: np.ndarray,
    ) -> Tally:
        """Count n comparisons, all with scores.

        Args:
            better, worse: float64 (n,), the scores that should be higher and lower.
            codes: int64 (n,), the category of each comparison.
            n_categories: Number of categories.
            units: int64 (n,), the unit of each comparison.

        >>> better, worse = np.array([0.9, 0.5]), np.array([0.1, 0.5])
        >>> tally = Tally.of(better, worse, np.array([0, 1]), 2, np.array([0, 0]))
        >>> tally.n.tolist(), tally.wins.tolist(), tally.ties.tolist()
        ([[1, 1]], [[1, 0]], [[0, 1]])
        """
        _, units = np.unique(units, return_inverse=True)
        shape = (int(units.max(initial=-1)) + 1, n_categories)
        cells = units * n_categories + codes

        def count(chosen: np.ndarray) -> np.ndarray:
            return np.bincount(chosen, minlength=shape[0] * shape[1]).reshape(shape)

        return cls(count(cells), count(cells[better > worse]), count(cells[better == worse]))

    def with_total(self) -> Tally:
        """Add a last category: all of them together."""
        parts = (self.n, self.wins, self.ties)
        return Tally(*(np.hstack([part, part.sum(axis=1, keepdims=True)]) for part in parts))

    def accuracies(
        self, names: Sequence[str], sampling: Sampling, *, units: str, n_mean: int = 0
    ) -> tuple[list[Accuracy], Interval | None, list[str]]:
        """Shares of all comparisons, intervals, and notes.

        Args:
            names: Names of the categories, for the notes.
            sampling: How intervals are made.
            units: Noun for the units, in the plural.
            n_mean: Number of categories, from the first, that the mean is over.

        Returns:
            One accuracy per category, the interval of the mean, notes.
        """
        intervals, notes = self._intervals(names, sampling, units, n_mean)
        totals = zip(*(part.sum(axis=0).tolist() for part in (self.n, self.wins, self.ties)), strict=True)
        ends = zip(totals, intervals[:-1], strict=True)
        found = [Accuracy(n, wins, ties, interval) for (n, wins, ties), interval in ends]
        return found, intervals[-1], notes

    def _intervals(
        self, names: Sequence[str], sampling: Sampling, units: str, n_mean: int
    ) -> tuple[list[Interval | None], list[str]]:
        """Intervals of the categories and, last, of the mean; notes."""
        intervals: list[Interval | None] = [None] * (len(names) + 1)
        n_units = len(self.n)
        if not sampling.bootstrap:
            return intervals, []
        if n_units < 2:
            return intervals, [f"no intervals: a bootstrap needs at least 2 {units}, and there is {n_units}"]
        n, wins = self.n.T.astype(np.float64), self.wins.T.astype(np.float64)

        def shares(drawn: np.ndarray) -> np.ndarray:
            with np.errstate(invalid="ignore"):
                values = (wins @ drawn) / (n @ drawn)  # NaN if a sample lacks a category
                mean = values[:n_mean].mean(axis=0) if n_mean else np.full(drawn.shape[1], np.nan)
            return np.vstack([values, mean])

        samples = resample(
            shares,
            multiplicities,
            n_units=n_units,
            n_samples=sampling.bootstrap,
            seed=sampling.seed,
            n_rows=self.n.size,
            label="bootstrap",
        )
        notes = [coarse] if (coarse := coarseness(sampling.bootstrap, sampling.confidence)) else []
        for place, values in enumerate(samples):
            intervals[place] = interval = percentile_interval(values, sampling.confidence)
            if interval is not None and interval.n_undefined and place < len(names):
                notes.append(
                    f"interval of {names[place]}: {counted(interval.n_undefined, 'sample')} of "
                    f"{sampling.bootstrap:,} left out, which lack it"
                )
        return intervals, notes


def single_units(*keys: np.ndarray) -> np.ndarray:
    """Make every row a unit, numbered by its values, so that the order of the rows does not matter.

    >>> single_units(np.array([0.3, 0.1, 0.2]))
    array([2, 0, 1])
    """
    units = np.empty(len(keys[0]), dtype=np.int64)
    units[np.lexsort(keys)] = np.arange(len(units))
    return units
