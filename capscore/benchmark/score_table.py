"""Scores that others computed → one score a query.

In: a file of rows with `score` and something to know them by (`id`; or `image_id` and `caption`; or only
their order). Out: float64 (q,) in the order of the queries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from .tasks import Queries

_CAPTION_NAMES = ("caption", "candidate", "prediction")
_IMAGE_NAMES = ("image_id", "image", "image_path", "file_name")


def read_scores(path: str | Path, queries: Queries, *, column: str = "score") -> tuple[np.ndarray, str]:
    """Scores of all queries from a file, and in words how its rows were matched.

    Args:
        path: JSONL, JSON, CSV, TSV or Parquet, a row a score. Rows are matched by `id` if they have it (as
            `write_queries` names them), else by photo and caption, else by their order.
        queries: what the benchmark wants scored.
        column: the column of the scores; null or NaN means that there is none.

    Raises:
        InputError: no such column, a score that is no number, a query without a row, two scores for one.
    """
    from ..rows import open_rows

    source = open_rows(Path(path))
    if column not in source.columns:
        raise InputError(
            f"{path} has no column {column!r}; it has {', '.join(source.columns)}", field="scores"
        )
    columns = source.columns
    caption = next((name for name in _CAPTION_NAMES if name in columns), None)
    image = next((name for name in _IMAGE_NAMES if name in columns), None)
    rows = [row for chunk in source.chunks(4096) for row in chunk.dicts()]
    values = np.array([_number(row.get(column), number, path) for number, row in enumerate(rows)])
    if "id" in columns:
        keys = [str(row.get("id")) for row in rows]
        return _matched(values, keys, list(queries.ids), path), "id"
    if caption is not None and image is not None:
        keys = [_pair(row.get(image), row.get(caption)) for row in rows]
        wanted = [_pair(*pair) for pair in zip(queries.image_ids, queries.candidates, strict=True)]
        return _matched(values, keys, wanted, path), f"{image} and {caption}"
    if len(values) != len(queries):
        raise InputError(
            f"{path} has {len(values):,} scores and neither ids nor photos and captions to match them by; "
            f"the benchmark has {len(queries):,} queries (--write-queries writes them)",
            field="scores",
        )
    return values, "order"


def _number(value: Any, row: int, path: str | Path) -> float:
    if value is None or value == "":
        return math.nan
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.inf
    if isinstance(value, bool) or math.isinf(number):
        raise InputError(f"{path}: {value!r:.40} is not a finite number", row=row, field="score")
    return number


def _pair(image: Any, caption: Any) -> str:
    name = str(image).replace("\\", "/").rpartition("/")[2]
    return f"{name}\0{' '.join(str(caption).split())}"


def _matched(values: np.ndarray, keys: Sequence[str], wanted: Sequence[str], path: str | Path) -> np.ndarray:
    known: dict[str, float] = {}
    for row, (key, value) in enumerate(zip(keys, values, strict=True)):
        before = known.setdefault(key, float(value))
        if before != value and not (math.isnan(before) and math.isnan(value)):
            shown = key.replace("\0", ", ")
            raise InputError(f"{path}: {shown!r:.100} has two scores, {before:g} and {value:g}", row=row)
    missing = [key for key in dict.fromkeys(wanted) if key not in known]
    if missing:
        raise InputError(
            f"{path} has no score for {len(missing):,} of {len(set(wanted)):,} queries, the first of them "
            f"{missing[0].replace(chr(0), ', ')!r:.120}; write null where there is none",
            field="scores",
        )
    return np.array([known[key] for key in wanted])
