"""COCO's formats: captions as results, `[{"image_id", "caption"}]`, and references as annotations.

An annotation file is an object with the lists `images` (`id`, `file_name`) and `annotations` (`image_id`,
`caption`), as `captions_val2014.json` of Chen et al. 2015 (https://arxiv.org/abs/1504.00325).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError, Setting
from .columns import find_columns, find_image_column, known_problems
from .image_folder import ImageFolder, find_images
from .read import open_rows, read_json
from .row_source import CHUNK_ROWS, RowSource, extended_schema

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
        raise InputError(given, ": no such file; ", _FORMAT)
    content = read_json(path)
    if not isinstance(content, dict) or not content.get("annotations"):
        raise InputError(given, f" has no list `annotations`, or an empty one; {_FORMAT}")
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


def with_references(rows: RowSource, annotations: CocoAnnotations, *, image: str | None = None) -> RowSource:
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
    import pyarrow as pa

    given = Setting("references", annotations.path)
    if "references" in rows.columns:
        raise InputError(given, f": {rows.path} has a column 'references' already; leave out one of them")
    column = find_image_column(rows.columns, image)
    by_id = "image_id" in rows.columns
    if not by_id and (column is None or not annotations.file_names):
        raise InputError(
            given,
            f" cannot be matched with {rows.path}: expected a column image_id, or one of images whose "
            "names the annotations list",
        )
    key_column = "image_id" if by_id else column or ""
    new, faults, unused = _matched(rows, annotations, key_column, by_id)
    types = {"image": pa.string(), "references": pa.list_(pa.string())}
    if column not in (None, "image_id"):
        del new["image"], types["image"]
    elif rows.arrow_schema is not None and not annotations.file_names:
        types["image"] = rows.arrow_schema.field("image_id").type

    def dicts() -> Iterator[tuple[int | None, dict[str, Any]]]:
        assert rows.rows is not None
        for number, (line, row) in enumerate(rows.rows()):
            yield line, {**row, **{name: values[number] for name, values in new.items()}}

    def tables(size: int, columns: list[str] | None) -> Iterator[pa.Table]:
        assert rows.tables is not None
        start = 0
        known = None if columns is None else [name for name in columns if name in rows.columns]
        for table in rows.tables(size, known or None):
            for name, values in new.items():
                cells = values[start : start + table.num_rows]
                table = table.append_column(name, pa.array(cells, types[name]))
            yield table
            start += table.num_rows

    some = f"{len(unused):,} images of {annotations.path} have no caption"
    is_arrow = rows.arrow_schema is not None
    return RowSource(
        rows.path,
        [*rows.columns, *new],
        rows.n_rows,
        dicts,
        tables=tables if is_arrow else None,
        arrow_schema=extended_schema(rows.arrow_schema, types) if is_arrow else None,
        row_bytes=rows.row_bytes,
        notes=(*rows.notes, *(f"{some} (first: {key})" for key in unused[:1])),
        faults={**faults, **rows.faults},
        places=rows.places,
        folder=rows.folder,
    )


def _matched(
    rows: RowSource, annotations: CocoAnnotations, column: str, by_id: bool
) -> tuple[dict[str, list[Any]], dict[int, InputError], list[str]]:
    """Image and references of every row; what is wrong with rows; the images that no row has a caption of."""
    new: dict[str, list[Any]] = {"image": [], "references": []}
    seen: dict[str, str] = {}
    faults: dict[int, InputError] = {}
    by_name = {} if by_id else _keys_of_files(annotations)
    cells = (
        (chunk.start + row, None if chunk.lines is None else chunk.lines[row], value)
        for chunk in rows.chunks(CHUNK_ROWS, [column])
        for row, value in enumerate(chunk.values(column))
    )
    for number, line, value in cells:
        if by_id:
            key = image_key(value)
        else:
            key = by_name.get(os.path.basename(value)) if isinstance(value, str | os.PathLike) else None
        why = ""
        if key is None or key not in annotations.references:
            why = f"has no caption in {annotations.path}, so there are no references"
        elif key in seen:
            why = f"has a caption already ({seen[key]}); COCO's format takes one per image"
        else:
            seen[key] = rows.short_place(number, line)
        if why:
            faults[number] = InputError(f"{column} {value!r:.60} {why}", field="references")
        new["references"].append(None if why else annotations.references[key or ""])
        # without a list of images, the id is the name
        new["image"].append(annotations.file_names.get(key or "") if annotations.file_names else value)
    images = {**annotations.file_names, **annotations.references}
    return new, faults, [key for key in images if key not in seen]


def _keys_of_files(annotations: CocoAnnotations) -> dict[str, str]:
    """Image by the name of its file, whatever folder it is in; names that two images have are left out."""
    names = Counter(map(os.path.basename, annotations.file_names.values()))
    keys = {os.path.basename(name): key for key, name in annotations.file_names.items()}
    return {name: key for name, key in keys.items() if names[name] == 1}


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
    source = with_references(open_rows(results), read_annotations(annotations))
    names = find_columns(source.columns, with_references=True, with_language=False)
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
