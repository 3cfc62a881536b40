"""What a comparison of systems found: a table for a paper, tests per metric and language, and sentences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .. import __version__
from ..statistics.bootstrap import Interval
from ..statistics.systems import ALL, SystemComparison, SystemDifference
from ..tables import Report, Result, Table, counted, fixed, level_text, signed
from .paper_table import PaperTable
from .published_order import OrderAgreement, agreement_parts

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Comparison(Result):
    """Systems that were compared on the same rows.

    Attributes:
        systems: System → its file.
        metrics: Metric, or column of scores → comparison of all rows, then of each language if there are
            several; on a benchmark, of each language alone.
        signatures: Metric → signature, where it is known; "var" for a setting in which languages differ.
        matched_by: What rows were matched by, in words.
        n_left: System → number of its rows that were left out.
        notes: Remarks that a reader needs.
        about: What was read of a benchmark: its name, split, version and the checksums of its files.
        orders: How far each metric puts the systems in a published order, per published column.
    """

    systems: dict[str, str]
    metrics: dict[str, list[SystemComparison]]
    signatures: dict[str, str]
    matched_by: str
    n_left: dict[str, int]
    notes: list[str]
    about: dict[str, object] = field(default_factory=dict)
    orders: tuple[OrderAgreement, ...] = ()

    def figures(self, metric: str) -> dict[str, float]:
        """System → number of all rows together, or on a benchmark the plain mean over languages."""
        parts = self.metrics[metric] if self.about else self.metrics[metric][:1]
        return {name: math.fsum(part.figures[name] for part in parts) / len(parts) for name in self.systems}

    def table(self) -> PaperTable:
        """Systems × metrics, as papers print them; on a benchmark without marks of tests."""
        if not self.about:
            return PaperTable.of([*self.systems], self.metrics, self.signatures)
        found = {}
        for metric, parts in self.metrics.items():
            found[metric] = [replace(parts[0], figures=self.figures(metric), differences=())]
        codes = ", ".join(dict.fromkeys(part.rows for parts in self.metrics.values() for part in parts))
        title = f"{self.about['benchmark']} ({self.about['split']}), means over languages: {codes}"
        return PaperTable.of([*self.systems], found, self.signatures, title)

    def to_latex(self) -> str:
        """`table` in LaTeX, for the package booktabs, with the signatures in a comment."""
        return self.table().latex()

    def to_dict(self) -> dict[str, object]:
        """Everything, ready for JSON."""
        metrics = {}
        for metric, parts in self.metrics.items():
            metrics[metric] = {
                "signature": self.signatures.get(metric),
                "figures": self.figures(metric),
                "comparisons": [part.to_dict() for part in parts],
            }
        return {
            **self.about,
            "systems": self.systems,
            "matched_by": self.matched_by,
            "rows_left_out": self.n_left,
            "metrics": metrics,
            "published_orders": [part.to_dict() for part in self.orders],
            "notes": self.notes,
            "version": __version__,
        }

    def to_pandas(self) -> pd.DataFrame:
        """A `pandas.DataFrame`, a line per metric, rows and system: figure, difference, interval, p."""
        import pandas as pd

        lines = []
        for metric, parts in self.metrics.items():
            for part in parts:
                differences = {other.system: other for other in part.differences}
                for system, figure in part.figures.items():
                    line = {"metric": metric, "rows": part.rows, "system": system, "figure": figure}
                    if other := differences.get(system):
                        line |= {"difference": other.difference, "p": other.p_value_holm}
                        if other.interval is not None:
                            line |= {"low": other.interval.low, "high": other.interval.high}
                    lines.append(line)
        return pd.DataFrame(lines)

    def report(self) -> Report:
        """The table for a paper, tests per metric and language, signatures, and a sentence per metric."""
        parts: list[Table | str | Report] = [*self.table().parts()]
        for metric, comparisons in self.metrics.items():
            if self.about:
                parts.append(self.by_language(metric))
            if len(self.systems) > 1:
                parts += [comparison_table(metric, comparison) for comparison in comparisons]
        parts += comparison_remarks([*itertools.chain.from_iterable(self.metrics.values())])
        parts += agreement_parts(self.orders)
        known = [self.signatures[metric] for metric in self.metrics if self.signatures.get(metric)]
        parts += dict.fromkeys(known)
        parts.append(self._matching())
        parts += [f"note: {note}" for note in self.notes]
        if not self.about:
            parts += [verdict(metric, comparisons) for metric, comparisons in self.metrics.items()]
            return Report("", parts)
        title = f"{self.about['benchmark']} ({self.about['split']}): {', '.join(self.systems)}"
        return Report(title, parts)

    def _matching(self) -> str:
        left = [f"{count:,} of {name}" for name, count in self.n_left.items() if count]
        more = f"; rows that not all systems have were left out: {', '.join(left)}" if left else ""
        return f"Rows were matched by {self.matched_by}{more}."

    def by_language(self, metric: str) -> Table:
        """A row per language: the number of every system, the best in bold; of a benchmark, also the mean."""
        rows: list[list[str]] = []
        bold = set()
        for comparison in self.metrics[metric]:
            means = comparison.figures
            if len(comparison.best) < len(means):
                best = comparison.best
                bold |= {(len(rows), 2 + at) for at, name in enumerate(means) if name in best}
            rows.append([comparison.rows, f"{comparison.n_rows:,}", *map(fixed, means.values())])
        if self.about and len(rows) > 1:
            rows.append(["mean", "", *map(fixed, self.figures(metric).values())])
        return Table(
            ("language", "photos", *self.systems), rows, f"{metric}, by language", bold=frozenset(bold)
        )


# ---- tables ----

_HEADINGS = ("difference", "interval", "p")


def comparison_table(metric: str, comparison: SystemComparison) -> Table:
    """A row per system, the baseline first; the best number in bold, unless several systems share it."""
    figures = comparison.figures
    rows = [(comparison.baseline, fixed(figures[comparison.baseline]), "", "", "")]
    rows += [
        _difference_cells(figures[other.system], other, comparison.confidence)
        for other in comparison.differences
    ]
    bold = [(index, 1) for index, row in enumerate(rows) if row[0] in comparison.best]
    if len(bold) > 1:
        bold = []
    title = metric
    if comparison.rows != ALL:
        title += f", {comparison.rows}"
    counts = counted(comparison.n_rows, "row")
    if comparison.unit != "row":
        counts += f", {counted(comparison.n_images, 'photo')}"
    headings = ("system", comparison.kind, *_HEADINGS)
    return Table(headings, rows, f"{title} ({counts})", bold=frozenset(bold))


def p_text(p_value: float, confidence: float) -> str:
    """A p-value with two digits, or with as many as tell it apart from the level of the test.

    >>> p_text(0.0312, 0.95), p_text(0.0498, 0.95)
    ('0.031', '0.0498')
    """
    for digits in range(2, 6):
        text = f"{p_value:.{digits}g}"
        if float(text) != round(1 - confidence, 12):
            break
    return text


def _difference_cells(
    figure: float, other: SystemDifference, confidence: float
) -> tuple[str, str, str, str, str]:
    interval = p_value = ""
    if other.interval is not None:
        interval = interval_text(other.interval)
    if other.p_value_holm is not None:
        p_value = p_text(other.p_value_holm, confidence)
    return other.system, fixed(figure), signed(other.difference), interval, p_value


def interval_text(interval: Interval) -> str:
    """An interval of a difference, for people."""
    return f"{signed(interval.low)} to {signed(interval.high)}"


def comparison_remarks(comparisons: Sequence[SystemComparison]) -> Iterator[str]:
    """How differences, intervals and p-values were made, and each note of a comparison once."""
    for comparison in comparisons:
        if comparison.differences:
            yield from _sampling_remarks(comparison)
            break
    notes: dict[str, str] = {}
    for comparison in comparisons:
        rows = f"{comparison.rows}: "
        if comparison.rows == ALL:
            rows = ""
        for note in comparison.notes:
            notes.setdefault(note, f"note: {rows}{note}")
    yield from notes.values()


def _sampling_remarks(comparison: SystemComparison) -> Iterator[str]:
    """What was drawn how often, and what the p-values are corrected for; nothing without intervals."""
    if all(other.p_value is None for other in comparison.differences):
        return
    yield (
        f"Differences are system minus {comparison.baseline}, with {level_text(comparison.confidence)} "
        f"intervals; {comparison.n_samples:,} draws of {comparison.unit}s, seed {comparison.seed}."
    )
    n_others = len(comparison.differences)
    if n_others > 1:
        yield (
            f"p-values are corrected for the {n_others} comparisons with {comparison.baseline} "
            "(Holm), not for several metrics or languages."
        )


def verdict(metric: str, comparisons: Sequence[SystemComparison]) -> str:
    """One sentence about all rows: which systems score higher or lower than the baseline."""
    outcomes = [_outcome(other, comparisons[0]) for other in comparisons[0].differences]
    return f"{metric}: {'; '.join(outcomes)}."


def _outcome(other: SystemDifference, comparison: SystemComparison) -> str:
    """What a system's test says; where less is better, that it is."""
    baseline = comparison.baseline
    if other.p_value_holm is None:
        return f"too few photos to tell {other.system} and {baseline} apart"
    p_value = f"p {p_text(other.p_value_holm, comparison.confidence)}"
    if not comparison.is_shown(other):
        return f"no difference between {other.system} and {baseline} is shown, {p_value}"
    direction = "lower"
    if other.difference > 0:
        direction = "higher"
    if not comparison.higher_is_better:
        direction = {"lower": "better (lower)", "higher": "worse (higher)"}[direction]
    size = fixed(abs(other.difference))
    if other.interval is not None:
        size += f" ({interval_text(other.interval)})"
    return f"{other.system} scores {direction} than {baseline} by {size}, {p_value}"
