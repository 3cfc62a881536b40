"""Robustness of metrics, end to end: captions and photos in, the drops of Kim et al. 2023 (PR-MCS) out.

`captions` reads captions from a benchmark or a file; `run` perturbs, scores and counts, also right captions
in other styles, and captions with more and more noise; `results` shows.
"""

from .captions import CaptionSet, benchmark_captions, file_captions
from .results import Robustness, RobustnessOptions, SetResult
from .run import robustness

__all__ = [
    "CaptionSet",
    "Robustness",
    "RobustnessOptions",
    "SetResult",
    "benchmark_captions",
    "file_captions",
    "robustness",
]
