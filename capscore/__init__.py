"""Automatic evaluation of image captions, in every language.

    >>> import capscore
    >>> scorer = capscore.load("mcs", backbone="embedded")        # doctest: +SKIP
    >>> scorer.score(["a cat on a mat"], ["cat.jpg"]).mean         # doctest: +SKIP

Nothing heavy is imported until a scorer is loaded.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# name → the module that has it; imported when first asked for
_LAZY = {
    "Backbone": "backbones.base",
    "BackboneUnavailable": "errors",
    "CacheWarning": "errors",
    "CaptionModule": "evaluate_module",
    "CapscoreError": "errors",
    "EmbeddingCache": "cache",
    "ImageError": "errors",
    "InputError": "errors",
    "LanguageWarning": "errors",
    "MissingExtraError": "errors",
    "ResultWriteError": "errors",
    "Scorer": "scorers.base",
    "Scores": "scorers.base",
    "TruncationWarning": "errors",
    "load": "scorers",
    "load_backbone": "backbones",
    "load_image": "images",
    "module_folder": "shipped",
}
_MODULES = (
    "backbones",
    "cache",
    "embedding",
    "errors",
    "evaluate_module",
    "images",
    "languages",
    "report",
    "scorers",
    "shipped",
    "signature",
)

__all__ = [
    "Backbone",
    "BackboneUnavailable",
    "CacheWarning",
    "CapscoreError",
    "CaptionModule",
    "EmbeddingCache",
    "ImageError",
    "InputError",
    "LanguageWarning",
    "MissingExtraError",
    "ResultWriteError",
    "Scorer",
    "Scores",
    "TruncationWarning",
    "__version__",
    "load",
    "load_backbone",
    "load_image",
    "module_folder",
]

if TYPE_CHECKING:
    from .backbones import load_backbone
    from .backbones.base import Backbone
    from .cache import EmbeddingCache
    from .errors import (
        BackboneUnavailable,
        CacheWarning,
        CapscoreError,
        ImageError,
        InputError,
        LanguageWarning,
        MissingExtraError,
        ResultWriteError,
        TruncationWarning,
    )
    from .evaluate_module import CaptionModule
    from .images import load_image
    from .scorers import load
    from .scorers.base import Scorer, Scores
    from .shipped import module_folder


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY, *_MODULES])
