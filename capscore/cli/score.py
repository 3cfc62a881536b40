"""Score the captions of photos, of a folder, or of a file.

INPUT is a folder with NAME.txt beside each NAME.jpg; or JSONL, JSON, CSV, TSV, Parquet, COCO results or a
saved data set with columns caption, image, references, language. [bold]Images[/]: mcs, pr_mcs, clip_score,
infometic. [bold]Images and references[/]: ref_clip_score, clip_cider. [bold]References[/]: text_score, cider,
cider_d, bleu, rouge_l, meteor, spice.

[bold]Exit codes[/]: 0 all rows scored; 1 failed; 2 wrong usage; 3 done, but rows were skipped;
130 interrupted.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from .. import __version__
from ..errors import Setting, visible
from ..files.console import make_console, progress_bar
from ..metrics import PRESETS
from ..registry import METRICS
from . import options, terminal
from .options import argument, option
from .terminal import UsageError, print_line, say

if TYPE_CHECKING:
    from rich.console import Console

    from ..files.columns import ColumnNames
    from ..files.image_folder import ImageFolder
    from ..files.row_source import RowSource
    from ..metrics.base import Scorer, Scores
    from ..metrics.calibration import Standing
    from ..metrics.score_file import ScoringRun

Preset = Annotated[
    Literal["coco", "multilingual", "reference-free"] | None,
    option(f"Metrics: {', '.join(PRESETS)}.", metavar="NAME"),
]
Photos = Annotated[list[str] | None, option("Photo, instead of INPUT; repeatable.", metavar="PHOTO")]
Metrics = Annotated[list[str] | None, options.metrics_option("As mcs,cider; repeatable. Default: mcs.")]
Output = Annotated[
    Path | None, option("File for the rows, with all columns.", "--output", "-o", panel="Output")
]
PerRow = Annotated[
    bool | None, option("Print rows. Default: up to 10.", "--per-row/--no-per-row", panel="Output")
]
RowsPerFile = Annotated[int | None, option("Rows per Parquet file of OUTPUT.", min=1, panel="Output")]
MAX_SHOWN_ROWS = 10
_MAX_WIDTH = 36  # of columns of scores beside photo and caption, in 80 columns


@options.with_metric_options(options.of_score)
def score(
    input: Annotated[Path | None, argument("INPUT")] = None,
    photo: Photos = None,
    caption: Annotated[list[str] | None, option("Caption of --photo; repeatable.", metavar="TEXT")] = None,
    reference: Annotated[list[str] | None, option("Reference; repeatable.", metavar="TEXT")] = None,
    metric: Metrics = None,
    preset: Preset = None,
    images: options.Images = None,
    references: Annotated[Path | None, option("References, as COCO's annotations.")] = None,
    language: options.Language = None,
    on_error: options.OnError = "raise",
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    output: Output = None,
    report: options.Report = None,
    calibration: Annotated[Path | None, option("File of capscore calibrate.", panel="Output")] = None,
    per_row: PerRow = None,
    rows_per_file: RowsPerFile = None,
    image_column: options.ImageColumn = None,
    candidate_column: options.CandidateColumn = None,
    references_column: options.ReferencesColumn = None,
    language_column: options.LanguageColumn = None,
    split: options.Split = None,
    metric_options: Mapping[str, Any] = {},
) -> int | None:
    """Score the captions, and write and print the scores."""
    from ..files.image_folder import ImageFolder
    from ..files.row_source import CHUNK_ROWS
    from ..metrics.score_file import ScoringRun

    given = (image_column, candidate_column, references_column, language_column)
    columns = dict(zip(options.COLUMNS, given, strict=True))
    typed = {"photo": photo or [], "caption": caption or [], "reference": reference or []}
    of_file = {f"{name}_column": value for name, value in columns.items() if name != "language"}
    _check_input(input, typed, {**of_file, "references": references, "split": split})
    _check(language, language_column, output, report, calibration, force)
    source = _open(input, typed, references, split, image_column)
    metrics = _metrics(metric or [], preset, source, columns)
    options.check_metric_options(metrics, metric_options)
    folder = ImageFolder(images or source.folder, allow_urls=metric_options.get("allow_urls", False))
    names = _find_columns(source, metrics, columns, language, folder, typed)
    target, new = _check_output(output, source, metrics, on_error, force, rows_per_file)
    scorers = _load(metrics, language, metric_options, quiet or source.n_rows > CHUNK_ROWS)
    run = ScoringRun(
        source, names, folder, scorers, language=language, on_error=on_error, say=_warn, spell=terminal.spell
    )
    run.check()
    about = {"input": input and str(input), "output": target and str(target)}
    summary, standings = _score(run, target, new, rows_per_file, about, calibration, quiet)
    if report is not None:
        _write_report(report, run, standings)
    if as_json:
        terminal.print_json(_with_rows(run, summary) if per_row else summary)
    elif not quiet:
        _print(run, standings, per_row, calibration, target, report)
    if run.failures and not quiet:
        what = f"of {source.n_rows:,} rows could not be scored"
        terminal.print_failures(run.failures, what, source.short_place)
    return terminal.SKIPPED if run.failures else None


def _warn(message: str) -> None:
    say(f"warning: {message}")


def _check(
    language: str | None,
    language_column: str | None,
    output: Path | None,
    report: Path | None,
    calibration: Path | None,
    force: bool,
) -> None:
    """Check options before anything is read."""
    from ..metrics.calibration import read_calibrations

    terminal.check_only_one(Setting("language", language), Setting("language_column", language_column))
    options.language_of(language)
    terminal.check_not_standard_output(output, ": rows are written to a file; --json --per-row prints scores")
    terminal.check_result_files(force, report=report)
    if calibration is not None:
        with terminal.as_usage():
            read_calibrations(calibration)


def _check_input(path: Path | None, typed: Mapping[str, list[str]], of_file: Mapping[str, Any]) -> None:
    """Check that there is one thing to score: INPUT, or captions with their photos."""
    from ..files.image_folder import IMAGE_SUFFIXES

    if path is None:
        if not typed["caption"]:
            raise UsageError(
                "there is nothing to score: give a file, a folder of photos, or --photo dog.jpg "
                '--caption "a dog"'
            )
        for name, value in of_file.items():
            if value is not None:
                raise UsageError(Setting(name, value), " goes with INPUT, but there are captions instead")
        return
    for name, texts in typed.items():
        if texts:
            raise UsageError(f"INPUT {path} and ", Setting(name), ": give only one of them")
    if str(path).lower().startswith(("http:/", "https:/")) or (
        path.suffix.lower() in IMAGE_SUFFIXES and not path.is_dir()
    ):
        raise UsageError(
            f"{path} is a photo or a URL, and INPUT is a file of captions or a folder; to score a caption of "
            f'it: --photo {path} --caption "a dog"'
        )


def _open(
    path: Path | None,
    typed: Mapping[str, list[str]],
    annotations: Path | None,
    split: str | None,
    image_column: str | None,
) -> RowSource:
    """The rows to score."""
    from ..files.coco import RowsWithReferences, read_annotations
    from ..files.image_folder import open_captions, pair_captions

    if path is None:
        return pair_captions(*typed.values())
    source = open_captions(path, split=split)
    if annotations is not None:
        read = read_annotations(annotations, option="references")
        source = RowsWithReferences(source, read, image=image_column)
    return source


def _metrics(
    named: Sequence[str], preset: str | None, source: RowSource, columns: Mapping[str, str | None]
) -> list[str]:
    """The metrics, each once; of a preset, those that the rows have inputs for."""
    from ..files.columns import find_image_column, find_reference_columns

    lacks = set()
    if not find_image_column(source.columns, columns["image"]):
        lacks.add("photos")
    if not find_reference_columns(source.columns, columns["references"]):
        lacks.add("references")
    left_out = {}
    for name in PRESETS.get(preset or "", ()):
        kind = METRICS.get(name)
        reads = {"photos": kind.needs_images, "references": kind.needs_references}
        if missing := [what for what in lacks if reads[what]]:
            left_out[name] = missing
    metrics = [name for name in (*PRESETS.get(preset or "", ()), *named) if name not in left_out]
    lacking = " and no ".join(sorted(set().union(*left_out.values())))
    if left_out and not metrics:
        raise UsageError(
            Setting("preset", preset),
            f" is {', '.join(left_out)}, and the input has no {lacking}; columns image and references, "
            "--photo and --reference, or --references hold them",
        )
    if left_out:
        say(f"note: --preset {preset}: {', '.join(left_out)} left out, because the input has no {lacking}")
    return list(dict.fromkeys(metrics)) or ["mcs"]


def _find_columns(
    source: RowSource,
    metrics: Sequence[str],
    columns: Mapping[str, str | None],
    language: str | None,
    folder: ImageFolder,
    typed: Mapping[str, Sequence[str]],
) -> ColumnNames:
    """The columns that the metrics read; photos that were typed in are looked for."""
    from ..files.columns import find_columns, unread_language

    kinds = [METRICS.get(metric) for metric in metrics]
    for kind in kinds if typed["caption"] else ():
        if kind.needs_images and not typed["photo"]:
            raise UsageError(f"{kind.metric} looks at photos: add --photo dog.jpg")
        if kind.needs_references and not typed["reference"]:
            raise UsageError(f'{kind.metric} compares with references: add --reference "a brown dog"')
    names = find_columns(
        source.columns,
        **columns,
        with_images=any(kind.needs_images for kind in kinds),
        with_references=any(kind.needs_references for kind in kinds),
        with_language=language is None,
    )
    unread = unread_language(source.columns, language)
    notes = list(source.notes)
    if unread:
        notes.append(f"--language {language} is taken for every row; the column {unread!r} is not read")
    for name, read in (("photo", names.image), ("reference", names.references)):
        if typed[name] and not read:
            notes.append(f"{', '.join(metrics)} takes none, so --{name} is not read")
    for note in notes:
        say(f"note: {note}")
    if names.image is not None:
        with terminal.as_usage():
            for photo in typed["photo"]:
                folder.find(photo)
    return names


def _check_output(
    output: Path | None,
    source: RowSource,
    metrics: Sequence[str],
    on_error: str,
    force: bool,
    rows_per_file: int | None,
) -> tuple[Path | None, dict[str, tuple[str, str]]]:
    """The path of the result, which can be written, and its new columns."""
    from ..files.row_source import check_names_are_free
    from ..files.write import check_output
    from ..metrics.score_file import result_columns

    new = result_columns(metrics, source.columns if output else (), on_error=on_error)
    if output is None:
        if rows_per_file is not None:
            raise UsageError(Setting("rows_per_file", rows_per_file), " goes with ", Setting("output"))
        return None, new
    check_names_are_free(source, [*new])
    return check_output(output, source, force=force, rows_per_file=rows_per_file), new


def _load(
    metrics: Sequence[str], language: str | None, metric_options: Mapping[str, Any], quiet: bool
) -> list[Scorer]:
    """One scorer per metric, which all can score the language."""
    from ..metrics import load_together

    code = options.language_of(language)
    embeds = any(METRICS.get(metric).takes_backbone for metric in metrics)
    shown = {"progress": False} if quiet and embeds else {}
    scorers = load_together(metrics, **metric_options, **shown)
    for scorer in scorers:
        problem = None if code is None else scorer.language_problem(code)
        if problem:
            raise UsageError(Setting("language", language), f": {problem}")
    return scorers


def _score(
    run: ScoringRun,
    target: Path | None,
    columns: dict[str, tuple[str, str]],
    rows_per_file: int | None,
    about: dict[str, Any],
    calibration: Path | None,
    quiet: bool,
) -> tuple[dict[str, Any], dict[str, Standing]]:
    """Score all rows, and write them; returns the summary, and the standing of each metric's scores."""
    from ..files.row_source import CHUNK_ROWS
    from ..files.write import open_writer
    from ..metrics.calibration import standings
    from ..metrics.score_file import column_types

    source, writer = run.source, None
    if target is not None:
        writer = open_writer(target, source, column_types(columns), rows_per_file=rows_per_file)
    # over many chunks there is one bar for all of them
    shown = None if source.n_rows > CHUNK_ROWS and not quiet else False
    try:
        with progress_bar("Scoring", source.n_rows, shown=shown) as advance:
            run.run(writer, columns, advance)
        placed = standings(run.scores(), calibration)
        summary = _summary(run, about, placed)
        if writer is not None:
            signatures = {name: part.signature for name, part in run.scores().items()}
            text = json.dumps(summary, ensure_ascii=False, indent=2)
            writer.finish({"signatures": signatures}, f"{text}\n")
    except BaseException:
        kept = None if writer is None else writer.stop()
        if kept is not None:
            say(f"the first {run.rows_done:,} of {source.n_rows:,} rows are in {kept}")
        raise
    return summary, placed


