"""Reads rows: JSONL, JSON, CSV, TSV and Parquet files, saved data sets, and photos with texts beside them.

`FORMATS` lists the files that can be read. A new format is one function and one entry there.
"""

from __future__ import annotations

import atexit
import codecs
import csv
import gzip
import io
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError, Setting
from .image_folder import IMAGE_SUFFIXES
from .row_source import RowSource, check_names_differ, read_dicts, read_tables, rows_in_memory
from .sizes import LIST_BYTES, ROW_BYTES, Limit, readable_size

if TYPE_CHECKING:
    import pyarrow as pa

EXPECTED = "JSONL (.jsonl), JSON (.json), CSV, TSV, Parquet, or the folder of a saved data set"
# what a spreadsheet would run; the wide forms count in Japanese and Chinese ones
FORMULA_SIGNS = "=+\\-@\\t\\r\\n＝＋－＠"
_ESCAPED = re.compile(f"'+[{FORMULA_SIGNS}]")

_Rows = Iterator[tuple[int | None, dict[str, Any]]]  # line, or None where a file has no lines, and cells


def open_rows(path: str | Path, *, split: str | None = None) -> RowSource:
    """Open a file or folder of rows. A text file is read here to its end, so that errors in it come early.

    Args:
        path: JSONL, JSON (a list of objects), CSV, TSV or Parquet file, named pipe, or "-" for standard
            input; the suffix tells the kind, or the content where there is no suffix, and text may be
            gzipped (.gz). Or a folder: of a saved data set, of Parquet files that are parts of one table, or
            of photos with NAME.txt beside each NAME.jpg, in which each line that is not blank is a row.
        split: Split of a saved data set that has several.

    Raises:
        InputError: There is no such file, its kind is unknown, or the content is not what the kind promises;
            names the line.
    """
    path = Path(path)
    try:
        if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
            return _open_saved(path, split)
        if split is not None:
            raise InputError(Setting("split", split), f" goes with a saved data set; {path} is none")
        if path.is_dir():
            return _open_folder(path)
        file = _copied_stream(path)
        with open(file, "rb") as opened:
            start = opened.read(4096)
    except FileNotFoundError:
        raise InputError(Setting("path", path), ": no such file") from None
    except InputError:
        raise
    except (OSError, ValueError) as error:  # also a name that no file can have
        reason = getattr(error, "strerror", None) or error
        raise InputError(Setting("path", f"{str(path)[:80]}"), f" cannot be read: {reason}") from None
    if not start:
        raise InputError(f"{path} is empty (0 bytes); expected {EXPECTED}")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    suffix = "".join(suffixes[:-1][-1:] if suffixes[-1:] == [".gz"] else suffixes[-1:])
    for known in FORMATS:
        if suffix in known.suffixes or (not suffix and start.lstrip().startswith(known.starts)):
            return known.open(path, file)
    raise InputError(Setting("path", path), f" is a file of an unknown kind; expected {EXPECTED}")


def _copied_stream(path: Path) -> Path:
    """A copy of what a pipe or standard input (`-`) gives, to read it as often as needed; a file as it is."""
    is_standard_input = path == Path("-")
    if is_standard_input and (sys.stdin is None or sys.stdin.closed or sys.stdin.isatty()):
        raise InputError(Setting("path", path), " is standard input, and nothing is piped into it")
    mode = stat.S_IFIFO if is_standard_input else os.stat(path).st_mode
    if stat.S_ISREG(mode):
        return path
    if not stat.S_ISFIFO(mode):
        raise InputError(Setting("path", path), ": expected a file, a pipe, or - for standard input")
    with (
        open(0 if is_standard_input else path, "rb", closefd=not is_standard_input) as source,
        tempfile.NamedTemporaryFile(prefix="capscore-", delete=False) as copy,
    ):
        atexit.register(Path(copy.name).unlink, missing_ok=True)
        shutil.copyfileobj(source, copy)
    return Path(copy.name)


# ---- folders ----


def _open_folder(path: Path) -> RowSource:
    """Parquet files that are parts of one table, or photos with texts; folders inside are not read."""
    files = sorted(name for name in os.listdir(path) if name[0] not in "._" and (path / name).is_file())
    parts = [path / name for name in files if name.lower().endswith(".parquet")]
    if parts and len(parts) == len(files):
        return _open_parquet(path, *parts)
    photos: dict[str, list[str]] = {}
    for name in files:
        stem, suffix = os.path.splitext(name)
        if suffix.lower() in IMAGE_SUFFIXES:
            photos.setdefault(stem, []).append(name)
    texts = {os.path.splitext(name)[0]: path / name for name in files if name.lower().endswith(".txt")}
    if not photos.keys() & texts:
        raise InputError(
            Setting("path", path),
            f" is a folder with {len(photos):,} photos and no saved data set; expected {EXPECTED}; or photos "
            "with a text file beside each (dog.jpg and dog.txt, one caption per line)",
        )
    return _open_photos(path, photos, texts)


