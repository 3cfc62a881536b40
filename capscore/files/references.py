"""References from a file of their own, for rows of another: matched by image id, or by the photo's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeGuard

from ..errors import InputError, Setting
from ..options import RowOptions
from ..text.languages import language_code
from .columns import (
    FAMILIAR,
    OTHER_NAMES,
    ChunkInputs,
    ColumnNames,
    check_column,
    columns_of,
    find_id_column,
    find_image_column,
    find_language_column,
    find_reference_columns,
    is_missing,
    named_columns,
    odd_cell,
    plain_name,
    read_inputs,
)
from .description import Description, describe
from .image_folder import ImageFolder
from .matching import PhotoIndex
from .read import check_no_tokens, listed_captions, open_rows
from .row_source import CHUNK_ROWS, Chunk, RowSource, extended_schema

Files = str | Path | Sequence[str | Path]
"""A file, or several."""


@dataclass
class References:
    """References of photos, or of rows in their order.

    Attributes:
        in_order: References of each row, where nothing names photos; None where photos are named. A row that
            cannot be read has None.
    """

    path: Path
    has_splits: bool = False
    notes: Sequence[str] = ()
    photos: PhotoIndex = field(default_factory=PhotoIndex)
    texts: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    in_order: list[list[str] | None] | None = None

    def add(self, image_id: object, name: object, language: str | None, texts: Sequence[str]) -> None:
        """Add references of a photo that is named by its id, its name, or both."""
        photo = self.photos.add(image_id, "" if is_missing(name) else str(name))
        code = language and language_code(language)
        self.texts.setdefault(photo, {}).setdefault(code or "", []).extend(texts)


def read_references(path: Files, options: RowOptions = RowOptions()) -> References:
    """Read the references of photos from any file of rows, or several; errors name the file and the row.

    Of the options, `split` and `on_error` count: with "skip", rows that cannot be read are left out, and a
    note counts them; and `references_column` and `references_id_column`, which name columns of the files.
    """
    paths = listed_files(path)
    found = References(Path(paths[0]))
    for number, part in enumerate(paths):
        _read_file(part, found, options, is_first=number == 0)
    return found


def listed_files(path: Files) -> list[str | Path]:
    """One file, or several, as a list."""
    paths = [path] if isinstance(path, str | Path) else [*path]
    if not paths:
        raise InputError(Setting("references"), ": expected a file, or several")
    return paths


def _read_file(path: str | Path, found: References, options: RowOptions, *, is_first: bool) -> None:
    source = open_rows(path, options, needs_split=False, lists_are_rows=False)
    option = Setting("references", path)
    given = options.references_id_column
    try:
        lists = find_reference_columns(source.columns, options.references_column)
        texts = lists or (columns_of(source, with_images=False, with_language=False).candidate,)
        id_column = find_id_column(source.columns)
        image = find_image_column(source.columns) if given is None else None
        if given is not None:
            id_column = check_column("references_id_column", given, source.columns)
    except InputError as error:  # whose first part is the option of another file
        if isinstance(error.parts[0], Setting) and error.parts[0].name == "references_id_column":
            raise
        raise InputError(option, *error.parts[1:]) from None
    check_no_tokens(source, *texts)
    by_id = named_columns(("id",), source.columns)
    if image is None and id_column is None and by_id:
        id_column = by_id[0]
    in_order = image is None and id_column is None
    if not is_first and in_order != (found.in_order is not None):
        raise InputError(option, f" names no photos, as {found.path} does; or the other way round")
    columns = ColumnNames(image, texts[0], lists, find_language_column(source.columns))
    found.has_splits = found.has_splits or bool(named_columns(("split",), source.columns))
    left_out: list[InputError] = []
    rows_in_order: list[list[str] | None] = []
    others = [name for name in photo_columns(source.columns) if name != image]
    for chunk in source.chunks(CHUNK_ROWS):
        inputs = read_inputs(chunk, source, columns, None)
        ids = chunk.values(id_column)
        names = photo_cells(chunk, None if image == id_column else image, others)
        languages = inputs.languages or [None] * len(chunk)
        for row in range(len(chunk)):
            try:
                references = _texts(inputs, row, source.cells_are_text)
                rows_in_order.append(references)
                if not in_order:
                    found.add(ids[row], names[row], languages[row], references)
            except InputError as error:
                left_out.append(source.at(error, chunk, row))
                rows_in_order.append(None)
                if options.on_error == "raise":
                    raise left_out[0] from None
    found.notes = (*found.notes, *source.notes)
    if left_out:
        rows_left_out = f"{len(left_out):,} row{'s' * (len(left_out) != 1)}"
        some = f"{rows_left_out} of references left out (first: {left_out[0]})"
        found.notes = (*found.notes, some)
    if in_order:
        found.in_order = _side_by_side(found, rows_in_order, path)


def _side_by_side(
    found: References, rows: list[list[str] | None], path: str | Path
) -> list[list[str] | None]:
    """References of each row of the files so far, and of one more."""
    if found.in_order is None:
        return rows
    if len(found.in_order) != len(rows):
        raise InputError(
            Setting("references", path), f" has {len(rows):,} rows, and {found.path} {len(found.in_order):,}"
        )
    joined: list[list[str] | None] = []
    for before, more in zip(found.in_order, rows, strict=True):
        joined.append(None if before is None or more is None else before + more)
    return joined


def _texts(inputs: ChunkInputs, row: int, cells_are_text: bool) -> list[str]:
    if row in inputs.problems:
        raise inputs.problems[row]
    given = (inputs.references or inputs.candidates)[row]
    given = listed_captions(given, cells_are_text) or given
    if isinstance(given, str):
        return [given]
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise InputError(f"expected a reference; got {given!r:.60}")
    return given


def with_references(rows: RowSource, references: References, options: RowOptions = RowOptions()) -> RowSource:
    """Rows of a file, with the references of their photos.

    Rows are matched by `image_id` if one of them has an id that the references have, or else by the name of
    their photo, by the rules of `photo_names`. Where references are in several languages, those in the
    language of the row are taken. Two columns are new: `references`, and `image` if the rows have no image
    column.
    """
    import pyarrow as pa

    given = Setting("references", references.path)
    new_column = options.references_column or "references"
    if taken := named_columns([plain_name(new_column)], rows.columns):
        raise InputError(given, f": {rows.path} has a column {taken[0]!r} already; leave out one of them")
    types = {"image": pa.string(), new_column: pa.list_(pa.string())}
    schema = rows.arrow_schema
    if references.in_order is not None:
        texts, faults = _in_order(rows, references, references.in_order)
        new: dict[str, Sequence[object]] = {new_column: texts}
        unused: list[str] = []
        said = [f"the rows of {references.path} are those of {rows.path} in their order"]
        del types["image"]
    else:
        column = find_image_column(rows.columns, options.image_column)
        if column is None:
            column = next(iter(named_columns(("id",), rows.columns)), None)
        if column is None:
            raise InputError(
                given,
                f" cannot be matched with {rows.path}: expected a column image_id, or one of images, as that "
                "file has",
            )
        id_column = find_id_column(rows.columns)
        if id_column is None and plain_name(column) == "id":
            id_column = column
        new, faults, unused, said = _matched(rows, references, column, id_column, options.language)
        new[new_column] = new.pop("references")
        if column != id_column or plain_name(column) == "id" or "image" in rows.columns:
            del new["image"], types["image"]
        elif schema is not None and not references.photos.files:
            types["image"] = schema.field(column).type
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


def _in_order(
    rows: RowSource, references: References, texts: list[list[str] | None]
) -> tuple[Sequence[object], dict[int, InputError]]:
    """References of every row by its place, and what is wrong with rows."""
    if len(texts) != rows.n_rows:
        raise InputError(
            Setting("references", references.path),
            f" names no photos, so that its rows are those of {rows.path} in their order; it has "
            f"{len(texts):,} rows, and that file {rows.n_rows:,}",
        )
    faults: dict[int, InputError] = {}
    for row, listed in enumerate(texts):
        if listed is None:
            problem = f"row {row}, counted from 0, of {references.path} could not be read"
            faults[row] = InputError(problem, field="references")
    return texts, faults


def _matched(
    rows: RowSource, references: References, column: str, id_column: str | None, language: str | None
) -> tuple[dict[str, Sequence[object]], dict[int, InputError], list[str], list[str]]:
    """Image and references of rows; what is wrong with rows; photos without a caption in any row; notes."""
    tag = find_language_column(rows.columns)
    others = [name for name in photo_columns(rows.columns) if name != column]
    needed = {column, *others, id_column, tag}
    names: list[object] = []
    ids: list[object] = []
    tags: list[Any] = []
    for chunk in rows.chunks(CHUNK_ROWS, [name for name in rows.columns if name in needed]):
        names += photo_cells(chunk, column, others)
        ids += map(_without_bytes, chunk.values(id_column))
        tags += chunk.values(tag)
    matched = references.photos.match(ids, None if column == id_column else names)
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
        column, values = id_column or column, ids
    has_languages = len(set(chain(*texts.values()))) > 1
    faults: dict[int, InputError] = {}
    images: list[object] = []
    listed: list[list[str] | None] = []
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
            if has_languages and of_photo:
                problem += f"; it has captions in {', '.join(sorted(filter(None, of_photo)))} there"
            if matched.problems[row]:
                problem += f": {matched.problems[row]}"
            faults[row] = InputError(problem, field="references")
        listed.append(of_photo.get(code))
        # without a name of its file, the id is the name
        images.append(files.get(photo or "") if files else values[row])
    seen = set(photos)
    new: dict[str, Sequence[object]] = {"image": images, "references": listed}
    return new, faults, [photo for photo in texts if photo not in seen], matched.notes


def photo_columns(columns: Sequence[str]) -> list[str]:
    """All columns that may name photos."""
    return named_columns((*FAMILIAR["image"], *OTHER_NAMES["image"], "question_id"), columns)


def photo_cells(chunk: Chunk, column: str | None, others: Sequence[str]) -> list[object]:
    """Name of the photo of each row; in another column where a cell holds the bytes of a photo alone."""
    names = [*map(_without_bytes, chunk.values(column))]
    if column is None or None not in names:
        return names
    for other in others:
        cells = chunk.values(other)
        for row, name in enumerate(names):
            if name is None and isinstance(cells[row], str):
                names[row] = cells[row]
    return names


def _without_bytes(value: object) -> object:
    """A cell without the photo it may hold."""
    if isinstance(value, dict):
        return value.get("path")
    return None if isinstance(value, bytes) else value


class _Columns(NamedTuple):
    candidates: list[str]
    images: list[Any] | None
    references: list[list[str]] | None
    languages: list[str | None] | None


class Rows(_Columns):
    """Rows as `Scorer.score` takes them, so that `scorer.score(*read_rows(…))` scores them.

    Attributes:
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
    path: Files,
    *,
    references: Files | None = None,
    images: str | Path | None = None,
    split: str | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Rows:
    """Read captions of photos from any file that `capscore score` reads, to score them in Python.

    Args:
        path: File or folder; docs/scoring.md lists what can be read. Several files, or a pattern such as
            `corpus-*.tar`, are one input.
        references: File of the references, or several; None for those of the rows themselves.
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
        for row in range(len(chunk)):
            known = inputs.problems.get(row)
            if (known is None or known.field == "image") and (odd := odd_cell(inputs, row)):
                inputs.problems[row] = odd
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


def are_files(rows: object) -> TypeGuard[Files]:
    """Whether rows are in files: a path, or a list of paths, and not a list of dicts.

    >>> are_files("a.json"), are_files(["a.tar", "b.tar"]), are_files([{"caption": "a dog"}]), are_files([])
    (True, True, False, False)
    """
    listed = rows if isinstance(rows, list | tuple) and rows else [rows]
    return all(isinstance(item, str | Path) for item in listed)


def open_with_references(path: Files, options: RowOptions = RowOptions()) -> RowSource:
    """Open a file of rows, with those of `options.references`; a split is of each file that has splits."""
    if options.references is None:
        return open_rows(path, options)
    found = read_references(options.references, options)
    return with_references(open_rows(path, options, needs_split=not found.has_splits), found, options)


def describe_file(
    path: Files, options: RowOptions = RowOptions(), spell: Callable[[Setting], str] = str
) -> Iterator[Description]:
    """Descriptions of a file; with `options.references`, of that file and of both together."""
    if options.references is None:
        yield describe(open_rows(path, options), options, spell)
        return
    alone = replace(options, references=None, references_column=None)
    yield describe(open_rows(path, alone, needs_split=False), alone, spell, looks_for_photos=False)
    files = listed_files(options.references)
    for file in files:
        of_references = RowOptions(on_error=options.on_error, references_column=options.references_column)
        source = open_rows(file, options, needs_split=False, lists_are_rows=False)
        yield describe(source, of_references, spell, looks_for_photos=False, of_references=True)
    together = describe(open_with_references(path, options), options, spell)
    together.format += f", with the references of {', '.join(map(str, files))}"
    yield together
