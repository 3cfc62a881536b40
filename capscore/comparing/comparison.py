"""What a comparison of systems found: a table for a paper, tests per metric and language, and sentences."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from ..files.write import without_formula, write_text
from ..metrics.loading import metric_of, metric_title
from ..registry import METRICS
from ..statistics.bootstrap import Interval
from ..statistics.systems import ALL, SystemComparison, SystemDifference
from ..tables import Report, Result, Table, counted, fixed, level_text, signed
from .published_order import OrderAgreement, agreement_parts

if TYPE_CHECKING:
    import pandas as pd

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$"}
_LATEX |= {"<": "$<$", ">": "$>$"}
_LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}


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
        left = [f"{count:,} of {name}" for name, count in self.n_left.items() if count]
        more = f"; rows that not all systems have were left out: {', '.join(left)}" if left else ""
        parts.append(f"Rows were matched by {self.matched_by}{more}.")
        parts += [f"note: {note}" for note in self.notes]
        if not self.about:
            parts += [verdict(metric, comparisons) for metric, comparisons in self.metrics.items()]
            return Report("", parts)
        title = f"{self.about['benchmark']} ({self.about['split']}): {', '.join(self.systems)}"
        return Report(title, parts)

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


@dataclass(frozen=True)
class PaperTable:
    """A row per system and a column per metric.

    Attributes:
        best: (row, column) of the best numbers of their column, unless all are equal.
        marked: (row, column) of numbers that differ from the baseline's, as the corrected test shows.
        p_values: Corrected p-value of each number; None for the baseline, or without a test.
        caption: What was measured, on how many photos, and what the signs mean.
    """

    systems: Sequence[str]
    titles: Sequence[str]
    cells: Sequence[Sequence[str]]
    best: frozenset[tuple[int, int]]
    marked: frozenset[tuple[int, int]]
    p_values: Sequence[Sequence[float | None]]
    caption: str
    signatures: Mapping[str, str]

    @classmethod
    def of(
        cls,
        systems: Sequence[str],
        metrics: Mapping[str, Sequence[SystemComparison]],
        signatures: Mapping[str, str],
        title: str = "",
    ) -> PaperTable:
        """The table of metric → comparisons, of which the first is that of all rows."""
        cells: list[list[str]] = [[] for _ in systems]
        p_values: list[list[float | None]] = [[] for _ in systems]
        best, marked = set(), set()
        for column, (metric, (whole, *_)) in enumerate(metrics.items()):
            tests = {other.system: other for other in whole.differences}
            for row, system in enumerate(systems):
                cells[row].append(_printed(metric, whole.figures[system]))
                test = tests.get(system)
                p_values[row].append(None if test is None else test.p_value_holm)
                if system in whole.best and len(whole.best) < len(systems):
                    best.add((row, column))
                if test is not None and whole.is_shown(test):
                    marked.add((row, column))
        compared = [parts[0] for parts in metrics.values()]
        caption = f"{title or _counts(compared)}.{_legend(compared, bool(best))}"
        titles = [column_title(metric) for metric in metrics]
        known = {column_title(metric): signatures[metric] for metric in metrics if signatures.get(metric)}
        return cls(systems, titles, cells, frozenset(best), frozenset(marked), p_values, caption, known)

    def table(self) -> Table:
        rows = [[system, *cells] for system, cells in zip(self.systems, self.cells, strict=True)]
        for row, column in self.marked:
            rows[row][column + 1] += "†"
        bold = frozenset((row, column + 1) for row, column in self.best)
        return Table(("system", *self.titles), rows, bold=bold)

    def parts(self) -> list[Table | str]:
        """The table and its caption, for a report; a terminal may lack bold."""
        return [self.table(), self.caption.replace("in bold", "in bold or with *")]

    def write(self, path: Path) -> None:
        """Write the table, in the format that the file's name ends in: .tex, .md or .csv."""
        formats = {".tex": self.latex, ".md": self.markdown, ".csv": self.csv}
        write_text(path, formats[path.suffix.lower()]())

    def markdown(self) -> str:
        """The table in Markdown, with its caption, and the signatures in a comment."""
        comment = "\n".join(f"{title}: {signature}" for title, signature in self.signatures.items())
        hidden = comment.replace("--", "- -")  # which would end the comment
        return f"{self.table().markdown()}\n{self.caption}\n\n<!-- capscore {__version__}\n{hidden}\n-->\n"

    def latex(self) -> str:
        """The table in LaTeX, for the package booktabs, with its caption, and the signatures in a comment."""
        lines = [f"% capscore {__version__}; needs \\usepackage{{booktabs}}"]
        lines += [f"% {title}: {_on_one_line(text)}" for title, text in self.signatures.items()]
        lines += [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * len(self.titles)}}}"]
        lines += [r"\toprule", f" & {' & '.join(map(_escaped, self.titles))} \\\\", r"\midrule"]
        for row, system in enumerate(self.systems):
            cells = [_escaped(system)]
            for column, number in enumerate(self.cells[row]):
                cell = _escaped(number)
                if (row, column) in self.best:
                    cell = rf"\textbf{{{cell}}}"
                if (row, column) in self.marked:
                    cell += r"$^\dagger$"
                cells.append(cell)
            lines.append(f"{' & '.join(cells)} \\\\")
        caption = _escaped(self.caption).replace("†", r"$^\dagger$")
        lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}"]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """The table as CSV: the numbers as printed, then a column of p-values per metric with tests."""
        tested = [at for at in range(len(self.titles)) if any(row[at] is not None for row in self.p_values)]
        written = io.StringIO()
        writer = csv.writer(written, lineterminator="\n")
        writer.writerow(["system", *self.titles, *(f"p {self.titles[at]}" for at in tested)])
        for row, system in enumerate(self.systems):
            numbers = [cell.replace("−", "-").replace("–", "") for cell in self.cells[row]]
            writer.writerow([without_formula(system), *numbers, *(self.p_values[row][at] for at in tested)])
        return written.getvalue()


def _printed(metric: str, number: float) -> str:
    """A number as papers print it: times 100 with one decimal, or with three."""
    kind = metric_of(metric)
    if kind is not None and kind.printed_times_100:
        return fixed(100 * number, 1)
    return fixed(number, 3)


def column_title(metric: str) -> str:
    """A metric's title; where the number of a set is that of a component, the component's."""
    kind = METRICS.find(metric)
    if kind is not None and (part := kind.aggregation.removeprefix("corpus_")) in kind.component_names:
        return metric_title(part)
    return metric_title(metric)


def _counts(compared: Sequence[SystemComparison]) -> str:
    """How many photos, or rows, were compared, the fewest and the most if metrics differ in it."""
    numbers = sorted({part.n_images for part in compared})
    first = f"{numbers[0]:,} to " if len(numbers) > 1 else ""
    captions = max(part.n_rows for part in compared)
    more = "" if captions == numbers[-1] else f", {counted(captions, 'caption')} per system"
    return f"{first}{counted(numbers[-1], compared[0].unit)}{more}"


def _legend(compared: Sequence[SystemComparison], has_best: bool) -> str:
    legend = " Best in bold." if has_best else ""
    tested = [part for part in compared if any(other.p_value is not None for other in part.differences)]
    if not tested:
        return legend
    n_others = len(tested[0].differences)
    corrected = f", Holm-corrected for {n_others} systems" if n_others > 1 else ""
    return (
        f"{legend} †: differs from {tested[0].baseline}, p < {1 - tested[0].confidence:.4g} by approximate "
        f"randomisation of {tested[0].unit}s{corrected}."
    )


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in _on_one_line(text))


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def comparison_table(metric: str, comparison: SystemComparison) -> Table:
    """A row per system, the baseline first; the best number in bold, unless several systems share it."""
    figures = comparison.figures
    rows = [(comparison.baseline, fixed(figures[comparison.baseline]), "", "", "")]
    for other in comparison.differences:
        interval = p_value = ""
        if other.interval is not None:
            interval = interval_text(other.interval)
        if other.p_value_holm is not None:
            p_value = p_text(other.p_value_holm, comparison.confidence)
        figure = fixed(figures[other.system])
        rows.append((other.system, figure, signed(other.difference), interval, p_value))
    bold = [(index, 1) for index, row in enumerate(rows) if row[0] in comparison.best]
    if len(bold) > 1:
        bold = []
    title = metric
    if comparison.rows != ALL:
        title += f", {comparison.rows}"
    counts = counted(comparison.n_rows, "row")
    if comparison.unit != "row":
        counts += f", {counted(comparison.n_images, 'photo')}"
    headings = ("system", comparison.kind, "difference", "interval", "p")
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


def interval_text(interval: Interval) -> str:
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
