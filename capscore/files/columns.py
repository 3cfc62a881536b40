"""Finds the columns of captions, images, references and languages, and reads them for a scorer.

What is wrong with a cell is reported row by row.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, Part, Setting
from .image_folder import ImageFolder, find_images
from .row_source import Chunk, RowSource

# names that a column is recognized by; the first is the one that capscore writes
FAMILIAR = {
    "image": ("image", "image_path", "file_name", "img"),
    "candidate": ("caption", "candidate", "prediction", "hyp", "cand"),
    "references": ("references", "refs"),
    "language": ("language", "lang"),
}
# names that often mean something else: not taken, but suggested where no familiar name is found
ALIKE = {
    "image": ("image_file", "filename", "filepath", "path", "photo", "picture", "url"),
    "candidate": ("text", "sentence", "description", "hypothesis", "output", "generated"),
    "references": ("gts", "ground_truth", "targets"),
    "language": ("locale",),
}
_MOST_ALIKE = 1000  # columns among which a similar name is searched
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
    """

    image: str | None
    candidate: str
    references: tuple[str, ...] = ()
    language: str | None = None


def find_columns(
    columns: Sequence[str],
    *,
    image: str | None = None,
    candidate: str | None = None,
    references: str | None = None,
    language: str | None = None,
    with_images: bool = True,
    with_references: bool = False,
    with_language: bool = True,
) -> ColumnNames:
    """Find the columns of a file by familiar names.

    Args:
        columns: Names of all columns.
        image, candidate, references, language: Names of columns that are called something unfamiliar.
        with_images, with_references, with_language: Whether such a column is needed.

    Raises:
        InputError: A column is missing, or several could be meant.

    >>> find_columns(["img", "hyp", "reference_1", "reference_2"], with_references=True)
    ColumnNames(image='img', candidate='hyp', references=('reference_1', 'reference_2'), language=None)
    """
    found = {
        "image": _find("image", image, columns, required=True) if with_images else (),
        "candidate": _find("candidate", candidate, columns, required=True),
        "references": _find("references", references, columns, required=True) if with_references else (),
        "language": _find("language", language, columns, required=False) if with_language else (),
    }
    return ColumnNames(
        image=found["image"][0] if found["image"] else None,
        candidate=found["candidate"][0],
        references=found["references"],
        language=found["language"][0] if found["language"] else None,
    )


def find_image_column(columns: Sequence[str], given: str | None = None) -> str | None:
    """Name of the column of images, or None if no column is known to hold them.

    Raises:
        InputError: The given column does not exist, or several could be meant.

    >>> find_image_column(["img", "hyp"]), find_image_column(["hyp"])
    ('img', None)
    """
    return next(iter(_find("image", given, columns, required=False)), None)


def find_reference_columns(columns: Sequence[str], given: str | None = None) -> tuple[str, ...]:
    """Names of the columns of references; () if no column is known to hold them.

    Raises:
        InputError: The given column does not exist, or several could be meant.

    >>> find_reference_columns(["caption", "reference_2", "reference_1"])
    ('reference_1', 'reference_2')
    """
    return _find("references", given, columns, required=False)


def _find(field: str, given: str | None, columns: Sequence[str], *, required: bool) -> tuple[str, ...]:
    option = f"{field}_column"
    if given is not None:
        check_column(option, given, columns)
        return (given,)
    groups: list[tuple[str, ...]] = [(name,) for name in FAMILIAR[field] if name in columns]
    if field == "references":
        found = [match for name in columns if (match := NUMBERED.fullmatch(name))]
        numbered = tuple(match[0] for match in sorted(found, key=_number))
        groups += [numbered] if numbered else []
    if len(groups) > 1:
        names = " and ".join(", ".join(group) for group in groups)
        raise InputError(
            Setting(option), f": the columns {names} could each hold the {_what(field)}; choose one"
        )
    if groups:
        return groups[0]
    alike = _alike(field, [name for name in columns if name != "image_id"])
    if field == "image" and "image_id" in columns and alike is None:
        return ("image_id",)  # an id is the name of a file only where nothing else is
    if not required:
        return ()
    expected = ", ".join(FAMILIAR[field]) + (
        ", or reference_1, reference_2, …" if field == "references" else ""
    )
    hint: list[Part] = ["; did you mean ", Setting(option, alike), "?"] if alike else []
    raise InputError(
        Setting(option),
        f": no column seems to hold the {_what(field)}; found {_listed(columns)}; "
        f"expected one named {expected}",
        *hint,
    )


def _number(match: re.Match[str]) -> tuple[int, str]:
    """Sorts names by their numbers, which may have more digits than Python converts."""
    digits = match[1].lstrip("0")
    return len(digits), digits


