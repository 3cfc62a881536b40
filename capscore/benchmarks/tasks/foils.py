"""VALSE: a true caption of a photo and a false one that differs little."""

from __future__ import annotations

import numpy as np

from ..protocols.foil_accuracy import VALSE_PIECES, foils, valse
from .base import KeyedRows, Outcome, Queries, Task, TaskOptions


class FoilTask(Task):
    """How often a caption scores higher than its foil."""

    queries_per_row = 2

    def published_as(self, statistic: str, config: str) -> tuple[str, str, tuple[str, ...]]:
        piece = statistic.removeprefix("accuracy_")
        return (config, statistic, ("",)) if piece == "mean" else (piece, "accuracy", ("",))

    def queries(self, rows: KeyedRows) -> Queries:
        queries = Queries()
        for key, row in rows:
            queries.add_row(key, row, row["caption"])
            queries.add_row(f"{key}|foil", row, row["foil"])
        return queries

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> Outcome:
        pieces = [row.get("piece", "all") for _, row in rows]
        measure = valse if set(pieces) == set(VALSE_PIECES) else foils
        found = measure(
            scores[0::2],
            scores[1::2],
            pieces,
            [row.get("valid", True) for _, row in rows],
            images=[row["image_id"] for _, row in rows],
            **options.sampling,
        )
        # the mean of a single piece is that piece
        return Outcome.of(found, None if len(found.pieces) > 1 else found.statistics()[:1])