def _summary(run: ScoringRun, about: dict[str, Any], placed: Mapping[str, Standing]) -> dict[str, Any]:
    """Means, counts and settings of the whole file, ready for JSON; null for the mean of nothing."""
    metrics: dict[str, Any] = {}
    for name, part in run.scores().items():
        whole = part.summary()
        metrics[name] = {"mean": whole.pop(name), **whole}
        if name in placed:
            metrics[name]["calibration"] = placed[name].to_dict()
    versions: dict[str, str | None] = {"capscore": __version__, "python": platform.python_version()}
    for package in ("torch", "numpy"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:  # metrics that compare texts run without torch
            versions[package] = None
    failures = terminal.listed_failures(run.failures)
    return {
        **about,
        "rows": run.source.n_rows,
        "metrics": metrics,
        "failures": failures,
        "versions": versions,
    }


def _with_rows(run: ScoringRun, summary: dict[str, Any]) -> dict[str, Any]:
    """The summary with lists per metric: scores, and details that are columns; null for a row without."""
    metrics = {}
    for name, part in run.scores().items():
        lists = part.to_dict(per_row=True)
        shown = ("scores", *METRICS.get(name).detail_columns)
        metrics[name] = {**summary["metrics"][name], **{key: lists[key] for key in shown}}
    return {**summary, "metrics": metrics}


def _write_report(path: Path, run: ScoringRun, standings: Mapping[str, Standing]) -> None:
    """Write the page about the scored file."""
    from ..show.score_report import ReportedMetric, ReportedRow, read_rows, write_score_report
    from ..show.tables import noise_text

    source, scores = run.source, run.scores()
    metrics = []
    for name, part in scores.items():
        sentence = standings[name].sentence() if name in standings else ""
        remarks = [f"{sentence[0].upper()}{sentence[1:]}."] if sentence else []
        remarks += [f"{key} of all rows together: {value:.4f}." for key, value in part.corpus.items()]
        metrics.append(ReportedMetric(name, {"all rows": part.scores}, part.signature, remarks))
    languages = next(iter(scores.values())).languages

    def rows_of(numbers: Sequence[int]) -> dict[int, ReportedRow]:
        rows = {}
        for number, row in read_rows(source, run.names, run.folder, numbers, "all rows").items():
            found = [noise_text(part.details[number]) for part in scores.values() if part.details]
            language = languages[number] or row.language
            rows[number] = replace(row, language=language, found={"all rows": "; ".join(filter(None, found))})
        return rows

    n_rows = "1 row" if source.n_rows == 1 else f"{source.n_rows:,} rows"
    write_score_report(
        path,
        title=f"{source.path.name or 'captions'}: {n_rows}",
        metrics=metrics,
        languages=list(languages) if any(languages) else [],
        rows_of=rows_of,
        failures=[
            f"{source.short_place(row, line)}: {message}"
            for row, (line, message) in sorted(run.failures.items())
        ],
    )


def _print(
    run: ScoringRun,
    standings: Mapping[str, Standing],
    per_row: bool | None,
    calibration: Path | None,
    *written: Path | None,
) -> None:
    """Print the rows, if they are few; the means, their standing, the signatures, and where the rows are."""
    console, scores = make_console(), run.scores()
    if per_row or (per_row is None and run.source.n_rows <= MAX_SHOWN_ROWS):
        ranks = _ranks(scores, standings, calibration)
        _print_rows(console, run, dict(ranks))
        for standing in standings.values() if ranks else ():
            print_line(console, f"rank: percent of right captions ({standing.set_name}) that score lower")
    if run.source.n_rows > 1 or per_row is False:
        table = terminal.make_table(
            "metric", numbers=("mean", "scored", "failed", "empty", "images", "truncated")
        )
        for name, part in scores.items():
            counts = (part.n_scored, part.n_failed, part.n_empty, part.n_unique_images, part.n_truncated)
            table.add_row(name, _number(part.mean), *(f"{count:,}" for count in counts))
        console.print(table)
    for name, standing in standings.items():
        print_line(console, f"{name}: {standing.sentence()}")
    for name, part in scores.items():
        if part.corpus:
            numbers = ", ".join(f"{key} {value:.4f}" for key, value in part.corpus.items())
            print_line(console, f"{name} of all rows together: {numbers}")
    for part in scores.values():
        print_line(console, part.signature)
    n_rows = run.source.n_rows
    n_scored = n_rows - len(run.failures) - run.n_left_out
    path = "" if run.source.path == Path() else f" of {run.source.path}"
    print_line(console, f"Scored {n_scored:,} of {n_rows:,} row{'' if n_rows == 1 else 's'}{path}.")
    terminal.print_written(console, *written)
    if written[0] is None:
        print_line(console, "The score of each row is in no file; --output scores.jsonl keeps it.")


def _ranks(
    scores: Mapping[str, Scores], standings: Mapping[str, Standing], calibration: Path | None
) -> dict[str, list[str]]:
    """Rank of each row among right captions, under its heading; {} for several metrics, or no calibration."""
    if len(scores) != 1 or not standings:
        return {}
    ((part, standing),) = zip(scores.values(), standings.values(), strict=True)
    if standing.reason or len(part) < 2:
        return {}
    ranks = part.percentiles(calibration=calibration)
    return {"rank": ["–" if math.isnan(value) else f"{value:.0f} %" for value in ranks]}


def _print_rows(console: Console, run: ScoringRun, further: dict[str, list[str]]) -> None:
    from rich.text import Text

    from ..files.row_source import CHUNK_ROWS
    from ..show.tables import noise_text, photo_name

    image, caption, scores = run.names.image, run.names.candidate, run.scores()
    columns: dict[str, list[str]] = {} if image is None else {"photo": []}
    columns["caption"] = []
    for chunk in run.source.chunks(CHUNK_ROWS):
        columns["caption"] += ["" if text is None else str(text) for text in chunk.values(caption)]
        if image is not None:
            columns["photo"] += [photo_name(value) or "–" for value in chunk.values(image)]
    texts = [[Text(visible(cell)) for cell in cells] for cells in zip(*columns.values(), strict=True)]
    if sum(max(len(name), 6) + 2 for name in scores) <= _MAX_WIDTH:
        if len(scores) == 1:
            (part,) = scores.values()
            found = [noise_text(detail, with_p=False) for detail in part.details or ()]
            further |= {"found": found} if any(found) else {}
        table = terminal.make_table(*columns, numbers=(*scores, *further))
        for row, cells in enumerate(texts):
            numbers = [_number(part.scores[row]) for part in scores.values()]
            table.add_row(*cells, *numbers, *(more[row] for more in further.values()))
    else:  # too many for columns of their own
        table = terminal.make_table(*columns, "metric", numbers=("score",))
        table.columns[-2].no_wrap = True
        for row, cells in enumerate(texts):
            for number, (name, part) in enumerate(scores.items()):
                shown = cells if number == 0 else [Text("")] * len(cells)
                table.add_row(*shown, name, _number(part.scores[row]))
    console.print(table)


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"
