"""Text files, packed or not: the limits on what comes in, lines, values of JSON, and rows.

A limit turns a mistake or a trap (a 3 GB file called photo.jpg, a quotation mark that is never closed) into
a clear error instead of a full memory. An environment variable changes each; docs/limits.md lists them.
"""

from __future__ import annotations

import codecs
import csv
import errno
import gzip
import io
import json
import os
import re
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..errors import CapscoreError, InputError, Setting
from .layouts import has_columns, line_reader, nearest, read_document
from .photo_names import IMAGE_SUFFIXES
from .row_source import Row, RowSource, check_names_differ, layout_error, read_dicts
from .scratch import process_folder

# what a spreadsheet would run; the wide forms count in Japanese and Chinese ones
FORMULA_SIGNS = "=+\\-@\\t\\r\\n＝＋－＠"
MEDIA_SUFFIXES = {*IMAGE_SUFFIXES, ".wav", ".mp3", ".flac", ".mp4", ".avi", ".webm", ".mkv"}
_TOKEN = re.compile(r"(\S[^\t]*)#[0-9]+\t(.*)", re.S)
_STATED_DELIMITER = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)  # Excel's first line
_ESCAPED = re.compile(f"'+[{FORMULA_SIGNS}]")

ByteStream: TypeAlias = "io.BufferedReader[Any] | gzip.GzipFile"
_Rows = Iterator[tuple[int | None, Row]]  # line, or None where a file has no lines, and cells


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
ROW_IN_MEMORY = 64  # bytes that a row counts for at least, as it takes time and memory even if it is empty
UNPACKS_TOO_FAR = f"unpacks to over {UNPACKED_TIMES} times its size, as no file of captions does"


def unpacked_limit(packed: int) -> int:
    """Bytes that a file of rows of that size may unpack to."""
    return max(UNPACKED_TIMES * packed, UNPACKED_FLOOR)


