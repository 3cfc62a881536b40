"""Which column of a file holds what, and where its images are.

In: the names of the columns, and cells as they were read. Out: captions, images, references and languages as
a scorer takes them, with what is wrong told row by row.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ImageError, InputError
from .rows import ArrowRows, Chunk, Rows, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

# field → names that it goes by, the first the one that we write
FAMILIAR = {
    "image": ("image", "image_path", "file_name", "img"),
    "candidate": ("caption", "candidate", "prediction", "hyp", "cand"),
    "references": ("references", "refs"),
    "language": ("language", "lang"),
}
# Not taken, for they often mean something else; but worth asking about where nothing familiar is there.
ALIKE = {
    "image": ("image_id", "image_file", "filename", "filepath", "path", "photo", "picture", "url"),
    "candidate": ("text", "sentence", "description", "hypothesis", "output", "generated"),
    "references": ("gts", "ground_truth", "targets"),
    "language": ("locale",),
}
_NUMBERED = re.compile(r"reference_?(\d+)")
_IMAGE_SUFFIXES = frozenset(".jpg .jpeg .png .webp .gif .bmp .tif .tiff .jp2 .avif .ppm .pgm".split())
_MOST_NAMES = 20_000  # in a folder larger than this, nothing like a missing name is searched for
_MOST_HINTS = 20


@dataclass(frozen=True)
class Fields:
    """The columns to read.

    Attributes:
        image: where the images are named, or are; None if none are read.
        candidate: the captions to score.
        references: one column with a list a row, or several with one reference each; () if none is read.
        language: a language code a row, or None.
    """

    image: str | None
    candidate: str
    references: tuple[str, ...] = ()
    language: str | None = None


def find_fields(
    columns: Sequence[str],
    *,
    image: str | None = None,
    candidate: str | None = None,
    references: str | None = None,
    language: str | None = None,
    with_images: bool = True,
    with_references: bool = False,
    with_language: bool = True,
) -> Fields:
    """Find the columns; a name that was given is taken as it is.

    Raises:
        UsageError: a column is not there, or two could be meant.

    >>> find_fields(["img", "hyp", "reference_1", "reference_2"], with_references=True)
    Fields(image='img', candidate='hyp', references=('reference_1', 'reference_2'), language=None)
    """
    found = {
        "image": _find("image", image, columns, required=True) if with_images else (),
        "candidate": _find("candidate", candidate, columns, required=True),
        "references": _find("references", references, columns, required=True) if with_references else (),
        "language": _find("language", language, columns, required=False) if with_language else (),
    }
    return Fields(
        image=found["image"][0] if found["image"] else None,
        candidate=found["candidate"][0],
        references=found["references"],
        language=found["language"][0] if found["language"] else None,
    )


def _find(field: str, given: str | None, columns: Sequence[str], *, required: bool) -> tuple[str, ...]:
    option = f"--{field}-column"
    if given is not None:
        if given in columns:
            return (given,)
        near = difflib.get_close_matches(given, columns, n=1, cutoff=0.6)
        hint = f"; did you mean {option} {near[0]}?" if near else ""
        raise UsageError(f"{option} {given}: there is no such column; found {_listed(columns)}{hint}")
    groups = [(name,) for name in FAMILIAR[field] if name in columns]
    if field == "references":
        numbered = [name for name in columns if _NUMBERED.fullmatch(name)]
        numbered.sort(key=lambda name: int(_NUMBERED.fullmatch(name)[1]))
        groups += [tuple(numbered)] if numbered else []
    if len(groups) > 1:
        names = " and ".join(", ".join(group) for group in groups)
        raise UsageError(f"the columns {names} could each hold the {_what(field)}: choose with {option}")
    if groups:
        return groups[0]
    if not required:
        return ()
    expected = ", ".join(FAMILIAR[field]) + (
        ", or reference_1, reference_2, …" if field == "references" else ""
    )
    alike = _alike(field, columns)
    hint = f"; did you mean {option} {alike}?" if alike else f"; {option} names another"
    raise UsageError(
        f"no column is known to hold the {_what(field)}: found {_listed(columns)}; "
        f"expected one of {expected}{hint}"
    )


def _alike(field: str, columns: Sequence[str]) -> str | None:
    familiar = {name: other for other, names in FAMILIAR.items() for name in names}
    free = [name for name in columns if name not in familiar]
    folded = {name.casefold().replace(" ", "_").replace("-", "_"): name for name in reversed(free)}
    for word in (*FAMILIAR[field], *ALIKE[field]):
        near = difflib.get_close_matches(word, folded, n=1, cutoff=0.75)
        if near:
            return folded[near[0]]
    return None


def _what(field: str) -> str:
    return {"image": "images", "candidate": "captions to score", "language": "languages"}.get(field, field)


def _listed(columns: Sequence[str]) -> str:
    names = ", ".join(map(repr, columns[:20]))
    more = f" and {len(columns) - 20} more" if len(columns) > 20 else ""
    return f"the column{'s' if len(columns) > 1 else ''} {names}{more}"


@dataclass(frozen=True)
class Inputs:
    """What a scorer takes for the rows of a chunk.

    Attributes:
        problems: row of the chunk → what is wrong with it, found before scoring.
    """

    candidates: list[Any]
    images: Sequence[Any] | None
    references: list[Any] | None
    languages: list[Any] | None
    problems: dict[int, InputError]


def read_inputs(chunk: Chunk, source: Rows, fields: Fields, folder: ImageFolder) -> Inputs:
    """The cells of a chunk, as a scorer takes them."""
    problems: dict[int, InputError] = {}
    images = None if fields.image is None else find_images(chunk, fields.image, folder, problems)
    references = None
    if len(fields.references) > 1 or (fields.references and _NUMBERED.fullmatch(fields.references[0])):
        cells = zip(*(chunk.values(name) for name in fields.references), strict=True)
        references = [[text for text in texts if not _is_missing(text)] for texts in cells]
    elif fields.references:
        references = chunk.values(fields.references[0])
        if source.cells_are_text:
            references = [_from_cell(text, row, problems) for row, text in enumerate(references)]
    languages = None
    if fields.language is not None:
        languages = [None if _is_missing(tag) else tag for tag in chunk.values(fields.language)]
    return Inputs(chunk.values(fields.candidate), images, references, languages, problems)


def find_images(
    chunk: Chunk, column: str, folder: ImageFolder, problems: dict[int, InputError]
) -> Sequence[Any]:
    """The images of a chunk: names become paths; what is stored in the file stays there, encoded.

    An image that is not found is None, which no scorer takes, and told in `problems`.
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


