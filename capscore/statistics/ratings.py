"""Scores, ratings and image ids in any form → checked arrays.

In: lists, arrays or columns of tables, nested or ragged where an item has several ratings. Out: float64
arrays of the usable rows, and counts and notes on the rows left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from ..errors import InputError, Setting

# ratings with more distinct values than this are not listed one by one
_MOST_LISTED = 100


@dataclass(frozen=True)
class RatingSummary:
    """Distribution of the ratings that were used, before any mean over raters.

    Attributes:
        n: Number of single ratings.
        n_distinct: Number of distinct values.
        lowest, highest, mean: Lowest, highest and mean single rating.
        counts: Value → number of ratings, in order; empty for more than 100 distinct values.
    """

    n: int
    n_distinct: int
    lowest: float
    highest: float
    mean: float
    counts: dict[float, int]

    @classmethod
    def of(cls, ratings: np.ndarray) -> RatingSummary:
        """Summarise float64 (n,) ratings, at least one, none missing."""
        values, counts = np.unique(ratings, return_counts=True)
        listed = zip(values.tolist(), counts.tolist(), strict=True) if len(values) <= _MOST_LISTED else ()
        return cls(
            n=len(ratings),
            n_distinct=len(values),
            lowest=float(values[0]),
            highest=float(values[-1]),
            mean=float(values @ (counts / len(ratings))),
            counts=dict(listed),
        )

    def to_dict(self) -> dict[str, Any]:
        """The attributes, ready for JSON; `counts` as a list of value and count."""
        counts = [{"rating": rating, "count": count} for rating, count in self.counts.items()]
        return {**asdict(self), "counts": counts}


@dataclass(frozen=True)
class NumberColumns:
    """Columns of numbers, without the rows that lack one.

    Attributes:
        complete: Name → float64 (kept,), the rows that lack nothing.
        kept: bool (n,), True for those rows.
        left_out: Reason → number of rows, each counted once; adds up to the rows that are not kept.
        notes: The same as sentences, with row numbers.
    """

    complete: dict[str, np.ndarray]
    kept: np.ndarray
    left_out: dict[str, int]
    notes: list[str]

    @classmethod
    def of(cls, given: dict[str, Any], missing: str, items: str) -> NumberColumns:
        """Check lists of numbers that belong together.

        Args:
            given: Name → list of numbers, NaN or None where one is missing.
            missing: "raise" stops at the first row that lacks something; "skip" leaves it out.
            items: Noun for the rows, in the plural.

        Raises:
            InputError: different lengths, a value that is not a finite number, a missing value.

        >>> found = NumberColumns.of({"wins": [1, None, 3], "losses": [4, 5, 6]}, "skip", "games")
        >>> found.complete["losses"].tolist(), found.left_out, found.notes
        ([4.0, 6.0], {'wins missing': 1}, ['1 of 3 games left out: wins missing (row 1)'])
        """
        check_missing(missing)
        columns = {name: numbers_of(values, name) for name, values in given.items()}
        _same_lengths({name: len(column) for name, column in columns.items()})
        lacking = {name: np.isnan(column) for name, column in columns.items()}
        if missing == "raise":
            _refuse_missing(lacking, items)
        kept, left_out, notes = _left_out(lacking, items)
        return cls({name: column[kept] for name, column in columns.items()}, kept, left_out, notes)

    @property
    def remainder(self) -> str:
        """An error's ending about the rows left out; "" if there are none."""
        return _remainder(self.kept)


