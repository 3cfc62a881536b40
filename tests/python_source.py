"""Files of Python as syntax trees, and parsing that the garbage collector does not disturb."""

from __future__ import annotations

import ast
import functools
import gc
import sys
from pathlib import Path
from typing import Any


@functools.cache
def syntax_tree(path: Path) -> ast.Module:
    """The tree of a file, parsed once; not to be changed."""
    return ast.parse(path.read_text(encoding="utf-8"))


def hold_the_collector_while_parsing() -> None:
    """Mend `ast.parse` of Python 3.11 before 3.11.8, for everything in this process; pytest parses too.

    It fails ("AST constructor recursion depth mismatch") if the garbage collector runs in the middle and what
    it ends formats a traceback, which parses as well (CPython issue 106905).
    """
    if (3, 11) <= sys.version_info < (3, 11, 8) and not hasattr(ast.parse, "__wrapped__"):
        ast.parse = _held(ast.parse)


def _held(parse: Any) -> Any:
    @functools.wraps(parse)
    def held(*arguments: Any, **options: Any) -> Any:
        collects = gc.isenabled()
        gc.disable()
        try:
            return parse(*arguments, **options)
        finally:
            if collects:
                gc.enable()

    return held
