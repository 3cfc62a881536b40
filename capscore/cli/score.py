"""The command `capscore score`: scores the captions of a file, and writes and prints the scores."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from .. import __version__
from ..errors import Setting
from ..files.progress import progress_bar
from ..scorers import KINDS, scorer_class
from ..scorers.options import options_of
from .models import check_metrics, embedders, split_metrics, spoken_language
from .options import OF_SCORE, AsJson, Force, Language, OnError, Quiet, Split, column_option, metric_option
from .request import argument, check_metric_options, flowing, metric_options, option
from .terminal import (
    SKIPPED,
    Stopped,
    UsageError,
    as_usage,
    check_choice,
    check_only_one,
    listed_failures,
    make_console,
    make_table,
    print_failures,
    print_json,
    print_line,
    say,
)

if TYPE_CHECKING:
    from ..embedding.embedder import Embedder
    from ..files.columns import ColumnNames
    from ..files.image_folder import ImageFolder
    from ..files.interrupts import Signals
    from ..files.row_source import RowSource
    from ..files.write import Writer
    from ..scorers.base import Scorer, Scores
    from ..scorers.score_file import ScoringRun

_HELP = """Score the captions of a file.

INPUT is JSONL, JSON, CSV, TSV, Parquet, or the folder of a saved data set, with these columns:
[bold]caption[/]; [bold]image[/] (path, id, or the image itself) for metrics that look at images;
[bold]references[/] (a list, in CSV as JSON, or columns reference_1, reference_2, …) for metrics that compare
with references; and [bold]language[/], which is optional.

{metrics}

The result has the same rows and columns, and then the scores, in the kind of file that the suffix of --output
asks for (a saved data set if there is none). Means and settings are in OUTPUT.summary.json. Until the result
is complete, its name is OUTPUT.partial.jsonl.

[bold]Exit codes[/]: 0 all rows scored; 1 failed (row, weights, or writing); 2 wrong usage, nothing done; 3
done, but rows were skipped (--on-error skip); 130 interrupted (Ctrl-C), 143 ended (SIGTERM): the rows
written so far are whole.

[bold]Example[/]: capscore score preds.jsonl --metric mcs --images photos --output scores.jsonl
"""


def score_help() -> str:
    """The command's help, with all metrics."""
    metrics = "\n\n".join(f"[bold]{looks_at}[/]: {', '.join(names)}." for looks_at, names in KINDS.items())
    return flowing(_HELP).replace("{metrics}", metrics)


@dataclass(frozen=True)
class ScoreRequest:
    """What `capscore score` is asked for."""

    input: Annotated[Path, argument("INPUT")]
    metric: Annotated[list[str] | None, metric_option("Metrics, as mcs,cider; repeatable. Default: mcs.")] = (
        None
    )
    images: Annotated[
        Path | None, option("Folder of the images. Default: that of INPUT.", metavar="FOLDER")
    ] = None
    output: Annotated[Path | None, option("File for the scored rows.", "--output", "-o")] = None
    language: Language = None
    on_error: OnError = "raise"
    force: Force = False
    as_json: AsJson = False
    quiet: Quiet = False
    image_column: Annotated[str | None, column_option("image, image_path, file_name, img")] = None
    candidate_column: Annotated[str | None, column_option("caption, candidate, hyp, …")] = None
    references_column: Annotated[str | None, column_option("references, refs, reference_1, …")] = None
    language_column: Annotated[str | None, column_option("language, lang")] = None
    split: Split = None
    options: Mapping[str, Any] = metric_options(*OF_SCORE)

    def __post_init__(self) -> None:
        check_metrics(self.metrics)
        check_choice("on_error", self.on_error, ("raise", "skip"))
        check_only_one(Setting("language", self.language), Setting("language_column", self.language_column))
        spoken_language(self.language)
        check_metric_options(self.metrics, self.options)

    @property
    def metrics(self) -> list[str]:
        """The metrics, each once."""
        return split_metrics(self.metric) or ["mcs"]


@dataclass(frozen=True)
class ScoreResult:
    """Scores of all rows of a file.

    Attributes:
        scores: Scores per metric.
        summary: Means, counts and settings, ready for JSON.
        target: Path of the result, or None.
        scoring: The finished run.
    """

    scores: dict[str, Scores]
    summary: dict[str, Any]
    target: Path | None
    scoring: ScoringRun


def run_score(request: ScoreRequest) -> ScoreResult:
    """Score a file, and write the result if a path is given.

    Raises:
        UsageError, InputError: An option is wrong, or a row.
        Stopped: A signal came.
    """
    from ..files.interrupts import Signals
    from ..files.row_source import CHUNK_ROWS, check_names_are_free
    from ..files.write import check_output, open_writer
    from ..scorers.score_file import ScoringRun, check_images_exist, result_columns

    with Signals() as signals:
        source, names, folder = _open_input(request)
        columns = result_columns(
            request.metrics, source.columns if request.output else (), on_error=request.on_error
        )
        target = None
        if request.output is not None:
            check_names_are_free(source, [*columns])
            target = check_output(request.output, source, force=request.force)
        if request.on_error == "raise" and names.image is not None:
            check_images_exist(source, names.image, folder)
        in_chunks = source.n_rows > CHUNK_ROWS
        run = ScoringRun(
            source,
            names,
            folder,
            _load_scorers(request, progress=False if request.quiet or in_chunks else None),
            language=request.language,
            on_error=request.on_error,
            say=lambda message: say(f"warning: {message}"),
        )
        kinds = {name: float if metric else str for name, (metric, _) in columns.items()}
        writer = None if target is None else open_writer(target, source, kinds)
        # over many chunks there is one bar for all of them
        shown = None if in_chunks and not request.quiet else False
        with progress_bar("Scoring", source.n_rows, shown=shown) as advance:
            try:
                run.run(writer, columns, signals, advance)
                return _finished(run, writer, signals)
            except BaseException as error:
                _tell_what_is_left(error, run, writer, signals)
                raise


