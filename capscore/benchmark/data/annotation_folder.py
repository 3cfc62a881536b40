"""A folder of many small annotation files, or the zip archive of it → each file, by its place in it."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from .annotation_files import AnnotationSource


@dataclass(frozen=True)
class _InOpenArchive(AnnotationSource):
    """A file in an archive that stays open: its list of names, long for many files, is read once."""

    open_archive: zipfile.ZipFile | None = None

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        assert self.open_archive is not None
        with self.open_archive.open(self.member) as stream:
            yield stream


@contextmanager
def annotation_folder(
    source: AnnotationSource, depth: int = 2
) -> Iterator[Callable[[str], AnnotationSource]]:
    """What gives a file of a folder or archive by its name, such as "Sentences/36979.txt".

    Args:
        source: the folder, or a zip archive; of the latter is told that it is read.
        depth: parts of a name. In an archive what comes before them does not matter.

    Raises:
        AnnotationError: the archive is damaged; from what is given: there is no such file.
    """
    if source.path.is_dir():
        yield lambda name: _existing(source, name)
        return
    if source.opened is not None:
        source.opened(source)
    try:
        archive = zipfile.ZipFile(source.path)
    except (OSError, zipfile.BadZipFile) as error:
        raise source.error(f"cannot be unpacked, cut short or damaged ({error})") from error
    with archive:
        members = {"/".join(name.split("/")[-depth:]): name for name in archive.namelist()}

        def find(name: str) -> AnnotationSource:
            if name not in members:
                raise source.error(f"the archive holds no {name}")
            return _InOpenArchive(source.path, members[name], open_archive=archive)

        yield find


def _existing(folder: AnnotationSource, name: str) -> AnnotationSource:
    if not (folder.path / name).is_file():
        raise folder.error(f"the folder holds no {name}")
    return AnnotationSource(folder.path / name)
