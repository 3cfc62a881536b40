"""What perturbations do to a metric, end to end: captions and photos in, the tables of PR-MCS out.

`captions` reads what is scored, from a benchmark or a file; `stand_in` says which tower embeds a text that
stands for a photo; `run` perturbs, scores and counts; `table` puts runs side by side; `present` and `figure`
show them.
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
