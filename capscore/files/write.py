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
_STREAM = "rows.arrow"


class Writer(ABC):
    """Takes chunks with new columns, and writes them to `partial` until `finish` renames it to `path`.

    Attributes:
        path: Path of the result.
        partial: Path of the unfinished result, a file of the same kind.
        written: Number of rows that have been written whole.
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
            ResultWriteError: The rows cannot be written; those written before stay whole.
        """
        with self._errors_named():
            self._write(chunk, columns)
        self.written += len(chunk)

    def finish(self, about: dict[str, Any], summary: str) -> None:
        """Close the file and give it its name, replacing any file of that name, and write the summary.

        Args:
            about: What the numbers depend on, JSON-ready; kept in the file if its kind has a place for it.
            summary: Content of the file at `summary_path`.

        Raises:
            ResultWriteError: The result cannot be written; no file has its name.
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
                        f"({self.partial}); give each its own ",
                        Setting("output"),
                    )
                # a file's name may hold bytes that are not text
                beside.write_text(summary, encoding="utf-8", errors="backslashreplace")
                self._rename()
                os.replace(beside, place)
            except Exception:
                with suppress(OSError):
                    beside.unlink()
                raise

    def stop(self) -> Path | None:
        """Close the unfinished result, and return its path, or None if there is nothing to keep."""
        if self._claimed is not None and self._identity() != self._claimed:
            return None  # that file belongs to another program
        try:
            if not self._broken and self.written:
                if not self._closed:
                    self._close({})
                return self.partial if self.partial.exists() else None
        except Exception:  # no room even for the last bytes, so the file could not be opened
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
    if kind == "parts":
        _check_parts(target, given)
    elif output_kind(target) != kind:
        raise InputError(given, f" is a link to {target}, whose name asks for another kind of file")
    if target == Path(os.path.realpath(source.path)):
        raise InputError(given, " is the input; the result needs a name of its own")
    if target.exists():
        if kind == "dataset":
            replaceable = target.is_dir() and ((target / "state.json").is_file() or not any(target.iterdir()))
            if not replaceable:
                raise InputError(given, " exists and is not a saved data set; it is left alone")
        elif kind != "parts" and not target.is_file():
            raise InputError(given, " exists and is not a regular file")
    if not force:
        for place, what in ((target, ""), (summary_path(target), f": its summary {summary_path(target)}")):
            if place.exists():
                raise InputError(given, f"{what} exists; ", Setting("force", True), " overwrites it")
    partial = partial_path(target)
    ours = partial.is_file()
    if kind == "dataset":
        ours = any((partial / name).is_file() for name in ("state.json", _STREAM))
    elif kind == "parts":
        ours = _is_parts(partial)
    if partial.exists() and not ours:
        raise InputError(given, f" is first written to {partial}, which is something else; rename that")
    if kind not in ("parquet", "parts", "dataset"):
        refuse_bytes(source, given, target.suffix)
    elif kind == "dataset":
        _refuse_unknown_types(source, given)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target.parent) as probe:
            probe.write(b"capscore")
    except OSError as error:
        raise InputError(
            given, f": {target.parent} cannot be written to: {error.strerror or error}"
        ) from None
    return target


def _is_parts(folder: Path) -> bool:
    return folder.is_dir() and (bool(parquet_parts(folder)) or not any(folder.iterdir()))


def _check_parts(target: Path, given: Setting) -> None:
    """Raise InputError unless a folder of Parquet files can have this name."""
    if target.suffix.lower() in KINDS and target.suffix.lower() != ".parquet":
        raise InputError(
            given,
            ": expected a name without a suffix, or with .parquet, for a folder of Parquet files (",
            Setting("rows_per_file"),
            ")",
        )
    if target.exists() and not _is_parts(target):
        raise InputError(given, " exists and is not a folder of Parquet files alone; it is left alone")


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
    writer = _make_writer(path, source, columns, rows_per_file)
    writer.claim()
    return writer


def _make_writer(
    path: Path, source: RowSource, columns: Mapping[str, type], rows_per_file: int | None
) -> Writer:
    kind = output_kind(path) if rows_per_file is None else "parts"
    if kind in ("parquet", "dataset", "parts"):
        import pyarrow as pa

        types = {name: pa.float64() if of is float else pa.string() for name, of in columns.items()}
        before = source.schema()
        after = extended_schema(before, types)
        if rows_per_file is not None:
            return _PartsWriter(path, before, after, rows_per_file)
        return (_ParquetWriter if kind == "parquet" else _DatasetWriter)(path, before, after)
    if kind in ("csv", "tsv"):
        return _CsvWriter(path, [*source.columns, *columns], "\t" if kind == "tsv" else ",")
    return _JsonWriter(path, as_list=kind == "json")


class _TextWriter(Writer):
    """Writes text chunk by chunk; after an error the file is cut back to the last whole chunk."""

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
            json_bytes({**row, **{name: values[number] for name, values in columns.items()}})
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
        cell = without_formula(cell)
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


class _PartsWriter(Writer):
    """Writes a folder of Parquet files, each with the same number of rows, the last one with the rest."""

    def __init__(self, path: Path, before: pa.Schema, after: pa.Schema, rows_per_file: int):
        super().__init__(path)
        self._before, self._after, self._size = before, after, rows_per_file
        self._file: Any = None
        self._writer: Any = None
        self._rows = self._number = 0  # rows in the part that is open, parts that were begun
        with self._errors_named():
            if self.partial.exists():
                shutil.rmtree(self.partial)
            self.partial.mkdir()

    def _write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        self._broken = True
        start = 0
        while start < len(chunk):
            if self._writer is None:
                self._begin_part()
            stop = min(len(chunk), start + self._size - self._rows)
            values = {name: cells[start:stop] for name, cells in columns.items()}
            table = _joined(chunk.part(start, stop), values, self._before, self._after)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._rows += table.num_rows
            start = stop
            if self._rows == self._size:
                self._end_part()
        self._broken = False

    def _begin_part(self) -> None:
        import pyarrow.parquet as pq

        self._file = open(self.partial / f"part-{self._number:06d}.parquet", "xb")
        self._writer = pq.ParquetWriter(self._file, self._after)
        self._number, self._rows = self._number + 1, 0

    def _end_part(self) -> None:
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._writer = self._file = None

    def _close(self, about: dict[str, Any]) -> None:
        self._broken = True
        if self._writer is not None:
            self._end_part()
        self._broken = False

    def _rename(self) -> None:
        _replace_folder(self.partial, self.path)

    def _discard(self) -> None:
        for open_file in (self._writer, self._file):
            with suppress(Exception):  # the disk is full still; the folder goes anyway
                open_file.close()
        shutil.rmtree(self.partial, ignore_errors=True)


def _replace_folder(new: Path, path: Path) -> None:
    """Give a folder its name; a folder that had it is removed once the new one is there."""
    if not path.exists():
        os.rename(new, path)
        return
    old = Path(tempfile.mkdtemp(prefix=f"{path.name}.old.", dir=path.parent))
    os.rename(path, old / path.name)
    try:
        os.rename(new, path)
    except OSError:
        os.rename(old / path.name, path)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


class _DatasetWriter(Writer):
    """Writes one Arrow file into a folder, with the files beside it that `save_to_disk` writes."""

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
        # a data set of one empty row is saved for the files beside it; then its data are replaced
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
        _replace_folder(self.partial, self.path)

    def _discard(self) -> None:
        for close in (self._writer.close, self._file.close):
            with suppress(Exception):
                close()
        shutil.rmtree(self.partial, ignore_errors=True)


def _joined(chunk: Chunk, columns: dict[str, list[Any]], before: pa.Schema, after: pa.Schema) -> pa.Table:
    import pyarrow as pa

    table = chunk.arrow(before)
    new = [pa.array(list(map(_storable, values)), after.field(name).type) for name, values in columns.items()]
    return pa.Table.from_arrays([*table.columns, *new], schema=after)


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
