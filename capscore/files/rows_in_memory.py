"""Rows that are put together from several places, such as photos and texts beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .row_source import Chunk, RowSource, inferred_schema

if TYPE_CHECKING:
    import pyarrow as pa


class RowsInMemory(RowSource):
    """Rows with a place each, which messages name.

    Args:
        path: Folder that the rows are from, and that names of images start from.
        rows: Cells of each row; all rows have the same keys.
        places: Place of each row, such as "photos/dog.txt, line 2".
        problems: Row → what is wrong with it, for rows that are known to be wrong.
        notes: Sentences that somebody who scores the rows should know.
    """

    def __init__(
        self,
        path: Path,
        rows: Sequence[dict[str, Any]],
        places: Sequence[str],
        problems: Mapping[int, InputError] | None = None,
        notes: Sequence[str] = (),
    ):
        self.path, self.notes = path, tuple(notes)
        self._kept, self._places, self._problems = rows, places, problems or {}
        self.n_rows, self.columns = len(rows), list(rows[0])

    @property
    def folder(self) -> Path:
        return self.path

    def chunks(self, size: int, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        return self.span(size, 0, self.n_rows)

    def span(self, size: int, start: int, stop: int) -> Iterator[Chunk]:
        for first in range(start, stop, size):
            yield Chunk(first, None, [*self._kept[first : min(first + size, stop)]])

    def schema(self) -> pa.Schema:
        return inferred_schema(self)

    def problems(self, chunk: Chunk) -> dict[int, InputError]:
        numbers = range(chunk.start, chunk.start + len(chunk))
        return {
            number - chunk.start: self._problems[number] for number in numbers if number in self._problems
        }

    def short_place(self, row: int, line: int | None) -> str:
        return self._places[row]

    def place(self, chunk: Chunk, row: int) -> str:
        return self._places[chunk.start + row]
