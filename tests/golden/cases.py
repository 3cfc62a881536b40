"""All cases, in the order in which they are run and written."""

from __future__ import annotations

from . import (  # noqa: F401
    of_benchmarks,
    of_languages,
    of_metrics,
    of_protocols,
    of_training,
)
from .table import CASES, Case

__all__ = ["CASES", "Case"]
