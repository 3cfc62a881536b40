"""Scores of a file → an HTML page: distributions, languages, worst and best rows, and a table of all rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..files.columns import read_inputs
from ..files.row_source import CHUNK_ROWS
from ..files.write import write_text
from ..metrics.calibration import LIKELY_WRONG, RANKS
from ..tables import Table, fixed, noise_text, photo_name, reason_of, shown_caption
from .pages import inline_jpeg, language_names, page_script, render

if TYPE_CHECKING:
    from ..metrics.calibration import Standing
    from ..metrics.score_file import ScoringRun
    from ..metrics.scores import Scores

ROWS_SHOWN = 8
"""Number of rows in each list of the page."""
MAX_TABLE_ROWS = 20_000
"""Number of rows in the table of all rows; of more, it has the lowest."""
_BINS = 30
_THUMBNAIL = 320  # longest side of a photo in pixels


def write_score_report(
    path: Path, run: ScoringRun, standings: Mapping[str, Standing], order: Sequence[tuple[str, str]]
) -> None:
    """Write the page about a file that was scored: its rows, the lowest and highest ones with their photos.

    Args:
        path: File to write; an existing one is replaced.
        run: Run that scored all rows. Photos behind URLs are not fetched again.
        standings: Metric → ranks of its scores in a calibration, for those that have one.
        order: What rows are sorted by, as `ScoringRun.rising` takes it.

    Raises:
        ResultWriteError: the file cannot be written.
    """
    scores = run.scores()
    first = next(iter(scores.values()))
    rising = run.rising(order)
    lists = lowest_and_highest(rising)
    worst, best = lists.values()
    if "" in first.lower_is_better:
        lists = {"Highest": worst, "Lowest": best}
    unscored = sorted({*range(len(first))} - {*rising})
    listed = (rising + unscored)[:MAX_TABLE_ROWS]
    cards = _cards(run, {*listed, *best}, with_picture={row for rows in lists.values() for row in rows})
    n_rows = "1 row" if run.source.n_rows == 1 else f"{run.source.n_rows:,} rows"
    listed_cards = [cards[row] for row in listed]
    is_ranked = any(card["rank"] for card in listed_cards)
    names = [
        "Row",
        *(["Photo"] if any(card["name"] for card in listed_cards) else []),
        *(["Language"] if any(card["language"] for card in listed_cards) else []),
        "Caption",
    ]
    numbers = [*scores, *(["Rank"] if is_ranked else [])]
    headings = [(name, "") for name in names] + [(name, "number") for name in numbers]
    script, digest = page_script("table.js")
    page = render(
        "score_report.html",
        script=script,
        script_hash=digest,
        rows=listed_cards,
        metric=first.metric,
        n_rows=len(first),
        names=names,
        headings=[*headings, *([("Mark", "")] if is_ranked else [])],
        is_ranked=is_ranked,
        cut=LIKELY_WRONG,
        spoken=sorted({card["language"] for card in listed_cards} - {""}),
        title=f"{run.source.path.name or 'captions'}: {n_rows}",
        metrics=[
            {
                "name": name,
                "signature": part.signature,
                "remarks": _remarks(part, standings.get(name)),
                "table": _summary(part.scores),
                "histogram": histogram(part.scores),
            }
            for name, part in scores.items()
        ],
        languages=_by_language(scores, first.languages),
        lists={
            f"{which} {first.metric}": [cards[row] for row in rows] for which, rows in lists.items() if rows
        },
        notes=[f"{len(run.failures):,} rows could not be scored."] if run.failures else [],
    )
    write_text(path, page, "report")


def lowest_and_highest(rising: Sequence[int], n: int = ROWS_SHOWN) -> dict[str, list[int]]:
    """At most n rows from each end of the rows by their scores, the lowest first; no row is in both lists.

    >>> lowest_and_highest([1, 0, 3], 2)
    {'Lowest': [1, 0], 'Highest': [3]}
    """
    half = max(1, min(n, -(-len(rising) // 2)))
    low = [*rising[:half]]
    return {"Lowest": low, "Highest": [row for row in rising[::-1][:half] if row not in low]}


def histogram(scores: np.ndarray) -> dict[str, Any]:
    """Ends of the scale, counts of its bins and their heights (the highest is 1), the mean and its place."""
    present = scores[np.isfinite(scores)]
    low, high = (min(0.0, float(present.min())), float(present.max())) if len(present) else (0.0, 1.0)
    high = high if high > low else low + 1.0
    counts, _ = np.histogram(present, bins=_BINS, range=(low, high))
    mean = _mean(scores)
    heights = (counts / max(counts.max(), 1)).tolist()
    at = None if mean is None else (mean - low) / (high - low)
    return {"low": low, "high": high, "counts": counts.tolist(), "heights": heights, "mean": mean, "at": at}


def _cards(run: ScoringRun, numbers: set[int], with_picture: set[int]) -> dict[int, dict[str, Any]]:
    """Rows of the file, read again for people to look at: number → what the page shows of it."""
    from ..images.load import load_image

    source, names = run.source, run.names
    cards = {}
    for chunk in source.chunks(CHUNK_ROWS) if numbers else ():
        here = [row for row in range(len(chunk)) if chunk.start + row in numbers]
        if not here:
            continue
        inputs = read_inputs(chunk, source, names, run.folder)
        photos = [None] * len(chunk) if names.image is None else chunk.values(names.image)
        for row in here:
            number, picture = chunk.start + row, None
            with suppress(InputError):  # whoever scored has said which rows failed
                if number in with_picture and inputs.images is not None and row not in inputs.problems:
                    picture = inline_jpeg(load_image(inputs.images[row]), _THUMBNAIL)
            references = None if inputs.references is None else inputs.references[row]
            caption = inputs.candidates[row]
            cards[number] = {
                "place": source.short_place(number, None if chunk.lines is None else chunk.lines[row]),
                "name": photo_name(photos[row]),
                "picture": picture,
                "caption": shown_caption(caption),
                "references": [references] if isinstance(references, str) else list(references or ()),
                **_found(run, number),
            }
    return cards


def _found(run: ScoringRun, number: int) -> dict[str, Any]:
    """Scores and rank of a row, its language, and what metrics say of its caption in words."""
    scores = run.scores()
    first, parts = next(iter(scores.values())), scores.values()
    ranks = run.ranks.get(first.metric)
    rank = float(ranks[RANKS[0]][number]) if ranks else math.nan
    return {
        "scores": [(name, fixed(float(part.scores[number]), 3)) for name, part in scores.items()],
        "rank": fixed(rank, 0, ""),
        "is_wrong": rank < LIKELY_WRONG,
        "language": first.languages[number],
        "found": "; ".join(
            filter(None, (noise_text(part.details[number]) for part in parts if part.details))
        ),
        "reason": " ".join(reason_of(part, number) for part in parts).strip(),
    }


def _remarks(scores: Scores, standing: Standing | None) -> list[str]:
    sentence = standing.sentence() if standing else ""
    remarks = [f"{sentence[0].upper()}{sentence[1:]}."] if sentence else []
    return [*remarks, *(f"{key} of all rows together: {value:.4f}." for key, value in scores.corpus.items())]


def _mean(scores: np.ndarray) -> float | None:
    present = scores[np.isfinite(scores)]
    return math.fsum(present) / len(present) if len(present) else None


def _summary(scores: np.ndarray) -> Table:
    percents = (5, 25, 50, 75, 95)
    present = scores[np.isfinite(scores)]
    without = len(scores) - len(present)
    counts = f"{len(present):,}" + (f" ({without:,} without)" if without else "")
    values = np.percentile(present, percents) if len(present) else [None] * len(percents)
    row = ["", fixed(_mean(scores), 3), counts, *(fixed(value, 3) for value in values)]
    return Table(("", "mean", "rows", "5 %", "25 %", "median", "75 %", "95 %"), [row])


def _by_language(scores: Mapping[str, Scores], languages: Sequence[str]) -> Table | None:
    """Number of rows and means per language; None where all rows have one language."""
    distinct = list(dict.fromkeys(languages))
    if len(distinct) < 2:
        return None
    rows = []
    for language in distinct:
        here = np.array(languages) == language
        means = [fixed(_mean(part.scores[here]), 3) for part in scores.values()]
        rows.append([language_names(language)[1], f"{here.sum():,}", *means])
    return Table(("", "rows", *scores), rows)
