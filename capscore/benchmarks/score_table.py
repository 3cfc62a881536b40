"""Reads scores that others computed: a file of rows in, one score per query out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import InputError, Setting
from ..files.columns import read_numbers
from ..files.photo_names import KnownNames, id_text
from ..files.read import open_rows
from ..tables import counted
from .tasks import Queries


class ScoreTable(NamedTuple):
    """Scores of the queries, float64 (q,) with NaN for a missing one; remarks."""

    scores: np.ndarray
    notes: tuple[str, ...] = ()


def read_scores(path: str | Path, queries: Queries, *, missing: str = "raise") -> ScoreTable:
    """Read the scores of all queries from a file, and match its rows."""
    path = Path(path)
    source = open_rows(path)
    for column in ("score", "id"):
        if column not in source.columns:
            raise InputError(
                f"{path} has no column {column!r}; it has {', '.join(source.columns)}; ",
                Setting("write_queries"),
                " writes the rows to score, with their ids",
                field="scores",
            )
    scores: dict[str, float] = {}
    (ids,), (values,) = source.cells("id"), read_numbers(source, "score")
    for row, (cell, value) in enumerate(zip(ids, values, strict=True)):
        if cell is None or cell == "":
            raise source.at_row(InputError("the id is missing"), row)
        key = id_text(cell) or str(cell)
        before = scores.setdefault(key, value)
        if before != value and not (math.isnan(before) and math.isnan(value)):
            problem = f"{key!r:.120} has two scores, {before:g} and {value:g}"
            raise source.at_row(InputError(problem), row)
    asked = {id_text(key): key for key in queries.ids}
    matched = KnownNames(asked).match(scores)
    scores = {asked.get(matched.matches.get(key, ""), key): value for key, value in scores.items()}
    notes = matched.notes
    if lacking := [key for key in queries.ids if key not in scores]:
        note = f"no score for {len(lacking):,} of {len(asked):,} queries, such as {lacking[0]!r:.120}"
        if missing != "skip" or len(lacking) == len(asked):
            raise InputError(f"{path} has {note}; write null for a missing score", field="scores")
        notes.append(f"{path.name} has {note}")
    if spare := [key for key in scores if id_text(key) not in asked]:
        notes.append(
            f"{path.name} has {counted(len(spare), 'row')} without a query, such as {spare[0]!r:.120}"
        )
    return ScoreTable(np.array([scores.get(key, math.nan) for key in queries.ids]), tuple(notes))
