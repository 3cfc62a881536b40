"""Pascal-50S: two captions of a photo, of which people prefer one."""

from __future__ import annotations

import numpy as np

from ..protocols.pairwise_accuracy import pairwise_by_category
from .base import KeyedRows, Outcome, Queries, Task, TaskOptions


class PairTask(Task):
    """Which of two captions of a photo people prefer, per category."""

    queries_per_row = 2

    def queries(self, rows: KeyedRows) -> Queries:
        queries = Queries()
        for key, row in rows:
            for number, caption in enumerate(row["captions"]):
                queries.add_row(f"{key}|{number}", row, caption)
        return queries

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> Outcome:
        return Outcome.of(
            pairwise_by_category(
                scores[0::2],
                scores[1::2],
                [row["label"] for _, row in rows],
                [row["category"] for _, row in rows],
                images=[row["image_id"] for _, row in rows],
                **options.sampling,
            )
        )
