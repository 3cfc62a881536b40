"""The table of cases: named functions of a `Place`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .place import Place
from .plain import TOLERANCE

Run = Callable[[Place], Any]


@dataclass(frozen=True)
class Case:
    """One named answer: a group, a slash, and what it is.

    Attributes:
        run: Function from a place to work in to the answer.
        tolerance: Difference that the processor's kernels may make, relative to the greater number or 1.
        needs: Whether it can be run here.
    """

    name: str
    run: Run
    tolerance: float = TOLERANCE
    needs: Callable[[], bool] = lambda: True


CASES: dict[str, Case] = {}
KERNELS = 2e-5  # what the kernels of processors move: InfoMetIC by up to 1.6e-5, regions by 5e-6


def case(name: str, **more: Any) -> Callable[[Run], Run]:
    """Write a function into the table; the arguments are those of `Case`."""

    def taken(run: Run) -> Run:
        assert name not in CASES, name
        CASES[name] = Case(name, run, **more)
        return run

    return taken


def all_cases() -> dict[str, Case]:
    """Every case, in the order in which they are run and written."""
    for group in ("benchmarks", "languages", "metrics", "protocols", "training"):
        importlib.import_module(f"{__package__}.of_{group}")
    return CASES
