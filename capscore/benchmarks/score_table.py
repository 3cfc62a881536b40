"""Reads scores that others computed: a file of rows in, one score per query out."""

from __future__ import annotations

import math
import unicodedata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, Setting
from ..files.columns import number_in
from .tasks import Queries

_CAPTION_NAMES = ("caption", "candidate", "prediction")
_IMAGE_NAMES = ("image_id", "image", "image_path", "file_name")


class ScoreTable(NamedTuple):
    """Scores of the queries, float64 (q,) with NaN for a missing one; how rows were matched; remarks."""

    scores: np.ndarray
    matched_by: str
    notes: tuple[str, ...] = ()


def read_scores(path: str | Path, queries: Queries, *, missing: str = "raise") -> ScoreTable:
    """Read the scores of all queries from a file, and match its rows.

    Args:
        path: JSONL, JSON, CSV, TSV or Parquet file with a column `score`; null, NaN or an empty cell is a
            missing score. Rows are matched by `id` if they have it (as in `Queries.to_rows`), else by photo
            and caption, else by their order. Only the file names of photos count; blanks and Unicode
            composition in captions are ignored.
        queries: Queries of the benchmark.
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
    if "score" not in columns:
        raise InputError(f"{path} has no column 'score'; it has {', '.join(columns)}", field="scores")
    caption = next((name for name in _CAPTION_NAMES if name in columns), None)
    image = next((name for name in _IMAGE_NAMES if name in columns), None)
    rows = [row for chunk in source.chunks(4096) for row in chunk.dicts()]
    values = [number_in(row.get("score")) for row in rows]
    if math.inf in map(abs, values):
        index = [*map(abs, values)].index(math.inf)
        given = rows[index]["score"]
        raise InputError(f"{path}: {given!r:.40} is not a finite number", row=index, field="score")
    if "id" in columns:
        matched_by, wanted = "id", queries.ids
        keys = ["" if row.get("id") is None else str(row["id"]) for row in rows]
        if "" in keys:
            raise InputError(f"{path}: the id is missing", row=keys.index(""), field="id")
    elif caption is not None and image is not None:
        matched_by = f"{image} and {caption}"
        keys = [_pair(row.get(image), row.get(caption)) for row in rows]
        wanted = [_pair(*pair) for pair in zip(queries.image_ids, queries.candidates, strict=True)]
    elif len(values) == len(queries):
        return ScoreTable(np.array(values), "order")
    else:
        needed = f"{len(values):,} scores for {len(queries):,} queries, and no ids, or photos and captions"
        raise InputError(
            f"{path} has {needed}; ", Setting("write_queries"), " writes the ids", field="scores"
        )
    scores: dict[str, float] = {}
    for row, (key, value) in enumerate(zip(keys, values, strict=True)):
        before = scores.setdefault(key, value)
        if before != value and not (math.isnan(before) and math.isnan(value)):
            raise InputError(f"{path}: {_shown(key)} has two scores, {before:g} and {value:g}", row=row)
    notes, asked = [], set(wanted)
    if lacking := [key for key in dict.fromkeys(wanted) if key not in scores]:
        note = f"no score for {len(lacking):,} of {len(asked):,} queries, such as {_shown(lacking[0])}"
        if missing != "skip" or len(lacking) == len(asked):
            raise InputError(f"{path} has {note}; write null for a missing score", field="scores")
        notes.append(f"{path.name} has {note}")
    if spare := [key for key in scores if key not in asked]:
        notes.append(f"{path.name} has {len(spare):,} rows without a query, such as {_shown(spare[0])}")
    return ScoreTable(np.array([scores.get(key, math.nan) for key in wanted]), matched_by, tuple(notes))


def _pair(image: Any, caption: Any) -> str:
    name = str(image).replace("\\", "/").rpartition("/")[2]
    return unicodedata.normalize("NFC", f"{name}\0{' '.join(str(caption).split())}")


def _shown(key: str) -> str:
    return f"{key.replace(chr(0), ', ')!r:.120}"
