"""Writes files that have their name only once they are whole: any file, and rows with new columns.

Rows go to JSONL, JSON, CSV, TSV and Parquet files and to saved data sets. In CSV and TSV, a text that a
spreadsheet would run as a formula (it begins with = + - @, a tab or a line break, and is no number) gets an
apostrophe in front, which reading takes away: `=1+1` is written `'=1+1`, and `'=1+1` is written `''=1+1`.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import re
import shutil
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..errors import InputError, ResultWriteError, Setting
from .read import FORMULA_SIGNS, KINDS, parquet_parts
from .row_source import ArrowSource, Chunk, RowSource, extended_schema

if TYPE_CHECKING:
    import pyarrow as pa

_DATA_FILE = "data-00000-of-00001.arrow"
_RUNS = re.compile(f"'*[{FORMULA_SIGNS}]")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|-Infinity")


@contextmanager
def whole_file(path: str | Path, what: str = "file", *, make_folders: bool = False) -> Iterator[IO[bytes]]:
    """Open a new file for writing bytes; it takes its name when the block ends without an error.

    A link stays a link, to the new content.

    Args:
        path: Name of the file; what has it already is replaced.
        what: What is written, for the error.
        make_folders: Whether to make the folders above it that are missing.

    Raises:
        ResultWriteError: It cannot be written; what had the name before is as it was.

    >>> with whole_file("scores.txt") as file:                  # doctest: +SKIP
    ...     file.write(b"0.5")
    """
    path = Path(path).expanduser()
    target = Path(os.path.realpath(path))
    partial = target.with_name(f".{uuid.uuid4().hex[:12]}.partial")
    try:
        if make_folders:
            target.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except OSError as error:
        raise ResultWriteError(
            f"the {what} {str(path)!r} could not be written: {error.strerror or error}; what had that name "
            "before is as it was"
        ) from error
    finally:
        # Ctrl-C too leaves nothing half-written behind
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def write_text(path: str | Path, text: str, what: str = "file") -> None:
    """Write a UTF-8 file whole, in a folder that is made if need be; errors as in `whole_file`."""
    with whole_file(path, what, make_folders=True) as file:
        file.write(text.encode("utf-8"))


# ---- rows ----


class Writer(ABC):
    """Takes chunks with new columns, and writes them to `partial` until `finish` renames it to `path`.

    Attributes:
        path: Path of the result.
        partial: Path of the unfinished result, a file or folder of the same kind.
        written: Number of rows that have been written whole.
    """

    def __init__(self, path: Path):
        self.path, self.partial, self.written = path, partial_path(path), 0
        self._is_closed = self._is_broken = False  # broken: what was written cannot be read
        with self._errors_named():
            _remove(self.partial)
            self._begin()
            self._inode = os.stat(self.partial).st_ino  # another program could replace it

    def write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        """Add the rows of a chunk, each with its values of the new columns.

        Raises:
            ResultWriteError: The rows cannot be written; those written before stay whole.
        """
        with self._errors_named():
            self._write(chunk, columns)
        self.written += len(chunk)

    def finish(self, about: dict[str, Any], summary: str) -> None:
        """Close the file and give it its name, replacing any file of that name, and write the summary.

        Args:
            about: What the numbers depend on, JSON-ready; kept in the file if its kind has room for it.
            summary: Content of the file at `summary_path`.

        Raises:
            ResultWriteError: The result cannot be written; no file has its name.
        """
        with self._errors_named(), whole_file(summary_path(self.path), "summary") as file:
            self._close(about)
            self._is_closed = True
            if self._is_replaced():
                raise ResultWriteError(
                    f"{self.path} was not written: another program began to write the same result "
                    f"({self.partial}); give each its own ",
                    Setting("output"),
                )
            # a file's name may hold bytes that are not text
            file.write(summary.encode("utf-8", "backslashreplace"))
            file.flush()
            _replace(self.partial, self.path)

    def stop(self) -> Path | None:
        """Close the unfinished result, and return its path, or None if there is nothing to keep."""
        if self._is_replaced():
            return None
        with suppress(Exception):  # no room even for the last bytes, so the file could not be opened
            if self.written and not self._is_broken:
                if not self._is_closed:
                    self._close({})
                return self.partial if self.partial.exists() else None
        with suppress(Exception):  # the disk is full still; the file goes anyway
            self._release()
        _remove(self.partial)
        return None

    def _is_replaced(self) -> bool:
        try:
            return os.stat(self.partial).st_ino != self._inode
        except FileNotFoundError:
            return True

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except ResultWriteError:
            raise
        except (OSError, pa.ArrowException) as error:
            reason = getattr(error, "strerror", None) or error
            raise ResultWriteError(
                f"{self.path} could not be written: {reason}. Nothing half-written has that name"
            ) from error

    @abstractmethod
    def _begin(self) -> None:
        """Make the unfinished result, without rows."""

    @abstractmethod
    def _write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None: ...

    @abstractmethod
    def _close(self, about: dict[str, Any]) -> None:
        """Write what belongs at the end, and close the file."""

    @abstractmethod
    def _release(self) -> None:
        """Close the file as it is."""


class _TextWriter(Writer):
    """Writes text chunk by chunk; after an error the file is cut back to the last whole chunk."""

    def __init__(self, path: Path, kind: str, header: Sequence[str]):
        self._kind, self._header, self._size = kind, header, 0
        self._delimiter = "\t" if kind == "tsv" else ","
        super().__init__(path)

    def _begin(self) -> None:
        self._file = open(self.partial, "xb", buffering=0)
        try:
            is_table = self._kind in ("csv", "tsv")
            self._put(self._csv([self._header]) if is_table else b"[" if self._kind == "json" else b"")
        except OSError:
            self._file.close()
            _remove(self.partial)
            raise

    def _write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        new = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        rows = [{**row, **more} for row, more in zip(chunk.dicts(), new or [{}] * len(chunk), strict=True)]
        if self._kind == "jsonl":
            self._put(b"".join(json_bytes(row) + b"\n" for row in rows))
        elif self._kind == "json":
            self._put((b",\n" if self.written else b"\n") + b",\n".join(map(json_bytes, rows)))
        else:
            self._put(self._csv([[_cell(row.get(name)) for name in self._header] for row in rows]))

    def _csv(self, rows: Sequence[Sequence[str]]) -> bytes:
        lines = (self._delimiter.join(map(self._quoted, row)) + "\n" for row in rows)
        return "".join(lines).encode("utf-8", "backslashreplace")

    def _quoted(self, cell: str) -> str:
        cell = without_formula(cell)
        # Not csv.writer: before Python 3.13 it leaves a cell with a carriage return without quotation marks.
        if any(sign in cell for sign in (self._delimiter, '"', "\n", "\r")):
            return '"' + cell.replace('"', '""') + '"'
        return cell

    def _put(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            self._file.truncate(self._size)
            self._file.seek(self._size)
            raise
        self._size += len(data)

    def _close(self, about: dict[str, Any]) -> None:
        self._put(b"\n]\n" if self._kind == "json" else b"")
        os.fsync(self._file.fileno())
        self._file.close()

    def _release(self) -> None:
        self._file.close()


class _ArrowWriter(Writer):
    """Writes a Parquet file; a folder of them, with the same number of rows each; or a saved data set."""

    def __init__(self, path: Path, kind: str, source: RowSource, types: Mapping[str, pa.DataType], size: int):
        self._kind, self._rows_per_file, self._before = kind, size, source.schema()
        self._after = extended_schema(self._before, types)
        self._n_files = self._n_rows = 0  # files that were begun, rows in the one that is open
        super().__init__(path)

    def _begin(self) -> None:
        if self._kind != "parquet":
            self.partial.mkdir()
        self._begin_file()

    def _begin_file(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = {"parts": f"part-{self._n_files:06d}.parquet", "dataset": _DATA_FILE, "parquet": ""}
        self._file = open(self.partial / names[self._kind], "xb")
        make = pa.ipc.new_stream if self._kind == "dataset" else pq.ParquetWriter
        self._writer: Any = make(self._file, self._after)
        self._n_files, self._n_rows = self._n_files + 1, 0

    def _end_file(self) -> None:
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def _write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        import pyarrow as pa

        self._is_broken = True  # until the row group is whole
        arrays = [
            pa.array(map(_storable, cells), self._after.field(name).type, size=len(cells))
            for name, cells in columns.items()
        ]
        table = pa.Table.from_arrays([*chunk.arrow(self._before).columns, *arrays], schema=self._after)
        while table.num_rows:
            if self._n_rows == self._rows_per_file:
                self._end_file()
                self._begin_file()
            part = table.slice(0, self._rows_per_file - self._n_rows)
            self._writer.write_table(part, part.num_rows)
            self._n_rows += part.num_rows
            table = table.slice(part.num_rows)
        self._file.flush()
        self._is_broken = False

    def _close(self, about: dict[str, Any]) -> None:
        self._is_broken = True
        described = json.dumps(about, ensure_ascii=False) if about else ""
        if about and self._kind == "parquet":
            self._writer.add_key_value_metadata({"capscore": described})
        self._end_file()
        if self._kind == "dataset":
            _describe_data_set(self.partial, self._after, described)
        self._is_broken = False

    def _release(self) -> None:
        with suppress(Exception):
            self._writer.close()
        self._file.close()


def _describe_data_set(folder: Path, schema: pa.Schema, description: str) -> None:
    """Write the files that `save_to_disk` writes beside the data."""
    import datasets

    features = datasets.Features.from_arrow_schema(schema)
    datasets.DatasetInfo(description=description, features=features).write_to_directory(str(folder))
    state: dict[str, Any] = {
        "_data_files": [{"filename": _DATA_FILE}],
        "_fingerprint": uuid.uuid4().hex[:16],
        **dict.fromkeys(("_format_columns", "_format_type", "_split")),
        "_format_kwargs": {},
        "_output_all_columns": False,
    }
    (folder / "state.json").write_text(json.dumps(state, indent=2), encoding="utf-8")


def _storable(value: Any) -> Any:
    """A new value; half a surrogate pair, as a path in an error may hold, as its escape."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _replace(new: Path, path: Path) -> None:
    """Give a file or folder its name; a folder that had it is removed once the new one is there."""
    if not path.is_dir():
        os.replace(new, path)
        return
    with tempfile.TemporaryDirectory(prefix=f"{path.name}.old.", dir=path.parent) as old:
        os.rename(path, Path(old, path.name))
        try:
            os.rename(new, path)
        except OSError:
            os.rename(Path(old, path.name), path)
            raise


