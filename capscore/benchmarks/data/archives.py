"""A file, a gzipped one, or one inside a ZIP or tar archive → its bytes.

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
from typing import IO

from ...files.sizes import UNPACKED_BYTES

_GZIP = b"\x1f\x8b"


class PackedFileError(Exception):
    """A file cannot be unpacked, or an archive lacks it; the message says why, without the file's name."""


@contextmanager
def open_packed(path: Path, member: str = "") -> Iterator[IO[bytes]]:
    """Open a file for reading its bytes, unpacked.

    Args:
        path: A file, which may be gzipped, or with `member` a ZIP or tar archive.
        member: Name inside the archive; the last parts of a path are enough, and of several the shortest is
            taken. "" for a plain file.

    Raises:
        PackedFileError: The file is damaged, or larger than the limit; the archive lacks the member, has it
            twice, or it is no file.
        OSError: The file cannot be read.
    """
    if not member and not _is_gzip(path):
        with open(path, "rb") as file:
            yield file
        return
    if not member:
        data = path.read_bytes()
    elif path.name.endswith((".tar", ".tar.gz", ".tgz")):
        data = _tar_member(path, member)
    else:
        with open_zip(path) as archive:
            names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
            data = read_entry(archive, archive.getinfo(_find(names, member)))
    yield io.BytesIO(_gunzipped(data))


def _is_gzip(path: Path) -> bool:
    with open(path, "rb") as file:
        return path.name.endswith(".gz") or file.read(2) == _GZIP


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a ZIP archive; errors as in `open_packed`."""
    with _errors():
        archive = zipfile.ZipFile(path)
    with archive:
        yield archive


def read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """The bytes of a file of a ZIP archive; errors as in `open_packed`."""
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise PackedFileError(f"{entry.filename!r:.200} in the archive is a link, not a file")
    with _errors(), archive.open(entry) as stream:
        return _bounded(stream)


def _checked_size(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    if entry.size > UNPACKED_BYTES.bytes:
        raise PackedFileError(f"unpacks to more than it may: {UNPACKED_BYTES}")
    return entry


def _tar_member(path: Path, member: str) -> bytes:
    with open(path, "rb") as file, _errors():
        is_gzip = file.read(2) == _GZIP
        file.seek(0)
        with tarfile.open(fileobj=file, mode="r:gz" if is_gzip else "r:") as archive:
            entries = [entry for entry in map(_checked_size, archive) if not entry.isdir()]
            while archive.fileobj.read(1 << 20):  # at its end, gzip checks what it unpacked
                pass
            name = _find([entry.name for entry in entries], member)
            entry = next(entry for entry in entries if entry.name == name)
            if not entry.isreg() or entry.issparse():
                kind = "a link" if entry.issym() or entry.islnk() else "of another kind"
                raise PackedFileError(f"{name!r:.200} in the archive is {kind}, not a file")
            stream = archive.extractfile(entry)
            assert stream is not None
            return _bounded(stream)


def _gunzipped(data: bytes) -> bytes:
    """The bytes, unpacked if they are gzipped."""
    if not data.startswith(_GZIP):
        return data
    with _errors(), gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        return _bounded(stream)


def _bounded(stream: IO[bytes] | gzip.GzipFile) -> bytes:
    data = stream.read(UNPACKED_BYTES.bytes + 1)
    if len(data) > UNPACKED_BYTES.bytes:
        raise PackedFileError(f"unpacks to more than it may: {UNPACKED_BYTES}")
    return data


def _find(names: Sequence[str], member: str) -> str:
    """The name that ends in a path; names that lead out of the archive are not looked at."""
    ending = [name for name in names if f"/{name}".endswith(f"/{member}") and _is_inside(name)]
    if not ending:
        shown = ", ".join(f"{name!r:.60}" for name in sorted(names)[:5]) or "nothing"
        more = ", …" if len(names) > 5 else ""
        raise PackedFileError(f"the archive holds no {member} (it holds {shown}{more})")
    name = min(ending, key=lambda name: (len(name), name))
    if names.count(name) > 1:
        raise PackedFileError(f"the archive holds {name!r:.200} {names.count(name)} times; expected it once")
    return name


def _is_inside(name: str) -> bool:
    """Whether a name stays in its archive.

    >>> _is_inside("a/b.json"), _is_inside("../b.json"), _is_inside("/b.json")
    (True, False, False)
    """
    return not name.startswith(("/", "\\")) and ".." not in name.replace("\\", "/").split("/")


@contextmanager
def _errors() -> Iterator[None]:
    """Whatever a reader of archives raises for damaged ones, of which it documents a part."""
    try:
        yield
    except (PackedFileError, MemoryError):
        raise
    except (NotImplementedError, RuntimeError) as error:  # compressed in another way, or encrypted
        raise PackedFileError(f"cannot be unpacked ({error})") from error
    except Exception as error:  # zlib.error, struct.error, EOFError, BadZipFile, TarError, ValueError, …
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, gzip.BadGzipFile):
            raise
        reason = str(error) or type(error).__name__
        raise PackedFileError(f"cannot be unpacked, cut short or damaged ({reason:.200})") from error
