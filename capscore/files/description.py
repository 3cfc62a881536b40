"""How a file of rows is understood: its format, columns, rows, photos, and what is left out and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..errors import InputError, Setting, in_one_line
from ..options import RowOptions
from .columns import (
    ChunkInputs,
    ColumnNames,
    columns_of,
    find_image_column,
    find_language_column,
    find_reference_columns,
    is_missing,
    odd_cell,
    read_inputs,
)
from .image_folder import ImageFolder
from .row_source import CHUNK_ROWS, RowSource

FIRST_ROWS = 2
"""Rows that a description shows."""
_WRONG = {
    "image": "without a photo that is found",
    "candidate": "without a caption",
    "language": "whose language is unknown",
    "references": "without references that can be read",
    "columns": "whose columns are not understood",
    "row": "that cannot be read",
}


@dataclass
class Description:
    """How a file is understood.

    Attributes:
        columns: What is read ("photo", "caption", "references", "language") → names of its columns.
        problems: What cannot be read ("candidate", "image", "references", "language", "columns" or "row") →
            number of such rows, and what is wrong with the first.
    """

    path: Path
    format: str
    columns: dict[str, list[str]]
    unread: list[str]
    rows: int = 0
    photos: int = 0
    first: list[dict[str, object]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: dict[str, tuple[int, str]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "path": str(self.path)}

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.format}", f"rows        {self.rows:,}"]
        for what in ("photo", "caption", "references", "language"):
            names = self.columns.get(what)
            lines.append(f"{what:<11} {', '.join(map(repr, names)) if names else 'none'}")
        lines[2] += f", {self.photos:,} distinct" * bool(self.photos)
        if self.unread:
            lines.append(f"not read    {', '.join(map(repr, self.unread))}")
        for number, row in enumerate(self.first):
            cells = "; ".join(f"{name}: {value!r:.120}" for name, value in row.items())
            lines.append(f"row {number:<7} {cells}")
        lines += [f"note: {note}" for note in self.notes]
        for kind, (count, first) in self.problems.items():
            lines.append(f"{count:,} row{'s' * (count != 1)} {_WRONG[kind]}; the first: {first}")
        return "\n".join(map(in_one_line, lines))


def describe(
    source: RowSource,
    options: RowOptions = RowOptions(),
    spell: Callable[[Setting], str] = str,
    *,
    looks_for_photos: bool = True,
    of_references: bool = False,
) -> Description:
    """Say how rows are understood, without scoring them.

    Args:
        of_references: Whether the rows are references of photos, of which captions may be missing.
    """
    try:
        image = find_image_column(source.columns, options.image_column)
        references = find_reference_columns(source.columns, options.references_column)
        if of_references and references:
            names = ColumnNames(image, references[0], references, find_language_column(source.columns))
        else:
            needed = {"with_images": image is not None, "with_references": bool(references)}
            names = columns_of(source, options, **needed)
    except InputError as unknown:
        return _of_unknown_columns(source, unknown.spelled(spell))
    columns = {} if names.candidate in names.references else {"caption": [names.candidate]}
    for what, read in (("photo", names.image), ("language", names.language)):
        if read is not None:
            columns[what] = [read]
    if names.references:
        columns["references"] = [*names.references]
    taken = {name for group in columns.values() for name in group}
    unread = [name for name in source.columns if name not in taken]
    notes = [*source.notes, *names.notes]
    found = Description(source.path, source.format, columns, unread, source.n_rows, notes=notes)
    folder = None
    if names.image is not None and looks_for_photos:
        folder = ImageFolder(Path(options.images or source.folder), allow_urls=True)
    photos: set[str] = set()
    for chunk in source.chunks(CHUNK_ROWS):
        inputs = read_inputs(chunk, source, names, folder)
        images = chunk.values(names.image)
        photos.update(_named(images))
        if chunk.start == 0:
            for row in range(min(FIRST_ROWS, len(chunk))):
                found.first.append(_shown(inputs, images, row, has_caption="caption" in columns))
        for row, candidate in enumerate(inputs.candidates):
            if row in inputs.problems:
                continue
            odd = odd_cell(inputs, row)
            if is_missing(candidate):
                odd = InputError("an empty caption", field="candidate")
            if odd is not None:
                inputs.problems[row] = odd
        for row, error in sorted(inputs.problems.items()):
            kind = error.field if error.field in _WRONG else "row"
            if kind not in found.problems:
                found.problems[kind] = (0, source.at(error, chunk, row).spelled(spell))
            count, first = found.problems[kind]
            found.problems[kind] = (count + 1, first)
    found.photos = len(photos)
    return found


def _of_unknown_columns(source: RowSource, problem: str) -> Description:
    """What is known of rows whose columns cannot be told: their names, and the first rows as they are."""
    first = next(iter(source.chunks(FIRST_ROWS))).dicts()
    names, notes = [*source.columns], [*source.notes]
    found = Description(source.path, source.format, {}, names, source.n_rows, first=first, notes=notes)
    found.problems["columns"] = (source.n_rows, problem)
    return found


def _named(cells: list[object]) -> set[str]:
    """Names of photos in cells; those that hold bytes count by their path."""
    names = (cell.get("path") if isinstance(cell, Mapping) else cell for cell in cells)
    return {str(name) for name in names if not is_missing(name)}


def _shown(inputs: ChunkInputs, photos: list[object], row: int, *, has_caption: bool) -> dict[str, object]:
    shown: dict[str, object] = {}
    for name in _named(photos[row : row + 1]):
        shown["photo"] = name
    if has_caption:
        shown["caption"] = inputs.candidates[row]
    if inputs.references is not None:
        shown["references"] = inputs.references[row]
    if inputs.languages is not None:
        shown["language"] = inputs.languages[row]
    return shown
