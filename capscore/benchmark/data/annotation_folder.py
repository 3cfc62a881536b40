"""A folder, or zip archive, of many small annotation files → each file by its relative path."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from .annotation_files import AnnotationSource


@dataclass(frozen=True)
class _InOpenArchive(AnnotationSource):
    """A file in an archive that stays open, so that its long list of names is read only once."""

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
    """Yield a function from a name such as "Sentences/36979.txt" to that file of a folder or archive.

    Args:
        source: Folder or zip archive; `source.opened` is called for an archive.
        depth: Number of parts of a name; an archive may have any folders before them.

    Raises:
        AnnotationError: the archive is damaged; the function raises it if there is no such file.
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
