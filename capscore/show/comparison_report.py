"""Systems that were compared → an HTML page: the table of a paper, differences, photos that differ most."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..comparing.comparison import Comparison, column_title, interval_text, p_text
from ..comparing.published_order import agreement_parts
from ..comparing.systems import SystemScores
from ..errors import InputError
from ..files.columns import columns_of, read_inputs
from ..files.image_folder import ImageFolder
from ..files.row_source import CHUNK_ROWS, RowSource
from ..files.write import write_text
from ..metrics.loading import component_of
from ..options import RowOptions
from ..registry import METRICS
from ..statistics.systems import SystemComparison
from ..tables import fixed, photo_name, shown_caption, signed
from .pages import picture_of, references_of, render

PHOTOS_SHOWN = 4
"""Number of photos on which a system is furthest above, and furthest below, the baseline."""


@dataclass(frozen=True)
class Bar:
    """A difference and its interval on a scale from 0 to 100, with no difference at 50; None without one."""

    system: str
    at: float
    low: float | None
    high: float | None
    text: str
    p_value: str


@dataclass
class Card:
    """A photo, and what is said of it: system → caption, and system → its score, as text."""

    photo: str
    language: str
    picture: tuple[str, int, int] | None
    references: Sequence[str]
    captions: dict[str, str]
    scores: dict[str, str]


def write_comparison_report(path: Path, read: SystemScores, found: Comparison) -> None:
    """Write the page about systems that were compared; photos behind URLs are not fetched."""
    metric = _metric_of_photos(read)
    baseline = found.metrics[metric][0].baseline
    lists: dict[str, list[int]] = {}
    for other in found.metrics[metric][0].differences:
        apart = read.scores[metric][other.system] - read.scores[metric][baseline]
        if not found.metrics[metric][0].higher_is_better:
            apart = -apart
        better = [row for row in np.argsort(-apart, kind="stable") if apart[row] > 0]
        worse = [row for row in np.argsort(apart, kind="stable") if apart[row] < 0]
        lists[f"{other.system} is better than {baseline}"] = better[:PHOTOS_SHOWN]
        lists[f"{baseline} is better than {other.system}"] = worse[:PHOTOS_SHOWN]
    shown = {row for rows in lists.values() for row in rows}
    table = found.table()
    languages = {}
    for name, parts in found.metrics.items():
        if len(parts) > 1:
            languages[column_title(name)] = found.by_language(name)
    page = render(
        "comparison_report.html",
        title=f"{len(found.systems)} systems compared",
        table=table.table(),
        caption=table.caption,
        signatures=table.signatures,
        notes=found.notes,
        charts={column_title(name): bars(parts[0]) for name, parts in found.metrics.items()},
        baseline=baseline,
        languages=languages,
        orders=[*agreement_parts(found.orders)],
        metric=column_title(metric),
        lists=lists,
        cards=_cards(read, metric, shown),
    )
    write_text(path, page, "report")


def _metric_of_photos(read: SystemScores) -> str:
    """The metric whose scores say on which photos systems differ: one that looks at them, if there is one."""
    names = [*read.statistics]
    looking = []
    for name in names:
        kind = METRICS.find(component_of(name)[0])
        if kind is not None and kind.needs_images:
            looking.append(name)
    of_rows = [name for name in names if not any(part.of_corpus for part in read.statistics[name].values())]
    return (looking or of_rows or names)[0]


def bars(comparison: SystemComparison) -> list[Bar]:
    """The differences to the baseline, drawn on one scale."""
    ends = [abs(other.difference) for other in comparison.differences]
    for other in comparison.differences:
        if other.interval is not None:
            ends += [abs(other.interval.low), abs(other.interval.high)]
    widest = max(ends, default=0.0) or 1.0

    def place(value: float) -> float:
        return round(50 + 48 * value / widest, 2)

    found = []
    for other in comparison.differences:
        low = high = None
        text, p_value = signed(other.difference), "–"
        if other.interval is not None:
            low, high = place(other.interval.low), place(other.interval.high)
            text += f" ({interval_text(other.interval)})"
        if other.p_value_holm is not None:
            p_value = p_text(other.p_value_holm, comparison.confidence)
        found.append(Bar(other.system, place(other.difference), low, high, text, p_value))
    return found


def _cards(read: SystemScores, metric: str, rows: set[int]) -> dict[int, Card]:
    """What the page shows of rows, read again from the files: the first has photos and references."""
    cards: dict[int, Card] = {}
    for row in rows:
        language = read.rows.languages[row] if read.rows.languages else ""
        photo = read.rows.photos[row] if read.rows.photos else ""
        scores = {name: fixed(float(found[row]), 3) for name, found in read.scores[metric].items()}
        cards[row] = Card(photo_name(photo), language, None, (), {}, scores)
    for system, source in read.sources.items():
        place = {read.rows.numbers[system][row]: cards[row] for row in rows}
        with suppress(InputError):  # a file of scores without captions
            _add_texts(system, source, read.options, place)
    return cards


def _add_texts(system: str, source: RowSource, options: RowOptions, cards: dict[int, Card]) -> None:
    """Add a system's captions to the cards, by the row's number in its file; photos where they lack them."""
    names = columns_of(source, options)
    folder = ImageFolder(Path(options.images or source.folder), allow_urls=False)
    for chunk in source.chunks(CHUNK_ROWS):
        numbers = [number for number in range(chunk.start, chunk.start + len(chunk)) if number in cards]
        if not numbers:
            continue
        inputs = read_inputs(chunk, source, names, folder)
        for number in numbers:
            card, row = cards[number], number - chunk.start
            card.captions[system] = shown_caption(inputs.candidates[row])
            card.references = card.references or references_of(inputs, row)
            card.picture = card.picture or picture_of(inputs, row)
