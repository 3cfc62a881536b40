"""The command `capscore score`: scores the captions of a file, and writes and prints the scores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import Setting
from ..files.progress import progress_bar
from ..metrics.loading import options_of
from .models import embedders, spoken_language
from .score_input import ScoreInput, open_input
from .score_request import ScoreRequest
from .score_table import print_scores
from .terminal import (
    SKIPPED,
    Stopped,
    UsageError,
    as_usage,
    listed_failures,
    print_failures,
    print_json,
    say,
    spell,
)

if TYPE_CHECKING:
    from ..embedding.embedder import Embedder
    from ..files.interrupts import Signals
    from ..files.write import Writer
    from ..metrics.base import Scorer, Scores
    from ..metrics.calibration import Standing
    from ..metrics.score_file import ScoringRun


@dataclass(frozen=True)
class ScoreResult:
    """Scores of all rows of a file.

    Attributes:
        scores: Scores per metric.
        summary: Means, counts and settings, ready for JSON.
        target: Path of the result, or None.
        scoring: The finished run.
        standings: Per metric, where the scores lie among those of right and of shuffled captions.
    """

    scores: Mapping[str, Scores]
    summary: dict[str, Any]
    target: Path | None
    scoring: ScoringRun
    standings: dict[str, Standing]


def run_score(request: ScoreRequest) -> ScoreResult:
    """Score a file, and write the result if a path is given.

    Raises:
        UsageError, InputError: An option is wrong, or a row.
        Stopped: A signal came.
    """
    from ..files.interrupts import Signals
    from ..files.row_source import check_names_are_free
    from ..files.write import check_output
    from ..metrics.score_file import check_rows_first, result_columns

    with Signals() as signals:
        given = open_input(request)
        source = given.source
        if not request.quiet:
            for note in given.notes:
                say(f"note: {note}")
        columns = result_columns(
            given.metrics, source.columns if request.output else (), on_error=request.on_error
        )
        target = None
        if request.output is not None:
            check_names_are_free(source, [*columns])
            target = check_output(
                request.output, source, force=request.force, rows_per_file=request.rows_per_file
            )
        if request.on_error == "raise":
            check_rows_first(source, given.names, given.folder)
        return _write_scores(_make_run(request, given), request, columns, target, signals)


def _make_run(request: ScoreRequest, given: ScoreInput) -> ScoringRun:
    from ..files.row_source import CHUNK_ROWS
    from ..metrics.score_file import ScoringRun

    in_chunks = given.source.n_rows > CHUNK_ROWS
    return ScoringRun(
        given.source,
        given.names,
        given.folder,
        _load_scorers(request, given.metrics, progress=False if request.quiet or in_chunks else None),
        language=request.language,
        on_error=request.on_error,
        say=lambda message: say(f"warning: {message}"),
        spell=spell,
    )


def _write_scores(
    run: ScoringRun,
    request: ScoreRequest,
    columns: dict[str, tuple[str, str]],
    target: Path | None,
    signals: Signals,
) -> ScoreResult:
    """Score all rows, and write the result."""
    from ..files.interrupts import before_the_end
    from ..files.row_source import CHUNK_ROWS
    from ..files.write import open_writer
    from ..metrics.score_file import column_types

    source, kinds = run.source, column_types(columns)
    writer = None
    if target is not None:
        writer = open_writer(target, source, kinds, rows_per_file=request.rows_per_file)
    # over many chunks there is one bar for all of them
    shown = None if source.n_rows > CHUNK_ROWS and not request.quiet else False
    with progress_bar("Scoring", source.n_rows, shown=shown) as advance:
        try:
            with before_the_end(lambda: _left_when_interrupted(run, writer)):
                run.run(writer, columns, signals, advance)
                return _finished(run, request, writer, signals)
        except BaseException as error:
            _tell_what_is_left(error, run, writer, signals)
            raise


def _load_scorers(request: ScoreRequest, metrics: Sequence[str], *, progress: bool | None) -> list[Scorer]:
    from ..metrics.loading import default_backbone
    from ..metrics.score_file import load_scorers

    backbones = [
        (request.options.get("backbone") or default_backbone(metric))
        if "backbone" in options_of(metric)
        else None
        for metric in metrics
    ]
    embedder = embedders(request.options, progress=progress)

    def load(backbone: str) -> Embedder:
        with as_usage():
            return embedder(backbone)

    scorers = load_scorers(metrics, backbones, load, request.options)
    language = spoken_language(request.language)
    for scorer in scorers:
        problem = None if language is None else scorer.language_problem(language)
        if problem:
            raise UsageError(Setting("language", request.language), f": {problem}")
    return scorers


def _finished(run: ScoringRun, request: ScoreRequest, writer: Writer | None, signals: Signals) -> ScoreResult:
    from ..metrics.calibration import standings

    scores = run.scores()
    target = None if writer is None else writer.path
    summary = _summary(run, scores, request.input, target)
    placed = standings(scores, request.calibration)
    for name, one in placed.items():
        summary["metrics"][name]["calibration"] = one.to_dict()
    if writer is not None:
        signatures = {name: part.signature for name, part in scores.items()}
        text = json.dumps(summary, ensure_ascii=False, indent=2)
        with signals.held(drop=True):  # nothing is left to interrupt
            writer.finish({"signatures": signatures}, f"{text}\n")
    run.tell_about_truncation(scores)
    if request.report is not None:
        from .score_report import write_scores

        write_scores(request.report, run, scores, placed)
    return ScoreResult(scores, summary, target, run, placed)


def _tell_what_is_left(
    error: BaseException, run: ScoringRun, writer: Writer | None, signals: Signals
) -> None:
    """Close an unfinished result, and say where the rows are that were written so far."""
    with signals.held(drop=True):
        if isinstance(error, KeyboardInterrupt):
            raise Stopped(_left_when_interrupted(run, writer), error) from None
        kept = None if writer is None else writer.stop()
    if kept is not None and writer is not None:
        say(f"the first {writer.written:,} of {run.source.n_rows:,} rows are in {kept}")


def _left_when_interrupted(run: ScoringRun, writer: Writer | None) -> str:
    """Close an unfinished result; returns what to say."""
    from ..metrics.backbone_scorer import BackboneScorer

    kept = None if writer is None else writer.stop()
    embedders = [one.embedder for one in run.scorers if isinstance(one, BackboneScorer)]
    cached = any(embedder.cache is not None for embedder in embedders)
    again = ". Embeddings are kept, so a second run is quick up to here" if cached else ""
    done = f"interrupted: {run.rows_done:,} of {run.source.n_rows:,} rows are scored, in {kept}"
    return (done if kept else "interrupted; no result was written") + again


def _summary(
    run: ScoringRun, scores: Mapping[str, Scores], given: Path | None, target: Path | None
) -> dict[str, Any]:
    """Means, counts and settings of the whole file, ready for JSON; null for the mean of nothing."""
    import platform

    metrics = {}
    for name, part in scores.items():
        whole = part.summary()
        metrics[name] = {"mean": whole.pop(name), **whole}
    return {
        "input": None if given is None else str(given),
        "output": None if target is None else str(target),
        "rows": run.source.n_rows,
        "metrics": metrics,
        "failures": listed_failures(run.failures),
        "versions": {
            "capscore": __version__,
            "python": platform.python_version(),
            "torch": _installed("torch"),
            "numpy": _installed("numpy"),
        },
    }


def _installed(package: str) -> str | None:
    """Version of a package, or None without it: metrics that compare texts run without torch."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def show_score(request: ScoreRequest, result: ScoreResult) -> int | None:
    """Print means and counts, or the summary as JSON, and the rows that failed."""
    n_rows, failures = result.scoring.source.n_rows, result.scoring.failures
    if request.as_json:
        print_json(_with_rows(result) if request.per_row else result.summary)
    elif not request.quiet:
        print_scores(
            result.scoring,
            result.scores,
            result.standings,
            result.target,
            report=request.report,
            calibration=request.calibration,
            per_row=request.per_row,
        )
    if not failures:
        return None
    if not request.quiet:
        place = result.scoring.source.short_place
        print_failures(failures, f"of {n_rows:,} rows could not be scored", place=place)
    return SKIPPED


def _with_rows(result: ScoreResult) -> dict[str, Any]:
    """The summary with lists per metric: scores, and details that are columns; null for a row without."""
    from ..registry import METRICS

    metrics = {}
    for name, part in result.scoring.scores().items():
        lists = part.to_dict(per_row=True)
        shown = ("scores", *METRICS.get(name).detail_columns)
        metrics[name] = {**result.summary["metrics"][name], **{key: lists[key] for key in shown}}
    return {**result.summary, "metrics": metrics}
