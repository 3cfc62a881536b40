"""Finds the columns of captions, images, references and languages, and reads them for a scorer.

What is wrong with a cell is reported row by row.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, NamedTuple

from ..errors import InputError, Setting
from ..options import RowOptions
from .image_folder import ImageFolder, find_images
from .row_source import Chunk, RowSource

# names that a column is recognized by; the first is the one that capscore writes
FAMILIAR = {
    "image": ("image", "image_path", "file_name", "img"),
    "candidate": ("caption", "candidate", "prediction", "hyp", "cand"),
    "references": ("references", "refs", "reference"),
    "language": ("language", "lang"),
}
# names that other programs use, each taken, and said, where one alone is there and no familiar one
OTHER_NAMES = {
    "image": ("filename", "image_name", "image_file", "img_path", "photo"),
    "candidate": ("text", "response", "output", "answer", "generated_text", "hypothesis", "comment", "pred"),
}
NUMBERED = re.compile(r"reference_?([0-9]+)")


@dataclass(frozen=True)
class ColumnNames:
    """Names of the columns to read.

    Attributes:
        image: Column of images or their names; None if images are not read.
        candidate: Column of the captions to score.
        references: One column with a list per row, or several with one reference each; () if references are
            not read.
        language: Column of language codes, or None.
        notes: Sentences about columns that are taken by a name that is less familiar.
    """

    image: str | None
    candidate: str
    references: tuple[str, ...] = ()
    language: str | None = None
    notes: tuple[str, ...] = dataclass_field(default=(), compare=False, repr=False)


def find_columns(
    columns: Sequence[str],
    options: RowOptions = RowOptions(),
    *,
    with_images: bool = True,
    with_references: bool = False,
    with_language: bool = True,
) -> ColumnNames:
    """Find the columns of a file by familiar names.

    Args:
        columns: Names of all columns.
        options: Names of columns that are called something unfamiliar. Where it states a language of all
            rows, a column of languages is not read.
        with_images, with_references: Whether such a column is needed.
        with_language: Whether a column of languages is read, where there is one.

    Raises:
        InputError: A column is missing, or several could be meant.

    >>> find_columns(["img", "hyp", "reference_1", "reference_2"], with_references=True)
    ColumnNames(image='img', candidate='hyp', references=('reference_1', 'reference_2'), language=None)
    """
    image: str | None = None
    references: tuple[str, ...] = ()
    language = None
    if with_images:
        image = _find("image", options.image_column, columns, required=True)[0]
    candidate = _find("candidate", options.candidate_column, columns, required=True)[0]
    if with_references:
        references = _find("references", options.references_column, columns, required=True)
    if with_language and options.language is None:
        language = next(iter(_find("language", options.language_column, columns)), None)
    notes = []
    unread = find_language_column(columns)
    if with_language and options.language is not None and unread is not None:
        stated = f"the language {options.language} is taken for every row"
        notes.append(f"{stated}; the column {unread!r} is not read")
    for what, name in (("image", image), ("candidate", candidate)):
        is_given = name in (options.image_column, options.candidate_column)
        if not is_given and name in (*OTHER_NAMES[what], "question_id"):
            notes.append(f"the column {name!r} is read as the {what}, by its name")
    if references == ("answer",) and options.references_column is None:
        notes.append(f"the column 'answer' is read as the references, beside {candidate!r}")
    return ColumnNames(image, candidate, references, language, tuple(notes))


def columns_of(source: RowSource, options: RowOptions = RowOptions(), **needed: bool) -> ColumnNames:
    """`find_columns` of a file, whose first row the error shows."""
    try:
        return find_columns(source.columns, options, **needed)
    except InputError as error:
        (first,) = next(iter(source.chunks(1))).dicts()
        raise InputError(*error.parts, f"; the first row is {first!r:.120}") from None


def find_image_column(columns: Sequence[str], given: str | None = None) -> str | None:
    """Name of the column of images, None if no column is known to hold them; errors as in `find_columns`.

    >>> find_image_column(["img", "hyp"]), find_image_column(["hyp"])
    ('img', None)
    """
    return next(iter(_find("image", given, columns)), None)


def find_reference_columns(columns: Sequence[str], given: str | None = None) -> tuple[str, ...]:
    """Names of the columns of references, () if none is known to hold them; errors as in `find_columns`.

    >>> find_reference_columns(["caption", "reference_2", "reference_1"])
    ('reference_1', 'reference_2')
    """
    return _find("references", given, columns)


def _find(what: str, given: str | None, columns: Sequence[str], *, required: bool = False) -> tuple[str, ...]:
    option = f"{what}_column"
    if given is not None:
        check_column(option, given, columns)
        return (given,)
    groups = _groups(what, columns)
    if len(groups) > 1:
        names = " and ".join(map(", ".join, groups))
        raise InputError(Setting(option), f": the columns {names} could each be meant; choose one")
    if groups:
        return groups[0]
    if not required:
        return ()
    expected = ", ".join(FAMILIAR[what])
    if what == "references":
        expected += ", or reference_1, reference_2, …"
    message = f": no column seems to hold it; found {_listed(columns)}; expected one named {expected}"
    raise InputError(Setting(option), message)


def _groups(what: str, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Columns that could each be meant; numbered references are one."""
    names = [name for name in FAMILIAR[what] if name in columns]
    if what == "references":
        return [(name,) for name in names] + _groups_of_references(columns, bool(names))
    if not names:
        names = [name for name in OTHER_NAMES.get(what, ()) if name in columns]
    if what == "image" and not names:  # an id is the name of a file only where nothing else is
        names = [name for name in ("image_id", "question_id") if name in columns][:1]
    return [(name,) for name in names]


