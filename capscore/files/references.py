"""References from a file of their own, for rows of another: matched by image id, or else by the photo's name.

In: any file that `open_rows` reads, with captions, or lists of references, of photos. Out: rows with a column
`references`; and, for Python, rows as scorers take them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..errors import InputError, Setting
from ..options import RowOptions
from ..text.languages import language_code
from .columns import (
    ChunkInputs,
    ColumnNames,
    columns_of,
    find_image_column,
    find_language_column,
    find_reference_columns,
    is_missing,
    read_inputs,
)
from .description import Description, describe
from .image_folder import ImageFolder
from .matching import PhotoIndex
from .read import open_rows
from .row_source import CHUNK_ROWS, Chunk, RowSource, extended_schema


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

    def add(self, image_id: object, name: object, language: str | None, texts: Sequence[str]) -> None:
        """Add references of a photo that is named by its id, its name, or both."""
        name = _without_bytes(name)
        photo = self.photos.add(image_id, "" if is_missing(name) else str(name))
        code = language and language_code(language)
        self.texts.setdefault(photo, {}).setdefault(code or "", []).extend(texts)


def read_references(path: str | Path, options: RowOptions = RowOptions()) -> References:
    """Read the references of photos from any file of rows; errors name the file and the row.

    Of the options, `split` and `on_error` count: with "skip", rows that cannot be read are left out, and a
    note counts them.
    """
    source = open_rows(path, options, needs_split=False)
    option = Setting("references", path)
    try:
        lists = find_reference_columns(source.columns)
        texts = lists or (columns_of(source, with_images=False, with_language=False).candidate,)
        image = find_image_column(source.columns)
    except InputError as error:  # whose first part is the option of another file
        raise InputError(option, *error.parts[1:]) from None
    if image is None:
        raise InputError(option, f" names no photos; found {', '.join(source.columns)}")
    columns = ColumnNames(image, texts[0], lists, find_language_column(source.columns))
    found = References(source.path, "split" in source.columns, source.notes)
    left_out: list[InputError] = []
    for chunk in source.chunks(CHUNK_ROWS):
        inputs = read_inputs(chunk, source, columns, None)
        ids = chunk.values("image_id")
        names = chunk.values(None if image == "image_id" else image)
        languages = inputs.languages or [None] * len(chunk)
        for row in range(len(chunk)):
            try:
                found.add(ids[row], names[row], languages[row], _texts(inputs, row))
            except InputError as error:
                left_out.append(source.at(error, chunk, row))
                if options.on_error == "raise":
                    raise left_out[0] from None
    if left_out:
        some = f"{len(left_out):,} rows of references are left out (first: {left_out[0]})"
        found.notes = (*found.notes, some)
    return found


def _texts(inputs: ChunkInputs, row: int) -> list[str]:
    """The references of a row of a file of references."""
    if row in inputs.problems:
        raise inputs.problems[row]
    given = (inputs.references or inputs.candidates)[row]
    if isinstance(given, str):
        return [given]
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise InputError(f"expected a reference; got {given!r:.60}")
    return given


def with_references(rows: RowSource, references: References, options: RowOptions = RowOptions()) -> RowSource:
    """Rows of a file, with the references of their photos.

    Rows are matched by `image_id` if one of them has an id that the references have, or else by the name of
    their photo, by the rules of `photo_names`. Where references
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
    new, faults, unused, said = _matched(rows, references, column, options.language)
    types = {"image": pa.string(), "references": pa.list_(pa.string())}
    schema = rows.arrow_schema
    if column != "image_id":
        del new["image"], types["image"]
    elif schema is not None and not references.photos.files:
        types["image"] = schema.field("image_id").type
    if schema is not None:
        schema = extended_schema(schema, types)

    def read(size: int, columns: Sequence[str] | None) -> Iterator[Chunk]:
        known = [name for name in columns or () if name in rows.columns]
        for chunk in rows.chunks(size, known or None):
            here = slice(chunk.start, chunk.start + len(chunk))
            yield chunk.with_columns({name: cells[here] for name, cells in new.items()}, types)

    notes = [*rows.notes, *references.notes, *said]
    if unused:
        notes.append(f"{len(unused):,} images of {references.path} have no caption (first: {unused[0]})")
    return replace(
        rows,
        columns=[*rows.columns, *new],
        read=read,
        arrow_schema=schema,
        cells_are_text=False,
        notes=notes,
        faults={**faults, **rows.faults},
    )


