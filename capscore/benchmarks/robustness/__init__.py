"""Robustness of metrics, end to end: captions and photos in, the drops of Kim et al. 2023 (PR-MCS) out.

`captions` reads captions from a benchmark or a file; `run` perturbs, scores and counts;
`styles_and_degrees` scores right captions in other styles, and captions with more and more noise.
"""

from .captions import CaptionSet, benchmark_captions, file_captions
from .run import RobustnessOptions, RobustnessRun, run_robustness

__all__ = [
    "CaptionSet",
    "RobustnessOptions",
    "RobustnessRun",
    "benchmark_captions",
    "file_captions",
    "run_robustness",
]
