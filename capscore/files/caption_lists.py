"""Lists of captions in one cell become a row each; lists of tokens are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from ..errors import InputError
from ..options import RowOptions
from ..text.suspicious import are_tokens
from .columns import find_candidate_column, find_reference_columns, written_list
from .layouts import line_reader
from .row_source import CHUNK_ROWS, Row, RowSource, layout_error, read_dicts

# what a list of texts looks like that neither JSON nor Python wrote, as NumPy's ['a dog' 'a cat']
_BROKEN_LIST = re.compile(r"""\s*\[\s*(['"]).*\1\s*\]\s*""", re.S)


def check_no_tokens(source: RowSource, *columns: str) -> None:
    """Raise InputError if columns hold lists of tokens.

    They could be joined by blanks, or without, as their tokenizer took them apart: the file must say it.
    """
    for column in columns:
        if column not in source.lists:
            continue
        if are_tokens(_lists_in(source, column)):
            first = next(cell for cell in _lists_in(source, column) if cell)
            raise layout_error(
                source.path,
                f"{source.path}: the lists in {column!r} hold single words, such as {first!r:.60}, and are "
                "no lists of captions; join the tokens of a caption to one text",
            )


def _lists_in(source: RowSource, column: str) -> Iterator[object]:
    """Cells of a column, read as they are asked for; written lists as lists, other texts as None."""
    for chunk in source.chunks(CHUNK_ROWS, [column]):
        for cell in chunk.values(column):
            if source.cells_are_text:
                yield written_list(cell) if str(cell).lstrip().startswith("[") else None
            else:
                yield cell


def one_caption_per_row(source: RowSource, options: RowOptions = RowOptions()) -> RowSource:
    """Rows with one caption each, of rows with lists of captions; a cell of a table may be a written one."""
    column = find_candidate_column(source.columns, options.candidate_column)
    references: tuple[str, ...] = ()
    with suppress(InputError):
        references = find_reference_columns(source.columns, options.references_column)
    check_no_tokens(source, *filter(None, (column, *references)))
    if column not in source.lists:
        return source
    n_rows, n_lists = 0, 0
    faults: dict[int, InputError] = {}
    places: list[str] = []
    for number, (_, row) in enumerate(_numbered_rows(source)):
        captions = listed_captions(row.get(column), source.cells_are_text)
        if number in source.faults:
            faults[n_rows] = source.faults[number]
        elif captions is None and source.cells_are_text and _BROKEN_LIST.fullmatch(row.get(column) or ""):
            expected = 'expected a JSON list such as ["A cat.", "A small cat."], or one caption'
            problem = f"the cell holds {row[column]!r:.60}; {expected}"
            faults[n_rows] = InputError(problem, field="candidate")
        n_lists += captions is not None
        n_rows += len(captions or "1")
        if source.places:
            places += [source.places[number]] * len(captions or "1")
    if not n_lists:
        return replace(source, faults={**source.faults, **faults})

    def rows() -> Iterator[tuple[int | None, Row]]:
        for line, row in _numbered_rows(source):
            captions = listed_captions(row.get(column), source.cells_are_text)
            if captions is None:
                yield line, row
            for caption in captions or ():
                yield line, {**row, column: caption}

    note = f"{n_lists:,} lists of captions are read, a row per caption"
    return replace(
        source,
        n_rows=n_rows,
        read=read_dicts(rows),
        arrow_schema=None,
        notes=[*source.notes, note],
        faults=faults,
        places=places,
        lists=source.lists - {column},
    )


def in_layout(source: RowSource) -> RowSource:
    """Rows of a table whose rows are in a layout of lines, as its first one is; other rows as they are."""
    if source.arrow_schema is None and not source.cells_are_text:
        return source  # JSON, whose layouts are known where it is parsed
    rows_of = line_reader()
    (first,) = next(source.chunks(1)).dicts()
    if rows_of(first) is None:
        return source
    names: dict[str, None] = {}
    lists: set[str] = set()
    n_rows = 0
    for _, row in _numbered_rows(source):
        for part in rows_of(row) or [row]:
            n_rows += 1
            names.update(dict.fromkeys(part))
            lists.update(name for name, cell in part.items() if isinstance(cell, list))

    def rows() -> Iterator[tuple[int | None, Row]]:
        for line, row in _numbered_rows(source):
            yield from ((line, part) for part in rows_of(row) or [row])

    return replace(
        source,
        columns=[*names],
        n_rows=n_rows,
        read=read_dicts(rows),
        arrow_schema=None,
        lists=source.lists | lists,
    )


def _numbered_rows(source: RowSource) -> Iterator[tuple[int | None, Row]]:
    """Line, or None, and cells of every row."""
    for chunk in source.chunks(CHUNK_ROWS):
        lines: Sequence[int | None] = chunk.lines or [None] * len(chunk)
        yield from zip(lines, chunk.dicts(), strict=True)


def listed_captions(cell: object, cells_are_text: bool) -> list[str] | None:
    """The captions of a cell that holds a list of them; None for another cell, which stays as it is."""
    if cells_are_text and isinstance(cell, str) and cell.lstrip().startswith("["):
        cell = written_list(cell)
    if isinstance(cell, list) and cell and all(isinstance(text, str | None) for text in cell):
        return cell
    return None
