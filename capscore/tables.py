"""Tables of results: one type for every command, printed in a terminal or written as Markdown or HTML.

In: headings, cells of text, and remarks. Out: lines of a terminal, Markdown, or columns for a template.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import address_name, visible
from .files.columns import is_missing

if TYPE_CHECKING:
    from rich.console import Console

MAX_TEXT_WIDTH = 28
"""Characters of a column of text in a terminal; longer texts are folded."""
_MAX_HEADING_WIDTH = 12
_GAP = 2  # characters between two columns
_IN_ASCII: dict[str, str | int | None] = {"τ": "tau", "ρ": "rho", "Δ": "diff", "−": "-", "·": "-"}


def fixed(value: float | None, decimals: int = 4, missing: str = "–") -> str:
    """A number with so many decimals.

    >>> fixed(-0.25, 2), fixed(-0.001, 2), fixed(None)
    ('−0.25', '0.00', '–')
    """
    if value is None or value != value:
        return missing
    return f"{round(value, decimals) + 0.0:.{decimals}f}".replace("-", "−")


def signed(value: float | None, decimals: int = 4, missing: str = "–") -> str:
    """A difference with its sign; 0 has none."""
    text = fixed(value, decimals, missing)
    is_more = value is not None and round(value, decimals) > 0
    return f"+{text}" if is_more else text


def percent(share: float | None) -> float | None:
    """A share times 100; None for None.

    >>> fixed(percent(0.125), 1), signed(percent(None), 1)
    ('12.5', '–')
    """
    return None if share is None else 100 * share


def level_text(confidence: float) -> str:
    """A confidence level, such as 99.9%."""
    return f"{100 * confidence:.10g}%"


def printable(text: str, encoding: str) -> str:
    """A text for a terminal: no control characters, and Greek letters by name where it has none."""
    text = visible(text, keep="\n")
    try:
        "".join(_IN_ASCII).encode(encoding)
    except UnicodeEncodeError:
        return text.translate(str.maketrans(_IN_ASCII))
    return text


def photo_name(value: Any) -> str:
    """How a cell that names a photo is shown: without its folder, and without secrets of an address."""
    if isinstance(value, dict):  # as data sets hold images
        value = value.get("path")
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        return "" if text[:5].lower() == "data:" else os.path.basename(address_name(text))
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def shown_caption(value: Any) -> str:
    """How a cell of captions is shown, "" if it is empty; of a photo that is a candidate, its name."""
    if isinstance(value, (dict, bytes)):
        return photo_name(value)
    return "" if is_missing(value) else str(value)


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        headings: Headings of the columns.
        rows: Cells of each row.
        title: Line above the table; "" for none.
        left: Number of columns of text at the left; where a terminal is too narrow for all columns, the rest
            goes on in further blocks that begin with these.
        bold: (row, column) of cells that stand out.
        short: Headings for a terminal; () for the same.
        wide: Column of text that takes the width that the others leave in a terminal; None for none.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    left: int = 1
    bold: frozenset[tuple[int, int]] = frozenset()
    short: Sequence[str] = ()
    wide: int | None = None

    @property
    def columns(self) -> list[int]:
        """Columns that have a cell; empty ones are not shown."""
        every = range(len(self.headings))
        return [column for column in every if any(row[column] for row in self.rows)] or list(every)

    def print(self, console: Console) -> None:
        """Print the table, in several blocks where the terminal is too narrow. No number is cut."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        def text(words: str, style: str = "") -> Text:
            return Text(printable(words, console.encoding), style=style)

        styled = console.is_terminal and not console.no_color
        if self.title:
            console.print(text(f"\n{self.title}"))
        for block in self._blocks(console.width):
            drawn = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
            for column in block:
                width = self._width(column, console.width)
                drawn.add_column(
                    text((self.short or self.headings)[column]),
                    justify="left" if column < self.left else "right",
                    overflow="fold",
                    min_width=width,
                    max_width=width,
                )
            for index, row in enumerate(self.rows):
                cells = []
                for column in block:
                    is_bold = (index, column) in self.bold
                    mark = "*" if is_bold and not styled else ""
                    cells.append(text(f"{mark}{row[column]}", "bold" if is_bold else ""))
                drawn.add_row(*cells)
            needed = sum(self._width(column, console.width) + _GAP for column in block) - _GAP
            if needed > console.width:
                drawn.width = needed
            console.print(drawn, soft_wrap=needed > console.width)

    def _blocks(self, width: int) -> Iterator[list[int]]:
        first = [column for column in self.columns if column < self.left]
        block: list[int] = []
        for column in self.columns[len(first) :]:
            together = [*first, *block, column]
            if block and sum(self._width(item, width) + _GAP for item in together) - _GAP > width:
                yield [*first, *block]
                block = []
            block.append(column)
        yield [*first, *block]

    def _width(self, column: int, available: int) -> int:
        """Characters of the longest line of its cells, or of its heading, folded between words.

        Texts at the left are folded to `MAX_TEXT_WIDTH`; where there is one column of them, a name is
        broken only if it needs over half of the available width.
        """
        from rich.cells import cell_len

        lines = "\n".join(visible(row[column], keep="\n") for row in self.rows).split("\n")
        cells = max(map(cell_len, lines), default=1) + any(at == column for _, at in self.bold)
        heading = (self.short or self.headings)[column]
        if column == self.wide:
            others = (self._width(item, available) + _GAP for item in self.columns if item != column)
            return min(max(cells, cell_len(heading)), max(MAX_TEXT_WIDTH, available - sum(others)))
        if column < self.left:
            words = [cell_len(word) for line in lines for word in line.split() if self.left == 1]
            longest = max((word for word in words if word <= available // 2), default=0)
            return min(max(cells, cell_len(heading)), max(MAX_TEXT_WIDTH, longest))
        word = max(map(cell_len, heading.split()), default=0)
        return max(cells, word, min(cell_len(heading), _MAX_HEADING_WIDTH))

    def markdown(self) -> str:
        """The table in Markdown, with its title as a heading."""
        columns = self.columns
        lines = [f"### {self.title}\n"] if self.title else []
        lines.append(f"| {' | '.join(_escaped(self.headings[column]) for column in columns)} |")
        lines.append(f"|{'|'.join('---' if column < self.left else '---:' for column in columns)}|")
        for index, row in enumerate(self.rows):
            cells = [_escaped(row[column]) for column in columns]
            marked = [
                f"**{cell}**" if (index, column) in self.bold else cell
                for column, cell in zip(columns, cells, strict=True)
            ]
            lines.append(f"| {' | '.join(marked)} |")
        return "\n".join(lines) + "\n"


def _escaped(cell: str) -> str:
    return " ".join(cell.split()).replace("|", "\\|").replace("*", "\\*")


@dataclass(frozen=True)
class Report:
    """What a command prints: a title, then tables and remarks in their order.

    Attributes:
        title: Heading; "" for none.
        parts: Tables, sentences, and reports with titles of their own.
        unbroken: Whether a sentence is one line in a terminal, whatever its width.

    >>> print(Report("Lengths", [Table(("caption", "words"), [("a dog", "2")]), "Counted by hand."]))
    <BLANKLINE>
    Lengths
    caption  words
    ──────────────
    a dog        2
    Counted by hand.
    """

    title: str
    parts: Sequence[Table | str | Report]
    unbroken: bool = False

    def __str__(self) -> str:
        """What `print` shows on a console of 100 columns."""
        from io import StringIO

        from rich.console import Console

        written = StringIO()
        self.print(Console(file=written, width=100, color_system=None, highlight=False, emoji=False))
        return "\n".join(line.rstrip() for line in written.getvalue().splitlines())

    def print(self, console: Console) -> None:
        """Print everything within the width of the console."""
        from rich.text import Text

        if self.title:
            console.print(Text(printable(f"\n{self.title}", console.encoding), style="bold"))
        for part in self.parts:
            if isinstance(part, (Table, Report)):
                part.print(console)
            else:
                console.print(Text(printable(part, console.encoding)), soft_wrap=self.unbroken)

    def markdown(self) -> str:
        """Everything in Markdown: remarks are items of a list, signatures code."""
        lines = [f"## {self.title}\n"] if self.title else []
        for part in self.parts:
            if isinstance(part, (Table, Report)):
                lines.append(part.markdown())
            else:
                lines.append(f"- `{part.strip()}`" if "|" in part else f"- {part.strip()}")
        return "\n".join(lines) + "\n"
