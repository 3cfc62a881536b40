"""Robustness of metrics, end to end: captions and photos in, the drops of Kim et al. 2023 (PR-MCS) out."""

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