def _matched(
    rows: RowSource, references: References, column: str, language: str | None
) -> tuple[dict[str, list[Any]], dict[int, InputError], list[str], list[str]]:
    """Image and references of rows; what is wrong with rows; photos without a caption in any row; notes."""
    tag = find_language_column(rows.columns)
    names, ids, tags = rows.cells(column, "image_id", tag, take=_without_bytes)
    matched = references.photos.match(ids, None if column == "image_id" else names)
    photos = matched.photos
    texts, files = references.texts, references.photos.files
    if not any(photos):
        first = next(iter(files.values()), next(iter(texts), None))
        near = next((f" ({problem})" for problem in matched.problems if problem), "")
        raise InputError(
            Setting("references", references.path),
            f" cannot be matched with {rows.path}: no row has one of its photos; the first {column} is "
            f"{names[0]!r:.60}, in that file {first!r:.60}{near}",
        )
    values = names
    if matched.by_id:
        column, values = "image_id", ids
    has_languages = len(set(chain(*texts.values()))) > 1
    faults: dict[int, InputError] = {}
    new: dict[str, list[Any]] = {"image": [], "references": []}
    for row, photo in enumerate(photos):
        what = f"{column} {values[row]!r:.60}"
        of_photo = texts.get(photo or "", {})
        code = next(iter(of_photo), "")
        if has_languages and of_photo:
            stated = language or tags[row] or ""
            code = stated and language_code(stated)
            what += f" in language {code!r}" if code else " without a language"
        if code not in of_photo:
            problem = f"{what} has no caption in {references.path}, so there are no references"
            if matched.problems[row]:
                problem += f": {matched.problems[row]}"
            faults[row] = InputError(problem, field="references")
        new["references"].append(of_photo.get(code))
        # without a name of its file, the id is the name
        new["image"].append(files.get(photo or "") if files else values[row])
    seen = set(photos)
    return new, faults, [photo for photo in texts if photo not in seen], matched.notes


def _without_bytes(value: object) -> object:
    return value.get("path") if isinstance(value, dict) else value


class _Columns(NamedTuple):
    candidates: list[str]
    images: list[Any] | None
    references: list[list[str]] | None
    languages: list[str | None] | None


class Rows(_Columns):
    """Rows as `Scorer.score` takes them, so that `scorer.score(*read_rows(…))` scores them.

    Attributes:
        candidates: n captions.
        images: n paths, or images that the file holds; None if there are none.
        references: n lists of references; None if there are none.
        languages: n language codes, or None for each row without; None if there are none.
    """

    source: RowSource
    options: RowOptions

    def describe(self) -> Description:
        """How the file is understood: its format, columns, rows and photos; what is left out and why."""
        return describe(self.source, self.options)


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
    options = RowOptions(references=references, split=split, on_error=on_error, images=images)
    source = open_with_references(path, options)
    has_images = find_image_column(source.columns) is not None
    has_references = bool(find_reference_columns(source.columns))
    names = columns_of(source, with_images=has_images, with_references=has_references)
    folder = ImageFolder(Path(images or source.folder)) if has_images else None
    columns: dict[str, list[Any]] = {name: [] for name in Rows._fields}
    problems: dict[int, InputError] = {}
    without_photo: set[int] = set()
    for chunk in source.chunks(CHUNK_ROWS):
        inputs = read_inputs(chunk, source, names, folder)
        for name, cells in columns.items():
            cells.extend(getattr(inputs, name) or [])
        for row, problem in inputs.problems.items():
            problems[chunk.start + row] = source.at(problem, chunk, row)
            if problem.field == "image" and images is None:
                without_photo.add(chunk.start + row)
    if len(problems) == source.n_rows:  # no photo is beside the file
        columns["images"] = []
        for row in without_photo:
            del problems[row]
    if problems and (on_error == "raise" or len(problems) == source.n_rows):
        raise problems[min(problems)]
    for name, cells in columns.items():
        columns[name] = [cell for row, cell in enumerate(cells) if row not in problems]
    rows = Rows(
        columns["candidates"],
        columns["images"] or None,
        columns["references"] or None,
        columns["languages"] or None,
    )
    rows.source, rows.options = source, options
    return rows


def open_with_references(path: str | Path, options: RowOptions = RowOptions()) -> RowSource:
    """Open a file of rows, with those of `options.references`; a split is of each file that has splits."""
    if options.references is None:
        return open_rows(path, options)
    found = read_references(options.references, options)
    return with_references(open_rows(path, options, needs_split=not found.has_splits), found, options)


def describe_file(
    path: str | Path, options: RowOptions = RowOptions(), spell: Callable[[Setting], str] = str
) -> Iterator[Description]:
    """Descriptions of a file; where `options` name a file of references, of that file and of both together.

    What can be understood comes before the error of what cannot.
    """
    if options.references is None:
        yield describe(open_rows(path, options), options, spell)
        return
    yield describe(open_rows(path, options, needs_split=False), options, spell, looks_for_photos=False)
    source = open_rows(options.references, options, needs_split=False)
    yield describe(source, RowOptions(on_error=options.on_error), spell, looks_for_photos=False)
    together = describe(open_with_references(path, options), options, spell)
    together.format += f", with the references of {options.references}"
    yield together
