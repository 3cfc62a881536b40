"""COCO's formats: captions as results, `[{"image_id", "caption"}]`, and references as annotations.

An annotation file is an object with the lists `images` (`id`, `file_name`) and `annotations` (`image_id`,
`caption`), as `captions_val2014.json` of Chen et al. 2015 (https://arxiv.org/abs/1504.00325).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError, Setting
from .columns import ColumnNames, find_columns, find_image_column, known_problems
from .image_folder import ImageFolder, find_images
from .read import open_rows, read_json
from .row_source import CHUNK_ROWS, Chunk, RowSource, extended_schema

if TYPE_CHECKING:
    import pyarrow as pa

_FORMAT = (
    'expected COCO\'s annotation format: {"images": [{"id": 1, "file_name": "dog.jpg"}, …], '
    '"annotations": [{"image_id": 1, "caption": "A dog."}, …]}'
)


@dataclass(frozen=True)
class CocoAnnotations:
    """References of images.

    Attributes:
        path: File that they are from.
        file_names: Image → name of its file; empty if the file lists no images.
        references: Image → its references, in the order of the file.

    Images are known by `image_key` of their ids.
    """

    path: Path
    file_names: dict[str, str]
    references: dict[str, list[str]]

    @property
    def images(self) -> dict[str, None]:
        """All images, with and without references."""
        return dict.fromkeys([*self.file_names, *self.references])


def image_key(image_id: Any) -> str | None:
    """What an id is compared by: the same for 42, "42" and "000042"; None for what is no id.

    >>> image_key(42), image_key("000042"), image_key("dog"), image_key(None)
    ('42', '42', 'dog', None)
    """
    if isinstance(image_id, float) and image_id.is_integer():
        image_id = int(image_id)  # a column of Arrow with a gap in it
    if isinstance(image_id, bool) or not isinstance(image_id, int | str) or image_id == "":
        return None
    text = str(image_id) if isinstance(image_id, str) or abs(image_id) < 10**18 else ""
    return (text.lstrip("0") or "0") if text.isascii() and text.isdecimal() else text or None


def read_annotations(path: str | Path, *, option: str = "annotations") -> CocoAnnotations:
    """Read an annotation file in COCO's format.

    Args:
        path: The file; it may be gzipped.
        option: Name of the option that the path comes from, for errors.

    Raises:
        InputError: There is no such file, or it is of another format; names the entry at fault.
    """
    path = Path(path)
    given = Setting(option, path)
    if not path.is_file():
        raise InputError(given, " is a folder" if path.is_dir() else ": no such file", "; ", _FORMAT)
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(given, f" holds no object; {_FORMAT}")
    file_names: dict[str, str] = {}
    for number, (key, name) in enumerate(_pairs(content, "images", "id", "file_name", given)):
        if file_names.setdefault(key, name) != name:
            raise InputError(given, f": entry {number} of `images` has the id {key} of another one")
    references: dict[str, list[str]] = {}
    for number, (key, text) in enumerate(_pairs(content, "annotations", "image_id", "caption", given)):
        if file_names and key not in file_names:
            raise InputError(
                given, f": entry {number} of `annotations` is of image_id {key}, which `images` does not list"
            )
        references.setdefault(key, []).append(text)
    if not references:
        raise InputError(given, f" has no list `annotations`, or an empty one; {_FORMAT}")
    return CocoAnnotations(path, file_names, references)


def _pairs(
    content: dict[str, Any], name: str, id_key: str, text_key: str, given: Setting
) -> Iterator[tuple[str, str]]:
    """The id and the text of each entry of a list."""
    entries = content.get(name) or []
    if not isinstance(entries, list):
        raise InputError(given, f": `{name}` is no list; {_FORMAT}")
    for number, entry in enumerate(entries):
        key = image_key(entry.get(id_key)) if isinstance(entry, dict) else None
        text = entry.get(text_key) if isinstance(entry, dict) else None
        if key is None or not isinstance(text, str):
            raise InputError(
                given, f": entry {number} of `{name}` has no {id_key} or no {text_key}; {_FORMAT}"
            )
        yield key, text


class RowsWithReferences(RowSource):
    """Rows of a file, with the references that an annotation file has for their images.

    Rows are matched by `image_id` or, where there is no such column, by the name of the file of their image.
    Two columns are new: `references`, and `image` if the rows have no image column.

    Args:
        rows: Rows with candidates.
        annotations: References of their images.
        image: Name of the image column, if it is unfamiliar.

    Raises:
        InputError: The rows have references already, or neither ids nor images.
    """

    def __init__(self, rows: RowSource, annotations: CocoAnnotations, *, image: str | None = None):
        self._rows, self._annotations = rows, annotations
        self.path, self.n_rows = rows.path, rows.n_rows
        if "references" in rows.columns:
            raise InputError(
                Setting("references", annotations.path),
                f": {rows.path} has a column 'references' already; leave one of the two out",
            )
        column = find_image_column(rows.columns, image)
        self._by_id = "image_id" in rows.columns
        self._key_column = "image_id" if self._by_id else column or ""
        if not self._key_column:
            raise InputError(
                Setting("references", annotations.path),
                f": {rows.path} has neither a column image_id nor one of images, so references have no rows",
            )
        self._keys = {} if self._by_id else _keys_of_files(annotations)
        self._new = ("image", "references") if column in (None, "image_id") else ("references",)
        self.columns = [*rows.columns, *self._new]
        self._images = annotations.images
        self._faults, seen = self._check()
        left = [key for key in self._images if key not in seen]
        notes = list(rows.notes)
        if left:
            some = f"{len(left):,} of the {len(self._images):,} images of {annotations.path}"
            have = "has no caption" if len(left) == 1 else "have no caption"
            notes.append(f"{some} {have} in {rows.path} (first: {left[0]}); means are over the others")
        self.notes = tuple(notes)

    @property
    def folder(self) -> Path:
        return self._rows.folder

    def _key(self, value: Any) -> str | None:
        if self._by_id:
            return image_key(value)
        return self._keys.get(os.path.basename(value)) if isinstance(value, str | os.PathLike) else None

    def _check(self) -> tuple[dict[int, InputError], dict[str, str]]:
        faults: dict[int, InputError] = {}
        seen: dict[str, str] = {}
        about, images = self._annotations, self._images
        for chunk in self._rows.chunks(CHUNK_ROWS, [self._key_column]):
            for row, value in enumerate(chunk.values(self._key_column)):
                key, number = self._key(value), chunk.start + row
                shown = f"{self._key_column} {value!r:.60}"
                if value is None or value == "":
                    told = f"the row has no {self._key_column}, which its references are found by"
                elif key is None or key not in images:
                    told = f"{shown} is not among the {len(images):,} images of {about.path}"
                elif key not in about.references:
                    told = f"{shown} has no caption in {about.path}, so there are no references"
                elif key in seen:
                    told = f"{shown} has a caption already ({seen[key]}); COCO's format takes one per image"
                else:
                    seen[key] = self._rows.short_place(
                        number, None if chunk.lines is None else chunk.lines[row]
                    )
                    continue
                faults[number] = InputError(told, field="references")
        return faults, seen

    def chunks(self, size: int, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        inner = None
        if columns is not None:
            wanted = [name for name in columns if name not in self._new]
            inner = list(dict.fromkeys([*wanted, self._key_column]))
        return self._with_references(self._rows.chunks(size, inner))

    def span(self, size: int, start: int, stop: int) -> Iterator[Chunk]:
        return self._with_references(self._rows.span(size, start, stop))

    def _with_references(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        for chunk in chunks:
            keys = [self._key(value) for value in chunk.values(self._key_column)]
            kept: list[Any] = [
                None if chunk.start + row in self._faults else self._annotations.references[key or ""]
                for row, key in enumerate(keys)
            ]
            new = {"references": kept}
            if "image" in self._new:
                ids = chunk.values(self._key_column)
                names = self._annotations.file_names
                # without a list of images, the id is the name
                new["image"] = [
                    names.get(key or "", None if names else ids[row]) for row, key in enumerate(keys)
                ]
            yield self._extended(chunk, {name: new[name] for name in self._new})

    def _extended(self, chunk: Chunk, new: dict[str, list[Any]]) -> Chunk:
        if chunk.rows is not None:
            rows = [
                {**cells, **{name: new[name][row] for name in new}} for row, cells in enumerate(chunk.rows)
            ]
            return Chunk(chunk.start, chunk.lines, rows)
        import pyarrow as pa

        table = chunk.table
        for name, values in new.items():
            table = table.append_column(name, pa.array(values, self._types()[name]))
        return Chunk(chunk.start, chunk.lines, table=table)

    def _types(self) -> dict[str, Any]:
        import pyarrow as pa

        kinds = {"image": pa.string(), "references": pa.list_(pa.string())}
        if "image" in self._new and not self._annotations.file_names:
            kinds["image"] = self._rows.schema().field(self._key_column).type
        return kinds

    def schema(self) -> pa.Schema:
        kinds = self._types()
        return extended_schema(self._rows.schema(), {name: kinds[name] for name in self._new})

    def problems(self, chunk: Chunk) -> dict[int, InputError]:
        numbers = range(chunk.start, chunk.start + len(chunk))
        here = {number - chunk.start: self._faults[number] for number in numbers if number in self._faults}
        return {**here, **self._rows.problems(chunk)}

    def short_place(self, row: int, line: int | None) -> str:
        return self._rows.short_place(row, line)

    def place(self, chunk: Chunk, row: int) -> str:
        return self._rows.place(chunk, row)


def _keys_of_files(annotations: CocoAnnotations) -> dict[str, str]:
    """Image by the name of its file, whatever folder it is in; names that two images have are left out."""
    if not annotations.file_names:
        raise InputError(
            Setting("references", annotations.path),
            " lists no images, so rows without image_id cannot be matched by the names of their photos",
        )
    found: dict[str, str] = {}
    twice = set()
    for key, name in annotations.file_names.items():
        if found.setdefault(os.path.basename(name), key) != key:
            twice.add(os.path.basename(name))
    return {name: key for name, key in found.items() if name not in twice}


class CocoRows(NamedTuple):
    """Rows as `Scorer.score` takes them, so that `scorer.score(*load_coco(…))` scores them.

    Attributes:
        candidates: n captions.
        images: n paths of photos; None if no folder was given.
        references: n lists of references.
    """

    candidates: list[str]
    images: list[Any] | None
    references: list[list[str]]


def load_coco(results: str | Path, annotations: str | Path, images: str | Path | None = None) -> CocoRows:
    """Captions in COCO's results format, with the references of their images.

    Args:
        results: File of captions: `[{"image_id": 42, "caption": "A dog."}, …]`.
        annotations: Annotation file with `images` and `annotations`.
        images: Folder of the photos; None to compare with the references alone.

    Raises:
        InputError: A row has an image that the annotations do not have, or that came before, or whose photo
            is missing; names the row.

    >>> rows = load_coco("captions.json", "captions_val2014.json", "val2014")    # doctest: +SKIP
    >>> capscore.load("ref_clip_score").score(*rows).mean                         # doctest: +SKIP
    """
    source = RowsWithReferences(open_rows(results), read_annotations(annotations))
    names: ColumnNames = find_columns(source.columns, with_references=True, with_language=False)
    folder = None if images is None else ImageFolder(Path(images))
    found = CocoRows([], None if images is None else [], [])
    for chunk in source.chunks(CHUNK_ROWS):
        problems = known_problems(chunk, source, names)
        if folder is not None and found.images is not None:
            found.images.extend(find_images(chunk, names.image or "", folder, problems))
        if problems:
            raise source.at(problems[min(problems)], chunk, min(problems))
        found.candidates.extend(chunk.values(names.candidate))
        found.references.extend(chunk.values("references"))
    return found
