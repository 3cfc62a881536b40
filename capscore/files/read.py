"""Reads rows from JSONL, JSON, CSV, TSV and Parquet files and from saved data sets."""

from __future__ import annotations

import atexit
import codecs
import csv
import gzip
import io
import itertools
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, Setting
from .row_source import STREAM_COPIES, ArrowSource, Chunk, RowSource, check_names_differ
from .sizes import LIST_BYTES, ROW_BYTES, Limit, readable_size

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
# what a spreadsheet would run; the wide forms count in Japanese and Chinese ones
FORMULA_SIGNS = "=+\\-@\\t\\r\\n＝＋－＠"
_ESCAPED = re.compile(f"'+[{FORMULA_SIGNS}]")

_Rows = Iterator[tuple[int | None, dict[str, Any]]]  # line, or None where a file has no lines, and cells


def open_rows(path: str | Path, *, split: str | None = None) -> RowSource:
    """Open a file of rows. A text file is read here to its end, so that errors in it come early.

    Args:
        path: JSONL, JSON (a list of objects), CSV, TSV or Parquet file, folder of Parquet files that are
            parts of one table, folder of a saved data set, named pipe, or "-" for standard input. The suffix
            tells the kind, or the content where there is no suffix. Text may be gzipped (.gz).
        split: Split of a saved data set that has several.

    Raises:
        InputError: There is no such file, its kind is unknown, a folder is not a data set, or the split does
            not exist; or the content is not what the kind promises, and the message names the line.
    """
    path = Path(path)
    given = Setting("path", path)
    try:
        os.fsencode(path)
        if path.is_dir():
            parts = parquet_parts(path)
            return _Parquet(path, parts) if parts and split is None else _SavedDataset(path, split)
        if split is not None:
            raise InputError(Setting("split", split), f" goes with a saved data set; {path} is none")
        _copy_stream(path)
        with open(_local_file(path), "rb") as file:
            start = file.read(4096)
    except FileNotFoundError:
        raise InputError(given, ": no such file") from None
    except InputError:
        raise
    except (OSError, ValueError) as error:  # also a name that no file can have
        reason = getattr(error, "strerror", None) or error
        raise InputError(Setting("path", f"{str(path)[:80]}"), f" cannot be read: {reason}") from None
    if not start:
        raise InputError(f"{path} is empty (0 bytes); expected {EXPECTED}")
    kind = _kind_of(path, start)
    if kind == "parquet":
        return _Parquet(path)
    if kind in ("csv", "tsv"):
        return _TextSource(path, lambda: _csv_rows(path, kind), cells_are_text=True)
    if _is_list(path):
        rows = _list_rows(path)
        return _TextSource(path, lambda: ((None, row) for row in rows))
    return _TextSource(path, lambda: _jsonl_rows(path))


def _copy_stream(path: Path) -> None:
    """Copy what a pipe or standard input (`-`) gives, to read it as often as needed; of a file, nothing."""
    is_standard_input = path == Path("-")
    if is_standard_input and (sys.stdin is None or sys.stdin.closed or sys.stdin.isatty()):
        raise InputError(Setting("path", path), " is standard input, and nothing is piped into it")
    mode = 0 if is_standard_input else os.stat(path).st_mode
    if stat.S_ISREG(mode):
        return
    if not is_standard_input and not stat.S_ISFIFO(mode):
        raise InputError(Setting("path", path), ": expected a file, a pipe, or - for standard input")
    if path in STREAM_COPIES:
        STREAM_COPIES.pop(path).unlink(missing_ok=True)
    with (
        open(0 if is_standard_input else path, "rb", closefd=not is_standard_input) as source,
        tempfile.NamedTemporaryFile(prefix="capscore-", delete=False) as copy,
    ):
        atexit.register(Path(copy.name).unlink, missing_ok=True)
        shutil.copyfileobj(source, copy)
    STREAM_COPIES[path] = Path(copy.name)


def _local_file(path: Path) -> Path:
    return STREAM_COPIES.get(path, path)


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
    raise InputError(Setting("path", path), f" is a file of an unknown kind; expected {EXPECTED}")


# ---- Arrow ----


def parquet_parts(folder: Path) -> list[Path]:
    """The files of a folder that holds Parquet files alone, in the order of their names; else none."""
    with suppress(OSError):
        names = sorted(name for name in os.listdir(folder) if name[0] not in "._")
        if names and all(name.lower().endswith(".parquet") for name in names):
            return [folder / name for name in names]
    return []


