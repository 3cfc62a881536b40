"""MaRVL: captions of pairs of photos."""

from __future__ import annotations

import numpy as np

from ..protocols.marvl_accuracy import marvl
from .base import KeyedRows, Outcome, Queries, Task, TaskOptions


class MarvlTask(Task):
    """A caption that is true of some pairs of photos and false of others, in two experiments."""

    queries_per_row = 2

    def queries(self, rows: KeyedRows) -> Queries:
        queries = Queries()
        for key, row in rows:
            for side in ("left", "right"):
                queries.add(
                    f"{key}|{side}",
                    row["caption"],
                    row[f"{side}_image_id"],
                    row[f"{side}_image"],
                    language=row["language"],
                )
        return queries

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> Outcome:
        return Outcome.of(
            marvl(
                scores[0::2],
                scores[1::2],
                [row["label"] for _, row in rows],
                [row["caption"] for _, row in rows],
                [row["id"] for _, row in rows],
                **options.sampling,
            )
        )
