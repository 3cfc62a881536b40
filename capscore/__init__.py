"""Automatic evaluation of image captions, in every language.

    >>> import capscore
    >>> scorer = capscore.load("mcs", backbone="embedded")        # doctest: +SKIP
    >>> scorer.score(["a cat on a mat"], ["cat.jpg"]).mean         # doctest: +SKIP

Nothing heavy is imported until a scorer is loaded.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.12.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())

# name → the module that has it; imported when first asked for
_LAZY = {
    "AnnotationError": "benchmarks.data.annotation_files",
    "AnnotationFile": "benchmarks.data.annotation_files",
    "Backbone": "backbones.base",
    "BackboneUnavailable": "errors",
    "BenchmarkConfig": "benchmarks.data.builder",
    "BenchmarkWarning": "benchmarks.data.builder",
    "CacheWarning": "errors",
    "CapscoreError": "errors",
    "CaptionBenchmark": "benchmarks.data.builder",
    "CaptionModule": "metrics.evaluate_module",
    "CorpusWarning": "errors",
    "EmbeddingCache": "embedding.cache",
    "ImageError": "errors",
    "ImageFolders": "benchmarks.data.builder",
    "InputError": "errors",
    "LanguageWarning": "errors",
    "MissingAnnotations": "benchmarks.data.annotation_files",
    "MissingExtraError": "errors",
    "MissingImages": "benchmarks.data.builder",
    "RecipeWarning": "errors",
    "RegionWarning": "errors",
    "ResultWriteError": "errors",
    "RowWarning": "errors",
    "Scorer": "metrics.base",
    "Scores": "metrics.scores",
    "TruncationWarning": "errors",
    "Battles": "comparing.battles",
    "battles": "comparing.battles",
    "benchmark": "benchmarks.run",
    "benchmark_folder": "files.shipped",
    "benchmark_slugs": "files.shipped",
    "Comparison": "comparing",
    "ScoredFile": "scoring.files",
    "calibrate": "scoring.calibrating",
    "compare": "comparing",
    "compare_systems": "comparing",
    "explain": "show.explanation",
    "hallucinated": "metrics.hallucinated",
    "load": "metrics",
    "load_backbone": "backbones.loading",
    "load_benchmark": "benchmarks.data.load",
    "load_image": "images.load",
    "module_folder": "files.shipped",
    "perturb": "perturbations.perturbed_file",
    "read_rows": "files.references",
    "robustness": "benchmarks.robustness.run",
    "score_file": "scoring.files",
    "score_stream": "scoring.streams",
}

__all__ = [
    "AnnotationError",
    "AnnotationFile",
    "Backbone",
    "BackboneUnavailable",
    "Battles",
    "BenchmarkConfig",
    "BenchmarkWarning",
    "CacheWarning",
    "CapscoreError",
    "CaptionBenchmark",
    "CaptionModule",
    "Comparison",
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
    "RowWarning",
    "ScoredFile",
    "Scorer",
    "Scores",
    "TruncationWarning",
    "__version__",
    "battles",
    "benchmark",
    "benchmark_folder",
    "benchmark_slugs",
    "calibrate",
    "compare",
    "compare_systems",
    "explain",
    "hallucinated",
    "load",
    "load_backbone",
    "load_benchmark",
    "load_image",
    "module_folder",
    "perturb",
    "read_rows",
    "robustness",
    "score_file",
    "score_stream",
]

if TYPE_CHECKING:
    from .backbones.base import Backbone
    from .backbones.loading import load_backbone
    from .benchmarks.data.annotation_files import AnnotationError, AnnotationFile, MissingAnnotations
    from .benchmarks.data.builder import (
        BenchmarkConfig,
        BenchmarkWarning,
        CaptionBenchmark,
        ImageFolders,
        MissingImages,
    )
    from .benchmarks.data.load import load_benchmark
    from .benchmarks.robustness.run import robustness
    from .benchmarks.run import benchmark
    from .comparing import Comparison, compare, compare_systems
    from .comparing.battles import Battles, battles
    from .embedding.cache import EmbeddingCache
    from .errors import (
        BackboneUnavailable,
        CacheWarning,
        CapscoreError,
        CorpusWarning,
        ImageError,
        InputError,
        LanguageWarning,
        MissingExtraError,
        RecipeWarning,
        RegionWarning,
        ResultWriteError,
        RowWarning,
        TruncationWarning,
    )
    from .files.references import read_rows
    from .files.shipped import benchmark_folder, benchmark_slugs, module_folder
    from .images.load import load_image
    from .metrics import load
    from .metrics.base import Scorer
    from .metrics.evaluate_module import CaptionModule
    from .metrics.hallucinated import hallucinated
    from .metrics.scores import Scores
    from .perturbations.perturbed_file import perturb
    from .scoring.calibrating import calibrate
    from .scoring.files import ScoredFile, score_file
    from .scoring.streams import score_stream
    from .show.explanation import explain


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
