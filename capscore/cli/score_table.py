"""Prints what `capscore score` found: the rows, if they are few; means and counts; what they depend on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors.visible import visible
from ..files.console import make_console
from .terminal import make_table, print_line

if TYPE_CHECKING:
    from rich.console import Console

    from ..metrics.base import Scores
    from ..metrics.calibration import Standing
    from ..metrics.score_file import ScoringRun

MOST_ROWS = 10  # of which each is shown
_MOST_WIDTH = 36  # of columns of scores beside photo and caption, in 80 columns


def print_scores(
    run: ScoringRun,
    scores: Mapping[str, Scores],
    standings: dict[str, Standing],
    target: Path | None,
    *,
    report: Path | None = None,
    calibration: Path | None = None,
    per_row: bool | None = None,
) -> None:
    """Print the rows, the means, their standing, the signatures, and where the rows are.

    Args:
        run: Finished run.
        scores: Scores per metric.
        standings: Per metric, where the scores lie among those of right and of shuffled captions.
        target: Path of the result, or None.
        report: Path of the report, or None.
        calibration: File of calibrations behind the standings; None for those that ship.
        per_row: Whether rows are printed; None prints them if they are few.
    """
    from ..metrics.base import Scores

    console = make_console()
    if per_row or (per_row is None and run.source.n_rows <= MOST_ROWS):
        kept = {name: part for name, part in scores.items() if isinstance(part, Scores)}
        ranks = _ranks(kept, standings, calibration)
        _print_rows(console, run, kept, ranks)
        if ranks is not None:
            (one,) = standings.values()
            print_line(console, visible(f"rank: percent of right captions ({one.set_name}) that score lower"))
    if run.source.n_rows > 1 or per_row is False:
        _print_means(console, scores)
    for name, one in standings.items():
        print_line(console, visible(f"{name}: {one.sentence()}"))
    for name, part in scores.items():
        if part.corpus:
            numbers = ", ".join(f"{key} {value:.4f}" for key, value in part.corpus.items())
            print_line(console, f"{name} of all rows together: {numbers}")
    for part in scores.values():
        print_line(console, part.signature)
    print_line(console, visible(_what_was_scored(run)))
    if report is not None:
        print_line(console, visible(f"Report written to {report}"))
    if target is None:
        start = "No file was written" if report is None else "The scores are in no other file"
        print_line(console, f"{start}; --output scores.jsonl keeps the score of each row.")
    else:
        n_rows = run.source.n_rows
        print_line(console, f"{n_rows:,} row{'' if n_rows == 1 else 's'} written to {target}")


def _print_means(console: Console, scores: Mapping[str, Scores]) -> None:
    table = make_table("metric", numbers=("mean", "scored", "failed", "empty", "images", "truncated"))
    for name, part in scores.items():
        counts = (part.n_scored, part.n_failed, part.n_empty, part.n_unique_images, part.n_truncated)
        table.add_row(name, _number(part.mean), *(f"{count:,}" for count in counts))
    console.print(table)


def _ranks(
    scores: Mapping[str, Scores], standings: dict[str, Standing], calibration: Path | None
) -> list[str] | None:
    """Rank of each row among right captions; None for one row, several metrics, or no calibration."""
    if len(scores) != 1 or not standings:
        return None
    ((part, one),) = zip(scores.values(), standings.values(), strict=True)
    if one.reason or len(part) < 2:
        return None
    found = part.percentiles(calibration=calibration)
    return ["–" if math.isnan(value) else f"{value:.0f} %" for value in found]


def _print_rows(
    console: Console, run: ScoringRun, scores: Mapping[str, Scores], ranks: list[str] | None
) -> None:
    from rich.text import Text

    from ..files.row_source import CHUNK_ROWS
    from ..show.found_noise import found_noise
    from ..show.reported_rows import photo_name

    image, caption = run.names.image, run.names.candidate
    columns: dict[str, list[str]] = {} if image is None else {"photo": []}
    columns["caption"] = []
    for chunk in run.source.chunks(CHUNK_ROWS):
        columns["caption"] += ["" if text is None else str(text) for text in chunk.values(caption)]
        if image is not None:
            columns["photo"] += [photo_name(value) or "–" for value in chunk.values(image)]
    before = [*columns]
    texts = [[Text(visible(cell)) for cell in cells] for cells in zip(*columns.values(), strict=True)]
    if sum(max(len(name), 6) + 2 for name in scores) <= _MOST_WIDTH:
        further: dict[str, list[str]] = {} if ranks is None else {"rank": ranks}
        if len(scores) == 1:
            (part,) = scores.values()
            found = [found_noise(detail, sure=False) for detail in part.details or ()]
            if any(found):
                further["found"] = found
        table = make_table(*before, numbers=(*scores, *further))
        for row, cells in enumerate(texts):
            numbers = [_number(part.scores[row]) for part in scores.values()]
            table.add_row(*cells, *numbers, *(own[row] for own in further.values()))
    else:  # too many for columns of their own
        table = make_table(*before, "metric", numbers=("score",))
        for row, cells in enumerate(texts):
            for number, (name, part) in enumerate(scores.items()):
                shown = cells if number == 0 else [Text("")] * len(cells)
                table.add_row(*shown, name, _number(part.scores[row]))
        table.columns[-2].no_wrap = True
    console.print(table)


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


def _what_was_scored(run: ScoringRun) -> str:
    from ..metrics.backbone_scorer import BackboneScorer

    n_rows = run.source.n_rows
    n_scored = n_rows - len(run.failures) - run.n_left_out
    rows = "1 row" if n_rows == 1 else f"{n_rows:,} rows"
    what = f"Scored {rows}" if n_scored == n_rows else f"Scored {n_scored:,} of {rows}"
    if run.source.path != Path():
        what += f" of {run.source.path}"
    backbones = dict.fromkeys(one.backbone.name for one in run.scorers if isinstance(one, BackboneScorer))
    return f"{what}{' with the backbone ' + ' and '.join(backbones) if backbones else ''}."
