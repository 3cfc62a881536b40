"""Automatic evaluation of image captions, in every language.

    >>> import capscore
    >>> scorer = capscore.load("mcs", backbone="embedded")        # doctest: +SKIP
    >>> scorer.score(["a cat on a mat"], ["cat.jpg"]).mean         # doctest: +SKIP

Nothing heavy is imported until a scorer is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .files.former_names import FORMER_NAMES, answer_to_former_names
from .files.lazy import lazy_attributes

__version__ = "0.6.0"

answer_to_former_names(__name__)

# name → the module that has it; imported when first asked for
_LAZY = {
    "AnnotationError": "benchmark.data.annotation_files",
    "AnnotationFile": "benchmark.data.builder",
    "Backbone": "backbones.base",
    "BackboneUnavailable": "errors",
    "BenchmarkConfig": "benchmark.data.builder",
    "BenchmarkWarning": "benchmark.data.builder",
    "CacheWarning": "errors",
    "CapscoreError": "errors",
    "CaptionBenchmark": "benchmark.data.builder",
    "CaptionModule": "scorers.evaluate_module",
    "CorpusWarning": "errors",
    "EmbeddingCache": "embedding.cache",
    "ImageError": "errors",
    "ImageFolders": "benchmark.data.builder",
    "InputError": "errors",
    "LanguageWarning": "errors",
    "MissingAnnotations": "benchmark.data.annotation_files",
    "MissingExtraError": "errors",
    "MissingImages": "benchmark.data.builder",
    "RecipeWarning": "errors",
    "RegionWarning": "errors",
    "ResultWriteError": "errors",
    "Scorer": "scorers.base",
    "Scores": "scorers.base",
    "TruncationWarning": "errors",
    "benchmark_folder": "files.shipped",
    "benchmark_slugs": "files.shipped",
    "compare_systems": "scorers.systems",
    "load": "scorers",
    "load_backbone": "backbones",
    "load_benchmark": "benchmark.data.load",
    "load_image": "images.load",
    "module_folder": "files.shipped",
    "score_stream": "scorers.stream",
}
# rooms that answer as attributes once capscore is imported
_ROOMS = (
    "backbones",
    "benchmark",
    "embedding",
    "errors",
    "files",
    "images",
    "infometic",
    "perturbations",
    "ray",
    "scorers",
    "show",
    "statistics",
    "text",
    "translation",
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
    "compare_systems",
    "load",
    "load_backbone",
    "load_benchmark",
    "load_image",
    "module_folder",
    "score_stream",
]

if TYPE_CHECKING:
    from .backbones import load_backbone
    from .backbones.base import Backbone
    from .benchmark.data.annotation_files import AnnotationError, MissingAnnotations
    from .benchmark.data.builder import (
        AnnotationFile,
        BenchmarkConfig,
        BenchmarkWarning,
        CaptionBenchmark,
        ImageFolders,
        MissingImages,
    )
    from .benchmark.data.load import load_benchmark
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
        ResultWriteError,
        TruncationWarning,
    )
    from .files.shipped import benchmark_folder, benchmark_slugs, module_folder
    from .images.load import load_image
    from .scorers import load
    from .scorers.base import Scorer, Scores
    from .scorers.evaluate_module import CaptionModule
    from .scorers.stream import score_stream
    from .scorers.systems import compare_systems


__getattr__, __dir__ = lazy_attributes(__name__, _LAZY, modules=(*_ROOMS, *FORMER_NAMES))
