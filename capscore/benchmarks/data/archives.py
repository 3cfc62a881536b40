"""A file, a gzipped one, or one inside a ZIP or tar archive → its bytes as a stream.

Nothing is unpacked onto the disk, so no name inside an archive can lead anywhere. A file that is a link, that
is there twice, or that unpacks to more than the limit is refused.
"""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ...files.sizes import UNPACKED_BYTES

MOST_MEMBERS = 200_000
"""Number of files that an archive may hold; the list of their names is read into memory."""

_TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz")
_GZIP = b"\x1f\x8b"


class PackedFileError(Exception):
    """A file cannot be unpacked, or an archive lacks it; the message says why, without the file's name."""


@contextmanager
def open_packed(path: Path, member: str = "") -> Iterator[IO[bytes]]:
    """Open a file for reading its bytes, unpacked.

    Args:
        path: A file, gzipped if its name ends in .gz, or with `member` a ZIP or tar archive.
        member: Name inside the archive; the last parts of a path are enough, and of several the shortest is
            taken. "" for a plain file.

    Raises (also while the stream is read):
        PackedFileError: The file is damaged, or larger than the limit; the archive lacks the member, has it
            twice, or it is no file.
        OSError: The file cannot be read.
    """
    if not member:
        with open(path, "rb") as file:
            yield _unpacked(file) if path.name.endswith(".gz") else file
    elif path.name.endswith(_TAR_SUFFIXES):
        with open(path, "rb") as file, _tar_stream(file) as stream:
            entry = _find(_regular(_tar_entries(stream)), member)
            with _errors():
                stream.seek(entry.offset_data)
            yield _named(_Part(stream, entry.size), entry.name)
    else:
        with open_zip(path) as archive:
            entry = _find([item for item in archive.infolist() if not item.is_dir()], member)
            with open_entry(archive, entry) as stream:
                yield stream


def member_names(path: Path) -> list[str]:
    """Names of the files inside a ZIP or tar archive; errors as in `open_packed`."""
    if path.name.endswith(_TAR_SUFFIXES):
        with open(path, "rb") as file, _tar_stream(file) as stream:
            return [entry.name for entry in _tar_entries(stream) if entry.isfile()]
    with open_zip(path) as archive:
        return [entry.filename for entry in archive.infolist() if not entry.is_dir()]


@contextmanager
def _errors() -> Iterator[None]:
    """Whatever a reader of archives raises for damaged ones, of which it documents a part."""
    try:
        yield
    except (PackedFileError, MemoryError):
        raise
    except (NotImplementedError, RuntimeError) as error:  # compressed in another way, or encrypted
        raise PackedFileError(f"cannot be unpacked ({error})") from error
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile) or error.errno is None:
            raise PackedFileError(f"cannot be unpacked, cut short or damaged ({error})") from error
        raise
    except Exception as error:  # zlib.error, struct.error, EOFError, BadZipFile, TarError, ValueError, …
        reason = str(error) or type(error).__name__
        raise PackedFileError(f"cannot be unpacked, cut short or damaged ({reason:.200})") from error


class _Bounded(io.RawIOBase):
    """What a reader unpacks, up to the limit.

    Args:
        inner: Stream that unpacks.
    """

    def __init__(self, inner: IO[bytes]):
        self._inner, self._left = inner, UNPACKED_BYTES.bytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._inner.seekable()

    def tell(self) -> int:
        return self._inner.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _errors():
            place = self._inner.seek(offset, whence)
        self._left = UNPACKED_BYTES.bytes - place
        return place

    def readinto(self, buffer: Any) -> int:
        with _errors():
            data = self._inner.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise PackedFileError(f"unpacks to more than it may: {UNPACKED_BYTES}")
        buffer[: len(data)] = data
        return len(data)


class _Part(io.RawIOBase):
    """The next bytes of a stream.

    Args:
        stream: Stream to read.
        size: Number of bytes.
    """

    def __init__(self, stream: IO[bytes], size: int):
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(min(len(buffer), self._left))
        if not data and self._left and len(buffer):
            raise PackedFileError("cannot be unpacked, cut short or damaged (unexpected end of data)")
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)


