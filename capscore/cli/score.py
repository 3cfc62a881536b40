"""Score the captions of photos, of a folder, or of a file.

INPUT is a folder with NAME.txt beside each NAME.jpg; JSONL, JSON, CSV, TSV, Parquet, WebDataset or a saved
data set with columns caption, image, references, language; or JSON of captions by photo. [bold]Images[/]:
mcs, pr_mcs, clip_score, infometic, judge. [bold]Images and references[/]: ref_clip_score, clip_cider.
[bold]References[/]: text_score, cider, cider_d, bleu, rouge_l, meteor, spice, chair.

[bold]Default backbones[/]: of capscore-weights, embedded-pr-mcs for pr_mcs and embedded for infometic; from
the Hub, xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k for mcs and text_score,
ViT-B-32-quickgelu/openai for clip_score, ref_clip_score and clip_cider, and Qwen/Qwen3-VL-4B-Instruct for
judge. The variables CAPSCORE_JUDGE, for judge, and CAPSCORE_BACKBONE, for the others, name other ones.

[bold]Exit codes[/]: 0 all rows scored; 1 failed; 2 wrong usage; 3 done, but rows were skipped;
130 interrupted.

[bold]Example[/]: capscore score captions.jsonl --images photos --metric mcs --output scores.csv
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from .. import __version__
from ..errors import InputError, Setting, visible
from ..files.console import make_console, progress_bar
from ..metrics import PRESETS
from ..metrics.loading import ScorerLoader
from ..options import RowOptions
from ..registry import METRICS
from . import options, terminal
from .options import argument, option
from .terminal import UsageError, print_line, say

if TYPE_CHECKING:
    from rich.console import Console

    from ..files.row_source import RowSource
    from ..metrics.base import Scorer
    from ..metrics.calibration import Standing
    from ..metrics.score_file import RowFilter, ScoringRun

Preset = Annotated[
    Literal["coco", "clipscore", "multilingual", "reference-free"] | None,
    option(f"Metrics: {', '.join(PRESETS)}.", metavar="NAME"),
]
Photos = Annotated[list[str] | None, option("Photo, instead of INPUT; repeatable.", metavar="PHOTO")]
Metrics = Annotated[
    list[str] | None,
    options.metrics_option("METRIC or METRIC@BACKBONE, as mcs,cider; repeatable. Default: mcs."),
]
Output = Annotated[
    Path | None, option("File for the rows, with all columns.", "--output", "-o", panel="Output")
]
Worst = Annotated[int | None, option("Number of worst rows to print.", min=1, panel="Output")]
Sort = Annotated[
    str | None,
    option("Order of printed rows. Default: rank, or the score.", metavar="COLUMN", panel="Output"),
]
Keep = Annotated[Path | None, option("File for the rows that stay, by --min-score or --top.", panel="Output")]
MinScore = Annotated[float | None, option("Worst score, of the first metric, that stays.", panel="Output")]
Top = Annotated[str | None, option("Best rows that stay, such as 1000 or 30%.", metavar="N", panel="Output")]
References = Annotated[Path | None, option("File of references, matched by photo.")]
MAX_SHOWN_ROWS, MAX_COLUMNS = 10, 3


@options.with_metric_options(options.of_score)
def score(
    input: Annotated[Path | None, argument("INPUT")] = None,
    photo: Photos = None,
    caption: Annotated[list[str] | None, option("Caption of --photo; repeatable.", metavar="TEXT")] = None,
    reference: Annotated[list[str] | None, option("Reference; repeatable.", metavar="TEXT")] = None,
    metric: Metrics = None,
    preset: Preset = None,
    images: options.Images = None,
    references: References = None,
    language: options.Language = None,
    on_error: options.OnError = "raise",
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    output: Output = None,
    report: options.Report = None,
    worst: Worst = None,
    sort: Sort = None,
    calibration: Annotated[Path | None, option("File that capscore calibrate wrote.", panel="Output")] = None,
    keep: Keep = None,
    min_score: MinScore = None,
    top: Top = None,
    image_column: options.ImageColumn = None,
    candidate_column: options.CandidateColumn = None,
    references_column: options.ReferencesColumn = None,
    language_column: options.LanguageColumn = None,
    split: options.Split = None,
    metric_options: Mapping[str, Any] = {},
) -> int | None:
    """Score the captions, and write and print the scores."""
    from ..files.image_folder import pair_captions
    from ..files.references import open_with_references, read_references, with_references
    from ..metrics.calibration import read_calibrations
    from ..show.score_report import write_score_report

    terminal.check_only_one(Setting("language", language), Setting("language_column", language_column))
    terminal.check_not_standard_output(output, ": rows are written to a file; --json prints the means")
    terminal.check_result_files(force, report=report)
    if calibration is not None:
        with terminal.as_usage():
            read_calibrations(calibration)
    columns = options.columns(image_column, candidate_column, references_column, language_column)
    if (input is None) == (not (photo or caption or reference)):
        expected = "expected one thing to score: a file or a folder of photos, or --photo dog.jpg --caption "
        raise UsageError(f"{expected}'a dog'")
    if input is not None:
        row_options = RowOptions(
            image_column=image_column,
            split=split,
            references=references,
            language=language,
            on_error=on_error,
        )
        source = open_with_references(input, row_options)
    else:
        source = pair_captions(photo or (), caption or (), reference or ())
        if references is not None:
            known = read_references(references, RowOptions(split=split))
            source = with_references(source, known, RowOptions(language=language))
    backbones = options.own_backbones(metric or [])
    metrics = _metrics([*backbones], preset, source, columns)
    options.check_metric_options(metrics, metric_options)
    row_filter = _row_filter(keep, metrics[0], min_score, top)
    load, has_bar = loader(metric_options, source.n_rows, backbones, quiet=quiet)
    how: dict[str, Any] = {"images": images, "language": language, "on_error": on_error}
    how["calibration"] = calibration
    run, new, output, keep = prepare(source, metrics, load, columns, output, keep, force=force, **how)
    order = _order(sort, new)
    about = {"input": input and str(input), "output": output and str(output)}
    summary, placed = score_rows(run, output, new, about, calibration, row_filter, keep, has_bar=has_bar)
    if report is not None:
        try:
            write_score_report(report, run, placed, order)
        except BaseException:  # also Ctrl-C and SIGTERM
            say(f"note: {report} was not written; the scores are in {output or 'no file'}")
            raise
    if as_json:
        terminal.print_json(summary)
    elif not quiet:
        lowest = run.rising(order)[: worst or MAX_SHOWN_ROWS] if worst or sort else None
        _print(run, placed, lowest, row_filter, output, keep, report)
    if run.failures and not quiet:
        what = f"of {source.n_rows:,} rows could not be scored"
        terminal.print_failures(run.failures, what, source.short_place)
    return terminal.SKIPPED if run.failures else None


def _row_filter(keep: Path | None, metric: str, min_score: float | None, top: str | None) -> RowFilter | None:
    """Which rows stay, or None if none are asked for."""
    from ..metrics.score_file import RowFilter

    if keep is None and min_score is None and top is None:
        return None
    if keep is None:
        raise UsageError(Setting("keep"), " is missing: it names the file for the rows that stay")
    return RowFilter(metric, min_score, top)


def _metrics(
    named: Sequence[str], preset: str | None, source: RowSource, columns: Mapping[str, str | None]
) -> list[str]:
    """The metrics, each once; of a preset, those that the rows have inputs for, and whose program is here."""
    from ..files.columns import find_image_column, find_reference_columns

    has_images = bool(find_image_column(source.columns, columns["image_column"]))
    has_references = bool(find_reference_columns(source.columns, columns["references_column"]))
    metrics = []
    for name in PRESETS.get(preset or "", ()):
        kind = METRICS.get(name)
        if (kind.needs_images and not has_images) or (kind.needs_references and not has_references):
            say(f"note: --preset {preset}: {name} left out, because the input lacks photos or references")
        elif problem := kind.what_is_missing():
            say(f"note: --preset {preset}: {name} left out. {problem}")
        else:
            metrics.append(name)
    if preset and not metrics and not named:
        raise UsageError(
            Setting("preset", preset), ": the input lacks the photos or references that it needs"
        )
    return list(dict.fromkeys([*metrics, *named])) or ["mcs"]


def loader(
    metric_options: Mapping[str, Any], n_rows: int, backbones: Mapping[str, str] = {}, *, quiet: bool
) -> tuple[ScorerLoader, bool]:
    """What loads the metrics, and whether one bar is for all rows: scorers show theirs for each chunk."""
    from ..files.row_source import CHUNK_ROWS

    is_long = n_rows > CHUNK_ROWS
    load = ScorerLoader({**metric_options, "progress": False if quiet or is_long else None}, backbones)
    return load, is_long and not quiet


def prepare(
    source: RowSource,
    metrics: Sequence[str],
    load: ScorerLoader,
    columns: Mapping[str, Any],
    output: Path | None,
    keep: Path | None = None,
    *,
    force: bool = False,
    images: Path | None = None,
    language: str | None = None,
    on_error: str = "raise",
    calibration: Path | None = None,
) -> tuple[ScoringRun, dict[str, tuple[str, str]], Path | None, Path | None]:
    """What scores the rows of a source, the new columns, and the files to write, after all checks of them."""
    from ..files.columns import columns_of, find_reference_columns
    from ..files.image_folder import ImageFolder
    from ..files.row_source import check_names_are_free
    from ..files.write import check_output
    from ..metrics.calibration import has_calibration
    from ..metrics.score_file import ScoringRun, result_columns

    folder = ImageFolder(images or source.folder, allow_urls=load.options.get("allow_urls", False))
    asked = {name: METRICS.get(name).needs(load.options) for name in metrics}
    needs = {
        what: [name for name, needed in asked.items() if needed[index]]
        for index, what in enumerate(("images", "references"))
    }
    if not find_reference_columns(source.columns, columns["references_column"]):
        may_lack = [name for name in metrics if METRICS.get(name).has_instead(source.columns)]
        needs["references"] = [name for name in needs["references"] if name not in may_lack]
    read = {f"with_{what}": bool(takers) for what, takers in needs.items()}
    try:
        names = columns_of(source, RowOptions(**columns, language=language), **read)
    except InputError as error:
        what = {"image_column": "images", "references_column": "references"}.get(error.option or "", "")
        if len(error.parts) < 2 or not what:
            raise
        need = f": {', '.join(needs[what])} need{'s' if len(needs[what]) == 1 else ''} {what}"
        raise InputError(error.parts[0], need, *error.parts[1:]) from None
    options.say_notes(source, names, language)
    inputs = source.columns if output or keep else ()
    if inputs:
        check_names_are_free(source, [*result_columns(metrics, inputs, on_error=on_error, ranked=metrics)])
    if output is not None:
        output = check_output(output, source, force=force)
    if keep is not None:
        keep = check_output(keep, source, force=force, option="keep")
        if keep == output:
            raise UsageError(Setting("keep", keep), " is the file of ", Setting("output"), " too")
    scorers = _load(metrics, language, load)
    ranked = [scorer.metric for scorer in scorers if has_calibration(scorer, calibration)]
    new = result_columns(scorers, inputs, on_error=on_error, ranked=ranked)
    scoring: dict[str, Any] = {"language": language, "on_error": on_error, "spell": terminal.spell}
    return ScoringRun(source, names, folder, scorers, **scoring), new, output, keep


def _order(column: str | None, columns: Mapping[str, tuple[str, str]]) -> list[tuple[str, str]]:
    """What rows are sorted by: a column, the first metric's rank, its score; each as (metric, component)."""
    from ..metrics.calibration import RANKS

    metric = next(iter(columns))
    parts = dict.fromkeys((RANKS[0], "", METRICS.get(metric).ranked_by))  # the last decides ties
    order = [(metric, part) for part in parts if (metric, part) in columns.values()]
    if column is None:
        return order
    numbers = {
        name: (of, part)
        for name, (of, part) in columns.items()
        if of and part not in METRICS.get(of).detail_columns
    }
    if column not in numbers:
        raise UsageError(Setting("sort", column), f": expected {', '.join(numbers)}")
    return [numbers[column], *order]


