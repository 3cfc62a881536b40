"""A benchmark's annotation file, plain, gzipped or in a ZIP archive → its lines, rows or document, checked.

Whatever is wrong is an `AnnotationError` that names the file and the line, or the place in a JSON document.
Nothing is unpacked onto the disk, so no name inside an archive can lead anywhere.
"""

from __future__ import annotations

import hashlib
import io
import json
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import CapscoreError, Part, join_parts
from ...files.text_files import UNPACKED_BYTES, ByteStream, TextFile
from ...images.load import photo_problem


class AnnotationError(CapscoreError, ValueError):
    """An annotation file is not what its benchmark documents.

    Args:
        parts: Pieces of the message: what was found and what was expected.
        file: File, with the member if it is an archive.
        line: 1-based line at fault, or None.
        entry: Place in a document.
    """

    def __init__(self, *parts: Part, file: str = "", line: int | None = None, entry: object = None):
        self.message, self.file, self.line, self.entry = join_parts(parts), file, line, entry
        self._given = parts
        known = {"": file or None, "line ": line, "entry ": entry}
        place = ", ".join(f"{name}{value}" for name, value in known.items() if value is not None)
        super().__init__(*((f"{place}: ",) if place else ()), *parts)

    def __reduce__(self):
        return partial(type(self), file=self.file, line=self.line, entry=self.entry), self._given


class MissingAnnotations(AnnotationError):
    """An annotation file is not there, and cannot be downloaded."""


@dataclass(frozen=True)
class AnnotationFile:
    """An annotation file as its authors publish it.

    Args:
        names: Possible places under `data_dir`, of which the first that exists is used;
            "captions.zip::captions.jsonl" is a file inside an archive. `{config}` stands for the
            configuration's name.
        source: Where to get the file, in words.
        url: Address to download the file from if it is missing; "" if it cannot be downloaded.
        sha256: SHA-256 of the download, or of the first of the names; a download that differs is refused.
        git_blob: The same as git's blob hash, if only that is known.
    """

    names: tuple[str, ...]
    source: str = ""
    url: str = ""
    sha256: str = ""
    git_blob: str = ""

    @classmethod
    def in_folders(
        cls, name: str, folders: Sequence[str], source: str, url: str = "", sha256: str = ""
    ) -> AnnotationFile:
        """A file in one of several folders ("" is `data_dir`, "data/" is in it), or at `url`/name."""
        return cls(tuple(f"{folder}{name}" for folder in folders), source, url and f"{url}/{name}", sha256)


def checksums(benchmark: str) -> dict[str, Any]:
    """SHA-256 of the files of a benchmark that has many, by their names."""
    return json.loads(Path(__file__).with_name("checksums.json").read_text(encoding="utf-8"))[benchmark]