def _groups_of_references(columns: Sequence[str], has_others: bool) -> list[tuple[str, ...]]:
    numbers = {}
    for name in columns:
        if match := NUMBERED.fullmatch(name):
            numbers[name] = match[1].lstrip("0")
    if numbers:  # by number, which may have more digits than Python converts
        return [tuple(sorted(numbers, key=lambda name: (len(numbers[name]), numbers[name])))]
    # what a caption is compared with, where the caption is in a column of its own (VLMEvalKit)
    if not has_others and "answer" in columns and not {*FAMILIAR["candidate"]}.isdisjoint(columns):
        return [("answer",)]
    return []


def find_language_column(columns: Sequence[str]) -> str | None:
    """Name of the first column that is known to hold languages, None if there is none."""
    return next((name for name in FAMILIAR["language"] if name in columns), None)


def check_column(option: str, given: str, columns: Sequence[str], where: str = "") -> None:
    """Raise InputError if a column that an option names does not exist."""
    if given not in columns:
        found = f"found {_listed(columns)}{where}"
        raise InputError(Setting(option, given), f": there is no such column; {found}")


def _listed(columns: Sequence[str]) -> str:
    more = f" and {len(columns) - 20} more" if len(columns) > 20 else ""
    return (", ".join(f"{name!r:.40}" for name in columns[:20]) or "none") + more


class ChunkInputs(NamedTuple):
    """Cells of a chunk as a scorer takes them.

    Attributes:
        problems: Error of each row of the chunk that is known to be wrong before scoring.
    """

    candidates: Sequence[Any]
    images: Sequence[Any] | None
    references: list[Any] | None
    languages: list[Any] | None
    problems: dict[int, InputError]