def output_kind(path: Path) -> str:
    """The kind of result that a name asks for: by its suffix, and a data set's folder where there is none.

    Raises:
        InputError: Nothing can be written for the suffix.
    """
    suffix = path.suffix.lower()
    if suffix in KINDS:
        return KINDS[suffix]
    if not suffix or path.is_dir():
        return "dataset"
    raise InputError(
        Setting("output", path),
        f": {suffix} files cannot be written; expected {', '.join(KINDS)}, or a name without a suffix for a "
        "saved data set",
    )


def partial_path(path: Path) -> Path:
    """Path of an unfinished result: scores.jsonl → scores.partial.jsonl."""
    suffix = path.suffix if path.suffix.lower() in KINDS else ""
    return path.with_name(f"{path.name.removesuffix(suffix)}.partial{suffix}")


def summary_path(path: Path) -> Path:
    """Path of a result's summary: scores.jsonl → scores.summary.json."""
    suffix = path.suffix if path.suffix.lower() in KINDS else ""
    return path.with_name(f"{path.name.removesuffix(suffix)}.summary.json")


def check_output(
    output: str | Path, source: RowSource, *, force: bool = False, rows_per_file: int | None = None
) -> Path:
    """Check that a result can be written, before any work is done; makes its folder.

    Args:
        output: Path of the result.
        source: Rows that the result will hold.
        force: Whether an earlier result may be replaced.
        rows_per_file: Rows of each Parquet file of a folder; None for one file, or a saved data set.

    Returns:
        The path, with links followed.

    Raises:
        InputError: The result exists (and not `force`), is the input, is of an unknown kind or one that
            cannot hold the columns, or its folder cannot be written to.
    """
    given = Setting("output", Path(output))
    kind = output_kind(Path(output)) if rows_per_file is None else "parts"
    try:
        target = Path(os.path.realpath(Path(output).expanduser()))
        exists = target.exists()
        if not exists:
            target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target.parent) as probe:
            probe.write(b"capscore")
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # also a name that is too long
        reason = getattr(error, "strerror", None) or error
        raise InputError(Setting("output", str(output)[:80]), f" cannot be written: {reason}") from None
    if kind == "parts" and target.suffix.lower() in KINDS.keys() - {".parquet"}:
        raise InputError(given, ": expected the name of a folder for ", Setting("rows_per_file"))
    if target == Path(os.path.realpath(source.path)):
        raise InputError(given, " is the input; the result needs a name of its own")
    for path in (target, partial_path(target)):
        if path.exists() and not _is_result(path, kind):
            raise InputError(f"{path} exists and is not a result of this kind; choose another ", given)
    for path in (target, summary_path(target)):
        if path.exists() and not force:
            raise InputError(given, f": {path} exists; ", Setting("force", True), " overwrites it")
    if kind not in ("parquet", "parts", "dataset"):
        refuse_bytes(source, given, target.suffix)
    elif kind == "dataset":
        import datasets

        try:
            datasets.Features.from_arrow_schema(source.schema().remove_metadata())
        except InputError:
            raise
        except Exception as error:  # ValueError for most types, others for nested ones
            raise InputError(
                given, f": no data set can hold the columns ({error}); write a .parquet or .jsonl file"
            ) from None
    return target


