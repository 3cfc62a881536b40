"""Systems × metrics, as papers print them: in a terminal, and as LaTeX, Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import __version__
from ..benchmarks.results import metric_title
from ..files.write import write_text
from ..metrics.loading import metric_of
from ..registry import METRICS
from ..statistics.systems import SystemComparison
from ..tables import Table, counted, fixed

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$"}
_LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}


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
        """The table for a terminal, Markdown or a page."""
        rows = []
        for row, system in enumerate(self.systems):
            rows.append(
                [system, *(f"{cell}{self._mark(row, at)}" for at, cell in enumerate(self.cells[row]))]
            )
        bold = frozenset((row, column + 1) for row, column in self.best)
        return Table(("system", *self.titles), rows, bold=bold)

    def parts(self) -> list[Table | str]:
        """The table and its caption, for a report."""
        return [
            self.table(),
            self.caption.replace("in bold", "in bold or with *"),
        ]  # a terminal may lack bold

    def _mark(self, row: int, column: int) -> str:
        return "†" if (row, column) in self.marked else ""

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
        caption = _escaped(self.caption).replace("†", r"$^\dagger$").replace("<", "$<$")
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
            writer.writerow([system, *numbers, *(self.p_values[row][at] for at in tested)])
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
    """What bold numbers and marks say."""
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