def readable_size(count: float) -> str:
    """A number of bytes for people."""
    if count < 1000:
        return f"{count:.0f} bytes"
    for unit in ("KB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} GB"


def copied_stream(path: Path, option: str = "path", limit: Limit | None = None) -> Path:
    """A copy of what a pipe or standard input (`-`) gives, to read it as often as needed; a file as it is."""
    opened: Path | int = path
    given = Setting(option, path)
    if path == Path("-"):
        if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
            raise InputError(given, " is standard input, and nothing is piped into it")
        opened = 0
    elif path.is_file():
        return path
    elif "\0" in str(path):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    elif not stat.S_ISFIFO(os.stat(path).st_mode):
        raise InputError(given, ": expected a file, a pipe, or - for standard input")
    with (
        open(opened, "rb", closefd=opened != 0) as source,
        tempfile.NamedTemporaryFile(dir=process_folder(), delete=False) as copy,
    ):
        while block := source.read(2**20):
            copy.write(block)
            if limit is not None and copy.tell() > limit.bytes:
                raise InputError(given, f": {longer_than(limit)}")
    return Path(copy.name)


def json_document(path: str | Path, option: str) -> Any:
    if not isinstance(path, str | os.PathLike):
        raise InputError(Setting(option, path), ": expected a path")
    try:
        return TextFile(Path(path), copied_stream(Path(path), option, LIST_BYTES)).json_value()
    except OSError as error:
        reason = f" cannot be read: {error.strerror or error}"
        raise InputError(Setting(option, Path(path)), reason) from None


# what files start with that lie where text should, and are none; where zeros stand in four bytes of mostly
# English text; encodings, as iconv calls them, with whose they are and their commonest characters as bytes;
# neighbours that no language writes, as two bytes of GBK or its kin that are valid UTF-8 by chance; and what
# browsers read pages with that name an encoding
ENCODINGS = json.loads(Path(__file__).with_name("encodings.json").read_text(encoding="utf-8"))
_ZIP = "pk\3\4"  # of the signatures, which are in lower case
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_UNDECODED = re.compile("[\udc80-\udcff]")
_MIXED = re.compile(ENCODINGS["mixed"])


def encoding_of(start: bytes) -> str:
    """The encoding that a file's first bytes say; UTF-8, with or without its mark, if they say none."""
    return next((name for mark, name in _MARKS.items() if start.startswith(mark)), "utf-8-sig")


def looks_like(start: bytes | Path, *, may_be_zip: bool = False) -> str:
    """What a file looks like by its first bytes: a pointer of Git LFS, a web page, a zip archive; else "".

    A zip archive is told only where the file should be something else.
    """
    if isinstance(start, Path):
        with start.open("rb") as opened:
            start = opened.read(64)
    lowered = start.lstrip().lower()
    for mark, name in ENCODINGS["signatures"].items():
        if lowered.startswith(mark.encode()) and not (may_be_zip and mark == _ZIP):
            return f"it looks like {name}"
    return ""


def _likeness(raw: bytes, encoding: str) -> int:
    """Number of bytes of a line that are common characters in an encoding."""
    return sum(map(len, re.findall(ENCODINGS["encodings"][encoding][1].encode(), raw)))


def looks_misread(text: str) -> bool:
    """Whether a line is valid UTF-8 by chance: bytes of GBK, or of its kin, taken for it.

    >>> looks_misread("cat.jpg,һֻè"), looks_misread("cat.jpg,Один кот"), looks_misread("x,一只猫")
    (True, False, False)
    """
    if text.isascii() or not _MIXED.search(text):
        return False
    with suppress(UnicodeError):
        beyond = re.sub("[\0-\x7f]", "", text.encode().decode("gb18030"))
        return bool(re.fullmatch("[\u4e00-\u9fff\u3000-\u303f\uff00-\uffef]+", beyond))
    return False


class TextFile:
    """A text file, packed by gzip or not.

    Args:
        file: What is read, if `path` is but its name.

    Raises (all that reads):
        InputError: The file cannot be read, is not UTF-8, goes beyond a limit, or is no JSON or CSV; names
            the line.
    """

    def __init__(self, path: Path, file: Path | None = None):
        self.path, self._file = path, file or path

    @property
    def folder(self) -> Path:
        """Folder that names of images start from: the file's, or the current one for what is piped."""
        return self.path.parent if self._file == self.path else Path()

    def __str__(self) -> str:
        return str(self.path)

    def error(self, problem: str, *, line: int | None = None) -> CapscoreError:
        """What is wrong with the file, or with a line of it, ready to be raised."""
        place = str(self)
        if line is not None:
            place += f", line {line}"
        return InputError(f"{place}: {problem}")

    @contextmanager
    def open(self) -> Iterator[ByteStream]:
        with self.errors_named(), io.BufferedReader(io.FileIO(self._file), 2**16) as file:
            if not self._is_packed:
                yield file
                return
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield unpacked

    @cached_property
    def _is_packed(self) -> bool:
        """Whether the file is packed; then it is unpacked once, so that damage and traps come early."""
        with self.errors_named(), open(self._file, "rb") as file:
            if file.read(2) != b"\x1f\x8b":
                return False
            file.seek(0)
            n_bytes, largest, too_far = 0, *self.largest(os.fstat(file.fileno()).st_size)
            with gzip.GzipFile(fileobj=file) as unpacked:
                while block := unpacked.read(2**20):
                    n_bytes += max(len(block), ROW_IN_MEMORY * block.count(b"\n"))
                    if n_bytes > largest:
                        raise self.error(too_far)
        return True

    def largest(self, packed: int) -> tuple[int, str]:
        """Most bytes that a file of a packed size may unpack to, and what is said of a larger one."""
        return unpacked_limit(packed), UNPACKS_TOO_FAR

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """What the system and unpackers say becomes an error of this file."""
        try:
            yield
        except CapscoreError:
            raise
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self.error(f"cannot be unpacked, cut short or damaged ({error})") from error
        except OSError as error:
            raise self.error(f"cannot be read ({error.strerror or error})") from error

    def text_lines(self, limit: Limit = ROW_BYTES) -> Iterator[tuple[int, str]]:
        """Numbers, from 1, and lines, with their ends: a line feed, a carriage return, or both."""
        longest = limit.bytes
        with self.open() as stream, self._decoded(stream) as text:
            lines = iter(lambda: text.readline(longest + 1), "")
            for number, line in enumerate(lines, start=1):
                if len(line) > longest:
                    raise self.error(longer_than(limit), line=number)
                if not line.isascii() and _UNDECODED.search(line):
                    raise self.error(self._how_to_convert(line), line=number)
                yield number, line

    @contextmanager
    def _decoded(self, stream: ByteStream) -> Iterator[io.TextIOWrapper]:
        """Text of bytes; one that is no UTF-8 becomes a surrogate, so that its line is known."""
        start = stream.peek(2**16)
        encoding = encoding_of(start)
        self._check_start(start[:200], encoding)
        first_end = re.search("[\r\n]+", start.decode(encoding, "ignore"))
        newline = "\n"
        if first_end is not None and "\n" not in first_end[0]:
            newline = "\r"
        errors = "strict"
        if encoding == "utf-8-sig":
            errors = "surrogateescape"
        try:
            yield io.TextIOWrapper(stream, encoding, errors, newline)
        except UnicodeError as error:
            raise self.error(f"is not {encoding.upper()} text, as its first bytes say: {error}") from None

    def _check_start(self, start: bytes, encoding: str) -> None:
        """Raise an error if the first bytes are those of another kind of file."""
        if other := looks_like(start):
            raise self.error(f"is not UTF-8 text: {other}", line=1)
        if encoding != "utf-8-sig" or b"\0" not in start:
            return
        zeros = [start[place : len(start) // 4 * 4 : 4].count(0) for place in range(4)]
        for name, expected in ENCODINGS["zeros"].items():
            if [count > len(start) // 10 for count in zeros] == expected:
                convert = self.conversion(name)
                raise self.error(f"is not UTF-8 text: it looks like {name}. To convert it: {convert}", line=1)
        raise self.error("is not UTF-8 text: it looks like binary data", line=1)

    def conversion(self, encoding: str) -> str:
        """The command that makes a UTF-8 file of it."""
        return f"iconv -f {encoding} -t UTF-8 {self.path} > new{self.path.suffix}"

    def _how_to_convert(self, line: str) -> str:
        """What is wrong with a line that is not UTF-8, and the likeliest command against it."""
        raw = line.encode("utf-8", "surrogateescape")
        first = next(character for character in line if _UNDECODED.match(character))
        problem = f"is not UTF-8 text: byte 0x{ord(first) - 0xDC00:02x} cannot be decoded"
        known = ENCODINGS["encodings"]
        likeliest = max(known, key=lambda name: _likeness(raw, name))
        return (
            f"{problem}. If it is {likeliest} ({known[likeliest][0]}), this converts it: "
            f"{self.conversion(likeliest)}"
        )

    def start(self) -> str:
        """The first character that is not a space, "" if there is none."""
        with self.open() as stream, self._decoded(stream) as text:
            return next(filter(str.strip, iter(lambda: text.read(1), "")), "")

    def first_line(self) -> str:
        """The first line that is not blank, "" if there is none."""
        return next((line for _, line in self.text_lines() if line.strip()), "")

    def text(self) -> str:
        lines, size = [], 0
        for _, line in self.text_lines(LIST_BYTES):
            size += len(line)
            if size > LIST_BYTES.bytes:
                raise self.error(f"{longer_than(LIST_BYTES)}; or write one object per line, as .jsonl")
            lines.append(line)
        return "".join(lines)

    def json_value(self) -> Any:
        """The one value of a JSON file, whatever it is."""
        return self.decoded(self.text())

    def json_lines(self) -> Iterator[tuple[int, object]]:
        """Number and value of each line of JSON that is not blank."""
        for number, line in self.text_lines():
            if line.strip() in ("{", "["):
                hint = f"; `jq -c . {self.path}` writes an object per line"
                raise self.error(f"not valid JSON: the object is on several lines{hint}", line=number)
            if line.strip():
                yield number, self.decoded(line, number)

    def decoded(self, text: str, line: int | None = None) -> Any:
        """The value of a JSON text, the whole file or a line."""
        try:
            return decode_json(text)
        except (ValueError, RecursionError) as error:  # also a number of thousands of digits
            at_end = isinstance(error, json.JSONDecodeError) and error.pos >= len(text.rstrip()) - 1
            cut = " (cut short?)" if at_end or "Unterminated" in str(error) else ""
            line = line or getattr(error, "lineno", None)
            raise self.error(f"not valid JSON: {error}{cut}", line=line) from error

    def records(
        self, delimiter: str, quoting: Literal[0, 3] = csv.QUOTE_MINIMAL
    ) -> Iterator[tuple[int, list[str]]]:
        """Line on which each record of a table begins, and its cells; the first record is the header."""
        csv.field_size_limit(2**31 - 1)  # lists of references may be longer than the module's own 128 KB
        begin, size, longest = 1, 0, ROW_BYTES.bytes  # first line and length of the record so far

        def limited() -> Iterator[str]:
            nonlocal size
            for _, line in self.text_lines():
                size += len(line)
                if size > longest:
                    hint = "; or is a quotation mark of this row never closed?"
                    raise self.error(longer_than(ROW_BYTES) + hint, line=begin)
                yield line

        reader = csv.reader(
            limited(), delimiter=delimiter, strict=True, quoting=quoting, skipinitialspace=delimiter == "|"
        )
        try:
            for cells in reader:
                line, begin, size = begin, reader.line_num + 1, 0
                if cells:
                    yield line, cells
        except csv.Error as error:
            kind = {"\t": "TSV"}.get(delimiter, "CSV")
            cut = " (cut short?)" if "unexpected end" in str(error) else ""
            hint = '(a quotation mark inside a cell is written twice: """Stop"" sign")'
            raise self.error(f"not valid {kind}: {error}{cut} {hint}", line=begin) from None


def longer_than(limit: Limit) -> str:
    """What is said of a line or file beyond a limit."""
    return f"longer than {readable_size(limit.bytes)}; {limit}"


def _unrepeated(pairs: list[tuple[str, object]]) -> Row:
    row = dict(pairs)
    if len(row) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"one object has two values for {max(names, key=names.count)!r:.60}")
    return row


decode_json: Callable[[str], Any] = json.JSONDecoder(object_pairs_hook=_unrepeated).decode
"""The value of a JSON text in which no object has a name twice; ValueError or RecursionError: it is none."""


def _text_source(
    file: TextFile,
    read: Callable[[], _Rows],
    *,
    cells_are_text: bool = False,
    faults: Mapping[int, InputError] | None = None,
    notes: Sequence[str] = (),
    format: str = "rows",
) -> RowSource:
    """Rows of a text file, which is parsed on each iteration, so that no row stays in memory."""
    names: dict[str, None] = {}
    lists: set[str] = set()
    n_rows, n_misread = 0, 0
    for _, row in read():
        n_rows += 1
        is_misread = False
        for name, cell in row.items():
            names[name] = None
            if isinstance(cell, str):
                is_misread = is_misread or (not cell.isascii() and looks_misread(cell))
                if cells_are_text and cell[:1] == "[":
                    lists.add(name)
            elif isinstance(cell, list):
                lists.add(name)
        n_misread += is_misread
    if n_misread:
        note = (
            f"{n_misread:,} rows of {file} look like text of another encoding, such as GBK, that is valid "
            f"UTF-8 by chance; to convert it: {file.conversion('GB18030')}"
        )
        notes = [*notes, note]
    return RowSource(
        file.path,
        [*names],
        n_rows,
        read_dicts(read),
        cells_are_text=cells_are_text,
        notes=notes,
        faults={} if faults is None else faults,
        image_folder=file.folder,
        format=format,
        lists=frozenset(lists),
    )


def open_json(file: TextFile) -> RowSource:
    """A document of a known layout, or objects as of `open_lines`."""
    if file.start() == "[":
        return open_lines(file)
    lines = (line for _, line in file.text_lines(LIST_BYTES) if line.strip())
    value = None
    with suppress(ValueError, RecursionError):
        value = decode_json(next(lines, ""))
    if value is None:
        value = file.json_value()
    elif next(lines, None) is not None or not isinstance(value, dict):
        return _open_objects(file, None)
    notes: list[str] = []
    try:
        layout, rows = read_document(value, notes)
    except InputError as error:
        raise layout_error(file.path, Setting("path", file.path), ": ", *error.parts) from None
    if rows is not None:
        return _text_source(file, lambda: ((None, row) for row in rows), notes=notes, format=layout)
    if isinstance(value, dict) and (has_columns(value) or line_reader()(value) is not None):
        return _open_objects(file, [value])
    shown = f"it begins {value!r:.80}. Closest is {nearest(value)}"
    raise layout_error(file.path, Setting("path", file.path), f" is in no known layout; {shown}")


def open_lines(file: TextFile) -> RowSource:
    """An object per line, or one list of objects, whatever the suffix says."""
    objects = None
    if file.start() == "[":
        objects = file.json_value()
    return _open_objects(file, objects)


def _open_objects(file: TextFile, objects: list[object] | None) -> RowSource:
    """Objects, None for those of the lines, with one row each, or several in a layout of several captions."""

    def place(number: int, line: int | None) -> str:
        return f"{file}, " + (f"element {number}, counted from 0" if line is None else f"line {line}")

    def rows() -> _Rows:
        rows_of = line_reader()
        # captions alone, or lists of references alone
        are_texts = {type(value) for value in objects or ()} in ({str}, {list})
        values = file.json_lines() if objects is None else ((None, value) for value in objects)
        for number, (line, value) in enumerate(values):
            if are_texts:
                yield line, {"caption" if isinstance(value, str) else "references": value}
                continue
            if not isinstance(value, dict):
                raise InputError(
                    f"{place(number, line)}: expected an object per line, or one list of objects, such as "
                    f'{{"image": "cat.jpg", "caption": "A cat."}}; got {value!r:.60}'
                )
            try:
                several = rows_of(value)
            except InputError as error:
                raise layout_error(file.path, f"{place(number, line)}: ", *error.parts) from None
            if several is None:
                yield line, value
            else:
                yield from ((line, row) for row in several)

    return _text_source(file, rows)


def with_formula(cell: str) -> str:
    """The cell of a CSV file as it was, from how `write.without_formula` wrote it.

    >>> [with_formula(cell) for cell in ("'=1+1", "-0.5", "A cat.", "''@x")]
    ['=1+1', '-0.5', 'A cat.', "'@x"]
    """
    if _ESCAPED.match(cell):
        return cell[1:]
    return cell


def open_csv(file: TextFile) -> RowSource:
    """A table whose cells are separated as it says itself, or by what parts its header into most names."""
    first = file.first_line()
    if stated := _STATED_DELIMITER.fullmatch(first):
        return open_table(file, stated[1])
    n_names = {sign: len(next(csv.reader([first], delimiter=sign))) for sign in ",;|\t"}
    return open_table(file, max(n_names, key=n_names.__getitem__))


def open_tsv(file: TextFile) -> RowSource:
    """A table that tabs separate; or another sign, where its first line has none."""
    if "\t" in file.first_line():
        return open_table(file, "\t")
    return open_csv(file)


def open_table(file: TextFile, delimiter: str) -> RowSource:
    """A table; quotation marks of one that tab or | separates may be part of captions."""
    try:
        return _table_source(file, delimiter, csv.QUOTE_MINIMAL)
    except InputError:
        if delimiter in "\t|":
            with suppress(InputError):
                return _table_source(file, delimiter, csv.QUOTE_NONE)
        raise


def _table_source(file: TextFile, delimiter: str, quoting: Literal[0, 3]) -> RowSource:
    faults: dict[int, InputError] = {}
    n_before = int(_STATED_DELIMITER.fullmatch(file.first_line()) is not None)
    first = [cells for _, cells in islice(file.records(delimiter, quoting), n_before, n_before + 2)]
    header = [*map(with_formula, next(iter(first), []))]
    while len(header) > 1 and not header[-1].strip():  # columns that a spreadsheet left empty
        header.pop()
    notes: list[str] = []
    if names := _names_without_header(first):
        header, n_before = names, n_before - 1
        notes.append(
            f"{file} has no header: the column {names.index('image') + 1} is read as the image, "
            f"{names.index('caption') + 1} as the caption"
        )
    check_names_differ(file.path, header)

    def rows() -> _Rows:
        records = islice(file.records(delimiter, quoting), n_before + 1, None)
        filled = ((line, cells) for line, cells in records if any(cells) or len(header) == 1)
        for row, (line, cells) in enumerate(filled):
            while len(cells) > len(header) and not cells[-1].strip():
                cells.pop()
            if len(cells) != len(header):
                faults[row] = InputError(
                    f"{len(cells)} cells, but the header has {len(header)} columns (a cell that holds "
                    f"{delimiter!r} needs quotation marks around it)"
                )
            yield line, dict(zip(header, map(with_formula, cells), strict=False))

    return _text_source(file, rows, cells_are_text=True, faults=faults, notes=notes)


def _names_without_header(records: Sequence[Sequence[str]]) -> list[str]:
    """Names of the two columns of a table without a header; [] for any other.

    Its first line names a photo beside a text of several words: by an address, by a file's suffix, or in the
    same form as the second line does, as ROCO_00001 and ROCO_00002.
    """
    if not records or len(records[0]) != 2 or has_columns(records[0]):
        return []
    for photo in (0, 1):
        name, caption = records[0][photo].strip(), records[0][1 - photo].strip()
        forms = {re.sub("[0-9]+", "0", cells[photo].strip()) for cells in records if len(cells) == 2}
        is_photo = re.match("https?://", name) or Path(name).suffix.lower() in MEDIA_SUFFIXES
        if (is_photo or (len(records) == len(forms) + 1 and "0" in min(forms))) and " " not in name:
            if " " in caption:
                return ["image", "caption"] if photo == 0 else ["caption", "image"]
    return []


def open_text(file: TextFile) -> RowSource:
    """Flickr8k's and Flickr30k's `name.jpg#0<TAB>caption`; a table; or captions, one per line."""
    first = file.first_line()
    if not _TOKEN.match(first):
        if _is_table(file):
            return open_csv(file)
        return _text_source(
            file, lambda: ((number, {"caption": line.strip()}) for number, line in file.text_lines())
        )
    faults: dict[int, InputError] = {}

    def rows() -> _Rows:
        lines = ((number, line) for number, line in file.text_lines() if line.strip())
        for row, (number, line) in enumerate(lines):
            if match := _TOKEN.match(line):
                yield number, {"image": match[1], "caption": match[2].strip()}
            else:
                faults[row] = InputError(f"expected dog.jpg#0, a tab and a caption; got {line!r:.60}")
                yield number, {}

    return _text_source(file, rows, faults=faults)


def _is_table(file: TextFile) -> bool:
    """Whether a text file is a table: by Excel's first line, names of columns, or tabs."""
    lines = [line for _, line in islice(file.text_lines(), 2)]
    first = file.first_line()
    if _STATED_DELIMITER.fullmatch(first):
        return True
    for sign in ",;|\t":
        names = next(csv.reader([first], delimiter=sign))
        if len(names) > 1 and has_columns(names):
            return True
    return bool(_names_without_header([line.rstrip("\r\n").split("\t") for line in lines]))
