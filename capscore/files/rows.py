"""Files of rows: JSONL, JSON, CSV, TSV, Parquet and saved data sets, read and written in chunks.

In: a path. Out: a `Rows`, whose chunks know the line of every row; or a `Writer`, which takes chunks and
new columns and gives the file its name only once it is whole.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import decimal
import difflib
import gzip
import io
import json
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CapscoreError, InputError, ResultWriteError

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
EXPECTED = "JSONL (.jsonl), JSON (.json), CSV, TSV, Parquet, or the folder of a saved data set"
CHUNK_BYTES = 32 * 2**20  # of Arrow data in memory at once: rows that hold photos come in smaller chunks

_BOMS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_DATA_FILE = "data-00000-of-00001.arrow"
_STREAM = "rows.arrow"


class UsageError(CapscoreError):
    """What was asked for does not go with the files and columns there are; nothing has been done yet."""


# --------------------------------------------------------------------------- reading


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows.

    Attributes:
        start: number of the first row, counted from 0.
        lines: line of the file in which each row begins, counted from 1; None where a file has no lines.
        rows: the rows as dicts, or None if they are in `table`.
        table: the rows as an Arrow table, or None if they are in `rows`.
    """

    start: int
    lines: list[int] | None
    rows: list[dict[str, Any]] | None = None
    table: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.rows) if self.table is None else self.table.num_rows

    def values(self, column: str) -> list[Any]:
        """A column as Python values; None where a row lacks it."""
        if self.table is None:
            return [row.get(column) for row in self.rows]
        return self.table.column(column).to_pylist()

    def dicts(self) -> list[dict[str, Any]]:
        return self.rows if self.table is None else self.table.to_pylist()

    def arrow(self, schema: pa.Schema) -> pa.Table:
        """The rows as a table of the schema, which has the columns of `Rows.schema`."""
        import pyarrow as pa

        if self.table is not None:
            return self.table
        arrays = [pa.array(self.values(field.name), field.type, from_pandas=True) for field in schema]
        return pa.Table.from_arrays(arrays, schema=schema)


class Rows(ABC):
    """A file of rows.

    Attributes:
        path: where it is.
        columns: names, in the order in which they first come.
        n_rows: how many rows there are; at least 1.
        cells_are_text: whether every value is text, as in CSV.
    """

    path: Path
    columns: list[str]
    n_rows: int
    cells_are_text: bool = False

    @abstractmethod
    def chunks(self, size: int) -> Iterator[Chunk]:
        """The rows in order, at most `size` at once."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Arrow types of the columns.

        Raises:
            UsageError: a column has values of several types.
        """

    def place(self, chunk: Chunk, row: int) -> str:
        """What a person calls a row of a chunk."""
        number = f"row {chunk.start + row} counted from 0"
        if chunk.lines is None:
            return f"{self.path}, {number}"
        return f"{self.path}, line {chunk.lines[row]} ({number})"


def open_rows(path: str | Path, *, split: str | None = None) -> Rows:
    """Open a file of rows; text is read once to the end, so that what is wrong with it is known now.

    Args:
        path: JSONL, JSON (a list of objects), CSV, TSV, Parquet, or the folder of a saved data set; the
            suffix says which, and the content where there is none. Text may be gzipped (.gz).
        split: which split of a saved data set with several.

    Raises:
        UsageError: no such file, an unknown kind, a folder that is no data set, a split that is not there.
        InputError: the content is not what its kind should be; names the line.
    """
    path = Path(path)
    if path.is_dir():
        return _SavedDataset(path, split)
    if split is not None:
        raise UsageError(f"--split {split} goes with the folder of a saved data set; {path} is a file")
    if not path.exists():
        raise UsageError(f"no such file: {path}{_near_file(path)}")
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    if not start:
        raise InputError(f"{path} is empty (0 bytes); expected {EXPECTED}")
    kind = _kind_of(path, start)
    if kind == "parquet":
        return _Parquet(path)
    if kind in ("csv", "tsv"):
        return _Text(path, lambda: _read_csv(path, kind), cells_are_text=True)
    if _first_character(path) == "[":
        listed = list(_read_json(path))
        return _Text(path, lambda: iter(listed))
    return _Text(path, lambda: _read_jsonl(path))


