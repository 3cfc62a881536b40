"""Correlations of scores with THumB's ratings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...statistics.bootstrap import bootstrap_intervals
from ...statistics.columns import (
    Column,
    group_codes,
    left_out,
    means_by,
    number_column,
    present_rows,
    units_of,
)
from ...statistics.correlation import Correlations
from .results import ProtocolResult, Statistic, ends

RATINGS = ("precision", "recall", "total")


def thumb(
    scores: Column,
    precision: Column,
    recall: Column,
    total: Column,
    systems: Column,
    *,
    human: str = "Human",
    images: Column | None = None,
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
    missing: str = "raise",
) -> ProtocolResult:
    """Pearson's r of scores with THumB's ratings (Kasai et al. 2022; Hu et al. 2023, §4.2, Table 3).

    THumB 1.0 has 500 images, each with one human caption and those of four systems: 2,500 captions, 2,000
    without the human ones.

    Args:
        scores: Scores (n,), overall or for precision or recall alone.
        precision, recall: Ratings 1 to 5, `P` and `R` in the files.
        total: Ratings, `human_score` in the files.
        systems: Name of the system that wrote each caption, `SYS` in the files.
        human: Name of the system for human captions.
        images, bootstrap, confidence, seed, missing: See `capscore.benchmarks.protocols`.

    Returns:
        "pearson_<rating>_without_human" (over the machines' captions), then "pearson_<rating>_with_human";
        None where a side is constant. Details: "systems", name → "n" and mean "score", "precision", "recall",
        "total".

    >>> result = thumb(
    ...     scores=[0.1, 0.2, 0.4, 0.9],
    ...     precision=[3, 4, 5, 5],
    ...     recall=[2, 3, 3, 4],
    ...     total=[2, 3, 4, 5],
    ...     systems=["Up-Down", "Up-Down", "VinVL", "Human"],
    ... )
    >>> round(result.value("pearson_total_without_human"), 3), result.details["systems"]["Up-Down"]["recall"]
    (0.982, 2.5)
    """
    values = number_column(scores, "scores")
    n = len(values)
    given = zip(RATINGS, (precision, recall, total), strict=True)
    ratings = {name: number_column(column, name, n, complete=True) for name, column in given}
    codes, names = group_codes(systems, "systems", n)
    present = present_rows(missing, scores=values)
    units, unit = units_of(images, present, "caption", *ratings.values(), values, codes)
    machine = (codes != names.index(human) if human in names else np.full(n, True))[present]
    subsets = {"without_human": machine, "with_human": np.full(len(units), True)}
    pairs = {
        f"{name} {subset}": Correlations(values[present][kept], column[present][kept], units[kept])
        for subset, kept in subsets.items()
        if kept.any()
        for name, column in ratings.items()
    }

    def correlated(weights: np.ndarray) -> np.ndarray:
        return np.array([pair.values(["pearson"], weights)["pearson"] for pair in pairs.values()])

    n_units = int(units.max(initial=-1)) + 1
    found = correlated(np.ones((n_units, 1)))[:, 0].tolist() if pairs else []
    r = {key: None if math.isnan(value) else value for key, value in zip(pairs, found, strict=True)}
    size = {"n_units": n_units, "n_rows": len(pairs) * len(units)}
    sampling = (bootstrap, confidence, seed)
    intervals, notes = bootstrap_intervals(correlated, list(pairs), unit=unit, sampling=sampling, **size)
    statistics = []
    for subset, kept in subsets.items():
        keys = {name: f"{name} {subset}" for name in RATINGS}
        statistics += [
            Statistic(f"pearson_{name}_{subset}", r.get(key), ends(intervals.get(key)), int(kept.sum()))
            for name, key in keys.items()
        ]
        if undefined := [key for key in keys.values() if r.get(key) is None]:
            notes.append(
                f"no correlation of {', '.join(undefined)}: a side is constant, or there are no rows"
            )
    if machine.all():
        notes.append(f"no caption is by the system {human!r}: correlations with and without it are the same")
    by_system = _means({"score": values, **ratings}, codes, names, present)
    counts = {"captions": len(units), "human captions": int((~machine).sum()), "systems": len(by_system)}
    return ProtocolResult(
        tuple(statistics),
        {**counts, "left out": int((~present).sum())},
        (*left_out(present, "captions"), *notes),
        {"systems": by_system},
    )


def _means(
    columns: Mapping[str, np.ndarray], codes: np.ndarray, names: Sequence[Any], present: np.ndarray
) -> dict[str, dict[str, Any]]:
    """Number of captions and mean of each column, for each system that has any."""
    means = {name: means_by(column[present], codes[present]).tolist() for name, column in columns.items()}
    scored, sizes = np.unique(codes[present], return_counts=True)
    return {
        str(names[code]): {"n": int(size), **{name: column[index] for name, column in means.items()}}
        for index, (code, size) in enumerate(zip(scored, sizes, strict=True))
    }
