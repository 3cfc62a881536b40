"""The public names of capscore, each with the module that has it; `__init__.py` imports them when asked."""

from .backbones import load_backbone as load_backbone
from .backbones.base import Backbone as Backbone
from .benchmarks.data.annotation_files import AnnotationError as AnnotationError
from .benchmarks.data.annotation_files import AnnotationFile as AnnotationFile
from .benchmarks.data.annotation_files import MissingAnnotations as MissingAnnotations
from .benchmarks.data.builder import BenchmarkConfig as BenchmarkConfig
from .benchmarks.data.builder import BenchmarkWarning as BenchmarkWarning
from .benchmarks.data.builder import CaptionBenchmark as CaptionBenchmark
from .benchmarks.data.builder import ImageFolders as ImageFolders
from .benchmarks.data.builder import MissingImages as MissingImages
from .benchmarks.data.load import load_benchmark as load_benchmark
from .benchmarks.robustness.run import robustness as robustness
from .benchmarks.run import benchmark as benchmark
from .comparing import Comparison as Comparison
from .comparing import compare as compare
from .comparing import compare_systems as compare_systems
from .comparing.battles import Battles as Battles
from .comparing.battles import battles as battles
from .embedding.cache import EmbeddingCache as EmbeddingCache
from .errors import BackboneUnavailable as BackboneUnavailable
from .errors import CacheWarning as CacheWarning
from .errors import CapscoreError as CapscoreError
from .errors import CorpusWarning as CorpusWarning
from .errors import ImageError as ImageError
from .errors import InputError as InputError
from .errors import LanguageWarning as LanguageWarning
from .errors import MissingExtraError as MissingExtraError
from .errors import RecipeWarning as RecipeWarning
from .errors import RegionWarning as RegionWarning
from .errors import ResultWriteError as ResultWriteError
from .errors import RowWarning as RowWarning
from .errors import TruncationWarning as TruncationWarning
from .files.references import read_rows as read_rows
from .files.shipped import benchmark_folder as benchmark_folder
from .files.shipped import benchmark_slugs as benchmark_slugs
from .files.shipped import module_folder as module_folder
from .images.load import load_image as load_image
from .metrics import load as load
from .metrics.base import Scorer as Scorer
from .metrics.evaluate_module import CaptionModule as CaptionModule
from .metrics.hallucinated import hallucinated as hallucinated
from .metrics.scores import Scores as Scores
from .perturbations.perturbed_file import perturb as perturb
from .scoring.calibrating import calibrate as calibrate
from .scoring.files import ScoredFile as ScoredFile
from .scoring.files import score_file as score_file
from .scoring.streams import score_stream as score_stream
from .show.explanation import explain as explain

__all__: list[str]
__version__: str