def _kind_of(path: Path, start: bytes) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    if suffixes and suffixes[-1] in KINDS:
        return KINDS[suffixes[-1]]
    if start.startswith(b"PAR1"):
        return "parquet"
    if not suffixes and start.lstrip()[:1] in (b"{", b"["):
        return "jsonl"
    raise UsageError(f"{path} is of a kind that is not known; expected {EXPECTED}")


def _near_file(path: Path) -> str:
    with suppress(OSError):
        near = difflib.get_close_matches(path.name, os.listdir(path.parent), n=1, cutoff=0.7)
        if near:
            return f"; did you mean {path.parent / near[0]}?"
    return ""


class _Text(Rows):
    """Rows of a text file, read anew for every pass."""

    def __init__(
        self,
        path: Path,
        read: Callable[[], Iterator[tuple[int | None, dict[str, Any]]]],
        *,
        cells_are_text: bool = False,
    ):
        self.path, self._read, self.cells_are_text = path, read, cells_are_text
        names: dict[str, None] = {}
        self.n_rows = 0
        for _, row in read():
            self.n_rows += 1
            names.update(dict.fromkeys(row))
        if not self.n_rows:
            what = "has a header, but no rows" if cells_are_text else "has no rows"
            raise InputError(f"{path} {what}")
        self.columns = list(names)

    def chunks(self, size: int) -> Iterator[Chunk]:
        start, lines, rows = 0, [], []
        for line, row in self._read():
            lines.append(line)
            rows.append(row)
            if len(rows) == size:
                yield Chunk(start, _lines(lines), rows)
                start, lines, rows = start + size, [], []
        if rows:
            yield Chunk(start, _lines(lines), rows)

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        if self.cells_are_text:
            return pa.schema([(name, pa.string()) for name in self.columns])
        found = {name: pa.null() for name in self.columns}
        for chunk in self.chunks(4096):
            for name in self.columns:
                try:
                    seen = pa.array(chunk.values(name), from_pandas=True).type
                    both = [pa.schema([("x", found[name])]), pa.schema([("x", seen)])]
                    found[name] = pa.unify_schemas(both, promote_options="permissive").field("x").type
                except (pa.ArrowException, OverflowError) as error:
                    raise UsageError(
                        f"the column {name!r} of {self.path} holds values of several types, and a Parquet "
                        f"file or a data set has one type a column ({error}); write a .jsonl file instead"
                    ) from None
        return pa.schema(list(found.items()))


def _lines(lines: list[int | None]) -> list[int] | None:
    return None if lines[0] is None else lines


class ArrowRows(Rows):
    """Rows that are Arrow tables already."""

    _schema: pa.Schema
    _row_bytes: float

    def schema(self) -> pa.Schema:
        return self._schema

    def chunks(self, size: int) -> Iterator[Chunk]:
        start = 0
        for table in self._tables(max(1, min(size, int(CHUNK_BYTES / max(self._row_bytes, 1))))):
            yield Chunk(start, None, table=table)
            start += table.num_rows

    @abstractmethod
    def _tables(self, size: int) -> Iterator[pa.Table]: ...

    def _check(self) -> None:
        if not self.n_rows:
            raise InputError(f"{self.path} has no rows")
        self.columns = list(self._schema.names)
        twice = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if twice:
            raise UsageError(f"{self.path} has two columns with the name {twice[0]!r}")


class _Parquet(ArrowRows):
    def __init__(self, path: Path):
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        try:
            self._file = pq.ParquetFile(path, pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} is not a Parquet file that can be read: {error}") from None
        about = self._file.metadata
        self._schema, self.n_rows = self._file.schema_arrow, about.num_rows
        size = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
        self._row_bytes = size / max(self.n_rows, 1)
        self._check()

    def _tables(self, size: int) -> Iterator[pa.Table]:
        import pyarrow as pa

        try:
            for batch in self._file.iter_batches(batch_size=size):
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.path} cannot be read to its end: {error}") from None