def _bounded(stream: IO[bytes]) -> IO[bytes]:
    return io.BufferedReader(_Bounded(stream), 1 << 16)


def _unpacked(stream: IO[bytes]) -> IO[bytes]:
    return _bounded(gzip.GzipFile(fileobj=stream))  # type: ignore[arg-type]


def _named(stream: Any, name: str) -> IO[bytes]:
    """A member of an archive, unpacked once more where it is gzipped itself."""
    return _unpacked(stream) if name.endswith(".gz") else _bounded(stream)


# -------------------------------------------------------------------------------- archives


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a ZIP archive that has no more files than it may; errors as in `open_packed`."""
    with _errors():
        archive = zipfile.ZipFile(path)
    with archive:
        _check_count(len(archive.infolist()))
        yield archive


@contextmanager
def open_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
    """Open a file of a ZIP archive; errors as in `open_packed`."""
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise PackedFileError(f"{entry.filename!r:.200} in the archive is a link, not a file")
    with _errors():
        stream = archive.open(entry)
    with stream:
        yield _named(stream, entry.filename)


@contextmanager
def _tar_stream(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """The tar archive in a file, which may be gzipped."""
    start = file.read(2)
    file.seek(0)
    yield _unpacked(file) if start == _GZIP else file


def _tar_entries(stream: IO[bytes]) -> list[tarfile.TarInfo]:
    """All entries of a tar archive; the stream is read to its end, where gzip checks what it unpacked."""
    entries: list[tarfile.TarInfo] = []
    with _errors(), tarfile.open(fileobj=stream, mode="r|") as archive:
        for entry in archive:
            if entry.size > UNPACKED_BYTES.bytes:  # looking for its end would take years
                raise PackedFileError(f"unpacks to more than it may: {UNPACKED_BYTES}")
            entries.append(entry)
            _check_count(len(entries))
    while stream.read(1 << 20):
        pass
    return entries


def _regular(entries: Sequence[tarfile.TarInfo]) -> list[tarfile.TarInfo]:
    return [entry for entry in entries if not entry.isdir()]


def _check_count(count: int) -> None:
    if count > MOST_MEMBERS:
        raise PackedFileError(f"holds more than {MOST_MEMBERS:,} files, which is the limit of an archive")


def _find(entries: Sequence[Any], member: str) -> Any:
    """The entry whose name ends in a path; names that lead out of the archive are not looked at."""
    names = [_name_of(entry) for entry in entries]
    suffix = f"/{member}"
    found = sorted({name for name in names if f"/{name}".endswith(suffix) and _is_inside(name)}, key=len)
    if not found:
        shown = ", ".join(f"{name!r:.60}" for name in sorted(names)[:5]) or "nothing"
        more = ", …" if len(names) > 5 else ""
        raise PackedFileError(f"the archive holds no {member} (it holds {shown}{more})")
    meant = [entry for entry, name in zip(entries, names, strict=True) if name == found[0]]
    if len(meant) > 1:
        raise PackedFileError(f"the archive holds {found[0]!r:.200} {len(meant)} times; expected it once")
    entry = meant[0]
    if isinstance(entry, tarfile.TarInfo) and (not entry.isreg() or entry.issparse()):
        kind = "a link" if entry.issym() or entry.islnk() else "of another kind"
        raise PackedFileError(f"{found[0]!r:.200} in the archive is {kind}, not a file")
    return entry


def _name_of(entry: Any) -> str:
    return entry.name if isinstance(entry, tarfile.TarInfo) else entry.filename


def _is_inside(name: str) -> bool:
    """Whether a name stays in its archive.

    >>> _is_inside("a/b.json"), _is_inside("../b.json"), _is_inside("/b.json")
    (True, False, False)
    """
    return not name.startswith(("/", "\\")) and ".." not in name.replace("\\", "/").split("/")