def unread_language(columns: Sequence[str], language: str | None) -> str | None:
    """Column of languages that is not read because one language is stated for all rows."""
    return (
        None if language is None else next((name for name in FAMILIAR["language"] if name in columns), None)
    )


def check_column(option: str, given: str, columns: Sequence[str]) -> None:
    """Raise InputError if a column that an option names does not exist."""
    if given not in columns:
        near = difflib.get_close_matches(given[:100], columns[:_MOST_ALIKE], n=1, cutoff=0.6)
        hint: list[Part] = ["; did you mean ", Setting(option, near[0]), "?"] if near else []
        raise InputError(
            Setting(option, given), f": there is no such column; found {_listed(columns)}", *hint
        )


def _alike(field: str, columns: Sequence[str]) -> str | None:
    familiar = {name: other for other, names in FAMILIAR.items() for name in names}
    # of very many or very long names none is meant, and comparing them would take minutes
    free = [name for name in columns[:_MOST_ALIKE] if name not in familiar and len(name) <= 100]
    folded = {name.casefold().replace(" ", "_").replace("-", "_"): name for name in reversed(free)}
    for word in (*FAMILIAR[field], *ALIKE[field]):
        near = difflib.get_close_matches(word, folded, n=1, cutoff=0.75)
        if near:
            return folded[near[0]]
    return None


def _what(field: str) -> str:
    return {"image": "images", "candidate": "captions to score", "language": "languages"}.get(field, field)


def _listed(columns: Sequence[str]) -> str:
    if not columns:
        return "no columns"
    names = ", ".join(f"{name!r:.40}" for name in columns[:20])
    more = f" and {len(columns) - 20} more" if len(columns) > 20 else ""
    return f"the column{'s' if len(columns) > 1 else ''} {names}{more}"


@dataclass(frozen=True)
class ChunkInputs:
    """Cells of a chunk as a scorer takes them.

    Attributes:
        problems: Error of each row of the chunk that is known to be wrong before scoring.
    """

    candidates: list[Any]
    images: Sequence[Any] | None
    references: list[Any] | None
    languages: list[Any] | None
    problems: dict[int, InputError]


def read_inputs(chunk: Chunk, source: RowSource, names: ColumnNames, folder: ImageFolder) -> ChunkInputs:
    """Cells of a chunk as a scorer takes them."""
    problems = known_problems(chunk, source, names)
    images = None if names.image is None else find_images(chunk, names.image, folder, problems)
    references: list[Any] | None = None
    if len(names.references) > 1 or (names.references and NUMBERED.fullmatch(names.references[0])):
        cells = zip(*(chunk.values(name) for name in names.references), strict=True)
        references = [[text for text in texts if not is_missing(text)] for texts in cells]
    elif names.references:
        values = chunk.values(names.references[0])
        if source.cells_are_text:
            values = [_from_cell(text, row, problems) for row, text in enumerate(values)]
        references = values
    languages = None
    if names.language is not None:
        languages = [None if is_missing(tag) else tag for tag in chunk.values(names.language)]
    return ChunkInputs(chunk.values(names.candidate), images, references, languages, problems)


def known_problems(chunk: Chunk, source: RowSource, names: ColumnNames) -> dict[int, InputError]:
    """What is wrong with rows of a chunk before their cells are looked at, such as keys that are missing."""
    problems = source.problems(chunk)
    needed = {"candidate": (names.candidate,), "image": (names.image,), "references": names.references}
    for row, cells in enumerate(chunk.rows or ()):
        for field, columns in needed.items():
            if row not in problems and any(columns) and not any(name in cells for name in columns):
                problems[row] = _missing_key(field, columns, cells)
    return problems


def _missing_key(field: str, columns: tuple[str | None, ...], cells: dict[str, Any]) -> InputError:
    if not cells:
        return InputError(f"the row has no {columns[0]!r}: it is empty", field=field)
    near = difflib.get_close_matches(str(columns[0])[:100], [*cells][:_MOST_ALIKE], n=1, cutoff=0.6)
    hint = f"; is {near[0]!r:.40} misspelt?" if near else ""
    keys = _listed([*cells]).replace("the column", "the key", 1)
    return InputError(f"the row has no {columns[0]!r}; it has {keys}{hint}", field=field)


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, "" or NaN."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _from_cell(text: str, row: int, problems: dict[int, InputError]) -> Any:
    """References of a text cell, which holds a JSON list."""
    if not text.strip():
        return None
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):  # ValueError: also a number of too many digits
        listed = None
    if isinstance(listed, list):
        return listed
    problems.setdefault(
        row,
        InputError(
            f'the cell holds {text!r:.60}; expected a JSON list such as ["A cat.", "A small cat."], or one '
            "column per reference: reference_1, reference_2, …",
            field="references",
        ),
    )
    return None