@dataclass(frozen=True)
class RatedScores:
    """Scores of one or several metrics beside ratings, without the rows that lack something.

    Attributes:
        scores: Name → float64 (rows,).
        ratings: float64 (rows,).
        units: int (rows,), each row's image, or its item if there are no image ids.
        n_units: Number of images, or items.
        unit: "image" or "item".
        raters: "single" if no item has several ratings, else "flatten" or "mean".
        n_items: Number of items used.
        left_out: Reason → number of items, each counted once.
        n_ratings_left_out: Number of missing single ratings of items that are used.
        summary: Distribution of the ratings.
        notes: Sentences on what was left out.
    """

    scores: dict[str, np.ndarray]
    ratings: np.ndarray
    units: np.ndarray
    n_units: int
    unit: str
    raters: str
    n_items: int
    left_out: dict[str, int]
    n_ratings_left_out: int
    summary: RatingSummary
    notes: list[str]

    @classmethod
    def of(
        cls, scores: dict[str, Any], ratings: Any, raters: str | None, images: Any, missing: str
    ) -> RatedScores:
        """Check the arguments of `agreement`; `scores` has one list of numbers per metric.

        Raises:
            InputError: as `agreement`.

        >>> rows = RatedScores.of({"scores": [0.3, 0.1]}, [[1, 2], [3]], "flatten", ["a", "b"], "raise")
        >>> rows.scores["scores"].tolist(), rows.ratings.tolist(), rows.units.tolist()
        ([0.3, 0.3, 0.1], [1.0, 2.0, 3.0], [0, 0, 1])
        """
        if raters not in (None, "flatten", "mean"):
            raise InputError(Setting("raters", raters), ": expected 'flatten' or 'mean'", field="raters")
        check_missing(missing)
        columns = {name: numbers_of(values, name) for name, values in scores.items()}
        numbers, sizes = _ratings(ratings)
        _same_lengths({**{name: len(column) for name, column in columns.items()}, "ratings": len(sizes)})
        most = int(sizes.max(initial=0))
        if most > 1 and raters is None:
            raise InputError(
                f"up to {most} ratings per item, which can be used in two ways that give different numbers: ",
                Setting("raters", "flatten"),
                " (a row of each rating, as published for Flickr8k-Expert) or ",
                Setting("raters", "mean"),
                " (a row of each item, with its mean rating)",
                field="ratings",
            )

        items = np.repeat(np.arange(len(sizes)), sizes)
        there = ~np.isnan(numbers)
        n_there = np.bincount(items[there], minlength=len(sizes))
        lacking = {name: np.isnan(column) for name, column in columns.items()}
        if missing == "raise":
            _refuse_missing({**lacking, "ratings": (n_there < sizes) | (n_there == 0)}, "items")
        kept, left_out, notes = _left_out({**lacking, "ratings": n_there == 0}, "items")
        n_items = int(kept.sum())
        if n_items < 2:
            raise InputError(f"agreement needs at least 2 items, and there is {n_items}{_remainder(kept)}")
        partly = kept & (n_there < sizes)
        n_ratings_left_out = int((sizes - n_there)[partly].sum())
        if n_ratings_left_out:
            notes.append(
                f"{n_ratings_left_out} missing ratings left out of items that have others ({_listed(partly)})"
            )

        used = there & kept[items]
        numbers, items = numbers[used], items[used]
        summary = RatingSummary.of(numbers)
        if raters == "mean" and most > 1:
            numbers, items = _mean_ratings(numbers, items), np.flatnonzero(kept)
        units, n_units = units_of(images, kept)
        position = np.cumsum(kept) - 1  # item → its place among the kept
        return cls(
            scores={name: column[items] for name, column in columns.items()},
            ratings=numbers,
            units=units[position[items]],
            n_units=n_units,
            unit="item" if images is None else "image",
            raters=raters if raters and most > 1 else "single",
            n_items=n_items,
            left_out=left_out,
            n_ratings_left_out=n_ratings_left_out,
            summary=summary,
            notes=notes,
        )


def numbers_of(values: Any, field: str) -> np.ndarray:
    """A list of numbers → float64 (n,), NaN where one is missing (NaN, None, pandas' NA).

    Raises:
        InputError: not a list; an infinite value or one that is not a number, with its row.

    >>> numbers_of([1, None, 2.5], "scores").tolist()
    [1.0, nan, 2.5]
    """
    rows = _rows(values, field, "numbers")
    if isinstance(rows, np.ndarray) and rows.ndim > 1:
        raise InputError(f"an array {rows.shape}: expected one number per item", field=field)
    return _floats(rows, field, np.arange(len(rows)))