def _load(metrics: Sequence[str], language: str | None, load: ScorerLoader) -> list[Scorer]:
    """One scorer per metric, which all can score the language."""
    code = options.language_of(language)
    scorers = [*map(load, metrics)]
    for scorer in scorers:
        problem = None if code is None else scorer.language_problem(code)
        if problem:
            raise UsageError(Setting("language", language), f": {problem}")
    return scorers


def score_rows(
    run: ScoringRun,
    target: Path | None,
    columns: dict[str, tuple[str, str]],
    about: dict[str, Any],
    calibration: Path | None = None,
    row_filter: RowFilter | None = None,
    keep: Path | None = None,
    *,
    has_bar: bool,
) -> tuple[dict[str, Any], dict[str, Standing]]:
    """Score all rows, and write them and those that stay; returns the summary, and each metric's standing."""
    from ..files.write import Writer
    from ..metrics.calibration import standings
    from ..metrics.score_file import column_types

    source, writers = run.source, dict.fromkeys((target, keep))
    with ExitStack() as opened:
        for path in filter(None, writers):
            writers[path] = writer = Writer(path, source, column_types(columns))
            opened.callback(writer.stop)
        with progress_bar("Scoring", source.n_rows, shown=None if has_bar else False) as advance:
            run.run(writers[target], columns, advance, calibration, row_filter, writers[keep])
        placed = standings(run.scores(), calibration)
        summary = _summary(run, about, placed)
        if row_filter is not None:
            summary["kept"] = {"file": str(keep), **row_filter.to_dict()}
        signatures = {name: part.signature for name, part in run.scores().items()}
        text = json.dumps(summary, ensure_ascii=False, indent=2)
        for writer in filter(None, writers.values()):
            writer.finish({"signatures": signatures}, f"{text}\n")
    return summary, placed


