"""Files of Python as syntax trees."""

from __future__ import annotations

import ast
import gc
from pathlib import Path


def syntax_tree(path: Path) -> ast.Module:
    """The tree of a file.

    Python 3.11 before 3.11.8 fails ("AST constructor recursion depth mismatch") if the garbage collector runs
    in the middle and what it ends formats a traceback, which parses too (CPython issue 106905).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        if collects:
            gc.enable()
