"""What a benchmark said → a table for a terminal of 80 columns, and Markdown.

All numbers are times 100, as papers print them; `BenchmarkRun.to_dict` has them unrounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .run import BenchmarkRun, MetricResult
from .tasks import Statistic

if TYPE_CHECKING:
    from rich.console import Console

    from ..published import Published

NAMES = {"tau_b": "τ_b", "tau_c": "τ_c", "spearman": "ρ", "pearson": "r"}


@dataclass(frozen=True)
class Line:
    """One number of the table, as text.

    Attributes:
        metric: name, and its towers if it has some; "" where it is that of the line above.
        statistic, measured, interval, published, difference, n: as printed.
        source: number of the published value's source below the table; 0 for none.
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
    """A statistic as papers write it.

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


def lines(run: BenchmarkRun) -> tuple[list[Line], list[str]]:
    """The table's lines, and the sources that their numbers refer to."""
    sources: list[str] = []
    found = []
    for result in run.results:
        for number, statistic in enumerate(result.outcome.statistics):
            entries = result.published.get(statistic.name, [])
            main = next((entry for entry in entries if entry.kind != "recomputed"), None)
            again = next((entry for entry in entries if entry.kind == "recomputed"), None)
            for entry in (main, again):
                if entry is not None and entry.citation not in sources:
                    sources.append(entry.citation)
            found.append(_line(metric_name(result) if number == 0 else "", statistic, main, sources))
            if again is not None:
                found.append(_line("", statistic, again, sources, beside=True))
    return found, sources


def metric_name(result: MetricResult) -> str:
    """A metric with its towers, as the table has it."""
    return f"{result.metric} ({result.backbone})" if result.backbone else result.metric


def _line(
    metric: str, statistic: Statistic, entry: Published | None, sources: list[str], *, beside: bool = False
) -> Line:
    """A line of the table; `beside` is a second one with another value to compare the same number with."""
    value, ends = statistic.value, statistic.interval
    return Line(
        metric=metric,
        statistic="" if beside else statistic_name(statistic.name),
        measured="" if beside else "undefined" if value is None else _points(value),
        interval="" if beside or ends is None else f"{_points(ends[0], 1)} to {_points(ends[1], 1)}",
        published="" if entry is None else _points(entry.measured_unit, _decimals(entry)),
        difference="" if entry is None or value is None else _signed(100 * (value - entry.measured_unit)),
        n="" if beside or not statistic.n else f"{statistic.n:,}",
        source=0 if entry is None else sources.index(entry.citation) + 1,
    )


def _decimals(entry: Published) -> int:
    """How many decimals of a figure times 100 are printed."""
    printed = len(str(entry.value).partition(".")[2])
    return max(1, printed if entry.unit == "percent" else printed - 2)


def _points(value: float, decimals: int = 2) -> str:
    return f"{100 * value:.{decimals}f}".replace("-", "−")


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def heading(run: BenchmarkRun) -> str:
    """Benchmark, configuration, and how many rows were read."""
    return f"{run.name} ({run.split}, {run.n_rows:,} rows)"


def remarks(run: BenchmarkRun) -> Iterator[str]:
    """What stands below the table: counts, signatures, notes, and what was not run."""
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
    return (
        f"{pair}: {statistic_name(test['statistic'])} {_signed(100 * test['difference'])}, "
        f"p = {test['p_value']:.3f}"
    )


def print_run(run: BenchmarkRun, console: Console) -> None:
    """The table and its remarks, on a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    found, sources = lines(run)
    console.print(Text(f"\n{heading(run)}", style="bold"))
    if found:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
        table.add_column(
            "metric", overflow="fold", min_width=min(12, max(len(line.metric) for line in found))
        )
        table.add_column("", overflow="fold")
        table.add_column("measured", justify="right", no_wrap=True)
        if any(line.interval for line in found):
            table.add_column(f"{run.options.confidence:.0%} interval", justify="right", no_wrap=True)
        table.add_column("published", justify="right", no_wrap=True)
        table.add_column("Δ", justify="right", no_wrap=True)
        table.add_column("n", justify="right", no_wrap=True)
        for line in found:
            cells = [line.metric, line.statistic, line.measured]
            if any(other.interval for other in found):
                cells.append(line.interval)
            published = f"{line.published} [{line.source}]" if line.source else line.published
            table.add_row(*map(Text, [*cells, published, line.difference, line.n]))
        console.print(table)
        console.print(Text("Numbers are times 100; Δ is measured less published.", style="dim"))
    for number, source in enumerate(sources, start=1):
        console.print(Text(f"[{number}] {source}"), soft_wrap=False)
    for remark in remarks(run):
        console.print(Text(remark), soft_wrap=False)


def to_markdown(runs: Iterable[BenchmarkRun]) -> str:
    """Tables, sources and remarks of some runs."""
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
            intervals = f" Intervals: {run.options.confidence:.0%}, {draws}." if run.options.bootstrap else ""
            parts.append(f"Numbers are times 100.{intervals}\n")
        parts += [f"{number}. {source}" for number, source in enumerate(sources, start=1)]
        parts.append("")
        for text in map(str.strip, remarks(run)):
            parts.append(f"- `{text}`" if "|" in text else f"- {text}")
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"