class _SavedDataset(ArrowRows):
    def __init__(self, path: Path, split: str | None):
        if not (path / "dataset_dict.json").is_file() and not (path / "state.json").is_file():
            inside = sorted(child for child in path.iterdir() if child.suffix.lower() in KINDS)
            hint = f"; did you mean {inside[0]}?" if inside else ""
            raise UsageError(
                f"{path} is a folder, but no data set that was saved with save_to_disk; expected "
                f"{EXPECTED}{hint}"
            )
        import datasets

        self.path = path
        try:
            loaded = datasets.load_from_disk(str(path))
        except Exception as error:  # datasets raises whatever json, Arrow or the file system do
            raise InputError(f"{path} is a saved data set that cannot be loaded: {error}") from error
        if isinstance(loaded, datasets.DatasetDict):
            names = ", ".join(loaded)
            if split is None and len(loaded) != 1:
                raise UsageError(f"{path} has the splits {names}: choose one with --split")
            if split is not None and split not in loaded:
                raise UsageError(f"{path} has no split {split!r}; it has {names}")
            loaded = loaded[split or next(iter(loaded))]
        elif split is not None:
            raise UsageError(f"--split {split}: {path} is one data set, without splits")
        self._dataset = loaded.with_format("arrow")
        self._schema, self.n_rows = loaded.features.arrow_schema, len(loaded)
        self._row_bytes = loaded.data.nbytes / max(loaded.data.num_rows, 1)
        self._check()

    def _tables(self, size: int) -> Iterator[pa.Table]:
        for start in range(0, self.n_rows, size):
            yield self._dataset[start : start + size].cast(self._schema)


# ----------------------------------------------------------------------- text files


def _open_bytes(path: Path) -> io.BufferedIOBase:
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else open(path, "rb")


def _text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with their ends, counted from 1; without a byte order mark."""
    number = 0
    try:
        with closing(_open_bytes(path)) as file:
            for number, raw in enumerate(file, 1):
                if number == 1:
                    encoding = next((name for mark, name in _BOMS if raw.startswith(mark)), None)
                    if encoding is None and b"\0" in raw[:200]:
                        encoding = "UTF-16, or no text at all"
                    if encoding:
                        raise InputError(
                            f"{path} is {encoding}; expected UTF-8. To convert: "
                            f"iconv -f UTF-16 -t UTF-8 {path} > new{path.suffix}"
                        )
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                try:
                    yield number, raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(
                        f"{path}, line {number} is not UTF-8: byte 0x{raw[error.start]:02x} at column "
                        f"{error.start + 1}. If the file is Latin-1 or Windows-1252: "
                        f"iconv -f WINDOWS-1252 -t UTF-8 {path} > new{path.suffix}"
                    ) from None
    except (OSError, EOFError) as error:  # a torn gzip file raises either
        raise InputError(f"{path} cannot be read after line {number}: {error}") from None


def _first_character(path: Path) -> str:
    for _, line in _text_lines(path):
        if line.strip():
            return line.lstrip()[0]
    return ""


def _read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _text_lines(path):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(
                f"{place}, column {error.colno}: not valid JSON: {error.msg}. Expected one object a "
                'line, such as {"image": "cat.jpg", "caption": "A cat."}, or one list of objects in the file'
            ) from None
        except RecursionError:
            raise InputError(f"{place}: JSON that is nested too deeply") from None
        yield number, _object(row, place)


def _read_json(path: Path) -> Iterator[tuple[None, dict[str, Any]]]:
    text = "".join(line for _, line in _text_lines(path))
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}"
        ) from None
    except RecursionError:
        raise InputError(f"{path}: JSON that is nested too deeply") from None
    for number, row in enumerate(rows):
        yield None, _object(row, f"{path}, element {number} counted from 0")


def _object(row: Any, place: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        shown = json.dumps(row, ensure_ascii=False)
        raise InputError(f"{place}: expected an object {{…}}, got {shown:.60}")
    return row


def _read_csv(path: Path, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
    csv.field_size_limit(2**31 - 1)  # captions and reference lists may be longer than the module's 128 KB
    lines = (line for _, line in _text_lines(path))
    first = next(lines, "")
    delimiter = "\t" if kind == "tsv" else ";" if ";" in first and "," not in first else ","

    def all_lines() -> Iterator[str]:
        yield first
        yield from lines

    reader = csv.reader(all_lines(), delimiter=delimiter, strict=True)
    header, begin = None, 1
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(
                f"{path}, line {begin}: not valid {kind.upper()}: {error} (a quotation mark at the start of "
                'a cell must be closed at its end, and written twice inside: """Stop"" sign")'
            ) from None
        line, begin = begin, reader.line_num + 1
        if cells is None:
            return
        if not cells:
            continue
        if header is None:
            header = cells
            twice = sorted({name for name in header if header.count(name) > 1})
            if twice:
                raise UsageError(f"{path} has two columns with the name {twice[0]!r}")
            continue
        if len(cells) != len(header):
            name = {"\t": "tab", ";": "semicolon"}.get(delimiter, "comma")
            raise InputError(
                f"{path}, line {line}: {len(cells)} cells, but the header has {len(header)} columns (a "
                f'{name} inside a cell needs quotation marks around the cell: "A cat, asleep")'
            )
        yield line, dict(zip(header, cells, strict=True))


