"""Rows of a file in chunks that know the line of every row: made by readers, taken by writers and scorers."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, Setting
from .cells import column_values, table_rows

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_ROWS = 1024  # rows that commands take at a time
CHUNK_BYTES = 32 * 2**20  # Arrow data in memory at a time: rows that hold photos come in smaller chunks
STREAM_COPIES: dict[Path, Path] = {}  # pipe, or - for standard input → the file that it was copied to
ERROR_COLUMN = "capscore_error"  # column of a result that says what was wrong with a row


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows.

    Attributes:
        start: Number of the first row, counted from 0.
        lines: Line of the file on which each row begins, counted from 1; None where a file has no lines.
        rows: The rows as dicts, or None if they are in `table`.
        table: The rows as an Arrow table, or None if they are in `rows`.
    """

    start: int
    lines: list[int] | None
    rows: list[dict[str, Any]] | None = None
    table: Any = None

    def __len__(self) -> int:
        return self.table.num_rows if self.rows is None else len(self.rows)

    def values(self, column: str) -> list[Any]:
        """A column as Python values; None where a row lacks it."""
        if self.rows is None:
            return column_values(self.table.column(column), readable=False)
        return [row.get(column) for row in self.rows]

    def dicts(self) -> list[dict[str, Any]]:
        """The rows as dicts; values that Python cannot represent are text."""
        return table_rows(self.table) if self.rows is None else self.rows

    def part(self, start: int, stop: int) -> Chunk:
        """The rows from `start` to before `stop`, counted from the chunk's first."""
        return Chunk(
            self.start + start,
            None if self.lines is None else self.lines[start:stop],
            None if self.rows is None else self.rows[start:stop],
            None if self.rows is not None else self.table.slice(start, stop - start),
        )

    def arrow(self, schema: pa.Schema) -> pa.Table:
        """The rows as a table of a schema that has the columns of `RowSource.schema`."""
        import pyarrow as pa

        if self.table is not None:
            return self.table
        arrays = [pa.array(self.values(field.name), field.type, from_pandas=True) for field in schema]
        return pa.Table.from_arrays(arrays, schema=schema)


class RowSource(ABC):
    """Rows of a file.

    Attributes:
        path: Path of the file.
        columns: Names of the columns, in the order in which they first appear.
        n_rows: Number of rows, at least 1.
        cells_are_text: Whether every value is text, as in CSV.
        notes: Sentences about the whole that somebody who scores the rows should know.
    """

    path: Path
    columns: list[str]
    n_rows: int
    cells_are_text: bool = False
    notes: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Folder that relative names of images start from."""
        return Path() if self.path in STREAM_COPIES else self.path.parent

    @abstractmethod
    def chunks(self, size: int, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        """The rows in order, at most `size` at a time.

        Args:
            size: Largest number of rows of a chunk.
            columns: Columns that are needed; others may be missing from the chunks. None for all.
        """

    def span(self, size: int, start: int, stop: int) -> Iterator[Chunk]:
        """The rows from `start` to before `stop`, in order, at most `size` at a time."""
        for chunk in self.chunks(size):
            if chunk.start >= stop:
                return
            first, last = max(0, start - chunk.start), min(len(chunk), stop - chunk.start)
            if first < last:
                yield chunk.part(first, last)

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Arrow types of the columns.

        Raises:
            InputError: A column has values of several types.
        """

    def problems(self, chunk: Chunk) -> dict[int, InputError]:
        """What is known to be wrong with rows of a chunk, whatever is read of them."""
        return {}

    def short_place(self, row: int, line: int | None) -> str:
        """How lists of rows of this source name a row, counted from 0, on a line of the file."""
        return f"row {row} counted from 0" if line is None else f"line {line}"

    def place(self, chunk: Chunk, row: int) -> str:
        """How messages name a row of a chunk."""
        number = f"row {chunk.start + row} counted from 0"
        if chunk.lines is None:
            return f"{self.path}, {number}"
        return f"{self.path}, line {chunk.lines[row]} ({number})"

    def at(self, error: InputError, chunk: Chunk, row: int) -> InputError:
        """An error of a row, with the row's place before the message."""
        field = "" if error.field is None else f"{error.field}: "
        return type(error)(f"{self.place(chunk, row)}: {field}", *error.parts)


