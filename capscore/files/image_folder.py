"""Finds the images of rows: paths for names, images stored in the file; pairs photos with captions."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from ..errors import ImageError, InputError, Setting, address_name
from .photo_names import composed, has_image_suffix, id_text, parts_of
from .row_source import Chunk, LazySequence, Row, RowSource, rows_in_memory

if TYPE_CHECKING:
    import pyarrow as pa


def image_key(image_id: object) -> str | None:
    """Key by which ids are compared: the same for 42, "42" and "000042"; None for anything but an id.

    >>> image_key(42), image_key("000042"), image_key("dog"), image_key(None)
    ('42', '42', 'dog', None)
    """
    text = "" if isinstance(image_id, os.PathLike) else id_text(image_id)
    if text.isascii() and text.isdecimal():
        return text.lstrip("0") or "0"
    return text or None


def data_bytes(address: str) -> bytes:
    """The content of an address that holds it, or an ImageError."""
    about, comma, content = address.partition(",")
    found = unquote_to_bytes(content)
    if about.strip().lower().endswith(";base64"):
        try:
            found = base64.b64decode(found + b"=" * (-len(found.strip()) % 4))  # browsers do without them
        except ValueError:
            comma = ""
    if not comma:
        raise ImageError(f"{about[:60]!r} is a data: address whose content cannot be read", field="image")
    return found


class ImageFolder:
    """Finds the images that rows name.

    Args:
        folder: Folder that relative names start from. A name without its suffix is found too if only one
            image has it; so is a number, such as 42, that COCO writes as 000000000042.jpg or
            COCO_val2014_000000000042.jpg.
    """

    def __init__(self, folder: Path, *, allow_urls: bool = False, option: str = "images"):
        if not os.path.isdir(folder):  # of a name that is too long, pathlib raises
            what = "does not exist"
            if os.path.exists(folder):
                what = "is a file"
            raise InputError(Setting(option, folder), f" {what}; expected the folder that holds the images")
        self.folder, self.allow_urls, self._option = folder, allow_urls, option
        self._root = str(folder)
        self._names: dict[Path, dict[str | int, list[str]]] = {}

    def find(self, image: Any) -> Any:
        """The path of an image that a row names, or an ImageError; other values are returned unchanged."""
        if not (isinstance(image, str) and image.isascii()):  # an id, or a name that is to be composed
            image = id_text(image) or image
        if not isinstance(image, str) or not image.strip() or "\0" in image or image[:5].lower() == "data:":
            return image
        is_address = "://" in image
        if is_address and re.match(r"https?://", image, re.IGNORECASE) and not self.allow_urls:
            raise ImageError(
                f"{address_name(image)[:200]!r} is a URL, which is fetched only with ",
                Setting("allow_urls", True),
                field="image",
            )
        if is_address and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", image):
            return image
        try:
            for name in (image, image.replace("\\", "/")) if "\\" in image else (image,):
                located = os.path.join(self._root, os.path.expanduser(name))
                if os.path.exists(located):
                    return Path(located)
            path = Path(located)
            path.exists()  # which raises what the other takes for a file that is not there
        except OSError as error:  # a name that the file system does not take
            raise ImageError(f"{image[:80]!r} cannot be looked up: {error.strerror}", field="image") from None
        names = self._images_by_name(path.parent)
        found = names.get(composed(path.name))
        if found is None and (number := re.fullmatch(r"([1-9][0-9]{0,17}|0)(\.0)?", path.name)):
            found = names.get(int(number[1]))
        if found is None:
            raise ImageError(f"no such file: {path}", *self._hint(image), field="image")
        if len(found) > 1:
            raise ImageError(f"{image!r} could be any of {', '.join(found)} in {path.parent}", field="image")
        return path.parent / found[0]

    def _hint(self, image: str) -> list[str | Setting]:
        """What may be meant by a name that is not found: the end of its path, or another case."""
        for start in range(len(parts := parts_of(image).path)):
            *inner, base = parts[start:]
            folder = self.folder.joinpath(*inner)
            others = {
                name.casefold(): name for names in self._images_by_name(folder).values() for name in names
            }
            if other := others.get(base.casefold()):
                near = Path(*inner, other)
                return [f"; {self.folder} has {near}: write names as they are in that folder"]
        if not parts_of(image).is_absolute:
            return ["; ", Setting(self._option), " names the folder that names start from"]
        if os.path.isdir(os.path.dirname(image)):
            return []
        return [
            "; on this machine, give the folder by ",
            Setting(self._option),
            ", and names that start there",
        ]

    def _images_by_name(self, folder: Path) -> dict[str | int, list[str]]:
        """Images of a folder by their names, with and without suffix, and by the number that COCO's have."""
        if folder not in self._names:
            found = self._names[folder] = {}
            images: list[str] = []
            if folder.is_dir():
                images = [name for name in os.listdir(folder) if has_image_suffix(name)]
            for name in sorted(images):
                parts = parts_of(name)
                keys: list[str | int] = [parts.base, parts.stem]
                if parts.number:
                    keys.append(int(parts.number))
                for key in keys:
                    found.setdefault(key, []).append(name)
        return self._names[folder]


def find_images(
    chunk: Chunk, column: str, folder: ImageFolder, problems: dict[int, InputError], field: str = "image"
) -> Sequence[Any]:
    """The images of a chunk: names become paths; images stored in the file stay there, encoded."""
    stored = None
    if chunk.table is not None and _holds_images(chunk.table.schema.field(column).type):
        stored = chunk.table.column(column)
        images = _paths_without_bytes(stored)
    else:
        images = dict(enumerate(chunk.values(column)))
    for row, image in images.items():
        try:
            images[row] = folder.find(image)
        except InputError as error:
            images[row] = None
            problems.setdefault(row, ImageError(*error.parts, field=field))
    if stored is None:
        return [*images.values()]
    return LazySequence(len(chunk), lambda row: images[row] if row in images else stored[row].as_py())


def _paths_without_bytes(stored: pa.ChunkedArray) -> dict[int, Any]:
    """Row → path of its image, where the file stores a path alone."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_struct(stored.type) or stored.type.get_field_index("path") < 0:
        return {}
    paths = pc.struct_field(stored, "path")
    if stored.type.get_field_index("bytes") >= 0:
        paths = pc.if_else(pc.is_null(pc.struct_field(stored, "bytes")), paths, None)
    return {row: path for row, path in enumerate(paths.to_pylist()) if path is not None}


def _holds_images(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_struct(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def pair_captions(
    photos: Sequence[str], captions: Sequence[str], references: Sequence[str] = ()
) -> RowSource:
    """Rows of one photo with one or several captions, of as many photos as captions, or of captions alone.

    >>> rows = pair_captions(["dog.jpg"], ["a dog", "a cat"])
    >>> next(rows.chunks(2)).rows
    [{'image': 'dog.jpg', 'caption': 'a dog'}, {'image': 'dog.jpg', 'caption': 'a cat'}]
    """
    if not captions:
        raise InputError(Setting("caption"), ": at least one is needed")
    if len(photos) > 1 and (len(photos) != len(captions) or references):
        raise InputError(
            Setting("photo"),
            f": {len(photos)} photos; expected one caption per photo and no references, or one photo with "
            "several captions; a file of rows can have references for each photo",
        )
    rows: list[Row] = []
    for index, caption in enumerate(captions):
        row: Row = {}
        if photos:
            row["image"] = photos[min(index, len(photos) - 1)]
        row["caption"] = caption
        if references:
            row["references"] = [*references]
        rows.append(row)
    return rows_in_memory(rows, [f"caption {number}" for number in range(1, len(captions) + 1)])
