"""Reads scores that others computed: a file of rows in, one score per query out."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, Setting
from .protocols.results import counted
from .tasks import Queries

_CAPTION_NAMES = ("caption", "candidate", "prediction")
_IMAGE_NAMES = ("image_id", "image", "image_path", "file_name")


@dataclass(frozen=True)
class ScoreTable:
    """Scores from a file, one per query.

    Attributes:
        scores: float64 (q,) in the order of the queries; NaN for a missing score.
        matched_by: How rows were matched, in words.
        notes: Remarks on rows without a query and queries without a row.
    """

    scores: np.ndarray
    matched_by: str
    notes: tuple[str, ...] = ()


def read_scores(
    path: str | Path, queries: Queries, *, column: str = "score", missing: str = "raise"
) -> ScoreTable:
    """Read the scores of all queries from a file, and match its rows.

    Args:
        path: JSONL, JSON, CSV, TSV or Parquet file with one score per row. Rows are matched by `id` if they
            have it (as in `Queries.to_rows`), else by photo and caption, else by their order. Only the file
            names of photos count; blanks and Unicode composition in captions are ignored.
        queries: Queries of the benchmark.
        column: Column of the scores; null, NaN or an empty cell is a missing score.
        missing: "raise" requires a row for every query; with "skip", a query without a row has no score, and
            a note says how many.

    Raises:
        InputError: no such column, a score that is not a number, a query without a row, two scores for one
            query.
    """
    from ..files.read import open_rows

    path = Path(path)
    source = open_rows(path)
    columns = source.columns
    if column not in columns:
        raise InputError(f"{path} has no column {column!r}; it has {', '.join(columns)}", field="scores")
    caption = next((name for name in _CAPTION_NAMES if name in columns), None)
    image = next((name for name in _IMAGE_NAMES if name in columns), None)
    rows = [row for chunk in source.chunks(4096) for row in chunk.dicts()]
    values = [_number(row.get(column), number, path) for number, row in enumerate(rows)]
    if "id" in columns:
        for number, row in enumerate(rows):
            if row.get("id") in (None, ""):
                raise InputError(f"{path}: the id is missing", row=number, field="id")
        matched_by, keys, wanted = "id", [str(row["id"]) for row in rows], queries.ids
    elif caption is not None and image is not None:
        matched_by = f"{image} and {caption}"
        keys = [_pair(row.get(image), row.get(caption)) for row in rows]
        wanted = [_pair(*pair) for pair in zip(queries.image_ids, queries.candidates, strict=True)]
    elif len(values) == len(queries):
        return ScoreTable(np.array(values), "order")
    else:
        raise InputError(
            f"{path} has {len(values):,} scores and neither ids nor photos and captions to match them by; "
            f"the benchmark has {len(queries):,} queries (`benchmark_queries` gives them, as does ",
            Setting("write_queries"),
            ")",
            field="scores",
        )
    known = _by_key(keys, values, path)
    notes = _match_notes(known, keys, wanted, path, skip=missing == "skip")
    return ScoreTable(np.array([known.get(key, math.nan) for key in wanted]), matched_by, tuple(notes))


def _number(value: Any, row: int, path: Path) -> float:
    if value is None or value == "":
        return math.nan
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.inf
    if isinstance(value, bool) or math.isinf(number):
        raise InputError(f"{path}: {value!r:.40} is not a finite number", row=row, field="score")
    return number


def _pair(image: Any, caption: Any) -> str:
    name = str(image).replace("\\", "/").rpartition("/")[2]
    return unicodedata.normalize("NFC", f"{name}\0{' '.join(str(caption).split())}")


def _shown(key: str) -> str:
    return f"{key.replace(chr(0), ', ')!r:.120}"


def _by_key(keys: list[str], values: list[float], path: Path) -> dict[str, float]:
    known: dict[str, float] = {}
    for row, (key, value) in enumerate(zip(keys, values, strict=True)):
        before = known.setdefault(key, value)
        if before != value and not (math.isnan(before) and math.isnan(value)):
            raise InputError(f"{path}: {_shown(key)} has two scores, {before:g} and {value:g}", row=row)
    return known


def _match_notes(
    known: dict[str, float], keys: list[str], wanted: list[str], path: Path, *, skip: bool
) -> list[str]:
    """Notes on queries without a row, an error unless they are skipped, and on rows without a query."""
    asked = dict.fromkeys(wanted)
    missing = [key for key in asked if key not in known]
    lack = f"{len(missing):,} of {len(asked):,} queries"
    if len(missing) == len(asked) or (missing and not skip):
        own = f"; its first row is {_shown(keys[0])}" if len(missing) == len(asked) and keys else ""
        raise InputError(
            f"{path} has no score for {lack}, the first of them {_shown(missing[0])}{own}; write null for "
            "a missing score",
            field="scores",
        )
    notes = []
    if missing:
        notes.append(f"{path.name} has no row for {lack}, the first of them {_shown(missing[0])}")
    spare = [key for key in known if key not in asked]
    if spare:
        notes.append(
            f"{path.name} has {counted(len(spare), 'row')} without a query, the first of them "
            f"{_shown(spare[0])}"
        )
    return notes
