"""Runs benchmarks: a metric, or scores from a file, and a benchmark's files → the numbers of a table.

`tasks` says what is scored and which numbers the scores give; `reading` finds benchmarks and reads their
rows, `run` measures, `results` shows. `data` reads the benchmarks' files, `protocols` has the formulas.
"""

from .results import BenchmarkResults, BenchmarkRun, MetricResult
from .run import benchmark
from .tasks import Queries, Task, TaskOptions, task_of

__all__ = [
    "BenchmarkResults",
    "BenchmarkRun",
    "MetricResult",
    "Queries",
    "Task",
    "TaskOptions",
    "benchmark",
    "task_of",
]
