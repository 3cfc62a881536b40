"""What every protocol returns: numbers to print as a table and to write as JSON.

In: the fields of a frozen dataclass. Out: `to_dict()` with plain Python values, `table()` with rows of name,
value and count. None marks a number that the rows cannot give; `notes` says why.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from ...statistics.bootstrap import Interval
from ...statistics.plain_values import plain


class Statistic(NamedTuple):
    """One number of a protocol's table.

    Attributes:
        name: Name such as "accuracy_hc", "image_to_text_r@1" or "pearson_total_without_human".
        value: Share in [0, 1] or correlation in [-1, 1]; None if undefined, and `notes` says why.
        interval: Ends of the bootstrap interval; None if none was asked for.
        n: Number of comparisons, captions or queries behind it.
    """

    name: str
    value: float | None
    interval: tuple[float, float] | None
    n: int


class ProtocolResult(ABC):
    """Parent of all results. A subclass is a frozen dataclass and names its protocol."""

    protocol: ClassVar[str]
    notes: tuple[str, ...]

    @abstractmethod
    def statistics(self) -> list[Statistic]:
        """The numbers of the published table, and their averages."""

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """Numbers of what was compared and what was left out, by what was counted."""

    def table(self) -> list[tuple[str, float | None, int]]:
        """Rows of name, value (None if undefined), and number of comparisons or rows behind it."""
        return [(name.replace("_", " "), value, n) for name, value, _, n in self.statistics()]

    def to_dict(self) -> dict[str, Any]:
        """Plain floats, lists and strings, ready for JSON; None marks an undefined number."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {"protocol": self.protocol, **{name: plain(value) for name, value in fields.items()}}


def ends(interval: Interval | None) -> tuple[float, float] | None:
    """The ends of an interval, for `Statistic`."""
    return None if interval is None else (interval.low, interval.high)


def counted(n: int, what: str, plural: str | None = None) -> str:
    """A number with its noun, for notes.

    >>> counted(1, "pair"), counted(2, "pair"), counted(1164, "query", "queries")
    ('1 pair', '2 pairs', '1,164 queries')
    """
    return f"{n:,} {what if n == 1 else plural or what + 's'}"


def notes_by_config(notes: Sequence[tuple[str, str]]) -> list[str]:
    """Notes of configurations, those that say the same of several as one.

    >>> notes_by_config([("de", "x (de, test) is short"), ("fr", "x (fr, test) is short"), ("fr", "late")])
    ['x (de, fr, test) is short', 'late']
    """
    found: dict[str, list[str]] = {}
    for config, note in notes:
        found.setdefault(note.replace(f"({config},", "({},"), []).append(config)
    return [note.replace("({},", f"({', '.join(configs)},") for note, configs in found.items()]
