"""Benchmarks end to end: a metric or somebody's scores, and a benchmark's files → the numbers of a table.

`tasks` says what is scored and what is made of the scores; `run` does it; `suite` does it for a folder of
benchmarks; `score_table` reads scores that others computed; `present` and `figure` show what came out.
"""

from __future__ import annotations

from .run import BenchmarkRun, MetricResult, run_benchmark
from .suite import SUITES, SuiteRun, run_suite
from .tasks import Outcome, Queries, Statistic, Task, task_of

__all__ = [
    "SUITES",
    "BenchmarkRun",
    "MetricResult",
    "Outcome",
    "Queries",
    "Statistic",
    "SuiteRun",
    "Task",
    "run_benchmark",
    "run_suite",
    "task_of",
]
