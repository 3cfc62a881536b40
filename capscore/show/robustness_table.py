"""Runs of perturbed captions → tables for a terminal of 80 columns, or Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..benchmarks.robustness.run import RobustnessRun
from ..benchmarks.robustness.table import Group, groups, kept_lines, lines, remarks, sources
from .benchmark_table import printable

if TYPE_CHECKING:
    from rich.console import Console

# headings have at most seven letters, so that a table fits 80 columns
SHORT = {
    "repetition": "repeat",
    "substitution": "subst.",
    "masking": "mask",
    "neighbours": "neighb.",
    "negation": "negat.",
    "truncation": "trunc.",
}
_KEPT = ("", "metric", "of first", "R@1", "R@5", "R@10")
_LEGEND = (
    "Drops are changes of the mean score, in percent. Kept: original mean as a share of the first metric's, "
    "and how often original captions retrieve their photo, in percent."
)


def print_runs(runs: Sequence[RobustnessRun], console: Console) -> None:
    """Print tables and remarks of all runs."""
    from rich.text import Text

    def text(words: str, style: str = "") -> Text:
        return Text(printable(words, console.encoding), style=style)

    def show(headings: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> None:
        print_table(console, headings, rows, left)

    for group in groups(runs):
        console.print(text(f"\n{heading(group)}", style="bold"))
        for metric in group.metrics:
            for unseen in (False, True):
                if not group.kinds(unseen=unseen):
                    continue
                never = ", kinds that PR-MCS does not train on" if unseen else ""
                console.print(text(f"\n{metric_heading(group, metric)}{never}"))
                show(
                    ["", "", "original", *headings(group, unseen, short=True)],
                    [(line.language, line.what, *line.cells) for line in lines(group, metric, unseen=unseen)],
                    left=2,
                )
        console.print(text("\nkept"))
        show(_KEPT, kept_lines(group), left=2)
        console.print(text(_LEGEND, style="dim"))
        for source in sources(group):
            console.print(text(f"published {source}"), soft_wrap=False)
        for remark in remarks(group):
            console.print(text(remark), soft_wrap=False)


def print_table(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> None:
    """Print rows below their headings, the first `left` columns on the left."""
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    def text(words: str) -> Text:
        return Text(printable(words, console.encoding))

    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(text(heading), justify="left" if number < left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(text, row))
    # where the terminal is too narrow, lines are longer, so that no number is cut
    widths = [max(map(cell_len, column)) for column in zip(headings, *rows, strict=True)]
    table.width = sum(widths) + len(widths) - 1
    console.print(table, soft_wrap=table.width > console.width)


def heading(group: Group) -> str:
    """Name and split of a data set."""
    split = group.runs[0].captions.split
    return f"{group.name} ({split})" if split else group.name


def metric_heading(group: Group, metric: str) -> str:
    """A metric with its backbone."""
    backbone = group.results(metric)[0][1].backbone
    return metric if "@" in metric else f"{metric} ({backbone})"


def headings(group: Group, unseen: bool, *, short: bool = False) -> list[str]:
    """Headings of the columns after the original mean."""
    kinds = [*group.kinds(unseen=unseen), "average"]
    return [SHORT.get(kind, kind) for kind in kinds] if short else kinds


def to_markdown(runs: Sequence[RobustnessRun]) -> str:
    """Tables, sources and remarks of all runs."""
    parts: list[str] = []
    for group in groups(runs):
        parts.append(f"## {heading(group)}\n")
        for metric in group.metrics:
            for unseen in (False, True):
                if not group.kinds(unseen=unseen):
                    continue
                never = ", kinds that PR-MCS does not train on" if unseen else ""
                parts.append(f"### {metric_heading(group, metric)}{never}\n")
                columns = ["language", "", "original", *headings(group, unseen)]
                rows = [
                    (line.language, line.what, *line.cells) for line in lines(group, metric, unseen=unseen)
                ]
                parts += markdown_table(columns, rows)
        parts.append("### Kept\n")
        parts += markdown_table(("language", *_KEPT[1:]), kept_lines(group))
        parts.append(f"{_LEGEND}\n")
        parts += [f"- published {source}" for source in sources(group)]
        parts += [
            f"- `{remark.strip()}`" if "|" in remark else f"- {remark.strip()}" for remark in remarks(group)
        ]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, the first two columns on the left, and a blank line."""
    rule = "|".join(["---"] * 2 + ["---:"] * (len(columns) - 2))
    body = [f"| {' | '.join(row)} |" for row in rows]
    return [f"| {' | '.join(columns)} |", f"|{rule}|", *body, ""]
