"""Rows of a file in chunks that know the line of every row: made by readers, taken by writers and scorers."""

from __future__ import annotations

import itertools
import json
import re
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import InputError, Setting

if TYPE_CHECKING:
    import pyarrow as pa

Source = TypeVar("Source", bound="RowSource")
Row = dict[str, Any]
"""Cells of a row by the name of their column."""

CHUNK_ROWS = 1024  # rows that commands take at a time
CHUNK_BYTES = 32 * 2**20  # Arrow data in memory at a time: rows that hold photos come in smaller chunks
IN_MEMORY = "rows"  # format of rows that no file holds
ERROR_COLUMN = "capscore_error"  # column of a result that says what was wrong with a row


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows.

    Attributes:
        lines: Line of the file on which each row begins, counted from 1; None where a file has no lines.
    """

    start: int
    lines: list[int] | None
    rows: list[Row] | None = None
    table: Any = None

    def __len__(self) -> int:
        return self.table.num_rows if self.rows is None else len(self.rows)

    def values(self, column: str | None) -> list[Any]:
        """A column as Python values; what Python cannot hold comes as bytes."""
        if column is None or (self.rows is None and column not in self.table.column_names):
            return [None] * len(self)
        if self.rows is None:
            return _python_values(self.table.column(column))
        return [row.get(column) for row in self.rows]

    def dicts(self) -> list[Row]:
        if self.rows is not None:
            return self.rows
        names, columns = self.table.column_names, map(_python_values, self.table.columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def arrow(self, schema: pa.Schema) -> pa.Table:
        """The rows as a table of a schema that has the columns of `RowSource.schema`."""
        import pyarrow as pa

        if self.table is not None:
            return self.table
        arrays = [pa.array(self.values(field.name), field.type, from_pandas=True) for field in schema]
        return pa.Table.from_arrays(arrays, schema=schema)

    def filter(self, stays: Sequence[bool]) -> Chunk:
        """Those of the rows that stay; the first keeps the chunk's number."""
        if self.rows is None:
            return replace(self, table=self.table.filter([*stays]))
        lines = self.lines
        if lines is not None:
            lines = [*itertools.compress(lines, stays)]
        return replace(self, lines=lines, rows=[*itertools.compress(self.rows, stays)])

    def with_columns(
        self, columns: Mapping[str, Sequence[object]], types: Mapping[str, pa.DataType]
    ) -> Chunk:
        """The chunk with new columns after its own; `types` are those that an Arrow table gets."""
        import pyarrow as pa

        if self.rows is None:
            table = self.table
            for name, cells in columns.items():
                table = table.append_column(name, pa.array(cells, types[name]))
            return replace(self, table=table)
        rows = [{**row} for row in self.rows]
        for name, cells in columns.items():
            for row, cell in zip(rows, cells, strict=True):
                row[name] = cell
        return replace(self, rows=rows)


def _python_values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return column.to_pylist()
    except Exception:  # each type fails in its own way; now it is known that some value does
        return [_python_value(cell) for cell in column]


def _python_value(cell: Any) -> object:
    """A cell as a Python value; bytes where there is none: the year 2,900,000, text that is not UTF-8."""
    try:
        return cell.as_py()
    except Exception:
        return bytes(cell.as_buffer()) if hasattr(cell, "as_buffer") else f"a {cell.type} value".encode()


class NoRowsError(InputError):
    """A file without rows; one of several files may be."""


Read = Callable[[int, Sequence[str] | None], Iterator[Chunk]]
"""Function that reads the rows in order, so many at a time, with the columns that are named, or all."""


def read_dicts(rows: Callable[[], Iterable[tuple[int | None, Row]]]) -> Read:
    """Function that reads chunks of rows; `rows` gives line, or None, and cells of each, from the first."""

    def read(size: int, columns: Sequence[str] | None) -> Iterator[Chunk]:
        start, left = 0, iter(rows())
        while batch := list(itertools.islice(left, size)):
            lines = [line for line, _ in batch if line is not None]
            yield Chunk(start, lines or None, [row for _, row in batch])
            start += len(batch)

    return read


def read_tables(tables: Callable[[int, Sequence[str] | None], Iterator[pa.Table]], row_bytes: float) -> Read:
    """Function that reads chunks of Arrow tables, in which a row takes so many bytes."""

    def read(size: int, columns: Sequence[str] | None) -> Iterator[Chunk]:
        start, size = 0, max(1, min(size, int(CHUNK_BYTES / max(row_bytes, 1))))
        for table in tables(size, columns):
            yield Chunk(start, None, table=table)
            start += table.num_rows

    return read