class _Parquet(ArrowSource):
    """One file, or the parts of a folder in the order of their names."""

    def __init__(self, path: Path, parts: Sequence[Path] = ()):
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._parts = [*parts] or [_local_file(path)]
        schema, n_rows, n_bytes = None, 0, 0
        for part in self._parts:
            try:
                with pq.ParquetFile(part, pre_buffer=False) as file:
                    about = file.metadata
                    n_rows += about.num_rows
                    groups = range(about.num_row_groups)
                    n_bytes += sum(about.row_group(group).total_byte_size for group in groups)
                    columns = file.schema_arrow
            except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: names that are not UTF-8
                raise InputError(
                    f"{part if parts else path} is not a Parquet file that can be read: {error}"
                ) from None
            schema = schema or columns
            if not columns.equals(schema):
                raise InputError(
                    f"{part} has other columns than {self._parts[0]}: {columns.names}, expected "
                    f"{schema.names}, of the same types; parts of one folder are read as one table"
                )
        super().__init__(path, schema, n_rows, n_bytes)

    def _tables(self, size: int, columns: list[str] | None) -> Iterator[pa.Table]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        for part in self._parts:
            try:
                with pq.ParquetFile(part, pre_buffer=False) as file:
                    for batch in file.iter_batches(batch_size=size, columns=columns):
                        yield pa.Table.from_batches([batch])
            except (pa.ArrowException, OSError) as error:
                raise InputError(f"{part} cannot be read to its end: {error}") from None


class _SavedDataset(ArrowSource):
    def __init__(self, path: Path, split: str | None):
        if not is_saved_dataset(path):
            raise InputError(
                Setting("path", path),
                f" is a folder, but not a data set that was saved with save_to_disk; expected {EXPECTED}",
            )
        import datasets

        try:
            loaded = datasets.load_from_disk(str(path))
        except Exception as error:  # datasets raises whatever json, Arrow or the file system do
            raise InputError(f"{path} is a saved data set that cannot be loaded: {error}") from error
        splits = [*loaded] if isinstance(loaded, datasets.DatasetDict) else []
        if (split is None and len(splits) > 1) or (split is not None and split not in splits):
            given = Setting("split") if split is None else Setting("split", split)
            raise InputError(given, f": {path} has the splits {', '.join(splits) or '(none)'}; choose one")
        if splits:
            loaded = loaded[split or splits[0]]
        self._dataset = loaded.with_format("arrow")
        n_bytes = loaded.data.nbytes / max(loaded.data.num_rows, 1) * len(loaded)
        super().__init__(path, loaded.features.arrow_schema, len(loaded), n_bytes)

    def _tables(self, size: int, columns: list[str] | None) -> Iterator[pa.Table]:
        import pyarrow as pa

        dataset, schema = self._dataset, self._schema
        if columns is not None:
            dataset = dataset.select_columns(columns)
            schema = pa.schema([schema.field(name) for name in columns])
        for first in range(0, self.n_rows, size):
            yield dataset[first : min(first + size, self.n_rows)].cast(schema)


def is_saved_dataset(folder: Path) -> bool:
    """Whether `datasets` saved a data set, or one with splits, in a folder."""
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()


# ---- text ----


