"""Measures how well a metric agrees with people, and whether one metric agrees better than another.

In: scores of n items, people's ratings of them, and the image that each item shows. Out: τ_b, τ_c, ρ and r,
or pairwise accuracy, with intervals and with counts of everything tied or left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from ..errors import InputError, Setting
from .bootstrap import (
    Interval,
    check_sampling,
    coarseness,
    coin_flips,
    multiplicities,
    percentile_interval,
    resample,
    two_sided_p,
)
from .correlation import STATISTICS, Correlations, PairCounts, check_statistics
from .plain_values import plain
from .ratings import NumberColumns, RatedScores, RatingSummary, coded, means_by, units_of


@dataclass(frozen=True, kw_only=True)
class _Counted:
    """Counts that every comparison of scores with ratings has.

    Attributes:
        n_items: Number of items used.
        n_ratings: Number of single ratings used.
        n_rows: Number of pairs of a score and a rating behind the statistics: `n_ratings` if raters were
            flattened, else `n_items`.
        n_images: Number of distinct images among the items used; None if no image ids were given.
        raters: "single" if every item has one rating, else the choice, "flatten" or "mean".
        n_left_out: Number of items left out.
        left_out: Reason → number of items; adds up to n_left_out.
        n_ratings_left_out: Number of missing single ratings of items that have others and were used.
        ratings: Distribution of the ratings.
        notes: Sentences on what was left out or is undefined, and why.
    """

    n_items: int
    n_ratings: int
    n_rows: int
    n_images: int | None
    raters: str
    n_left_out: int
    left_out: dict[str, int]
    n_ratings_left_out: int
    ratings: RatingSummary
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        values = {name: plain(value) for name, value in vars(self).items()}
        counts = {field.name: values.pop(field.name) for field in fields(_Counted)}
        return {**values, **counts}


@dataclass(frozen=True, kw_only=True)
class Agreement(_Counted):
    """How well scores agree with ratings; see `agreement`.

    Attributes:
        values: Statistic → value in [-1, 1]; None where it is undefined, with a note.
        intervals: Statistic → bootstrap interval, None where it is undefined; empty without a bootstrap.
        resampled_by: What the bootstrap drew, "image" or "item"; None without one.
        seed: Seed for the bootstrap; None without one.
        pairs: Numbers of concordant, discordant and tied pairs of rows. If raters were flattened, two ratings
            of one item are a pair tied in its score.
    """

    values: dict[str, float | None]
    intervals: dict[str, Interval | None]
    resampled_by: str | None
    seed: int | None
    pairs: PairCounts


@dataclass(frozen=True, kw_only=True)
class Comparison(_Counted):
    """Whether one metric agrees better with people than another on the same rows; see `compare`.

    Attributes:
        statistic: Statistic that is compared.
        first, second: Value of the statistic for each metric, in [-1, 1]; None where it is undefined.
        difference: first − second; None if either is undefined.
        p_value: Two-sided p-value in (0, 1]; None if the difference is undefined.
        interval: Interval of the difference; None for "randomisation", which makes none.
        method: "bootstrap" or "randomisation".
        n_samples: Number of samples behind the p-value.
        n_undefined: Number of samples left out because the statistic was undefined in them.
        resampled_by: What was drawn or swapped, "image" or "item".
        seed: Seed for the samples.
    """

    statistic: str
    first: float | None
    second: float | None
    difference: float | None
    p_value: float | None
    interval: Interval | None
    method: str
    n_samples: int
    n_undefined: int
    resampled_by: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class PreferenceAccuracy:
    """How often the caption that should win has the higher score; see `pairwise_accuracy`.

    Attributes:
        value: n_wins / n_pairs, in [0, 1]; a tie is not a win.
        n_pairs, n_wins, n_ties, n_losses: Numbers of pairs: used, with a strictly higher score, with equal
            scores, with a strictly lower score.
        n_images: Number of distinct images; None if no image ids were given.
        interval: Bootstrap interval of the value; None without a bootstrap.
        resampled_by: What the bootstrap drew, "image" or "pair"; None without one.
        seed: Seed for the bootstrap; None without one.
        n_left_out: Number of pairs left out because a score is missing.
        notes: Remarks that a reader needs.
    """

    value: float
    n_pairs: int
    n_wins: int
    n_ties: int
    n_losses: int
    n_images: int | None
    interval: Interval | None
    resampled_by: str | None
    seed: int | None
    n_left_out: int
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {**asdict(self), "notes": list(self.notes)}


@dataclass(frozen=True)
class SystemMean:
    """A system: its name, the means of its metric scores and human ratings, and its number of items."""

    system: str
    metric: float
    human: float
    n_items: int


@dataclass(frozen=True, kw_only=True)
class SystemLevel:
    """Correlation over systems, or over differences between systems.

    Attributes:
        values: "pearson", "spearman" and "tau_b" → value in [-1, 1]; None where it is undefined.
        n_points: Number of points behind the correlation.
        n_evaluations: Number of side-by-side evaluations, two points each; None for plain systems.
        systems: Means of each system if items were given with their systems, else empty.
        n_left_out: Number of rows left out because a number is missing.
        notes: Remarks that a reader needs.
    """

    values: dict[str, float | None]
    n_points: int
    n_evaluations: int | None
    systems: tuple[SystemMean, ...]
    n_left_out: int
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {**asdict(self), "systems": list(map(asdict, self.systems)), "notes": list(self.notes)}


PairwiseAccuracy = PreferenceAccuracy  # former name, until the end of 2027


def agreement(
    scores: Any,
    ratings: Any,
    *,
    raters: str | None = None,
    images: Any = None,
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
    statistics: str | Sequence[str] = STATISTICS,
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
        bootstrap: Number of samples to draw; 0 for no intervals. Without `images` the samples are of items,
            which a note says, and also depend on the order of the items.
        confidence: Share of samples inside an interval.
        seed: Seed for the samples.
        statistics: Any of "tau_b", "tau_c", "spearman", "pearson".
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
    >>> found.n_items, found.n_ratings, found.ratings.counts
    (4, 8, {1.0: 2, 2.0: 2, 3.0: 1, 4.0: 3})
    """
    names = check_statistics(statistics)
    check_sampling(bootstrap, confidence, seed, field="bootstrap", least=0)
    rows = RatedScores.of({"scores": scores}, ratings, raters, images, missing)
    correlations = Correlations(rows.scores["scores"], rows.ratings, rows.units)
    values = _whole(correlations, names)
    constant = _constant_notes({**rows.scores, "ratings": rows.ratings})
    notes = [*rows.notes, *constant]

    intervals: dict[str, Interval | None] = {}
    if bootstrap:
        _check_units(rows.n_units, rows.unit, "a bootstrap")
        intervals = dict.fromkeys(names)
    if bootstrap and not constant:
        samples = resample(
            lambda drawn: np.array(list(correlations.values(names, drawn).values())),
            multiplicities,
            n_units=rows.n_units,
            n_samples=bootstrap,
            seed=seed,
            n_rows=correlations.n_cells,
            label="bootstrap",
        )
        for name, some in zip(names, samples, strict=True):
            intervals[name] = percentile_interval(some, confidence)
        # in a sample all statistics are undefined, or none is
        notes += _sampling_notes(samples[0], confidence, rows.unit, "items")
    return Agreement(
        values=values,
        intervals=intervals,
        pairs=correlations.pair_counts(),
        resampled_by=rows.unit if bootstrap else None,
        seed=seed if bootstrap else None,
        **_counts(rows, notes),
    )