def units_of(images: Any, kept: np.ndarray) -> tuple[np.ndarray, int]:
    """Image of each kept item, int (kept,) from 0, and the number of images; without ids items count."""
    if images is None:
        return np.arange(int(kept.sum())), int(kept.sum())
    names, codes = coded(images, kept, "images")
    return codes, len(names)


def coded(ids: Any, kept: np.ndarray, field: str) -> tuple[list[Any], np.ndarray]:
    """Ids of the kept rows → the distinct ids, sorted, and the place of each row's id among them.

    They are sorted so that samples do not depend on the order of the rows.

    Raises:
        InputError: not one id per row; an id that is missing or of a wrong type, with its row.

    >>> coded(["b", "a", "b"], np.array([True, True, True]), "images")
    (['a', 'b'], array([1, 0, 1]))
    """
    rows = _rows(ids, field, "ids")
    _same_lengths({"items": len(kept), field: len(rows)})
    rows = rows.tolist() if isinstance(rows, np.ndarray) else rows
    places = np.flatnonzero(kept).tolist()
    chosen = [rows[place] for place in places]
    try:
        distinct = set(chosen)
    except TypeError:
        distinct = None
    if distinct is None or any(map(_is_no_id, distinct)):
        wrong = next(place for place in places if _is_no_id(rows[place]))
        given = f"{rows[wrong]!r:.60} ({type(rows[wrong]).__name__})"
        raise InputError(f"{given}: expected an id, such as a file name or a number", row=wrong, field=field)
    try:
        names = sorted(distinct)
    except TypeError:  # of several types
        names = sorted(distinct, key=lambda name: (type(name).__name__, repr(name)))
    place_of = {name: place for place, name in enumerate(names)}
    return names, np.fromiter(map(place_of.__getitem__, chosen), np.int64, len(chosen))


