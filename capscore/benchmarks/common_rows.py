"""Comparisons need the same rows: which rows a metric scored, and the rows that two metrics both scored."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ..errors import InputError, Setting
from .protocols.results import counted
from .tasks import KeyedRows, Task


def scored_rows(task: Task, rows: KeyedRows, scores: np.ndarray | None) -> dict[str, None]:
    """The names of the rows that have a score for each of their queries, in order.

    Args:
        task: Task that the rows belong to.
        rows: Rows that a metric was run on.
        scores: (q,) scores of their queries, NaN where there is none; None counts every row.
    """
    lacking: set[int] = set()
    if scores is not None:
        owners = np.array(task.owners(rows), dtype=np.int64)
        lacking = set(owners[np.isnan(scores)].tolist())
    return {name: None for number, (name, _) in enumerate(rows) if number not in lacking}


def check_same_rows(scored: Mapping[str, Collection[str]]) -> None:
    """Check that all metrics scored the rows that the first one scored.

    Args:
        scored: Metric → names of the rows that it scored.

    Raises:
        InputError: One did not; says how many rows differ, names one of each, and says what to do.
    """
    (first, known), *others = scored.items()
    for other, found in others:
        parts = []
        for name, own, theirs in ((first, known, found), (other, found, known)):
            lacking = [row for row in theirs if row not in own]
            if lacking:
                parts.append(f"{name} lacks {counted(len(lacking), 'row')}, such as {lacking[0]!r}")
        if parts:
            both = sum(row in found for row in known)
            raise InputError(
                f"{first} and {other} cannot be compared, because they were scored on different rows: "
                f"{'; '.join(parts)}. Score the same rows with both, or compare them on the "
                f"{counted(both, 'row')} that both scored: ",
                Setting("common_rows", True),
                field="compare",
            )


def only(
    task: Task, rows: KeyedRows, scores: np.ndarray, names: Collection[str]
) -> tuple[KeyedRows, np.ndarray]:
    """The rows with these names, and the scores of their queries."""
    kept = {number for number, (name, _) in enumerate(rows) if name in names}
    inside = [number in kept for number in task.owners(rows)]
    return [row for number, row in enumerate(rows) if number in kept], scores[np.array(inside, dtype=bool)]