def compare(
    first_scores: Any,
    second_scores: Any,
    ratings: Any,
    *,
    raters: str | None = None,
    images: Any = None,
    statistic: str = "tau_c",
    method: str = "bootstrap",
    n: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    missing: str = "raise",
) -> Comparison:
    """Test whether one metric agrees better with people than another, on the same rows.

    "bootstrap" draws images with replacement, the same ones for both metrics. The interval holds the middle
    of the differences. The p-value counts how often a difference lies as far from the mean of all differences
    as the observed one lies from 0: they vary around their mean as they would vary around 0 if both metrics
    agreed equally well.

    "randomisation" tests whether the two metrics are interchangeable. For each image a coin decides whether
    the scores of all its items are swapped (together, since they are not independent). The p-value counts how
    often the difference is then at least as large as the observed one. Mixing two metrics makes sense only on
    a common scale, so their scores are first replaced by ranks over all rows (for τ and ρ, which do not
    change) or by z-scores (for r, which does not change either).

    Both p-values are two-sided and (1 + count) / (1 + n).

    Args:
        first_scores: n numbers, as `scores` in `agreement`.
        second_scores: n numbers of the other metric on the same items.
        ratings, raters, images, confidence, seed, missing: As in `agreement`; an item that lacks either score
            is left out for both.
        statistic: "tau_b", "tau_c", "spearman" or "pearson".
        method: "bootstrap" or "randomisation".
        n: Number of samples.

    Raises:
        InputError: as in `agreement`; fewer than 2 images.

    >>> people = [1, 1, 2, 2, 3, 3, 4, 4]
    >>> found = compare([1, 2, 3, 4, 5, 6, 7, 8], [8, 1, 6, 3, 4, 5, 2, 7], people, statistic="tau_b", n=200)
    >>> round(found.first, 3), round(found.second, 3), found.p_value < 0.05
    (0.926, 0.0, True)
    """
    (statistic,) = check_statistics((statistic,))
    if method not in ("bootstrap", "randomisation"):
        raise InputError(
            Setting("method", method), ": expected 'bootstrap' or 'randomisation'", field="method"
        )
    check_sampling(n, confidence, seed, field="n", least=1)
    given = {"first_scores": first_scores, "second_scores": second_scores}
    rows = RatedScores.of(given, ratings, raters, images, missing)
    _check_units(rows.n_units, rows.unit, f"a {method}")
    pair = [Correlations(column, rows.ratings, rows.units) for column in rows.scores.values()]
    first, second = (_whole(metric, [statistic])[statistic] for metric in pair)
    notes = [*rows.notes, *_constant_notes({**rows.scores, "ratings": rows.ratings})]

    difference = interval = p_value = None
    n_defined = n_undefined = 0
    if first is not None and second is not None:
        difference = first - second
        bootstrapped = method == "bootstrap"
        samples = resample(
            _differences(pair, statistic) if bootstrapped else _swapped_differences(rows, statistic),
            multiplicities if bootstrapped else coin_flips,
            n_units=rows.n_units,
            n_samples=n,
            seed=seed,
            n_rows=pair[0].n_cells + pair[1].n_cells,
            label=method,
        )[0]
        defined = samples[~np.isnan(samples)]
        n_defined, n_undefined = len(defined), n - len(defined)
        if n_defined:
            p_value = two_sided_p(defined - defined.mean() if bootstrapped else defined, difference)
        if bootstrapped:
            interval = percentile_interval(samples, confidence)
            notes += _sampling_notes(samples, confidence, rows.unit, "items")
        else:
            notes += _swapping_notes(samples, rows)
    return Comparison(
        statistic=statistic,
        first=first,
        second=second,
        difference=difference,
        p_value=p_value,
        interval=interval,
        method=method,
        n_samples=n_defined,
        n_undefined=n_undefined,
        resampled_by=rows.unit,
        seed=seed,
        **_counts(rows, notes),
    )


