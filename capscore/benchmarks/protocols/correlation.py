"""Correlations of scores with THumB's ratings, and with DetailCaps' grades."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...options import Sampling
from ...statistics import columns
from ...statistics.bootstrap import NO_INTERVALS
from ...statistics.columns import Column
from ...statistics.correlation import Correlations
from ...tables import counted
from .results import ProtocolResult, Statistic, estimates


def thumb(
    scores: Column,
    ratings: Mapping[str, Column],
    systems: Column,
    *,
    human: str = "Human",
    images: Column | None = None,
    sampling: Sampling = NO_INTERVALS,
    missing: str = "raise",
) -> ProtocolResult:
    """Pearson's r of scores with THumB's ratings (Kasai et al. 2022; Hu et al. 2023, §4.2, Table 3).

    THumB 1.0 has 500 images, each with one human caption and those of four systems: 2,500 captions, 2,000
    without the human ones.

    Args:
        scores: Scores (n,), overall or for precision or recall alone.
        ratings: Name → ratings (n,): "precision" and "recall", from 1 to 5 (`P` and `R` in the files), and
            "total" (`human_score` in the files).
        systems: Name of the system that wrote each caption, `SYS` in the files.
        human: Name of the system for human captions.
        images, sampling, missing: See `capscore.benchmarks.protocols`.

    Returns:
        "pearson_<rating>_without_human" (over the machines' captions), then "pearson_<rating>_with_human";
        None where a side is constant.

    >>> result = thumb(
    ...     scores=[0.1, 0.2, 0.4, 0.9],
    ...     ratings={"precision": [3, 4, 5, 5], "recall": [2, 3, 3, 4], "total": [2, 3, 4, 5]},
    ...     systems=["Up-Down", "Up-Down", "VinVL", "Human"],
    ... )
    >>> round(result.value("pearson_total_without_human"), 3)
    0.982
    """
    values = columns.number_column(scores, "scores")
    n = len(values)
    rated = {name: columns.number_column(column, name, n, complete=True) for name, column in ratings.items()}
    codes, names = columns.group_codes(systems, "systems", n)
    present = columns.present_rows(missing, {"scores": values})
    units, unit = columns.units_of(images, present, "caption", *rated.values(), values, codes)
    machine = np.full(n, True)
    if human in names:
        machine = codes != names.index(human)
    machine = machine[present]
    subsets = {"without_human": machine, "with_human": np.full(len(units), True)}
    pairs: dict[str, Correlations] = {}
    for subset, kept in subsets.items():
        for name, column in rated.items() if kept.any() else ():
            scored = values[present][kept], column[present][kept]
            pairs[f"{name} {subset}"] = Correlations(*scored, units[kept])

    def correlated(weights: np.ndarray) -> np.ndarray:
        return np.array([pair.values(["pearson"], weights)["pearson"] for pair in pairs.values()])

    size = {"n_units": int(units.max(initial=-1)) + 1, "n_rows": len(pairs) * len(units)}
    found, notes = estimates(correlated, list(pairs), unit=unit, sampling=sampling, **size)
    statistics = []
    for subset, kept in subsets.items():
        undefined = []
        for name in rated:
            value, interval = found.get(f"{name} {subset}", (None, None))
            statistics.append(Statistic(f"pearson_{name}_{subset}", value, interval, int(kept.sum())))
            if value is None:
                undefined.append(f"{name} {subset}")
        if undefined:
            why = "a side is constant, or there are no rows"
            notes.append(f"no correlation of {', '.join(undefined)}: {why}")
    if machine.all():
        notes.append(f"no caption is by the system {human!r}: correlations with and without it are the same")
    n_systems, n_human = len(np.unique(codes[present])), int((~machine).sum())
    counts = {"captions": len(units), "human captions": n_human, "systems": n_systems}
    return ProtocolResult(
        tuple(statistics),
        {**counts, "left out": int((~present).sum())},
        (*columns.left_out(present, "captions"), *notes),
    )


def detailcaps(
    scores: Column,
    grades: Column,
    photos: Column,
    *,
    sampling: Sampling = NO_INTERVALS,
    missing: str = "raise",
) -> ProtocolResult:
    """The four statistics of DetailCaps (Dong et al. 2024): whether scores agree with grades by a model.

    Args:
        scores: Scores (n,).
        grades: Grades (n,) of at least 0, of several captions per photo.
        photos: Photo of each caption; intervals draw photos.
        sampling, missing: See `capscore.benchmarks.protocols`.

    Returns:
        "pearson": r over all captions. "one_minus_r2": Σ(s − g)² / Σ(s − mean of s)², 0 or more, lower is
        better, for scores s and grades g, which are divided by the highest of them if it is above 1. "tau_b":
        τ_b over all captions. "sample_tau": mean over photos of τ_b among the captions of one; photos where
        all scores or all grades are equal have none, and a note counts them.

    The authors published no code of the statistics. That the spread of the scores is the divisor follows from
    what they print: CIDEr's 2.6 · 10⁷ needs scores that hardly vary, and grades from 0 to 1.

    >>> found = detailcaps([0.2, 0.6, 0.4, 0.3], [1, 5, 3, 2], ["a", "a", "b", "b"])
    >>> [round(row.value, 3) for row in found.statistics]
    [1.0, 2.4, 1.0, 1.0]
    """
    values = columns.number_column(scores, "scores")
    n = len(values)
    rated = columns.number_column(grades, "grades", n, complete=True)
    present = columns.present_rows(missing, {"scores": values})
    units = columns.group_codes(photos, "photos", n, present)[0]
    values, given = values[present], rated[present]
    n_units = int(units.max(initial=-1)) + 1
    names = ("pearson", "one_minus_r2", "tau_b", "sample_tau")
    found: dict[str, tuple[float | None, tuple[float, float] | None]] = dict.fromkeys(names, (None, None))
    notes: list[str] = []
    n_without = n_units
    if n_units:
        pairs = Correlations(values, given, units)
        centred, distances = values - values.mean(), values - given / max(1.0, rated.max())
        parts = (np.ones(len(units)), distances**2, centred, centred**2)
        sums = np.array([np.bincount(units, part) for part in parts])
        taus = _taus_within(values, given, units)
        defined = ~np.isnan(taus)
        n_without = int((~defined).sum())

        def statistics(drawn: np.ndarray) -> np.ndarray:
            both = pairs.values(["pearson", "tau_b"], drawn)
            with np.errstate(invalid="ignore"):
                sample_tau = (np.nan_to_num(taus) @ drawn) / (defined @ drawn)
            return np.array([both["pearson"], _one_minus_r2(*sums @ drawn), both["tau_b"], sample_tau])

        size = {"n_units": n_units, "n_rows": len(units)}
        found, notes = estimates(statistics, names, unit="image", sampling=sampling, **size)
    undefined = [name for name in names[:3] if found[name][0] is None]
    if undefined:
        notes.append(f"no {', '.join(undefined)}: a side is constant, or there are no rows")
    if n_without:
        notes.append(f"no τ within {counted(n_without, 'photo')}: all scores or all grades of it are equal")
    sizes = {"sample_tau": n_units - n_without}
    return ProtocolResult(
        tuple(Statistic(name, *found[name], sizes.get(name, len(units))) for name in names),
        {"captions": len(units), "photos": n_units, "left out": int((~present).sum())},
        (*columns.left_out(present, "captions"), *notes),
    )


def _one_minus_r2(n: np.ndarray, residual: np.ndarray, total: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """1 − R² from sums over n rows: of (score − grade)², scores and their squares; NaN if all are equal."""
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = squares - total**2 / n
        return np.where(spread > 1e-12 * squares, residual / spread, np.nan)


def _taus_within(scores: np.ndarray, grades: np.ndarray, units: np.ndarray) -> np.ndarray:
    """τ_b of the rows of each unit, (units,); NaN where one side is constant."""
    order = np.argsort(units, kind="stable")
    scores, grades, units = scores[order], grades[order], units[order]
    sums = np.zeros((3, int(units[-1]) + 1))
    for lag in range(1, int(np.bincount(units).max())):
        first = np.flatnonzero(units[:-lag] == units[lag:])
        score_signs = np.sign(scores[first + lag] - scores[first])
        grade_signs = np.sign(grades[first + lag] - grades[first])
        for row, column in enumerate((score_signs * grade_signs, score_signs**2, grade_signs**2)):
            sums[row] += np.bincount(units[first], column, minlength=sums.shape[1])
    with np.errstate(invalid="ignore"):
        return sums[0] / np.sqrt(sums[1] * sums[2])
