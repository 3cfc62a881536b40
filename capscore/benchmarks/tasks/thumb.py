"""THumB 1.0: captions rated for precision, for recall and as a whole."""

from __future__ import annotations

import numpy as np

from ..protocols.thumb_correlation import thumb
from .base import KeyedRows, Outcome, Task, TaskOptions


class ThumbTask(Task):
    """Pearson's r with THumB's precision, recall and total, with and without human captions."""

    aspects = ("precision", "recall")

    def published_as(self, statistic: str, config: str) -> tuple[str, str, tuple[str, ...]]:
        _, rating, setting = statistic.split("_", maxsplit=2)
        return config, f"pearson_{rating}", (setting,)

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> Outcome:
        columns = [row for _, row in rows]
        return Outcome.of(
            thumb(
                scores,
                [row["precision"] for row in columns],
                [row["recall"] for row in columns],
                [row["rating"] for row in columns],
                [row["system"] for row in columns],
                images=[row["image_id"] for row in columns],
                **options.sampling,
            )
        )
