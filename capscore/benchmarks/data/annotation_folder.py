"""A folder of many small annotation files, or the zip archive of it → each file, by its place in it."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO

from .annotation_files import AnnotationSource
from .archives import open_entry, open_zip


@dataclass(frozen=True)
class _InOpenArchive(AnnotationSource):
    """A file in an archive that stays open: its list of names, long for many files, is read once."""

    open_archive: zipfile.ZipFile | None = None
    entry: zipfile.ZipInfo | None = None

    def _opened(self) -> AbstractContextManager[IO[bytes]]:
        assert self.open_archive is not None and self.entry is not None
        return open_entry(self.open_archive, self.entry)


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
    with ExitStack() as stack:
        with source.reading():
            archive = stack.enter_context(open_zip(source.path))
        members: dict[str, list[zipfile.ZipInfo]] = {}
        for entry in archive.infolist():
            members.setdefault("/".join(entry.filename.split("/")[-depth:]), []).append(entry)

        def find(name: str) -> AnnotationSource:
            found = members.get(name, [])
            if len(found) != 1:
                count = f"{len(found)} files that could be {name}" if found else f"no {name}"
                raise source.error(f"the archive holds {count}")
            return _InOpenArchive(source.path, found[0].filename, open_archive=archive, entry=found[0])

        yield find


def _existing(folder: AnnotationSource, name: str) -> AnnotationSource:
    inside = "\0" not in name and not name.startswith("/") and ".." not in name.split("/")
    if not inside or not (folder.path / name).is_file():
        raise folder.error(f"the folder holds no {name}")
    return AnnotationSource(folder.path / name)
