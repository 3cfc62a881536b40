"""Computes Kendall's τ_b and τ_c, Spearman's ρ and Pearson's r of weighted rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from .columns import Column, number_column, plain

STATISTICS = ("tau_b", "tau_c", "spearman", "pearson")


def tau_b(first: Column, second: Column) -> float | None:
    """Kendall's τ_b = (n_c − n_d) / √((n_0 − n_1)(n_0 − n_2)), in [-1, 1]; None where one side is constant.

    n_0 counts all pairs of rows, n_c and n_d those in the same and in the opposite order, n_1 and n_2 those
    tied in `first` and in `second` (Kendall 1945, "The treatment of ties in ranking problems"). Pairs are
    counted in whole numbers: exact for up to 9 × 10⁷ rows.

    Args:
        first, second: n finite numbers each.

    Raises:
        InputError: different lengths, no rows, a value that is not a finite number.

    >>> round(tau_b([1, 2, 3, 4], [1, 3, 3, 2]), 4)
    0.1826
    >>> tau_b([1, 2, 3], [5, 5, 5]) is None
    True
    """
    return _statistic("tau_b", first, second)


def tau_c(first: Column, second: Column) -> float | None:
    """Kendall's τ_c = 2m(n_c − n_d) / (n²(m − 1)), in [-1, 1]; None where one side is constant.

    m is the smaller number of distinct values (Stuart 1953). Arguments and errors as in `tau_b`.

    >>> round(tau_c([1, 2, 3, 4], [1, 3, 3, 2]), 4)
    0.1875
    """
    return _statistic("tau_c", first, second)


def spearman(first: Column, second: Column) -> float | None:
    """Spearman's ρ, in [-1, 1]: Pearson's r of the ranks, where tied values share their mean rank.

    None where one side is constant. Arguments and errors as in `tau_b`.

    >>> round(spearman([1, 2, 3, 4], [1, 3, 3, 2]), 4)
    0.3162
    """
    return _statistic("spearman", first, second)


def pearson(first: Column, second: Column) -> float | None:
    """Pearson's r, in [-1, 1]; None where one side is constant. Arguments and errors as in `tau_b`.

    >>> round(pearson([1, 2, 3, 4], [1, 3, 3, 2]), 4)
    0.4045
    """
    return _statistic("pearson", first, second)


class Correlations:
    """Sorts rows once; each statistic under many weightings then costs O(rows · log(distinct ratings)).

    Rows belong to units (usually images) and count as often as their unit does, so a bootstrap sample is one
    whole number per unit, and no resampled copy is made. Equal rows of a unit are kept once, with a count.

    n_c − n_d is summed over the binary digits of the ratings' ranks. Two ranks differ first in one digit,
    with all higher digits equal. So within each group of equal higher digits, in the order of scores, a row
    with the digit 1 adds the weight before it and subtracts the weight after it, without rows of its own
    score. Between two rows with the digit 1 this cancels.

    Args:
        units: Unit of each row, int (n,) from 0; None makes each row a unit.

    >>> rows = Correlations(np.array([0.1, 0.4, 0.3]), np.array([1.0, 2.0, 2.0]))
    >>> rows.values(["tau_b"], np.array([[1, 2], [1, 0], [1, 1]]))["tau_b"].round(4).tolist()
    [0.8165, 1.0]
    """

    def __init__(self, scores: np.ndarray, ratings: np.ndarray, units: np.ndarray | None = None):
        if units is None:
            units = np.arange(len(scores))
        x_values, x = np.unique(scores, return_inverse=True)
        y_values, y = np.unique(ratings, return_inverse=True)
        self._distinct = _shrunk(x_values), _shrunk(y_values)
        order = np.lexsort((units, y, x))
        x, y, units = x[order], y[order], units[order]
        starts = _starts(x, y, units)
        self._counts = np.diff(np.append(starts, len(x))).astype(np.float64)[:, None]
        self._x, self._y, self._units = x[starts], y[starts], units[starts]
        self._y_order = np.argsort(self._y, kind="stable")
        n_digits = int(self._y.max()).bit_length()
        self._digits = [_Digit.of(self._x, self._y, digit) for digit in range(n_digits)]

    @property
    def n_cells(self) -> int:
        """Number of distinct (unit, score, rating), to which the work for one weighting is proportional."""
        return len(self._x)

    @property
    def n_units(self) -> int:
        return int(self._units.max()) + 1

    def values(self, statistics: Sequence[str], weights: np.ndarray) -> dict[str, np.ndarray]:
        """Statistics under b weightings at once.

        Args:
            weights: Whole numbers (units, b) of at least 0, how often each unit counts.

        Returns:
            Name → float64 (b,) in [-1, 1]; NaN where a weighting leaves one side constant, or no rows.
        """
        cells, sides = self._weighted(weights)
        fewest_distinct = np.min([np.count_nonzero(groups, axis=0) for groups in sides], axis=0)
        found: dict[str, np.ndarray] = {}
        with np.errstate(divide="ignore", invalid="ignore"):
            if {"tau_b", "tau_c"} & set(statistics):
                total = sides[0].sum(axis=0)
                # n_0 − n_1 = (n² − Σt²) / 2, with t rows of a value
                untied = [total**2 - np.einsum("gb,gb->b", groups, groups) for groups in sides]
                concordance = sum((digit.balance(cells) for digit in self._digits), np.zeros(len(total)))
                twice = 2 * concordance
                found["tau_b"] = twice / np.sqrt(untied[0]) / np.sqrt(untied[1])
                found["tau_c"] = fewest_distinct * twice / (total**2 * (fewest_distinct - 1))
            if "spearman" in statistics:
                found["spearman"] = self._product_moment(cells, sides, [_midranks(each) for each in sides])
            if "pearson" in statistics:
                pairs = zip(self._distinct, sides, strict=True)
                found["pearson"] = self._product_moment(cells, sides, [_deviations(*pair) for pair in pairs])
        constant = fewest_distinct < 2
        return {name: np.where(constant, np.nan, np.clip(found[name], -1.0, 1.0)) for name in statistics}

    def of_all(self, statistics: Sequence[str]) -> dict[str, float | None]:
        """Statistics with each unit counted once; None where one is undefined."""
        found = self.values(statistics, np.ones((self.n_units, 1)))
        return {name: plain(float(value)) for name, (value,) in found.items()}

    def _weighted(self, weights: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Weights of the cells, (cells, b), and of the distinct scores and ratings, (distinct, b) each."""
        cells = np.take(np.ascontiguousarray(weights, np.float64), self._units, axis=0) * self._counts
        of_ratings = np.take(cells, self._y_order, axis=0)
        ordered = ((cells, self._x), (of_ratings, self._y[self._y_order]))
        return cells, [np.add.reduceat(part, _starts(codes), axis=0) for part, codes in ordered]

    def _product_moment(
        self, cells: np.ndarray, sides: Sequence[np.ndarray], centred: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Pearson's r of centred values: (distinct scores, b) and (distinct ratings, b)."""
        x, y = centred
        product = np.take(x, self._x, axis=0)
        product *= np.take(y, self._y, axis=0)
        spreads = [np.einsum("gb,gb,gb->b", w, v, v) for w, v in zip(sides, centred, strict=True)]
        return np.einsum("cb,cb->b", cells, product) / np.sqrt(spreads[0]) / np.sqrt(spreads[1])


def check_statistics(statistics: str | Sequence[str]) -> tuple[str, ...]:
    """Names of statistics, each once; an unknown name is an error that lists the known ones."""
    if isinstance(statistics, str):
        statistics = (statistics,)
    names = tuple(dict.fromkeys(statistics))
    unknown = [name for name in names if name not in STATISTICS]
    if unknown or not names:
        raise InputError(f"statistics {unknown}: expected some of {', '.join(STATISTICS)}")
    return names


@dataclass(frozen=True)
class _Digit:
    """One binary digit of the ranks of ratings, for the sum n_c − n_d; see `Correlations`.

    Attributes:
        order: Rows in groups of equal higher digits and, in a group, in the order of scores.
        ones: Places in this order of the rows whose digit is 1.
        group, tied: For each of these, start and end of its group, and of the rows of its score in the group.
    """

    order: np.ndarray
    ones: np.ndarray
    group: tuple[np.ndarray, np.ndarray]
    tied: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, digit: int) -> _Digit:
        """A digit of the ranks `y`, of rows in the order of the scores `x`."""
        higher = y >> (digit + 1)
        order = np.argsort(higher, kind="stable")
        ones = np.flatnonzero(y[order] >> digit & 1)
        groups, scores = higher[order], x[order]
        return cls(order, ones, _run_around(ones, groups), _run_around(ones, groups, scores))

    def balance(self, cells: np.ndarray) -> np.ndarray:
        """Weight before each row with a 1 less the weight after it, summed, float64 (b,) of whole numbers."""
        weights = np.take(cells, self.order, axis=0)
        upto = np.zeros((len(cells) + 1, cells.shape[1]))  # weight before each place
        np.cumsum(weights, axis=0, out=upto[1:])
        # (tied start − group start) − (group end − tied end)
        balance = np.take(upto, self.tied[0], axis=0)
        balance += np.take(upto, self.tied[1], axis=0)
        balance -= np.take(upto, self.group[0], axis=0)
        balance -= np.take(upto, self.group[1], axis=0)
        return np.einsum("cb,cb->b", np.take(weights, self.ones, axis=0), balance)


