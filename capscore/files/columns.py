"""Finds the columns of captions, images, references and languages, and reads them for a scorer.

What is wrong with a cell is reported row by row.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
) -> ColumnNames:
    """Find the columns of a file by familiar names.

    Args:
        columns: Names of all columns.
        options: Names of columns that are called something unfamiliar. Where it states a language of all
            rows, a column of languages is not read.
        with_images, with_references: Whether such a column is needed.

    Raises:
        InputError: A column is missing, or several could be meant.

    >>> find_columns(["img", "hyp", "reference_1", "reference_2"], with_references=True)
    ColumnNames(image='img', candidate='hyp', references=('reference_1', 'reference_2'), language=None)
    """
    image, candidate, references = options.image_column, options.candidate_column, options.references_column
    images = _find("image", image, columns, required=True) if with_images else (None,)
    candidates = _find("candidate", candidate, columns, required=True)
    texts = _find("references", references, columns, required=True) if with_references else ()
    languages: tuple[str, ...] = ()
    if options.language is None:
        languages = _find("language", options.language_column, columns, required=False)
    notes = tuple(
        f"the column {name!r} is read as the {what}, by its name"
        for what, name in (("image", images[0]), ("candidate", candidates[0]))
        if name in (*OTHER_NAMES[what], "question_id") and name not in (image, candidate)
    )
    if texts == ("answer",) and not references:
        notes += ("the column 'answer' is read as the references, beside " + repr(candidates[0]),)
    return ColumnNames(images[0], candidates[0], texts, next(iter(languages), None), notes)


def columns_of(
    source: RowSource,
    options: RowOptions = RowOptions(),
    *,
    with_images: bool = True,
    with_references: bool = False,
) -> ColumnNames:
    """`find_columns` of a file, whose first row the error shows."""
    with _first_row_shown(source):
        return find_columns(source.columns, options, with_images=with_images, with_references=with_references)


def candidate_column_of(source: RowSource) -> str:
    """Name of the column of captions; errors as in `columns_of`."""
    with _first_row_shown(source):
        return _find("candidate", None, source.columns, required=True)[0]


@contextmanager
def _first_row_shown(source: RowSource) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        (first,) = next(iter(source.chunks(1))).dicts()
        raise InputError(*error.parts, f"; the first row is {first!r:.120}") from None


def find_image_column(columns: Sequence[str], given: str | None = None) -> str | None:
    """Name of the column of images, None if no column is known to hold them; errors as in `find_columns`.

    >>> find_image_column(["img", "hyp"]), find_image_column(["hyp"])
    ('img', None)
    """
    return next(iter(_find("image", given, columns, required=False)), None)


def find_reference_columns(columns: Sequence[str], given: str | None = None) -> tuple[str, ...]:
    """Names of the columns of references, () if none is known to hold them; errors as in `find_columns`.

    >>> find_reference_columns(["caption", "reference_2", "reference_1"])
    ('reference_1', 'reference_2')
    """
    return _find("references", given, columns, required=False)


def _find(what: str, given: str | None, columns: Sequence[str], *, required: bool) -> tuple[str, ...]:
    option = f"{what}_column"
    if given is not None:
        check_column(option, given, columns)
        return (given,)
    groups: list[tuple[str, ...]] = [(name,) for name in FAMILIAR[what] if name in columns]
    if what == "references":
        numbered = [match for name in columns if (match := NUMBERED.fullmatch(name))]
        # by numbers, which may have more digits than Python converts
        numbered.sort(key=lambda match: (len(match[1].lstrip("0")), match[1].lstrip("0")))
        groups += [tuple(match[0] for match in numbered)] if numbered else []
        # what a caption is compared with, where the caption is in a column of its own (VLMEvalKit)
        if not groups and "answer" in columns and not {*FAMILIAR["candidate"]}.isdisjoint(columns):
            groups = [("answer",)]
    if not groups:
        groups += [(name,) for name in OTHER_NAMES.get(what, ()) if name in columns]
    if what == "image" and not groups:  # an id is the name of a file only where nothing else is
        groups += [(name,) for name in ("image_id", "question_id") if name in columns][:1]
    if len(groups) > 1:
        names = " and ".join(", ".join(group) for group in groups)
        raise InputError(Setting(option), f": the columns {names} could each be meant; choose one")
    if groups or not required:
        return groups[0] if groups else ()
    more = ", or reference_1, reference_2, …" if what == "references" else ""
    raise InputError(
        Setting(option),
        f": no column seems to hold it; found {_listed(columns)}; expected one named "
        f"{', '.join(FAMILIAR[what])}{more}",
    )


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
    image = None if folder is None else names.image
    needed = {
        "candidate": (names.candidate,),
        "image": (image,) * bool(image),
        "references": names.references,
    }
    for row, cells in enumerate(chunk.rows or ()):
        for field, columns in needed.items():
            if row not in problems and columns and not any(name in cells for name in columns):
                message = f"the row has no {columns[0]!r}; it has {_listed([*cells])}"
                problems[row] = InputError(message, field=field)
    candidates: Sequence[Any] = chunk.values(names.candidate)
    if candidates_are_photos and folder is not None:
        candidates = find_images(chunk, names.candidate, folder, problems, field="candidate")
    images = None if image is None or folder is None else find_images(chunk, image, folder, problems)
    references: list[Any] | None = None
    if len(names.references) > 1 or (names.references and NUMBERED.fullmatch(names.references[0])):
        texts = zip(*(chunk.values(name) for name in names.references), strict=True)
        references = [[text for text in row if not is_missing(text)] for row in texts]
    elif names.references:
        references = chunk.values(names.references[0])
        for row, cell in enumerate(references):
            if source.cells_are_text or _is_written_list(cell):
                references[row] = _from_cell(cell, row, problems)
            elif isinstance(cell, str):
                references[row] = [cell]
    languages = None
    if names.language is not None:
        languages = [None if is_missing(tag) else tag for tag in chunk.values(names.language)]
    return ChunkInputs(candidates, images, references, languages, problems)


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, "", NaN or pandas' NA."""
    # pandas may not be installed, so its NA is known by the name of its type
    if value is None or type(value).__name__ == "NAType":
        return True
    return math.isnan(value) if isinstance(value, float) else isinstance(value, str) and not value