def _summary(run: ScoringRun, about: dict[str, Any], placed: Mapping[str, Standing]) -> dict[str, Any]:
    """Means, counts and settings of the whole file, ready for JSON; null for the mean of nothing."""
    metrics: dict[str, Any] = {}
    _, photo_means = run.photo_means
    for name, part in run.scores().items():
        whole = part.summary()
        metrics[name] = {"mean": whole.pop(name), **whole}
        if name in photo_means:
            metrics[name]["mean_of_photos"] = None if math.isnan(photo_means[name]) else photo_means[name]
        if name in placed:
            metrics[name]["calibration"] = placed[name].to_dict()
    installed = {name: version(name) for name in ("torch", "numpy")}
    return {
        **about,
        "rows": run.source.n_rows,
        "metrics": metrics,
        "failures": [
            {"row": row, "line": line, "error": error} for row, (line, error) in sorted(run.failures.items())
        ],
        "versions": {"capscore": __version__, "python": platform.python_version(), **installed},
    }


def _print(
    run: ScoringRun,
    standings: Mapping[str, Standing],
    lowest: Sequence[int] | None,
    row_filter: RowFilter | None,
    *written: Path | None,
) -> None:
    """Print the lowest rows, or all if they are few; the means, their standing, the signatures, how many rows
    stay, and where the rows are."""
    console, scores, n_rows = make_console(), run.scores(), run.source.n_rows
    shows_rows = lowest is not None or (n_rows <= MAX_SHOWN_ROWS and len(scores) <= MAX_COLUMNS)
    if shows_rows:
        _print_rows(console, run, standings, lowest)
    if n_rows > 1 or not shows_rows:
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
    n_photos, photo_means = run.photo_means
    for name, mean in photo_means.items():
        text = f"{name}: mean per caption {_number(scores[name].mean)}, per photo {_number(mean)}"
        print_line(console, f"{text} ({n_photos:,} photos)")
    for part in scores.values():
        print_line(console, part.signature)
    n_scored = n_rows - len(run.failures) - run.n_left_out
    path = "" if run.source.path == Path() else f" of {run.source.path}"
    print_line(console, f"Scored {n_scored:,} of {n_rows:,} row{'' if n_rows == 1 else 's'}{path}.")
    if row_filter is not None:
        print_line(console, row_filter.sentence())
    terminal.print_written(console, *written)
    if written[0] is None and row_filter is None:
        print_line(console, "The scores of rows were not saved; --output scores.jsonl saves them.")


