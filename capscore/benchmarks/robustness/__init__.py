"""Robustness of metrics, end to end: captions and photos in, the drops of Kim et al. 2023 (PR-MCS) out.

`captions` reads captions from a benchmark or a file; `run` perturbs, scores and counts; `alarms` scores right
captions in other styles, `degrees` captions with more and more noise; `stand_in` has texts stand for photos.
"""

from .captions import CaptionSet, benchmark_captions, file_captions
from .run import MetricRobustness, RobustnessOptions, RobustnessRun, run_robustness

__all__ = [
    "CaptionSet",
    "MetricRobustness",
    "RobustnessOptions",
    "RobustnessRun",
    "benchmark_captions",
    "file_captions",
    "run_robustness",
]
