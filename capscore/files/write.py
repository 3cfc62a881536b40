"""Writes files that have their name only once they are whole: any file, and rows with new columns.

Rows go to JSONL, JSON, CSV, TSV and Parquet files. In CSV and TSV, new numbers have 6 significant digits, and
a text that a spreadsheet would run as a formula (it begins with = + - @, a tab or a line break, and is no
number) gets an apostrophe in front, which reading takes away: `=1+1` is written `'=1+1`, and `'=1+1` is
written `''=1+1`.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from ..errors import InputError, ResultWriteError, Setting
from .columns import is_missing
from .read import FORMATS
from .row_source import IN_MEMORY, Chunk, RowSource, extended_schema
from .scratch import name_partial, open_partial
from .text_files import FORMULA_SIGNS

# suffix → kind of file that can be written
_KINDS: dict[str, str] = {}
for _known in FORMATS:
    if _known.is_written:
        _KINDS |= dict.fromkeys(_known.suffixes, _known.name)
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_RUNS = re.compile(f"'*[{FORMULA_SIGNS}]")
_BINARY = re.compile(r"binary(_view)?(\[\d+\])?($|[^\w:])")  # Arrow's name of a type
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|-Infinity")


_NAMED: ContextVar[list[Path] | None] = ContextVar("_NAMED", default=None)


@contextmanager
def files_noted() -> Iterator[list[Path]]:
    """Gives a list of the files that get their names within the block, links followed."""
    named: list[Path] = []
    token = _NAMED.set(named)
    try:
        yield named
    finally:
        _NAMED.reset(token)


def _give_name(partial: Path, file: IO[bytes], target: Path) -> None:
    name_partial(partial, file, target)
    named = _NAMED.get()
    if named is not None:
        named.append(target)


@contextmanager
def whole_file(path: str | Path, what: str = "file", *, make_folders: bool = False) -> Iterator[IO[bytes]]:
    """Open a new file for writing bytes; it takes its name when the block ends without an error.

    A link stays a link, to the new content.

    Raises:
        ResultWriteError: It cannot be written; a file that had the name before is unchanged.
    """
    path = Path(path).expanduser()
    target = Path(os.path.realpath(path))
    partial: Path | None = None
    try:
        if make_folders:
            target.parent.mkdir(parents=True, exist_ok=True)
        partial, opened = open_partial(target)
        with opened as file:
            yield file
            _give_name(partial, file, target)
    except OSError as error:
        raise ResultWriteError(
            f"the {what} {str(path)!r} could not be written: {error.strerror or error}; an existing "
            "file of that name is unchanged"
        ) from error
    finally:
        # Ctrl-C too leaves nothing half-written behind
        with suppress(OSError):
            if partial is not None:
                partial.unlink(missing_ok=True)


def write_text(path: str | Path, text: str, what: str = "file") -> None:
    """Write a UTF-8 file whole, in a folder that is made if need be; errors as in `whole_file`.

    Half a surrogate pair is written as its escape, which JSON reads back.
    """
    with whole_file(path, what, make_folders=True) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


class Writer:
    """Takes chunks with new columns, and writes them beside the result until `finish` gives it its name."""

    def __init__(self, path: Path, source: RowSource, columns: Mapping[str, type]):
        self.path, self._kind, self._before_row = path, output_kind(path), b"\n"
        self._partial: Path | None = None
        self._header = [*source.columns, *columns]
        self._table: Any = None
        try:
            with self._errors_named():
                self._partial, self._file = open_partial(path)
                if self._kind == "parquet":
                    self._begin_parquet(source, columns)
                elif self._kind in _DELIMITERS:
                    self._file.write(self._as_table([{name: name for name in self._header}]))
                elif self._kind == "json":
                    self._file.write(b"[")
        except BaseException:
            self.stop()
            raise

    def _begin_parquet(self, source: RowSource, columns: Mapping[str, type]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrow = {float: pa.float64(), str: pa.string(), bool: pa.bool_()}
        self._before = source.schema()
        self._types = {name: arrow[kind] for name, kind in columns.items()}
        self._after = extended_schema(self._before, self._types)
        self._table = pq.ParquetWriter(self._file, self._after)

    def write(self, chunk: Chunk, columns: Mapping[str, Sequence[object]]) -> None:
        """Add the rows of a chunk with their values of the new columns, or raise ResultWriteError."""
        with self._errors_named():
            if self._table is not None:
                before = replace(chunk, rows=None, table=chunk.arrow(self._before))
                cells = {name: list(map(_storable, values)) for name, values in columns.items()}
                table = before.with_columns(cells, self._types).table
                self._table.write_table(table.cast(self._after), table.num_rows)
                return
            if self._kind in _DELIMITERS:
                columns = {name: list(map(_short, values)) for name, values in columns.items()}
            rows = replace(chunk, rows=chunk.dicts(), table=None).with_columns(columns, {}).dicts()
            if self._kind == "jsonl":
                self._file.write(b"".join(json_bytes(row) + b"\n" for row in rows))
            elif self._kind == "json":
                self._file.write(self._before_row + b",\n".join(map(json_bytes, rows)))
                self._before_row = b",\n"
            else:
                self._file.write(self._as_table(rows))

    def _as_table(self, rows: Sequence[Mapping[str, object]]) -> bytes:
        delimiter = _DELIMITERS[self._kind]
        text = ""
        for row in rows:
            cells = (_quoted(_cell(row.get(name)), delimiter) for name in self._header)
            # a blank line is no row: an empty cell that is alone needs quotation marks
            text += (delimiter.join(cells) or '""') + "\n"
        return text.encode("utf-8", "backslashreplace")

    def finish(self, about: Mapping[str, object], summary: str) -> None:
        """Close the file and give it its name, replacing any file of that name, and write the summary."""
        with self._errors_named(), whole_file(summary_path(self.path), "summary") as file:
            if self._kind == "json":
                self._file.write(b"\n]\n")
            if self._table is not None:
                self._table.add_key_value_metadata({"capscore": json.dumps(about, ensure_ascii=False)})
                self._table.close()
            # a file's name may hold bytes that are not text
            file.write(summary.encode("utf-8", "backslashreplace"))
            file.flush()
            if self._partial is not None:
                _give_name(self._partial, self._file, self.path)

    def stop(self) -> None:
        """Remove what was written; after `finish`, nothing."""
        for opened in (self._table, getattr(self, "_file", None)):
            with suppress(Exception):  # no room even for the last bytes
                opened.close()  # type: ignore[union-attr]
        if self._partial is not None:
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
                f"{self.path} could not be written: {reason}. No partial file was left"
            ) from error


def _storable(value: object) -> object:
    """A new value; half a surrogate pair, as a path in an error may hold, as its escape."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def output_kind(path: Path, option: str = "output") -> str:
    """The kind of result that the suffix of a name asks for, or an InputError."""
    if path.suffix.lower() in _KINDS:
        return _KINDS[path.suffix.lower()]
    raise InputError(Setting(option, path), f": expected a name that ends in {', '.join(_KINDS)}")