def read_inputs(
    chunk: Chunk,
    source: RowSource,
    names: ColumnNames,
    folder: ImageFolder | None,
    *,
    candidates_are_photos: bool = False,
) -> ChunkInputs:
    """Cells of a chunk as a scorer takes them; no images if `folder` is None."""
    problems = source.problems(chunk)
    needed = [("candidate", (names.candidate,)), ("references", names.references)]
    if folder is not None and names.image is not None:
        needed.insert(1, ("image", (names.image,)))
    for row, cells in enumerate(chunk.rows or ()):
        for what, columns in needed:
            if row not in problems and columns and cells.keys().isdisjoint(columns):
                message = f"the row has no {columns[0]!r}; it has {_listed([*cells])}"
                problems[row] = InputError(message, field=what)
    candidates: Sequence[Any] = chunk.values(names.candidate)
    images: Sequence[Any] | None = None
    if folder is not None:
        if candidates_are_photos:
            candidates = find_images(chunk, names.candidate, folder, problems, field="candidate")
        if names.image is not None:
            images = find_images(chunk, names.image, folder, problems)
    references = _references(chunk, names.references, source.cells_are_text, problems)
    languages = None
    if names.language is not None:
        languages = [None if is_missing(tag) else tag for tag in chunk.values(names.language)]
    return ChunkInputs(candidates, images, references, languages, problems)


def _references(
    chunk: Chunk, columns: Sequence[str], cells_are_text: bool, problems: dict[int, InputError]
) -> list[Any] | None:
    if not columns:
        return None
    if len(columns) > 1 or NUMBERED.fullmatch(columns[0]):
        references: list[Any] = [[] for _ in range(len(chunk))]
        for name in columns:
            for texts, text in zip(references, chunk.values(name), strict=True):
                if not is_missing(text):
                    texts.append(text)
        return references
    references = chunk.values(columns[0])
    for row, cell in enumerate(references):
        if cells_are_text or (isinstance(cell, str) and (cell[:1], cell[-1:]) == ("[", "]")):
            references[row] = _from_cell(cell, row, problems)
        elif isinstance(cell, str):
            references[row] = [cell]
    return references


def is_missing(value: object) -> bool:
    """Whether a cell is empty: None, "", NaN or pandas' NA."""
    # pandas may not be installed, so its NA is known by the name of its type
    if value is None or type(value).__name__ == "NAType":
        return True
    if isinstance(value, float):
        return math.isnan(value)
    return isinstance(value, str) and not value


def number_in(cell: Any) -> float:
    """The number in a cell: NaN if the cell is empty, infinite if it holds anything but a finite number.

    >>> number_in("0.5"), number_in(""), number_in("good"), number_in(True)
    (0.5, nan, inf, inf)
    """
    if is_missing(cell):
        return math.nan
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(cell, bool):
            return float(cell)
    return math.inf


def read_numbers(source: RowSource, *columns: str) -> list[list[float]]:
    """The numbers of each column, NaN where a cell is empty.

    Raises:
        InputError: a cell holds anything but a finite number; names its row.
    """
    found = []
    for column, cells in zip(columns, source.cells(*columns), strict=True):
        found.append(list(map(number_in, cells)))
        for row, number in enumerate(found[-1]):
            if math.isinf(number):
                problem = f"the column {column!r} holds {cells[row]!r:.40}; expected a finite number"
                raise source.at_row(InputError(problem), row)
    return found


def _from_cell(text: str | None, row: int, problems: dict[int, InputError]) -> list[Any] | None:
    """References of a text cell: a list of JSON, or as pandas writes it, or one reference as it is."""
    if not text or not text.strip():
        return None
    if not text.lstrip().startswith("["):
        return [text]
    references = _written_list(text)
    if references is None:
        problem = (
            f'the cell holds {text!r:.60}; expected a JSON list such as ["A cat.", "A small cat."], or one '
            "column per reference: reference_1, reference_2, …"
        )
        problems.setdefault(row, InputError(problem, field="references"))
    return references


def _written_list(text: str) -> list[Any] | None:
    found = None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # ValueError: also a number of too many digits
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            found = ast.literal_eval(text)
            if str(found) != text.strip():  # such as ['a' 'b'] of NumPy, which Python reads as ['ab']
                return None
    return found if isinstance(found, list) else None
