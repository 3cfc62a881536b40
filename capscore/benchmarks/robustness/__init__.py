"""Robustness of metrics, end to end: captions and photos in, the tables of Kim et al. 2023 (PR-MCS) out.

`captions` reads captions from a benchmark or a file; `stand_in` picks the tower that embeds a text in place
of a photo; `run` perturbs, scores and counts; `agreement` correlates with ratings without photos; `table`
puts runs side by side. `capscore.show` prints and draws them.
"""

from __future__ import annotations

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