def number_in(cell: Any) -> float:
    """The number in a cell: NaN if the cell is empty, infinite if it holds anything but a finite number.

    >>> number_in("0.5"), number_in(""), number_in("good"), number_in(True)
    (0.5, nan, inf, inf)
    """
    if is_missing(cell):
        return math.nan
    try:
        return math.inf if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.inf


def read_numbers(source: RowSource, column: str) -> list[float]:
    """The numbers of a column, NaN where a cell is empty.

    Raises:
        InputError: a cell holds anything but a finite number; names its row.
    """
    (cells,) = source.cells(column)
    numbers = list(map(number_in, cells))
    for row, number in enumerate(numbers):
        if math.isinf(number):
            problem = f"the column {column!r} holds {cells[row]!r:.40}; expected a finite number"
            raise source.at_row(InputError(problem), row)
    return numbers


def _is_written_list(cell: Any) -> bool:
    return isinstance(cell, str) and (cell[:1], cell[-1:]) == ("[", "]")


def _from_cell(text: str | None, row: int, problems: dict[int, InputError]) -> Any:
    """References of a text cell: a list of JSON, or as pandas writes it, or one reference as it is."""
    if not text or not text.strip():
        return None
    if not text.lstrip().startswith("["):
        return [text]
    try:
        references = json.loads(text)
    except (ValueError, RecursionError):  # ValueError: also a number of too many digits
        references = None
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            found = ast.literal_eval(text)
            # what Python does not write so, such as ['a' 'b'] of NumPy, it reads as something else
            references = found if str(found) == text.strip() else None
    if isinstance(references, list):
        return references
    problem = (
        f'the cell holds {text!r:.60}; expected a JSON list such as ["A cat.", "A small cat."], or one '
        "column per reference: reference_1, reference_2, …"
    )
    problems.setdefault(row, InputError(problem, field="references"))
    return None
