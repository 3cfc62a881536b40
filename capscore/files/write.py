"""Writes chunks of rows, and new columns, to JSONL, JSON, CSV, TSV and Parquet files and to saved data sets.

A result has another name, with `.partial` in it, until it is whole.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, ResultWriteError, Setting
from .cells import json_text, plain, without_formula
from .read import KINDS, parquet_parts
from .row_source import ArrowSource, Chunk, RowSource, extended_schema

if TYPE_CHECKING:
    import pyarrow as pa

_DATA_FILE = "data-00000-of-00001.arrow"


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
        self._inode: int | None = None  # of `partial`, which another program could replace

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
        summary_file = summary_path(self.path)
        unfinished = summary_file.with_name(f"{summary_file.name}.partial")
        with self._errors_named():
            try:
                self._close(about)
                self._is_closed = True
                if self._is_replaced():
                    raise ResultWriteError(
                        f"{self.path} was not written: another program began to write the same result "
                        f"({self.partial}); give each its own ",
                        Setting("output"),
                    )
                # a file's name may hold bytes that are not text
                unfinished.write_text(summary, encoding="utf-8", errors="backslashreplace")
                _replace(self.partial, self.path)
                os.replace(unfinished, summary_file)
            except Exception:
                unfinished.unlink(missing_ok=True)
                raise

    def stop(self) -> Path | None:
        """Close the unfinished result, and return its path, or None if there is nothing to keep."""
        if self._is_replaced():
            return None
        try:
            if self.written and not self._is_broken:
                if not self._is_closed:
                    self._close({})
                return self.partial if self.partial.exists() else None
        except Exception:  # no room even for the last bytes, so the file could not be opened
            pass
        with suppress(Exception):  # the disk is full still; the file goes anyway
            self._release()
        _remove(self.partial)
        return None

    def _is_replaced(self) -> bool:
        try:
            return self._inode is not None and os.stat(self.partial).st_ino != self._inode
        except FileNotFoundError:
            return True

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except (OSError, pa.ArrowException) as error:
            reason = getattr(error, "strerror", None) or error
            raise ResultWriteError(
                f"{self.path} could not be written: {reason}. Nothing half-written has that name"
            ) from error

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

    _tail = b""

    def __init__(self, path: Path, head: bytes = b""):
        super().__init__(path)
        self._size = 0
        with self._errors_named():
            _remove(self.partial)
            self._file = open(self.partial, "xb", buffering=0)
            self._inode = os.fstat(self._file.fileno()).st_ino
            try:
                self._put(head)
            except OSError:
                self.stop()
                raise

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
        self._put(self._tail)
        os.fsync(self._file.fileno())
        self._file.close()

    def _release(self) -> None:
        self._file.close()


class _JsonWriter(_TextWriter):
    def __init__(self, path: Path, *, as_list: bool):
        self._as_list = as_list
        self._tail = b"\n]\n" if as_list else b""
        super().__init__(path, b"[" if as_list else b"")

    def _write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        rows = [json_bytes(row) for row in _extended_rows(chunk, columns)]
        if self._as_list:
            self._put((b",\n" if self.written else b"\n") + b",\n".join(rows))
        else:
            self._put(b"".join(row + b"\n" for row in rows))


class _CsvWriter(_TextWriter):
    def __init__(self, path: Path, header: Sequence[str], delimiter: str):
        self._header, self._delimiter = header, delimiter
        super().__init__(path, self._encoded([header]))

    def _write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        rows = _extended_rows(chunk, columns)
        self._put(self._encoded([[_cell(row.get(name)) for name in self._header] for row in rows]))

    def _encoded(self, rows: Sequence[Sequence[str]]) -> bytes:
        lines = (self._delimiter.join(map(self._quoted, row)) + "\n" for row in rows)
        return "".join(lines).encode("utf-8", "backslashreplace")

    def _quoted(self, cell: str) -> str:
        cell = without_formula(cell)
        # Not csv.writer: before Python 3.13 it leaves a cell with a carriage return without quotation marks.
        if any(sign in cell for sign in (self._delimiter, '"', "\n", "\r")):
            return '"' + cell.replace('"', '""') + '"'
        return cell


class _ArrowWriter(Writer):
    """Writes a Parquet file; a folder of them, with the same number of rows each; or a saved data set."""

    def __init__(self, path: Path, source: RowSource, types: Mapping[str, pa.DataType], kind: str, size: int):
        super().__init__(path)
        self._before, self._kind, self._rows_per_file = source.schema(), kind, size
        self._after = extended_schema(self._before, types)
        self._file: Any = None
        self._writer: Any = None
        self._n_files = self._n_rows = 0  # files that were begun, rows in the one that is open
        with self._errors_named():
            _remove(self.partial)
            if kind != "parquet":
                self.partial.mkdir()
            self._begin_file()
            self._inode = os.stat(self.partial).st_ino

    def _begin_file(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = {"parts": f"part-{self._n_files:06d}.parquet", "dataset": _DATA_FILE, "parquet": ""}
        self._file = open(self.partial / names[self._kind], "xb")
        make = pa.ipc.new_stream if self._kind == "dataset" else pq.ParquetWriter
        self._writer = make(self._file, self._after)
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
        if about and self._kind == "parquet":
            self._writer.add_key_value_metadata({"capscore": json.dumps(about, ensure_ascii=False)})
        self._end_file()
        if self._kind == "dataset":
            _describe_data_set(self.partial, self._after, about)
        self._is_broken = False

    def _release(self) -> None:
        with suppress(Exception):
            self._writer.close()
        self._file.close()


def _describe_data_set(folder: Path, schema: pa.Schema, about: dict[str, Any]) -> None:
    """Write the files that `save_to_disk` writes beside the data."""
    import datasets
    import pyarrow as pa

    info = datasets.DatasetInfo(
        features=datasets.Features.from_arrow_schema(schema),
        description=json.dumps(about, ensure_ascii=False) if about else "",
    )
    # a data set of one empty row is saved for the files beside it
    empty = datasets.Dataset(pa.Table.from_pylist([{}], schema=schema), info=info)
    with tempfile.TemporaryDirectory(dir=folder.parent) as other:
        is_quiet = datasets.are_progress_bars_disabled()
        datasets.disable_progress_bars()
        try:
            empty.save_to_disk(other, num_shards=1)
        finally:
            if not is_quiet:
                datasets.enable_progress_bars()
        for name in ("dataset_info.json", "state.json"):
            os.replace(Path(other, name), folder / name)


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
    try:
        target = Path(os.path.realpath(Path(output).expanduser()))
        target.exists()
    except (OSError, ValueError, RuntimeError) as error:  # too long; NUL; the home of nobody
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            Setting("output", str(output)[:80]), f": no file can have this name: {reason}"
        ) from None
    given = Setting("output", Path(output))
    kind = output_kind(Path(output)) if rows_per_file is None else "parts"
    if kind == "parts" and target.suffix.lower() in KINDS.keys() - {".parquet"}:
        raise InputError(
            given,
            ": expected a name without a suffix, or with .parquet, for a folder of Parquet files (",
            Setting("rows_per_file"),
            ")",
        )
    if target == Path(os.path.realpath(source.path)):
        raise InputError(given, " is the input; the result needs a name of its own")
    for path in (target, partial_path(target)):
        if path.exists() and not _is_result(path, kind):
            raise InputError(
                f"{path} exists and is not a result of this kind; it is left alone: choose another ",
                Setting("output"),
            )
    for path, what in ((target, ""), (summary_path(target), f": its summary {summary_path(target)}")):
        if path.exists() and not force:
            raise InputError(given, f"{what} exists; ", Setting("force", True), " overwrites it")
    if kind not in ("parquet", "parts", "dataset"):
        refuse_bytes(source, given, target.suffix)
    elif kind == "dataset":
        _refuse_unknown_types(source, given)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target.parent) as probe:
            probe.write(b"capscore")
    except OSError as error:
        reason = error.strerror or error
        raise InputError(given, f": {target.parent} cannot be written to: {reason}") from None
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
    if kind in ("parquet", "dataset", "parts"):
        import pyarrow as pa

        types = {name: pa.float64() if of is float else pa.string() for name, of in columns.items()}
        return _ArrowWriter(path, source, types, kind, rows_per_file or 2**62)
    if kind in ("csv", "tsv"):
        return _CsvWriter(path, [*source.columns, *columns], "\t" if kind == "tsv" else ",")
    return _JsonWriter(path, as_list=kind == "json")


def _extended_rows(chunk: Chunk, columns: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(chunk.dicts()):
        yield {**row, **{name: values[number] for name, values in columns.items()}}


def _storable(value: Any) -> Any:
    """A new value; half a surrogate pair, as a path in an error may hold, as its escape."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def refuse_bytes(source: RowSource, given: Setting, kind: str) -> None:
    """Raise InputError if a column holds bytes, which text cannot.

    Args:
        source: Rows to write.
        given: Option that asks for text.
        kind: Kind of text that it asks for.
    """
    if not isinstance(source, ArrowSource):
        return
    for field in source.schema():
        if _holds_bytes(field.type):
            raise InputError(
                given,
                f": the column {field.name!r} of {source.path} holds bytes (images?), which {kind} cannot; "
                "write a .parquet file, or a data set (a name without a suffix)",
            )


