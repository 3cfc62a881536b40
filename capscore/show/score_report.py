"""Scores of a file → an HTML page: distributions, languages, worst and best rows, and a table of all rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..files.columns import read_inputs
from ..files.row_source import CHUNK_ROWS
from ..files.write import write_text
from ..metrics.calibration import LIKELY_WRONG, RANKS
from ..tables import Table, counted, fixed, photo_name, shown_caption
from .pages import language_names, page_script, picture_of, references_of, render

if TYPE_CHECKING:
    from ..metrics.calibration import Standing
    from ..metrics.scores import Scores
    from ..scoring.files import ScoredFile

Card = dict[str, object]  # what a template shows
ROWS_SHOWN = 8
"""Number of rows in each list of the page."""
MAX_TABLE_ROWS = 20_000
"""Number of rows in the table of all rows; of more, it has the lowest."""
MAX_PAGES = 500
"""Number of pages that are listed; of more, those with most captions that are likely wrong."""
_BINS, _PERCENTS = 30, (5, 25, 50, 75, 95)


class Histogram(NamedTuple):
    """How scores are distributed: ends of the scale, numbers of scores in its bins, and heights, at most 1.

    The mean, and its place on the scale (0 to 1), are None without a score.
    """

    low: float
    high: float
    counts: Sequence[int]
    heights: Sequence[float]
    mean: float | None
    place: float | None


def write_score_report(path: Path, run: ScoredFile, sort: str | None = None) -> None:
    """Write the page about a file that was scored: its rows, the lowest and highest ones with their photos.

    Args:
        path: File to write; an existing one is replaced.
        run: Result of scoring the file. Photos behind URLs are not fetched again.
        sort: Column that rows are sorted by; None for the first metric's rank, or its score.

    Raises:
        ResultWriteError: the file cannot be written.
    """
    scores = run.scores
    first = next(iter(scores.values()))
    rising = run.rising(sort)
    lists = lowest_and_highest(rising)
    worst, best = lists.values()
    if "" in first.lower_is_better:
        lists = {"Highest": worst, "Lowest": best}
    pictured = {*worst, *best}
    unscored = sorted({*range(len(first))} - {*rising})
    listed = [*rising, *unscored][:MAX_TABLE_ROWS]
    cards = _cards(run, {*listed, *pictured}, pictured)
    wrong = {*run.likely_wrong()}
    for row, card in cards.items():
        card["is_wrong"] = row in wrong
    rows = [cards[row] for row in listed]
    spoken = sorted({first.languages[row] for row in listed} - {""})
    script, digest = page_script("table.js")
    page = render(
        "score_report.html",
        title=f"{run.source.path.name or 'captions'}: {counted(run.source.n_rows, 'row')}",
        script=script,
        script_hash=digest,
        n_failed=len(run.failures),
        metrics=[_section(name, part, run.standings.get(name)) for name, part in scores.items()],
        signatures={name: part.signature for name, part in scores.items()},
        languages=_by_language(run),
        pages=_by_page(run, wrong),
        most_pages=MAX_PAGES,
        metric=first.metric,
        cards=cards,
        lists=lists,
        rows=rows,
        columns=_columns(rows, [*scores]),
        spoken=[(code, language_names(code)[1]) for code in spoken],
        n_rows=len(first),
        cut=LIKELY_WRONG,
    )
    write_text(path, page, "report")


def lowest_and_highest(rising: Sequence[int], n: int = ROWS_SHOWN) -> dict[str, list[int]]:
    """At most n rows from each end of the rows by their scores, the lowest first; no row is in both lists.

    >>> lowest_and_highest([1, 0, 3], 2)
    {'Lowest': [1, 0], 'Highest': [3]}
    """
    half = max(1, min(n, math.ceil(len(rising) / 2)))
    low = [*rising[:half]]
    return {"Lowest": low, "Highest": [row for row in rising[::-1][:half] if row not in low]}


def histogram(scores: np.ndarray) -> Histogram:
    """Distribution of scores (n,); NaN is left out. The scale begins at 0, or at a lower score."""
    present = scores[np.isfinite(scores)]
    if not len(present):
        return Histogram(0.0, 1.0, [0] * _BINS, [0.0] * _BINS, None, None)
    low, high = min(0.0, float(present.min())), float(present.max())
    if high <= low:
        high = low + 1.0
    counts, _ = np.histogram(present, bins=_BINS, range=(low, high))
    mean, heights = _mean(present), counts / counts.max()
    return Histogram(low, high, counts.tolist(), heights.tolist(), mean, (mean - low) / (high - low))


def _cards(run: ScoredFile, numbers: set[int], pictured: set[int]) -> dict[int, Card]:
    """Rows of the file, read again for people to look at: number → what the page shows of it."""
    cards: dict[int, Card] = {}
    for chunk in run.source.chunks(CHUNK_ROWS):
        rows = [row for row in range(len(chunk)) if chunk.start + row in numbers]
        if not rows:
            continue
        inputs = read_inputs(chunk, run.source, run.names, run.folder)
        lines: Sequence[int | None] = chunk.lines or [None] * len(chunk)
        photos: Sequence[object] = [None] * len(chunk)
        if run.names.image is not None:
            photos = chunk.values(run.names.image)
        for row in rows:
            number = chunk.start + row
            cards[number] = {
                "place": run.source.short_place(number, lines[row]),
                "photo": photo_name(photos[row]),
                "picture": picture_of(inputs, row) if number in pictured else None,
                "caption": shown_caption(inputs.candidates[row]),
                "references": references_of(inputs, row),
                **_results(run, number),
            }
    return cards


def _columns(rows: Sequence[Card], metrics: Sequence[str]) -> list[tuple[str, str]]:
    """Heading and class of each column of the table of all rows."""
    columns = [("Row", "")]
    for name, heading in (("photo", "Photo"), ("language", "Language")):
        if any(row[name] for row in rows):
            columns.append((heading, ""))
    columns.append(("Caption", ""))
    columns += [(metric, "number") for metric in metrics]
    if any(row["rank"] for row in rows):
        columns += [("Rank", "number"), ("Mark", "")]
    return columns


def _results(run: ScoredFile, number: int) -> Card:
    """Scores and rank of a row, its language, and what metrics say of its caption in words."""
    scores = run.scores
    first = next(iter(scores.values()))
    ranks = run.ranks.get(first.metric)
    rank = float(ranks[RANKS[0]][number]) if ranks else math.nan
    noise = [part.found(number) for part in scores.values()]
    reasons = [part.reason(number) for part in scores.values()]
    return {
        "language": first.languages[number],
        "scores": {name: fixed(float(part.scores[number]), 3) for name, part in scores.items()},
        "rank": fixed(rank, 0, ""),
        "noise": "; ".join(filter(None, noise)),
        "reason": " ".join(filter(None, reasons)),
    }


def _section(name: str, scores: Scores, standing: Standing | None) -> Card:
    """What the page shows of a metric: its distribution as a table and a drawing, and remarks."""
    remarks = [f"{key} of all rows together: {value:.4f}." for key, value in scores.corpus.items()]
    if standing is not None and (sentence := standing.sentence()):
        remarks.insert(0, f"{sentence[0].upper()}{sentence[1:]}.")
    return {
        "name": name,
        "remarks": remarks,
        "table": _summary(scores.scores),
        "histogram": histogram(scores.scores),
    }


def _mean(scores: np.ndarray) -> float:
    """Mean of the scores that are there; NaN without any."""
    present = scores[np.isfinite(scores)]
    return math.fsum(present) / len(present) if len(present) else math.nan


def _summary(scores: np.ndarray) -> Table:
    present = scores[np.isfinite(scores)]
    counts = f"{len(present):,}"
    if len(present) < len(scores):
        counts += f" ({len(scores) - len(present):,} without)"
    values = [math.nan] * len(_PERCENTS)
    if len(present):
        values = np.percentile(present, _PERCENTS).tolist()
    row = ["", fixed(_mean(scores), 3), counts, *(fixed(value, 3) for value in values)]
    return Table(("", "mean", "rows", "5 %", "25 %", "median", "75 %", "95 %"), [row])


def _by_page(run: ScoredFile, wrong: Collection[int]) -> Table | None:
    """Counts, means and lines of likely wrong captions per page, the worst first; None without pages."""
    column = run.source.page_column
    if column is None:
        return None
    rows_of: dict[str, list[int]] = {}
    lines: dict[int, int | None] = {}
    for chunk in run.source.chunks(CHUNK_ROWS, [column]):
        for index, page in enumerate(chunk.values(column)):
            rows_of.setdefault(str(page), []).append(chunk.start + index)
            lines[chunk.start + index] = chunk.lines[index] if chunk.lines else None
    listed = []
    for page, rows in rows_of.items():
        n_failed = sum(row in run.failures for row in rows)
        marked = [row for row in rows if row in wrong]
        means = [_mean(part.scores[rows]) for part in run.scores.values()]
        places = ", ".join(str(lines[row]) for row in marked)
        cells = [page, f"{len(rows):,}", f"{n_failed:,}", *(fixed(mean, 3) for mean in means)]
        listed.append(((-len(marked), -n_failed, page), [*cells, f"{len(marked):,}", places]))
    headings = ("page", "pictures", "failed", *run.scores, "likely wrong", "lines")
    return Table(headings, [cells for _, cells in sorted(listed)[:MAX_PAGES]])


def _by_language(run: ScoredFile) -> Table | None:
    """Number of rows and means per language; None where all rows have one language."""
    rows = []
    for code, numbers in run.languages().items():
        means = [fixed(numbers[metric], 3) for metric in run.scores]
        rows.append([language_names(code)[1], f"{numbers['rows']:,}", *means])
    return Table(("", "rows", *run.scores), rows) if rows else None
