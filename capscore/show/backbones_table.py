"""Backbones side by side → one table for a terminal of any width, or Markdown.

Where the terminal is too narrow for all columns, the table goes on in further blocks with the same rows. All
numbers of data sets are multiplied by 100, as papers print them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..benchmarks.backbones import BackboneFacts, BackboneTable, TableRow
from ..benchmarks.tasks import Statistic
from .benchmark_table import confidence_text, printable, statistic_name

if TYPE_CHECKING:
    from rich.console import Console

_NAME_WIDTH = 28
_BETWEEN = 3  # characters between two columns
_NONE = "–"


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
        heading: Lines of its heading.
        cells: One text per row, in lines.
        best: Rows whose cell is the best of the column.
        joined: Whether it stays in one block with the column before it.
    """

    heading: tuple[str, ...]
    cells: tuple[str, ...]
    best: tuple[bool, ...] = ()
    joined: bool = False

    @property
    def width(self) -> int:
        """Characters of its longest line."""
        lines = [*self.heading, *(line for cell in self.cells for line in cell.split("\n"))]
        return max(map(len, lines), default=0)


def size_text(parameters: int) -> str:
    """A number of weights in words.

    >>> [size_text(n) for n in (0, 78_731_987, 986_109_441, 1_193_014_785)]
    ['–', '78.7M', '986M', '1.19B']
    """
    if not parameters:
        return _NONE
    for unit, letter in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if parameters >= unit:
            number = parameters / unit
            return f"{number:.{max(0, 3 - len(str(int(number))))}f}{letter}"
    return str(parameters)


def rate_text(per_second: float | None) -> str:
    """A speed with three digits.

    >>> [rate_text(rate) for rate in (None, 0.0312, 7.25, 1234.5)]
    ['–', '0.031', '7.2', '1,234']
    """
    if per_second is None:
        return _NONE
    if per_second >= 100:
        return f"{per_second:,.0f}"
    return f"{per_second:.1f}" if per_second >= 1 else f"{per_second:.2g}"


def row_names(table: BackboneTable) -> list[str]:
    """Names of the rows: the backbone, after the metric if there are several."""
    rows = table.rows()
    metrics = {row.label.partition("@")[0] for row in rows}
    return [
        row.facts.name if row.facts is not None and len(metrics) == 1 else _spaced(row.label) for row in rows
    ]


def columns(table: BackboneTable, rows: Sequence[TableRow]) -> list[Column]:
    """The columns after the names: data sets, then facts about the backbones."""
    found = [
        Column(
            heading=(*name.split(" · "), statistic_name(statistic)),
            cells=tuple(_cell(row.cells[place]) for row in rows),
            best=tuple(row.best[place] for row in rows),
        )
        for place, (name, statistic) in enumerate(table.columns)
    ]
    facts = [row.facts or BackboneFacts("") for row in rows]
    return [
        *found,
        Column(("parameters",), tuple(size_text(one.parameters) for one in facts)),
        Column(("captions/s",), tuple(rate_text(one.texts_per_second) for one in facts), joined=True),
        Column(("photos/s",), tuple(rate_text(one.images_per_second) for one in facts), joined=True),
        Column(("licence",), tuple(one.licence or _NONE for one in facts), joined=True),
    ]


def blocks(found: Sequence[Column], width: int) -> list[list[Column]]:
    """Columns that fit beside the names in a width, in order; each block has at least one."""
    groups: list[list[Column]] = []
    for column in found:
        if column.joined and groups:
            groups[-1].append(column)
        else:
            groups.append([column])
    parts: list[list[Column]] = []
    room = 0
    for group in groups:
        needed = sum(column.width + _BETWEEN for column in group)
        if not parts or needed > room:
            parts.append([])
            room = width - _NAME_WIDTH
        parts[-1].extend(group)
        room -= needed
    return parts


def _cell(statistic: Statistic | None) -> str:
    if statistic is None or statistic.value is None:
        return _NONE if statistic is None else "undefined"
    value = f"{100 * statistic.value:.2f}"
    if statistic.interval is not None:
        value += "\n{:.1f} to {:.1f}".format(*(100 * end for end in statistic.interval))
    return value.replace("-", "−")


def _spaced(label: str) -> str:
    metric, at, backbone = label.partition("@")
    return f"{metric} · {backbone}" if at else label


