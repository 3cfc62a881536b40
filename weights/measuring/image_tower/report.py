"""Figures of backbones, one per number or per thing that could not be measured → one table in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from capscore.errors import CapscoreError

from ..figures import Share, table

# what may be chosen with --only → heading in the table
GROUPS = {
    "retrieval": "Text → image",
    "expert": "Flickr8k-Expert",
    "crowdflower": "Flickr8k-CF",
    "pascal50s": "Pascal-50S",
    "vicr": "VICR",
    "speed": "Speed",
}
_FORMATS = {"percent": ".1f", "photos/s": ".3g", "ratio": ".3g"}
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class PublishedFigure:
    """A printed value to compare with, in the figure's own unit."""

    metric: str
    backbone: str
    value: float
    source: str


@dataclass(frozen=True)
class Figure:
    """One measured number, or what could not be measured and why."""

    key: str  # unique, such as "retrieval/flickr8k_test/en/r@5"; it begins with a key of `GROUPS`
    title: str
    value: float | None = None  # None if it is missing or undefined
    interval: tuple[float, float] | None = None
    n: int = 0
    n_of: str = ""  # captions, ratings, pairs or photos
    unit: str = "percent"  # or "photos/s", "ratio"
    resampled: str = ""  # what the bootstrap draws
    signature: str = ""  # everything that the scores depend on
    published: tuple[PublishedFigure, ...] = ()
    note: str = ""
    missing: str = ""  # why it is not measured


def of_share(
    key: str, title: str, share: Share, *, times: float = 100.0, resampled: str = "photos", **others: Any
) -> Figure:
    """A figure of a share with its interval, both multiplied: by 100 for percent."""
    ends = None if share.interval is None else (times * share.interval[0], times * share.interval[1])
    value = None if share.value is None else times * share.value
    return Figure(key, title, value, ends, resampled="" if ends is None else resampled, **others)


@dataclass
class Report:
    """Everything measured of one backbone; `signature` is what its embeddings and scores depend on."""

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


def number(figure: Figure | None) -> str:
    """The value and its interval, as the table prints them.

    >>> number(Figure("expert/mcs/tau_c", "MCS", 40.13, (38.7, 41.54)))
    '40.1 [38.7–41.5]'
    >>> number(Figure("speed/alone", "photos a second", 41.26, (9.5, 123.4), unit="photos/s"))
    '41.3 [9.5–123]'
    """
    if figure is None:
        return "–"
    if figure.missing:
        return NOT_MEASURED
    if figure.value is None:
        return "undefined"
    form = _FORMATS[figure.unit]
    shown = f"{figure.value:{form}}"
    if figure.interval is not None:
        shown += " [{}]".format("–".join(f"{end:{form}}" for end in figure.interval))
    return shown.replace("-", "−")


def _published(figures: Sequence[Figure]) -> str:
    """Printed values of all figures in a row, those of one metric together."""
    values: dict[str, list[float]] = {}
    for figure in figures:
        for entry in figure.published:
            values.setdefault(entry.metric, []).append(entry.value)
    return ", ".join(
        f"{metric} " + "–".join(f"{value:.1f}" for value in sorted({min(some), max(some)}))
        for metric, some in values.items()
    )


def markdown(reports: Sequence[Report]) -> str:
    """One table of all groups in Markdown, and what a reader of it has to know."""
    by_key = [{figure.key: figure for figure in report.figures} for report in reports]
    keys = list(dict.fromkeys(figure.key for report in reports for figure in report.figures))
    rows, remarks = [], []
    for group, heading in GROUPS.items():
        in_group = [key for key in keys if key.partition("/")[0] == group]
        if in_group:
            rows.append([f"**{heading}**", *[""] * (len(reports) + 2)])
        for key in in_group:
            cells = [figures.get(key) for figures in by_key]
            known = [figure for figure in cells if figure is not None]
            title = known[0].title
            reasons = dict.fromkeys(figure.missing for figure in known)
            if "" not in reasons:
                said = f"{title} — {NOT_MEASURED}: {'; '.join(reasons)}"
                rows.append([said, *[""] * (len(reports) + 2)])
                continue
            n = f"{max(figure.n for figure in known):,}"
            rows.append([title, n, *map(number, cells), _published(known)])
            remarks += [
                f"{report.name}, {figure.title}: {NOT_MEASURED}: {figure.missing}"
                for report, figure in zip(reports, cells, strict=True)
                if figure is not None and figure.missing
            ]
    heads = ["measure", "n", *(f"`{report.name}`" for report in reports), "published"]
    cleaned = [[" ".join(cell.replace("|", r"\|").split()) for cell in row] for row in [heads, *rows]]
    return "\n".join([table(cleaned[0], cleaned[1:], 1), "", *_scales(reports), *remarks]) + "\n"


def _scales(reports: Sequence[Report]) -> list[str]:
    figures = [figure for report in reports for figure in report.figures]
    # a draw of photos takes all their captions along
    drawn = dict.fromkeys(figure.resampled for figure in figures if figure.resampled)
    units = ["photos with all their captions" if unit == "photos" else unit for unit in drawn]
    lines = ["τ, ρ, R@k and accuracies are times 100."]
    if units:
        lines[0] += (
            f" In brackets: 95 % bootstrap intervals, which draw {' or '.join(units)}; in retrieval the "
            "ranked photos stay the same."
        )
    if any(figure.published for figure in figures):
        lines.append("Published: values with OpenAI's ViT-B/32, on all rows of a set.")
    return lines
