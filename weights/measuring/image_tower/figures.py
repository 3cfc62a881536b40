"""The figures of a backbone: one `Figure` per number, or per thing that could not be measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from capscore.errors import CapscoreError

from ..intervals import Share

# what may be chosen with --only → heading in the tables
GROUPS = {
    "retrieval": "Text → image",
    "expert": "Flickr8k-Expert",
    "crowdflower": "Flickr8k-CF",
    "pascal50s": "Pascal-50S",
    "vicr": "VICR",
    "demo": "The demo's photos",
    "speed": "Speed",
}


@dataclass(frozen=True)
class PublishedFigure:
    """A printed value to compare with, in the figure's own unit."""

    metric: str
    backbone: str
    value: float
    source: str


@dataclass(frozen=True)
class Figure:
    """One measured number, or what could not be measured and why.

    Attributes:
        key: Unique name, such as "retrieval/flickr8k_test/en/r@5".
        title: Name in the tables.
        value: The number; None if it is missing or undefined.
        interval: Ends of its bootstrap interval; None without one.
        n: Number of captions, ratings, pairs or photos behind it.
        n_of: What n counts.
        unit: "percent", "pairs" of n, "score", "photos/s" or "ratio".
        resampled: What the bootstrap draws; "" without an interval.
        signature: Everything that the scores depend on.
        published: Printed values of the same measure.
        note: What a reader has to know.
        missing: Why it is not measured; "" if it is.
    """

    key: str
    title: str
    value: float | None = None
    interval: tuple[float, float] | None = None
    n: int = 0
    n_of: str = ""
    unit: str = "percent"
    resampled: str = ""
    signature: str = ""
    published: tuple[PublishedFigure, ...] = ()
    note: str = ""
    missing: str = ""

    @property
    def group(self) -> str:
        """The group that the figure belongs to, a key of `GROUPS`."""
        return self.key.partition("/")[0]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


@dataclass
class Report:
    """Everything measured of one backbone.

    Attributes:
        name: Name that the user gave.
        signature: Everything that the backbone's embeddings and scores depend on.
        figures: Figures, in the order of the tables.
    """

    name: str
    signature: dict[str, Any] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)

    @contextmanager
    def noting(self, key: str, title: str) -> Iterator[None]:
        """Where the block cannot be measured, a figure says why, and the next block goes on."""
        try:
            yield
        except CapscoreError as error:
            self.figures.append(Figure(key, title, missing=str(error)))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "name": self.name,
            "backbone": self.signature,
            "measures": [figure.to_dict() for figure in self.figures],
        }


def of_share(
    key: str, title: str, share: Share, *, times: float = 100.0, resampled: str = "photos", **others: Any
) -> Figure:
    """A figure of a share with its interval, both multiplied: by 100 for percent."""
    ends = None if share.interval is None else (times * share.interval[0], times * share.interval[1])
    return Figure(
        key,
        title,
        None if share.value is None else times * share.value,
        ends,
        resampled="" if ends is None else resampled,
        **others,
    )
