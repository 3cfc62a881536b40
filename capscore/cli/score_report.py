"""Pages that `--report` asks for: the scores of one file, or those of several systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..metrics.base import Scores
    from ..metrics.calibration import Standing
    from ..metrics.score_file import ScoringRun
    from ..metrics.scored_files import SystemRows
    from ..show.score_report import ReportedRow
    from ..show.system_tables import ComparedMetric

SUFFIXES = (".html", ".htm")
_ONLY = "all rows"


def write_scores(
    path: Path, run: ScoringRun, scores: Mapping[str, Scores], standings: Mapping[str, Standing]
) -> Path:
    """Write the page about one scored file.

    Args:
        path: File of the page.
        run: The finished run.
        scores: Scores per metric.
        standings: Per metric, where the scores lie among those of right and of shuffled captions.

    Raises:
        ResultWriteError: The file cannot be written.
    """
    from ..show.reported_rows import file_rows
    from ..show.score_report import ReportedMetric, ReportedRow, write_score_report

    metrics = []
    for name, part in scores.items():
        sentence = standings[name].sentence() if name in standings else ""
        remarks = [f"{sentence[0].upper()}{sentence[1:]}."] if sentence else []
        remarks += [f"{key} of all rows together: {value:.4f}." for key, value in part.corpus.items()]
        metrics.append(ReportedMetric(name, {_ONLY: part.scores}, part.signature, remarks))
    first = next(iter(scores.values()))

    def rows_of(numbers: Sequence[int]) -> dict[int, ReportedRow]:
        found = file_rows(run.source, run.names, run.folder, numbers)
        return {
            number: ReportedRow(
                row.place,
                {_ONLY: row.caption},
                row.photo,
                row.references,
                first.languages[number] or row.language,
                row.name,
                {_ONLY: "; ".join(told for part in scores.values() if (told := _found(part, number)))},
            )
            for number, row in found.items()
        }

    n = run.source.n_rows
    counts = "1 row" if n == 1 else f"{n:,} rows"
    source = run.source.path.name or "captions"
    return write_score_report(
        path,
        title=f"{source}: {counts}",
        metrics=metrics,
        languages=list(first.languages) if any(first.languages) else [],
        rows_of=rows_of,
        failures=[
            f"{run.source.short_place(row, line)}: {message}"
            for row, (line, message) in sorted(run.failures.items())
        ],
    )


def _found(scores: Scores, row: int) -> str:
    from ..show.found_noise import found_noise

    return found_noise(scores.details[row]) if scores.details else ""


def write_systems(
    path: Path,
    rows: SystemRows,
    compared: Sequence[ComparedMetric],
    *,
    images: Path | None = None,
    notes: Sequence[str] = (),
) -> Path:
    """Write the page about several systems.

    Args:
        path: File of the page.
        rows: Their scores on the same rows.
        compared: Comparisons per metric, in the order of `rows.scores`.
        images: Folder of the photos; None for that of the first file.
        notes: Sentences that a reader needs.

    Raises:
        InputError: A file has no column of captions, or the folder does not exist.
        ResultWriteError: The page cannot be written.
    """
    from ..files.columns import find_columns
    from ..files.image_folder import ImageFolder
    from ..show.reported_rows import file_rows
    from ..show.score_report import ReportedMetric, ReportedRow, write_score_report
    from ..show.system_tables import difference_sentences

    sources = rows.sources
    names = {
        name: find_columns(
            source.columns,
            with_images=index == 0 and rows.image_column is not None,
            image=rows.image_column if index == 0 else None,
            with_references=False,
            with_language=False,
        )
        for index, (name, source) in enumerate(sources.items())
    }
    folder = ImageFolder(images or next(iter(sources.values())).folder)

    def rows_of(numbers: Sequence[int]) -> dict[int, ReportedRow]:
        found = {
            name: file_rows(source, names[name], folder, [rows.places[name][number] for number in numbers])
            for name, source in sources.items()
        }
        shown = {}
        for number in numbers:
            own = {name: found[name][rows.places[name][number]] for name in sources}
            first = next(iter(own.values()))
            language = rows.languages[number] if rows.languages else ""
            captions = {name: row.caption for name, row in own.items()}
            shown[number] = ReportedRow(first.place, captions, first.photo, (), language, first.name)
        return shown

    metrics = [
        ReportedMetric(metric, scores, rows.signatures.get(metric, ""), [*difference_sentences(one)])
        for (metric, scores), one in zip(rows.scores.items(), compared, strict=True)
    ]
    n = len(next(iter(metrics[0].scores.values())))
    return write_score_report(
        path,
        title=f"{' and '.join(sources) if len(sources) == 2 else f'{len(sources)} systems'}: {n:,} rows",
        metrics=metrics,
        languages=rows.languages or [],
        rows_of=rows_of,
        notes=notes,
    )
