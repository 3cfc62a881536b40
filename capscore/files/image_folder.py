"""Finds the images of rows: paths for names that rows give, and images that are stored in the file itself."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ImageError, InputError, Part, Setting, address_name
from .row_source import ArrowSource, Chunk, RowSource

if TYPE_CHECKING:
    import pyarrow as pa

IMAGE_SUFFIXES = frozenset(".jpg .jpeg .png .webp .gif .bmp .tif .tiff .jp2 .avif .ppm .pgm".split())
_COCO_NAME = re.compile(r"(?:COCO_[A-Za-z0-9]+_)?([0-9]{1,18})")  # 000000000042, COCO_val2014_000000000042
_MOST_NAMES = 20_000  # in a larger folder, nothing similar to a missing name is searched for
_MOST_HINTS = 20


class ImageFolder:
    """Finds the images that rows name.

    Args:
        folder: Folder that relative names start from. A name without its suffix is found too if only one
            image has it; so is a number, such as 42, that COCO writes as 000000000042.jpg or
            COCO_val2014_000000000042.jpg.
        allow_urls: Whether http(s) addresses may be fetched.
        option: Name of the option that the folder comes from, for errors.

    Raises:
        InputError: There is no such folder.
    """

    def __init__(self, folder: Path, *, allow_urls: bool = False, option: str = "images"):
        if not folder.is_dir():
            what = "is a file" if folder.exists() else "does not exist"
            raise InputError(Setting(option, folder), f" {what}; expected the folder that holds the images")
        self.folder, self.allow_urls, self._option = folder, allow_urls, option
        self._stems: dict[Path, dict[str, list[str]]] = {}
        self._numbers: dict[Path, dict[int, list[str]]] = {}
        self._hints = _MOST_HINTS

    def find(self, image: Any) -> Any:
        """The path of an image that a row names; anything that is not a name is returned as it is.

        Raises:
            ImageError: There is no such file; the message names the path, and a similar one if there is one.
        """
        if isinstance(image, int) and not isinstance(image, bool):
            image = str(image)
        if not isinstance(image, str) or not image.strip() or "\0" in image or image[:5].lower() == "data:":
            return image
        if re.match(r"https?://", image, re.IGNORECASE) and not self.allow_urls:
            raise ImageError(
                f"{address_name(image)[:200]!r} is a URL, which is fetched only with ",
                Setting("allow_urls", True),
                field="image",
            )
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", image):
            return image
        path = self.folder / os.path.expanduser(image)
        try:
            if path.exists():
                return path
        except OSError as error:  # a name that the file system does not take
            raise ImageError(f"{image[:80]!r} cannot be looked up: {error.strerror}", field="image") from None
        named = self._named(path.parent).get(path.name, []) or self._numbered(path)
        if len(named) == 1:
            return path.parent / named[0]
        if named:
            raise ImageError(f"{image!r} could be any of {', '.join(named)} in {path.parent}", field="image")
        relative = not os.path.isabs(os.path.expanduser(image))
        raise ImageError(f"no such file: {path}", *self._hint(path, is_relative=relative), field="image")

    def _named(self, folder: Path) -> dict[str, list[str]]:
        """Images of a folder by their names without suffix."""
        if folder not in self._stems:
            stems: dict[str, list[str]] = {}
            try:
                names = sorted(os.listdir(folder))
            except OSError:
                names = []
            for name in names:
                stem, suffix = os.path.splitext(name)
                if suffix.lower() in IMAGE_SUFFIXES:
                    stems.setdefault(stem, []).append(name)
            self._stems[folder] = stems
        return self._stems[folder]

    def _numbered(self, path: Path) -> list[str]:
        """Images of a folder whose names are a number with zeros before it, as COCO writes them."""
        if not re.fullmatch(r"[0-9]{1,18}", path.name):
            return []
        if path.parent not in self._numbers:
            numbers: dict[int, list[str]] = {}
            for stem, names in self._named(path.parent).items():
                if found := _COCO_NAME.fullmatch(stem):
                    numbers.setdefault(int(found[1]), []).extend(names)
            self._numbers[path.parent] = numbers
        return self._numbers[path.parent].get(int(path.name), [])

    def _hint(self, path: Path, *, is_relative: bool) -> list[Part]:
        option = Setting(self._option)
        start: list[Part] = [option, " names the folder that names start from"] if is_relative else []
        if not path.parent.is_dir():
            return [f" (there is no folder {path.parent}", *(["; ", *start] if start else []), ")"]
        names = [name for listed in self._named(path.parent).values() for name in listed]
        if not names:
            return [f" (there are no images in {path.parent}; ", option, " names the folder)"]
        if self._hints > 0 and len(names) <= _MOST_NAMES:
            self._hints -= 1
            folded = {name.casefold(): name for name in names}
            near = difflib.get_close_matches(path.name.casefold(), folded, n=1, cutoff=0.7)
            if near:
                return [f"; did you mean {folded[near[0]]!r}?"]
        return ["; ", *start] if start else []


def find_images(
    chunk: Chunk, column: str, folder: ImageFolder, problems: dict[int, InputError]
) -> Sequence[Any]:
    """The images of a chunk: names become paths; images stored in the file stay there, encoded.

    Args:
        chunk: Rows of a file.
        column: Name of the image column.
        folder: Folder of the images.
        problems: Gets an error for each row whose image is not found; that image is None, which no scorer
            accepts.
    """
    if chunk.table is not None and _holds_images(chunk.table.schema.field(column).type):
        return _stored_images(chunk.table.column(column), folder, problems)
    images = chunk.values(column)
    for row, image in enumerate(images):
        try:
            images[row] = folder.find(image)
        except InputError as error:
            problems[row], images[row] = error, None
    return images


def stores_images(source: RowSource, column: str) -> bool:
    """Whether a column may hold images rather than their names."""
    return isinstance(source, ArrowSource) and _holds_images(source.schema().field(column).type)


def _holds_images(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_struct(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _stored_images(
    column: pa.ChunkedArray, folder: ImageFolder, problems: dict[int, InputError]
) -> Sequence[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    paths = {}
    if pa.types.is_struct(column.type) and column.type.get_field_index("path") >= 0:
        names = pc.struct_field(column, "path").to_pylist()
        inside = column.type.get_field_index("bytes") >= 0
        stored = pc.is_valid(pc.struct_field(column, "bytes")).to_pylist() if inside else [False] * len(names)
        for row, (name, is_stored) in enumerate(zip(names, stored, strict=True)):
            if is_stored or name is None:
                continue
            try:
                paths[row] = folder.find(name)
            except InputError as error:
                problems[row], paths[row] = error, None
    return _StoredImages(column, paths)


class _StoredImages(Sequence):
    """An Arrow column of encoded images; a row becomes a Python object when it is read."""

    def __init__(self, column: pa.ChunkedArray, paths: dict[int, Any]):
        self._column, self._paths = column, paths

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        return self._paths[index] if index in self._paths else self._column[index].as_py()