def _print_rows(
    console: Console, run: ScoringRun, standings: Mapping[str, Standing], lowest: Sequence[int] | None
) -> None:
    """One line per row (None: all rows), with its rank in the first metric and the noise found."""
    from rich.markup import escape

    from ..files.row_source import CHUNK_ROWS
    from ..metrics.calibration import RANKS
    from ..tables import photo_name, shown_caption

    image, scores = run.names.image, run.scores()
    metric, part = next(iter(scores.items()))
    rows = range(run.source.n_rows) if lowest is None else lowest
    texts: dict[int, list[str]] = {}
    shown = [*filter(None, {image, run.names.candidate})]
    for chunk in run.source.chunks(CHUNK_ROWS, shown):
        captions = chunk.values(run.names.candidate)
        photos = None if image is None else chunk.values(image)
        for index in {row - chunk.start for row in rows} & {*range(len(chunk))}:
            place = run.source.short_place(chunk.start + index, chunk.lines[index] if chunk.lines else None)
            caption = shown_caption(captions[index])
            photo = [] if photos is None else [photo_name(photos[index]) or "–"]
            texts[chunk.start + index] = [*([] if lowest is None else [place]), *photo, caption]
    cells = {name: [_number(item.scores[row]) for row in rows] for name, item in scores.items()}
    standing = standings.get(metric)
    is_ranked = standing is not None and not standing.reason and len(part) > 1
    if is_ranked:
        ranks = run.ranks[metric][RANKS[0]]
        cells["rank"] = ["–" if math.isnan(ranks[row]) else f"{ranks[row]:.0f} %" for row in rows]
    found = [part.found(row, brief=True) for row in rows]
    cells |= {"found": found} if any(found) else {}
    headings = [*([] if lowest is None else ["row"]), *([] if image is None else ["photo"]), "caption"]
    table = terminal.make_table(*headings, numbers=[*cells])
    for row, numbers in zip(rows, zip(*cells.values(), strict=True), strict=True):
        table.add_row(*(escape(visible(cell)) for cell in (*texts[row], *numbers)))
    console.print(table)
    for row in rows:
        reasons = (item.reason(row) for item in scores.values())
        for reason in filter(None, reasons):
            print_line(console, f"{texts[row][0]}: {reason}")
    if standing is not None and is_ranked:
        of = "" if len(scores) == 1 else f" in {metric}"
        worse = "higher" if "" in part.lower_is_better else "lower"
        print_line(console, f"rank{of}: percent of right captions ({standing.set_name}) that score {worse}")


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"
