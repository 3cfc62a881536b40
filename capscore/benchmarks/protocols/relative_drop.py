"""Scores of captions before and after perturbation → how far the metric's mean falls.

In: scores of n captions, and of the same captions under each perturbation. Out: the drop of the mean under
each perturbation, and their average (Kim et al. 2023).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

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
        original: Mean score of the original captions.
        perturbed: Mean score of the perturbed captions.
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


@dataclass(frozen=True)
class RobustnessDrop(ProtocolResult):
    """Drops of a metric under perturbations.

    Attributes:
        original: Mean score of the original captions.
        perturbed: Plain mean of the perturbations' mean scores.
        average_drop: Plain mean of the perturbations' drops; None if one is undefined.
        perturbations: Kind → its effect.
        n_scored: Number of original captions with a score.
        unchanged_left_out: Whether captions that a perturbation left unchanged are left out of its means.
        notes: Remarks that a reader needs.
    """

    protocol: ClassVar[str] = "robustness_drop"
    original: float | None
    perturbed: float | None
    average_drop: float | None
    perturbations: dict[str, PerturbationDrop]
    n_scored: int
    unchanged_left_out: bool
    notes: tuple[str, ...]

    def statistics(self) -> list[Statistic]:
        """Named "mean_original", "mean_<kind>", "mean_average", "drop_<kind>" and "drop_average"."""
        parts = self.perturbations.items()
        total = sum(part.n for _, part in parts)
        return [
            Statistic("mean_original", self.original, None, self.n_scored),
            *(Statistic(f"mean_{kind}", part.perturbed, None, part.n) for kind, part in parts),
            Statistic("mean_average", self.perturbed, None, total),
            *(Statistic(f"drop_{kind}", part.drop, None, part.n) for kind, part in parts),
            Statistic("drop_average", self.average_drop, None, total),
        ]

    def counts(self) -> dict[str, int]:
        """Numbers of captions: original, perturbed, unchanged and left out."""
        parts = self.perturbations.values()
        return {
            "captions": self.n_scored,
            "perturbed captions": sum(part.n for part in parts),
            "unchanged": sum(part.n_unchanged for part in parts),
            "left out": sum(part.n_missing for part in parts),
        }


def robustness_drop(
    original: Any,
    perturbed: Mapping[str, Any],
    *,
    unchanged: Mapping[str, Any] | None = None,
    leave_out_unchanged: bool = False,
    missing: str = "raise",
) -> RobustnessDrop:
    """How far the mean score falls under each perturbation (Kim et al. 2023, §5.3, Tables 2 and 7 to 11).

    The published average is over all five perturbations, with captions that a perturbation could not change
    (a substitution needs two distinct objects) counted as they are.

    Args:
        original: Scores of n captions.
        perturbed: Kind, one of `PERTURBATIONS` → scores of the same captions with the same images, (n,).
        unchanged: Kind → True where the perturbation left the caption unchanged, (n,); these are counted.
        leave_out_unchanged: Whether these are also left out of that kind's means; False is as published.
        missing: "raise" stops at a missing score (NaN); "skip" leaves the caption out of that kind's means
            and counts it.

    Raises:
        InputError: an unknown kind, different lengths, a missing score.

    >>> result = robustness_drop([1.0, 0.6], {"jumble": [0.5, 0.3], "masking": [0.2, 0.2]})
    >>> {name: round(value, 4) for name, value, n in result.table()}
    {'mean original': 0.8, 'mean masking': 0.2, 'mean jumble': 0.4, 'mean average': 0.3,
     'drop masking': -0.75, 'drop jumble': -0.5, 'drop average': -0.625}
    >>> result.notes
    ('average of 2 of the five perturbations: no scores for repetition, removal, substitution',)
    """
    values = score_column(original, "original")
    n = len(values)
    for name, given in (("perturbed", perturbed), ("unchanged", unchanged)):
        if given is not None:
            if not isinstance(given, Mapping):
                raise InputError(f"expected a mapping of kind to (n,), got {given!r:.60}", field=name)
            _check_kinds(given, name)
    if not perturbed:
        raise InputError("there are no perturbed scores: the mapping is empty", field="perturbed")
    flags = {
        kind: flag_column(column, f"unchanged[{kind!r}]", n) for kind, column in (unchanged or {}).items()
    }
    if leave_out_unchanged:
        untold = [kind for kind in PERTURBATIONS if kind in perturbed and kind not in flags]
        if untold:
            raise InputError(
                Setting("leave_out_unchanged", True),
                f" needs to know which captions {', '.join(untold)} left unchanged",
                field="unchanged",
            )

    # a missing original score is an error even if no kind needs it
    scored = present_rows(missing, original=values)
    parts: dict[str, PerturbationDrop] = {}
    notes: list[str] = []
    for kind in PERTURBATIONS:
        if kind not in perturbed:
            continue
        field = f"perturbed[{kind!r}]"
        column = score_column(perturbed[kind], field, n)
        present = scored & present_rows(missing, **{field: column})
        same = flags.get(kind, np.full(n, False))
        kept = present & ~same if leave_out_unchanged else present
        parts[kind] = _drop(values[kept], column[kept], int(same.sum()), int((~present).sum()))
        notes += _notes(kind, parts[kind], n, leave_out_unchanged)
    absent = [kind for kind in PERTURBATIONS if kind not in parts]
    if absent:
        notes.append(f"average of {len(parts)} of the five perturbations: no scores for {', '.join(absent)}")
    drops = [part.drop for part in parts.values()]
    means = [part.perturbed for part in parts.values()]
    if None in drops:
        notes.append("no average drop: the drop of a perturbation is undefined")
    return RobustnessDrop(
        original=_mean(values[scored]),
        perturbed=None if None in means else math.fsum(means) / len(means),  # type: ignore[arg-type]
        average_drop=None if None in drops else math.fsum(drops) / len(drops),  # type: ignore[arg-type]
        perturbations=parts,
        n_scored=int(scored.sum()),
        unchanged_left_out=leave_out_unchanged,
        notes=tuple(notes),
    )


def _check_kinds(given: Mapping[str, Any], field: str) -> None:
    try:
        label_codes(list(given), field, len(given), PERTURBATIONS)
    except InputError as error:
        raise InputError(error.message, field=field) from None  # a kind is not a row


def _drop(original: np.ndarray, perturbed: np.ndarray, n_unchanged: int, n_missing: int) -> PerturbationDrop:
    before, after = _mean(original), _mean(perturbed)
    drop = None
    if before is not None and after is not None and before > 0:
        drop = (after - before) / before
    return PerturbationDrop(len(original), before, after, drop, n_unchanged, n_missing)


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
