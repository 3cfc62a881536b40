"""Tables of results: one type for every command, printed in a terminal or written as Markdown or HTML."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

from .errors import address_name, visible
from .files.columns import is_missing
from .files.console import make_console

if TYPE_CHECKING:
    from rich.console import Console

MAX_TEXT_WIDTH = 28
"""Characters of a column of text in a terminal; longer texts are folded."""
MIN_WIDE_WIDTH, MIN_NAME_WIDTH = 20, 12
_MAX_HEADING_WIDTH = 12
_MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in "|*<"})
_GAP = 2  # characters between two columns
_IN_ASCII: dict[str, str | int | None] = dict(
    zip("τρΔ−·†…", ("tau", "rho", "diff", "-", "-", "^", "~"), strict=True)
)


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
    if value is not None and round(value, decimals) > 0:
        return f"+{text}"
    return text


def percent(share: float | None) -> float | None:
    """A share times 100; None for None."""
    return None if share is None else 100 * share


def counted(n: int, what: str, plural: str | None = None) -> str:
    return f"{n:,} {what if n == 1 else plural or what + 's'}"


def level_text(confidence: float) -> str:
    return f"{100 * confidence:.10g}%"


def printable(text: str, encoding: str) -> str:
    """A text for a terminal: no control characters, and Greek letters by name where it has none."""
    text = _without_controls(text)
    try:
        "".join(_IN_ASCII).encode(encoding)
    except UnicodeEncodeError:
        return text.translate(str.maketrans(_IN_ASCII))
    return text


def _without_controls(text: str) -> str:
    return text if text.replace("\n", "").isprintable() else visible(text, keep="\n")


def photo_name(value: object) -> str:
    """How a cell that names a photo is shown: without its folder, and without secrets of an address."""
    return os.path.basename(image_name(value))


def image_name(value: object) -> str:
    """A cell that names a photo, without secrets of an address; "" for a photo in the cell itself."""
    if isinstance(value, dict):  # as data sets hold images
        value = value.get("path")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, (str, os.PathLike)) or str(value)[:5].lower() == "data:":
        return ""
    return address_name(os.fspath(value))


def shown_caption(value: object) -> str:
    """How a cell of captions is shown, "" if it is empty; of a photo that is a candidate, its name."""
    if isinstance(value, (dict, bytes)):
        return photo_name(value)
    return "" if is_missing(value) else str(value)


def shortened(text: str, width: int) -> str:
    """A text in at most so many cells of a terminal, with … in place of its middle.

    >>> shortened("COCO_val2014_000000000042.jpg", 20)
    'COCO_v…000000042.jpg'
    """
    from rich.cells import cell_len

    if cell_len(text) <= width:
        return text
    head, tail = text, text
    while cell_len(tail) > (width - 1) * 2 // 3 + 1:
        tail = tail[1:]
    while head and cell_len(head) + cell_len(tail) + 1 > width:
        head = head[:-1]
    return f"{head}…{tail}"


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
        names: Columns at the left whose cells stay on one line, shortened where they find no room.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    left: int = 1
    bold: frozenset[tuple[int, int]] = frozenset()
    short: Sequence[str] = ()
    wide: int | None = None
    names: Sequence[int] = ()

    @property
    def columns(self) -> list[int]:
        """Columns in which a row has a value; the others are not shown."""
        used = [column for column, cells in enumerate(zip(*self.rows, strict=True)) if {*cells} - {"", "–"}]
        return used or list(range(len(self.headings)))

    def print(self, console: Console) -> None:
        """Print the table, in several blocks where the terminal is too narrow. No number is cut."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        def text(words: str, style: str = "") -> Text:
            return Text(printable(words, console.encoding), style=style)

        shows_bold = console.is_terminal and not console.no_color
        if self.title:
            console.print(text(f"\n{self.title}"))
        for block in self._blocks(console.width):
            drawn = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
            widths = self._fitted(block, console.width)
            for column, width in widths.items():
                heading = text((self.short or self.headings)[column])
                drawn.add_column(heading, overflow="fold", min_width=width, max_width=width)
                if column >= self.left:
                    drawn.columns[-1].justify = "right"
            for index, row in enumerate(self.rows):
                cells = []
                for column in block:
                    if column in self.names:
                        cells.append(text(shortened(row[column], widths[column])))
                    elif (index, column) not in self.bold:
                        cells.append(text(row[column]))
                    elif shows_bold:
                        cells.append(text(row[column], "bold"))
                    else:
                        cells.append(text(f"*{row[column]}"))
                drawn.add_row(*cells)
            needed = _together(widths.values())
            if needed > console.width:
                drawn.width = needed
            console.print(drawn, soft_wrap=needed > console.width)

    def _blocks(self, width: int) -> Iterator[list[int]]:
        first = [column for column in self.columns if column < self.left]
        block: list[int] = []
        for column in self.columns[len(first) :]:
            widths = [self._least(item, width) for item in (*first, *block, column)]
            if block and _together(widths) > width:
                yield [*first, *block]
                block = []
            block.append(column)
        yield [*first, *block]

    def _least(self, column: int, available: int) -> int:
        width = self._width(column, available)
        if column in self.names:
            return min(width, MIN_NAME_WIDTH)
        return min(width, MIN_WIDE_WIDTH) if column == self.wide else width

    def _fitted(self, block: Sequence[int], available: int) -> dict[int, int]:
        """Column → its width: the wide column gives way first, then names, then both down to their least."""
        widths = {column: self._width(column, available) for column in block}
        names = [column for column in self.names if column in widths]
        wide = [column for column in block if column == self.wide]
        steps = [(column, 2 * MIN_WIDE_WIDTH) for column in wide]
        steps += [(column, MAX_TEXT_WIDTH) for column in names]
        steps += [(column, self._least(column, available)) for column in (*wide, *names)]
        for column, least in steps:
            excess = _together(widths.values()) - available
            widths[column] -= max(0, min(excess, widths[column] - least))
        return widths

    def _width(self, column: int, available: int) -> int:
        """Characters of the longest line of its cells, or of its heading, folded between words.

        Those of `names` and of the wide column are what they need alone. Other texts at the left are folded
        to `MAX_TEXT_WIDTH`; where there is one column of them, a name is broken only if it needs over half of
        the available width.
        """
        from rich.cells import cell_len

        text = _without_controls("\n".join(row[column] for row in self.rows))
        cells = max(map(cell_len, text.split("\n"))) + any(at == column for _, at in self.bold)
        heading = (self.short or self.headings)[column]
        if column == self.wide or column in self.names:
            return max(cells, cell_len(heading))
        if column < self.left:
            most = MAX_TEXT_WIDTH
            if self.left == 1:
                most = max([most, *(n for n in map(cell_len, text.split()) if n <= available // 2)])
            return min(max(cells, cell_len(heading)), most)
        word = max(map(cell_len, heading.split()), default=0)
        return max(cells, word, min(cell_len(heading), _MAX_HEADING_WIDTH))

    def markdown(self) -> str:
        """The table in Markdown, with its title as a heading."""
        columns, lines = self.columns, []
        if self.title:
            lines.append(f"### {self.title}\n")
        rules = ["---"] * self.left + ["---:"] * len(self.headings)
        lines.append(f"| {' | '.join(_escaped(self.headings[column]) for column in columns)} |")
        lines.append(f"|{'|'.join(rules[column] for column in columns)}|")
        for index, row in enumerate(self.rows):
            cells = []
            for column in columns:
                cell = _escaped(row[column])
                if (index, column) in self.bold:
                    cell = f"**{cell}**"
                cells.append(cell)
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"


def _escaped(cell: str) -> str:
    return " ".join(cell.split()).translate(_MARKDOWN)


@dataclass(frozen=True)
class Report:
    """What a command prints: a title, then tables and remarks in their order.

    Attributes:
        title: Heading; "" for none.
        parts: Tables, sentences, and reports with titles of their own.
        unbroken: Whether a sentence is one line in a file and a pipe, and a signature in a terminal, too.

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
        from rich.console import Console

        written = StringIO()
        self.print(Console(file=written, width=100, color_system=None, emoji=False))
        return "\n".join(line.rstrip() for line in written.getvalue().splitlines())

    def print(self, console: Console) -> None:
        from rich.text import Text

        if self.title:
            console.print(Text(printable(f"\n{self.title}", console.encoding), style="bold"))
        before: Table | str | Report | None = None
        for part in self.parts:
            has_title = not isinstance(part, str) and part.title
            if before is not None and not has_title and isinstance(before, Table) | isinstance(part, Table):
                console.print()
            before = part
            if isinstance(part, (Table, Report)):
                part.print(console)
            else:
                is_whole = self.unbroken and not (console.is_terminal and " " in part)
                console.print(Text(printable(part, console.encoding)), soft_wrap=is_whole)

    def markdown(self) -> str:
        """Everything in Markdown: remarks are items of a list, signatures code."""
        lines = [f"## {self.title}\n"] if self.title else []
        for part in self.parts:
            if isinstance(part, (Table, Report)):
                lines.append(part.markdown())
            elif "|" in part:
                lines.append(f"- `{part.strip()}`")
            else:
                lines.append(f"- {part.strip()}")
        return "\n".join(lines) + "\n"


class Result:
    """What a function of the library gives: it prints itself, and is ready for JSON."""

    def report(self) -> Report:
        """Tables and remarks for people."""
        raise NotImplementedError

    def to_dict(self) -> Mapping[str, object]:
        """Everything, ready for JSON."""
        raise NotImplementedError

    def __str__(self) -> str:
        return str(self.report())

    def print(self) -> None:
        """Print `report` on standard output, within the width of the terminal."""
        self.report().print(make_console())

    def markdown(self) -> str:
        return self.report().markdown()


def _together(widths: Collection[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)