def _run_around(places: np.ndarray, *keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start and end of the run of equal sorted keys in which each place is."""
    starts = _starts(*keys)
    index = np.searchsorted(starts, places, side="right")
    return starts[index - 1], np.append(starts, len(keys[0]))[index]


def _midranks(groups: np.ndarray) -> np.ndarray:
    """Mean ranks of the distinct values, centred and doubled, which makes them whole numbers."""
    upto = np.cumsum(groups, axis=0)
    return 2 * upto - groups - upto[-1]


def _deviations(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Values minus their mean under each weighting, scaled to at most 1; 0 where a value has no weight."""
    spread = values[:, None] - values @ groups / groups.sum(axis=0)
    spread[groups == 0] = 0.0
    return spread / np.abs(spread).max(axis=0)


def _shrunk(values: np.ndarray) -> np.ndarray:
    """Sorted values scaled into [-1, 1] by a power of two, which is exact, with the middle one at 0.

    No square may overflow, and close values must keep their digits; no statistic depends on the scale.
    """
    _, exponent = np.frexp(np.abs(values).max())
    values = np.ldexp(values, -exponent - 1)
    return values - values[len(values) // 2]


def _starts(*keys: np.ndarray) -> np.ndarray:
    """Indices where a new combination of sorted keys begins."""
    new = np.ones(len(keys[0]), dtype=bool)
    new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return np.flatnonzero(new)


def _statistic(name: str, first: Column, second: Column) -> float | None:
    x = number_column(first, "first", complete=True)
    y = number_column(second, "second", len(x), complete=True)
    return Correlations(x, y).of_all([name])[name]
