"""The checkout, its folders with code, and their files as syntax trees."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("capscore", "training", "speed", "metrics", "datasets_scripts", "docs", "weights")


@functools.cache
def syntax_tree(path: Path) -> ast.Module:
    """The tree of a file, parsed once; not to be changed."""
    return ast.parse(path.read_text(encoding="utf-8"))


def named(path: Path) -> str:
    """The path of a file within the checkout."""
    return path.relative_to(ROOT).as_posix()
