"""Measures how well a metric agrees with people, and whether one metric agrees better than another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import InputError, Setting
from ..options import MAX_DRAWS, Sampling, check_whole_number
from .bootstrap import NO_INTERVALS, Interval, bootstrap_intervals, intervals_of, resample, two_sided_p
from .columns import Column, as_list, means_by, number_column, numbers_of, plain, present_rows, units_of
from .correlation import STATISTICS, Correlations, check_statistics

_THOUSAND = Sampling(bootstrap=1000)


@dataclass(frozen=True, kw_only=True)
class _Counted:
    """What every comparison of scores with ratings has.

    Attributes:
        n_rows: Number of pairs of a score and a rating behind the statistics: `n_ratings` if raters were
            flattened, else `n_items`.
        n_images: Number of distinct images among the items used; None if no image ids were given.
        notes: Sentences on what was left out or is undefined, and why.
    """

    n_items: int
    n_ratings: int
    n_rows: int
    n_images: int | None
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        return {name: plain(value) for name, value in vars(self).items()}


@dataclass(frozen=True, kw_only=True)
class Agreement(_Counted):
    """How well scores agree with ratings; see `agreement`.

    Attributes:
        values: Statistic → value in [-1, 1]; None where it is undefined, with a note.
        intervals: Statistic → bootstrap interval, None where it is undefined; empty without a bootstrap.
    """

    values: dict[str, float | None]
    intervals: dict[str, Interval | None]


@dataclass(frozen=True, kw_only=True)
class AgreementDifference(_Counted):
    """Whether one metric agrees better with people than another on the same rows; see `compare`.

    Attributes:
        first, second: Value of the statistic for each metric, in [-1, 1]; None where it is undefined.
        p_value: Two-sided p-value in (0, 1]; None if the difference is undefined.
        n_samples: Number of samples behind the p-value, without those in which the statistic is undefined.
    """

    statistic: str
    first: float | None
    second: float | None
    difference: float | None
    p_value: float | None
    interval: Interval | None
    n_samples: int


def agreement(
    scores: Column,
    ratings: Column,
    *,
    raters: str | None = None,
    images: Column | None = None,
    statistics: str | Sequence[str] = STATISTICS,
    sampling: Sampling = NO_INTERVALS,
    missing: str = "raise",
) -> Agreement:
    """Measure how well scores agree with people's ratings.

    Args:
        scores: n finite numbers; NaN or None where a row failed.
        ratings: n ratings on any scale, or n lists of them (or an array (n, k)) with one rating per rater;
            NaN or None where one is missing.
        raters: Meaning of several ratings per item. The two ways give different numbers, so one must be
            named: "flatten" makes a row of each rating, as figures on Flickr8k-Expert are published; "mean"
            makes a row of each item, with its mean rating.
        images: n image ids; the bootstrap draws whole images.
        statistics: Any of "tau_b", "tau_c", "spearman", "pearson".
        sampling: Draws for the intervals; the default makes none. Without `images` the samples are of items,
            which a note says, and also depend on the order of the items.
        missing: "raise" stops at the first item without a score or with a missing rating; "skip" leaves out
            the item, or the missing one of several ratings, counts it and names it in the notes.

    Returns:
        Values, intervals, counts and notes.

    Raises:
        InputError: lists of different lengths, a value that is not a finite number, several ratings per item
            without `raters`, fewer than 2 items (with a bootstrap by image, fewer than 2 images).

    >>> found = agreement([0.9, 0.4, 0.7, 0.1], [[4, 4], [2, 3], [2, 4], [1, 1]], raters="flatten")
    >>> round(found.values["tau_b"], 3), round(found.values["tau_c"], 3)
    (0.809, 0.792)
    >>> found.n_items, found.n_ratings
    (4, 8)
    """
    names = check_statistics(statistics)
    columns, rated, units, unit, counts = _rows({"scores": scores}, ratings, raters, images, missing)
    n_units = int(units.max()) + 1
    if sampling.bootstrap and n_units < 2:
        raise InputError(f"a bootstrap by {unit} needs at least 2 {unit}s, and there is 1")
    correlations = Correlations(columns["scores"], rated, units)
    intervals, notes = bootstrap_intervals(
        lambda drawn: np.array(list(correlations.values(names, drawn).values())),
        names,
        n_units=n_units,
        unit=unit,
        n_rows=correlations.n_cells,
        sampling=sampling,
    )
    return Agreement(
        values=correlations.of_all(names),
        intervals=intervals,
        **vars(replace(counts, notes=(*counts.notes, *notes))),
    )


def compare(
    scores: tuple[Column, Column],
    ratings: Column,
    *,
    raters: str | None = None,
    images: Column | None = None,
    statistic: str = "tau_c",
    sampling: Sampling = _THOUSAND,
    missing: str = "raise",
) -> AgreementDifference:
    """Test whether one metric agrees better with people than another, on the same rows.

    Images are drawn with replacement, the same ones for both metrics. The interval holds the middle of the
    differences. The p-value counts how often a difference lies as far from the mean of all differences as the
    observed one lies from 0: they vary around their mean as they would vary around 0 if both metrics agreed
    equally well. It is two-sided, and (1 + count) / (1 + number of samples).

    Args:
        scores: n numbers of the first metric, as `scores` in `agreement`, and n of the second, on the same
            items.
        ratings, raters, images, missing: As in `agreement`; an item that lacks either score is left out for
            both.
        statistic: "tau_b", "tau_c", "spearman" or "pearson".
        sampling: Number of samples, at least 1; confidence and seed.

    Raises:
        InputError: as in `agreement`; fewer than 2 images.

    >>> people, scores = [1, 1, 2, 2, 3, 3, 4, 4], ([1, 2, 3, 4, 5, 6, 7, 8], [8, 1, 6, 3, 4, 5, 2, 7])
    >>> found = compare(scores, people, statistic="tau_b", sampling=Sampling(bootstrap=200))
    >>> round(found.first, 3), round(found.second, 3), found.p_value < 0.05
    (0.926, 0.0, True)
    """
    check_statistics((statistic,))
    check_whole_number("bootstrap", sampling.bootstrap, 1, MAX_DRAWS)
    given = dict(zip(("first_scores", "second_scores"), scores, strict=True))
    columns, rated, units, unit, counts = _rows(given, ratings, raters, images, missing)
    n_units = int(units.max()) + 1
    if n_units < 2:
        raise InputError(f"a bootstrap needs at least 2 {unit}s, and there is 1")
    pair = [Correlations(column, rated, units) for column in columns.values()]
    first, second = (metric.of_all([statistic])[statistic] for metric in pair)
    difference = None if first is None or second is None else first - second
    intervals: dict[str, Interval | None] = {statistic: None}
    p_value, notes = None, list(counts.notes)
    defined = np.zeros(0)
    if difference is not None:

        def differences(drawn: np.ndarray) -> np.ndarray:
            one, other = (metric.values([statistic], drawn)[statistic] for metric in pair)
            return (one - other)[None]

        n_cells = pair[0].n_cells + pair[1].n_cells
        samples = resample(differences, sampling, n_units=n_units, n_rows=n_cells)
        intervals, more = intervals_of([statistic], samples, unit, sampling)
        notes += more
        defined = samples[~np.isnan(samples)]
        if len(defined):
            p_value = two_sided_p(defined - defined.mean(), difference)
    return AgreementDifference(
        statistic=statistic,
        first=first,
        second=second,
        difference=difference,
        p_value=p_value,
        interval=intervals[statistic],
        n_samples=len(defined),
        **vars(replace(counts, notes=tuple(notes))),
    )


def _rows(
    scores: Mapping[str, Column], ratings: Column, raters: str | None, images: Column | None, missing: str
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, str, _Counted]:
    """Check the arguments of `agreement`; `scores` has one list of numbers per metric."""
    if raters not in (None, "flatten", "mean"):
        raise InputError(Setting("raters", raters), ": expected 'flatten' or 'mean'", field="raters")
    numbers, sizes = _ratings(ratings)
    columns = {name: number_column(values, name, len(sizes)) for name, values in scores.items()}
    most = sizes.max(initial=0)
    if most > 1 and raters is None:
        flatten, mean = Setting("raters", "flatten"), Setting("raters", "mean")
        raise InputError(f"up to {most} ratings per item: choose ", flatten, " or ", mean, field="ratings")
    items = np.repeat(np.arange(len(sizes)), sizes)
    available = ~np.isnan(numbers)
    n_available = np.bincount(items[available], minlength=len(sizes))
    kept, notes = _kept_items(columns, n_available, sizes, missing)
    used = available & kept[items]
    numbers, items = numbers[used], items[used]
    n_ratings = len(numbers)
    if raters == "mean" and most > 1:
        numbers, items = means_by(numbers, items), np.flatnonzero(kept)
    units, unit = units_of(images, kept, "item", np.arange(len(kept)))
    of_rows = {name: column[items] for name, column in columns.items()}
    for name, column in {**of_rows, "ratings": numbers}.items():
        if np.ptp(column) == 0:
            field = name.replace("_", " ")
            notes.append(f"{field} are all {column[0]:g}: a correlation with them is undefined")
    counts = _Counted(
        n_items=int(kept.sum()),
        n_ratings=n_ratings,
        n_rows=len(numbers),
        n_images=None if images is None else int(units.max()) + 1,
        notes=tuple(notes),
    )
    of_items = np.cumsum(kept) - 1
    return of_rows, numbers, units[of_items[items]], unit, counts


def _kept_items(
    columns: Mapping[str, np.ndarray], n_available: np.ndarray, sizes: np.ndarray, missing: str
) -> tuple[np.ndarray, list[str]]:
    """Items with all scores and a rating, bool (items,), and what is left out; or an error for the first."""
    rated = np.where(n_available > 0, 1.0, np.nan)
    complete = np.where(n_available < sizes, np.nan, rated)
    present_rows(missing, {**columns, "ratings": complete if missing == "raise" else rated})
    kept, notes = np.ones(len(sizes), dtype=bool), []
    for name, column in {**columns, "ratings": rated}.items():
        lacking = kept & np.isnan(column)
        kept &= ~lacking
        if lacking.any():
            notes.append(f"{lacking.sum()} of {len(kept)} items left out: {name.replace('_', ' ')} missing")
    if kept.sum() < 2:
        raise InputError(f"agreement needs at least 2 items, and there is {kept.sum()}")
    if n_missing := int((sizes - n_available)[kept].sum()):
        notes.append(f"{n_missing} missing ratings of items that have others left out")
    return kept, notes


def _ratings(values: Column) -> tuple[np.ndarray, np.ndarray]:
    """Ratings → float64 (ratings,) with NaN where one is missing, and the number of ratings per item."""
    ratings: list[object] = []
    sizes = []
    for row in as_list(values, "ratings"):
        several = row if isinstance(row, (list, tuple, np.ndarray)) else [row]
        ratings += several
        sizes.append(len(several))
    try:
        return numbers_of(ratings, "ratings"), np.array(sizes, dtype=np.int64)
    except InputError as error:
        assert error.row is not None
        raise error.at(int(np.repeat(np.arange(len(sizes)), sizes)[error.row])) from None
