"""Means and counts of rows that come in batches, without the rows: memory does not grow with their number.

The distinct photos are counted exactly, through a temporary file of 16 bytes per photo and batch.
"""

from __future__ import annotations

import math
import tempfile
import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xxhash

from ..errors import CapscoreError
from .base import PreparedRows, Scorer, Scores

_KEY = np.dtype([("high", "<u8"), ("low", "<u8")])
_BLOCK = 2**20  # keys that are read or sorted at a time


class DistinctCount:
    """Counts distinct texts exactly, in a temporary file.

    >>> photos = DistinctCount()
    >>> photos.add(["cat", "dog", "cat"])
    >>> photos.add(["dog", "bird"])
    >>> photos.count()
    3
    """

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_BLOCK)
        weakref.finalize(self, self._file.close)
        self._n_keys = 0

    def add(self, texts: list[str]) -> None:
        """Take some texts.

        Raises:
            CapscoreError: The temporary file cannot be written.
        """
        keys = [xxhash.xxh3_128_digest(text.encode()) for text in dict.fromkeys(texts)]
        try:
            self._file.seek(0, 2)
            self._file.write(b"".join(keys))
        except OSError as error:
            raise CapscoreError(
                f"a temporary file in {tempfile.gettempdir()} cannot be written: {error.strerror or error}. "
                "TMPDIR names another folder"
            ) from error
        self._n_keys += len(keys)

    def count(self) -> int:
        """Number of distinct texts; reads the file once per million keys."""
        n_parts = -(-self._n_keys // _BLOCK)
        total = 0
        for part in range(n_parts):  # keys are spread evenly, so each part is about one block
            self._file.seek(0)
            found: list[np.ndarray] = []
            while block := self._file.read(_BLOCK * _KEY.itemsize):
                keys = np.frombuffer(block, dtype=_KEY)
                found.append(np.unique(keys[keys["high"] % np.uint64(n_parts) == part]))
            total += len(np.unique(np.concatenate(found)))
        return total


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
        self._photos = DistinctCount()
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
        self._photos.add([key for key in scores.image_keys if key])
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
            n_unique_images=self._photos.count(),
            n_truncated=counts["n_truncated"],
            first_truncated=self._first_truncated,
            signature=self._scorer.finish(examples).signature,
        )