def _is_result(path: Path, kind: str) -> bool:
    """Whether something may be replaced by a result of a kind: it is one, or an empty folder."""
    if kind not in ("dataset", "parts"):
        return path.is_file()
    if not path.is_dir():
        return False
    names = os.listdir(path)
    if kind == "parts":
        return not names or bool(parquet_parts(path))
    return not names or "state.json" in names or names == [_DATA_FILE]


def open_writer(
    path: Path, source: RowSource, columns: Mapping[str, type], *, rows_per_file: int | None = None
) -> Writer:
    """Begin a result.

    Args:
        path: Path that `check_output` returned.
        source: Rows of the result; their columns come first and stay as they are.
        columns: Type of each new column, float or str.
        rows_per_file: Rows of each Parquet file of a folder; None for one file, or a saved data set.

    Raises:
        ResultWriteError: The file cannot be begun.
        InputError: The input's columns do not fit the kind of file.
    """
    kind = output_kind(path) if rows_per_file is None else "parts"
    if kind not in ("parquet", "dataset", "parts"):
        return _TextWriter(path, kind, [*source.columns, *columns])
    import pyarrow as pa

    types = {name: pa.float64() if of is float else pa.string() for name, of in columns.items()}
    return _ArrowWriter(path, kind, source, types, rows_per_file or 2**62)