def pairwise_accuracy(
    preferred_scores: Any,
    other_scores: Any,
    *,
    images: Any = None,
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
    missing: str = "raise",
) -> PreferenceAccuracy:
    """Measure how often the caption that should win has the strictly higher score.

    Args:
        preferred_scores: n scores of the captions that people preferred, or that are true.
        other_scores: n scores of the captions they are compared with, such as foils.
        images, bootstrap, confidence, seed, missing: As in `agreement`, with pairs as items.

    Returns:
        The share of wins in [0, 1]; ties are counted apart and are not wins.

    Raises:
        InputError: lists of different lengths, no pairs, a value that is not a finite number; with a
            bootstrap fewer than 2 images (pairs, if no image ids are given).

    >>> found = pairwise_accuracy([0.8, 0.5, 0.3, 0.9], [0.2, 0.5, 0.4, 0.1])
    >>> found.value, found.n_wins, found.n_ties, found.n_losses
    (0.5, 2, 1, 1)
    """
    check_sampling(bootstrap, confidence, seed, field="bootstrap", least=0)
    given = {"preferred_scores": preferred_scores, "other_scores": other_scores}
    columns = NumberColumns.of(given, missing, "pairs")
    preferred, other = columns.complete.values()
    n_pairs = len(preferred)
    if not n_pairs:
        raise InputError(f"there are 0 pairs{columns.remainder}")
    wins = preferred > other
    units, n_units = units_of(images, columns.kept)
    unit = "pair" if images is None else "image"
    notes = list(columns.notes)

    interval = None
    if bootstrap:
        _check_units(n_units, unit, "a bootstrap")
        pairs_of_unit, wins_of_unit = np.bincount(units), np.bincount(units, weights=wins)
        samples = resample(
            lambda drawn: (wins_of_unit @ drawn / (pairs_of_unit @ drawn))[None],
            multiplicities,
            n_units=n_units,
            n_samples=bootstrap,
            seed=seed,
            n_rows=n_units,
            label="bootstrap",
        )[0]
        interval = percentile_interval(samples, confidence)
        notes += _sampling_notes(samples, confidence, unit, "pairs")
    n_wins, n_ties = int(wins.sum()), int((preferred == other).sum())
    return PreferenceAccuracy(
        value=n_wins / n_pairs,
        n_pairs=n_pairs,
        n_wins=n_wins,
        n_ties=n_ties,
        n_losses=n_pairs - n_wins - n_ties,
        n_images=None if images is None else n_units,
        interval=interval,
        resampled_by=unit if bootstrap else None,
        seed=seed if bootstrap else None,
        n_left_out=int((~columns.kept).sum()),
        notes=tuple(notes),
    )


