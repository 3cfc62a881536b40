"""Means and counts of rows that come in batches, without the rows.

Of each distinct photo a key of 16 bytes is in memory, so that photos are counted exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xxhash

from .base import PreparedRows, Scorer, Scores


@dataclass(frozen=True)
class Totals:
    """Means and counts of rows that were not kept; attributes as in `Scores`.

    Attributes:
        means: The metric's name, and that of each component → mean; NaN over no rows.
    """

    metric: str
    means: dict[str, float]
    n_items: int
    n_scored: int
    n_failed: int
    n_empty: int
    n_unique_images: int
    n_truncated: int
    first_truncated: int
    signature: str
    corpus: dict[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.n_items

    @property
    def mean(self) -> float:
        """Mean over the rows that were scored; NaN if there are none."""
        return self.means[self.metric]

    def summary(self) -> dict[str, Any]:
        """As `Scores.summary`."""
        plain = {name: None if math.isnan(value) else value for name, value in self.means.items()}
        score = plain.pop(self.metric)
        counts = ("n_items", "n_scored", "n_failed", "n_empty", "n_unique_images", "n_truncated")
        return {
            self.metric: score,
            **{f"mean_{name}": value for name, value in plain.items()},
            **{name: getattr(self, name) for name in counts},
            "signature": self.signature,
        }


class RunningTotals:
    """The summary of all rows of a metric, from scores that come in batches.

    Args:
        scorer: Scorer that finishes each batch.
    """

    def __init__(self, scorer: Scorer):
        self._scorer = scorer
        self._sums: dict[str, float] = {}
        self._numbers: dict[str, int] = {}
        self._counts = dict.fromkeys(("n_items", "n_scored", "n_failed", "n_empty", "n_truncated"), 0)
        self._first_truncated = 0
        self._photos: set[bytes] = set()
        self._examples: dict[tuple[Any, ...], PreparedRows] = {}

    def add(self, rows: PreparedRows, scores: Scores) -> None:
        """Take a batch, as it was prepared and as it was finished."""
        for name, values in {scores.metric: scores.scores, **scores.components}.items():
            present = values[~np.isnan(values)]
            self._sums[name] = self._sums.get(name, 0.0) + float(present.sum())
            self._numbers[name] = self._numbers.get(name, 0) + len(present)
        if scores.n_truncated and not self._counts["n_truncated"]:
            self._first_truncated = self._counts["n_items"] + scores.first_truncated
        for name in self._counts:
            self._counts[name] += getattr(scores, name)
        self._photos.update(xxhash.xxh3_128_digest(key.encode()) for key in set(scores.image_keys) - {""})
        # one row of each kind: the signature depends on nothing else of the rows
        kinds = zip(
            rows.kept.tolist(), rows.n_references.tolist(), rows.languages, rows.empty.tolist(), strict=True
        )
        for row, kind in enumerate(kinds):
            if kind not in self._examples:
                self._examples[kind] = rows.part(row, row + 1)

    def totals(self) -> Totals | None:
        """Means and counts of the rows so far; None without rows."""
        if not self._examples:
            return None
        examples = PreparedRows.concatenate([*self._examples.values()])
        counts = self._counts
        return Totals(
            metric=self._scorer.metric,
            means={
                name: total / self._numbers[name] if self._numbers[name] else math.nan
                for name, total in self._sums.items()
            },
            n_items=counts["n_items"],
            n_scored=counts["n_scored"],
            n_failed=counts["n_failed"],
            n_empty=counts["n_empty"],
            n_unique_images=len(self._photos),
            n_truncated=counts["n_truncated"],
            first_truncated=self._first_truncated,
            signature=self._scorer.finish(examples).signature,
        )
