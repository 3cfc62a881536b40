"""Reads rows from JSONL, JSON, CSV, TSV and Parquet files and from saved data sets."""

from __future__ import annotations

import atexit
import codecs
import csv
import difflib
import gzip
import io
import itertools
import json
import os
import pickle
import shutil
import stat
import sys
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, Setting
from .cells import with_formula
from .row_source import STREAM_COPIES, ArrowSource, Chunk, RowSource, check_names_differ, inferred_schema
from .sizes import LIST_BYTES, NESTED_LEVELS, ROW_BYTES, Limit, nested_too_deeply, readable_size

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
KEPT_BYTES = 256 * 2**20  # of a text file's rows in memory; more are kept in a temporary file
_BLOCK_ROWS = 256

_BOMS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def open_rows(path: str | Path, *, split: str | None = None) -> RowSource:
    """Open a file of rows. A text file is read here, once and to its end, so that errors in it come early.

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
    _refuse_impossible(path)
    if path.is_dir():
        parts = parquet_parts(path)
        return _Parquet(path, parts) if parts and split is None else _SavedDataset(path, split)
    if split is not None:
        raise InputError(
            Setting("split", split), f" goes with the folder of a saved data set; {path} is a file"
        )
    _copy_stream(path)
    if not _local_file(path).exists():
        raise InputError(Setting("path", path), f": no such file{_near_file(path)}")
    try:
        with open(_local_file(path), "rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise InputError(Setting("path", path), f" cannot be read: {error.strerror or error}") from None
    if not start:
        raise InputError(f"{path} is empty (0 bytes); expected {EXPECTED}")
    kind = _kind_of(path, start)
    if kind == "parquet":
        return _Parquet(path)
    if kind in ("csv", "tsv"):
        return _TextSource(path, _read_csv(path, kind), cells_are_text=True)
    return _TextSource(path, _read_json(path) if _is_list(path) else _read_jsonl(path))


def _refuse_impossible(path: Path) -> None:
    try:
        path.exists()
        os.fsencode(path)
    except (OSError, ValueError) as error:  # too long; NUL; half a surrogate pair
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            Setting("path", f"{str(path)[:80]}"), f": no file can have this name: {reason}"
        ) from None


def _copy_stream(path: Path) -> None:
    """Copy what a pipe or standard input (`-`) gives, to read it as often as needed; of a file, nothing."""
    opened: int | Path = path
    if path == Path("-"):
        if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
            raise InputError(Setting("path", path), " is standard input, and nothing is piped into it")
        opened = 0
    else:
        try:
            kind = os.stat(path).st_mode
        except (OSError, ValueError):
            return  # who opens it says what is wrong
        if not stat.S_ISFIFO(kind):
            if not stat.S_ISREG(kind):
                raise InputError(Setting("path", path), ": expected a file, a pipe, or - for standard input")
            return
    if path in STREAM_COPIES:
        STREAM_COPIES.pop(path).unlink(missing_ok=True)
    try:
        with (
            open(opened, "rb", closefd=opened != 0) as source,
            tempfile.NamedTemporaryFile(prefix="capscore-", delete=False) as copy,
        ):
            atexit.register(Path(copy.name).unlink, missing_ok=True)
            shutil.copyfileobj(source, copy)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            Setting("path", path), f" cannot be copied to {tempfile.gettempdir()}: {reason}"
        ) from None
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


def _near_file(path: Path) -> str:
    with suppress(OSError):
        near = difflib.get_close_matches(path.name, os.listdir(path.parent), n=1, cutoff=0.7)
        if near:
            return f"; did you mean {path.parent / near[0]}?"
    return ""


class _TextSource(RowSource):
    """Rows of a text file, which are kept as they are read, so that the file is read once.

    Args:
        path: Path of the file.
        rows: Line number (or None) and cells of each row.
        cells_are_text: Whether every value is text.
    """

    def __init__(
        self,
        path: Path,
        rows: Iterable[tuple[int | None, dict[str, Any]]],
        *,
        cells_are_text: bool = False,
    ):
        self.path, self.cells_are_text = path, cells_are_text
        self._kept = tempfile.SpooledTemporaryFile(max_size=KEPT_BYTES)
        weakref.finalize(self, self._kept.close)
        self._blocks: list[int] = []  # where each block of rows begins
        names: dict[str, None] = {}
        self.n_rows = 0
        for block in _batched(rows, _BLOCK_ROWS):
            self.n_rows += len(block)
            for _, row in block:
                names.update(dict.fromkeys(row))
            self._blocks.append(self._kept.tell())
            try:
                pickle.dump(block, self._kept, pickle.HIGHEST_PROTOCOL)
            except OSError as error:
                raise InputError(
                    f"{path} is large, and a temporary copy of its rows could not be written to "
                    f"{tempfile.gettempdir()}: {error.strerror or error}. TMPDIR names another folder"
                ) from error
        if not self.n_rows:
            what = "has a header, but no rows" if cells_are_text else "has no rows"
            raise InputError(f"{path} {what}")
        self.columns = list(names)

    def _rows(self, start: int) -> Iterator[tuple[int | None, dict[str, Any]]]:
        first, inside = divmod(start, _BLOCK_ROWS)
        for place in self._blocks[first:]:
            self._kept.seek(place)
            yield from pickle.load(self._kept)[inside:]
            inside = 0

    def chunks(self, size: int, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        return self.span(size, 0, self.n_rows)

    def span(self, size: int, start: int, stop: int) -> Iterator[Chunk]:
        for numbered in _batched(itertools.islice(self._rows(start), stop - start), size):
            lines = [line for line, _ in numbered if line is not None]
            yield Chunk(start, lines or None, [row for _, row in numbered])
            start += len(numbered)

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        if self.cells_are_text:
            return pa.schema([(name, pa.string()) for name in self.columns])
        return inferred_schema(self)


def _batched(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rows = iter(rows)
    while batch := list(itertools.islice(rows, size)):
        yield batch


def parquet_parts(folder: Path) -> list[Path]:
    """The files of a folder that holds Parquet files alone, in the order of their names; else none."""
    with suppress(OSError):
        names = sorted(one for one in os.listdir(folder) if one[0] not in "._")
        if names and all(name.lower().endswith(".parquet") for name in names):
            return [folder / name for name in names]
    return []


class _Parquet(ArrowSource):
    """One file, or the parts of a folder in the order of their names."""

    def __init__(self, path: Path, parts: Sequence[Path] = ()):
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._parts = [*parts] or [_local_file(path)]
        self._sizes: list[list[int]] = []  # rows of each row group of each part
        schema, size = None, 0
        for part in self._parts:
            try:
                with pq.ParquetFile(part, pre_buffer=False) as file:
                    groups = [file.metadata.row_group(group) for group in range(file.num_row_groups)]
                    self._sizes.append([group.num_rows for group in groups])
                    size += sum(group.total_byte_size for group in groups)
                    own = file.schema_arrow
            except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: names that are not UTF-8
                raise InputError(
                    f"{part if parts else path} is not a Parquet file that can be read: {error}"
                ) from None
            if schema is None:
                schema = own
            elif not own.equals(schema):
                raise InputError(
                    f"{part} has other columns than {self._parts[0]}: {own.names}, expected {schema.names}, "
                    "of the same types; parts of one folder are read as one table"
                )
        super().__init__(path, schema, sum(map(sum, self._sizes)), size)

    def _tables(self, size: int, columns: Sequence[str] | None, start: int, stop: int) -> Iterator[pa.Table]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        first = 0  # row that a part or a row group begins with
        for part, sizes in zip(self._parts, self._sizes, strict=True):
            groups: list[int] = []
            begins = 0
            for group, n_rows in enumerate(sizes):
                if first < stop and first + n_rows > start:
                    begins = begins if groups else first
                    groups.append(group)
                first += n_rows
            if not groups:
                continue
            at = begins
            try:
                with pq.ParquetFile(part, pre_buffer=False) as file:
                    for batch in file.iter_batches(batch_size=size, row_groups=groups, columns=columns):
                        low, high = max(0, start - at), min(batch.num_rows, stop - at)
                        at += batch.num_rows
                        if low < high:
                            yield pa.Table.from_batches([batch.slice(low, high - low)])
            except (pa.ArrowException, OSError) as error:
                raise InputError(f"{self.path} cannot be read to its end: {error}") from None


class _SavedDataset(ArrowSource):
    def __init__(self, path: Path, split: str | None):
        if not (path / "dataset_dict.json").is_file() and not (path / "state.json").is_file():
            inside = sorted(child for child in path.iterdir() if child.suffix.lower() in KINDS)
            hint = f"; did you mean {inside[0]}?" if inside else ""
            raise InputError(
                Setting("path", path),
                " is a folder, but not a data set that was saved with save_to_disk; expected "
                f"{EXPECTED}{hint}",
            )
        import datasets

        try:
            loaded = datasets.load_from_disk(str(path))
        except Exception as error:  # datasets raises whatever json, Arrow or the file system do
            raise InputError(f"{path} is a saved data set that cannot be loaded: {error}") from error
        if isinstance(loaded, datasets.DatasetDict):
            names = ", ".join(loaded)
            if split is None and len(loaded) != 1:
                raise InputError(Setting("split"), f": {path} has the splits {names}; choose one")
            if split is not None and split not in loaded:
                raise InputError(Setting("split", split), f": {path} has no such split; it has {names}")
            loaded = loaded[split or next(iter(loaded))]
        elif split is not None:
            raise InputError(Setting("split", split), f": {path} is one data set, without splits")
        self._dataset = loaded.with_format("arrow")
        n_bytes = loaded.data.nbytes / max(loaded.data.num_rows, 1) * len(loaded)
        super().__init__(path, loaded.features.arrow_schema, len(loaded), n_bytes)

    def _tables(self, size: int, columns: Sequence[str] | None, start: int, stop: int) -> Iterator[pa.Table]:
        import pyarrow as pa

        dataset, schema = self._dataset, self._schema
        if columns is not None:
            dataset, schema = (
                dataset.select_columns([*columns]),
                pa.schema([schema.field(n) for n in columns]),
            )
        for first in range(start, stop, size):
            yield dataset[first : min(first + size, stop)].cast(schema)


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
                    raise too_long(f"{path}, line {number}", limit)
                if number == 1:
                    _refuse_other_encodings(path, raw)
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                try:
                    yield number, raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(
                        f"{path}, line {number} is not UTF-8: byte 0x{raw[error.start]:02x} at column "
                        f"{error.start + 1}. If the file is Latin-1 or Windows-1252: "
                        f"iconv -f WINDOWS-1252 -t UTF-8 {path} > new{path.suffix}"
                    ) from None
    except (OSError, EOFError, zlib.error) as error:  # a torn gzip file raises any of them
        raise InputError(f"{path} cannot be read after line {number}: {error}") from None


def _refuse_other_encodings(path: Path, raw: bytes) -> None:
    encoding = next((name for mark, name in _BOMS if raw.startswith(mark)), None)
    if encoding is None and b"\0" not in raw[:200]:
        return
    raise InputError(
        f"{path} is {encoding or 'UTF-16, or no text at all'}; expected UTF-8. To convert: "
        f"iconv -f {encoding or 'UTF-16'} -t UTF-8 {path} > new{path.suffix}"
    )


def too_long(place: str, limit: Limit, hint: str = "") -> InputError:
    """The error of a row, or of a whole list, beyond its limit."""
    return InputError(f"{place}: longer than {readable_size(limit.bytes)}; {limit}{hint}")


def _is_list(path: Path) -> bool:
    """Whether the first character that is no space is "["; damage is told when the lines are read."""
    with suppress(OSError, EOFError, zlib.error), closing(_open_bytes(path)) as file:
        start = file.read(2**16).removeprefix(codecs.BOM_UTF8)
        while start and not start.strip():
            start = file.read(2**16)
        return start.lstrip()[:1] == b"["
    return False


def _read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in text_lines(path):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            row = _decoded(line, place)
        except json.JSONDecodeError as error:
            raise InputError(
                f"{place}, column {error.colno}: not valid JSON: {error.msg}. Expected one object a "
                'line, such as {"image": "cat.jpg", "caption": "A cat."}, or one list of objects in the file'
            ) from None
        if not isinstance(row, dict):
            raise InputError(f"{place}: expected an object {{…}}, got {' '.join(line.split()):.60}")
        yield number, row


def read_json(path: Path) -> Any:
    """The one value of a JSON file, whatever it is.

    Raises:
        InputError: The file cannot be read, is no JSON or goes beyond the limits; names the line.
    """
    lines, size = [], 0
    for _, line in text_lines(path, LIST_BYTES):
        size += len(line)
        if size > LIST_BYTES.bytes:
            raise too_long(str(path), LIST_BYTES, "; or write one object a line, as .jsonl")
        lines.append(line)
    try:
        return _decoded("".join(lines), str(path))
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}"
        ) from None


def _read_json(path: Path) -> Iterator[tuple[None, dict[str, Any]]]:
    for number, row in enumerate(read_json(path)):
        if not isinstance(row, dict):
            raise InputError(
                f"{path}, element {number} counted from 0: expected an object {{…}}, got {row!r:.60}"
            )
        yield None, row


class _RepeatedNameError(ValueError):
    pass


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedNameError(next(name for name in names if names.count(name) > 1))
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_unrepeated)


def _decoded(text: str, place: str) -> Any:
    """The value of a JSON text; an error for what is valid by the letter alone."""
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError:
        raise
    except _RepeatedNameError as error:
        raise InputError(f"{place}: one object has two values for {str(error)!r:.60}") from None
    except RecursionError:
        value = None
    except ValueError:  # Python's own guard, since converting n digits takes n² steps
        raise InputError(f"{place}: a whole number of more than 4,300 digits") from None
    if (value is None and text.strip() != "null") or nested_too_deeply(text):
        raise InputError(f"{place}: JSON that is nested too deeply; at most {NESTED_LEVELS} levels are read")
    return value


def _read_csv(path: Path, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
    csv.field_size_limit(2**31 - 1)  # lists of references may be longer than the module's own 128 KB
    lines = (line for _, line in text_lines(path))
    first, record = next(lines, ""), 0  # length of the record so far
    delimiter = "\t" if kind == "tsv" else ";" if ";" in first and "," not in first else ","

    def all_lines() -> Iterator[str]:
        nonlocal record
        for line in itertools.chain([first], lines):
            record += len(line)
            if record > longest:
                raise too_long(
                    f"{path}, line {begin}", ROW_BYTES, " (or is a quotation mark of this row never closed?)"
                )
            yield line

    reader = csv.reader(all_lines(), delimiter=delimiter, strict=True)
    header, begin, longest = None, 1, ROW_BYTES.bytes
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(
                f"{path}, line {begin}: not valid {kind.upper()}: {error} (a quotation mark at the start of "
                'a cell must be closed at its end, and written twice inside: """Stop"" sign")'
            ) from None
        line, begin, record = begin, reader.line_num + 1, 0
        if cells is None:
            return
        if not cells:
            continue
        if header is None:
            header = list(map(with_formula, cells))
            check_names_differ(path, header)
            continue
        if len(cells) != len(header):
            name = {"\t": "tab", ";": "semicolon"}.get(delimiter, "comma")
            raise InputError(
                f"{path}, line {line}: {len(cells)} cells, but the header has {len(header)} columns (a "
                f'{name} inside a cell needs quotation marks around the cell: "A cat, asleep")'
            )
        yield line, dict(zip(header, map(with_formula, cells), strict=True))
