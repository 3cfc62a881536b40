"""Comparisons of systems → a table for a terminal of 80 columns, or Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors.visible import visible
from ..statistics.system_means import ALL, SystemComparison

if TYPE_CHECKING:
    from rich.console import Console

HEADER = ("system", "mean", "difference", "interval", "p bootstrap", "p randomisation")


@dataclass(frozen=True)
class ComparedMetric:
    """A metric's comparisons of systems.

    Attributes:
        metric: Name of the metric, or of the column.
        comparisons: Comparison over all rows, then one for each language.
        signature: Signature of the scores; "" if it is not known.
        corpus: System → numbers of all rows together, which are no means of rows.
    """

    metric: str
    comparisons: Sequence[SystemComparison]
    signature: str = ""
    corpus: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def heading(metric: str, comparison: SystemComparison) -> str:
    """Metric, language and counts.

    >>> from capscore.statistics.system_means import compare_means
    >>> heading("mcs", compare_means({"a": [1, 2], "b": [3, 4]}, images=["x", "y"], n=8))
    'mcs (2 rows, 2 photos)'
    """
    where = "" if comparison.rows == ALL else f", {comparison.rows}"
    photos = "" if comparison.resampled_by == "row" else f", {_counted(comparison.n_images, 'photo')}"
    return f"{metric}{where} ({_counted(comparison.n_rows, 'row')}{photos})"


def cells(comparison: SystemComparison) -> list[tuple[str, ...]]:
    """A line of the table per system, the baseline first; p-values are corrected where there are several."""
    found: list[tuple[str, ...]] = [
        (comparison.baseline, f"{comparison.means[comparison.baseline]:.4f}", "", "", "", "")
    ]
    for one in comparison.differences:
        ends = one.interval and f"{_signed(one.interval.low)} to {_signed(one.interval.high)}"
        found.append(
            (
                one.system,
                f"{comparison.means[one.system]:.4f}".replace("-", "−"),
                _signed(one.difference),
                ends or "",
                _p(one.p_bootstrap_holm),
                _p(one.p_randomisation_holm),
            )
        )
    return found


def differences(compared: ComparedMetric) -> Iterator[str]:
    """A sentence per system and language: its difference to the baseline, interval and p-value.

    >>> from capscore.statistics.system_means import compare_means
    >>> both = compare_means({"a": [1, 2], "b": [3, 4]}, images=["x", "y"], n=8)
    >>> list(differences(ComparedMetric("mcs", [both])))
    ['b − a: +2.0000 (95% interval +2.0000 to +2.0000), p = 0.5 by randomisation.']
    """
    for comparison in compared.comparisons:
        where = "" if comparison.rows == ALL else f"{comparison.rows}: "
        for one in comparison.differences:
            text = f"{where}{one.system} − {comparison.baseline}: {_signed(one.difference)}"
            if one.interval is not None:
                ends = f"{_signed(one.interval.low)} to {_signed(one.interval.high)}"
                text += f" ({100 * one.interval.confidence:.10g}% interval {ends})"
            if one.p_randomisation_holm is not None:
                text += f", p = {_p(one.p_randomisation_holm)} by randomisation"
            yield f"{text}."


def remarks(compared: Sequence[ComparedMetric]) -> Iterator[str]:
    """The text below the tables: what was drawn, corrected for, and not tested; notes; signatures."""
    first = compared[0].comparisons[0]
    interval = next((one.interval for one in first.differences if one.interval), None)
    if interval is not None:
        unit = "photos" if first.resampled_by == "image" else "rows"
        yield (
            f"Differences are system minus {first.baseline}, with {100 * interval.confidence:.10g}% "
            f"intervals; {first.n_samples:,} draws of {unit}, seed {first.seed}."
        )
    if len(first.differences) > 1:
        yield (
            f"p-values are corrected for the {len(first.differences)} comparisons with {first.baseline} "
            "(Holm), not for several metrics or languages."
        )
    told: set[str] = set()
    for one in compared:
        for comparison in one.comparisons:
            for note in comparison.notes:
                if note not in told:
                    told.add(note)
                    yield f"note: {'' if comparison.rows == ALL else f'{comparison.rows}: '}{note}"
        if one.corpus:
            yield f"note: {_untested(one)}"
    for one in compared:
        if one.signature:
            yield one.signature


def _untested(one: ComparedMetric) -> str:
    """What the tests of a metric do not cover."""
    stated = "; ".join(
        f"{system}: {', '.join(f'{name} {value:.4f}' for name, value in numbers.items())}"
        for system, numbers in one.corpus.items()
    )
    return (
        f"{one.metric}: the tests compare means of rows. The numbers of all rows together are no means, so "
        f"they are not tested ({stated})"
    )


def print_comparisons(compared: Sequence[ComparedMetric], console: Console) -> None:
    """Print the tables and the remarks."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    for one in compared:
        for comparison in one.comparisons:
            console.print(Text(f"\n{visible(heading(one.metric, comparison))}", style="bold"))
            table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
            table.add_column("system", overflow="fold", min_width=6)
            for name in HEADER[1:]:
                table.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)
            for line in cells(comparison):
                table.add_row(*(Text(visible(cell)) for cell in line))
            console.print(table)
    console.print()
    for remark in remarks(compared):
        console.print(Text(visible(remark)), soft_wrap="|" in remark)


def to_markdown(compared: Sequence[ComparedMetric]) -> str:
    """Tables and remarks as Markdown."""
    parts = []
    for one in compared:
        for comparison in one.comparisons:
            parts.append(f"## {heading(one.metric, comparison)}\n")
            parts.append(f"| {' | '.join(HEADER)} |")
            parts.append(f"|---{'|---:' * (len(HEADER) - 1)}|")
            parts += [f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in cells(comparison)]
            parts.append("")
    parts += [f"- `{text}`" if "|" in text else f"- {text}" for text in remarks(compared)]
    return "\n".join(parts) + "\n"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def _signed(value: float) -> str:
    text = f"{value:+.4f}"
    return "0.0000" if text in ("+0.0000", "-0.0000") else text.replace("-", "−")


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
