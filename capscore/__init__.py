"""Automatic evaluation of image captions, in every language.

    >>> import capscore
    >>> scorer = capscore.load("mcs", backbone="embedded")        # doctest: +SKIP
    >>> scorer.score(["a cat on a mat"], ["cat.jpg"]).mean         # doctest: +SKIP

Nothing heavy is imported until a scorer is loaded.
"""

from __future__ import annotations

import ast
import logging
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "1.0.0rc1"

logging.getLogger(__name__).addHandler(logging.NullHandler())


def _public_names() -> dict[str, str]:
    """Name → the module that has it, as `__init__.pyi` says for readers, editors and mypy."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    found = {}
    for line in stub.body:
        if isinstance(line, ast.ImportFrom):
            found |= dict.fromkeys((name.name for name in line.names), f".{line.module}")
    return found


_LAZY = _public_names()
__all__ = [*sorted(_LAZY), "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_LAZY[name], __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
