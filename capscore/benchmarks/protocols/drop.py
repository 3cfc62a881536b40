"""Scores of captions before and after perturbation → how far the metric's mean falls (Kim et al. 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InputError, Setting
from ...statistics.columns import flag_column, left_out, number_column, present_rows
from .results import ProtocolResult, Statistic

PERTURBATIONS = ("repetition", "removal", "masking", "jumble", "substitution")


@dataclass(frozen=True)
class PerturbationDrop:
    """What one perturbation does to the mean score.

    Attributes:
        n: Number of captions whose scores are compared.
        original, perturbed: Mean score of the original and of the perturbed captions.
        drop: (perturbed − original) / original, negative if the score falls, −1 if it falls to 0; None if
            undefined.
        n_unchanged: Number of captions known to be left unchanged by the perturbation.
        n_missing: Number of captions left out because a score is missing.
    """

    n: int
    original: float | None
    perturbed: float | None
    drop: float | None
    n_unchanged: int
    n_missing: int


def robustness_drop(
    original: Any,
    perturbed: Mapping[str, Any],
    *,
    unchanged: Mapping[str, Any] | None = None,
    leave_out_unchanged: bool = False,
    missing: str = "raise",
) -> ProtocolResult:
    """How far the mean score falls under each perturbation (Kim et al. 2023, §5.3, Tables 2 and 7 to 11).

    The published average is over all five perturbations, with captions that a perturbation could not change
    (a substitution needs two distinct objects) counted as they are.

    Args:
        original: Scores of n captions.
        perturbed: Kind, one of `PERTURBATIONS` → scores of the same captions with the same images, (n,).
        unchanged: Kind → True where the perturbation left the caption unchanged, (n,); these are counted.
        leave_out_unchanged: Whether these are also left out of that kind's means; False is as published.
        missing: See `capscore.benchmarks.protocols`.

    Returns:
        "mean_original", "mean_<kind>", "mean_average", "drop_<kind>" and "drop_average" (the plain mean of
        the drops; None if one is undefined). Details: "original", "perturbed", "average_drop",
        "perturbations" (kind → `PerturbationDrop`), "n_scored", "unchanged_left_out".

    >>> result = robustness_drop([1.0, 0.6], {"jumble": [0.5, 0.3], "masking": [0.2, 0.2]})
    >>> {name: round(value, 4) for name, value, n in result.table()}
    {'mean original': 0.8, 'mean masking': 0.2, 'mean jumble': 0.4, 'mean average': 0.3,
     'drop masking': -0.75, 'drop jumble': -0.5, 'drop average': -0.625}
    >>> result.notes
    ('average of 2 of the five perturbations: no scores for repetition, removal, substitution',)
    """
    values = number_column(original, "original")
    n = len(values)
    unchanged = unchanged or {}
    for name, given in (("perturbed", perturbed), ("unchanged", unchanged)):
        if not isinstance(given, Mapping) or not given.keys() <= set(PERTURBATIONS):
            raise InputError(f"expected scores by kind, of {', '.join(PERTURBATIONS)}", field=name)
    if not perturbed:
        raise InputError("there are no perturbed scores: the mapping is empty", field="perturbed")
    if leave_out_unchanged and not perturbed.keys() <= unchanged.keys():
        setting = Setting("leave_out_unchanged", True)
        raise InputError(setting, " needs flags for every kind of perturbation", field="unchanged")
    # a missing original score is an error even if no kind needs it
    scored = present_rows(missing, original=values)
    parts: dict[str, PerturbationDrop] = {}
    notes: list[str] = []
    for kind in (kind for kind in PERTURBATIONS if kind in perturbed):
        field = f"perturbed[{kind!r}]"
        column = number_column(perturbed[kind], field, n)
        present = scored & present_rows(missing, **{field: column})
        same = flag_column(unchanged.get(kind, [False] * n), f"unchanged[{kind!r}]", n)
        kept = present & ~same if leave_out_unchanged else present
        before, after = _mean(values[kept]), _mean(column[kept])
        drop = None
        if before is not None and after is not None and before > 0:
            drop = (after - before) / before
        else:
            notes.append(f"{kind}: no caption to compare, or a mean original score of 0 or less: no drop")
        n_unchanged, n_missing = int(same.sum()), int((~present).sum())
        parts[kind] = PerturbationDrop(int(kept.sum()), before, after, drop, n_unchanged, n_missing)
        notes += [f"{kind}: {note}" for note in left_out(present, "captions")]
        if n_unchanged:
            what = "left out" if leave_out_unchanged else "counted as published"
            notes.append(f"{kind}: left {n_unchanged:,} of {n:,} captions unchanged; {what}")
    if absent := [kind for kind in PERTURBATIONS if kind not in parts]:
        notes.append(f"average of {len(parts)} of the five perturbations: no scores for {', '.join(absent)}")
    drops = [part.drop for part in parts.values() if part.drop is not None]
    means = [part.perturbed for part in parts.values() if part.perturbed is not None]
    first = _mean(values[scored])
    average = math.fsum(means) / len(means) if len(means) == len(parts) else None
    average_drop = math.fsum(drops) / len(drops) if len(drops) == len(parts) else None
    total, n_scored = sum(part.n for part in parts.values()), int(scored.sum())
    return ProtocolResult(
        "robustness_drop",
        (
            Statistic("mean_original", first, None, n_scored),
            *(Statistic(f"mean_{kind}", part.perturbed, None, part.n) for kind, part in parts.items()),
            Statistic("mean_average", average, None, total),
            *(Statistic(f"drop_{kind}", part.drop, None, part.n) for kind, part in parts.items()),
            Statistic("drop_average", average_drop, None, total),
        ),
        {
            "captions": n_scored,
            "perturbed captions": total,
            "unchanged": sum(part.n_unchanged for part in parts.values()),
            "left out": sum(part.n_missing for part in parts.values()),
        },
        {
            "original": first,
            "perturbed": average,
            "average_drop": average_drop,
            "perturbations": parts,
            "n_scored": n_scored,
            "unchanged_left_out": leave_out_unchanged,
        },
        tuple(notes),
    )


def _mean(values: np.ndarray) -> float | None:
    return math.fsum(values) / len(values) if len(values) else None
