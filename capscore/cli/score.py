"""The command `capscore score`: options in; a scored file, a table on stdout, and an exit code out."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import __version__
from ..files.progress import progress_bar
from ..scorers import KINDS, scorer_class
from ..scorers.options import OPTIONS, options_of
from .options import (
    BatchSize,
    Beta,
    CacheDir,
    Debug,
    Device,
    Dtype,
    NoCache,
    NRegions,
    RegionNames,
    RegionsFrom,
    TrustRemoteCode,
    Weights,
    chosen_cache,
    infometic_options,
)
from .terminal import (
    DEBUG,
    SKIPPED,
    as_usage,
    box_style,
    command,
    exit_code,
    make_console,
    print_line,
    say,
    speaks_unicode,
)

if TYPE_CHECKING:
    from ..backbones.base import Backbone
    from ..embedding.embedder import Embedder
    from ..files.rows import Writer
    from ..scorers.base import Scorer, Scores
    from ..scorers.score_file import ScoringRun, Signals

_SCORE_HELP = """Score the captions of a file.

INPUT is JSONL, JSON (a list of objects), CSV, TSV, Parquet, or the folder of a saved data set
([bold]save_to_disk[/]). Its columns: [bold]caption[/]; [bold]image[/] (a path, an image id, or the image
itself) for metrics that look at images; [bold]references[/] (a list; in CSV a JSON list, or columns
reference_1, reference_2, …) for those that compare with references; and [bold]language[/] if there is one.

{metrics}

The result has the same rows and columns, then the scores; its kind goes by the suffix of --output, and a name
without one makes a saved data set. Means, counts and what the scores depend on are beside it in
scores.summary.json. Until the result is whole,
it is called scores.partial.jsonl for an OUTPUT of scores.jsonl. Rows are written as they are scored; with a
metric that compares rows with each other or counts words, when all have been read.

[bold]Exit codes[/]: 0 all rows scored; 1 failed (a bad row, weights that cannot be had, a result that cannot
be written); 2 wrong usage (options, columns, metric, language), nothing done; 3 done, but rows were skipped
(--on-error skip); 130 interrupted (Ctrl-C), 143 ended (SIGTERM): the rows written so far are whole.

[bold]Example[/]: capscore score preds.jsonl --metric mcs --images photos --output scores.jsonl
"""


def score_help() -> str:
    """The command's help, with all metrics."""
    metrics = "\n\n".join(f"[bold]{looks_at}[/]: {', '.join(names)}." for looks_at, names in KINDS.items())
    # Rich keeps single line breaks; a paragraph is to fill the terminal, whatever its width.
    return re.sub(r"(?<!\n)\n(?!\n)", " ", _SCORE_HELP).replace("{metrics}", metrics)


