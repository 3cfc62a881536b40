"""Scores of a file → an HTML page: the rows to check, distributions, languages, the best, and all rows."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..files.columns import ChunkInputs, read_inputs
from ..files.row_source import CHUNK_ROWS
from ..files.write import write_text
from ..metrics.calibration import LIKELY_WRONG, RANKS, right_shares
from ..options import RowOptions
from ..scoring.files import ScoredFile
from ..scoring.pipeline import photo_column
from ..scoring.to_check import KINDS_OF_REASON, reasons_to_check
from ..tables import Table, counted, fixed, image_name, photo_name, shown_caption
from .explained import marked_pieces
from .pages import language_names, page_script, picture_of, references_of, render

Card = dict[str, object]  # what a template shows
BEST_SHOWN = 8
"""Number of rows in the list of the best."""
MAX_CHECKED = 3000
"""Number of rows to check that are listed with their photos; of more, the worst."""
MAX_TABLE_ROWS = 20_000
"""Number of rows in the table of all rows; of more, it has the lowest."""
MAX_PAGES = 500
"""Number of pages that are listed; of more, those with most captions that are likely wrong."""
_SIDE = 256  # longest side of a photo in the list, in pixels
_BINS, _PERCENTS = 30, (5, 25, 50, 75, 95)


class Histogram(NamedTuple):
    """How scores are distributed: ends of the scale, numbers of scores in its bins, heights up to 1."""

    low: float
    high: float
    counts: Sequence[int]
    heights: Sequence[float]
    mean: float | None
    place: float | None
    curve: Sequence[float] = ()


def write_score_report(path: Path, run: ScoredFile) -> None:
    """Write the page about a file that was scored: all rows to check and the best ones with their photos."""
    scores = run.scores
    first = next(iter(scores.values()))
    rising = run.rising()
    reasons = reasons_to_check(run)
    checked = [*reasons][:MAX_CHECKED]
    best = [row for row in rising[::-1] if row not in reasons][:BEST_SHOWN]
    unscored = sorted({*range(len(first))} - {*rising})
    listed = [*rising, *unscored][:MAX_TABLE_ROWS]
    photos = _Photos(run)
    cards = _cards(run, {*listed, *best, *checked}, {*best}, {*checked}, photos)
    wrong = {*run.likely_wrong()}
    for row, card in cards.items():
        card["is_wrong"] = row in wrong
        card["reasons"] = reasons.get(row, {})
    rows = [cards[row] for row in listed]
    scripts = [page_script(name) for name in ("rows_to_check.js", "table.js")[not checked :]]
    n_of = Counter(kind for of_row in reasons.values() for kind in of_row)
    counts = [(kind, name, n_of[kind]) for kind, name in KINDS_OF_REASON.items() if n_of[kind]]
    title = f"{run.source.path.name or 'captions'}: {counted(run.source.n_rows, 'row')}"
    has_ranks = any(card["rank"] for card in cards.values())
    orders = [
        ("score", f"{first.metric}, worst first"),
        ("file", "as in the file"),
        ("name", "name of photo"),
    ]
    if has_ranks:
        orders.insert(0, ("rank", "rank, worst first"))
    page = render(
        "score_report.html",
        title=title,
        heading=run.headline() if run.is_judged else title,
        without_rank=run.without_rank_sentence() if run.is_judged else "",
        has_ranks=has_ranks,
        scripts=scripts,
        n_failed=counted(len(run.failures), "row") if run.failures else "",
        checked=[cards[row] for row in checked],
        n_to_check=len(reasons),
        check_languages=_choices_of_languages(first.languages[row] for row in checked),
        reasons=counts,
        reason_choices=[(kind, f"{name} ({n:,})") for kind, name, n in counts],
        reason_names=KINDS_OF_REASON,
        orders=orders,
        data=_data(run, checked, cards, photos),
        metrics=[_section(name, run) for name in scores],
        signatures={name: part.signature for name, part in scores.items()},
        languages=_by_language(run),
        pages=_by_page(run, wrong),
        most_pages=MAX_PAGES,
        metric=first.metric,
        best=[cards[row] for row in best],
        rows=rows,
        columns=_columns(rows, [*scores]),
        spoken=_choices_of_languages(first.languages[row] for row in listed),
        n_rows=len(first),
        cut=LIKELY_WRONG,
    )
    write_text(path, page, "report")


class _Photos:
    """Photos of the list, each once, numbered in the order in which they come."""

    def __init__(self, run: ScoredFile):
        self.addresses: list[str] = []
        self._numbers: dict[object, tuple[int, tuple[int, int]] | None] = {}
        keys = (part.image_keys for part in run.scores.values() if any(part.image_keys))
        self._keys = next(keys, [""] * run.source.n_rows)

    def number(self, inputs: ChunkInputs, index: int, row: int) -> tuple[int, tuple[int, int]] | None:
        """Number and size of the photo of a row of the file, the one at an index of inputs; None for none."""
        key = self._keys[row] or row
        if key not in self._numbers:
            picture = picture_of(inputs, index, _SIDE)
            self._numbers[key] = None
            if picture is not None:
                self._numbers[key] = len(self.addresses), picture[1:]
                self.addresses.append(picture[0])
        return self._numbers[key]


def _choices_of_languages(languages: Iterable[str]) -> list[tuple[str, str]]:
    return [(code, language_names(code)[1]) for code in sorted({*languages} - {""})]


def _data(run: ScoredFile, checked: Sequence[int], cards: Mapping[int, Card], photos: _Photos) -> str:
    """What the page's script knows of the rows to check, as JSON that no text can end early."""
    first = next(iter(run.scores.values()))
    rising = first.rising()
    ranks = run.ranks.get(first.metric, {}).get(RANKS[0])
    rows = []
    for row in checked:
        found = {"row": row, "image": cards[row]["image"], "caption": cards[row]["caption"]}
        found["language"] = first.languages[row]
        for name, part in run.scores.items():
            found[name] = _number(part.scores[row])
        if ranks is not None:
            found["rank"] = _number(ranks[row])
        found |= {"reasons": cards[row]["reasons"], "worst_first": _number(rising[row])}
        rows.append(found)
    text = json.dumps({"rows": rows, "photos": photos.addresses}, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), 6)


