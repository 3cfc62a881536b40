"""Scores of one or several systems → an HTML page: distributions, languages, worst and best rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CapscoreError
from ..files.whole_file import write_text
from .markup import inline_jpeg, render

if TYPE_CHECKING:
    from PIL import Image

ROWS_SHOWN = 8
"""Number of rows in each list of the page."""
BINS = 30
_THUMBNAIL = 320  # longest side of a photo in pixels
_MOST_FAILURES = 20


@dataclass(frozen=True)
class ReportedMetric:
    """A metric's scores.

    Attributes:
        name: Name of the metric.
        scores: System → float64 (n,); NaN for a row without a score. All systems have the same rows.
        signature: Everything that the scores depend on.
        remarks: Sentences below the distribution: where the scores lie among those of right captions, corpus
            scores.
    """

    name: str
    scores: Mapping[str, np.ndarray]
    signature: str = ""
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class ReportedRow:
    """A row as the page shows it.

    Attributes:
        place: Name of the row, such as "line 12".
        captions: System → caption.
        photo: The photo; None where there is none to show.
        references: Reference captions.
        language: BCP 47 tag, "" if not known.
        name: Name of the photo; "" without one.
        found: System → what a metric says of its caption in words, such as "12 % kept: repetition".
    """

    place: str
    captions: Mapping[str, str]
    photo: Image.Image | None = None
    references: Sequence[str] = ()
    language: str = ""
    name: str = ""
    found: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RowList:
    """A list of rows on the page.

    Attributes:
        title: Heading.
        rows: Numbers of the rows, in the order of the page.
    """

    title: str
    rows: list[int]


@dataclass(frozen=True)
class _Histogram:
    system: str
    counts: list[int]
    mean: float | None
    n: int
    n_missing: int
    quartiles: list[float] = field(default_factory=list)

    @property
    def heights(self) -> list[float]:
        """Counts as shares of the highest."""
        top = max(self.counts, default=0)
        return [count / top if top else 0.0 for count in self.counts]


def write_score_report(
    path: str | Path,
    *,
    title: str,
    metrics: Sequence[ReportedMetric],
    languages: Sequence[str],
    rows_of: Callable[[Sequence[int]], Mapping[int, ReportedRow]],
    failures: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Path:
    """Write the page. The file gets its name once it is complete.

    With one system, the lists are its rows with the lowest and the highest scores of the first metric. With
    several, they are the rows in which the systems differ most, and those with the lowest and highest means.

    Args:
        path: File to write; an existing one is replaced.
        title: Heading of the page.
        metrics: At least one metric; all have the same n rows and the same systems.
        languages: Language of each row, "" where it is not known; () if no row has one.
        rows_of: Function that gives the shown rows by their numbers.
        failures: Sentences about rows that could not be scored.
        notes: Sentences that a reader needs.

    Raises:
        CapscoreError: no metric, or metrics with other rows or systems.
        ResultWriteError: the file cannot be written.

    >>> metric = ReportedMetric("mcs", {"scores": np.array([0.2, 0.9])}, "mcs|w:2.5")
    >>> rows = {0: ReportedRow("row 0", {"scores": "a cat"}), 1: ReportedRow("row 1", {"scores": "a dog"})}
    >>> write_score_report(                                                       # doctest: +SKIP
    ...     "report.html", title="preds.jsonl", metrics=[metric], languages=[], rows_of=lambda which: rows
    ... )
    PosixPath('report.html')
    """
    path = Path(path).expanduser()
    check_metrics(metrics, languages)
    lists = [each for each in row_lists(metrics[0]) if each.rows]
    shown = rows_of(sorted({number for each in lists for number in each.rows}))
    page = render(
        "score_report.html",
        title=title,
        systems=[*metrics[0].scores],
        metrics=[_metric_values(metric) for metric in metrics],
        languages=_language_lines(metrics, languages),
        lists=[
            {
                "title": each.title,
                "rows": [_row_values(shown[number], number, metrics) for number in each.rows],
            }
            for each in lists
        ],
        failures=list(failures[:_MOST_FAILURES]),
        n_failures=len(failures),
        notes=list(notes),
        signatures={metric.name: metric.signature for metric in metrics if metric.signature},
    )
    write_text(path, page, "report")
    return path


def check_metrics(metrics: Sequence[ReportedMetric], languages: Sequence[str]) -> None:
    """Raise CapscoreError unless all metrics have the same systems and rows."""
    if not metrics:
        raise CapscoreError("a report needs the scores of at least one metric")
    systems = list(metrics[0].scores)
    lengths = {len(scores) for metric in metrics for scores in metric.scores.values()}
    if languages:
        lengths.add(len(languages))
    if any(list(metric.scores) != systems for metric in metrics) or len(lengths) != 1:
        raise CapscoreError("a report needs the same systems and rows for every metric")


def row_lists(metric: ReportedMetric, n: int = ROWS_SHOWN) -> list[RowList]:
    """The rows worth reading: lowest and highest scores; with several systems, largest differences first.

    Rows without a score of every system are left out. Equal rows keep their order.

    >>> lists = row_lists(ReportedMetric("mcs", {"a": np.array([0.3, np.nan, 0.1])}), n=1)
    >>> [(each.title, each.rows) for each in lists]
    [('Lowest mcs', [2]), ('Highest mcs', [0])]
    """
    table = np.stack([np.asarray(scores, np.float64) for scores in metric.scores.values()])
    scored = np.flatnonzero(np.isfinite(table).all(axis=0))
    means, spread = table[:, scored].mean(axis=0), np.ptp(table[:, scored], axis=0)
    rising = scored[np.argsort(means, kind="stable")].tolist()
    # a row is in one list only, if there are few
    half = max(1, min(n, -(-len(rising) // 2)))
    low = rising[:half]
    high = [row for row in rising[::-1][:half] if row not in low]
    several = len(table) > 1
    what = f"mean {metric.name}" if several else metric.name
    lists = [RowList(f"Lowest {what}", low), RowList(f"Highest {what}", high)]
    if several:
        order = np.argsort(-spread, kind="stable")[:n]
        apart = [int(row) for row in scored[order] if np.ptp(table[:, row]) > 0]
        lists.insert(0, RowList(f"Largest differences in {metric.name}", apart))
    return lists


def _metric_values(metric: ReportedMetric) -> dict[str, Any]:
    every = np.concatenate([scores[np.isfinite(scores)] for scores in metric.scores.values()])
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    if low >= 0:
        low = 0.0  # most metrics begin there, and bars of two pages stay comparable
    if high <= low:
        high = low + 1.0
    return {
        "name": metric.name,
        "low": low,
        "high": high,
        "histograms": [_histogram(name, scores, low, high) for name, scores in metric.scores.items()],
        "remarks": list(metric.remarks),
    }


def _histogram(system: str, scores: np.ndarray, low: float, high: float) -> _Histogram:
    present = scores[np.isfinite(scores)]
    counts, _ = np.histogram(present, bins=BINS, range=(low, high))
    return _Histogram(
        system,
        counts.tolist(),
        math.fsum(present) / len(present) if len(present) else None,
        len(present),
        len(scores) - len(present),
        np.percentile(present, [5, 25, 50, 75, 95]).tolist() if len(present) else [],
    )


def _language_lines(metrics: Sequence[ReportedMetric], languages: Sequence[str]) -> list[dict[str, Any]]:
    """Number of rows and means per language; () where all rows have one language."""
    distinct = list(dict.fromkeys(languages))
    if len(distinct) < 2:
        return []
    codes = np.array([distinct.index(language) for language in languages])
    lines = []
    for code, language in enumerate(distinct):
        here = codes == code
        means = []
        for metric in metrics:
            for scores in metric.scores.values():
                present = scores[here & np.isfinite(scores)]
                means.append(math.fsum(present) / len(present) if len(present) else None)
        lines.append({"language": language, "n": int(here.sum()), "means": means})
    return lines


def _row_values(row: ReportedRow, number: int, metrics: Sequence[ReportedMetric]) -> dict[str, Any]:
    picture = None
    if row.photo is not None:
        address, width, height = inline_jpeg(row.photo, _THUMBNAIL)
        picture = {"address": address, "width": width, "height": height}
    return {
        "row": row,
        "picture": picture,
        "scores": {
            system: [
                {
                    "metric": metric.name,
                    "value": None if math.isnan(scores[number]) else float(scores[number]),
                }
                for metric in metrics
                for scores in [metric.scores[system]]
            ]
            for system in row.captions
        },
    }
