"""Comparisons of two scores → shares of those that came out right, with ties apart and intervals by image.

In: comparisons, won and tied ones, counted by unit (an image, as a rule) and by category. Out: an `Accuracy`
a category, the interval of their mean, and words on what is missing. A tie is never a win.
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
        n: comparisons.
        wins: those whose better side scored strictly higher.
        ties: those of equal scores; not won.
        interval: bootstrap interval of `value`; None if none was asked for.

    >>> Accuracy(n=4, wins=3, ties=1).value
    0.75
    """

    n: int
    wins: int
    ties: int
    interval: Interval | None = None

    @property
    def value(self) -> float | None:
        """wins / n, in [0, 1]; None of no comparisons."""
        return self.wins / self.n if self.n else None

    def statistic(self, name: str) -> Statistic:
        """The share as one number of a table."""
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
        bootstrap: samples; 0 makes no intervals.
        confidence: share of samples inside an interval.
        seed: of the samples.
    """

    bootstrap: int
    confidence: float
    seed: int

    def __post_init__(self) -> None:
        check_sampling(self.bootstrap, self.confidence, self.seed, field="bootstrap", least=0)


@dataclass(frozen=True)
class Tally:
    """Comparisons counted by what the bootstrap draws and by category.

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
        """Counts n comparisons without gaps.

        Args:
            better, worse: float64 (n,), the scores of what should be higher and lower.
            codes: int64 (n,), each comparison's category.
            n_categories: how many there are.
            units: int64 (n,), what each belongs to.

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
        """One more category, behind the others: all of them together."""
        parts = (self.n, self.wins, self.ties)
        return Tally(*(np.hstack([part, part.sum(axis=1, keepdims=True)]) for part in parts))

    def accuracies(
        self, names: Sequence[str], sampling: Sampling, *, units: str, n_mean: int = 0
    ) -> tuple[list[Accuracy], Interval | None, list[str]]:
        """Shares of all comparisons, intervals, and notes.

        Args:
            names: of the categories, for the notes.
            sampling: how intervals are made.
            units: what is drawn, in the plural.
            n_mean: how many of the first categories the mean is over.

        Returns:
            An accuracy a category, the interval of the mean of the first, notes.
        """
        intervals, notes = self._intervals(names, sampling, units, n_mean)
        totals = zip(*(part.sum(axis=0).tolist() for part in (self.n, self.wins, self.ties)), strict=True)
        found = [Accuracy(*total, interval) for total, interval in zip(totals, intervals[:-1], strict=True)]
        return found, intervals[-1], notes

    def _intervals(
        self, names: Sequence[str], sampling: Sampling, units: str, n_mean: int
    ) -> tuple[list[Interval | None], list[str]]:
        """Intervals of each category and, last, of the mean."""
        intervals: list[Interval | None] = [None] * (len(names) + 1)
        n_units = len(self.n)
        if not sampling.bootstrap:
            return intervals, []
        if n_units < 2:
            return intervals, [f"no intervals: a bootstrap needs at least 2 {units}, and there is {n_units}"]
        n, wins = self.n.T.astype(np.float64), self.wins.T.astype(np.float64)

        def shares(drawn: np.ndarray) -> np.ndarray:
            with np.errstate(invalid="ignore"):
                values = (wins @ drawn) / (n @ drawn)  # NaN where a sample has nothing of a category
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
                    f"{sampling.bootstrap:,} left out, which had none of it"
                )
        return intervals, notes


def single_units(*keys: np.ndarray) -> np.ndarray:
    """Every row a unit of its own, numbered by what it says, so that the order of the rows does not matter.

    >>> single_units(np.array([0.3, 0.1, 0.2]))
    array([2, 0, 1])
    """
    units = np.empty(len(keys[0]), dtype=np.int64)
    units[np.lexsort(keys)] = np.arange(len(units))
    return units
