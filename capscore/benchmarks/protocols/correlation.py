"""Correlations of scores with THumB's ratings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...options import Sampling
from ...statistics import columns
from ...statistics.bootstrap import NO_INTERVALS
from ...statistics.columns import Column
from ...statistics.correlation import Correlations
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
