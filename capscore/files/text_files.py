"""Text files, packed or not: the limits on what comes in, lines, values of JSON, and rows.

A limit turns a mistake or a trap (a 3 GB file called photo.jpg, a quotation mark that is never closed) into
a clear error instead of a full memory. An environment variable changes each; docs/limits.md lists them.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ..errors import CapscoreError, InputError, Setting
from .layouts import has_columns, line_reader, nearest, rows_of_document
from .row_source import RowSource, check_names_differ, read_dicts

# what a spreadsheet would run; the wide forms count in Japanese and Chinese ones
FORMULA_SIGNS = "=+\\-@\\t\\r\\n＝＋－＠"
_TOKEN = re.compile(r"(\S[^\t]*)#[0-9]+\t(.*)", re.S)
_ESCAPED = re.compile(f"'+[{FORMULA_SIGNS}]")

_Rows = Iterator[tuple[int | None, dict[str, Any]]]  # line, or None where a file has no lines, and cells


@dataclass(frozen=True)
class Limit:
    """A largest size: a default number of bytes, which an environment variable overrides."""

    variable: str
    default: int

    @property
    def bytes(self) -> int:
        """The limit in force; a CapscoreError if the variable is not a whole number of at least 1."""
        given = os.environ.get(self.variable, "").strip() or str(self.default)
        if not re.fullmatch(r"0*[1-9][0-9]{0,17}", given):
            raise CapscoreError(
                f"the environment variable {self.variable} is {given!r:.60}; expected a number of bytes, "
                f"such as {self.default}"
            )
        return int(given)

    def __str__(self) -> str:
        return f"the limit is {readable_size(self.bytes)} ({self.variable}={self.bytes} in the environment)"


IMAGE_BYTES = Limit("CAPSCORE_MAX_IMAGE_BYTES", 512 * 2**20)
"""Limit of an encoded image, in a file or in memory. A URL has `images.fetch.MAX_DOWNLOAD_BYTES`."""

ROW_BYTES = Limit("CAPSCORE_MAX_ROW_BYTES", 32 * 2**20)
"""Limit of one row of a text file, after unpacking: a line of JSONL, or a record of CSV or TSV."""

LIST_BYTES = Limit("CAPSCORE_MAX_LIST_BYTES", 2**30)
"""Limit of a .json file with a list, after unpacking: it is parsed in memory, unlike JSONL."""

CONFIG_BYTES = Limit("CAPSCORE_MAX_CONFIG_BYTES", 64 * 2**20)
"""Limit of a JSON file that describes a checkpoint, such as config.json or a shard index."""

UNPACKED_BYTES = Limit("CAPSCORE_MAX_UNPACKED_BYTES", 4 * 2**30)
"""Limit of what a gzipped file of a benchmark, or a file in its archive, unpacks to."""


UNPACKED_TIMES = 200
"""Most times its size that a packed file of rows may unpack to, if that is over `UNPACKED_FLOOR` bytes."""

UNPACKED_FLOOR = 2**28


def unpacked_limit(packed: int) -> int:
    """Bytes that a file of rows of that size may unpack to."""
    return max(UNPACKED_TIMES * packed, UNPACKED_FLOOR)


def readable_size(count: float) -> str:
    """A number of bytes for people.

    >>> readable_size(3_100_000)
    '3.1 MB'
    """
    for unit in ("bytes", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


# ---- lines and values ----


def text_lines(path: Path, limit: Limit = ROW_BYTES, file: Path | None = None) -> Iterator[tuple[int, str]]:
    """Numbers, from 1, and lines of a text file; `file` is what is read, if `path` is but its name.

    Raises:
        InputError: The file cannot be read, is not UTF-8, or has a line beyond the limit; names the line.
    """
    number, size, longest = 0, 0, limit.bytes
    try:
        largest = unpacked_limit((file or path).stat().st_size)
        with closing(open_bytes(file or path)) as opened:
            if _stated_size(file or path) > largest:  # before minutes are spent on its lines
                while size <= largest and (block := opened.read(2**20)):  # unless the file is torn
                    size += len(block)
                raise unpacks_too_far(path)
            while raw := opened.readline(longest + 1):
                number, size = number + 1, size + len(raw)
                if size > largest:
                    raise unpacks_too_far(path)
                if len(raw) > longest:
                    raise too_long(f"{path}, line {number}", limit)
                if number == 1:
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                text = raw.decode("utf-8")
                if number == 1 and "\0" in text:
                    raise UnicodeError
                yield number, text
    except UnicodeError:
        raise InputError(
            f"{path}, line {number} is not UTF-8 text. To convert a file, name its "
            f"encoding: iconv -f WINDOWS-1252 -t UTF-8 {path} > new{path.suffix}"
        ) from None
    except (OSError, EOFError, zlib.error) as error:  # a torn gzip file raises any of them
        raise InputError(f"{path} cannot be read after line {number}: {error}") from None


def open_bytes(path: Path) -> io.BufferedIOBase:
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else open(path, "rb")


def _stated_size(path: Path) -> int:
    """The size that the end of a gzip file says its last part unpacks to, modulo 2³²; 0 for other files."""
    with open(path, "rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return 0
        file.seek(-4, io.SEEK_END)
        return int.from_bytes(file.read(4), "little")


def too_long(place: str, limit: Limit, hint: str = "") -> InputError:
    return InputError(f"{place}: longer than {readable_size(limit.bytes)}; {limit}{hint}")


def unpacks_too_far(path: Path) -> InputError:
    return InputError(f"{path} unpacks to over {UNPACKED_TIMES} times its size, as no file of captions does")


def read_json(path: Path, file: Path | None = None) -> Any:
    """The one value of a JSON file, whatever it is; `file` is what is read, if it is a copy.

    Raises:
        InputError: The file cannot be read, is no JSON or goes beyond the limits; names the line.
    """
    lines, size = [], 0
    for _, line in text_lines(path, LIST_BYTES, file):
        size += len(line)
        if size > LIST_BYTES.bytes:
            raise too_long(str(path), LIST_BYTES, "; or write one object per line, as .jsonl")
        lines.append(line)
    return decoded("".join(lines), str(path))


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"one object has two values for {max(names, key=names.count)!r:.60}")
    return row


decode_json: Callable[[str], Any] = json.JSONDecoder(object_pairs_hook=_unrepeated).decode
"""The value of a JSON text in which no object has a name twice; ValueError or RecursionError: it is none."""


def decoded(text: str, place: str) -> Any:
    try:
        return decode_json(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not valid JSON: {error}") from None


# ---- rows ----


def _text_source(path: Path, file: Path, read: Callable[[], _Rows], **more: Any) -> RowSource:
    """Rows of a text file, which is parsed on each iteration, so that no row stays in memory."""
    names: dict[str, None] = {}
    n_rows = 0
    for _, row in read():
        n_rows += 1
        names.update(dict.fromkeys(row))
    folder = path.parent if file == path else Path()
    return RowSource(path, [*names], n_rows, read_dicts(read), folder=folder, **more)


def open_json(path: Path, file: Path) -> RowSource:
    """A document of a known layout, or objects as of `open_lines`."""
    if _start(file) == "[":
        return open_lines(path, file)
    lines = (line for _, line in text_lines(path, LIST_BYTES, file) if line.strip())
    value = None
    with suppress(ValueError, RecursionError):
        value = decode_json(next(lines, ""))
    if value is None:
        value = read_json(path, file)
    elif next(lines, None) is not None or not isinstance(value, dict):
        return _open_objects(path, file, None)
    notes: list[str] = []
    try:
        rows = rows_of_document(value, notes)
    except InputError as error:
        raise InputError(Setting("path", path), ": ", *error.parts) from None
    if rows is not None:
        return _text_source(path, file, lambda: ((None, row) for row in rows), notes=notes)
    if isinstance(value, dict) and (has_columns(value) or line_reader()(value) is not None):
        return _open_objects(path, file, [value])
    shown = f"it begins {value!r:.80}. Closest is {nearest(value)}"
    raise InputError(Setting("path", path), f" is in no known layout; {shown}")


def _start(file: Path) -> str:
    """The first character of a text that is not a space."""
    start = b""
    with suppress(OSError, EOFError, zlib.error), closing(open_bytes(file)) as opened:
        while not start and (block := opened.read1(2**16)):
            start = block.removeprefix(codecs.BOM_UTF8).lstrip()
    return start[:1].decode("utf-8", "replace")


def open_lines(path: Path, file: Path) -> RowSource:
    """An object per line, or one list of objects, whatever the suffix says."""
    objects = None
    if _start(file) == "[":
        objects = read_json(path, file)
    return _open_objects(path, file, objects)


def _open_objects(path: Path, file: Path, objects: list[Any] | None) -> RowSource:
    """Objects, None for those of the lines, with one row each, or several in a layout of several captions."""

    def rows() -> _Rows:
        rows_of = line_reader()
        for number, value in _json_lines(path, file) if objects is None else enumerate(objects):
            line: int | None = number
            place = f"{path}, line {number}"
            if objects is not None:
                line, place = None, f"{path}, element {number} counted from 0"
            if not isinstance(value, dict):
                raise InputError(
                    f"{place}: expected an object per line, or one list of objects, such as "
                    f'{{"image": "cat.jpg", "caption": "A cat."}}; got {value!r:.60}'
                )
            several = rows_of(value)
            if several is None:
                yield line, value
            else:
                yield from ((line, row) for row in several)

    return _text_source(path, file, rows)


def _json_lines(path: Path, file: Path) -> Iterator[tuple[int, Any]]:
    for number, line in text_lines(path, file=file):
        if line.strip():
            yield number, decoded(line, f"{path}, line {number}")


def with_formula(cell: str) -> str:
    """The cell of a CSV file as it was, from how `write.without_formula` wrote it.

    >>> [with_formula(cell) for cell in ("'=1+1", "-0.5", "A cat.", "''@x")]
    ['=1+1', '-0.5', 'A cat.', "'@x"]
    """
    return cell[1:] if _ESCAPED.match(cell) else cell


def _first_line(path: Path, file: Path) -> str:
    return next((line for _, line in text_lines(path, file=file) if line.strip()), "")


def open_csv(path: Path, file: Path) -> RowSource:
    """A table whose cells are separated by what parts its header into most names."""
    first = _first_line(path, file)
    n_names = {sign: len(next(csv.reader([first], delimiter=sign))) for sign in ",;|\t"}
    return open_table(path, file, max(n_names, key=n_names.__getitem__))


def open_table(path: Path, file: Path, delimiter: str = "\t") -> RowSource:
    """A table; quotation marks of one that tab or | separates may be part of captions."""
    try:
        return _table_source(path, file, delimiter, csv.QUOTE_MINIMAL)
    except InputError:
        if delimiter in "\t|":
            with suppress(InputError):
                return _table_source(path, file, delimiter, csv.QUOTE_NONE)
        raise


def _table_source(path: Path, file: Path, delimiter: str, quoting: Literal[0, 3]) -> RowSource:
    faults: dict[int, InputError] = {}
    read = partial(_table_rows, path, file, delimiter, quoting, faults)
    return _text_source(path, file, read, cells_are_text=True, faults=faults)


def open_text(path: Path, file: Path) -> RowSource:
    """Flickr8k's and Flickr30k's `name.jpg#0<TAB>caption`, or a table."""
    first = _first_line(path, file)
    if not _TOKEN.match(first):
        if not re.search(r"[,;|\t]", first):
            expected = "expected lines such as dog.jpg#0, a tab and a caption, or a table with a header"
            raise InputError(Setting("path", path), f": {expected}; it begins {first.strip()!r:.80}")
        return open_csv(path, file)
    faults: dict[int, InputError] = {}

    def rows() -> _Rows:
        lines = ((number, line) for number, line in text_lines(path, file=file) if line.strip())
        for row, (number, line) in enumerate(lines):
            if match := _TOKEN.match(line):
                yield number, {"image": match[1], "caption": match[2].strip()}
            else:
                faults[row] = InputError(f"expected dog.jpg#0, a tab and a caption; got {line!r:.60}")
                yield number, {}

    return _text_source(path, file, rows, faults=faults)


def _table_rows(
    path: Path, file: Path, delimiter: str, quoting: Literal[0, 3], faults: dict[int, InputError]
) -> _Rows:
    csv.field_size_limit(2**31 - 1)  # lists of references may be longer than the module's own 128 KB
    begin, record, longest = 1, 0, ROW_BYTES.bytes  # first line and length of the record so far

    def limited() -> Iterator[str]:
        nonlocal record
        for _, line in text_lines(path, file=file):
            record += len(line)
            if record > longest:
                hint = "; or is a quotation mark of this row never closed?"
                raise too_long(f"{path}, line {begin}", ROW_BYTES, hint)
            yield line

    skips_space = delimiter == "|"
    reader = csv.reader(
        limited(), delimiter=delimiter, strict=True, quoting=quoting, skipinitialspace=skips_space
    )
    header: list[str] = []
    n_rows = 0
    try:
        for cells in reader:
            line, begin, record = begin, reader.line_num + 1, 0
            if not header:
                header = [*map(with_formula, cells)]
                check_names_differ(path, header)
                continue
            if not cells:
                continue
            if len(cells) != len(header):
                faults[n_rows] = InputError(
                    f"{len(cells)} cells, but the header has {len(header)} columns (a cell that holds "
                    f"{delimiter!r} needs quotation marks around it)"
                )
            yield line, dict(zip(header, map(with_formula, cells), strict=False))
            n_rows += 1
    except csv.Error as error:
        kind = "TSV" if delimiter == "\t" else "CSV"
        raise InputError(
            f"{path}, line {begin}: not valid {kind}: {error} (a quotation mark inside a cell is "
            'written twice: """Stop"" sign")'
        ) from None