def refuse_bytes(source: RowSource, given: Setting, kind: str) -> None:
    """Raise InputError if a column holds bytes, which text of the `kind` that an option asks for cannot."""
    for field in source.schema() if isinstance(source, ArrowSource) else ():
        if re.search(r"binary(_view)?(\[\d+\])?($|[^\w:])", str(field.type)):
            raise InputError(
                given,
                f": the column {field.name!r} of {source.path} holds bytes (images?), which {kind} cannot; "
                "write a .parquet file, or a data set (a name without a suffix)",
            )


# ---- cells ----


def json_bytes(value: Any, *, ascii_only: bool = False) -> bytes:
    """A value as JSON on one line; NaN and infinity, which JSON lacks, as null; dates and bytes as text.

    >>> json_bytes({"a": [1.5, float("nan")], "day": datetime.date(2020, 1, 2)})
    b'{"a": [1.5, null], "day": "2020-01-02"}'
    """
    try:
        text = json.dumps(value, ensure_ascii=ascii_only, default=_plain, allow_nan=False)
        return text.encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can carry
        return json_bytes(value, ascii_only=True)
    except ValueError:  # looked for only where there is one
        return json_bytes(_finite(value), ascii_only=ascii_only)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def _plain(value: Any) -> str:
    """A value that JSON has no type for, as text."""
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "backslashreplace")
    return str(value)


def _cell(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)  # NaN and Infinity, which programs that read CSV know
    if isinstance(value, (bool, int, float, list, tuple, dict)):
        return json_bytes(value).decode()
    return _plain(value)


def without_formula(cell: str) -> str:
    """The cell as a CSV file has it.

    >>> [without_formula(cell) for cell in ("=1+1", "-0.5", "A cat.", "'@x")]
    ["'=1+1", '-0.5', 'A cat.', "''@x"]
    """
    return f"'{cell}" if _RUNS.match(cell) and not _NUMBER.fullmatch(cell) else cell
