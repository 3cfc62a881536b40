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
    "AnnotationError": "annotation_files",
    "AnnotationFile": "benchmark_builder",
    "Backbone": "backbones.base",
    "BackboneUnavailable": "errors",
    "BenchmarkConfig": "benchmark_builder",
    "BenchmarkWarning": "benchmark_builder",
    "CacheWarning": "errors",
    "CaptionBenchmark": "benchmark_builder",
    "CaptionModule": "evaluate_module",
    "CapscoreError": "errors",
    "CorpusWarning": "errors",
    "EmbeddingCache": "cache",
    "ImageError": "errors",
    "ImageFolders": "benchmark_builder",
    "InputError": "errors",
    "LanguageWarning": "errors",
    "MissingAnnotations": "annotation_files",
    "MissingExtraError": "errors",
    "MissingImages": "benchmark_builder",
    "ResultWriteError": "errors",
    "Scorer": "scorers.base",
    "Scores": "scorers.base",
    "RecipeWarning": "errors",
    "RegionWarning": "errors",
    "TruncationWarning": "errors",
    "benchmark_folder": "shipped",
    "benchmark_slugs": "shipped",
    "load": "scorers",
    "load_backbone": "backbones",
    "load_benchmark": "data_sets",
    "load_image": "images",
    "module_folder": "shipped",
}
_MODULES = (
    "agreement",
    "annotation_files",
    "backbones",
    "benchmark",
    "benchmark_builder",
    "bleu",
    "cache",
    "cider",
    "correlation",
    "data_check",
    "data_export",
    "data_sets",
    "embedding",
    "errors",
    "evaluate_module",
    "images",
    "infometic",
    "languages",
    "protocols",
    "ptb",
    "published",
    "report",
    "rouge_l",
    "scorers",
    "segmentation",
    "shipped",
    "signature",
)

__all__ = [
    "AnnotationError",
    "AnnotationFile",
    "Backbone",
    "BackboneUnavailable",
    "BenchmarkConfig",
    "BenchmarkWarning",
    "CacheWarning",
    "CapscoreError",
    "CaptionBenchmark",
    "CaptionModule",
    "CorpusWarning",
    "EmbeddingCache",
    "ImageError",
    "ImageFolders",
    "InputError",
    "LanguageWarning",
    "MissingAnnotations",
    "MissingExtraError",
    "MissingImages",
    "RecipeWarning",
    "RegionWarning",
    "ResultWriteError",
    "Scorer",
    "Scores",
    "TruncationWarning",
    "__version__",
    "benchmark_folder",
    "benchmark_slugs",
    "load",
    "load_backbone",
    "load_benchmark",
    "load_image",
    "module_folder",
]

if TYPE_CHECKING:
    from .annotation_files import AnnotationError, MissingAnnotations
    from .backbones import load_backbone
    from .backbones.base import Backbone
    from .benchmark_builder import (
        AnnotationFile,
        BenchmarkConfig,
        BenchmarkWarning,
        CaptionBenchmark,
        ImageFolders,
        MissingImages,
    )
    from .cache import EmbeddingCache
    from .data_sets import load_benchmark
    from .errors import (
        BackboneUnavailable,
        CacheWarning,
        CapscoreError,
        CorpusWarning,
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
    from .shipped import benchmark_folder, benchmark_slugs, module_folder


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