def summary_path(path: Path) -> Path:
    """Path of a result's summary: scores.jsonl → scores.summary.json."""
    name = path.stem if path.suffix.lower() in _KINDS else path.name
    return path.with_name(f"{name}.summary.json")


def check_output(
    output: str | Path, source: RowSource, *, force: bool = False, option: str = "output"
) -> Path:
    """Check that a result of these rows can be written, before any work is done; makes its folder."""
    given, kind = Setting(option, Path(output)), output_kind(Path(output), option)
    try:
        target = Path(os.path.realpath(Path(output).expanduser()))
        target.parent.mkdir(parents=True, exist_ok=True)
        exists = target.exists()
        with tempfile.TemporaryFile(dir=target.parent) as probe:
            probe.write(b"capscore")
    except (OSError, ValueError, RuntimeError) as error:  # also a name that is too long
        reason = getattr(error, "strerror", None) or error
        raise InputError(Setting(option, str(output)[:80]), f" cannot be written: {reason}") from None
    if target == Path(os.path.realpath(source.path)):
        raise InputError(given, " is the input; the result needs another name")
    if exists and not target.is_file():
        raise InputError(f"{target} exists and is not a result of this kind; choose another ", given)
    for path in (target, summary_path(target)):
        if path.exists() and not force:
            raise InputError(given, f": {path} exists; ", Setting("force", True), " overwrites it")
    if kind != "parquet":
        refuse_bytes(source, given, target.suffix)
    return target


def refuse_bytes(source: RowSource, given: Setting, kind: str) -> None:
    """Raise InputError if a column holds bytes, which text of the `kind` that an option asks for cannot."""
    where: object = source.path
    found = [field.name for field in source.arrow_schema or () if _BINARY.search(str(field.type))]
    if source.format == IN_MEMORY:
        where, cells = "the rows", zip(source.columns, source.cells(*source.columns), strict=True)
        found = [name for name, values in cells if any(map(_is_bytes, values))]
    if found:
        raise InputError(
            given,
            f": the column {found[0]!r} of {where} holds bytes (images?), which {kind} cannot hold; write a "
            ".parquet file",
        )


def _is_bytes(cell: object) -> bool:
    """Whether a cell holds bytes, also as a data set has an image, or an image of Pillow."""
    if isinstance(cell, Mapping):
        cell = cell.get("bytes")
    is_image = hasattr(cell, "tobytes") and not hasattr(cell, "dtype")
    return is_image or isinstance(cell, bytes | bytearray)


def json_bytes(value: object, *, ascii_only: bool = False) -> bytes:
    """A value as JSON on one line; NaN, infinity and NA as null; arrays as lists; dates and bytes as text.

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


def _finite(value: object) -> object:
    if hasattr(value, "tolist"):  # of NumPy
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _plain(value: object) -> object:
    """A value that JSON has no type for: an array as lists, what is missing as None, any other as text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if is_missing(value):
        return None
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "backslashreplace")
    return str(value)


def _short(value: object) -> object:
    """A new number as tables have it, with 6 significant digits; anything else as it is."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value


def _cell(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)  # NaN and Infinity, which programs that read CSV know
    if isinstance(value, (bool, int, float, list, tuple, dict)):
        return json_bytes(value).decode()
    return _cell(_plain(value))


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
    if _RUNS.match(cell) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell
