"""Computes Kendall's τ_b and τ_c, Spearman's ρ and Pearson's r of weighted rows.

In: two arrays of numbers, and how often each row counts. Out: exact statistics in [-1, 1], for one weighting
or many at once. `capscore.statistics.agreement` adds checks, counts and intervals.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError, Setting

STATISTICS = ("tau_b", "tau_c", "spearman", "pearson")


def tau_b(first: ArrayLike, second: ArrayLike, weights: ArrayLike | None = None) -> float | None:
    """Kendall's τ_b = (n_c − n_d) / √((n_0 − n_1)(n_0 − n_2)), in [-1, 1]; None where one side is constant.

    n_0 counts all pairs of rows, n_c and n_d those in the same and in the opposite order, n_1 and n_2 those
    tied in `first` and in `second` (Kendall 1945, "The treatment of ties in ranking problems"). Pairs are
    counted in whole numbers: exact for up to 9 × 10⁷ rows.

    Args:
        first: n finite numbers.
        second: n finite numbers.
        weights: n whole numbers of at least 0, how often each row counts; None counts each once.

    Raises:
        InputError: different lengths, no rows, a value that is not a finite number, a weight that is not a
            whole number of at least 0.

    >>> round(tau_b([1, 2, 3, 4], [1, 3, 3, 2]), 4)
    0.1826
    >>> tau_b([1, 2, 3], [5, 5, 5]) is None
    True
    """
    return _one("tau_b", first, second, weights)


def tau_c(first: ArrayLike, second: ArrayLike, weights: ArrayLike | None = None) -> float | None:
    """Kendall's τ_c = 2m(n_c − n_d) / (n²(m − 1)), in [-1, 1]; None where one side is constant.

    m is the smaller number of distinct values among the rows that count (Stuart 1953). Arguments and errors
    as in `tau_b`.

    >>> round(tau_c([1, 2, 3, 4], [1, 3, 3, 2]), 4)
    0.1875
    """
    return _one("tau_c", first, second, weights)


def spearman(first: ArrayLike, second: ArrayLike, weights: ArrayLike | None = None) -> float | None:
    """Spearman's ρ, in [-1, 1]: Pearson's r of the ranks, where tied values share their mean rank.

    None where one side is constant. Arguments and errors as in `tau_b`.

    >>> round(spearman([1, 2, 3, 4], [1, 3, 3, 2]), 4)
    0.3162
    """
    return _one("spearman", first, second, weights)


def pearson(first: ArrayLike, second: ArrayLike, weights: ArrayLike | None = None) -> float | None:
    """Pearson's r, in [-1, 1]; None where one side is constant. Arguments and errors as in `tau_b`.

    >>> round(pearson([1, 2, 3, 4], [1, 3, 3, 2]), 4)
    0.4045
    >>> pearson([1, 2, 3], [3, 2, 9], weights=[2, 0, 1]) == pearson([1, 1, 3], [3, 3, 9])
    True
    """
    return _one("pearson", first, second, weights)


@dataclass(frozen=True)
class PairCounts:
    """Numbers of pairs of n rows; a pair tied on both sides counts in all three kinds of ties.

    Attributes:
        total: Number of all pairs, n(n − 1)/2.
        concordant, discordant: Numbers of pairs in the same and in opposite order; ties are neither.
        tied_scores, tied_ratings, tied_both: Numbers of pairs with equal scores, equal ratings, or both.
    """

    total: int
    concordant: int
    discordant: int
    tied_scores: int
    tied_ratings: int
    tied_both: int


class Correlations:
    """Sorts rows once; each statistic under many weightings then costs O(rows · log(distinct ratings)).

    Rows belong to units (usually images) and count as often as their unit does, so a bootstrap sample is one
    whole number per unit, and no resampled copy is made. Equal rows of a unit are kept once, with a count.

    n_c − n_d is summed over the binary digits of the ratings' ranks. Two ranks differ first in one digit,
    with all higher digits equal. So within each group of equal higher digits, in the order of scores, a row
    with the digit 1 adds the weight before it and subtracts the weight after it, without rows of its own
    score. Between two rows with the digit 1 this cancels. Everything is a cumulative sum of whole numbers,
    for many weightings side by side.

    Args:
        scores: Finite scores, float64 (n,).
        ratings: Finite ratings, float64 (n,).
        units: Unit of each row, int (n,) from 0; None makes each row a unit.

    >>> rows = Correlations(np.array([0.1, 0.4, 0.3]), np.array([1.0, 2.0, 2.0]))
    >>> rows.values(["tau_b"], np.array([[1, 2], [1, 0], [1, 1]]))["tau_b"].round(4).tolist()
    [0.8165, 1.0]
    """

    def __init__(self, scores: np.ndarray, ratings: np.ndarray, units: np.ndarray | None = None):
        units = np.arange(len(scores)) if units is None else units
        # no square may overflow, and close values must keep their digits; no statistic depends on the scale
        self._x_values, x = np.unique(scores, return_inverse=True)
        self._y_values, y = np.unique(ratings, return_inverse=True)
        self._x_values, self._y_values = _shrunk(self._x_values), _shrunk(self._y_values)

        order = np.lexsort((units, y, x))
        x, y, units = x[order], y[order], units[order]
        starts = _starts(x, y, units)
        self._counts = np.diff(np.append(starts, len(x))).astype(np.float64)[:, None]
        self._x, self._y, self._units = x[starts], y[starts], units[starts]
        self._x_ends = _ends(self._x)
        self._y_order = np.argsort(self._y, kind="stable")
        self._y_ends = _ends(self._y[self._y_order])
        digits = range(int(self._y[self._y_order[-1]]).bit_length())
        self._digits = [_Digit.of(self._x, self._y, digit) for digit in digits]

    @property
    def n_cells(self) -> int:
        """Number of distinct (unit, score, rating), to which the work for one weighting is proportional."""
        return len(self._x)

    @property
    def n_units(self) -> int:
        """Number of units that a weighting covers."""
        return int(self._units.max()) + 1

    def values(self, statistics: Sequence[str], weights: np.ndarray) -> dict[str, np.ndarray]:
        """Statistics under b weightings at once.

        Args:
            statistics: Names in `STATISTICS`.
            weights: Whole numbers (units, b) of at least 0, how often each unit counts.

        Returns:
            Name → float64 (b,) in [-1, 1]; NaN where a weighting leaves one side constant, or no rows.
        """
        weighted = self._weighted(weights)
        found: dict[str, np.ndarray] = {}
        with np.errstate(divide="ignore", invalid="ignore"):
            concordance = None
            for name in statistics:
                if name in ("tau_b", "tau_c"):
                    concordance = self._concordance(weighted) if concordance is None else concordance
                    found[name] = _TAU[name](concordance, weighted)
                elif name == "spearman":
                    found[name] = self._product_moment(weighted, _midranks(weighted.x), _midranks(weighted.y))
                else:
                    deviations = (
                        _deviations(self._x_values, weighted.x),
                        _deviations(self._y_values, weighted.y),
                    )
                    found[name] = self._product_moment(weighted, *deviations)
        constant = weighted.fewest_distinct < 2
        return {
            name: np.where(constant, np.nan, np.clip(values, -1.0, 1.0)) for name, values in found.items()
        }

    def pair_counts(self) -> PairCounts:
        """Counts of the pairs of rows, each row counted once."""
        weighted = self._weighted(np.ones((self.n_units, 1)))
        n = int(weighted.x.total[0])
        tied_scores, tied_ratings = (_tied(side.groups[:, 0]) for side in (weighted.x, weighted.y))
        cells = np.add.reduceat(self._counts[:, 0], _starts(self._x, self._y))
        tied_both = _tied(cells)
        untied = n * (n - 1) // 2 - tied_scores - tied_ratings + tied_both
        difference = int(self._concordance(weighted)[0])
        return PairCounts(
            total=n * (n - 1) // 2,
            concordant=(untied + difference) // 2,
            discordant=(untied - difference) // 2,
            tied_scores=tied_scores,
            tied_ratings=tied_ratings,
            tied_both=tied_both,
        )

    def _weighted(self, weights: np.ndarray) -> _Weighted:
        cells = np.take(np.ascontiguousarray(weights, np.float64), self._units, axis=0) * self._counts
        by_rating = _cumulated(np.take(cells, self._y_order, axis=0))
        before = _cumulated(cells)
        return _Weighted(cells, before, _Side.of(before, self._x_ends), _Side.of(by_rating, self._y_ends))

    def _concordance(self, weighted: _Weighted) -> np.ndarray:
        """n_c − n_d, float64 (b,) of whole numbers."""
        total = np.zeros(weighted.cells.shape[1])
        for digit in self._digits:
            # the top digit has one group, all rows in the order of scores, which is summed up already
            cells = weighted.cells if digit.order is None else np.take(weighted.cells, digit.order, axis=0)
            before = weighted.before if digit.order is None else _cumulated(cells)
            balance = np.take(before, digit.tie_start, axis=0)
            balance += np.take(before, digit.tie_end, axis=0)
            balance -= np.take(before, digit.group_start, axis=0)
            balance -= np.take(before, digit.group_end, axis=0)
            total += np.einsum("cb,cb->b", np.take(cells, digit.ones, axis=0), balance)
        return total

    def _product_moment(self, weighted: _Weighted, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Pearson's r of centred values: (distinct scores, b) and (distinct ratings, b)."""
        product = np.take(x, self._x, axis=0)
        product *= np.take(y, self._y, axis=0)
        product = np.einsum("cb,cb->b", weighted.cells, product)
        spread_x = np.einsum("gb,gb,gb->b", weighted.x.groups, x, x)
        spread_y = np.einsum("gb,gb,gb->b", weighted.y.groups, y, y)
        return product / np.sqrt(spread_x) / np.sqrt(spread_y)