class AnnotationSource(TextFile):
    """One annotation file: plain, gzipped, or a member of a ZIP archive, by the last parts of its path.

    `opened` gets the file by its path when it is read; `readings` keeps what was read for all who share it.
    What is wrong is an `AnnotationError` that names file and line.
    """

    def __init__(
        self,
        path: Path,
        member: str = "",
        opened: dict[Path, AnnotationSource] | None = None,
        readings: dict[tuple[str, str], Any] | None = None,
        content: bytes | None = None,
    ):
        super().__init__(path)
        self.member, self.opened, self.readings, self.content = member, opened, readings, content
        self.photos: set[str] = set()  # MD5 of photos in the file that were looked at

    def __str__(self) -> str:
        return f"{self.path}::{self.member}" if self.member else str(self.path)

    def error(self, problem: str, *, line: int | None = None, entry: object = None) -> AnnotationError:
        return AnnotationError(problem, file=str(self), line=line, entry=entry)

    def row(self, values: object, *, line: int | None = None, entry: object = None) -> Row:
        return Row(values, self, line, entry)

    # ---- bytes ----

    @contextmanager
    def open(self) -> Iterator[ByteStream]:
        self._note_opened()
        content = self.content
        if content is None and not self.member:
            with super().open() as stream:
                yield stream
            return
        if content is None:
            with self.zip() as archive:
                content = self.entry(archive, self._find(archive))
        yield io.BufferedReader(io.BytesIO(content))

    def _note_opened(self) -> None:
        if self.opened is not None:
            self.opened[self.path] = self

    def largest(self, packed: int) -> tuple[int, str]:
        return UNPACKED_BYTES.bytes, f"unpacks to more than it may: {UNPACKED_BYTES}"

    @contextmanager
    def zip(self) -> Iterator[zipfile.ZipFile]:
        self._note_opened()
        with self.errors_named():
            with self._unpacking():
                archive = zipfile.ZipFile(self.path)
            with archive:
                yield archive

    def entry(self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
        """The bytes of a file in this archive."""
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise self.error(f"{entry.filename!r:.200} in the archive is a link, not a file")
        largest, too_far = self.largest(entry.compress_size)
        with self._unpacking(), archive.open(entry) as stream:
            content = stream.read(largest + 1)
        if len(content) > largest:
            raise self.error(too_far)
        return content

    def _find(self, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
        """The member; names that lead out of the archive are not looked at."""
        names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
        ending = []
        for name in names:
            leads_out = name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/")
            if f"/{name}".endswith(f"/{self.member}") and not leads_out:
                ending.append(name)
        if not ending:
            shown = ", ".join(f"{name!r:.60}" for name in sorted(names)[:5]) or "nothing"
            more = ", …" if len(names) > 5 else ""
            raise self.error(f"the archive holds no {self.member} (it holds {shown}{more})")
        name = min(ending, key=lambda name: (len(name), name))
        if names.count(name) > 1:
            times = names.count(name)
            raise self.error(f"the archive holds {name!r:.200} {times} times; expected it once")
        return archive.getinfo(name)

    @contextmanager
    def _unpacking(self) -> Iterator[None]:
        """Whatever a reader of archives raises for damaged ones, of which it documents a part."""
        try:
            yield
        except (OSError, MemoryError):
            raise
        except (NotImplementedError, RuntimeError) as error:  # compressed in another way, or encrypted
            raise self.error(f"cannot be unpacked ({error})") from error
        except Exception as error:  # zlib.error, struct.error, EOFError, BadZipFile, ValueError, …
            reason = str(error) or type(error).__name__
            raise self.error(f"cannot be unpacked, cut short or damaged ({reason:.200})") from error

    # ---- checksums ----

    def sha256(self) -> str:
        """SHA-256 of the file as it lies on disk (of the archive, if it is one)."""
        key = ("sha256", str(self.path))
        readings = {} if self.readings is None else self.readings
        if key not in readings:
            readings[key] = self._digest(hashlib.sha256())
        return readings[key]

    def git_blob(self) -> str:
        """The id by which git knows the file: SHA-1 of "blob", its size and its bytes."""
        head = f"blob {self.path.stat().st_size}\0"
        return self._digest(hashlib.sha1(head.encode(), usedforsecurity=False))

    def is_published(self, known: AnnotationFile) -> bool:
        return self.sha256() == known.sha256 if known.sha256 else self.git_blob() == known.git_blob

    def _digest(self, digest: Any) -> str:
        with self.errors_named(), open(self.path, "rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()

    # ---- lines, values and rows ----

    def lines(self, *, ended: bool = False) -> Iterator[tuple[int, str]]:
        """(1-based number, text without its line end) of every line; the last may have to be `ended`, where
        nothing else shows that a file was cut short.
        """
        for number, text in self.text_lines():
            if ended and not text.endswith(("\n", "\r")):
                raise self.error("is the last line, and has no line end: cut short?", line=number)
            yield number, text.rstrip("\r\n")

    def decoded(self, text: str, line: int | None = None) -> Any:
        if not text.strip():
            raise self.error("is empty")
        value = super().decoded(text, line)
        if "\\ud" in text or "\\uD" in text:
            try:
                json.dumps(value, ensure_ascii=False).encode()
            except UnicodeEncodeError as error:
                raise self.error("has half a character, a surrogate without the other", line=line) from error
        return value

    def tsv(self, *columns: str) -> Iterator[Row]:
        """Lines of tab-separated values; every line must have as many as there are names here."""
        row = None
        for number, text in self.lines(ended=True):
            values = text.split("\t")
            if not text.strip():
                continue
            if len(values) != len(columns):
                raise self.error(
                    f"expected {len(columns)} tab-separated columns ({', '.join(columns)}), found "
                    f"{len(values)}: {text!r:.80}",
                    line=number,
                )
            row = Row(dict(zip(columns, values, strict=True)), self, number)
            yield row
        self._check_some(row)

    def jsonl(self) -> Iterator[Row]:
        self._note_opened()
        objects = self.json_lines()
        if self.readings is not None:
            key = ("rows", str(self))
            if key not in self.readings:
                self.readings[key] = list(objects)
            objects = iter(self.readings[key])
        row = None
        for number, values in objects:
            row = Row(values, self, number)
            yield row
        self._check_some(row)

    def json(self) -> Row:
        return Row(self.json_value(), self)

    def json_rows(self) -> Iterator[Row]:
        """The objects of a JSON document that is a list."""
        document = self.json_value()
        if not isinstance(document, list):
            raise self.error(f"is {document!r:.60}, expected a list")
        for number, values in enumerate(document):
            yield Row(values, self, entry=number)

    def csv(self, delimiter: str = ",") -> Iterator[Row]:
        """Rows of a table with a header, with the line on which each begins."""
        header: list[str] = []
        row = None
        for line, values in self.records(delimiter):
            if not any(value.strip() for value in values):
                continue
            if not header:
                header = [value.strip() for value in values]
                named = [name for name in header if name]
                if len(set(named)) < len(named):
                    twice = max(named, key=named.count)
                    raise self.error(f"has the column {twice!r} twice", line=1)
                continue
            if len(values) != len(header):
                found = f"found {len(values)}: {values!r:.80}"
                raise self.error(f"expected {len(header)} columns as in the header, {found}", line=line)
            row = Row(dict(zip(header, values, strict=True)), self, line)
            yield row
        self._check_some(row)

    def parquet(self) -> Iterator[Row]:
        """Rows of a Parquet file; in batches, so photos inside take no memory."""
        import pyarrow
        from pyarrow import parquet

        row, count = None, 0
        try:
            with self.open() as stream, parquet.ParquetFile(stream) as table:
                for batch in table.iter_batches(batch_size=64):
                    for values in batch.to_pylist():
                        row = Row(values, self, entry=count)
                        yield row
                        count += 1
        except (pyarrow.ArrowException, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise self.error(f"is not Parquet, or cut short: {reason}") from error
        self._check_some(row)

    def _check_some(self, last: Row | None) -> None:
        if last is None:
            raise self.error("is empty")


class Row:
    """A row of an annotation file, or an object in a document: its fields, each read as what it must be.

    Raises (all that reads):
        AnnotationError: no object, a field is missing, or is not what it must be; names file and place.
    """

    def __init__(
        self, values: object, source: AnnotationSource, line: int | None = None, entry: object = None
    ):
        self.source, self.line, self.entry = source, line, entry
        if not isinstance(values, Mapping):
            raise self.error(f"expected a JSON object, found {type(values).__name__}: {values!r:.60}")
        self.values: Mapping[str, Any] = values

    def __getitem__(self, name: str) -> Any:
        if name not in self.values:
            shown = ", ".join(str(known)[:60] for known in list(self.values)[:20])
            raise self.error(f"lacks the field {name!r}; it has {shown}")
        return self.values[name]

    def __contains__(self, name: object) -> bool:
        return name in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    def either(self, name: str, other: str) -> str:
        """The first of two names if the row has such a field, or else the other."""
        return name if name in self.values else other

    def error(self, message: str) -> AnnotationError:
        """What is wrong with this row, ready to be raised."""
        return self.source.error(message, line=self.line, entry=self.entry)

    def wrong(self, name: str, expected: str) -> AnnotationError:
        """What is raised for a field that is not what it must be."""
        return self.error(f"{name!r} is {self[name]!r:.60}, expected {expected}")

    def number(self, name: str, low: float, high: float) -> float:
        value = self[name]
        with suppress(TypeError, ValueError, OverflowError):
            if not isinstance(value, bool) and low <= float(value) <= high:
                return float(value)
        raise self.wrong(name, f"a number from {low:g} to {high:g}")

    def integer(self, name: str, low: int = 0, high: int = 2**53) -> int:
        number = self.number(name, low, high)
        if number != int(number):
            raise self.wrong(name, f"a whole number from {low} to {high}")
        return int(number)

    def flag(self, name: str) -> bool:
        if not isinstance(self[name], bool):
            raise self.wrong(name, "true or false")
        return self[name]

    def identifier(self, name: str) -> str:
        """What names something, such as a photo or a row: a string that is not blank."""
        if not isinstance(self[name], str) or not self[name].strip():
            raise self.wrong(name, "a name")
        return self[name].strip()

    def photo(self, name: str) -> str:
        """A photo's file name, of an address its last part: no benchmark has one with a blank in it."""
        photo = self.identifier(name)
        if any(character.isspace() for character in photo):
            raise self.wrong(name, "a photo's file name")
        return photo

    def held_photo(self, name: str) -> tuple[str, bytes]:
        """A photo that the file itself holds, bare or as `datasets.Image` has it: its MD5, and its bytes."""
        held = self[name]
        content = held.get("bytes") if isinstance(held, Mapping) else held
        if not isinstance(content, bytes) or not content:
            raise self.wrong(name, "the bytes of a photo")
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if digest not in self.source.photos:
            if problem := photo_problem(content):
                raise self.error(f"{name!r} {problem}")
            self.source.photos.add(digest)
        return digest, content

    def _inner_entry(self, name: str) -> str:
        return name if self.entry is None else f"{self.entry}.{name}"

    def document(self, name: str) -> Row:
        """An object, or the text of one in JSON."""
        value = self[name]
        if isinstance(value, str):
            with suppress(ValueError, RecursionError):
                value = json.loads(value)
        if not isinstance(value, Mapping):
            raise self.wrong(name, "a JSON object")
        return Row(value, self.source, self.line, self._inner_entry(name))

    def choice(self, name: str, choices: Sequence[str]) -> str:
        if self[name] not in tuple(choices):
            raise self.wrong(name, f"one of {', '.join(choices)}")
        return self[name]

    def array(self, name: str) -> list[Any]:
        if not isinstance(self[name], list):
            raise self.wrong(name, "a list")
        return self[name]

    def rows(self, name: str) -> Iterator[Row]:
        for number, values in enumerate(self.array(name)):
            yield Row(values, self.source, self.line, f"{self._inner_entry(name)}[{number}]")

    def caption(self, name: str) -> str:
        """A text with something in it; blanks in a row become one."""
        return self._caption(name, self[name])

    def captions(self, name: str) -> list[str]:
        """A list of texts, each as `caption` reads them."""
        return [self._caption(name, value) for value in self.array(name)]

    def _caption(self, name: str, value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"{name!r} is {value!r:.60}, expected a caption")
        return " ".join(value.split())