def stores_images(source: Rows, fields: Fields) -> bool:
    """Whether the image column holds images, or could, rather than their names."""
    if fields.image is None:
        return False
    return isinstance(source, ArrowRows) and _holds_images(source.schema().field(fields.image).type)


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
    """An Arrow column of encoded images; a row becomes a Python object when it is asked for."""

    def __init__(self, column: pa.ChunkedArray, paths: dict[int, Any]):
        self._column, self._paths = column, paths

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        return self._paths[index] if index in self._paths else self._column[index].as_py()


class ImageFolder:
    """Where the images that rows name are.

    Args:
        folder: what relative names start from. A name without its suffix, or a number, is found as well if
            one image only is called so.
        allow_urls: whether http(s) addresses may be fetched.

    Raises:
        UsageError: there is no such folder.
    """

    def __init__(self, folder: Path, *, allow_urls: bool = False):
        if not folder.is_dir():
            what = "is a file" if folder.exists() else "is not there"
            raise UsageError(f"--images {folder} {what}; expected the folder that holds the images")
        self.folder, self.allow_urls = folder, allow_urls
        self._stems: dict[Path, dict[str, list[str]]] = {}
        self._hints = _MOST_HINTS

    def find(self, image: Any) -> Any:
        """The path of an image that a row names; what is no name is returned as it is.

        Raises:
            ImageError: there is no such file; says which path was tried, and what is like it.
        """
        if isinstance(image, int) and not isinstance(image, bool):
            image = str(image)
        if not isinstance(image, str) or not image.strip() or "\0" in image or image[:5].lower() == "data:":
            return image
        if re.match(r"https?://", image, re.IGNORECASE) and not self.allow_urls:
            raise ImageError(f"{image!r} is a URL, and none is fetched without --allow-urls", field="image")
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", image):
            return image
        path = self.folder / os.path.expanduser(image)
        try:
            if path.exists():
                return path
        except OSError as error:  # a name that no file system takes
            raise ImageError(f"{image[:80]!r} cannot be looked up: {error.strerror}", field="image") from None
        named = self._named(path.parent).get(path.name, [])
        if len(named) == 1:
            return path.parent / named[0]
        if named:
            raise ImageError(f"{image!r} could be any of {', '.join(named)} in {path.parent}", field="image")
        raise ImageError(f"no such file: {path}{self._hint(path)}", field="image")

    def _named(self, folder: Path) -> dict[str, list[str]]:
        """Images in a folder by their names without suffix."""
        if folder not in self._stems:
            stems: dict[str, list[str]] = {}
            try:
                names = sorted(os.listdir(folder))
            except OSError:
                names = []
            for name in names:
                stem, suffix = os.path.splitext(name)
                if suffix.lower() in _IMAGE_SUFFIXES:
                    stems.setdefault(stem, []).append(name)
            self._stems[folder] = stems
        return self._stems[folder]

    def _hint(self, path: Path) -> str:
        if not path.parent.is_dir():
            return f" (there is no folder {path.parent})"
        names = [name for listed in self._named(path.parent).values() for name in listed]
        if not names:
            return f" (no image is in {path.parent}; --images names the folder)"
        if self._hints <= 0 or len(names) > _MOST_NAMES:
            return ""
        self._hints -= 1
        folded = {name.casefold(): name for name in names}
        near = difflib.get_close_matches(path.name.casefold(), folded, n=1, cutoff=0.7)
        return f"; did you mean {folded[near[0]]!r}?" if near else ""


def _is_missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _from_cell(text: str, row: int, problems: dict[int, InputError]) -> Any:
    """References in a cell of text: a JSON list."""
    if not text.strip():
        return None
    try:
        listed = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        listed = None
    if isinstance(listed, list):
        return listed
    problems.setdefault(
        row,
        InputError(
            f'the cell holds {text!r:.60}; expected a JSON list such as ["A cat.", "A small cat."], or one '
            "column for each: reference_1, reference_2, …",
            field="references",
        ),
    )
    return None