def system_level(
    metric_scores: Any, human_scores: Any, *, systems: Any = None, missing: str = "raise"
) -> SystemLevel:
    """Measure how well a metric ranks systems: Pearson, Spearman and Kendall (τ_b) over system means.

    Args:
        metric_scores: One mean per system; or, with `systems`, one score per item.
        human_scores: Human ratings, likewise.
        systems: System of each item. Means are taken first; each system then counts once.
        missing: "raise" or "skip", as in `agreement`.

    Raises:
        InputError: lists of different lengths, a value that is not a finite number, fewer than 2 systems.

    >>> found = system_level([0.71, 0.74, 0.78, 0.80], [2.9, 3.4, 3.3, 4.0])
    >>> {name: round(value, 3) for name, value in found.values.items()}
    {'pearson': 0.855, 'spearman': 0.8, 'tau_b': 0.667}
    """
    given = {"metric_scores": metric_scores, "human_scores": human_scores}
    columns = NumberColumns.of(given, missing, "systems" if systems is None else "items")
    metric, human = columns.complete.values()
    means: tuple[SystemMean, ...] = ()
    if systems is not None:
        names, codes = coded(systems, columns.kept, "systems")
        metric, human = means_by(metric, codes), means_by(human, codes)
        sizes = np.bincount(codes).tolist()
        rows = zip(map(str, names), metric.tolist(), human.tolist(), sizes, strict=True)
        means = tuple(SystemMean(*row) for row in rows)
    if len(metric) < 2:
        found = f"there is {len(metric)}{columns.remainder}"
        raise InputError(f"a correlation over systems needs at least 2 of them, and {found}")
    return _system_level(columns, metric, human, means)


