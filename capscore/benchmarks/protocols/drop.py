"""Scores of captions before and after perturbation → how far the metric's mean falls (Kim et al. 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InputError, Setting
from .inputs import flag_column, label_codes, present_rows, score_column
from .results import ProtocolResult, Statistic, counted

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
    values = score_column(original, "original")
    flags = _checked_kinds(perturbed, unchanged or {}, len(values), leave_out_unchanged)
    # a missing original score is an error even if no kind needs it
    scored = present_rows(missing, original=values)
    parts: dict[str, PerturbationDrop] = {}
    notes: list[str] = []
    for kind in (kind for kind in PERTURBATIONS if kind in perturbed):
        field = f"perturbed[{kind!r}]"
        column = score_column(perturbed[kind], field, len(values))
        present = scored & present_rows(missing, **{field: column})
        same = flags.get(kind, np.full(len(values), False))
        kept = present & ~same if leave_out_unchanged else present
        before, after = _mean(values[kept]), _mean(column[kept])
        defined = before is not None and after is not None and before > 0
        drop = (after - before) / before if defined else None  # type: ignore[operator]
        parts[kind] = PerturbationDrop(
            int(kept.sum()), before, after, drop, int(same.sum()), int((~present).sum())
        )
        notes += _notes(kind, parts[kind], len(values), leave_out_unchanged)
    absent = [kind for kind in PERTURBATIONS if kind not in parts]
    if absent:
        notes.append(f"average of {len(parts)} of the five perturbations: no scores for {', '.join(absent)}")
    drops = [part.drop for part in parts.values() if part.drop is not None]
    means = [part.perturbed for part in parts.values() if part.perturbed is not None]
    if len(drops) < len(parts):
        notes.append("no average drop: the drop of a perturbation is undefined")
    first = _mean(values[scored])
    average = math.fsum(means) / len(means) if len(means) == len(parts) else None
    average_drop = math.fsum(drops) / len(drops) if len(drops) == len(parts) else None
    total = sum(part.n for part in parts.values())
    return ProtocolResult(
        "robustness_drop",
        (
            Statistic("mean_original", first, None, int(scored.sum())),
            *(Statistic(f"mean_{kind}", part.perturbed, None, part.n) for kind, part in parts.items()),
            Statistic("mean_average", average, None, total),
            *(Statistic(f"drop_{kind}", part.drop, None, part.n) for kind, part in parts.items()),
            Statistic("drop_average", average_drop, None, total),
        ),
        {
            "captions": int(scored.sum()),
            "perturbed captions": total,
            "unchanged": sum(part.n_unchanged for part in parts.values()),
            "left out": sum(part.n_missing for part in parts.values()),
        },
        {
            "original": first,
            "perturbed": average,
            "average_drop": average_drop,
            "perturbations": parts,
            "n_scored": int(scored.sum()),
            "unchanged_left_out": leave_out_unchanged,
        },
        tuple(notes),
    )


def _checked_kinds(
    perturbed: Mapping[str, Any], unchanged: Mapping[str, Any], n: int, leave_out: bool
) -> dict[str, np.ndarray]:
    """The flags of unchanged captions by kind, after the kinds of both mappings are checked."""
    for name, given in (("perturbed", perturbed), ("unchanged", unchanged)):
        if not isinstance(given, Mapping):
            raise InputError(f"expected a mapping of kind to (n,), got {given!r:.60}", field=name)
        try:
            label_codes(list(given), name, len(given), PERTURBATIONS)
        except InputError as error:
            raise InputError(error.message, field=name) from None  # a kind is not a row
    if not perturbed:
        raise InputError("there are no perturbed scores: the mapping is empty", field="perturbed")
    unknown = [kind for kind in PERTURBATIONS if kind in perturbed and kind not in unchanged]
    if leave_out and unknown:
        raise InputError(
            Setting("leave_out_unchanged", True),
            f" needs to know which captions {', '.join(unknown)} left unchanged",
            field="unchanged",
        )
    return {kind: flag_column(column, f"unchanged[{kind!r}]", n) for kind, column in unchanged.items()}


def _notes(kind: str, part: PerturbationDrop, n: int, left_out: bool) -> list[str]:
    notes = []
    if part.n_missing:
        notes.append(f"{kind}: {part.n_missing:,} of {counted(n, 'caption')} left out: a score is missing")
    if part.n_unchanged:
        what = "left out" if left_out else "counted as published"
        notes.append(f"{kind}: left {part.n_unchanged:,} of {counted(n, 'caption')} unchanged; {what}")
    if not part.n:
        notes.append(f"{kind}: no caption to compare, no drop")
    elif part.original is not None and part.original <= 0:
        sign = "zero" if part.original == 0 else f"negative ({part.original:.4g})"
        notes.append(f"{kind}: the mean original score is {sign}: a drop relative to it is meaningless")
    return notes


def _mean(values: np.ndarray) -> float | None:
    return math.fsum(values) / len(values) if len(values) else None