# --------------------------------------------------------------------------- writing


class Writer(ABC):
    """Takes scored chunks; what it writes is called `partial` until `finish` gives it its own name.

    Attributes:
        path: the result.
        partial: what is written meanwhile, of the same kind.
        written: rows that are in it, whole.
    """

    def __init__(self, path: Path):
        self.path = path
        self.partial = partial_path(path)
        self.written = 0
        self._broken = self._closed = False
        self._claimed: tuple[int, int] | None = None

    def claim(self) -> None:
        """Remember which file `partial` is, so that another program's is not taken for it."""
        self._claimed = self._identity()

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.partial)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        """Add the rows of a chunk, each with its values of the new columns.

        Raises:
            ResultWriteError: it cannot be written; what was whole before is whole still.
        """
        with self._errors_named():
            self._write(chunk, columns)
        self.written += len(chunk)

    def finish(self, about: dict[str, Any], summary: str) -> None:
        """Close the file and give it its name, replacing what had it; the summary goes beside it.

        Args:
            about: JSON-ready, kept in the file where its kind can: what the numbers depend on.
            summary: what `summary_path` of the result holds then.

        Raises:
            ResultWriteError: it cannot be written; nothing has the result's name.
        """
        place = summary_path(self.path)
        beside = place.with_name(f"{place.name}.partial")
        with self._errors_named():
            try:
                self._close(about)
                self._closed = True
                if self._claimed is not None and self._identity() != self._claimed:
                    self._broken = True
                    raise ResultWriteError(
                        f"{self.path} was not written: another program began to write the same result "
                        f"({self.partial}); give each its own --output"
                    )
                # a file's name may hold bytes that are no text
                beside.write_text(summary, encoding="utf-8", errors="backslashreplace")
                self._rename()
                os.replace(beside, place)
            except Exception:
                with suppress(OSError):
                    beside.unlink()
                raise

    def stop(self) -> Path | None:
        """Close what was written so far; returns where it is, or None if there is nothing to keep."""
        if self._claimed is not None and self._identity() != self._claimed:
            return None  # the file of that name is another program's
        try:
            if not self._broken and self.written:
                if not self._closed:
                    self._close({})
                return self.partial if self.partial.exists() else None
        except Exception:  # no room even for the last bytes: a file that cannot be opened helps nobody
            self._broken = True
        self._discard()
        return None

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, ResultWriteError):
                raise
            reason = getattr(error, "strerror", None) or error
            raise ResultWriteError(
                f"{self.path} could not be written: {reason}. Nothing half-written has that name"
            ) from error

    def _rename(self) -> None:
        os.replace(self.partial, self.path)

    @abstractmethod
    def _write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None: ...

    @abstractmethod
    def _close(self, about: dict[str, Any]) -> None: ...

    @abstractmethod
    def _discard(self) -> None: ...