def _open_photos(path: Path, photos: dict[str, list[str]], texts: dict[str, Path]) -> RowSource:
    rows: list[dict[str, str | None]] = []
    places: list[str] = []
    faults: dict[int, InputError] = {}
    for stem, (photo, *others) in photos.items():
        if others:
            raise InputError(
                Setting("path", path),
                f": {photo} and {others[0]} share one text file, {stem}.txt; rename one of the photos",
            )
        if stem not in texts:
            problem = f"there is no {stem}.txt beside it, which holds its captions"
            faults[len(rows)] = InputError(problem, field="candidate")
            rows.append({"image": photo, "caption": None})
            places.append(str(path / photo))
            continue
        lines = [(number, line.strip()) for number, line in text_lines(texts[stem]) if line.strip()]
        for number, caption in lines or [(1, "")]:
            rows.append({"image": photo, "caption": caption})
            places.append(f"{texts[stem]}, line {number}")
    unread = [text.name for stem, text in texts.items() if stem not in photos]
    notes = [f"{name} in {path} is not read: there is no photo of the same name" for name in unread[:1]]
    return rows_in_memory(rows, places, path, faults=faults, notes=notes)


def _open_saved(path: Path, split: str | None) -> RowSource:
    import datasets
    import pyarrow as pa

    try:
        loaded = datasets.load_from_disk(str(path))
    except Exception as error:  # datasets raises whatever json, Arrow or the file system do
        raise InputError(f"{path} is a saved data set that cannot be loaded: {error}") from error
    splits = [*loaded] if isinstance(loaded, datasets.DatasetDict) else []
    if (split is None and len(splits) > 1) or (split is not None and split not in splits):
        given = Setting("split") if split is None else Setting("split", split)
        raise InputError(given, f": {path} has the splits {', '.join(splits) or '(none)'}; choose one")
    dataset = (loaded[split or splits[0]] if splits else loaded).with_format("arrow")
    n_rows, schema = len(dataset), dataset.features.arrow_schema

    def tables(size: int, columns: list[str] | None) -> Iterator[pa.Table]:
        part = dataset if columns is None else dataset.select_columns(columns)
        kinds = schema if columns is None else pa.schema([schema.field(name) for name in columns])
        for first in range(0, n_rows, size):
            yield part[first : min(first + size, n_rows)].cast(kinds)

    read = read_tables(tables, dataset.data.nbytes / max(dataset.data.num_rows, 1))
    return RowSource(path, schema.names, n_rows, read, arrow_schema=schema)


