"""Checks the arguments of protocols: one value per row in, arrays out; errors name row and argument."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ...errors import InputError, Setting
from ...statistics.ratings import check_missing, coded, numbers_of
from .results import Sampling, counted

MISSING_SCORE = (
    "there is no score (NaN: a row that failed); ",
    Setting("missing", "skip"),
    " leaves out what needs it",
)


def score_column(values: Any, field: str, n: int | None = None) -> np.ndarray:
    """One score per row → float64 (n,), NaN where it is missing; n=None takes any number of rows but 0.

    >>> score_column([0.5, None], "scores")
    array([0.5, nan])
    """
    column = numbers_of(values, field)
    _check_length(len(column), field, n)
    return column


def rating_column(values: Any, field: str, n: int | None = None) -> np.ndarray:
    """One human rating per row → float64 (n,); unlike a score it may not be missing.

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
    """One of `known` per row → int64 (n,), its index in `known`.

    >>> label_codes(["MM", "HC"], "categories", 2, ("HC", "HI", "HM", "MM"))
    array([3, 0])
    """
    column = as_list(values, field)
    _check_length(len(column), field, n)
    index = {name: code for code, name in enumerate(known)}
    codes = np.empty(n, dtype=np.int64)
    for row, value in enumerate(column):
        try:
            codes[row] = index[value]
        except (KeyError, TypeError):
            names = {name.casefold(): name for name in known if isinstance(name, str)}
            close = difflib.get_close_matches(str(value).casefold(), names, n=1)
            hint = f"; did you mean {names[close[0]]!r}?" if close else ""
            raise InputError(
                f"got {value!r:.60}, expected one of {', '.join(map(repr, known))}{hint}",
                row=row,
                field=field,
            ) from None
    return codes


def group_codes(values: Any, field: str, n: int) -> tuple[np.ndarray, list[Any]]:
    """One id per row, shared within a group → int64 (n,) codes, and the sorted ids that they stand for.

    >>> group_codes(["b.jpg", "a.jpg", "b.jpg"], "image_ids", 3)
    (array([1, 0, 1]), ['a.jpg', 'b.jpg'])
    """
    column = as_list(values, field)
    _check_length(len(column), field, n)
    names, codes = coded(column, np.full(n, True), field)
    return codes, names


def units_of(
    images: Any, sampling: Sampling, rows: str, *keys: np.ndarray
) -> tuple[np.ndarray, str, list[str]]:
    """What the bootstrap draws: the unit of each row, int64 (n,); its noun in the plural; notes.

    Args:
        images: Image id of each row, or None, which makes every row a unit.
        sampling: Number of samples, confidence and seed.
        rows: Noun for the rows, in the plural.
        keys: Columns that number single rows, so that their order does not matter.
    """
    if images is not None:
        return group_codes(images, "images", len(keys[0]))[0], "images", []
    units = np.empty(len(keys[0]), dtype=np.int64)
    units[np.lexsort(keys)] = np.arange(len(units))
    note = "no image ids: the bootstrap drew single rows, and intervals are too narrow if images recur"
    return units, rows, [note] if sampling[0] else []


def present_rows(missing: str, **columns: np.ndarray) -> np.ndarray:
    """Rows with a score in each column → bool (n,); with missing="raise", one without is an error.

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


def left_out(present: np.ndarray, what: str, why: str = "a score is missing") -> list[str]:
    """A note on rows without a score, if there are any."""
    if present.all():
        return []
    return [
        f"{int((~present).sum()):,} of {counted(len(present), what)} left out: {why} "
        f"(first such row: {int((~present).argmax())})"
    ]


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


def ragged(n: int | None, **columns: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """Lists with one list per caption → one array per column, and the row of each item.

    Args:
        n: Expected number of rows; None takes any number but 0.
        columns: Name of the argument → its lists. The first are of numbers (NaN: missing), the others of
            flags.

    Raises:
        InputError: lists of different lengths, or of other values; names the row.
    """
    lists = {field: as_list(values, field) for field, values in columns.items()}
    first, *others = lists
    for field, values in lists.items():
        _check_length(len(values), field, n)
        n = len(values)
    parts: dict[str, list[np.ndarray]] = {field: [np.zeros(0, bool)] for field in others}
    numbers: list[np.ndarray] = []
    for row, values in enumerate(lists[first]):
        try:
            values = as_list(values, first)
            numbers.append(numbers_of(values, first))
            for field in others:
                flags = as_list(lists[field][row], field)
                if len(flags) != len(values):
                    raise InputError(f"{len(flags)} values for {len(values)} {first}", field=field)
                parts[field].append(flag_column(flags, field, len(values)))
        except InputError as error:
            where = "" if error.row is None else f" (item {error.row} of the row)"
            raise InputError(error.message + where, row=row, field=error.field) from None
    arrays = [np.concatenate(numbers), *(np.concatenate(part) for part in parts.values())]
    return arrays, np.repeat(np.arange(len(numbers)), [len(values) for values in numbers])


def _check_length(length: int, field: str, n: int | None) -> None:
    if n is None and length == 0:
        raise InputError("there are no rows: the list is empty", field=field)
    if n is not None and length != n:
        raise InputError(f"{counted(length, 'row')} here but {n} in the arguments before it", field=field)