def output_kind(path: Path) -> str:
    """The kind a result's name asks for: its suffix, and a data set's folder where there is none.

    Raises:
        UsageError: a suffix that nothing can be written for.
    """
    suffix = path.suffix.lower()
    if suffix in KINDS:
        return KINDS[suffix]
    if not suffix or path.is_dir():
        return "dataset"
    raise UsageError(
        f"--output {path}: {suffix} is not a kind that can be written; expected {', '.join(KINDS)}, or a "
        "name without a suffix for a saved data set"
    )


def partial_path(path: Path) -> Path:
    """What a result is called until it is whole: scores.jsonl → scores.partial.jsonl."""
    suffix = path.suffix if path.suffix.lower() in KINDS else ""
    return path.with_name(f"{path.name.removesuffix(suffix)}.partial{suffix}")


def summary_path(path: Path) -> Path:
    """Where the summary of a result is: scores.jsonl → scores.summary.json."""
    suffix = path.suffix if path.suffix.lower() in KINDS else ""
    return path.with_name(f"{path.name.removesuffix(suffix)}.summary.json")


def check_output(path: str | Path, source: Rows, *, force: bool = False) -> Path:
    """See whether a result can be written, before any work is done; makes its folder.

    Returns:
        The path, links followed.

    Raises:
        UsageError: it exists (and not `force`), is the input, is of an unknown kind or cannot hold the
            columns, or its folder cannot be written to.
    """
    target = Path(os.path.realpath(Path(path).expanduser()))
    kind = output_kind(Path(path))
    if output_kind(target) != kind:
        raise UsageError(f"--output {path} is a link to {target}, whose name asks for another kind of file")
    if target == Path(os.path.realpath(source.path)):
        raise UsageError(f"--output {path} is the input; the result needs a name of its own")
    if target.exists():
        if kind == "dataset":
            replaceable = target.is_dir() and ((target / "state.json").is_file() or not any(target.iterdir()))
            if not replaceable:
                raise UsageError(f"--output {path} exists and is not a saved data set; it is left alone")
        elif not target.is_file():
            raise UsageError(f"--output {path} exists and is not a regular file")
    taken = [place for place in (target, summary_path(target)) if place.exists()]
    if taken and not force:
        what = "" if taken[0] == target else " (the summary of a result)"
        raise UsageError(f"{taken[0]}{what} exists already; --force overwrites it")
    partial = partial_path(target)
    ours = partial.is_dir() and any((partial / name).is_file() for name in ("state.json", _STREAM))
    if partial.exists() and (not ours if kind == "dataset" else not partial.is_file()):
        raise UsageError(f"{partial}, where the result is written at first, is something else; rename it")
    if kind not in ("parquet", "dataset"):
        _refuse_bytes(source, target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target.parent) as probe:
            probe.write(b"capscore")
    except OSError as error:
        raise UsageError(
            f"--output {path}: {target.parent} cannot be written to: {error.strerror or error}"
        ) from None
    return target


def open_writer(path: Path, source: Rows, columns: dict[str, type]) -> Writer:
    """Begin a result.

    Args:
        path: what `check_output` returned.
        source: where the rows come from; their columns come first and stay as they are.
        columns: the new columns, with float or str as their type.

    Raises:
        ResultWriteError: it cannot be begun.
        UsageError: the input's columns do not fit the kind of file.
    """
    writer = _make_writer(path, source, columns)
    writer.claim()
    return writer