def histogram(
    scores: np.ndarray, right_shares: Callable[[np.ndarray], np.ndarray | None] | None = None
) -> Histogram:
    """Distribution of scores (n,); NaN is left out. The scale begins at 0, or at a lower score."""
    present = scores[np.isfinite(scores)]
    if not len(present):
        return Histogram(0.0, 1.0, [0] * _BINS, [0.0] * _BINS, None, None)
    low, high = min(0.0, float(present.min())), float(present.max())
    if high <= low:
        high = low + 1.0
    counts, edges = np.histogram(present, bins=_BINS, range=(low, high))
    mean, top, curve = _mean(present), counts.max(), np.zeros(0)
    if right_shares is not None and (shares := right_shares(edges)) is not None:
        curve = np.diff(shares) * len(present)
        top = max(top, curve.max())
    heights, place = counts / top, (mean - low) / (high - low)
    return Histogram(low, high, counts.tolist(), heights.tolist(), mean, place, (curve / top).tolist())


def _cards(
    run: ScoredFile, numbers: set[int], pictured: set[int], checked: set[int], listed: _Photos
) -> dict[int, Card]:
    """Rows of the file, read again for people to look at: number → what the page shows of it.

    Those that are `pictured` hold their photo, those that are `checked` its number in the list.
    """
    cards: dict[int, Card] = {}
    naming = run.names.image or photo_column(run.source, RowOptions())
    for chunk in run.source.chunks(CHUNK_ROWS):
        rows = [row for row in range(len(chunk)) if chunk.start + row in numbers]
        if not rows:
            continue
        inputs = read_inputs(chunk, run.source, run.names, run.folder)
        lines: Sequence[int | None] = chunk.lines or [None] * len(chunk)
        photos = chunk.values(naming)
        for row in rows:
            number, caption = chunk.start + row, shown_caption(inputs.candidates[row])
            photo = listed.number(inputs, row, number) if number in checked else None
            cards[number] = {
                "place": run.row_name(number, lines[row], photo_name(photos[row])),
                "photo": photo_name(photos[row]),
                "picture": picture_of(inputs, row) if number in pictured else None,
                "photo_number": photo and photo[0],
                "size": photo and photo[1],
                "image": image_name(photos[row]),
                "caption": caption,
                "pieces": marked_pieces(caption, [part.wrong_words(number) for part in run.scores.values()]),
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
    noise = [part.found(number) for part in scores.values()]
    reasons = [part.reason(number) for part in scores.values()]
    return {
        "language": first.languages[number],
        "scores": {name: fixed(float(part.scores[number]), 3) for name, part in scores.items()},
        "rank": fixed(float(run.first_ranks[number]), 0, ""),
        "noise": "; ".join(filter(None, noise)),
        "reason": " ".join(filter(None, reasons)),
    }


def _section(name: str, run: ScoredFile) -> Card:
    """What the page shows of a metric: its distribution as a table and a drawing, and remarks."""
    scores, standing = run.scores[name], run.standings.get(name)
    remarks = [f"{key} of all rows together: {value:.4f}." for key, value in scores.corpus.items()]
    if standing is not None and (sentence := standing.sentence()):
        remarks.insert(0, f"{sentence[0].upper()}{sentence[1:]}.")
    return {
        "name": name,
        "remarks": remarks,
        "table": _summary(scores.scores),
        "histogram": histogram(scores.scores, lambda edges: right_shares(scores, edges, run.calibration)),
        "set_name": standing.set_name if standing else "",
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
    row = [counts, fixed(_mean(scores), 3), *(fixed(value, 3) for value in values)]
    return Table(("rows", "mean", "5 %", "25 %", "median", "75 %", "95 %"), [row])


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
    return Table(("language", "rows", *run.scores), rows) if rows else None