def _open_input(request: ScoreRequest) -> tuple[RowSource, ColumnNames, ImageFolder]:
    from ..files.columns import find_columns, unread_language
    from ..files.image_folder import ImageFolder
    from ..files.read import open_rows

    kinds = [scorer_class(metric) for metric in request.metrics]
    source = open_rows(request.input, split=request.split)
    names = find_columns(
        source.columns,
        image=request.image_column,
        candidate=request.candidate_column,
        references=request.references_column,
        language=request.language_column,
        with_images=any(kind.needs_images for kind in kinds),
        with_references=any(kind.needs_references for kind in kinds),
        with_language=request.language is None,
    )
    unread = unread_language(source.columns, request.language)
    if unread and not request.quiet:
        say(f"note: --language {request.language} is taken for every row; the column {unread!r} is not read")
    folder = source.path.parent if request.images is None else request.images
    return source, names, ImageFolder(folder, allow_urls=request.options.get("allow_urls", False))


def _load_scorers(request: ScoreRequest, *, progress: bool | None) -> list[Scorer]:
    from ..backbones.loading import default_backbone
    from ..scorers.score_file import load_scorers

    backbones = [
        (request.options.get("backbone") or default_backbone(metric))
        if "backbone" in options_of(metric)
        else None
        for metric in request.metrics
    ]
    embedder = embedders(request.options, progress=progress)

    def load(backbone: str) -> Embedder:
        with as_usage():
            return embedder(backbone)

    scorers = load_scorers(request.metrics, backbones, load, request.options)
    language = spoken_language(request.language)
    for scorer in scorers:
        problem = None if language is None else scorer.language_problem(language)
        if problem:
            raise UsageError(Setting("language", request.language), f": {problem}")
    return scorers


def _finished(run: ScoringRun, writer: Writer | None, signals: Signals) -> ScoreResult:
    scores = run.scores()
    target = None if writer is None else writer.path
    summary = _summary(run, scores, target)
    if writer is not None:
        signatures = {name: part.signature for name, part in scores.items()}
        text = json.dumps(summary, ensure_ascii=False, indent=2)
        with signals.held(drop=True):  # nothing is left to interrupt
            writer.finish({"signatures": signatures}, f"{text}\n")
    run.tell_about_truncation(scores)
    return ScoreResult(scores, summary, target, run)


def _tell_what_is_left(
    error: BaseException, run: ScoringRun, writer: Writer | None, signals: Signals
) -> None:
    """Close an unfinished result, and say where the rows are that were written so far."""
    from ..scorers.backbone_scorer import BackboneScorer

    with signals.held(drop=True):
        kept = None if writer is None else writer.stop()
    n_rows = run.source.n_rows
    if isinstance(error, KeyboardInterrupt):
        embedders = [one.embedder for one in run.scorers if isinstance(one, BackboneScorer)]
        cached = any(embedder.cache is not None for embedder in embedders)
        again = ". Embeddings are kept, so a second run is quick up to here" if cached else ""
        done = f"interrupted: {run.rows_done:,} of {n_rows:,} rows are scored, in {kept}"
        raise Stopped((done if kept else "interrupted; no result was written") + again, error) from None
    if kept is not None and writer is not None:
        say(f"the first {writer.written:,} of {n_rows:,} rows are in {kept}")


def _summary(run: ScoringRun, scores: dict[str, Scores], target: Path | None) -> dict[str, Any]:
    """Means, counts and settings of the whole file, ready for JSON; null for the mean of nothing."""
    import platform

    metrics = {}
    for name, part in scores.items():
        whole = part.summary()
        metrics[name] = {"mean": whole.pop(name), **whole}
    return {
        "input": str(run.source.path),
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
        print_json(result.summary)
    elif not request.quiet:
        _print_table(result)
    if not failures:
        return None
    if not request.quiet:
        print_failures(failures, f"of {n_rows:,} rows could not be scored")
    return SKIPPED


def _print_table(result: ScoreResult) -> None:
    console = make_console()
    table = make_table("metric", numbers=("mean", "rows", "images", "failed", "truncated"))
    for name, part in result.scores.items():
        mean = "–" if math.isnan(part.mean) else f"{part.mean:.4f}"
        counts = (len(part), part.n_unique_images, part.n_failed, part.n_truncated)
        table.add_row(name, mean, *(f"{count:,}" for count in counts))
    console.print(table)
    for name, part in result.scores.items():
        if part.corpus:
            numbers = ", ".join(f"{key} {value:.4f}" for key, value in part.corpus.items())
            print_line(console, f"{name} of all rows together: {numbers}")
    for part in result.scores.values():
        print_line(console, part.signature)
    if result.target is None:
        print_line(console, "No file was written; --output scores.jsonl keeps the score of each row.")
    else:
        print_line(console, f"{result.summary['rows']:,} rows written to {result.target}")
