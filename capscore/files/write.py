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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..errors import InputError, ResultWriteError, Setting
from .read import FORMATS, FORMULA_SIGNS
from .row_source import Chunk, RowSource, extended_schema

if TYPE_CHECKING:
    import pyarrow as pa

# suffix → kind of file that can be written
_KINDS = {suffix: known.name for known in FORMATS for suffix in known.suffixes}
_DELIMITERS = {"csv": ",", "tsv": "\t"}
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


class Writer:
    """Takes chunks with new columns, and writes them beside the result until `finish` gives it its name.

    Args:
        path: Path that `check_output` returned.
        source: Rows of the result; their columns come first and stay as they are.
        columns: Type of each new column: float, str or bool.

    Raises:
        ResultWriteError: The file cannot be begun.
        InputError: The input's columns do not fit the kind of file.
    """

    def __init__(self, path: Path, source: RowSource, columns: Mapping[str, type]):
        self.path, self._kind, self._is_first = path, output_kind(path), True
        self._partial = path.with_name(f".{uuid.uuid4().hex[:12]}.partial")
        self._header = [*source.columns, *columns]
        self._table: Any = None
        try:
            with self._errors_named():
                self._begin(source, columns)
        except BaseException:
            self.stop()
            raise

    def _begin(self, source: RowSource, columns: Mapping[str, type]) -> None:
        if self._kind not in ("parquet", "dataset"):
            self._file = open(self._partial, "xb")
            header = {name: name for name in self._header}
            self._file.write(self._as_table([header]) if self._kind in _DELIMITERS else b"")
            self._file.write(b"[" if self._kind == "json" else b"")
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrow = {float: pa.float64(), str: pa.string(), bool: pa.bool_()}
        types = {name: arrow[kind] for name, kind in columns.items()}
        self._before = source.schema()
        self._after = extended_schema(self._before, types)
        if self._kind == "dataset":
            self._partial.mkdir()
        self._file = open(self._partial / _DATA_FILE if self._kind == "dataset" else self._partial, "xb")
        make: Any = pa.ipc.new_stream if self._kind == "dataset" else pq.ParquetWriter
        self._table = make(self._file, self._after)

    def write(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        """Add the rows of a chunk, each with its values of the new columns.

        Raises:
            ResultWriteError: The rows cannot be written.
        """
        with self._errors_named():
            if self._table is not None:
                self._write_arrow(chunk, columns)
                return
            rows = [
                {**row, **{name: values[index] for name, values in columns.items()}}
                for index, row in enumerate(chunk.dicts())
            ]
            if self._kind == "jsonl":
                self._file.write(b"".join(json_bytes(row) + b"\n" for row in rows))
            elif self._kind == "json":
                before = b"\n" if self._is_first else b",\n"
                self._file.write(before + b",\n".join(map(json_bytes, rows)))
            else:
                self._file.write(self._as_table(rows))
            self._is_first = False

    def _write_arrow(self, chunk: Chunk, columns: dict[str, list[Any]]) -> None:
        import pyarrow as pa

        arrays = [
            pa.array(map(_storable, cells), self._after.field(name).type, size=len(cells))
            for name, cells in columns.items()
        ]
        table = pa.Table.from_arrays([*chunk.arrow(self._before).columns, *arrays], schema=self._after)
        self._table.write_table(table, table.num_rows)

    def _as_table(self, rows: Sequence[Mapping[str, Any]]) -> bytes:
        delimiter = _DELIMITERS[self._kind]
        cells = ([_quoted(_cell(row.get(name)), delimiter) for name in self._header] for row in rows)
        # a blank line is no row: an empty cell that is alone needs quotation marks
        lines = (delimiter.join(row) or '""' for row in cells)
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")

    def finish(self, about: dict[str, Any], summary: str) -> None:
        """Close the file and give it its name, replacing any file of that name, and write the summary.

        Args:
            about: What the numbers depend on, JSON-ready; kept in the file if its kind has room for it.
            summary: Content of the file at `summary_path`.

        Raises:
            ResultWriteError: The result cannot be written; no file has its name.
        """
        described = json.dumps(about, ensure_ascii=False) if about else ""
        with self._errors_named(), whole_file(summary_path(self.path), "summary") as file:
            if self._kind == "json":
                self._file.write(b"\n]\n")
            if self._kind == "parquet" and about:
                self._table.add_key_value_metadata({"capscore": described})
            if self._table is not None:
                self._table.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            if self._kind == "dataset":
                _describe_data_set(self._partial, self._after, described)
            # a file's name may hold bytes that are not text
            file.write(summary.encode("utf-8", "backslashreplace"))
            file.flush()
            _replace(self._partial, self.path)

    def stop(self) -> None:
        """Remove what was written; after `finish`, nothing."""
        with suppress(Exception):  # no room even for the last bytes
            if self._table is not None:
                self._table.close()
        with suppress(Exception):
            self._file.close()
        if self._partial.is_dir():
            shutil.rmtree(self._partial, ignore_errors=True)
        else:
            self._partial.unlink(missing_ok=True)

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


def _replace(new: Path, path: Path) -> None:
    """Give a file or folder its name; a folder that had it is removed once the new one is there."""
    if not path.is_dir():
        os.replace(new, path)
        return
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        old = Path(folder, path.name)
        os.rename(path, old)
        try:
            os.rename(new, path)
        except OSError:
            os.rename(old, path)
            raise


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


def output_kind(path: Path) -> str:
    """The kind of result that a name asks for: by its suffix, and a data set's folder where there is none.

    Raises:
        InputError: Nothing can be written for the suffix.
    """
    suffix = path.suffix.lower()
    if suffix in _KINDS:
        return _KINDS[suffix]
    if not suffix or path.is_dir():
        return "dataset"
    raise InputError(
        Setting("output", path),
        f": {suffix} files cannot be written; expected {', '.join(_KINDS)}, or a name without a suffix for a "
        "saved data set",
    )


def summary_path(path: Path) -> Path:
    """Path of a result's summary: scores.jsonl → scores.summary.json."""
    suffix = path.suffix if path.suffix.lower() in _KINDS else ""
    return path.with_name(f"{path.name.removesuffix(suffix)}.summary.json")


def check_output(output: str | Path, source: RowSource, *, force: bool = False) -> Path:
    """Check that a result can be written, before any work is done; makes its folder.

    Args:
        output: Path of the result.
        source: Rows that the result will hold.
        force: Whether an earlier result may be replaced.

    Returns:
        The path, with links followed.

    Raises:
        InputError: The result exists (and not `force`), is the input, is of an unknown kind or one that
            cannot hold the columns, or its folder cannot be written to.
    """
    given, kind = Setting("output", Path(output)), output_kind(Path(output))
    try:
        target = Path(os.path.realpath(Path(output).expanduser()))
        exists = target.exists()
        if not exists:
            target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target.parent) as probe:
            probe.write(b"capscore")
    except (OSError, ValueError, RuntimeError) as error:  # also a name that is too long
        reason = getattr(error, "strerror", None) or error
        raise InputError(Setting("output", str(output)[:80]), f" cannot be written: {reason}") from None
    if target == Path(os.path.realpath(source.path)):
        raise InputError(given, " is the input; the result needs a name of its own")
    is_result = target.is_file()
    if kind == "dataset":
        is_result = target.is_dir() and ((target / "state.json").is_file() or not os.listdir(target))
    if exists and not is_result:
        raise InputError(f"{target} exists and is not a result of this kind; choose another ", given)
    for path in (target, summary_path(target)):
        if path.exists() and not force:
            raise InputError(given, f": {path} exists; ", Setting("force", True), " overwrites it")
    if kind not in ("parquet", "dataset"):
        refuse_bytes(source, given, target.suffix)
    elif kind == "dataset":
        schema = source.schema().remove_metadata()
        import datasets

        try:
            datasets.Features.from_arrow_schema(schema)
        except Exception as error:  # ValueError for most types, others for nested ones
            raise InputError(
                given, f": no data set can hold the columns ({error}); write a .parquet or .jsonl file"
            ) from None
    return target


def refuse_bytes(source: RowSource, given: Setting, kind: str) -> None:
    """Raise InputError if a column holds bytes, which text of the `kind` that an option asks for cannot."""
    for field in source.arrow_schema or ():
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


def _quoted(cell: str, delimiter: str) -> str:
    cell = without_formula(cell)
    # Not csv.writer: before Python 3.13 it leaves a cell with a carriage return without quotation marks.
    if any(sign in cell for sign in (delimiter, '"', "\n", "\r")):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def without_formula(cell: str) -> str:
    """The cell as a CSV file has it.

    >>> [without_formula(cell) for cell in ("=1+1", "-0.5", "A cat.", "'@x")]
    ["'=1+1", '-0.5', 'A cat.', "''@x"]
    """
    return f"'{cell}" if _RUNS.match(cell) and not _NUMBER.fullmatch(cell) else cell
