"""Lists, arrays and columns of tables → checked arrays."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from decimal import Decimal
from itertools import compress
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from ..errors import InputError, Setting

# a list, array, tensor or column of a table: one value per row
Column: TypeAlias = Iterable[object]
MISSING = ("missing (NaN or None); ", Setting("missing", "skip"), " leaves out and counts what needs it")


def as_list(values: Column, field: str, n: int | None = None) -> list[Any]:
    """A list, array, tensor or column of a table as a list; n is the expected number of rows."""
    given = values
    if hasattr(values, "to_pylist"):  # Arrow
        return as_list(values.to_pylist(), field, n)
    if hasattr(values, "to_numpy"):  # pandas
        values = values.to_numpy()
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable):
        raise InputError(f"expected a list with one value per row, got {given!r:.60}", field=field)
    values = list(values)
    if n is not None and len(values) != n:
        raise InputError(f"{len(values)} rows here but {n} in the preceding arguments", field=field)
    return values


def number_column(values: Column, field: str, n: int | None = None, *, complete: bool = False) -> np.ndarray:
    """One number per row → float64 (n,), NaN where one is missing (NaN, None, pandas' NA).

    >>> number_column([0.5, None], "scores")
    array([0.5, nan])
    """
    column = numbers_of(as_list(values, field, n), field)
    if not len(column):
        raise InputError("there are no rows: the list is empty", field=field)
    if complete and np.isnan(column).any():
        row = int(np.isnan(column).argmax())
        raise InputError("expected a number, got none (NaN)", row=row, field=field)
    return column


def numbers_of(values: Sequence[object], field: str) -> np.ndarray:
    """Numbers and missing values → float64, NaN where one is missing."""
    numbers = np.empty(len(values))
    for index, value in enumerate(values):
        number = math.inf
        if isinstance(value, (Real, Decimal, np.bool_)):
            try:
                number = float(value)
            except OverflowError:  # a whole number with more than 308 digits
                pass
        elif _is_missing(value):
            number = math.nan
        if math.isinf(number):
            raise InputError(f"expected a finite number, got {value!r:.60}", row=index, field=field)
        numbers[index] = number
    return numbers


def flag_column(values: Column, field: str, n: int | None = None) -> np.ndarray:
    """True or False (or 1 or 0) per row → bool (n,)."""
    return label_codes(values, field, n, (False, True)).astype(bool)


def label_codes(values: Column, field: str, n: int | None, known: Sequence[Hashable]) -> np.ndarray:
    """One of `known` per row → int64 (n,), its index in `known`."""
    codes = {name: code for code, name in enumerate(known)}
    found = []
    for row, value in enumerate(as_list(values, field, n)):
        if not isinstance(value, Hashable) or value not in codes:
            expected = f"one of {', '.join(map(repr, known))}"
            if len(known) > 20:
                expected = f"of {known[0]!r} to {known[-1]!r}"
            raise InputError(f"got {value!r:.60}, expected {expected}", row=row, field=field)
        found.append(codes[value])
    return np.array(found, dtype=np.int64)


def group_codes(
    values: Column, field: str, n: int, kept: np.ndarray | None = None
) -> tuple[np.ndarray, list[Any]]:
    """One id per row, shared within a group → int64 (n,) codes, and the sorted ids that they stand for.

    Ids are sorted so that bootstrap samples do not depend on the order of the rows. With `kept`, bool (n,),
    codes are of these rows only.

    >>> group_codes(["b.jpg", "a.jpg", "b.jpg"], "image_ids", 3)
    (array([1, 0, 1]), ['a.jpg', 'b.jpg'])
    """
    column = as_list(values, field, n)
    if kept is not None:
        column = [*compress(column, kept)]
    rows = np.arange(n) if kept is None else np.flatnonzero(kept)
    distinct: dict[Any, None] = {}
    for row, value in zip(rows.tolist(), column, strict=True):
        try:
            is_id = value in distinct or not (value == "" or _is_missing(value))
        except TypeError:  # cannot be hashed
            is_id = False
        if not is_id:
            raise InputError(f"expected an id, got {value!r:.60}", row=row, field=field)
        distinct[value] = None
    try:
        names = sorted(distinct)
    except TypeError:  # of several types
        names = sorted(distinct, key=lambda name: (type(name).__name__, repr(name)))
    codes = {name: code for code, name in enumerate(names)}
    return np.array([codes[value] for value in column], dtype=np.int64), names


def units_of(images: Column | None, kept: np.ndarray, what: str, *keys: np.ndarray) -> tuple[np.ndarray, str]:
    """What a bootstrap draws: the unit of each kept row, int64 from 0, and the noun for units.

    Args:
        keys: Columns (n,) that number single rows, so that their order does not matter; the last sorts first.
    """
    if images is not None:
        return group_codes(images, "images", len(kept), kept)[0], "image"
    units = np.empty(int(kept.sum()), dtype=np.int64)
    units[np.lexsort([key[kept] for key in keys])] = np.arange(len(units))
    return units, what


def ragged(
    n: int | None, numbers: Mapping[str, Column], flags: Mapping[str, Column]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Lists with one list per row → one array per column, and the row of each item.

    Args:
        numbers, flags: Name of the argument → its lists, of numbers or of truth values.
    """
    arrays: list[np.ndarray] = []
    sizes: list[int] = []
    for field, values in {**numbers, **flags}.items():
        parts = []
        for row, inner in enumerate(as_list(values, field, n)):
            try:
                items = as_list(inner, field, sizes[row] if sizes else None)
                parts.append(numbers_of(items, field) if field in numbers else flag_column(items, field))
            except InputError as error:
                raise error.at(row) from None
        if not parts:
            raise InputError("there are no rows: the list is empty", field=field)
        n, sizes = len(parts), [len(part) for part in parts]
        arrays.append(np.concatenate(parts))
    return arrays, np.repeat(np.arange(len(sizes)), sizes)


def present_rows(missing: str, columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Rows with a number in each column → bool (n,).

    Args:
        missing: "raise" stops at the first row that lacks one; "skip" marks the rows that have all.
    """
    check_missing(missing)
    lacking = {name: np.isnan(column) for name, column in columns.items()}
    present = ~np.logical_or.reduce(list(lacking.values()))
    if missing == "raise" and not present.all():
        row = int((~present).argmax())
        field = next(name for name, lacks in lacking.items() if lacks[row])
        raise InputError(*MISSING, row=row, field=field)
    return present


def check_missing(missing: str) -> None:
    if missing not in ("raise", "skip"):
        raise InputError(Setting("missing", missing), ": expected 'raise' or 'skip'", field="missing")


def check_systems(systems: object, least: int = 1) -> None:
    """Raise an InputError unless so many systems are given, each by its name."""
    if not isinstance(systems, Mapping):
        given = type(systems).__name__
        raise InputError(f'expected names, as in {{"a": …, "b": …}}, got a {given}', field="systems")
    if len(systems) < least:
        raise InputError(f"expected at least {least} systems, got {len(systems)}")


def left_out(present: np.ndarray, what: str, why: str = "a score is missing") -> list[str]:
    """A note on rows that lack something, if there are any."""
    if present.all():
        return []
    n, first = int((~present).sum()), int((~present).argmax())
    return [f"{n:,} of {len(present):,} {what} left out: {why} (first such row: {first})"]


def means_by(numbers: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Mean of each group, in the order of the group numbers.

    Numbers are added in order of size, so that their order cannot turn a tie into a difference.

    >>> means_by(np.array([0.1, 5.0, 0.3]), np.array([2, 0, 2])).tolist()
    [5.0, 0.2]
    """
    order = np.lexsort((numbers, groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    return np.add.reduceat(numbers[order], starts) / np.diff(np.append(starts, len(groups)))


def plain(value: object) -> Any:
    """A result in types that JSON has; NaN becomes None.

    >>> plain({"r": np.float64(0.5), "counts": np.array([[1, 2]]), "interval": (0.4, float("nan"))})
    {'r': 0.5, 'counts': [[1, 2]], 'interval': [0.4, None]}
    """
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and value != value else value


def _is_missing(value: object) -> bool:
    # by the name of the type, as pandas may not be installed
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, Real) and value != value)
