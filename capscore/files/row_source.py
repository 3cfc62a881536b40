"""Rows of a file in chunks that know the line of every row: made by readers, taken by writers and scorers."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, Setting

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
            return _python_values(self.table.column(column), readable=False)
        return [row.get(column) for row in self.rows]

    def dicts(self) -> list[dict[str, Any]]:
        """The rows as dicts; values that Python cannot represent are text."""
        if self.rows is not None:
            return self.rows
        names = self.table.column_names
        columns = [_python_values(column, readable=True) for column in self.table.columns]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def arrow(self, schema: pa.Schema) -> pa.Table:
        """The rows as a table of a schema that has the columns of `RowSource.schema`."""
        import pyarrow as pa

        if self.table is not None:
            return self.table
        arrays = [pa.array(self.values(field.name), field.type, from_pandas=True) for field in schema]
        return pa.Table.from_arrays(arrays, schema=schema)


def _python_values(column: pa.ChunkedArray, *, readable: bool) -> list[Any]:
    """A column as Python values; text that is not UTF-8 stays bytes, or becomes `readable` text."""
    try:
        return column.to_pylist()
    except Exception:  # each type fails in its own way; now it is known that some value does
        return [_python_value(cell, readable) for cell in column]


def _python_value(cell: pa.Scalar, readable: bool) -> Any:
    import pyarrow as pa

    try:
        return cell.as_py()
    except Exception:
        pass
    kind = cell.type
    if isinstance(cell, (pa.DictionaryScalar, pa.ExtensionScalar)):
        return _python_value(cell.value, readable)
    if pa.types.is_struct(kind):
        return {field.name: _python_value(cell[index], readable) for index, field in enumerate(kind)}
    if pa.types.is_nested(kind):
        return [_python_value(item, readable) for item in cell.values]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        data = bytes(cell.as_buffer())
        return data.decode("utf-8", "backslashreplace") if readable else data
    with suppress(pa.ArrowException, ValueError, OverflowError):
        return str(cell.cast(pa.string()))  # the year 2,900,000, say
    return f"a value of type {kind}"


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
        """The rows in order, at most `size` at a time; `columns` names those that are needed (None: all)."""

    def schema(self) -> pa.Schema:
        """Arrow types of the columns; of Python objects, by reading all of them.

        Raises:
            InputError: A column has values that no Arrow column can hold together.
        """
        import pyarrow as pa

        kinds = {name: pa.null() for name in self.columns}
        for chunk in self.chunks(4096):
            for name in self.columns:
                try:
                    kind = pa.array(chunk.values(name), from_pandas=True).type
                    both = [pa.schema([("x", kinds[name])]), pa.schema([("x", kind)])]
                    kinds[name] = pa.unify_schemas(both, promote_options="permissive").field("x").type
                except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
                    raise InputError(
                        Setting("path", self.path),
                        f": the column {name!r:.60} holds values that one column of Parquet or of a data set "
                        f"cannot hold ({error}); write a .jsonl file instead",
                    ) from None
        return pa.schema(list(kinds.items()))

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
        size = max(1, min(size, int(CHUNK_BYTES / max(self._row_bytes, 1))))
        start = 0
        for table in self._tables(size, None if columns is None else [*columns]):
            yield Chunk(start, None, table=table)
            start += table.num_rows

    @abstractmethod
    def _tables(self, size: int, columns: list[str] | None) -> Iterator[pa.Table]: ...


class LazySequence(Sequence):
    """Values that are made when they are read, by a function of their index from 0."""

    def __init__(self, length: int, get: Callable[[int], Any]):
        self._length, self._get = length, get

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int | slice) -> Any:
        numbers = range(self._length)[index]
        return self._get(numbers) if isinstance(numbers, int) else [self._get(number) for number in numbers]


def check_names_differ(path: Path, columns: Sequence[str]) -> None:
    """Raise InputError if two columns have the same name."""
    name, count = next(iter(Counter(columns).most_common(1)), ("", 0))
    if count > 1:
        raise InputError(Setting("path", path), f": two columns have the name {name!r:.60}")


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
        return schema
    if isinstance(features, dict):
        for name, kind in types.items():
            features[name] = {"dtype": str(kind).replace("double", "float64"), "_type": "Value"}
            if pa.types.is_list(kind):
                item = {"dtype": str(kind.value_type), "_type": "Value"}
                features[name] = {"feature": item, "_type": "Sequence"}  # every version of datasets knows it
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
        self._rows, self._places, self._problems = rows, places, problems or {}
        self.n_rows, self.columns = len(rows), list(rows[0])

    @property
    def folder(self) -> Path:
        return self.path

    def chunks(self, size: int, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        for first in range(0, self.n_rows, size):
            yield Chunk(first, None, [*self._rows[first : first + size]])

    def problems(self, chunk: Chunk) -> dict[int, InputError]:
        return {
            row: self._problems[chunk.start + row]
            for row in range(len(chunk))
            if chunk.start + row in self._problems
        }

    def short_place(self, row: int, line: int | None) -> str:
        return self._places[row]

    def place(self, chunk: Chunk, row: int) -> str:
        return self._places[chunk.start + row]