def check_statistics(statistics: str | Sequence[str]) -> tuple[str, ...]:
    """Names of statistics, each once; an unknown name is an error that lists the known ones.

    >>> check_statistics("tau_c")
    ('tau_c',)
    """
    names = (statistics,) if isinstance(statistics, str) else tuple(statistics)
    for name in names:
        if name not in STATISTICS:
            close = difflib.get_close_matches(str(name), STATISTICS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(f"there is no statistic {name!r}: expected one of {', '.join(STATISTICS)}{hint}")
    if not names:
        raise InputError(
            Setting("statistics"), f" is empty: expected at least one of {', '.join(STATISTICS)}"
        )
    return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class _Digit:
    """Rows whose rating's rank has one binary digit set, among rows with equal higher digits.

    Attributes:
        order: Rows by higher digits, then by score; None if they have that order already.
        ones: Places of the rows with the digit 1.
        tie_start, tie_end: Start and end of the rows of the same score in the same group.
        group_start, group_end: Start and end of the group.
    """

    order: np.ndarray | None
    ones: np.ndarray
    tie_start: np.ndarray
    tie_end: np.ndarray
    group_start: np.ndarray
    group_end: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, digit: int) -> _Digit:
        upper = y >> (digit + 1)
        order = np.argsort(upper, kind="stable")
        upper, x = upper[order], x[order]
        ones = np.flatnonzero(y[order] >> digit & 1)
        bounds = []
        for starts in (_starts(upper, x), _starts(upper)):
            place = np.searchsorted(starts, ones, side="right")
            bounds += [starts[place - 1], np.append(starts, len(x))[place]]
        return cls(order if upper[-1] else None, ones, *bounds)


