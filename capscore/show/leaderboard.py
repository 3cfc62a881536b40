"""Numbers of many files of results → an HTML page whose table can be sorted and filtered."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files.whole_file import write_text
from .markup import render

if TYPE_CHECKING:
    from ..benchmarks.result_file import ReportedNumber

# Sizes of backbones to choose among, in millions of parameters.
_SIZES = (100, 200, 500, 1000)
_SPACE = """---
title: {title}
emoji: 🏆
colorFrom: yellow
colorTo: blue
sdk: static
pinned: false
tags:
- evaluate
- image-captioning
- leaderboard
---

# {title}

Made from files of results by `capscore leaderboard`. The page loads nothing from elsewhere.
"""


def leaderboard_page(numbers: Sequence[ReportedNumber], title: str) -> str:
    """The page: one row per number, filters above, a table that its headings sort."""
    script = files(__package__).joinpath("templates/leaderboard.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode()
    return render(
        "leaderboard.html",
        title=title,
        script=script,
        script_hash=f"sha256-{digest}",
        numbers=[_cells(one) for one in numbers],
        choices={
            "benchmark": sorted({one.benchmark for one in numbers}),
            "language": sorted({one.language for one in numbers if one.language}),
            "metric": sorted({one.metric for one in numbers}),
            "licence": sorted({one.licence for one in numbers if one.licence}),
        },
        sizes=_SIZES,
        files=sorted({one.file for one in numbers}),
    )


def write_leaderboard(numbers: Sequence[ReportedNumber], path: Path, title: str) -> None:
    """Write the page as one file."""
    write_text(path, leaderboard_page(numbers, title), "page")


def write_space(numbers: Sequence[ReportedNumber], folder: Path, title: str) -> None:
    """Write a folder that is a static Space: the page, and a card."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "index.html", leaderboard_page(numbers, title), "page")
    write_text(folder / "README.md", _SPACE.format(title=title), "card")


def _cells(one: ReportedNumber) -> dict[str, Any]:
    interval = "" if one.interval is None else " to ".join(f"{100 * edge:.1f}" for edge in one.interval)
    return {
        "one": one,
        "value": "–" if one.value is None else f"{100 * one.value:.2f}",
        "interval": interval,
        "published": "" if one.published is None else f"{100 * one.published:.1f}",
        "size": round(one.parameters / 1e6) if one.parameters else "",
        "data": one.benchmark if one.config in ("default", "") else f"{one.benchmark} · {one.config}",
        "partly": one.n_rows < one.n_of,
    }
