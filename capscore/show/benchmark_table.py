"""The results of a benchmark → a table for a terminal of 80 columns, or Markdown.

All numbers are multiplied by 100, as papers print them; `BenchmarkRun.to_dict` has them unrounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..benchmarks.run import BenchmarkRun, MetricResult
from ..benchmarks.tasks import Statistic

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..benchmarks.published import Published

_IN_ASCII: dict[str, str | int | None] = {"τ": "tau", "ρ": "rho", "Δ": "diff", "−": "-", "·": "-"}
NAMES = {"tau_b": "τ_b", "tau_c": "τ_c", "spearman": "ρ", "pearson": "r"}


@dataclass(frozen=True)
class StatisticLine:
    """A line of the table, as text.

    Attributes:
        metric: Name and backbone; "" where the metric is that of the line above.
        statistic, measured, interval, published, difference, n: Cells as printed.
        source: Number of the published value's source below the table; 0 for none.
    """

    metric: str
    statistic: str
    measured: str
    interval: str
    published: str
    difference: str
    n: str
    source: int


def statistic_name(name: str) -> str:
    """The name of a statistic as papers write it.

    >>> [statistic_name(name) for name in ("tau_c", "accuracy_hc", "pearson_recall_with_human")]
    ['τ_c', 'accuracy HC', 'r recall + human']
    >>> statistic_name("text_to_image_r@1")
    'text to image R@1'
    """
    if name in NAMES:
        return NAMES[name]
    head, _, tail = name.partition("_")
    if head == "accuracy" and len(tail) == 2:
        tail = tail.upper()
    words = f"{NAMES.get(head, head)} {tail}".replace("_without_human", "").replace("_with_human", " + human")
    return words.strip().replace("_", " ").replace(" r@", " R@")


def lines(run: BenchmarkRun) -> tuple[list[StatisticLine], list[str]]:
    """The lines of the table, and the sources of their published values."""
    sources: list[str] = []
    found = []
    for result in run.results:
        for number, statistic in enumerate(result.outcome.statistics):
            entries = result.published.get(statistic.name, [])
            main = next((entry for entry in entries if entry.kind != "recomputed"), None)
            again = next((entry for entry in entries if entry.kind == "recomputed"), None)
            for entry in (main, again):
                if entry is not None and _source(entry) not in sources:
                    sources.append(_source(entry))
            found.append(_line(metric_name(result) if number == 0 else "", statistic, main, sources))
            if again is not None:
                found.append(_line("", statistic, again, sources, beside=True))
    return found, sources


def _source(entry: Published) -> str:
    """Where a value was published, and what to know before comparing with it."""
    quoted = ", quoted" if entry.kind == "quoted" else ""
    return f"{entry.citation}{quoted}{': ' if entry.note else ''}{entry.note}"


def metric_name(result: MetricResult) -> str:
    """A metric with its backbone, as the table shows it."""
    named = not result.backbone or "@" in result.metric
    return result.metric if named else f"{result.metric} ({result.backbone})"


def _line(
    metric: str, statistic: Statistic, entry: Published | None, sources: list[str], *, beside: bool = False
) -> StatisticLine:
    """A line of the table; `beside` marks a second line, with another published value of the same number."""
    value, ends = statistic.value, statistic.interval
    return StatisticLine(
        metric=metric,
        statistic="" if beside else statistic_name(statistic.name),
        measured="" if beside else "undefined" if value is None else _points(value),
        interval="" if beside or ends is None else _range(ends),
        published="" if entry is None else _points(entry.measured_unit, _decimals(entry)),
        difference="" if entry is None or value is None else _signed(100 * (value - entry.measured_unit)),
        n="" if beside or not statistic.n else f"{statistic.n:,}",
        source=0 if entry is None else sources.index(_source(entry)) + 1,
    )


def _decimals(entry: Published) -> int:
    """The number of decimals that a published value times 100 has in print, at least 1."""
    printed = len(str(entry.value).partition(".")[2])
    return max(1, printed if entry.unit == "percent" else printed - 2)


def _points(value: float, decimals: int = 2) -> str:
    return f"{100 * value:.{decimals}f}".replace("-", "−")


def _range(ends: tuple[float, float]) -> str:
    return f"{_points(ends[0], 1)} to {_points(ends[1], 1)}"


def _signed(value: float) -> str:
    text = f"{value:+.2f}"
    return "0.00" if text in ("+0.00", "-0.00") else text.replace("-", "−")


def heading(run: BenchmarkRun) -> str:
    """Name, split and number of rows of a benchmark."""
    return f"{run.name} ({run.split}, {run.n_rows:,} rows)"


def remarks(run: BenchmarkRun) -> Iterator[str]:
    """The text below the table: counts, signatures, notes, and metrics that were not run."""
    for note in run.notes:
        yield f"note: {note}"
    for result in run.results:
        counts = ", ".join(f"{number:,} {what}" for what, number in result.outcome.counts.items())
        part = "" if result.n_rows == run.n_rows else f" ({result.n_rows:,} of {run.n_rows:,} rows)"
        yield f"{metric_name(result)}: {counts}{part}; {result.seconds:.1f} s"
        yield f"  {result.signature}"
        for note in (*result.outcome.notes, *result.warnings):
            yield f"  note: {note}"
    for test in run.comparisons:
        yield _comparison(test)
    for metric, reason in run.skipped.items():
        yield f"{metric}: not run. {reason}"


def _comparison(test: dict[str, Any]) -> str:
    pair = f"{' against '.join(test['metrics'])} ({test['method']})"
    if test["p_value"] is None:
        return f"{pair}: undefined"
    ends = test["interval"] and (test["interval"]["low"], test["interval"]["high"])
    return (
        f"{pair}: {statistic_name(test['statistic'])} {_signed(100 * test['difference'])}"
        f"{f' ({_range(ends)})' if ends else ''}, p = {test['p_value']:.2g}"
    )


def printable(words: str, encoding: str) -> str:
    """A text for a terminal; Greek letters become ASCII names where the terminal has none.

    >>> printable("τ_c −0.01", "ascii"), printable("τ_c −0.01", "utf-8")
    ('tau_c -0.01', 'τ_c −0.01')
    """
    try:
        "".join(_IN_ASCII).encode(encoding)
    except UnicodeEncodeError:
        return words.translate(str.maketrans(_IN_ASCII))
    return words


def print_run(run: BenchmarkRun, console: Console) -> None:
    """Print the table and its remarks."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    def text(words: str, style: str = "") -> Text:
        return Text(printable(words, console.encoding), style=style)

    found, sources = lines(run)
    console.print(text(f"\n{heading(run)}", style="bold"))
    if found:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
        table.add_column(
            "metric", overflow="fold", min_width=max(6, min(12, max(len(line.metric) for line in found)))
        )
        words = (word for line in found for word in line.statistic.split())
        table.add_column("", overflow="fold", min_width=max(map(len, words), default=0))
        table.add_column("measured", justify="right", no_wrap=True)
        if any(line.interval for line in found):
            table.add_column(f"{confidence_text(run)} interval", justify="right", no_wrap=True)
        table.add_column("published", justify="right", no_wrap=True)
        table.add_column(text("Δ"), justify="right", no_wrap=True)
        table.add_column("n", justify="right", no_wrap=True)
        for line in found:
            cells = [line.metric, line.statistic, line.measured]
            if any(other.interval for other in found):
                cells.append(line.interval)
            published = f"{line.published} [{line.source}]" if line.source else line.published
            table.add_row(*map(text, [*cells, published, line.difference, line.n]))
        # where the terminal is still too narrow, lines are longer, so that no number is cut
        least = _least_width(table)
        if least > console.width:
            table.width = least
        console.print(table, soft_wrap=least > console.width)
        console.print(text("Numbers are times 100; Δ is measured minus published.", style="dim"))
    for number, source in enumerate(sources, start=1):
        console.print(text(f"[{number}] {source}"), soft_wrap=False)
    for remark in remarks(run):
        console.print(text(remark), soft_wrap=False)