class _TextSource(RowSource):
    """Rows of a text file, which is parsed whenever it is asked for, so that no row stays in memory.

    Args:
        path: Path of the file.
        read: Function that gives line and cells of each row from the first.
        cells_are_text: Whether every value is text.
    """

    def __init__(self, path: Path, read: Callable[[], _Rows], *, cells_are_text: bool = False):
        self.path, self._read, self.cells_are_text = path, read, cells_are_text
        names: dict[str, None] = {}
        self.n_rows = 0
        for _, row in read():
            self.n_rows += 1
            names.update(dict.fromkeys(row))
        if not self.n_rows:
            raise InputError(f"{path} has no rows")
        self.columns = list(names)

    def chunks(self, size: int, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        start, rows = 0, self._read()
        while batch := list(itertools.islice(rows, size)):
            lines = [line for line, _ in batch if line is not None]
            yield Chunk(start, lines or None, [row for _, row in batch])
            start += len(batch)

    def schema(self) -> pa.Schema:
        if not self.cells_are_text:
            return super().schema()
        import pyarrow as pa

        return pa.schema([(name, pa.string()) for name in self.columns])


def _open_bytes(path: Path) -> io.BufferedIOBase:
    path = _local_file(path)
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else open(path, "rb")


def text_lines(path: Path, limit: Limit = ROW_BYTES) -> Iterator[tuple[int, str]]:
    """Numbers, from 1, and lines of a text file with their ends; without a byte order mark.

    Raises:
        InputError: The file cannot be read, is not UTF-8, or has a line beyond the limit; names the line.
    """
    number, longest = 0, limit.bytes
    try:
        with closing(_open_bytes(path)) as file:
            while raw := file.readline(longest + 1):
                number += 1
                if len(raw) > longest:
                    raise _too_long(f"{path}, line {number}", limit)
                if number == 1:
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                try:
                    text = raw.decode("utf-8")
                except UnicodeDecodeError:
                    text = None
                if text is None or (number == 1 and "\0" in text):
                    raise InputError(
                        f"{path}, line {number} is no text in UTF-8; expected UTF-8. To convert a file, name "
                        f"its encoding: iconv -f WINDOWS-1252 -t UTF-8 {path} > new{path.suffix}"
                    )
                yield number, text
    except (OSError, EOFError, zlib.error) as error:  # a torn gzip file raises any of them
        raise InputError(f"{path} cannot be read after line {number}: {error}") from None


def _too_long(place: str, limit: Limit, hint: str = "") -> InputError:
    return InputError(f"{place}: longer than {readable_size(limit.bytes)}; {limit}{hint}")


def _is_list(path: Path) -> bool:
    """Whether the first character that is no space is "["; damage is told when the lines are read."""
    with suppress(OSError, EOFError, zlib.error), closing(_open_bytes(path)) as file:
        start = file.read(2**16).removeprefix(codecs.BOM_UTF8)
        while start and not start.strip():
            start = file.read(2**16)
        return start.lstrip()[:1] == b"["
    return False


def _jsonl_rows(path: Path) -> _Rows:
    for number, line in text_lines(path):
        if line.strip():
            yield number, _row(_decoded(line, f"{path}, line {number}"), f"{path}, line {number}")


def _list_rows(path: Path) -> list[dict[str, Any]]:
    return [
        _row(row, f"{path}, element {number} counted from 0") for number, row in enumerate(read_json(path))
    ]


def _row(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(
            f"{place}: expected an object per line, or one list of objects, such as "
            f'{{"image": "cat.jpg", "caption": "A cat."}}; got {value!r:.60}'
        )
    return value


def read_json(path: Path) -> Any:
    """The one value of a JSON file, whatever it is.

    Raises:
        InputError: The file cannot be read, is no JSON or goes beyond the limits; names the line.
    """
    lines, size = [], 0
    for _, line in text_lines(path, LIST_BYTES):
        size += len(line)
        if size > LIST_BYTES.bytes:
            raise _too_long(str(path), LIST_BYTES, "; or write one object per line, as .jsonl")
        lines.append(line)
    return _decoded("".join(lines), str(path))


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"one object has two values for {max(names, key=names.count)!r:.60}")
    return row


_DECODER = json.JSONDecoder(object_pairs_hook=_unrepeated)


def _decoded(text: str, place: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:  # also a number of 5,000 digits, or nested 5,000 deep
        raise InputError(f"{place}: not valid JSON: {error}") from None


def with_formula(cell: str) -> str:
    """The cell of a CSV file as it was, from how `write.without_formula` wrote it.

    >>> [with_formula(cell) for cell in ("'=1+1", "-0.5", "A cat.", "''@x")]
    ['=1+1', '-0.5', 'A cat.', "'@x"]
    """
    return cell[1:] if _ESCAPED.match(cell) else cell


def _csv_rows(path: Path, kind: str) -> _Rows:
    csv.field_size_limit(2**31 - 1)  # lists of references may be longer than the module's own 128 KB
    lines = (line for _, line in text_lines(path))
    first, record = next(lines, ""), 0  # length of the record so far
    delimiter = "\t" if kind == "tsv" else ";" if ";" in first and "," not in first else ","
    header: list[str] | None = None
    begin, longest = 1, ROW_BYTES.bytes

    def limited() -> Iterator[str]:
        nonlocal record
        for line in itertools.chain([first], lines):
            record += len(line)
            if record > longest:
                hint = "; or is a quotation mark of this row never closed?"
                raise _too_long(f"{path}, line {begin}", ROW_BYTES, hint)
            yield line

    reader = csv.reader(limited(), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            line, begin, record = begin, reader.line_num + 1, 0
            if header is None and cells:
                header = list(map(with_formula, cells))
                check_names_differ(path, header)
            elif cells and header is not None:
                if len(cells) != len(header):
                    raise InputError(
                        f"{path}, line {line}: {len(cells)} cells, but the header has {len(header)} columns "
                        f"(a cell that holds {delimiter!r} needs quotation marks around it)"
                    )
                yield line, dict(zip(header, map(with_formula, cells), strict=True))
    except csv.Error as error:
        raise InputError(
            f"{path}, line {begin}: not valid {kind.upper()}: {error} (a quotation mark inside a cell is "
            'written twice: """Stop"" sign")'
        ) from None