def _make_writer(path: Path, source: Rows, columns: dict[str, type]) -> Writer:
    kind = output_kind(path)
    if kind in ("parquet", "dataset"):
        schema = _with_columns(source.schema(), columns)
        return (_ParquetWriter if kind == "parquet" else _DatasetWriter)(path, source.schema(), schema)
    if kind in ("csv", "tsv"):
        return _CsvWriter(path, [*source.columns, *columns], "\t" if kind == "tsv" else ",")
    return _JsonWriter(path, as_list=kind == "json")


class _TextWriter(Writer):
    """Text that goes out a chunk at once; after an error the file is cut back to the last whole chunk."""

    _tail = b""

    def __init__(self, path: Path, head: bytes = b""):
        super().__init__(path)
        self._whole = 0
        with self._errors_named():
            self.partial.unlink(missing_ok=True)
            self._file = open(self.partial, "xb", buffering=0)
            try:
                self._put(head)
            except OSError:
                self._discard()
                raise

    def _put(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            self._file.truncate(self._whole)
            self._file.seek(self._whole)
            raise
        self._whole += len(data)

    def _close(self, about: dict[str, Any]) -> None:
        self._put(self._tail)
        os.fsync(self._file.fileno())
        self._file.close()

    def _discard(self) -> None:
        self._file.close()
        with suppress(OSError):
            self.partial.unlink()


class _JsonWriter(_TextWriter):
    def __init__(self, path: Path, *, as_list: bool):
        self._as_list = as_list
        self._tail = b"\n]\n" if as_list else b""
        super().__init__(path, b"[" if as_list else b"")

    def _write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        rows = [
            _json_bytes({**row, **{name: values[number] for name, values in columns.items()}})
            for number, row in enumerate(chunk.dicts())
        ]
        if self._as_list:
            self._put((b",\n" if self.written else b"\n") + b",\n".join(rows))
        else:
            self._put(b"".join(row + b"\n" for row in rows))


class _CsvWriter(_TextWriter):
    def __init__(self, path: Path, header: Sequence[str], delimiter: str):
        self._header, self._delimiter = header, delimiter
        super().__init__(path, self._encode([header]))

    def _encode(self, rows: Sequence[Sequence[str]]) -> bytes:
        lines = (self._delimiter.join(map(self._quoted, row)) + "\n" for row in rows)
        return "".join(lines).encode("utf-8", "backslashreplace")

    def _quoted(self, cell: str) -> str:
        # Not csv.writer: before Python 3.13 it leaves a cell with a carriage return without quotation marks.
        if any(sign in cell for sign in (self._delimiter, '"', "\n", "\r")):
            return '"' + cell.replace('"', '""') + '"'
        return cell

    def _write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        rows = []
        for number, row in enumerate(chunk.dicts()):
            whole = {**row, **{name: values[number] for name, values in columns.items()}}
            rows.append([_cell(whole.get(name)) for name in self._header])
        self._put(self._encode(rows))


class _ParquetWriter(Writer):
    def __init__(self, path: Path, before: pa.Schema, after: pa.Schema):
        import pyarrow.parquet as pq

        super().__init__(path)
        self._before, self._after = before, after
        with self._errors_named():
            self.partial.unlink(missing_ok=True)
            self._file = open(self.partial, "xb")
            self._writer = pq.ParquetWriter(self._file, after)

    def _write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        self._broken = True  # until the row group is whole
        table = _joined(chunk, columns, self._before, self._after)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._file.flush()
        self._broken = False

    def _close(self, about: dict[str, Any]) -> None:
        self._broken = True
        if about:
            self._writer.add_key_value_metadata({"capscore": json.dumps(about, ensure_ascii=False)})
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._broken = False

    def _discard(self) -> None:
        for close in (self._writer.close, self._file.close):
            with suppress(Exception):  # the disk is full still; the file goes anyway
                close()
        with suppress(OSError):
            self.partial.unlink()


class _DatasetWriter(Writer):
    """One Arrow file in a folder; the files around it are those that `save_to_disk` writes."""

    def __init__(self, path: Path, before: pa.Schema, after: pa.Schema):
        import pyarrow as pa

        super().__init__(path)
        self._before, self._after = before, after
        with self._errors_named():
            if self.partial.exists():
                shutil.rmtree(self.partial)
            self.partial.mkdir()
            self._stream = self.partial / _STREAM
            self._file = open(self._stream, "xb")
            self._writer = pa.ipc.new_stream(self._file, after)

    def _write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        self._broken = True
        self._writer.write_table(_joined(chunk, columns, self._before, self._after))
        self._file.flush()
        self._broken = False

    def _close(self, about: dict[str, Any]) -> None:
        import datasets
        import pyarrow as pa

        self._broken = True
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        # A data set of one empty row is saved for the files around it; then its data are replaced.
        info = datasets.DatasetInfo(
            features=datasets.Features.from_arrow_schema(self._after),
            description=json.dumps(about, ensure_ascii=False) if about else "",
        )
        empty = datasets.Dataset(pa.Table.from_pylist([{}], schema=self._after), info=info)
        shown = not datasets.are_progress_bars_disabled()
        datasets.disable_progress_bars()
        try:
            empty.save_to_disk(str(self.partial), num_shards=1)
        finally:
            if shown:
                datasets.enable_progress_bars()
        os.replace(self._stream, self.partial / _DATA_FILE)
        self._broken = False

    def _rename(self) -> None:
        if not self.path.exists():
            os.rename(self.partial, self.path)
            return
        old = Path(tempfile.mkdtemp(prefix=f"{self.path.name}.old.", dir=self.path.parent))
        os.rename(self.path, old / self.path.name)
        try:
            os.rename(self.partial, self.path)
        except OSError:
            os.rename(old / self.path.name, self.path)
            raise
        finally:
            shutil.rmtree(old, ignore_errors=True)

    def _discard(self) -> None:
        for close in (self._writer.close, self._file.close):
            with suppress(Exception):
                close()
        shutil.rmtree(self.partial, ignore_errors=True)


def _joined(chunk: Chunk, columns: dict[str, list[Any]], before: pa.Schema, after: pa.Schema) -> pa.Table:
    import pyarrow as pa

    table = chunk.arrow(before)
    new = [pa.array(values, after.field(name).type) for name, values in columns.items()]
    return pa.Table.from_arrays([*table.columns, *new], schema=after)


def _with_columns(schema: pa.Schema, columns: dict[str, type]) -> pa.Schema:
    """The schema with new columns; what `datasets` notes in it about the columns gets them too."""
    import pyarrow as pa

    types = {float: pa.float64(), str: pa.string()}
    for name, kind in columns.items():
        schema = schema.append(pa.field(name, types[kind]))
    metadata = dict(schema.metadata or {})
    if b"huggingface" in metadata:
        noted = json.loads(metadata[b"huggingface"])
        features = noted.get("info", {}).get("features")
        if features is not None:
            for name in columns:
                features[name] = {
                    "dtype": str(schema.field(name).type).replace("double", "float64"),
                    "_type": "Value",
                }
            metadata[b"huggingface"] = json.dumps(noted).encode()
    return schema.with_metadata(metadata or None)


def _refuse_bytes(source: Rows, target: Path) -> None:
    if not isinstance(source, ArrowRows):
        return
    for field in source.schema():
        if _holds_bytes(field.type):
            raise UsageError(
                f"the column {field.name!r} of {source.path} holds bytes (images?), which {target.suffix} "
                "cannot; write a .parquet file, or a data set (a name without a suffix)"
            )


def _holds_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return True
    return any(_holds_bytes(kind.field(number).type) for number in range(kind.num_fields))


def _json_bytes(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain).encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can carry
        return json.dumps(value, default=_plain).encode("ascii")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> str:
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, datetime.timedelta)):
        return str(value)
    raise TypeError(f"{value!r:.60} ({type(value).__name__}) cannot be written as JSON")
