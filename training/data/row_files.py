"""A file of captions (JSONL, JSON, CSV, TSV, Parquet or a saved data set) → its rows, checked.

What every kind of row shares: a caption, its language, an image or texts that stand in for it, and names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from capscore.errors import InputError, Setting
from capscore.files.columns import FAMILIAR, find_columns
from capscore.files.image_folder import ImageFolder, find_images
from capscore.files.read import open_rows
from capscore.files.row_source import Chunk
from capscore.text.languages import language_code

_CHUNK = 1024


class FileRow(NamedTuple):
    """A row of a file.

    Attributes:
        place: Name of the row in errors.
        caption: The caption.
        language: Its language, a primary subtag.
        image: Anything that capscore takes as an image; None where a stand-in is given.
        stand_in: Cell of what stands in for the image; None where an image is given.
        names: Names by which a list may refer to the row or its image.
        cells: Further cells by column; None where the row has none.
    """

    place: str
    caption: str
    language: str
    image: Any
    stand_in: Any
    names: tuple[str, ...]
    cells: dict[str, Any]


def read_rows(
    path: str | Path,
    *,
    lists: Sequence[str],
    texts: Sequence[str] = (),
    images: str | Path | None = None,
    language: str | None = None,
    image_column: str | None = None,
    candidate_column: str | None = None,
    language_column: str | None = None,
    split: str | None = None,
) -> Iterator[FileRow]:
    """The rows of a file, read in chunks, so that photos stored in it are never all in memory.

    Args:
        path: File, as `capscore.files.read.open_rows` takes it.
        lists: Columns of lists, which are JSON in files whose cells are text.
        texts: Columns of plain text.
        images: Folder that relative image names start from; None for the folder of the file.
        language: Language of rows that state none.
        image_column, candidate_column, language_column: Names of the columns where they are unfamiliar.
        split: Split of a saved data set.

    Raises:
        InputError: a row is malformed, or an image that it names is missing; names the line.
        InputError: There is no such file, folder or column.
    """
    source = open_rows(path, split=split)
    has_images = image_column or any(name in source.columns for name in FAMILIAR["image"])
    columns = find_columns(
        source.columns,
        image=image_column,
        candidate=candidate_column,
        language=language_column,
        with_images=bool(has_images or "stand_in" not in source.columns),
    )
    default = None if language is None else language_code(language)
    folder = ImageFolder(Path(images) if images is not None else source.path.parent)
    wanted = dict.fromkeys(("stand_in", *lists, *texts))
    for chunk in source.chunks(_CHUNK):
        captions, languages, ids = (
            _values(chunk, name, source.columns) for name in (columns.candidate, columns.language, "id")
        )
        cells = {name: _values(chunk, name, source.columns) for name in wanted}
        problems: dict[int, InputError] = {}
        found = (
            [None] * len(chunk)
            if columns.image is None
            else find_images(chunk, columns.image, folder, problems)
        )
        written = _written_names(chunk, columns.image)
        for row in range(len(chunk)):
            place = source.place(chunk, row)
            own = {name: cell[row] for name, cell in cells.items()}
            if source.cells_are_text:
                own |= {name: _from_json(own[name], place, name) for name in lists}
            stand_in = own.pop("stand_in") or None
            if stand_in is None and row in problems:
                raise InputError(f"{place}, {problems[row].message_with_field()}")
            image = None if isinstance(found[row], str) and not found[row] else found[row]
            if (image is None) == (stand_in is None):
                has = "neither an image nor" if stand_in is None else "both an image and"
                raise InputError(f"{place} has {has} a stand_in; expected one of them")
            yield FileRow(
                place=place,
                caption=check_text(captions[row], place, columns.candidate),
                language=row_language(languages[row], default, place),
                image=image,
                stand_in=stand_in,
                names=row_names(written[row], ids[row]),
                cells=own,
            )


def check_text(text: Any, place: str, field: str) -> str:
    """The text, if it is a string that is not blank; else raises InputError with its place."""
    if not isinstance(text, str):
        raise InputError(f"{place}, {field}: {text!r:.60} is a {type(text).__name__}; expected a string")
    if not text.strip():
        raise InputError(f"{place}, {field}: it is blank")
    return text


def row_language(tag: Any, default: str | None, place: str) -> str:
    """A row's language, or the default where it states none; raises InputError with its place."""
    if tag is None or tag == "":
        if default is None:
            raise InputError(
                f"{place} states no language, which determines what a word is: a column 'language' gives the "
                "language of each row, the setting ",
                Setting("language"),
                " that of all rows",
            )
        return default
    try:
        return language_code(tag)
    except InputError as error:
        raise InputError(f"{place}, language: {error.message}") from None


def row_names(image: Any, row_id: Any) -> tuple[str, ...]:
    """Names by which a list may refer to a row or its image.

    >>> row_names("photos/12.jpg", 7)
    ('7', 'photos/12.jpg', '12.jpg', '12')
    """
    names: dict[str, None] = {}
    for name in (row_id, image):
        if isinstance(name, (str, int)) and not isinstance(name, bool) and str(name).strip():
            names[str(name).strip()] = None
    if isinstance(image, str) and image.strip() and image[:5].lower() != "data:":
        base = os.path.basename(image.strip())
        names.update(dict.fromkeys(part for part in (base, os.path.splitext(base)[0]) if part))
    return tuple(names)


def _values(chunk: Chunk, column: str | None, columns: Sequence[str]) -> list[Any]:
    return chunk.values(column) if column in columns else [None] * len(chunk)


def _written_names(chunk: Chunk, column: str | None) -> list[Any]:
    """Names of the images in the file; None for an image that is stored in the file without a name."""
    if column is None:
        return [None] * len(chunk)
    if chunk.table is not None:
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = chunk.table.schema.field(column).type
        if pa.types.is_struct(kind):
            if kind.get_field_index("path") < 0:
                return [None] * len(chunk)
            return pc.struct_field(chunk.table.column(column), "path").to_pylist()
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return [None] * len(chunk)
    return chunk.values(column)


def _from_json(cell: Any, place: str, name: str) -> Any:
    if cell is None or cell == "":
        return None
    if name == "stand_in" and not cell.lstrip().startswith("["):
        return cell
    try:
        return json.loads(cell)
    except (json.JSONDecodeError, RecursionError):
        raise InputError(f"{place}, {name}: {cell!r:.60}; expected a JSON list") from None
