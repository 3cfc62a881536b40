"""Correlations of scores with THumB's ratings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...statistics.bootstrap import Sampling, bootstrap_intervals
from ...statistics.columns import (
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
    scores: Any,
    precision: Any,
    recall: Any,
    total: Any,
    systems: Any,
    *,
    human: str = "Human",
    images: Any = None,
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
        None where a side is constant. Details: "without_human" and "with_human" ("n", r of each rating,
        "intervals"), "systems" (name → "n" and mean "score", "precision", "recall", "total"), "n_missing".

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
    machine = codes != names.index(human) if human in names else np.full(n, True)
    units, unit = units_of(images, present, "caption", *ratings.values(), values, codes)
    parts, notes = _correlations(
        values[present],
        {name: column[present] for name, column in ratings.items()},
        {"without_human": machine[present], "with_human": np.full(len(units), True)},
        units,
        unit,
        (bootstrap, confidence, seed),
    )
    columns = {"score": values, **ratings}
    means = {name: means_by(column[present], codes[present]).tolist() for name, column in columns.items()}
    scored, sizes = np.unique(codes[present], return_counts=True)
    by_system = {
        str(names[code]): {"n": int(size), **{name: means[name][index] for name in means}}
        for index, (code, size) in enumerate(zip(scored, sizes, strict=True))
    }
    if machine.all():
        notes.append(f"no caption is by the system {human!r}: correlations with and without it are the same")
    n_missing = int((~present).sum())
    return ProtocolResult(
        "thumb",
        tuple(
            Statistic(f"pearson_{name}_{subset}", part[name], ends(part["intervals"].get(name)), part["n"])
            for subset, part in parts.items()
            for name in RATINGS
        ),
        {
            "captions": parts["with_human"]["n"],
            "human captions": parts["with_human"]["n"] - parts["without_human"]["n"],
            "systems": len(by_system),
            "left out": n_missing,
        },
        {**parts, "systems": by_system, "n_missing": n_missing},
        (*left_out(present, "captions"), *notes),
    )


def _correlations(
    values: np.ndarray,
    ratings: dict[str, np.ndarray],
    subsets: dict[str, np.ndarray],
    units: np.ndarray,
    unit: str,
    sampling: Sampling,
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Correlations of each subset, bool (n,), of complete scores with each rating, and notes."""
    rows = {
        f"{name} {subset}": Correlations(values[kept], rating[kept], units[kept])
        for subset, kept in subsets.items()
        if kept.any()
        for name, rating in ratings.items()
    }

    def correlated(weights: np.ndarray) -> np.ndarray:
        return np.array([part.values(["pearson"], weights)["pearson"] for part in rows.values()])

    n_units = int(units.max(initial=-1)) + 1
    found = correlated(np.ones((n_units, 1)))[:, 0].tolist() if rows else []
    r = {key: None if math.isnan(value) else value for key, value in zip(rows, found, strict=True)}
    size = {"n_units": n_units, "n_rows": len(rows) * len(values)}
    intervals, notes = bootstrap_intervals(correlated, list(rows), unit=unit, sampling=sampling, **size)
    parts: dict[str, dict[str, Any]] = {}
    for subset, kept in subsets.items():
        keys = {name: f"{name} {subset}" for name in RATINGS}
        of_subset = {name: r.get(key) for name, key in keys.items()}
        own = {name: intervals[key] for name, key in keys.items() if key in intervals}
        parts[subset] = {"n": int(kept.sum()), **of_subset, "intervals": own}
        if undefined := [key for name, key in keys.items() if of_subset[name] is None]:
            notes.append(
                f"no correlation of {', '.join(undefined)}: a side is constant, or there are no rows"
            )
    return parts, notes