@command
def score(
    input: Annotated[
        Path, typer.Argument(help="The file or data set with the captions.", show_default=False)
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", help="One of those above; may be repeated. Default: mcs."),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder that image names start from. Default: that of INPUT.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where the scored rows go.", show_default=False),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="Name, Hub id (org/name@revision) or folder; see `capscore backbones`. Default: the "
            "variable CAPSCORE_BACKBONE, else the metric's own.",
            show_default=False,
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            help="Language code of all captions, such as de. Metrics that count words split texts by it; "
            "not stated counts as English.",
            show_default=False,
        ),
    ] = None,
    on_error: Annotated[
        str,
        typer.Option("--on-error", help="raise: stop at the first bad row. skip: leave it without a score."),
    ] = "raise",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No table, no progress bar.")] = False,
    debug: Debug = False,
    image_column: Annotated[
        str | None,
        typer.Option(help="Default: image, image_path, file_name or img.", rich_help_panel="Columns"),
    ] = None,
    candidate_column: Annotated[
        str | None,
        typer.Option(help="Default: caption, candidate, prediction, hyp or cand.", rich_help_panel="Columns"),
    ] = None,
    references_column: Annotated[
        str | None,
        typer.Option(
            help="Default: references, refs, or reference_1, reference_2, ….", rich_help_panel="Columns"
        ),
    ] = None,
    language_column: Annotated[
        str | None, typer.Option(help="Default: language or lang.", rich_help_panel="Columns")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Split of a saved data set that has several.", rich_help_panel="Columns"),
    ] = None,
    device: Device = None,
    dtype: Dtype = "float32",
    batch_size: BatchSize = None,
    revision: Annotated[
        str | None, typer.Option(help="Commit, branch or tag on the Hub.", rich_help_panel="Model")
    ] = None,
    image_tower: Annotated[
        str | None, typer.Option(help="For text towers published alone.", rich_help_panel="Model")
    ] = None,
    trust_remote_code: TrustRemoteCode = False,
    allow_urls: Annotated[
        bool,
        typer.Option("--allow-urls", help="Fetch images from http(s) addresses.", rich_help_panel="Model"),
    ] = False,
    cache_dir: CacheDir = None,
    no_cache: NoCache = False,
    document_frequencies: Annotated[
        Path | None,
        typer.Option(
            help="For cider, cider_d, clip_cider: the file of DocumentFrequencies.save. Default: counted in "
            "the references of INPUT.",
            rich_help_panel="CIDEr",
            show_default=False,
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(help="For cider: coco (default) or paper.", rich_help_panel="CIDEr", show_default=False),
    ] = None,
    clip: Annotated[
        str | None,
        typer.Option(
            help="For clip_cider: ref_clip_score (default) or clip_score.",
            rich_help_panel="CIDEr",
            show_default=False,
        ),
    ] = None,
    weights: Weights = None,
    regions: RegionsFrom = None,
    region_names: RegionNames = None,
    n_regions: NRegions = None,
    beta: Beta = None,
) -> None:
    DEBUG.set(debug)
    from ..files.columns import FAMILIAR, ImageFolder, find_fields
    from ..files.rows import UsageError, check_output, open_rows, open_writer
    from ..scorers.score_file import (
        CHUNK_ROWS,
        ScoringRun,
        Signals,
        check_images_exist,
        load_scorers,
        result_columns,
    )

    with Signals() as signals:
        metrics = _metrics(metric)
        if on_error not in ("raise", "skip"):
            raise UsageError(f"--on-error {on_error}: expected raise or skip")
        cache = chosen_cache(cache_dir, no_cache)
        if language is not None and language_column is not None:
            raise UsageError("--language and --language-column: give one of them")
        _check_dtype_and_language(dtype, language)
        of_infometic = {
            "weights": weights,
            "regions": regions,
            "region_names": region_names or None,
            "n_regions": n_regions,
            "beta": beta,
        }
        _check_taken(
            metrics,
            {
                "document_frequencies": document_frequencies,
                "variant": variant,
                "clip": clip,
                "backbone": backbone,
                "device": device,
                "dtype": dtype != "float32",
                "batch_size": batch_size,
                "revision": revision,
                "image_tower": image_tower,
                "trust_remote_code": trust_remote_code,
                "allow_urls": allow_urls,
                "cache": no_cache or cache_dir,
                **of_infometic,
            },
        )
        own = _own_options(document_frequencies, variant, clip) | infometic_options(**of_infometic)

        kinds = [scorer_class(name) for name in metrics]
        source = open_rows(input, split=split)
        fields = find_fields(
            source.columns,
            image=image_column,
            candidate=candidate_column,
            references=references_column,
            language=language_column,
            with_images=any(kind.needs_images for kind in kinds),
            with_references=any(kind.needs_references for kind in kinds),
            with_language=language is None,
        )
        unread = [name for name in FAMILIAR["language"] if name in source.columns]
        if language is not None and unread and not quiet:
            say(f"note: --language {language} is taken for every row; the column {unread[0]!r} is not read")
        folder = ImageFolder(images if images is not None else source.path.parent, allow_urls=allow_urls)
        columns = result_columns(metrics, source.columns if output else (), on_error=on_error)
        target = check_output(output, source, force=force) if output is not None else None
        if on_error == "raise":
            check_images_exist(source, fields, folder)

        in_chunks = source.n_rows > CHUNK_ROWS

        def make_embedder(name: str) -> Embedder:
            from ..embedding.cache import resolve_cache
            from ..embedding.embedder import Embedder

            return Embedder(
                _load_backbone(name, device, dtype, revision, image_tower, trust_remote_code),
                batch_size=batch_size,
                cache=resolve_cache(cache),
                allow_urls=allow_urls,
                progress=False if quiet or in_chunks else None,  # over many chunks the bar is ours
            )

        backbones = [
            (backbone or _default_backbone(name)) if "backbone" in options_of(name) else None
            for name in metrics
        ]
        scorers = load_scorers(metrics, backbones, make_embedder, own)
        _check_language(language, scorers)
        run = ScoringRun(
            source,
            fields,
            folder,
            scorers,
            language=language,
            on_error=on_error,
            say=lambda message: say(f"warning: {message}"),
        )
        kinds = {name: float if metric else str for name, (metric, _) in columns.items()}
        writer = open_writer(target, source, kinds) if target is not None else None
        with progress_bar(
            "Scoring", source.n_rows, shown=None if in_chunks and not quiet else False
        ) as advance:
            scores, summary = _run_and_write(run, writer, columns, signals, advance)

    run.tell_about_truncation(scores)
    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=not speaks_unicode()))
    elif not quiet:
        _print_summary(scores, run, target)
    if run.failures:
        if not quiet:
            _tell_failures(run)
        raise typer.Exit(SKIPPED)