def side_by_side(metric_differences: Any, human_differences: Any, *, missing: str = "raise") -> SystemLevel:
    """Measure how well a metric matches the preferences of people who saw two systems side by side.

    Each evaluation of two systems gives two points, one for either order of the two, with the signs of both
    differences flipped, since the order is arbitrary (Thapliyal et al. 2022, §3.3, Tables 5 and 6). N
    evaluations give 2N points.

    Args:
        metric_differences: Metric of one system minus that of the other, one number per evaluation.
        human_differences: Share of wins minus share of losses, or another signed preference, in the same
            order of the two systems.
        missing: "raise" or "skip", as in `agreement`.

    Raises:
        InputError: lists of different lengths, no evaluation, a value that is not a finite number.

    >>> found = side_by_side([0.25, 0.03, -0.02], [35.0, 14.0, 1.0])
    >>> found.n_points, round(found.values["pearson"], 3)
    (6, 0.961)
    """
    given = {"metric_differences": metric_differences, "human_differences": human_differences}
    columns = NumberColumns.of(given, missing, "evaluations")
    if not columns.kept.any():
        raise InputError(f"there are 0 side-by-side evaluations{columns.remainder}")
    metric, human = (np.concatenate([column, -column]) for column in columns.complete.values())
    return _system_level(columns, metric, human, n_evaluations=len(metric) // 2)


def _system_level(
    columns: NumberColumns,
    metric: np.ndarray,
    human: np.ndarray,
    systems: tuple[SystemMean, ...] = (),
    n_evaluations: int | None = None,
) -> SystemLevel:
    notes = [*columns.notes, *_constant_notes({"numbers of the metric": metric, "human numbers": human})]
    if len(metric) == 2:
        notes.append("2 points: a correlation over them is 1, -1 or undefined, whatever the metric")
    return SystemLevel(
        values=_whole(Correlations(metric, human), ("pearson", "spearman", "tau_b")),
        n_points=len(metric),
        n_evaluations=n_evaluations,
        systems=systems,
        n_left_out=int((~columns.kept).sum()),
        notes=tuple(notes),
    )


def _whole(correlations: Correlations, names: Sequence[str]) -> dict[str, float | None]:
    """Statistics over all rows, each counted once; None where one is undefined."""
    found = correlations.values(names, np.ones((correlations.n_units, 1)))
    return {name: None if np.isnan(found[name][0]) else float(found[name][0]) for name in names}


def _differences(pair: Sequence[Correlations], statistic: str) -> Callable[[np.ndarray], np.ndarray]:
    """Drawn images (units, b) → first minus second metric, (1, b)."""

    def differences(drawn: np.ndarray) -> np.ndarray:
        first, second = (metric.values([statistic], drawn)[statistic] for metric in pair)
        return (first - second)[None]

    return differences


def _swapped_differences(rows: RatedScores, statistic: str) -> Callable[[np.ndarray], np.ndarray]:
    """Coin flips of the images (units, b) → difference after the swaps, (1, b).

    Every row appears twice, once with each metric's score, and a coin decides which of the two counts: this
    too is a weighting of rows that are sorted once.
    """
    scaled = [(_z_scores if statistic == "pearson" else _ranks)(column) for column in rows.scores.values()]
    both = Correlations(
        np.concatenate(scaled),
        np.concatenate([rows.ratings, rows.ratings]),
        np.concatenate([rows.units, rows.units + rows.n_units]),
    )

    def differences(swapped: np.ndarray) -> np.ndarray:
        stayed = 1 - swapped
        first = both.values([statistic], np.concatenate([stayed, swapped]))[statistic]
        second = both.values([statistic], np.concatenate([swapped, stayed]))[statistic]
        return (first - second)[None]

    return differences


def _ranks(column: np.ndarray) -> np.ndarray:
    """Ranks; equal values share their mean rank."""
    _, places, counts = np.unique(column, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def _z_scores(column: np.ndarray) -> np.ndarray:
    column = column / np.abs(column).max()  # no square may overflow
    centred = column - column.mean()
    return centred / np.sqrt((centred**2).mean())


def _counts(rows: RatedScores, notes: Sequence[str]) -> dict[str, Any]:
    """The fields of `_Counted`."""
    return {
        "n_items": rows.n_items,
        "n_ratings": rows.summary.n,
        "n_rows": len(rows.ratings),
        "n_images": rows.n_units if rows.unit == "image" else None,
        "raters": rows.raters,
        "n_left_out": sum(rows.left_out.values()),
        "left_out": rows.left_out,
        "n_ratings_left_out": rows.n_ratings_left_out,
        "ratings": rows.summary,
        "notes": tuple(notes),
    }


def _check_units(n_units: int, unit: str, purpose: str) -> None:
    if n_units < 2:
        raise InputError(f"{purpose} by {unit} needs at least 2 {unit}s, and there is {n_units}")


def _constant_notes(columns: dict[str, np.ndarray]) -> list[str]:
    return [
        f"{name.replace('_', ' ')} are all {column[0]:g}: a correlation with them is undefined"
        for name, column in columns.items()
        if (column == column[0]).all()
    ]


def _sampling_notes(samples: np.ndarray, confidence: float, unit: str, items: str) -> list[str]:
    """Remarks that a reader of a bootstrap interval needs."""
    notes = [] if unit == "image" else [_no_images(unit, items)]
    coarse = coarseness(len(samples), confidence)
    return notes + ([coarse] if coarse else []) + _undefined_notes(samples)


def _swapping_notes(samples: np.ndarray, rows: RatedScores) -> list[str]:
    """Remarks that a reader of a randomisation's p-value needs."""
    notes = [] if rows.unit == "image" else [_no_images(rows.unit, "items")]
    if rows.n_units < math.log2(len(samples)):
        notes.append(
            f"{rows.n_units} {rows.unit}s can be swapped in only {2**rows.n_units} ways, at least 2 of them "
            f"as extreme as the observed one: the p-value cannot fall much below {2 / 2**rows.n_units:.2g}"
        )
    return notes + _undefined_notes(samples)


def _undefined_notes(samples: np.ndarray) -> list[str]:
    n_undefined = int(np.isnan(samples).sum())
    if not n_undefined:
        return []
    return [f"{n_undefined} of {len(samples)} samples left out: scores or ratings were constant in them"]


def _no_images(unit: str, items: str) -> str:
    return (
        f"no image ids: resampled by {unit}; several {items} of one image are not independent, and the "
        "interval is then too narrow"
    )
