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
from itertools import chain
from typing import Any, NamedTuple

from ..errors import InputError, Setting
from ..options import RowOptions
from ..registry import LAYOUTS
from ..text.languages import language_code
from ..text.suspicious import is_empty, reference_list, text_problem
from .image_folder import ImageFolder, find_images
from .row_source import Chunk, RowSource, layout_error

# names that a column is recognized by, in any case; the first is the one that capscore writes
FAMILIAR = {
    "image": ("image", "image_path", "file_name", "img"),
    "candidate": ("caption", "candidate", "prediction", "hyp", "cand"),
    "references": ("references", "refs", "reference"),
    "language": ("language", "lang"),
}
# names that other programs use, each taken, and said, where one alone is there and no familiar one
OTHER_NAMES = {
    "image": ("filename", "image_name", "image_file", "img_path", "photo", "images"),
    "candidate": (
        *("text", "response", "output", "answer", "generated_text", "hypothesis", "comment", "pred"),
        *("description", "predictions", "candidates", "captions", "preds", "cands", "hyps", "report"),
    ),
}
# names of photos that are no names of files, where nothing else names them
IDS = ("image_id", "question_id", "video_id")
_ALL_NAMES = tuple(chain(IDS, *FAMILIAR.values(), *OTHER_NAMES.values()))
NUMBERED = re.compile(r"\s*reference[_ ]?([0-9]+)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnNames:
    """Names of the columns to read.

    Attributes:
        references: One column with a list per row, or several with one reference each; () if references are
            not read.
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
        is_given = getattr(options, f"{what}_column") is not None
        if name is not None and not is_given and plain_name(name) not in (*FAMILIAR[what], "image_id"):
            notes.append(f"the column {name!r} is read as the {what}, by its name")
    for name in references:
        is_known = plain_name(name) in FAMILIAR["references"] or NUMBERED.fullmatch(name)
        if not is_known and options.references_column is None:
            notes.append(f"the column {name!r} is read as the references, beside {candidate!r}")
    return ColumnNames(image, candidate, references, language, tuple(notes))


def plain_name(name: str) -> str:
    """What names of columns are compared by: neither case nor outer blanks count."""
    return name.strip().casefold()


def named_columns(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns of some names, in the order of the names."""
    known: dict[str, list[str]] = {}
    for column in columns:
        known.setdefault(plain_name(column), []).append(column)
    found: list[str] = []
    for name in names:
        found += known.get(name, ())
    return found


def find_id_column(columns: Sequence[str]) -> str | None:
    return next(iter(named_columns(("image_id", "video_id", "question_id"), columns)), None)


def find_candidate_column(columns: Sequence[str], given: str | None = None) -> str | None:
    """Name of the column of captions, None if none or several could be meant."""
    with suppress(InputError):
        return next(iter(_find("candidate", given, columns)), None)
    return None


def columns_of(source: RowSource, options: RowOptions = RowOptions(), **needed: bool) -> ColumnNames:
    """`find_columns` of a file, whose first row the error shows."""
    try:
        return find_columns(source.columns, options, **needed)
    except InputError as error:
        (first,) = next(iter(source.chunks(1))).dicts()
        hint = ""
        if source.cells_are_text and not named_columns(_ALL_NAMES, source.columns):
            hint = "; if the first line holds a row, write the names of the columns above it: image,caption"
        raise layout_error(source.path, *error.parts, f"; the first row is {first!r:.120}{hint}") from None


def find_image_column(columns: Sequence[str], given: str | None = None) -> str | None:
    """Name of the column of images, None if no column is known to hold them; errors as in `find_columns`."""
    return next(iter(_find("image", given, columns)), None)


def find_reference_columns(columns: Sequence[str], given: str | None = None) -> tuple[str, ...]:
    """Names of the columns of references, () if none is known to hold them; errors as in `find_columns`."""
    return _find("references", given, columns)


def _find(what: str, given: str | None, columns: Sequence[str], *, required: bool = False) -> tuple[str, ...]:
    option = f"{what}_column"
    if given is not None:
        return (check_column(option, given, columns),)
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
    groups: list[tuple[str, ...]] = [(name,) for name in named_columns(FAMILIAR[what], columns)]
    if what == "references":
        numbers = {}
        for name in columns:
            if match := NUMBERED.fullmatch(name):
                numbers[name] = match[1].lstrip("0")
        if numbers:  # by number, which may have more digits than Python converts
            groups.append(tuple(sorted(numbers, key=lambda name: (len(numbers[name]), numbers[name]))))
    if len(groups) == 1:
        return groups
    of_layouts: list[tuple[str, ...]] = [(name,) for name in _columns_of_layouts(what, columns)]
    if groups:  # a layout may say which of them it is
        return of_layouts or groups
    others: list[tuple[str, ...]] = [(name,) for name in named_columns(OTHER_NAMES.get(what, ()), columns)]
    groups = [*dict.fromkeys([*of_layouts, *others])]
    if what == "references" and not groups and named_columns(FAMILIAR["candidate"], columns):
        # what a caption is compared with, where the caption is in a column of its own (VLMEvalKit)
        return [(name,) for name in named_columns(("answer",), columns)]
    if what == "image":  # an id is the name of a file only where nothing else is
        names_of_files = [group for group in groups if plain_name(group[0]) != "id"]
        by_id: list[tuple[str, ...]] = [(name,) for name in named_columns(IDS, columns)]
        return names_of_files or by_id[:1] or groups
    return groups


def _columns_of_layouts(what: str, columns: Sequence[str]) -> list[str]:
    """What layouts of tools, all of whose columns are there, call such a column."""
    found: list[str] = []
    there = {plain_name(name) for name in columns}
    for layout in LAYOUTS.all().values():
        names = getattr(layout, "columns", {})
        if what in names and there.issuperset((*names.values(), *layout.marks)):
            found += named_columns([names[what]], columns)
    return [*dict.fromkeys(found)]


def find_language_column(columns: Sequence[str]) -> str | None:
    """Name of the first column that is known to hold languages, None if there is none."""
    return next(iter(named_columns(FAMILIAR["language"], columns)), None)


def check_column(option: str, given: str, columns: Sequence[str], where: str = "") -> str:
    """The column that an option names, in any case and with any outer blanks; InputError if there is none."""
    if given in columns:
        return given
    found = named_columns([plain_name(given)], columns)
    if len(found) == 1:
        return found[0]
    problem = "there is no such column"
    if found:
        problem = f"the columns {_listed(found)} could each be meant"
    raise InputError(Setting(option, given), f": {problem}; found {_listed(columns)}{where}")


def _listed(columns: Sequence[str]) -> str:
    more = f" and {len(columns) - 20} more" if len(columns) > 20 else ""
    return (", ".join(f"{name!r:.40}" for name in columns[:20]) or "none") + more


class ChunkInputs(NamedTuple):
    """Cells of a chunk as a scorer takes them."""

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
        lists: list[list[object]] = [[] for _ in range(len(chunk))]
        for name in columns:
            for texts, text in zip(lists, chunk.values(name), strict=True):
                if not is_missing(text):
                    texts.append(text)
        return lists
    references = chunk.values(columns[0])
    for row, cell in enumerate(references):
        if cells_are_text or (isinstance(cell, str) and (cell[:1], cell[-1:]) == ("[", "]")):
            references[row] = _from_cell(cell, row, problems)
        elif isinstance(cell, str):
            references[row] = [cell]
    return references


def odd_cell(inputs: ChunkInputs, row: int) -> InputError | None:
    """The error of a row whose candidate, references or language are such as no metric scores."""
    problem = text_problem(inputs.candidates[row])
    if problem and not is_empty(inputs.candidates[row]):  # an empty caption is scored
        return InputError(f"expected a caption, got {problem}", field="candidate")
    try:
        if inputs.references is not None:
            reference_list(inputs.references[row], may_be_empty=True)
        if inputs.languages is not None and inputs.languages[row] is not None:
            language_code(inputs.languages[row])
    except InputError as error:
        return error
    return None


def is_missing(value: object) -> bool:
    """Whether a cell is empty: None, "", NaN or pandas' NA."""
    # pandas may not be installed, so its NA and NaT are known by the names of their types
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, float):
        return math.isnan(value)
    return isinstance(value, str) and not value