def _open_parquet(path: Path, *parts: Path) -> RowSource:
    """One file, or the parts of a folder in the order of their names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, n_rows, n_bytes = None, 0, 0
    for part in parts:
        try:
            with pq.ParquetFile(part, pre_buffer=False) as file:
                about, columns = file.metadata, file.schema_arrow
        except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: names that are not UTF-8
            name = part if len(parts) > 1 else path
            raise InputError(f"{name} is not a Parquet file that can be read: {error}") from None
        n_rows += about.num_rows
        n_bytes += sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
        schema = schema or columns
        if not columns.equals(schema):
            raise InputError(
                f"{part} has other columns than {parts[0]}: {columns.names}, expected {schema.names}, of the "
                "same types; parts of one folder are read as one table"
            )
    assert schema is not None

    def tables(size: int, columns: list[str] | None) -> Iterator[pa.Table]:
        part = path
        try:
            for part in parts:
                with pq.ParquetFile(part, pre_buffer=False) as file:
                    batches = file.iter_batches(batch_size=size, columns=columns)
                    yield from (pa.Table.from_batches([batch]) for batch in batches)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{part} cannot be read to its end: {error}") from None

    return RowSource(
        path, schema.names, n_rows, read_tables(tables, n_bytes / max(n_rows, 1)), arrow_schema=schema
    )


# ---- text ----


def _text_source(
    path: Path, file: Path, read: Callable[[], _Rows], *, cells_are_text: bool = False
) -> RowSource:
    """Rows of a text file, which is parsed whenever it is asked for, so that no row stays in memory."""
    names: dict[str, None] = {}
    n_rows = 0
    for _, row in read():
        n_rows += 1
        names.update(dict.fromkeys(row))
    folder = path.parent if file == path else Path()
    return RowSource(path, [*names], n_rows, read_dicts(read), cells_are_text=cells_are_text, folder=folder)


def text_lines(path: Path, limit: Limit = ROW_BYTES, file: Path | None = None) -> Iterator[tuple[int, str]]:
    """Numbers, from 1, and lines of a text file; `file` is what is read, if `path` is but its name.

    Raises:
        InputError: The file cannot be read, is not UTF-8, or has a line beyond the limit; names the line.
    """
    number, longest = 0, limit.bytes
    try:
        with closing(_open_bytes(file or path)) as opened:
            while raw := opened.readline(longest + 1):
                number += 1
                if len(raw) > longest:
                    raise _too_long(f"{path}, line {number}", limit)
                if number == 1:
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                text = raw.decode("utf-8")
                if number == 1 and "\0" in text:
                    raise UnicodeError
                yield number, text
    except UnicodeError:
        raise InputError(
            f"{path}, line {number} is no text in UTF-8; expected UTF-8. To convert a file, name its "
            f"encoding: iconv -f WINDOWS-1252 -t UTF-8 {path} > new{path.suffix}"
        ) from None
    except (OSError, EOFError, zlib.error) as error:  # a torn gzip file raises any of them
        raise InputError(f"{path} cannot be read after line {number}: {error}") from None


def _open_bytes(path: Path) -> io.BufferedIOBase:
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else open(path, "rb")


def _too_long(place: str, limit: Limit, hint: str = "") -> InputError:
    return InputError(f"{place}: longer than {readable_size(limit.bytes)}; {limit}{hint}")


def _open_json(path: Path, file: Path) -> RowSource:
    """An object per line, or one list of objects, whichever the suffix says."""
    start = b""
    with suppress(OSError, EOFError, zlib.error), closing(_open_bytes(file)) as opened:
        while not start and (block := opened.read1(2**16)):
            start = block.removeprefix(codecs.BOM_UTF8).lstrip()
    if not start.startswith(b"["):
        return _text_source(path, file, lambda: _jsonl_rows(path, file))
    rows = [
        _object(row, f"{path}, element {number} counted from 0")
        for number, row in enumerate(read_json(path, file))
    ]
    return _text_source(path, file, lambda: ((None, row) for row in rows))


def _jsonl_rows(path: Path, file: Path) -> _Rows:
    for number, line in text_lines(path, file=file):
        if line.strip():
            place = f"{path}, line {number}"
            yield number, _object(_decoded(line, place), place)


def _object(value: Any, place: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise InputError(
        f"{place}: expected an object per line, or one list of objects, such as "
        f'{{"image": "cat.jpg", "caption": "A cat."}}; got {value!r:.60}'
    )


def read_json(path: Path, file: Path | None = None) -> Any:
    """The one value of a JSON file, whatever it is; `file` is what is read, if it is a copy.

    Raises:
        InputError: The file cannot be read, is no JSON or goes beyond the limits; names the line.
    """
    lines, size = [], 0
    for _, line in text_lines(path, LIST_BYTES, file):
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


decode_json: Callable[[str], Any] = json.JSONDecoder(object_pairs_hook=_unrepeated).decode
"""The value of a JSON text in which no object has a name twice; ValueError or RecursionError: it is none."""


def _decoded(text: str, place: str) -> Any:
    try:
        return decode_json(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not valid JSON: {error}") from None


def with_formula(cell: str) -> str:
    """The cell of a CSV file as it was, from how `write.without_formula` wrote it.

    >>> [with_formula(cell) for cell in ("'=1+1", "-0.5", "A cat.", "''@x")]
    ['=1+1', '-0.5', 'A cat.', "'@x"]
    """
    return cell[1:] if _ESCAPED.match(cell) else cell


def _open_csv(path: Path, file: Path) -> RowSource:
    first = next((line for _, line in text_lines(path, file=file)), "")
    return _open_table(path, file, ";" if ";" in first and "," not in first else ",")


def _open_table(path: Path, file: Path, delimiter: str = "\t") -> RowSource:
    return _text_source(path, file, lambda: _table_rows(path, file, delimiter), cells_are_text=True)


def _table_rows(path: Path, file: Path, delimiter: str) -> _Rows:
    csv.field_size_limit(2**31 - 1)  # lists of references may be longer than the module's own 128 KB
    header: list[str] = []
    begin, record, longest = 1, 0, ROW_BYTES.bytes  # first line and length of the record so far

    def limited() -> Iterator[str]:
        nonlocal record
        for _, line in text_lines(path, file=file):
            record += len(line)
            if record > longest:
                hint = "; or is a quotation mark of this row never closed?"
                raise _too_long(f"{path}, line {begin}", ROW_BYTES, hint)
            yield line

    reader = csv.reader(limited(), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            line, begin, record = begin, reader.line_num + 1, 0
            if not header:
                header = list(map(with_formula, cells))
                check_names_differ(path, header)
            elif cells and len(cells) != len(header):
                raise InputError(
                    f"{path}, line {line}: {len(cells)} cells, but the header has {len(header)} columns "
                    f"(a cell that holds {delimiter!r} needs quotation marks around it)"
                )
            elif cells:
                yield line, dict(zip(header, map(with_formula, cells), strict=True))
    except csv.Error as error:
        kind = "TSV" if delimiter == "\t" else "CSV"
        raise InputError(
            f"{path}, line {begin}: not valid {kind}: {error} (a quotation mark inside a cell is "
            'written twice: """Stop"" sign")'
        ) from None


# ---- what can be read ----


class Format(NamedTuple):
    """A kind of file, and the function from its path, for errors, and the file to read to its rows."""

    name: str
    suffixes: tuple[str, ...]
    starts: tuple[bytes, ...]  # of the content of a file without a suffix
    open: Callable[[Path, Path], RowSource]


FORMATS = (
    Format("jsonl", (".jsonl", ".ndjson"), (b"{", b"["), _open_json),
    Format("json", (".json",), (), _open_json),
    Format("csv", (".csv",), (), _open_csv),
    Format("tsv", (".tsv",), (), _open_table),
    Format("parquet", (".parquet",), (b"PAR1",), _open_parquet),
)