def remarks(table: BackboneTable) -> Iterator[str]:
    """The text below the table: intervals, speed, what was not measured, and signatures."""
    if table.runs:
        options = table.runs[0].options
        ends = f" Below them: {confidence_text(table.runs[0])} intervals." if options.bootstrap else ""
        yield f"Numbers of data sets are times 100; the best of each column is bold.{ends}"
        devices = sorted({facts.device for facts in table.backbones if facts.device})
        yield f"Speed is that of encoding (on {', '.join(devices)}), {_NONE} where the cache had everything."
    if table.n_kept:
        yield f"{table.n_kept:,} results were kept by an earlier run."
    for row in table.rows():
        for data, why in row.missing.items():
            yield f"{_spaced(row.label)} on {data}: not run. {why}"
    for title, reasons in (("not run", table.skipped), ("damaged", table.damaged)):
        for data, why in reasons.items():
            yield f"{data}: {title}. {why}"
    seen = set()
    for run in table.runs:
        for result in run.results:
            if result.signature not in seen:
                seen.add(result.signature)
                yield f"{run.name}: {result.signature}"


def print_backbones(table: BackboneTable, console: Console) -> None:
    """Print the table and its remarks."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    def text(words: str, style: str = "") -> Text:
        return Text(printable(words, console.encoding), style=style)

    def start(name: str, width: int) -> Table:
        drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
        drawn.add_column(name, overflow="fold", min_width=min(width, _NAME_WIDTH), max_width=_NAME_WIDTH)
        return drawn

    rows, names = table.rows(), row_names(table)
    # without styles, bold cannot be seen
    mark = "" if console.is_terminal and not console.no_color else "*"
    for part in blocks(columns(table, rows), console.width) if rows else []:
        drawn = start("backbone", max(map(len, names)))
        for column in part:
            drawn.add_column(text("\n".join(column.heading)), justify="right", no_wrap=True)
        for place, name in enumerate(names):
            cells = []
            for column in part:
                best = bool(column.best) and column.best[place]
                value, line, rest = column.cells[place].partition("\n")
                cells.append(
                    text(f"{mark if best else ''}{value}", "bold" if best else "") + text(line + rest)
                )
            drawn.add_row(text(name), *cells)
        least = sum(column.width + _BETWEEN for column in part) + min(_NAME_WIDTH, max(map(len, names)))
        if least > console.width:
            drawn.width = least
        console.print()
        console.print(drawn, soft_wrap=least > console.width)
    failed = [facts for facts in table.backbones if facts.failed]
    if failed:
        drawn = start("backbone", max(len(facts.name) for facts in failed))
        drawn.add_column("not measured, because", overflow="fold")
        for facts in failed:
            drawn.add_row(text(facts.name), text(facts.failed))
        console.print()
        console.print(drawn)
    console.print()
    for remark in remarks(table):
        words = remark.replace("is bold.", "is bold, or has *.") if mark else remark
        console.print(text(words), soft_wrap=False)


def backbones_markdown(table: BackboneTable) -> str:
    """The table and its remarks, with failed backbones as rows."""
    rows, names = table.rows(), row_names(table)
    found = columns(table, rows)
    failed = [facts for facts in table.backbones if facts.failed]
    parts = ["## Backbones side by side", ""]
    heads = [" · ".join(column.heading) for column in found]
    if failed:
        heads.append("not measured, because")
    parts.append(f"| backbone | {' | '.join(heads)} |")
    parts.append(f"|---{'|---:' * len(found)}|{'---|' if failed else ''}")
    for place, name in enumerate(names):
        cells = [_in_markdown(column, place) for column in found]
        parts.append(f"| {' | '.join([name, *cells, *([''] if failed else [])])} |")
    for facts in failed:
        blank = [_NONE] * len(table.columns)
        known = [size_text(facts.parameters), _NONE, _NONE, facts.licence or _NONE]
        why = facts.failed.replace("|", "\\|")
        parts.append(f"| {' | '.join([facts.name, *blank, *known, why])} |")
    parts.append("")
    parts += [f"- `{remark}`" if "|" in remark else f"- {remark}" for remark in remarks(table)]
    return "\n".join(parts) + "\n"


def _in_markdown(column: Column, place: int) -> str:
    value, _, interval = column.cells[place].partition("\n")
    shown = f"**{value}**" if column.best and column.best[place] else value
    return f"{shown} ({interval})" if interval else shown