def means_by(numbers: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Mean of each group, in the order of the group numbers.

    Numbers are added in order of size, so that their order cannot turn a tie into a difference.

    >>> means_by(np.array([0.1, 5.0, 0.3]), np.array([2, 0, 2])).tolist()
    [5.0, 0.2]
    """
    order = np.lexsort((numbers, groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    return np.add.reduceat(numbers[order], starts) / np.diff(np.append(starts, len(groups)))


def check_missing(missing: str) -> None:
    """Refuse any value but "raise" and "skip"."""
    if missing not in ("raise", "skip"):
        raise InputError(Setting("missing", missing), ": expected 'raise' or 'skip'", field="missing")


def _same_lengths(lengths: dict[str, int]) -> None:
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{length} {name.replace('_', ' ')}" for name, length in lengths.items())
        raise InputError(f"{counts}: expected equally many, one per item")


def _refuse_missing(lacking: dict[str, np.ndarray], items: str) -> None:
    """Raise an error at the first row that lacks something."""
    incomplete = np.any(list(lacking.values()), axis=0)
    if not incomplete.any():
        return
    row = int(np.argmax(incomplete))
    raise InputError(
        f"missing (NaN, None or an empty list); {int(incomplete.sum())} of {len(incomplete)} {items} lack "
        "something, and ",
        Setting("missing", "skip"),
        " leaves them out and counts them",
        row=row,
        field=next(name for name, lacks in lacking.items() if lacks[row]),
    )


def _left_out(lacking: dict[str, np.ndarray], items: str) -> tuple[np.ndarray, dict[str, int], list[str]]:
    """Rows that lack nothing; the others by reason, each counted for the first thing it lacks; notes."""
    kept = np.ones(len(next(iter(lacking.values()))), dtype=bool)
    left_out, notes = {}, []
    for name, lacks in lacking.items():
        newly = lacks & kept
        kept &= ~lacks
        if newly.any():
            why = f"{name.replace('_', ' ')} missing"
            left_out[why] = int(newly.sum())
            notes.append(f"{left_out[why]} of {len(kept)} {items} left out: {why} ({_listed(newly)})")
    return kept, left_out, notes


def _listed(rows: np.ndarray) -> str:
    places = np.flatnonzero(rows)
    more = f" and {len(places) - 5} more" if len(places) > 5 else ""
    return f"row{'s' if len(places) > 1 else ''} {', '.join(map(str, places[:5]))}{more}"


def _remainder(kept: np.ndarray) -> str:
    return "" if kept.all() else f", of {len(kept)} given; {int((~kept).sum())} lack something"


def _mean_ratings(numbers: np.ndarray, items: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        means = means_by(numbers, items)
    if not np.isfinite(means).all():
        row = int(np.unique(items)[np.argmin(np.isfinite(means))])
        raise InputError("the sum of the ratings is too large for a number", row=row, field="ratings")
    return means


def _is_no_id(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return True
    return _is_missing(value) or value == ""


def _is_missing(value: Any) -> bool:
    # by the name of the type, as pandas may not be installed
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, Real) and value != value)


def _rows(values: Any, field: str, what: str) -> list[Any] | np.ndarray:
    """The values as a list or an array with rows; anything else is refused."""
    refused = isinstance(values, (str, bytes, Mapping, Set))
    if not refused and hasattr(values, "to_pylist"):  # an Arrow column
        return values.to_pylist()
    if not refused and hasattr(values, "__array__"):
        try:
            masked = np.ma.isMaskedArray(values)
            array = values.astype(np.float64).filled(np.nan) if masked else np.asarray(values)
        except (TypeError, ValueError, RuntimeError) as error:  # a tensor on a GPU or with a gradient
            raise InputError(f"{type(values).__name__}: {error}", field=field) from None
        if array.ndim:
            return array
    elif not refused and hasattr(values, "__iter__"):
        return list(values)
    given = "None" if values is None else f"{values!r:.60} ({type(values).__name__})"
    raise InputError(f"{given}: expected a list of {what}", field=field)


def _ratings(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Ratings → float64 (ratings,) with NaN where one is missing, and the number of ratings per item."""
    rows = _rows(values, "ratings", "ratings, one or several per item")
    if isinstance(rows, np.ndarray) and rows.dtype == object:
        rows = rows.tolist()
    flat: list[Any] | np.ndarray
    if isinstance(rows, np.ndarray):
        if rows.ndim > 2:
            raise InputError(f"an array {rows.shape}: expected (items,) or (items, raters)", field="ratings")
        sizes = np.full(len(rows), 1 if rows.ndim == 1 else rows.shape[1])
        flat = rows.ravel()
    else:
        rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
        nested = [row if isinstance(row, (list, tuple)) else (row,) for row in rows]
        sizes = np.fromiter(map(len, nested), np.int64, len(nested))
        flat = [rating for row in nested for rating in row]
    return _floats(flat, "ratings", np.repeat(np.arange(len(sizes)), sizes)), sizes


def _floats(values: Sequence[Any] | np.ndarray, field: str, rows: np.ndarray) -> np.ndarray:
    """Numbers and missing values → float64; anything else is an error with its row."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "buif":
        numbers = values.astype(np.float64)
    else:
        numbers = np.full(len(values), np.nan)
        for place, value in enumerate(values):
            if isinstance(value, (Real, Decimal, np.bool_)):
                try:
                    numbers[place] = value
                except OverflowError:  # a whole number with more than 308 digits
                    numbers[place] = math.inf
            elif not _is_missing(value):
                given = f"{value!r:.60} ({type(value).__name__})"
                raise InputError(f"{given}: expected a number", row=int(rows[place]), field=field)
    infinite = np.isinf(numbers)
    if infinite.any():
        place = int(np.argmax(infinite))
        raise InputError(f"{numbers[place]}: expected a finite number", row=int(rows[place]), field=field)
    return numbers
