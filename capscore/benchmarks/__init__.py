"""Runs benchmarks: a metric, or scores from a file, and a benchmark's files → the numbers of a table.

`tasks` says what is scored and which numbers the scores give; `run` runs one benchmark, `suite` a folder of
them; `score_table` reads scores that others computed. `data` reads the benchmarks' files, `protocols` has the
formulas, `robustness` perturbs captions before scoring. Nothing is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..files.lazy import lazy_attributes

if TYPE_CHECKING:
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

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "BenchmarkRun": "run",
        "MetricResult": "run",
        "Outcome": "tasks",
        "Queries": "tasks",
        "SUITES": "suite",
        "Statistic": "tasks",
        "SuiteRun": "suite",
        "Task": "tasks",
        "run_benchmark": "run",
        "run_suite": "suite",
        "task_of": "tasks",
    },
    modules=(
        "data",
        "protocols",
        "published",
        "robustness",
    ),
)
