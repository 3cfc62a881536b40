"""Scores of one or several systems → an HTML page: distributions, languages, worst and best rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..files.columns import is_missing, read_inputs
from ..files.row_source import CHUNK_ROWS
from ..files.write import write_text
from .pages import inline_jpeg, language_names, render
from .tables import Table, fixed, photo_name

if TYPE_CHECKING:
    from PIL import Image

    from ..files.columns import ChunkInputs, ColumnNames
    from ..files.image_folder import ImageFolder
    from ..files.row_source import RowSource

ROWS_SHOWN = 8
"""Number of rows in each list of the page."""
_BINS = 30
_THUMBNAIL = 320  # longest side of a photo in pixels


@dataclass(frozen=True)
class ReportedMetric:
    """A metric's scores.

    Attributes:
        name: Name of the metric.
        scores: System → float64 (n,); NaN for a row without a score. All systems have the same rows.
        signature: Everything that the scores depend on.
        remarks: Sentences below the distribution.
    """

    name: str
    scores: Mapping[str, np.ndarray]
    signature: str = ""
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class ReportedRow:
    """A row as the page shows it.

    Attributes:
        place: Name of the row, such as "line 12".
        captions: System → caption.
        photo, name: The photo, None where there is none to show, and its name.
        references: Reference captions.
        language: BCP 47 tag, "" if not known.
        found: System → what a metric says of its caption in words, such as "12 % kept: repetition".
    """

    place: str
    captions: Mapping[str, str]
    photo: Image.Image | None = None
    references: Sequence[str] = ()
    language: str = ""
    name: str = ""
    found: Mapping[str, str] = field(default_factory=dict)


def read_rows(
    source: RowSource, names: ColumnNames, folder: ImageFolder, numbers: Collection[int], system: str
) -> dict[int, ReportedRow]:
    """Read rows of a file again, for people to look at: number → row; what cannot be read is left out.

    Args:
        source: The file.
        names: Names of its columns.
        folder: Folder of the photos. Photos behind URLs are not fetched again.
        numbers: Numbers of the rows, counted from 0.
        system: Name of the captions' system.
    """
    rows: dict[int, ReportedRow] = {}
    for chunk in source.chunks(CHUNK_ROWS):
        here = [number for number in sorted(set(numbers)) if 0 <= number - chunk.start < len(chunk)]
        if not here:
            continue
        inputs = read_inputs(chunk, source, names, folder)
        photos = [None] * len(chunk) if names.image is None else chunk.values(names.image)
        for number in here:
            index = number - chunk.start
            references = () if inputs.references is None else inputs.references[index]
            language = "" if inputs.languages is None else inputs.languages[index]
            caption = inputs.candidates[index]
            rows[number] = ReportedRow(
                place=source.short_place(number, None if chunk.lines is None else chunk.lines[index]),
                captions={system: "" if is_missing(caption) else str(caption)},
                photo=_photo(inputs, index),
                references=[references] if isinstance(references, str) else list(references or ()),
                language=language if isinstance(language, str) else "",
                name=photo_name(photos[index]),
            )
    return rows


def _photo(inputs: ChunkInputs, index: int) -> Image.Image | None:
    from ..images.load import load_image

    if inputs.images is None or index in inputs.problems:
        return None
    with suppress(InputError):  # whoever scored has said which rows failed
        return load_image(inputs.images[index])
    return None


def write_score_report(
    path: str | Path,
    *,
    title: str,
    metrics: Sequence[ReportedMetric],
    languages: Sequence[str],
    rows_of: Callable[[Sequence[int]], Mapping[int, ReportedRow]],
    notes: Sequence[str] = (),
) -> Path:
    """Write the page.

    With one system, the lists are its rows with the lowest and the highest scores of the first metric. With
    several, they are the rows in which the systems differ most, and those with the lowest and highest means.

    Args:
        path: File to write; an existing one is replaced.
        title: Heading of the page.
        metrics: At least one metric; all have the same n rows and the same systems.
        languages: Language of each row, "" where it is not known; () if no row has one.
        rows_of: Function that gives the shown rows by their numbers.
        notes: Sentences that a reader needs.

    Raises:
        ResultWriteError: the file cannot be written.
    """
    path = Path(path).expanduser()
    lists = {title: numbers for title, numbers in row_lists(metrics[0]).items() if numbers}
    shown = rows_of(sorted({number for numbers in lists.values() for number in numbers}))
    cards = {number: _card(row, number, metrics) for number, row in shown.items()}
    page = render(
        "score_report.html",
        title=title,
        several=len(metrics[0].scores) > 1,
        metrics=[
            {"metric": metric, "table": _summary(metric), "histograms": _histograms(metric)}
            for metric in metrics
        ],
        languages=_by_language(metrics, languages),
        lists={title: [cards[number] for number in numbers] for title, numbers in lists.items()},
        notes=list(notes),
    )
    write_text(path, page, "report")
    return path


def row_lists(metric: ReportedMetric, n: int = ROWS_SHOWN) -> dict[str, list[int]]:
    """The rows worth reading: lowest and highest scores; with several systems, largest differences first.

    Rows without a score of every system are left out. Equal rows keep their order.
    """
    table = np.stack([np.asarray(scores, np.float64) for scores in metric.scores.values()])
    scored = np.flatnonzero(np.isfinite(table).all(axis=0))
    means, spread = table[:, scored].mean(axis=0), np.ptp(table[:, scored], axis=0)
    rising = scored[np.argsort(means, kind="stable")].tolist()
    # a row is in one list only, if there are few
    half = max(1, min(n, -(-len(rising) // 2)))
    low = rising[:half]
    lists = {"Lowest": low, "Highest": [row for row in rising[::-1][:half] if row not in low]}
    if len(table) == 1:
        return {f"{which} {metric.name}": rows for which, rows in lists.items()}
    order = np.argsort(-spread, kind="stable")[:n]
    apart = scored[order][spread[order] > 0].tolist()
    means_of = {f"{which} mean {metric.name}": rows for which, rows in lists.items()}
    return {f"Largest differences in {metric.name}": apart, **means_of}


def _mean(scores: np.ndarray) -> float | None:
    present = scores[np.isfinite(scores)]
    return math.fsum(present) / len(present) if len(present) else None


def _summary(metric: ReportedMetric) -> Table:
    """Mean and percentiles of each system."""
    percents = (5, 25, 50, 75, 95)
    rows = []
    for system, scores in metric.scores.items():
        present = scores[np.isfinite(scores)]
        without = len(scores) - len(present)
        counts = f"{len(present):,}" + (f" ({without:,} without)" if without else "")
        values = np.percentile(present, percents) if len(present) else [None] * len(percents)
        rows.append([system, fixed(_mean(scores), 3), counts, *(fixed(value, 3) for value in values)])
    headings = ("System", "mean", "rows", "5 %", "25 %", "median", "75 %", "95 %")
    return Table(headings if len(rows) > 1 else ("", *headings[1:]), rows)


def _histograms(metric: ReportedMetric) -> dict[str, Any]:
    """Ends of the scale, and per system the counts, their heights as shares of the highest, and the mean."""
    every = np.concatenate([scores[np.isfinite(scores)] for scores in metric.scores.values()])
    low, high = (min(0.0, float(every.min())), float(every.max())) if len(every) else (0.0, 1.0)
    high = high if high > low else low + 1.0
    systems = {}
    for system, scores in metric.scores.items():
        counts, _ = np.histogram(scores[np.isfinite(scores)], bins=_BINS, range=(low, high))
        mean = _mean(scores)
        systems[system] = {
            "counts": counts.tolist(),
            "heights": (counts / max(counts.max(), 1)).tolist(),
            "mean": mean,
            "at": None if mean is None else (mean - low) / (high - low),
        }
    return {"low": low, "high": high, "systems": systems}


def _by_language(metrics: Sequence[ReportedMetric], languages: Sequence[str]) -> Table | None:
    """Number of rows and means per language; None where all rows have one language."""
    distinct = list(dict.fromkeys(languages))
    if len(distinct) < 2:
        return None
    codes = np.array(languages)
    columns = [
        (f"{metric.name} {system}" if len(metric.scores) > 1 else metric.name, scores)
        for metric in metrics
        for system, scores in metric.scores.items()
    ]
    rows = []
    for language in distinct:
        here = codes == language
        means = [fixed(_mean(scores[here]), 3) for _, scores in columns]
        rows.append([language_names(language)[1], f"{here.sum():,}", *means])
    return Table(("", "rows", *(name for name, _ in columns)), rows)


def _card(row: ReportedRow, number: int, metrics: Sequence[ReportedMetric]) -> dict[str, Any]:
    picture = None if row.photo is None else inline_jpeg(row.photo, _THUMBNAIL)
    scores = {
        system: [(metric.name, fixed(float(metric.scores[system][number]), 3)) for metric in metrics]
        for system in row.captions
    }
    return {"row": row, "picture": picture, "scores": scores}
