"""What every protocol gives back: numbers that can be printed as rows and written as JSON.

In: the fields of a frozen dataclass. Out: `to_dict()` with plain Python values, `table()` with rows of name,
value and count; None stands for a number that the rows cannot give, and `notes` says why.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...statistics.bootstrap import Interval


class Statistic(NamedTuple):
    """One number of a protocol's table.

    Attributes:
        name: such as "accuracy_hc", "image_to_text_r@1" or "pearson_total_without_human".
        value: a share in [0, 1] or a correlation in [-1, 1]; None where there is none, and `notes` says why.
        interval: ends of its bootstrap interval; None if none was asked for.
        n: comparisons, captions or queries that it rests on.
    """

    name: str
    value: float | None
    interval: tuple[float, float] | None
    n: int


class ProtocolResult(ABC):
    """Parent of the results. A subclass is a frozen dataclass and names its protocol."""

    protocol: ClassVar[str]
    notes: tuple[str, ...]

    @abstractmethod
    def statistics(self) -> list[Statistic]:
        """The numbers, those that the published table has and their averages."""

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """What was compared and what was left out: words → number."""

    def table(self) -> list[tuple[str, float | None, int]]:
        """Rows of name, value (None where there is none), and how many comparisons or rows it rests on."""
        return [(name.replace("_", " "), value, n) for name, value, _, n in self.statistics()]

    def to_dict(self) -> dict[str, Any]:
        """Plain floats, lists and strings, ready for JSON; None stands for a number that is not there."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {"protocol": self.protocol, **{name: plain(value) for name, value in fields.items()}}


def ends(interval: Interval | None) -> tuple[float, float] | None:
    """An interval's ends, for `Statistic`."""
    return None if interval is None else (interval.low, interval.high)


def plain(value: Any) -> Any:
    """The same value in types that JSON has; NaN becomes None.

    >>> plain({"r": np.float64(0.5), "counts": np.array([[1, 2]]), "interval": (0.4, float("nan"))})
    {'r': 0.5, 'counts': [[1, 2]], 'interval': [0.4, None]}
    """
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value


def counted(n: int, what: str, plural: str | None = None) -> str:
    """A number with its noun, for notes.

    >>> counted(1, "pair"), counted(2, "pair"), counted(1164, "query", "queries")
    ('1 pair', '2 pairs', '1,164 queries')
    """
    return f"{n:,} {what if n == 1 else plural or what + 's'}"