def _metrics(given: list[str] | None) -> list[str]:
    metrics = list(dict.fromkeys(given or ["mcs"]))
    with as_usage():
        for metric in metrics:
            scorer_class(metric)
    return metrics


def _check_taken(metrics: list[str], options: dict[str, object]) -> None:
    """See that every option that was given means something to one of the metrics."""
    from ..files.rows import UsageError

    taken = {name for metric in metrics for name in options_of(metric)}
    for name, value in options.items():
        if value is not None and value is not False and name not in taken:
            spelt = {"cache": "--cache-dir and --no-cache"}.get(name, f"--{name.replace('_', '-')}")
            raise UsageError(f"{spelt}: an option of other metrics than {', '.join(metrics)}")


def _own_options(
    document_frequencies: Path | None, variant: str | None, clip: str | None
) -> dict[str, object]:
    """What scorers take themselves, read and checked; without what was not given."""
    own: dict[str, object] = {}
    with as_usage():
        if document_frequencies is not None:
            from ..scorers.formulas.cider import DocumentFrequencies

            own["document_frequencies"] = DocumentFrequencies.load(document_frequencies)
        if variant is not None:
            own["variant"] = OPTIONS["variant"].check(variant)
        if clip is not None:
            own["clip"] = OPTIONS["clip"].check(clip)
    return own


def _check_dtype_and_language(dtype: str, language: str | None) -> None:
    from ..backbones.base import resolve_dtype
    from ..text.languages import language_code

    with as_usage():
        resolve_dtype(dtype)
        if language is not None:
            language_code(language)


def _check_language(language: str | None, scorers: list[Scorer]) -> None:
    """See that what is said to be the language of all rows can be scored."""
    from ..files.rows import UsageError
    from ..text.languages import language_code

    for scorer in scorers if language is not None else ():
        problem = scorer.language_problem(language_code(language))
        if problem:
            raise UsageError(f"--language {language}: {problem}")


def _default_backbone(metric: str) -> str:
    from ..backbones.loading import default_backbone

    return default_backbone(metric)


def _load_backbone(
    name: str,
    device: str | None,
    dtype: str,
    revision: str | None,
    image_tower: str | None,
    trust_remote_code: bool,
) -> Backbone:
    from ..backbones import load_backbone

    with as_usage():
        return load_backbone(
            name,
            device=device,
            dtype=dtype,
            revision=revision,
            image_tower=image_tower,
            trust_remote_code=trust_remote_code,
        )


