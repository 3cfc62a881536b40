"""Calls of every metric: rows that it takes on a toy backbone, and cells that no metric can score."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas

import capscore
from capscore.embedding.background import Background, Curve
from capscore.metrics.base import Scorer
from capscore.registry import METRICS
from tests.photos import GREY, png
from tools.tiny.colours import BLUE, GREEN, RED, ColourBackbone, JudgingColours
from tools.tiny.judges import tiny_judge

_REFERENCES = [["red dog", "red"], ["a blue"], ["green green", "a dog"], ["dark blue"], ["red dog", "red"]]
# the last row is the first again
COLUMNS: dict[str, list[Any]] = {
    "candidates": ["red", "a bright blue", "green red", "blue dog", "red"],
    "images": [RED, GREEN, BLUE, BLUE, RED],
    "references": _REFERENCES,
    "language": ["en"] * 5,
}
# cells that no metric can score
BAD: dict[str, list[Any]] = {
    "candidates": [None, 3, float("nan"), pandas.NA, b"cat", ["a"], "\ud800 cat", 10**5000],
    "images": [
        *(None, "nowhere.jpg", b"no image", np.full((3, 4, 3), 5.0), np.zeros((2, 8, 9), np.uint8)),
        *(png(10**5, 10**5, bits=8, colour=GREY, lines=b""), png(4, 4, bits=8, colour=GREY, lines=b"\0")),
    ],
    "references": ["['red', 'blue']", None, [], ["red", None], ["red", 3], {"a": 1}, float("nan"), 7],
    "language": ["nolang", ["de"], 3],
}
BLANKS = ["", " \t", "\u3000\n", "\u200b\ufeff", " \xa0\u200b"]
CORNERS = np.eye(3, dtype=np.float32)
# what a metric needs to be tried
NEEDS: dict[str, dict[str, Any]] = {
    "fit": {"background": Background(CORNERS, "colours@w00000000", {"shared": Curve(3.0, -1.0)})},
    "pr_mcs": {"backbone": JudgingColours},
    "infometic": {"weights": "info_clip"},
    "judge": {"backbone": tiny_judge},
}


def options_for(metric: str, **options: Any) -> dict[str, Any]:
    """Options that put a metric on a toy backbone, if it has one."""
    needed = dict(NEEDS.get(metric, {}))
    if METRICS.get(metric).takes_backbone:
        needed = {"cache": False, **needed, "backbone": needed.get("backbone", ColourBackbone)()}
    return needed | options


def load(metric: str, **options: Any) -> Scorer:
    return capscore.load(metric, **options_for(metric, **options))


def columns_of(metric: str) -> list[str]:
    kind = METRICS.get(metric)
    left_out = {"images": not kind.needs_images, "references": not kind.needs_references}
    return [name for name in COLUMNS if not left_out.get(name)]


def rows_of(metric: str, rows: Iterable[int] = range(5), **columns: Any) -> dict[str, Any]:
    """The columns that a metric needs, as `score` takes them."""
    given = {name: columns.get(name, COLUMNS[name]) for name in columns_of(metric)}
    return {name: [values[row] for row in rows] for name, values in given.items()}


def with_cell(metric: str, column: str, row: int, value: Any) -> dict[str, Any]:
    """Its columns, with another value in a cell."""
    changed = [*COLUMNS[column]]
    changed[row] = value
    return rows_of(metric, **{column: changed})
