"""Captions that people rated: scores and ratings → τ_b, τ_c, ρ and r."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...statistics.agreement import agreement, compare
from ..protocols.results import Statistic, ends
from .base import KeyedRows, Outcome, Task, TaskOptions


class RatingTask(Task):
    """Agreement with human ratings.

    Args:
        statistics: Names of the statistics, with the one that papers report first at the front.
    """

    def __init__(self, *statistics: str):
        self.statistics = statistics

    def measured_as_published(self, rows: KeyedRows, options: TaskOptions) -> bool:
        return options.raters == "flatten" or not _several(_ratings(rows))

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> Outcome:
        ratings = _ratings(rows)
        found = agreement(
            scores,
            ratings,
            raters=options.raters if _several(ratings) else None,
            images=[row["image_id"] for _, row in rows],
            statistics=self.statistics,
            **options.sampling,
        )
        return Outcome(
            statistics=tuple(
                Statistic(name, found.values[name], ends(found.intervals.get(name)), found.n_rows)
                for name in self.statistics
            ),
            counts={"items": found.n_items, "ratings": found.n_ratings, "photos": found.n_images or 0},
            notes=tuple(found.notes),
            details=found.to_dict(),
        )

    def compare(
        self, rows: KeyedRows, first: np.ndarray, second: np.ndarray, options: TaskOptions
    ) -> list[dict[str, Any]]:
        ratings = _ratings(rows)
        return [
            compare(
                first,
                second,
                ratings,
                raters=options.raters if _several(ratings) else None,
                images=[row["image_id"] for _, row in rows],
                statistic=self.statistics[0],
                method=method,
                n=options.bootstrap or 1000,
                confidence=options.confidence,
                seed=options.seed,
                missing=options.missing,
            ).to_dict()
            for method in ("bootstrap", "randomisation")
        ]


def _ratings(rows: KeyedRows) -> list[Any]:
    """A number, or a list of numbers, per row."""
    column = "ratings" if rows and "ratings" in rows[0][1] else "rating"
    return [row[column] for _, row in rows]


def _several(ratings: list[Any]) -> bool:
    """Whether every item has a list of ratings."""
    return bool(ratings) and isinstance(ratings[0], (list, tuple))
