"""Captions that people rated, each with its image or what stands in for it, from a file → `RatedRow`s."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capscore.errors import InputError
from training.data.caption_rows import CaptionRow
from training.data.row_files import FileRow, check_text, read_rows


@dataclass(frozen=True)
class RatedRow:
    """A caption, what it describes, and what people think of it.

    Attributes:
        caption: The caption.
        language: Its language, a primary subtag.
        rating: Its rating, the mean of several; NaN for the caption of an image that nobody rated.
        image: Anything that capscore takes as an image; None where texts stand in.
        stand_in: Other captions of the same photo, whose mean embedding replaces the photo's; () where there
            is an image.
        names: Names by which a list may refer to the row or its image.
        place: Name of the row in errors.
    """

    caption: str
    language: str
    rating: float = math.nan
    image: Any = None
    stand_in: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    place: str = ""


def rated_file_rows(
    path: str | Path,
    *,
    images: str | Path | None = None,
    language: str | None = None,
    image_column: str | None = None,
    candidate_column: str | None = None,
    language_column: str | None = None,
    rating_column: str = "rating",
) -> Iterator[RatedRow]:
    """The rated captions of a file: JSONL, JSON, CSV, TSV, Parquet, or a saved data set.

    A row has a caption, an image or a `stand_in` (a text, or a list of them), a language (or `language` gives
    it), and a rating: a number, or a list with one number per person.

    Args:
        rating_column: Column of the ratings.
        path, images, language, image_column, candidate_column, language_column: As in
            `training.data.row_files.read_rows`.

    Raises:
        InputError: a row is malformed or has no rating, or all ratings of the file are equal; names the line.
    """
    found: set[float] = set()
    count = 0
    rows = read_rows(
        path,
        lists=("stand_in",),
        texts=(rating_column,),
        images=images,
        language=language,
        image_column=image_column,
        candidate_column=candidate_column,
        language_column=language_column,
    )
    for row in rows:
        rating = _rating(row.cells[rating_column], row.place, rating_column)
        found.add(rating)
        count += 1
        yield _rated(row, rating)
    if not count:
        raise InputError(f"{path} has no row", field="ratings")
    if len(found) < 2:
        raise InputError(
            f"{path}: all {count:,} ratings are {found.pop():g}; nothing can be learned from ratings that do "
            "not differ",
            field=rating_column,
        )


def from_captions(rows: Iterable[CaptionRow]) -> Iterator[RatedRow]:
    """Captions of another source as rows without a rating."""
    for row in rows:
        stand_in = () if row.stand_in is None else (row.stand_in,)
        yield RatedRow(row.caption, row.language, math.nan, row.image, stand_in, row.names, row.place)


def _rated(row: FileRow, rating: float) -> RatedRow:
    stand_in: tuple[str, ...] = ()
    if row.stand_in is not None:
        listed = [row.stand_in] if isinstance(row.stand_in, str) else row.stand_in
        if not isinstance(listed, (list, tuple)):
            raise InputError(f"{row.place}, stand_in: {listed!r:.60}; expected a text, or a list of texts")
        stand_in = tuple(check_text(text, row.place, "stand_in") for text in listed)
    return RatedRow(row.caption, row.language, rating, row.image, stand_in, row.names, row.place)


def _rating(cell: Any, place: str, column: str) -> float:
    """The rating of a row; the mean of a list."""
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        raise InputError(f"{place}, {column}: there is no rating; expected a number, or a list of numbers")
    given = cell
    if isinstance(cell, str):  # a file whose cells are text
        try:
            cell = json.loads(cell)
        except ValueError:
            raise _no_rating(given, place, column) from None
    several = list(cell) if isinstance(cell, (list, tuple)) else [cell]
    if not several:
        raise InputError(f"{place}, {column}: the list of ratings is empty")
    for number in several:
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
            raise _no_rating(given, place, column)
    return math.fsum(several) / len(several)


def _no_rating(cell: Any, place: str, column: str) -> InputError:
    return InputError(
        f"{place}, {column}: {cell!r:.60} is no rating; expected a finite number, or a list with one per "
        "person"
    )
