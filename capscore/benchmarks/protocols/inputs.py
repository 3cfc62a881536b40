"""Checks the arguments of the protocols.

In: lists, arrays or columns with one value per row. Out: float64 scores (NaN where a row failed), integer
codes of labels and groups, bool flags. Every error is an `InputError` that names the row and the argument.
"""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ...errors import InputError, Setting
from ...statistics.ratings import check_missing, coded, numbers_of
from .results import counted


def score_column(values: Any, field: str, n: int | None = None) -> np.ndarray:
    """One score per row → float64 (n,), NaN where the row has none.

    Args:
        values: Numbers; None and NaN mark rows that were not scored.
        field: Name of the argument, for errors.
        n: Expected number of rows; None takes any number but 0.

    Raises:
        InputError: not a list of numbers, an infinite score, another length.

    >>> score_column([0.5, None], "scores")
    array([0.5, nan])
    """
    column = numbers_of(values, field)
    _check_length(len(column), field, n)
    return column


def rating_column(values: Any, field: str, n: int | None = None) -> np.ndarray:
    """One human rating per row → float64 (n,); unlike a score it may not be missing.

    Raises:
        InputError: as `score_column`; a missing rating.

    >>> rating_column([4, 5], "precision", 2)
    array([4., 5.])
    """
    column = score_column(values, field, n)
    gaps = np.isnan(column)
    if gaps.any():
        raise InputError("expected a number, got none (NaN)", row=int(gaps.argmax()), field=field)
    return column


def flag_column(values: Any, field: str, n: int) -> np.ndarray:
    """True or False (or 1 or 0) per row → bool (n,).

    Raises:
        InputError: anything else, another length.

    >>> flag_column([True, 0], "valid", 2)
    array([ True, False])
    """
    column = as_list(values, field)
    _check_length(len(column), field, n)
    for row, value in enumerate(column):
        if not isinstance(value, (bool, int, np.bool_, np.integer)) or value not in (0, 1):
            raise InputError(f"expected True or False (or 1 or 0), got {value!r:.60}", row=row, field=field)
    return np.array(column, dtype=bool)


def label_codes(values: Any, field: str, n: int, known: Sequence[Hashable]) -> np.ndarray:
    """One of `known` per row → int64 (n,), its place in `known`.

    Raises:
        InputError: an unknown value, another length.

    >>> label_codes(["MM", "HC"], "categories", 2, ("HC", "HI", "HM", "MM"))
    array([3, 0])
    """
    column = as_list(values, field)
    _check_length(len(column), field, n)
    place = {name: code for code, name in enumerate(known)}
    codes = np.empty(n, dtype=np.int64)
    for row, value in enumerate(column):
        try:
            codes[row] = place[value]
        except (KeyError, TypeError):
            names = ", ".join(map(repr, known))
            raise InputError(
                f"got {value!r:.60}, expected one of {names}{_did_you_mean(value, known)}",
                row=row,
                field=field,
            ) from None
    return codes


def group_codes(values: Any, field: str, n: int) -> tuple[np.ndarray, list[Any]]:
    """One id per row, shared within a group → int64 (n,) codes, and the sorted ids that they stand for.

    Raises:
        InputError: an id that is missing or of a wrong type, another length.

    >>> group_codes(["b.jpg", "a.jpg", "b.jpg"], "image_ids", 3)
    (array([1, 0, 1]), ['a.jpg', 'b.jpg'])
    """
    column = as_list(values, field)
    _check_length(len(column), field, n)
    names, codes = coded(column, np.full(n, True), field)
    return codes, names


def present_rows(missing: str, **columns: np.ndarray) -> np.ndarray:
    """Rows with all scores → bool (n,).

    Args:
        missing: "raise" stops at the first row without a score; "skip" marks the rows that have all.
        columns: Name of the argument → float64 (n,).

    Raises:
        InputError: a missing score with missing="raise"; another value of `missing`.

    >>> present_rows("skip", scores=np.array([0.5, np.nan]))
    array([ True, False])
    """
    check_missing(missing)
    present = ~np.logical_or.reduce([np.isnan(column) for column in columns.values()])
    if missing == "raise" and not present.all():
        row = int((~present).argmax())
        field = next(name for name, column in columns.items() if np.isnan(column[row]))
        raise InputError(*MISSING_SCORE, row=row, field=field)
    return present


MISSING_SCORE = (
    "there is no score (NaN: a row that failed); ",
    Setting("missing", "skip"),
    " leaves out what needs it",
)


def as_list(values: Any, field: str) -> list[Any]:
    """A column of labels as a list; a string or a table is refused.

    >>> as_list(("a", "b"), "pieces")
    ['a', 'b']
    """
    refused = isinstance(values, (str, bytes, dict, set, frozenset)) or not hasattr(values, "__iter__")
    if not refused and hasattr(values, "to_pylist"):  # an Arrow column
        return values.to_pylist()
    # an array, a tensor or a pandas column, whose items are not Python objects
    found = values.tolist() if not refused and hasattr(values, "tolist") else values
    if refused or (found is not values and not isinstance(found, list)):
        raise InputError(f"expected a list with one value per row, got {values!r:.60}", field=field)
    return list(found)


def _check_length(length: int, field: str, n: int | None) -> None:
    if n is None and length == 0:
        raise InputError("there are no rows: the list is empty", field=field)
    if n is not None and length != n:
        raise InputError(f"{counted(length, 'row')} here but {n} in the arguments before it", field=field)


def _did_you_mean(value: Any, known: Sequence[Hashable]) -> str:
    names = {name.casefold(): name for name in known if isinstance(name, str)}
    close = difflib.get_close_matches(value.casefold(), names, n=1) if isinstance(value, str) else []
    return f"; did you mean {names[close[0]]!r}?" if close else ""
