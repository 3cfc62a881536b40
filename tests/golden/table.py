"""The table that cases are written into: a function of a `Place` in, a named case out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .place import Place

Run = Callable[[Place], Any]


@dataclass(frozen=True)
class Case:
    """One named answer.

    Attributes:
        name: group, a slash, and what it is.
        run: a place to work in → the answer.
        quick: whether the test suite runs it.
        needs: whether it can be run here.
    """

    name: str
    run: Run
    quick: bool = False
    needs: Callable[[], bool] = lambda: True


CASES: dict[str, Case] = {}


def case(name: str, *, quick: bool = False, needs: Callable[[], bool] = lambda: True) -> Callable[[Run], Run]:
    """Write a function into the table, under a name that is not taken."""

    def taken(run: Run) -> Run:
        if name in CASES:
            raise ValueError(f"two cases are called {name}")
        CASES[name] = Case(name, run, quick, needs)
        return run

    return taken