class ArrowSource(RowSource):
    """Rows that are Arrow tables already.

    Raises:
        InputError: There are no rows, or two columns have one name.
    """

    def __init__(self, path: Path, schema: pa.Schema, n_rows: int, n_bytes: float):
        self.path, self._schema, self.n_rows = path, schema, n_rows
        self._row_bytes = n_bytes / max(n_rows, 1)
        if not n_rows:
            raise InputError(f"{path} has no rows")
        self.columns = list(schema.names)
        check_names_differ(path, self.columns)

    def schema(self) -> pa.Schema:
        return self._schema

    def chunks(self, size: int, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        return self._chunks(size, columns, 0, self.n_rows)

    def span(self, size: int, start: int, stop: int) -> Iterator[Chunk]:
        return self._chunks(size, None, start, stop)

    def _chunks(self, size: int, columns: Sequence[str] | None, start: int, stop: int) -> Iterator[Chunk]:
        size = max(1, min(size, int(CHUNK_BYTES / max(self._row_bytes, 1))))
        for table in self._tables(size, columns, start, stop):
            yield Chunk(start, None, table=table)
            start += table.num_rows

    @abstractmethod
    def _tables(
        self, size: int, columns: Sequence[str] | None, start: int, stop: int
    ) -> Iterator[pa.Table]: ...


def inferred_schema(source: RowSource) -> pa.Schema:
    """Arrow types of columns whose values are Python objects, by reading all of them.

    Raises:
        InputError: A column has values that no Arrow column can hold together.
    """
    import pyarrow as pa

    found = {name: pa.null() for name in source.columns}
    for chunk in source.chunks(4096):
        for name in source.columns:
            try:
                seen = pa.array(chunk.values(name), from_pandas=True).type
                both = [pa.schema([("x", found[name])]), pa.schema([("x", seen)])]
                found[name] = pa.unify_schemas(both, promote_options="permissive").field("x").type
            except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
                raise InputError(
                    Setting("path", source.path),
                    f": the column {name!r:.60} {_why_not_arrow(error)}; write a .jsonl file instead",
                ) from None
    return pa.schema(list(found.items()))


def _why_not_arrow(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "holds a lone surrogate (half a character), which no column of Parquet or of a data set can"
    if isinstance(error, OverflowError):
        return "holds whole numbers of more than 64 bits, which no column of Parquet or of a data set can"
    return f"holds values of several types, and a column of Parquet or of a data set has one type ({error})"


def check_names_differ(path: Path, columns: Sequence[str]) -> None:
    """Raise InputError if two columns have the same name."""
    twice = sorted(name for name, count in Counter(columns).items() if count > 1)
    if twice:
        raise InputError(Setting("path", path), f": two columns have the name {twice[0]!r:.60}")


def check_names_are_free(source: RowSource, columns: Sequence[str]) -> None:
    """Raise InputError if the input has a column whose name the result needs for a new one."""
    taken = [name for name in columns if name in source.columns]
    if taken:
        raise InputError(
            Setting("path", source.path),
            f": the result needs the column name {taken[0]!r}, which the input already uses; rename or drop "
            "that column",
        )


def extended_schema(
    schema: pa.Schema, types: Mapping[str, pa.DataType], like: Mapping[str, str] | None = None
) -> pa.Schema:
    """A schema with new columns at its end, in Arrow's fields and in the features that `datasets` notes.

    Args:
        schema: Schema to extend.
        types: Type of each new column.
        like: Existing columns whose features new columns copy.
    """
    import pyarrow as pa

    for name, kind in types.items():
        schema = schema.append(pa.field(name, kind))
    metadata = dict(schema.metadata or {})
    try:
        noted = json.loads(metadata.get(b"huggingface", "{}"))
        features = noted["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):  # none, or not those of `datasets`
        features = None
    if isinstance(features, dict):
        for name, kind in types.items():
            dtype = str(kind).replace("double", "float64")
            features[name] = {"dtype": dtype, "_type": "Value"}
            if dtype.startswith("list<"):
                of = {"dtype": str(kind.value_type), "_type": "Value"}
                features[name] = {"feature": of, "_type": "Sequence"}  # every version of datasets knows it
            if like and name in like:
                features[name] = features[like[name]]
        metadata[b"huggingface"] = json.dumps(noted).encode()
    return schema.with_metadata(metadata or None)


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
