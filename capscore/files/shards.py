"""Several files that are one input: `corpus-*.tar`, `part-{00..41}.parquet`, a list, a folder of parts."""

from __future__ import annotations

import bisect
import glob
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError, Setting
from ..options import RowOptions
from .columns import find_image_column
from .row_source import Chunk, RowSource

if TYPE_CHECKING:
    import pyarrow as pa


MAX_FILES = 100_000
"""Most files of one input."""


def expanded(path: str | Path) -> list[Path]:
    """The files that a path means: itself, or those that a pattern matches, sorted.

    >>> [str(file) for file in expanded("a-{08..10}.tar")]
    ['a-08.tar', 'a-09.tar', 'a-10.tar']
    """
    text = str(path)
    try:
        if not re.search(r"[*?\[{]", text) or Path(text).exists():
            return [Path(text)]
    except (OSError, ValueError):  # a name that no file can have, as opening it will say
        return [Path(text)]
    found: list[Path] = []
    for name in _braces_expanded(text):
        if len(found) >= MAX_FILES:
            raise InputError(Setting("path", text), f": means over {MAX_FILES:,} files")
        if re.search(r"[*?\[]", name):
            found += map(Path, sorted(glob.glob(name)))
        else:
            found.append(Path(name))
    if not found:
        raise InputError(Setting("path", text), ": no file has a name of this pattern")
    return found


def _braces_expanded(text: str) -> Iterator[str]:
    """As a shell expands {a,b} and {00..11}, keeping zeros."""
    match = re.search(r"\{(?:([0-9]{1,9})\.\.([0-9]{1,9})|([^{}]*,[^{}]*))\}", text)
    if match is None:
        yield text
        return
    names: Iterable[str] = (match[3] or "").split(",")
    if match[1]:
        numbers = range(int(match[1]), int(match[2]) + 1)
        names = (str(number).zfill(len(match[1])) for number in numbers)
    for name in names:
        yield from _braces_expanded(text[: match.start()] + name + text[match.end() :])


@dataclass
class JoinedRows(RowSource):
    """Rows of several files, one after the other; messages name the file of a row and its place there."""

    parts: Sequence[RowSource] = ()

    def short_place(self, row: int, line: int | None) -> str:
        if self.places:
            return self.places[row]
        number = bisect.bisect_right(self._ends, row)
        part = self.parts[number]
        place = part.short_place(row - self._ends[number] + part.n_rows, line)
        return place if part.places else f"{part.path}, {place}"

    def only(self, numbers: Sequence[int]) -> JoinedRows:
        """Some rows, by their ascending numbers, each of which is still one of its file."""
        parts: list[RowSource] = []
        for start, end, part in zip([0, *self._ends], self._ends, self.parts, strict=False):
            some = numbers[bisect.bisect_left(numbers, start) : bisect.bisect_left(numbers, end)]
            if some:
                parts.append(part.only([number - start for number in some]))
        return replace(super().only(numbers), parts=parts)

    def _places_of(self, numbers: Sequence[int]) -> list[str]:
        return super()._places_of(numbers) if self.places else []  # the parts know theirs

    @cached_property
    def _ends(self) -> list[int]:
        """For each part, the number of the first row after it."""
        return [*itertools.accumulate(part.n_rows for part in self.parts)]

    def place(self, chunk: Chunk, row: int) -> str:
        return self.long_place(chunk.start + row, chunk.lines[row] if chunk.lines else None)


def join_rows(path: Path, parts: Sequence[RowSource], options: RowOptions) -> RowSource:
    """Rows of files of one kind as one; `path` is what names all."""
    first = parts[0]
    if len(parts) == 1:
        return replace(first, image_folder=first.folder)
    columns = list(dict.fromkeys(itertools.chain.from_iterable(part.columns for part in parts)))
    for part in parts[1:]:
        if (part.format, part.cells_are_text) != (first.format, first.cells_are_text):
            raise InputError(
                f"{part.path} is of another kind than {first.path}: {part.format}, {first.format}"
            )
        _check_schema(part, first)
        if part.folder != first.folder and options.images is None and _names_photos(first):
            raise InputError(
                f"{first.path} and {part.path} are in two folders, from which names of photos start; ",
                Setting("images"),
                " names one folder for all",
            )

    starts = [0, *itertools.accumulate(part.n_rows for part in parts)]

    def read(size: int, names: Sequence[str] | None) -> Iterator[Chunk]:
        for start, part in zip(starts, parts, strict=False):
            known = None if names is None else [name for name in names if name in part.columns]
            for chunk in part.chunks(size, known):
                yield replace(chunk, start=start + chunk.start)

    faults: dict[int, InputError] = {}
    for start, part in zip(starts, parts, strict=False):
        faults.update({start + row: fault for row, fault in part.faults.items()})
    notes = dict.fromkeys(itertools.chain.from_iterable(part.notes for part in parts))
    as_one = f"{len(parts):,} files are read as one, from {first.path.name} to {parts[-1].path.name}"
    return JoinedRows(
        path,
        columns,
        starts[-1],
        read,
        arrow_schema=first.arrow_schema,
        cells_are_text=first.cells_are_text,
        notes=[as_one, *notes],
        faults=faults,
        image_folder=first.folder,
        format=first.format,
        lists=frozenset().union(*(part.lists for part in parts)),
        parts=parts,
    )


def _check_schema(part: RowSource, first: RowSource) -> None:
    schema: pa.Schema | None = part.arrow_schema
    if schema is not None and first.arrow_schema is not None and not schema.equals(first.arrow_schema):
        raise InputError(
            f"{part.path} has other columns than {first.path}: {schema.names}, expected "
            f"{first.arrow_schema.names}, of the same types; several files are read as one table"
        )


def _names_photos(source: RowSource) -> bool:
    """Whether rows name their photos, and do not hold them."""
    column = find_image_column(source.columns)
    schema = source.arrow_schema
    return column is not None and (schema is None or "binary" not in str(schema.field(column).type))
