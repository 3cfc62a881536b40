"""Scores of n rows, with what they depend on: means, counts, signature, details."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..registry import METRICS
from ..tables import counted
from .rows import format_signature

if TYPE_CHECKING:
    import pandas as pd

Detail = Mapping[str, Any]  # what is known of one row beside its score, by `detail_names` of its metric
WrongWord = tuple[int, int, str]  # where it begins and ends in the caption, and the word
# Counts of `Scores`, in the order of its summary
COUNTS = ("n_items", "n_scored", "n_failed", "n_empty", "n_unique_images", "n_truncated")


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of n rows, and what they depend on.

    Attributes:
        metric: Name of the metric, as `capscore.load` takes it.
        scores: float64 (n,); NaN where a row failed.
        components: Further numbers of this metric, float64 (n,) each, such as "clip_score" and "text_score".
        settings: Everything that the numbers depend on, in the signature's order.
        image_keys: Content key of each row's image; "" where it failed, or if the metric opens no images.
        truncated: bool (n,), True where a text of the row was cut to the context length.
        n_references: int64 (n,), number of references per row.
        languages: n primary subtags; "" where the language is not stated.
        failures: Row → what was wrong with it; without entries unless on_error="skip".
        empty: bool (n,), True where the caption is empty; such rows were scored, or left out with NaN
            (empty="skip"). False where the row failed.
        corpus: Numbers of all rows together that are not means of rows, such as "corpus_bleu_4"; NaN if no
            row was scored.
        details: Per row, a dict ready for JSON with the keys `detail_names`, or None where the row failed.
            None for a metric without details, or a backbone that gives none.
        detail_names: Keys of the details.
        ranked_by: Component on which rows are ranked; "" for the score.
        aggregation: What stands for the rows together: "mean", or a key of `corpus`.
        lower_is_better: Components of which less is better; "" among them stands for the score.
        statistics: Name → float64 (n,), numbers whose sums make those of the corpus; NaN without a score.
        varied: Setting that may differ from row to row → n values, each as in the signature of the row alone.
    """

    metric: str
    scores: np.ndarray
    components: dict[str, np.ndarray]
    settings: dict[str, object]
    image_keys: list[str]
    truncated: np.ndarray
    n_references: np.ndarray
    languages: list[str]
    failures: dict[int, str] = field(default_factory=dict)
    empty: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    corpus: dict[str, float] = field(default_factory=dict)
    details: list[dict[str, object] | None] | None = None
    detail_names: tuple[str, ...] = ()
    ranked_by: str = ""
    aggregation: str = "mean"
    lower_is_better: frozenset[str] = frozenset()
    statistics: dict[str, np.ndarray] = field(default_factory=dict)
    varied: dict[str, list[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.scores)

    def rising(self, component: str = "") -> np.ndarray:
        """float64 (n,), the scores or a component; the sign is changed where less is better."""
        values = self.scores
        if component:
            values = self.components[component]
        if component in self.lower_is_better:
            return -values
        return values

    @property
    def ranking(self) -> np.ndarray:
        """float64 (n,), what rows are ranked by, where more is better: the scores, or a component.

        Rows whose empty caption got the worst score come below all others.
        """
        ranking = self.rising(self.ranked_by)
        if self.ranked_by and self.settings.get("empty") == "worst":
            return np.where(self.empty, np.nanmin(ranking) - 1, ranking)
        return ranking

    def found(self, row: int, *, brief: bool = False) -> str:
        """What the details say of a row in a few words, in fewer for a cell of a table; "" for nothing."""
        return str(self._said("found", row, "", brief=brief))

    def reason(self, row: int) -> str:
        """What the details say is wrong with a row, on one line; "" for nothing."""
        return str(self._said("reason", row, ""))

    def fits(self, row: int) -> bool | None:
        """Whether the details say that a row's caption as a whole fits its photo; None for nothing."""
        found: bool | None = self._said("fits", row, None)
        return found

    def wrong_words(self, row: int) -> Sequence[WrongWord]:
        """Words of a row's caption that the details call likely wrong, in order; () for none."""
        found: Sequence[WrongWord] = self._said("wrong_words", row, ())
        return found

    def _said(self, method: str, row: int, nothing: object, **options: bool) -> Any:
        """What a class method of the metric makes of the details of a row."""
        kind, detail = METRICS.find(self.metric), self.details[row] if self.details else None
        if kind is None or detail is None:
            return nothing
        return getattr(kind, method)(detail, **options)

    @property
    def mean(self) -> float:
        """Mean over the rows that were scored; NaN if there are none."""
        return _mean(self.scores)

    @property
    def of_set(self) -> float:
        """The number that stands for all rows: their mean, or what the metric computes of them together."""
        return self.corpus.get(self.aggregation, self.mean)

    @property
    def n_items(self) -> int:
        """Number of rows, including those without a score."""
        return len(self.scores)

    @property
    def n_scored(self) -> int:
        """Number of rows with a score, over which the mean is taken."""
        return int((~np.isnan(self.scores)).sum())

    @property
    def n_empty(self) -> int:
        """Number of rows with an empty caption; whether they were scored or left out is in the signature."""
        return int(self.empty.sum())

    @property
    def n_unique_images(self) -> int:
        """Number of distinct images in rows that did not fail; 0 for a metric that opens no images."""
        return len({key for key in self.image_keys if key})

    @property
    def n_truncated(self) -> int:
        """Number of rows with a text that was cut to the context length."""
        return int(self.truncated.sum())

    @property
    def n_failed(self) -> int:
        """Number of rows that could not be scored; empty captions are not among them."""
        return len(self.failures)

    @cached_property
    def signature(self) -> str:
        """Everything the numbers depend on, in one line."""
        return format_signature(self.metric, self.settings)

    def percentiles(self, against: str = "right", *, calibration: str | Path | None = None) -> np.ndarray:
        """Percent of right captions of a stated set, or of captions of other photos, that score lower.

        Args:
            against: "right" for captions that people wrote for the photos of the set, "shuffled" for the same
                captions with photos that they were not written for.
            calibration: File that `capscore calibrate` wrote; None for the calibrations in the library. It
                applies to rows that have its signature when they are scored alone. Each is ranked in its own
                language; where that is not stated, or only known to the backbone, in all languages together.

        Returns:
            float64 (n,) in [0, 100]; NaN where a row failed or nothing applies to it.

        Raises:
            InputError: no calibration applies to any row (says why), or the file holds no calibrations.

        >>> scores.percentiles(), scores.percentiles("shuffled")                  # doctest: +SKIP
        (array([71.3]), array([99.6]))
        """
        from .calibration import percentiles

        return percentiles(self, against, calibration)

    def summary(self) -> dict[str, object]:
        """Means, counts and signature, ready for JSON; its size does not depend on the number of rows.

        Keys: the metric's name (mean), "mean_<component>", those of `corpus`, "n_items", "n_scored" (rows
        behind the mean), "n_failed", "n_empty", "n_unique_images", "n_truncated" and "signature". A mean over
        no rows is None.
        """
        return {
            self.metric: _plain(self.mean),
            **{f"mean_{name}": _plain(_mean(values)) for name, values in self.components.items()},
            **{name: _plain(value) for name, value in self.corpus.items()},
            **{name: getattr(self, name) for name in COUNTS},
            "signature": self.signature,
        }

    def to_dict(self, *, per_row: bool = True) -> dict[str, object]:
        """Plain floats, lists and strings, ready for JSON. The score of a row that was left out is None.

        Keys: those of `summary`; and, unless `per_row` is False, "scores", the name of each component, each
        key of the `details` (None for a row without a score), and "failures" (a list of row and error).
        """
        summary = self.summary()
        if not per_row:
            return summary
        signature = summary.pop("signature")
        details = self.details or [None] * len(self)
        return {
            **summary,
            "scores": [_plain(score) for score in self.scores],
            **{name: [_plain(value) for value in values] for name, values in self.components.items()},
            **{name: [detail and detail.get(name) for detail in details] for name in self.detail_names},
            "failures": [{"row": row, "error": error} for row, error in sorted(self.failures.items())],
            "signature": signature,
        }

    def to_pandas(self) -> pd.DataFrame:
        """A `pandas.DataFrame`, one line per row: score, components, details, and "error", None for none."""
        import pyarrow as pa

        columns = self.to_dict()
        names = [*self.components, *self.detail_names]
        errors = [self.failures.get(row) for row in range(len(self))]
        of_rows = {self.metric: columns["scores"], **{name: columns[name] for name in names}, "error": errors}
        return pa.table(of_rows).to_pandas()

    def __repr__(self) -> str:
        counts = ((self.n_failed, "failed"), (self.n_empty, "empty"))
        noted = "".join(f", {number} {what}" for number, what in counts if number)
        rows = counted(self.n_items, "row")
        return f"Scores({self.metric}: mean {self.mean:.4f} of {rows}{noted}; {self.signature})"


def _mean(values: np.ndarray) -> float:
    scored = values[~np.isnan(values)]
    return float(scored.mean()) if len(scored) else math.nan


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
