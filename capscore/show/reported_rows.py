"""Numbers of rows of a file → what a report shows of them: caption, photo, references, language, place."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..errors.visible import address_name
from ..files.columns import is_missing, read_inputs
from ..files.row_source import CHUNK_ROWS

if TYPE_CHECKING:
    from PIL import Image

    from ..files.columns import ColumnNames
    from ..files.image_folder import ImageFolder
    from ..files.row_source import RowSource


@dataclass(frozen=True)
class FileRow:
    """A row of a file.

    Attributes:
        place: Name of the row, as lists of rows give it.
        caption: The caption.
        photo: The photo; None without one, and for one that cannot be read.
        references: Reference captions.
        language: Language of the row, "" where it states none.
        name: File name of the photo, "" if it has none.
    """

    place: str
    caption: str
    photo: Image.Image | None
    references: tuple[str, ...]
    language: str
    name: str


def file_rows(
    source: RowSource, names: ColumnNames, folder: ImageFolder, numbers: Collection[int]
) -> dict[int, FileRow]:
    """Read rows of a file again, for people to look at.

    Args:
        source: The file.
        names: Names of its columns.
        folder: Folder of the photos. Photos behind URLs are not fetched again.
        numbers: Numbers of the rows, counted from 0.

    Returns:
        Number → row. What cannot be read of a row is left out.
    """
    wanted = sorted(set(numbers))
    found: dict[int, FileRow] = {}
    for chunk in source.chunks(CHUNK_ROWS):
        here = [number for number in wanted if chunk.start <= number < chunk.start + len(chunk)]
        if not here:
            continue
        inputs = read_inputs(chunk, source, names, folder)
        photos = [None] * len(chunk) if names.image is None else chunk.values(names.image)
        for number in here:
            row = number - chunk.start
            image = None if inputs.images is None or row in inputs.problems else inputs.images[row]
            references = () if inputs.references is None else _texts(inputs.references[row])
            language = "" if inputs.languages is None else inputs.languages[row]
            caption = inputs.candidates[row]
            found[number] = FileRow(
                place=source.short_place(number, None if chunk.lines is None else chunk.lines[row]),
                caption="" if is_missing(caption) else str(caption),
                photo=_photo(image),
                references=references,
                language="" if not isinstance(language, str) else language,
                name=photo_name(photos[row]),
            )
    return found


def _photo(image: Any) -> Image.Image | None:
    from ..images.load import load_image

    if image is None:
        return None
    try:
        return load_image(image)
    except InputError:  # the report says elsewhere which rows failed
        return None


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(str(text) for text in value) if isinstance(value, (list, tuple)) else ()


def photo_name(value: Any) -> str:
    """How a cell that names a photo is shown: without its folder, and without secrets of an address.

    >>> photo_name("photos/cat.jpg"), photo_name("https://me:pw@x.org/a.jpg?token=1"), photo_name(b"...")
    ('cat.jpg', 'a.jpg?…', '')
    """
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        return "" if text[:5].lower() == "data:" else os.path.basename(address_name(text))
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
