"""References from a file of their own, for rows of another: matched by image id, or else by the photo's name.

In: any file that `open_rows` reads, with captions, or lists of references, of photos. Out: rows with a column
`references`; and, for Python, rows as scorers take them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..errors import InputError, Setting
from ..options import RowOptions
from ..text.languages import language_code
from .columns import (
    ColumnNames,
    candidate_column_of,
    columns_of,
    find_image_column,
    find_language_column,
    find_reference_columns,
    is_missing,
    read_inputs,
)
from .image_folder import ImageFolder
from .matching import PhotoIndex
from .read import open_rows
from .row_source import CHUNK_ROWS, RowSource, extended_schema


@dataclass
class References:
    """References of photos.

    Attributes:
        path: File that they are from.
        has_splits: Whether the file names the split of each row.
        notes: Sentences about the whole file.
        photos: Photos of the file.
        texts: Photo → language, or "" → its references, in the order of the file.
    """

    path: Path
    has_splits: bool = False
    notes: Sequence[str] = ()
    photos: PhotoIndex = field(default_factory=PhotoIndex)
    texts: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def languages(self) -> set[str]:
        """Languages of the references, "" for those that state none."""
        return {code for texts in self.texts.values() for code in texts}


def read_references(path: str | Path, options: RowOptions = RowOptions()) -> References:
    """Read the references of photos from any file of rows; errors name the file and the row.

    Of the options, `split` and `on_error` count: with "skip", rows that cannot be read are left out, and a
    note counts them.
    """
    source = open_rows(path, options, needs_split=False)
    option = Setting("references", path)
    try:
        lists = find_reference_columns(source.columns)
        texts = lists or (candidate_column_of(source),)
        image = find_image_column(source.columns)
    except InputError as error:  # whose first part is the option of another file
        raise InputError(option, *error.parts[1:]) from None
    language = find_language_column(source.columns)
    has_ids = "image_id" in source.columns
    if image is None:
        raise InputError(option, f" names no photos; found {', '.join(source.columns)}")
    columns = ColumnNames(image, texts[0], lists, language)
    found = References(source.path, "split" in source.columns)
    left_out: list[InputError] = []
    for chunk in source.chunks(CHUNK_ROWS):
        inputs = read_inputs(chunk, source, columns, None)
        ids = chunk.values("image_id") if has_ids else [None] * len(chunk)
        names = [None] * len(chunk) if image == "image_id" else chunk.values(image)
        for row, (image_id, name) in enumerate(zip(ids, names, strict=True)):
            try:
                if row in inputs.problems:
                    raise inputs.problems[row]
                given = inputs.references[row] if inputs.references else [inputs.candidates[row]]
                given = [given] if isinstance(given, str) else given
                if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
                    raise InputError(f"expected a reference; got {given!r:.60}")
                tag = inputs.languages[row] if inputs.languages else None
                name = None if is_missing(name) else str(_without_bytes(name))
                code = language_code(tag) if tag else ""
                photo = found.photos.add(image_id, name)
                found.texts.setdefault(photo, {}).setdefault(code, []).extend(given)
            except InputError as error:
                left_out.append(source.at(error, chunk, row))
                if options.on_error == "raise":
                    raise left_out[0] from None
    some = f"{len(left_out):,} rows of references are left out (first: "
    found.notes = (*source.notes, *(f"{some}{error})" for error in left_out[:1]))
    return found


def with_references(rows: RowSource, references: References, options: RowOptions = RowOptions()) -> RowSource:
    """Rows of a file, with the references of their photos.

    Rows are matched by `image_id` if one of them has an id that the references have, or else by the name of
    their photo: with or without folder and suffix, or by the number that COCO's names have. Where references
    are in several languages, those in the language of the row are taken. Two columns are new: `references`,
    and `image` if the rows have no image column.

    Args:
        rows: Rows with candidates.
        references: References of their photos.
        options: Name of the image column, if it is unfamiliar, and language of all rows.

    Raises:
        InputError: The rows have references already, or name no photo that the references have.
    """
    import pyarrow as pa

    given = Setting("references", references.path)
    if "references" in rows.columns:
        raise InputError(given, f": {rows.path} has a column 'references' already; leave out one of them")
    column = find_image_column(rows.columns, options.image_column)
    if column is None:
        raise InputError(
            given, f" cannot be matched with {rows.path}: expected a column image_id, or one of images"
        )
    new, faults, unused = _matched(rows, references, column, options.language)
    types = {"image": pa.string(), "references": pa.list_(pa.string())}
    if column != "image_id":
        del new["image"], types["image"]
    elif rows.arrow_schema is not None and not references.photos.files:
        types["image"] = rows.arrow_schema.field("image_id").type

    def read(size: int, columns: Sequence[str] | None) -> Any:
        known = None if columns is None else [name for name in columns if name in rows.columns]
        for chunk in rows.chunks(size, known or None):
            here = slice(chunk.start, chunk.start + len(chunk))
            yield chunk.with_columns({name: cells[here] for name, cells in new.items()}, types)

    some = f"{len(unused):,} images of {references.path} have no caption"
    return RowSource(
        rows.path,
        [*rows.columns, *new],
        rows.n_rows,
        read,
        arrow_schema=None if rows.arrow_schema is None else extended_schema(rows.arrow_schema, types),
        notes=(*rows.notes, *references.notes, *(f"{some} (first: {photo})" for photo in unused[:1])),
        faults={**faults, **rows.faults},
        places=rows.places,
        folder=rows.folder,
    )


def _matched(
    rows: RowSource, references: References, column: str, language: str | None
) -> tuple[dict[str, list[Any]], dict[int, InputError], list[str]]:
    """Image and references of every row; what is wrong with rows; the photos that no row has a caption of."""
    tag = find_language_column(rows.columns)
    names, ids, tags = rows.cells(column, "image_id", tag, take=_without_bytes)
    photos, by_id = references.photos.match(ids, None if column == "image_id" else names)
    texts, files = references.texts, references.photos.files
    if not any(photos):
        first = next(iter(files.values()), next(iter(texts), None))
        raise InputError(
            Setting("references", references.path),
            f" cannot be matched with {rows.path}: no row has one of its photos; the first {column} is "
            f"{names[0]!r:.60}, in that file {first!r:.60}",
        )
    several = len(references.languages()) > 1
    faults: dict[int, InputError] = {}
    new: dict[str, list[Any]] = {"image": [], "references": []}
    for row, photo in enumerate(photos):
        value = ids[row] if by_id else names[row]
        what = f"{'image_id' if by_id else column} {value!r:.60}"
        of_photo = texts.get(photo or "", {})
        code = next(iter(of_photo), "")
        if several and of_photo:
            stated = language or tags[row]
            code = language_code(stated) if stated else ""
            what += f" in language {code!r}" if code else " without a language"
        if code not in of_photo:
            problem = f"{what} has no caption in {references.path}, so there are no references"
            faults[row] = InputError(problem, field="references")
        new["references"].append(of_photo.get(code))
        # without a name of its file, the id is the name
        new["image"].append(files.get(photo or "") if files else value)
    seen = set(photos)
    return new, faults, [photo for photo in texts if photo not in seen]


def _without_bytes(value: Any) -> Any:
    return value.get("path") if isinstance(value, dict) else value


class Rows(NamedTuple):
    """Rows as `Scorer.score` takes them, so that `scorer.score(*read_rows(…))` scores them.

    Attributes:
        candidates: n captions.
        images: n paths, or images that the file holds; None if there are none.
        references: n lists of references; None if there are none.
        languages: n language codes, or None for each row without; None if there are none.
    """

    candidates: list[str]
    images: list[Any] | None
    references: list[list[str]] | None
    languages: list[str | None] | None


def read_rows(
    path: str | Path,
    *,
    references: str | Path | None = None,
    images: str | Path | None = None,
    split: str | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Rows:
    """Read captions of photos from any file that `capscore score` reads, to score them in Python.

    Args:
        path: File or folder; docs/scoring.md lists what can be read.
        references: File of the references; None for those of the rows themselves.
        images: Folder of the photos; None for photos beside the file, and no images if there are none.
        split: Split of a file that has several.
        on_error: "skip" leaves out what cannot be read: rows, and rows of references.

    Raises:
        InputError: A row cannot be read, its photo is missing, or it has no references; names the row.

    >>> rows = read_rows("candidates.json", references="refs.json", images="photos")   # doctest: +SKIP
    >>> capscore.load("ref_clip_score").score(*rows).mean                               # doctest: +SKIP
    """
    source = open_with_references(path, RowOptions(references=references, split=split, on_error=on_error))
    has_images = find_image_column(source.columns) is not None
    has_references = bool(find_reference_columns(source.columns))
    names = columns_of(source, with_images=has_images, with_references=has_references)
    folder = ImageFolder(Path(images or source.folder)) if has_images else None
    found = Rows([], [], [], [])
    problems: dict[int, InputError] = {}
    without_photo: dict[int, InputError] = {}
    for chunk in source.chunks(CHUNK_ROWS):
        inputs = read_inputs(chunk, source, names, folder)
        for row, problem in sorted(inputs.problems.items()):
            of_photo = problem.field == "image" and images is None
            (without_photo if of_photo else problems)[chunk.start + row] = source.at(problem, chunk, row)
        found.candidates.extend(inputs.candidates)
        for cells, new in ((found.images, inputs.images), (found.references, inputs.references)):
            cells.extend(new or ())  # type: ignore[union-attr]
        found.languages.extend(inputs.languages or ())  # type: ignore[union-attr]
    has_photos = len(without_photo) < source.n_rows - len(problems)
    if has_photos:
        problems |= without_photo
    if problems and (on_error == "raise" or len(problems) == source.n_rows):
        raise problems[min(problems)]
    lists = (cells or [] for cells in found)
    kept = [[cell for row, cell in enumerate(cells) if row not in problems] for cells in lists]
    return Rows(kept[0], (kept[1] or None) if has_photos else None, kept[2] or None, kept[3] or None)


def open_with_references(path: str | Path, options: RowOptions = RowOptions()) -> RowSource:
    """Open a file of rows, with those of `options.references`; a split is of each file that has splits."""
    if options.references is None:
        return open_rows(path, options)
    found = read_references(options.references, options)
    return with_references(open_rows(path, options, needs_split=not found.has_splits), found, options)
