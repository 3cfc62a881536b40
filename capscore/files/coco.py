"""COCO's formats: captions as results, `[{"image_id", "caption"}]`, and references as annotations.

An annotation file is an object with the lists `images` (`id`, `file_name`) and `annotations` (`image_id`,
`caption`), as `captions_val2014.json` of Chen et al. 2015 (https://arxiv.org/abs/1504.00325).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError, Setting
from .columns import find_columns, find_image_column, read_inputs
from .image_folder import ImageFolder
from .read import open_rows, read_json
from .row_source import CHUNK_ROWS, Chunk, RowSource, extended_schema

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
    """Read an annotation file in COCO's format, which may be gzipped; errors name option and entry."""
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
    new, faults, unused = _matched(rows, annotations, "image_id" if by_id else column or "", by_id)
    types = {"image": pa.string(), "references": pa.list_(pa.string())}
    if column not in (None, "image_id"):
        del new["image"], types["image"]
    elif rows.arrow_schema is not None and not annotations.file_names:
        types["image"] = rows.arrow_schema.field("image_id").type

    def read(size: int, columns: Sequence[str] | None) -> Iterator[Chunk]:
        known = None if columns is None else [name for name in columns if name in rows.columns]
        for chunk in rows.chunks(size, known or None):
            here = slice(chunk.start, chunk.start + len(chunk))
            yield chunk.with_columns({name: cells[here] for name, cells in new.items()}, types)

    some = f"{len(unused):,} images of {annotations.path} have no caption"
    return RowSource(
        rows.path,
        [*rows.columns, *new],
        rows.n_rows,
        read,
        arrow_schema=None if rows.arrow_schema is None else extended_schema(rows.arrow_schema, types),
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
    # of two images whose files have one name in two folders, neither is meant by it
    names = Counter(os.path.basename(name) for name in annotations.file_names.values())
    keys = {os.path.basename(name): key for key, name in annotations.file_names.items()}
    for chunk in rows.chunks(CHUNK_ROWS, [column]):
        for row, value in enumerate(chunk.values(column)):
            key = image_key(value) if by_id else None
            if not by_id and isinstance(value, str | os.PathLike):
                name = os.path.basename(os.fspath(value))
                key = keys.get(name) if names[name] == 1 else None
            why = ""
            if key is None or key not in annotations.references:
                why = f"has no caption in {annotations.path}, so there are no references"
            elif key in seen:
                why = f"has a caption already ({seen[key]}); COCO's format takes one per image"
            else:
                line = None if chunk.lines is None else chunk.lines[row]
                seen[key] = rows.short_place(chunk.start + row, line)
            if why:
                faults[chunk.start + row] = InputError(f"{column} {value!r:.60} {why}", field="references")
            new["references"].append(None if why else annotations.references[key or ""])
            # without a list of images, the id is the name
            new["image"].append(annotations.file_names.get(key or "") if annotations.file_names else value)
    return (
        new,
        faults,
        [key for key in {**annotations.file_names, **annotations.references} if key not in seen],
    )


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
        inputs = read_inputs(chunk, source, names, folder)
        if inputs.problems:
            row = min(inputs.problems)
            raise source.at(inputs.problems[row], chunk, row)
        if found.images is not None:
            found.images.extend(inputs.images or ())
        found.candidates.extend(inputs.candidates)
        found.references.extend(inputs.references or ())
    return found