@dataclass(frozen=True)
class _Side:
    """One side's distinct values under b weightings: weight of each value, and of all smaller values."""

    groups: np.ndarray  # (distinct, b)
    before: np.ndarray  # (distinct, b)
    total: np.ndarray  # (b,)

    @classmethod
    def of(cls, cumulated: np.ndarray, ends: np.ndarray) -> _Side:
        upto = np.take(cumulated, ends, axis=0)
        groups = np.diff(upto, axis=0, prepend=0.0)
        return cls(groups, upto - groups, cumulated[-1])


@dataclass(frozen=True)
class _Weighted:
    """Cells under b weightings: their weights, the sums in the order of scores, and the two sides."""

    cells: np.ndarray  # (cells, b)
    before: np.ndarray  # (cells + 1, b)
    x: _Side
    y: _Side

    @property
    def fewest_distinct(self) -> np.ndarray:
        """m (b,): the smaller number of distinct values with a weight."""
        return np.minimum(np.count_nonzero(self.x.groups, axis=0), np.count_nonzero(self.y.groups, axis=0))


def _tau_b(concordance: np.ndarray, weighted: _Weighted) -> np.ndarray:
    # n_0 − n_1 = (n² − Σt²) / 2, with t rows of a value
    untied = [
        side.total**2 - np.einsum("gb,gb->b", side.groups, side.groups) for side in (weighted.x, weighted.y)
    ]
    return 2 * concordance / np.sqrt(untied[0]) / np.sqrt(untied[1])