@dataclass
class RowSource:
    """Rows of a file.

    Attributes:
        faults: Number of a row → what is known to be wrong with it, whatever is read of it.
        places: How messages name each row; () for its line or number.
        image_folder: Folder that relative names of images start from; None for that of the file.
        page_column: Column by whose values reports list rows, such as the page of a picture; None for none.
        lists: Columns in which some cell is a list, or a text that may be a written one.
    """

    path: Path
    columns: Sequence[str]
    n_rows: int
    read: Read
    arrow_schema: pa.Schema | None = None
    cells_are_text: bool = False
    notes: Sequence[str] = ()
    faults: Mapping[int, InputError] = field(default_factory=dict)
    places: Sequence[str] = ()
    image_folder: Path | None = None
    format: str = "rows"
    page_column: str | None = None
    lists: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.n_rows:
            raise NoRowsError(f"{self.path} has no rows")
        check_names_differ(self.path, self.columns)
        self._state = _state_of(self.path)

    @property
    def folder(self) -> Path:
        return self.path.parent if self.image_folder is None else self.image_folder

    def chunks(self, size: int, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        """The rows in order, at most `size` at a time; `columns` names those that are needed (None: all)."""
        if _state_of(self.path) not in (None, self._state):
            raise InputError(f"{self.path} has changed since it was opened: its rows may be others by now")
        return self.read(size, columns)

    def schema(self) -> pa.Schema:
        """Arrow types of the columns; of Python objects, by reading all of them."""
        import pyarrow as pa

        if self.arrow_schema is not None:
            return self.arrow_schema
        if self.cells_are_text:
            return pa.schema([(name, pa.string()) for name in self.columns])
        schema = pa.schema([(name, pa.null()) for name in self.columns])
        for chunk in self.chunks(4096):
            for index, name in enumerate(self.columns):
                try:
                    kind = pa.array(chunk.values(name), from_pandas=True).type
                    both = [pa.schema([schema.field(index)]), pa.schema([(name, kind)])]
                    merged = pa.unify_schemas(both, promote_options="permissive")
                except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
                    raise InputError(
                        Setting("path", self.path),
                        f": the column {name!r:.60} holds values that one column of Parquet cannot hold "
                        f"({error}); write a .jsonl file instead, and paths in place of images",
                    ) from None
                schema = schema.set(index, merged.field(0))
        return schema

    def cells(self, *columns: str | None, take: Callable[[Any], Any] = lambda cell: cell) -> list[list[Any]]:
        """All values of each column, None where a row lacks it, or where there is no such column."""
        found: list[list[Any]] = [[] for _ in columns]
        if not columns:
            return found
        for chunk in self.chunks(CHUNK_ROWS, [name for name in self.columns if name in columns]):
            for name, cells in zip(columns, found, strict=True):
                cells += map(take, chunk.values(name))
        return found

    def only(self: Source, numbers: Sequence[int]) -> Source:
        """Some rows, by their ascending numbers; they are numbered anew, and messages name them as before."""
        stays = [False] * self.n_rows
        for number in numbers:
            stays[number] = True

        def read(size: int, columns: Sequence[str] | None) -> Iterator[Chunk]:
            start = 0
            for chunk in self.chunks(size, columns):
                some = chunk.filter(stays[chunk.start : chunk.start + len(chunk)])
                if len(some):
                    yield replace(some, start=start)
                start += len(some)

        faults = {new: self.faults[old] for new, old in enumerate(numbers) if old in self.faults}
        places = self._places_of(numbers)
        return replace(self, n_rows=len(numbers), read=read, faults=faults, places=places)

    def reordered(self: Source, numbers: Sequence[int]) -> Source:
        """All rows in another order, by their numbers; they are in memory together once they are read."""
        import pyarrow as pa

        def read(size: int, columns: Sequence[str] | None) -> Iterator[Chunk]:
            chunks = [*self.chunks(size, columns)]
            lines = [*itertools.chain.from_iterable(chunk.lines or [] for chunk in chunks)]
            rows = table = None
            if chunks[0].rows is None:
                table = pa.concat_tables(chunk.table for chunk in chunks)
            else:
                rows = [*itertools.chain.from_iterable(chunk.rows or [] for chunk in chunks)]
            for start in range(0, len(numbers), size):
                some = numbers[start : start + size]
                yield Chunk(
                    start,
                    [lines[number] for number in some] if lines else None,
                    rows and [rows[number] for number in some],
                    table and table.take(pa.array(some)),
                )

        places = [self.places[number] for number in numbers] if self.places else []
        return replace(self, read=read, faults={}, places=places)

    def _places_of(self, numbers: Sequence[int]) -> list[str]:
        """How messages name some rows that get new numbers; [] where their lines name them."""
        if self.places:
            return [self.places[number] for number in numbers]
        if next(self.chunks(1)).lines is not None:
            return []
        return [f"{self.path}, {self.long_place(number, None)}" for number in numbers]

    def problems(self, chunk: Chunk) -> dict[int, InputError]:
        """Row of a chunk → what is known to be wrong with it, whatever is read of it."""
        if not self.faults:
            return {}
        rows = range(len(chunk))
        return {row: self.faults[chunk.start + row] for row in rows if chunk.start + row in self.faults}

    def short_place(self, row: int, line: int | None) -> str:
        """How lists of rows of this source name a row, counted from 0, on a line of the file."""
        if self.places:
            return self.places[row]
        return f"row {row}" if line is None else f"line {line}"

    def long_place(self, row: int, line: int | None) -> str:
        """The same for a message: it says where rows that have no line are counted from."""
        place = self.short_place(row, line)
        return f"{place}, counted from 0" if re.search(r"(^|, )row \d+$", place) else place

    def place(self, chunk: Chunk, row: int) -> str:
        line = chunk.lines[row] if chunk.lines else None
        place = self.long_place(chunk.start + row, line)
        return place if self.places else f"{self.path}, {place}"

    def at(self, error: InputError, chunk: Chunk, row: int) -> InputError:
        """An error of a row of a chunk, with the row's place before the message."""
        what = "" if error.field is None else f"{error.field}: "
        return type(error)(f"{self.place(chunk, row)}: {what}", *error.parts)

    def at_row(self, error: InputError, number: int) -> InputError:
        """An error of a row, counted from 0, with the row's place before the message."""
        chunk = next(chunk for chunk in self.chunks(CHUNK_ROWS) if number < chunk.start + len(chunk))
        return self.at(error, chunk, number - chunk.start)


def rows_in_memory(
    rows: Sequence[Mapping[str, object]],
    places: Sequence[str],
    path: Path = Path(),
    *,
    faults: Mapping[int, InputError] | None = None,
    notes: Sequence[str] = (),
    format: str = IN_MEMORY,
) -> RowSource:
    """Rows with a place each, such as "photos/dog.txt, line 2"; `path` is their folder."""
    columns = dict.fromkeys(itertools.chain.from_iterable(rows))
    whole = [{name: row.get(name) for name in columns} for row in rows]
    read = read_dicts(lambda: ((None, row) for row in whole))
    return RowSource(
        path,
        [*columns],
        len(rows),
        read,
        notes=notes,
        faults=faults or {},
        places=places,
        image_folder=path,
        format=format,
    )


def _state_of(path: Path) -> tuple[int, int] | None:
    """Size of a file, and when it was written; None where there is none, or a folder."""
    with suppress(OSError, ValueError):
        found = path.stat()
        if stat.S_ISREG(found.st_mode):
            return found.st_size, found.st_mtime_ns
    return None


def rows_of(given: Any) -> Iterable[Any]:
    """Rows in memory, one by one: those of a table of pandas, Arrow or polars as dicts, others as they are.

    Images of a data set are not decoded one by one as rows come, but by the embedder, in threads.

    Raises:
        InputError: A dict, as of columns or of splits, and what is no table and no list.
    """
    if hasattr(given, "to_pylist"):  # Arrow
        return given.to_pylist()
    if hasattr(given, "to_dicts"):  # polars
        return given.to_dicts()
    if hasattr(given, "iterrows"):  # pandas
        return given.to_dict("records")
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise InputError(f"got a {type(given).__name__}; expected a file, a folder, rows as dicts or a table")
    library = sys.modules.get("datasets")
    if library is not None and isinstance(given, library.IterableDataset | library.Dataset):
        for name, feature in (given.features or {}).items():
            if isinstance(feature, library.Image) and feature.decode:
                given = given.cast_column(name, library.Image(decode=False))
    return given


def layout_error(path: Path, *parts: str | Setting) -> InputError:
    """An error about how the rows of a file are laid out, which ends with what shows how it is understood."""
    return InputError(*parts, f"; `capscore score {path} --dry-run` shows how the file is understood")


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


def extended_schema(schema: pa.Schema, types: Mapping[str, pa.DataType]) -> pa.Schema:
    """A schema with new columns at its end, in Arrow's fields and in the features that `datasets` notes."""
    import pyarrow as pa

    for name, kind in types.items():
        schema = schema.append(pa.field(name, kind))
    metadata = dict(schema.metadata or {})
    try:
        noted = json.loads(metadata.get(b"huggingface", "{}"))
        for name, kind in types.items():
            feature: dict[str, object] = {"dtype": str(kind).replace("double", "float64"), "_type": "Value"}
            if pa.types.is_list(kind):
                item = {"dtype": str(kind.value_type), "_type": "Value"}
                feature = {"feature": item, "_type": "Sequence"}  # every version of datasets knows it
            noted["info"]["features"][name] = feature
    except (ValueError, KeyError, TypeError, RecursionError):  # none, or not those of `datasets`
        return schema
    return schema.with_metadata({**metadata, b"huggingface": json.dumps(noted).encode()})