def number_in(cell: Any) -> float:
    """The number in a cell: NaN if the cell is empty, infinite if it holds anything but a finite number."""
    if is_missing(cell):
        return math.nan
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(cell, bool):
            return float(cell)
    return math.inf


def read_numbers(source: RowSource, *columns: str) -> list[list[float]]:
    found = []
    for column, cells in zip(columns, source.cells(*columns), strict=True):
        found.append(list(map(number_in, cells)))
        for row, number in enumerate(found[-1]):
            if math.isinf(number):
                problem = f"the column {column!r} holds {cells[row]!r:.40}; expected a finite number"
                raise source.at_row(InputError(problem), row)
    return found


def _from_cell(text: str | None, row: int, problems: dict[int, InputError]) -> list[object] | None:
    """References of a text cell: a list of JSON, or as pandas writes it, or one reference as it is."""
    if not text or not text.strip():
        return None
    if not text.lstrip().startswith("["):
        return [text]
    references = written_list(text)
    if references is None:
        problem = (
            f'the cell holds {text!r:.60}; expected a JSON list such as ["A cat.", "A small cat."], or one '
            "column per reference: reference_1, reference_2, …"
        )
        problems.setdefault(row, InputError(problem, field="references"))
    return references


def written_list(text: str) -> list[object] | None:
    """The list that JSON or Python wrote as a text; None for any other text."""
    found = None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # ValueError: also a number of too many digits
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            found = ast.literal_eval(text)
            if str(found) != text.strip():  # such as ['a' 'b'] of NumPy, which Python reads as ['ab']
                return None
    return found if isinstance(found, list) else None