def confidence_text(run: BenchmarkRun) -> str:
    """The confidence level of the run's intervals, such as 95% or 99.9%."""
    return f"{100 * run.options.confidence:.10g}%"


def _least_width(table: Table) -> int:
    """The width of a table in characters, with all folding that is allowed; 3 characters separate columns."""
    from rich.cells import cell_len

    widths = [
        column.min_width or max(cell_len(str(text)) for text in (column.header, *column.cells))
        for column in table.columns
    ]
    return sum(widths) + 3 * (len(widths) - 1)


def to_markdown(runs: Iterable[BenchmarkRun]) -> str:
    """Tables, sources and remarks of runs."""
    parts = []
    for run in runs:
        found, sources = lines(run)
        parts.append(f"## {heading(run)}\n")
        if found:
            parts.append("| metric | statistic | measured | interval | published | Δ | n |")
            parts.append("|---|---|---:|---:|---:|---:|---:|")
            for line in found:
                published = f"{line.published} [{line.source}]" if line.source else ""
                cells = [line.metric, line.statistic, line.measured, line.interval]
                parts.append("| " + " | ".join([*cells, published, line.difference, line.n]) + " |")
            parts.append("")
            draws = f"{run.options.bootstrap:,} bootstrap draws of photos"
            intervals = f" Intervals: {confidence_text(run)}, {draws}." if run.options.bootstrap else ""
            parts.append(f"Numbers are times 100.{intervals}\n")
        parts += [f"{number}. {source}" for number, source in enumerate(sources, start=1)]
        parts.append("")
        for text in map(str.strip, remarks(run)):
            parts.append(f"- `{text}`" if "|" in text else f"- {text}")
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"