def _tau_c(concordance: np.ndarray, weighted: _Weighted) -> np.ndarray:
    m = weighted.fewest_distinct
    return 2 * m * concordance / (weighted.x.total**2 * (m - 1))


_TAU = {"tau_b": _tau_b, "tau_c": _tau_c}


def _midranks(side: _Side) -> np.ndarray:
    """Mean ranks of the distinct values, centred and doubled, which makes them whole numbers."""
    return 2 * side.before + side.groups - side.total


def _deviations(values: np.ndarray, side: _Side) -> np.ndarray:
    """Values minus their mean under each weighting, scaled to at most 1; 0 where a value has no weight."""
    spread = values[:, None] - values @ side.groups / side.total
    spread[side.groups == 0] = 0.0
    return spread / np.abs(spread).max(axis=0)


def _shrunk(values: np.ndarray) -> np.ndarray:
    """Sorted values scaled into [-1, 1] by a power of two, which is exact, with the middle one at 0."""
    _, exponent = np.frexp(np.abs(values).max())
    values = np.ldexp(values, -exponent - 1)
    return values - values[len(values) // 2]


def _starts(*keys: np.ndarray) -> np.ndarray:
    """Places where a new combination of sorted keys begins."""
    new = np.ones(len(keys[0]), dtype=bool)
    new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return np.flatnonzero(new)


def _ends(key: np.ndarray) -> np.ndarray:
    return np.append(_starts(key)[1:], len(key))


def _cumulated(cells: np.ndarray) -> np.ndarray:
    """Sums of the rows before each place, (n + 1, b)."""
    sums = np.zeros((len(cells) + 1, cells.shape[1]))
    np.cumsum(cells, axis=0, out=sums[1:])
    return sums


def _tied(groups: np.ndarray) -> int:
    """Number of pairs within groups of these sizes."""
    return int(groups @ (groups - 1)) // 2


def _one(name: str, first: ArrayLike, second: ArrayLike, weights: ArrayLike | None) -> float | None:
    x, y = _checked(first, "first"), _checked(second, "second")
    counts = np.ones(len(x)) if weights is None else _checked(weights, "weights")
    for field, values in (("second", y), ("weights", counts)):
        if len(values) != len(x):
            raise InputError(f"{len(x)} numbers in first but {len(values)} in {field}", field=field)
    if not len(x):
        raise InputError("there are no rows: first is empty", field="first")
    wrong = np.flatnonzero((counts < 0) | (counts % 1 != 0))
    if len(wrong):
        raise InputError(
            f"{counts[wrong[0]]:g}: expected a whole number of at least 0", row=int(wrong[0]), field="weights"
        )
    value = Correlations(x, y).values([name], counts[:, None])[name][0]
    return None if np.isnan(value) else float(value)


def _checked(values: ArrayLike, field: str) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"expected a list of numbers ({error})", field=field) from None
    if array.ndim != 1:
        raise InputError(f"has the shape {array.shape}; expected a list of numbers", field=field)
    wrong = np.flatnonzero(~np.isfinite(array))
    if len(wrong):
        raise InputError(f"{array[wrong[0]]}: expected a finite number", row=int(wrong[0]), field=field)
    return array