def _run_and_write(
    run: ScoringRun,
    writer: Writer | None,
    columns: dict[str, tuple[str, str]],
    signals: Signals,
    advance: Callable[[int], None],
) -> tuple[dict[str, Scores], dict[str, Any]]:
    """Score all rows and finish the result; what breaks off leaves the rows so far in a whole file."""
    try:
        run.run(writer, columns, signals, advance)
        scores = run.scores()
        summary = _summary(run, scores, None if writer is None else writer.path)
        if writer is not None:
            signatures = {name: part.signature for name, part in scores.items()}
            text = json.dumps(summary, ensure_ascii=False, indent=2)
            with signals.held(drop=True):  # nothing is left to interrupt
                writer.finish({"signatures": signatures}, f"{text}\n")
    except BaseException as error:
        with signals.held(drop=True):
            kept = None if writer is None else writer.stop()
        if isinstance(error, KeyboardInterrupt):
            say(_told_interruption(run, kept))
            raise typer.Exit(exit_code(error)) from None
        if kept is not None:
            say(f"the first {writer.written:,} of {run.source.n_rows:,} rows are in {kept}")
        raise
    return scores, summary


def _told_interruption(run: ScoringRun, kept: Path | None) -> str:
    from ..scorers.backbone_scorer import BackboneScorer

    cached = any(
        isinstance(scorer, BackboneScorer) and scorer.embedder.cache is not None for scorer in run.scorers
    )
    again = ". Embeddings are kept, so a second run is quick up to here" if cached else ""
    if kept is None:
        return f"interrupted; no result was written{again}"
    return f"interrupted: {run.rows_done:,} of {run.source.n_rows:,} rows are scored, in {kept}{again}"


def _summary(run: ScoringRun, scores: dict[str, Scores], target: Path | None) -> dict[str, Any]:
    """What the whole file came to, JSON-ready; null for the mean of nothing."""
    import platform
    from importlib.metadata import version

    metrics = {}
    for name, part in scores.items():
        whole = part.summary()
        metrics[name] = {"mean": whole.pop(name), **whole}
    return {
        "input": str(run.source.path),
        "output": None if target is None else str(target),
        "rows": run.source.n_rows,
        "metrics": metrics,
        "failures": [
            {"row": row, "line": line, "error": error} for row, (line, error) in sorted(run.failures.items())
        ],
        "versions": {
            "capscore": __version__,
            "python": platform.python_version(),
            "torch": version("torch"),
            "numpy": version("numpy"),
        },
    }


def _print_summary(scores: dict[str, Scores], run: ScoringRun, target: Path | None) -> None:
    from rich.table import Table

    console = make_console()
    table = Table(box=box_style(), pad_edge=False)
    table.add_column("metric", no_wrap=True)
    for heading in ("mean", "rows", "images", "failed", "truncated"):
        table.add_column(heading, justify="right")
    for name, part in scores.items():
        mean = "–" if math.isnan(part.mean) else f"{part.mean:.4f}"
        counts = (len(part), part.n_unique_images, part.n_failed, part.n_truncated)
        table.add_row(name, mean, *(f"{count:,}" for count in counts))
    console.print(table)
    for name, part in scores.items():
        if part.corpus:
            numbers = ", ".join(f"{key} {value:.4f}" for key, value in part.corpus.items())
            print_line(console, f"{name} of all rows together: {numbers}")
    for part in scores.values():
        print_line(console, part.signature)
    if target is None:
        print_line(console, "No file was written; --output scores.jsonl keeps the score of each row.")
    else:
        print_line(console, f"{run.source.n_rows:,} rows written to {target}")


def _tell_failures(run: ScoringRun, most: int = 5) -> None:
    say(f"{len(run.failures):,} of {run.source.n_rows:,} rows could not be scored:")
    for row, (line, error) in sorted(run.failures.items())[:most]:
        place = f"row {row} counted from 0" if line is None else f"line {line}"
        print(f"  {place}: {error}", file=sys.stderr)
    if len(run.failures) > most:
        print(f"  and {len(run.failures) - most:,} more, which the summary lists", file=sys.stderr)
