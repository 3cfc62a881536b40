"""A benchmark's annotation file, plain, gzipped or inside an archive → its lines, rows or document, checked.

Whatever is wrong with a file is an `AnnotationError` that names the file and the line, or the entry of a JSON
document. Nothing here knows what the rows mean.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from ...errors import CapscoreError, Part, join_parts
from ...files.sizes import LIST_BYTES, ROW_BYTES, Limit
from .archives import PackedFileError, member_names, open_packed

# what files start with (letters in lower case) that lie where an annotation file should, and are none
_SIGNATURES = {
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"pk\x03\x04": "a zip archive",
    b"\x1f\x8b": "gzip",
    b"version https://git-lfs": "a pointer of Git LFS, and `git lfs pull` gets the file itself",
    b"<!doctype html": "a web page",
    b"<html": "a web page",
}
# in JSON: a backslash, a pair of surrogates, or (group 1) one alone, which is no character
_LONE_SURROGATE = re.compile(r"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)")
csv.field_size_limit(2**31 - 1)


def _listed(names: Iterable[str]) -> str:
    """The first names of columns or fields, shortened."""
    shown = [str(name)[:60] for name in names]
    return ", ".join(shown[:20]) + (f" and {len(shown) - 20:,} more" if len(shown) > 20 else "")


class AnnotationError(CapscoreError, ValueError):
    """An annotation file is not what its benchmark documents.

    Args:
        parts: Pieces of the message: what was found and what was expected.
        file: the file, and what is read from inside it if it is an archive.
        line: 1-based line, or None where none is at fault.
        entry: key or number of an entry in a JSON document.
    """

    def __init__(self, *parts: Part, file: str = "", line: int | None = None, entry: object = None):
        self.message, self.file, self.line, self.entry = join_parts(parts), file, line, entry
        self._given = parts
        place = [file] if file else []
        if line is not None:
            place.append(f"line {line}")
        if entry is not None:
            place.append(f"entry {entry!r}" if isinstance(entry, str) else f"entry {entry}")
        before = (f"{', '.join(place)}: ",) if place else ()
        super().__init__(*before, *parts)

    def __reduce__(self):
        return _rebuild, (type(self), self._given, self.file, self.line, self.entry)


class MissingAnnotations(AnnotationError):
    """An annotation file is not there, and cannot be downloaded."""


def _rebuild(
    kind: type[AnnotationError], parts: tuple[Part, ...], file: str, line: int | None, entry: object
) -> AnnotationError:
    return kind(*parts, file=file, line=line, entry=entry)


@dataclass(frozen=True)
class AnnotationFile:
    """An annotation file as its authors publish it.

    Args:
        names: where it may lie under `data_dir`, first found first taken; "captions.zip::captions.jsonl" is a
            file inside an archive. `{config}` stands for the configuration's name.
        url: where it is downloaded from if it is not there; "" if it cannot be.
        sha256: of what the URL gives (the archive, if it is one); a download that differs is refused.
        git_blob: the same in git's own form, where only that is known of a file in a repository.
        published: SHA-256 sums of the official file, for `capscore data check`; the URL's is one of them.
        source: where a person gets it, in words.
        optional: rows can be read without it.
    """

    names: tuple[str, ...]
    url: str = ""
    sha256: str = ""
    git_blob: str = ""
    published: tuple[str, ...] = ()
    source: str = ""
    optional: bool = False


@dataclass(frozen=True)
class KeptReadings:
    """What was read from files, for builders that read the same files, such as one for each language.

    Rows are the same objects for all of them, so a script that changes a row must copy it first. A file that
    has changed is read again.

    Attributes:
        rows: File and its state → (line, row) of every row.
        digests: File and its state → SHA-256.
    """

    rows: dict[tuple[object, ...], list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)
    digests: dict[tuple[object, ...], str] = field(default_factory=dict)


@dataclass(frozen=True)
class AnnotationSource:
    """One annotation file that is there.

    Args:
        path: the file, or the zip or tar archive that holds it.
        member: name inside the archive; "" for a plain file. The last parts of a path are enough.
        opened: is told whenever the file is read.
        kept: rows and sums of files that others have read; None reads the file itself.

    Raises (all that reads):
        AnnotationError: cut short, not UTF-8, wrong columns or fields; names file and line.
    """

    path: Path
    member: str = ""
    opened: Callable[[AnnotationSource], None] | None = field(default=None, compare=False, repr=False)
    kept: KeptReadings | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.path}::{self.member}" if self.member else str(self.path)

    def error(
        self, message: str, *, line: int | None = None, entry: object = None, member: str | None = None
    ) -> AnnotationError:
        """What is wrong with this file, ready to be raised."""
        file = str(self) if member is None else f"{self.path}::{member}"
        return AnnotationError(message, file=file, line=line, entry=entry)

    # ------------------------------------------------------------------------ bytes

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The file's bytes, unpacked, as a stream."""
        if self.opened is not None:
            self.opened(self)
        with self.reading(), self._opened() as stream:
            yield stream

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Whatever goes wrong when bytes are read or unpacked is this file's error."""
        try:
            yield
        except PackedFileError as error:
            raise self.error(str(error)) from error.__cause__
        except OSError as error:
            raise self.error(f"cannot be read ({error.strerror or error})") from error

    def _opened(self) -> AbstractContextManager[IO[bytes]]:
        return open_packed(self.path, self.member)

    def members(self) -> list[str]:
        """Names of the files inside the archive."""
        with self.reading():
            return member_names(self.path)

    def sha256(self) -> str:
        """SHA-256 of the file as it lies on disk (of the archive, if it is one)."""
        if self.kept is None:
            return self._sha256()
        state = self._state()
        if state not in self.kept.digests:
            self.kept.digests[state] = self._sha256()
        return self.kept.digests[state]

    def _state(self) -> tuple[object, ...]:
        """What is another if the file has changed."""
        with self.reading():
            status = self.path.stat()
        return self.path, self.member, status.st_ino, status.st_size, status.st_mtime_ns

    def _sha256(self) -> str:
        digest = hashlib.sha256()
        with self.reading(), open(self.path, "rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()

    def git_blob(self) -> str:
        """The id by which git knows the file: SHA-1 of "blob", its size and its bytes."""
        with self.reading(), open(self.path, "rb") as stream:
            size = self.path.stat().st_size
            digest = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
            while block := stream.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()

    # ------------------------------------------------------------------------- text

    def text(self) -> str:
        """The whole file as text."""
        with self.open() as stream:
            data = stream.read(LIST_BYTES.bytes + 1)
        self._check_length(data, LIST_BYTES, "the file")
        self._check_start(data[:200])
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise self._not_utf8(data[error.start], line) from error

    def lines(self, *, ended: bool = False) -> Iterator[tuple[int, str]]:
        """(1-based number, text without its line end) of every line, blank ones included.

        Args:
            ended: the last line must have a line end too. Where any text makes a good line, nothing else
                tells that a file was cut short in the middle of one.
        """
        most = ROW_BYTES.bytes
        with self.open() as stream:
            for number, raw in enumerate(iter(lambda: stream.readline(most + 1), b""), start=1):
                self._check_length(raw, ROW_BYTES, "the line", line=number)
                if number == 1:
                    self._check_start(raw[:200])
                    raw = raw.removeprefix(b"\xef\xbb\xbf")
                if ended and not raw.endswith((b"\n", b"\r")):
                    raise self.error("is the last line, and has no line end: cut short?", line=number)
                try:
                    yield number, raw.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise self._not_utf8(raw[error.start], number) from error

    def _check_length(self, data: bytes, limit: Limit, what: str, *, line: int | None = None) -> None:
        if len(data) > limit.bytes:
            raise self.error(f"{what} is larger than it may be: {limit}", line=line)

    def _check_start(self, start: bytes) -> None:
        """What is no text, or a text that stands for the file, is called what it is."""
        plain = start.lstrip().lower()
        known = next((name for mark, name in _SIGNATURES.items() if plain.startswith(mark)), None)
        if known is None and b"\0" in start:
            known = "UTF-16, or binary data"
        if known is not None:
            raise self.error(f"is not UTF-8 text: it looks like {known}", line=1)

    def _not_utf8(self, byte: int, line: int) -> AnnotationError:
        return self.error(
            f"is not UTF-8 text: byte 0x{byte:02x} cannot be decoded; expected UTF-8", line=line
        )

    def line_of(self, text: str) -> int | None:
        """1-based number of the first line with this text (blanks in a row count as one), if it is found."""
        forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
        try:
            for number, line in self.lines():
                plain = " ".join(line.split())
                if any(form in plain for form in forms):
                    return number
        except AnnotationError:
            return None  # a binary file has no lines
        return None

    def tsv(self, *columns: str) -> Iterator[tuple[int, list[str]]]:
        """(line, its tab-separated values); every line must have as many as there are names here."""
        empty = True
        for number, text in self.lines(ended=True):
            if not text.strip():
                continue
            empty = False
            values = text.split("\t")
            if len(values) != len(columns):
                raise self.error(
                    f"expected {len(columns)} tab-separated columns ({', '.join(columns)}), found "
                    f"{len(values)}: {text!r:.80}",
                    line=number,
                )
            yield number, values
        if empty:
            raise self.error("is empty")

    def jsonl(self, *required: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """(line, its JSON object); every object must have the fields named here."""
        for number, row in self._kept_rows():
            self.require(row, required, line=number)
            yield number, row

    def _kept_rows(self) -> Iterable[tuple[int, dict[str, Any]]]:
        if self.kept is None:
            return self._objects()
        state = self._state()
        if state not in self.kept.rows:
            self.kept.rows[state] = list(self._objects())
        elif self.opened is not None:
            self.opened(self)
        return self.kept.rows[state]

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        empty = True
        for number, text in self.lines():
            if not text.strip():
                continue
            empty = False
            yield number, self._parsed(text, line=number)
        if empty:
            raise self.error("is empty")

    def json(self) -> Any:
        """The whole JSON document."""
        text = self.text()
        if not text.strip():
            raise self.error("is empty")
        return self._parsed(text)

    def _parsed(self, text: str, line: int | None = None) -> Any:
        """A JSON document, or the object on a line of a file of such lines."""
        try:
            document = json.loads(text, object_pairs_hook=partial(self._object, line))
        except AnnotationError:
            raise
        except json.JSONDecodeError as error:
            problem = error.msg.removesuffix(" at")
            if line is not None:
                raise self.error(
                    f"is not a JSON object on one line ({problem} at column {error.colno}; cut short?): "
                    f"{text!r:.60}",
                    line=line,
                ) from error
            ends = error.pos >= len(text.rstrip()) - 1 or problem.startswith("Unterminated string")
            cut = " (the file ends there: cut short?)" if ends else ""
            raise self.error(
                f"is not JSON: {problem} at column {error.colno}{cut}", line=error.lineno
            ) from error
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, or of levels
            raise self.error(f"is not JSON that can be read ({error})", line=line) from error
        if "\\ud" in text or "\\uD" in text:
            self._check_surrogates(text, line)
        return document

    def _check_surrogates(self, text: str, line: int | None) -> None:
        for found in _LONE_SURROGATE.finditer(text):
            if found[1]:
                start, end = found.span()
                raise self.error(
                    f"has half a character, {found[1]}, in …{text[max(start - 20, 0) : end]!r}…",
                    line=line or text.count("\n", 0, start) + 1,
                )

    def _object(self, line: int | None, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(pairs)
        if len(document) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise self.error("appears twice in one JSON object", line=line, entry=twice)
        return document

    def csv(self, *required: str, delimiter: str = ",") -> Iterator[tuple[int, dict[str, str]]]:
        """(line where the row ends, its values by column); the header must have the columns named here."""
        reader = csv.reader(io.StringIO(self.text(), newline=""), delimiter=delimiter, strict=True)
        header: list[str] | None = None
        try:
            for values in reader:
                if not any(value.strip() for value in values):
                    continue
                if header is None:
                    header = [value.strip() for value in values]
                    self._check_header(header, required, delimiter)
                    continue
                if len(values) != len(header):
                    raise self.error(
                        f"expected {len(header)} columns as in the header, found {len(values)}: "
                        f"{values!r:.80}",
                        line=reader.line_num,
                    )
                yield reader.line_num, dict(zip(header, values, strict=True))
        except csv.Error as error:
            raise self.error(f"is not CSV: {error} (cut short?)", line=reader.line_num) from error
        if header is None:
            raise self.error("is empty")

    def _check_header(self, header: list[str], required: Sequence[str], delimiter: str) -> None:
        missing = [name for name in required if name not in header]
        if missing:
            names = ", ".join(map(repr, missing))
            raise self.error(
                f"lacks the column{'s' if len(missing) > 1 else ''} {names}; its columns, separated by "
                f"{delimiter!r}, are {_listed(header)}",
                line=1,
            )
        twice = next((name for name in header if name and header.count(name) > 1), None)
        if twice is not None:
            raise self.error(f"has the column {twice!r} twice", line=1)

    def parquet(self, *required: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """(0-based row, its values by column); in batches, so photos inside take no memory."""
        import pyarrow
        from pyarrow import parquet

        number = 0
        try:
            with self.open() as stream, parquet.ParquetFile(stream) as table:
                self.require(dict.fromkeys(table.schema_arrow.names), required)
                for batch in table.iter_batches(batch_size=64):
                    for row in batch.to_pylist():
                        yield number, row
                        number += 1
        except (pyarrow.ArrowException, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise self.error(f"is not Parquet, or cut short: {reason}") from error
        if not number:
            raise self.error("is empty")

    # ------------------------------------------------------------------------ values

    def require(
        self, row: Any, required: Iterable[str], *, line: int | None = None, entry: object = None
    ) -> None:
        """A row of a JSON file must be an object that has these fields."""
        if not isinstance(row, Mapping):
            raise self.error(
                f"expected a JSON object, found {type(row).__name__}: {row!r:.60}", line=line, entry=entry
            )
        missing = [name for name in required if name not in row]
        if missing:
            raise self.error(
                f"lacks the field{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))}; it has "
                f"{_listed(row)}",
                line=line,
                entry=entry,
            )

    def number(
        self,
        value: Any,
        name: str,
        low: float,
        high: float,
        *,
        line: int | None = None,
        entry: object = None,
    ) -> float:
        """A value that must be a number from low to high."""
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = float("nan")
        if isinstance(value, bool) or not low <= number <= high:
            raise self.error(
                f"{name} is {value!r:.60}, expected a number from {low:g} to {high:g}", line=line, entry=entry
            )
        return number

    def integer(
        self,
        value: Any,
        name: str,
        low: int,
        high: int,
        *,
        line: int | None = None,
        entry: object = None,
    ) -> int:
        """A value that must be a whole number from low to high."""
        number = self.number(value, name, low, high, line=line, entry=entry)
        if number != int(number):
            raise self.error(
                f"{name} is {value!r:.60}, expected a whole number from {low} to {high}",
                line=line,
                entry=entry,
            )
        return int(number)

    def flag(self, value: Any, name: str, *, line: int | None = None, entry: object = None) -> bool:
        """A value that must be JSON's true or false."""
        if not isinstance(value, bool):
            raise self.error(f"{name} is {value!r:.60}, expected true or false", line=line, entry=entry)
        return value

    def identifier(self, value: Any, name: str, *, line: int | None = None, entry: object = None) -> str:
        """A value that must name something, such as a photo or a row: a string that is not blank."""
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"{name} is {value!r:.60}, expected a name", line=line, entry=entry)
        return value.strip()

    def photo(self, value: Any, name: str, *, line: int | None = None, entry: object = None) -> str:
        """A value that must be a photo's file name: no benchmark has one with a blank in it."""
        text = self.identifier(value, name, line=line, entry=entry)
        if any(character.isspace() for character in text):
            raise self.error(f"{name} is {text!r:.60}, expected a photo's file name", line=line, entry=entry)
        return text

    def once(
        self,
        seen: dict[str, tuple[int | None, object]],
        value: str,
        name: str,
        *,
        line: int | None = None,
        entry: object = None,
    ) -> None:
        """A value that must not come twice; `seen` remembers where each was."""
        if value in seen:
            first, before = seen[value]
            where = f"line {first}" if first is not None else f"entry {before}"
            raise self.error(f"{name} {value!r} appears twice, first in {where}", line=line, entry=entry)
        seen[value] = (line, entry)

    def items(self, value: Any, name: str, *, line: int | None = None, entry: object = None) -> list[Any]:
        """A value that must be a JSON list."""
        if not isinstance(value, list):
            raise self.error(f"{name} is {value!r:.60}, expected a list", line=line, entry=entry)
        return value

    def caption(self, value: Any, name: str, *, line: int | None = None, entry: object = None) -> str:
        """A value that must be a caption: a string with something in it; blanks in a row become one."""
        if not isinstance(value, str):
            raise self.error(
                f"{name} is {value!r:.60} ({type(value).__name__}), expected a caption",
                line=line,
                entry=entry,
            )
        text = " ".join(value.split())
        if not text:
            raise self.error(f"{name} is empty, expected a caption", line=line, entry=entry)
        return text