def _refuse_unknown_types(source: RowSource, given: Setting) -> None:
    import datasets
    import pyarrow as pa

    for field in source.schema().remove_metadata():
        try:
            datasets.Features.from_arrow_schema(pa.schema([field]))
        except Exception as error:  # ValueError for most types, others for nested ones
            raise InputError(
                given,
                f": the column {field.name!r:.60} of {source.path} has the type {field.type!s:.60}, which "
                f"no data set can hold ({error}); write a .parquet or .jsonl file",
            ) from None


def _holds_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return False  # a UUID, say, which has a text of its own
    if pa.types.is_dictionary(kind):
        return _holds_bytes(kind.value_type)
    if any(of_bytes(kind) for of_bytes in (pa.types.is_binary, pa.types.is_large_binary)):
        return True
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        return True
    return any(_holds_bytes(kind.field(number).type) for number in range(kind.num_fields))


def json_bytes(value: Any, *, ascii_only: bool = False) -> bytes:
    """A row as JSON on one line; NaN and infinity, which JSON lacks, as null."""
    if not ascii_only:
        # half a surrogate pair, which only an escape can carry, goes the other way
        with suppress(UnicodeEncodeError):
            return json_text(value).encode("utf-8")
    return json_text(value, ascii_only=True).encode("ascii")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)  # NaN and Infinity, which programs that read CSV know
    if isinstance(value, (bool, int, float, list, tuple, dict)):
        return json_text(value)
    return plain(value)
