"""Runs benchmarks: a metric, or scores from a file, and a benchmark's files → the numbers of a table.

`tasks` says what is scored and which numbers the scores give; `run` runs one benchmark, `suite` a folder of
them; `score_table` reads scores that others computed. `data` reads the benchmarks' files, `protocols` has the
formulas, `robustness` perturbs captions before scoring, `systems` compares captioning systems.
"""

from .run import BenchmarkRun, MetricResult, run_benchmark
from .suite import SUITES, SuiteRun, run_suite
from .tasks import Queries, Task, task_of

__all__ = [
    "SUITES",
    "BenchmarkRun",
    "MetricResult",
    "Queries",
    "SuiteRun",
    "Task",
    "run_benchmark",
    "run_suite",
    "task_of",
]
