"""Score the captions of photos, of a folder, or of a file.

INPUT is a folder with NAME.txt beside each NAME.jpg; JSONL, JSON, CSV, TSV, Parquet, WebDataset or a saved
data set with columns caption, image, references, language; JSON of captions by photo; or web pages and
Markdown with alt texts. {metrics}

[bold]Default backbones[/]: of capscore-weights, embedded-pr-mcs for pr_mcs and embedded for infometic; from
the Hub, xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k for mcs and text_score,
ViT-B-32-quickgelu/openai for clip_score, ref_clip_score and clip_cider, and Qwen/Qwen3-VL-4B-Instruct for
judge. The variables CAPSCORE_JUDGE, for judge, and CAPSCORE_BACKBONE, for the others, name other ones.

[bold]Exit codes[/]: 0 all rows scored; 1 failed; 2 wrong usage; 3 done, but rows were skipped; 4 done, but
more captions are likely wrong than --fail-under allows; 130 interrupted.

[bold]Example[/]: capscore score captions.jsonl --images photos --metric mcs --output scores.csv
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from ..errors import Setting
from ..files.console import make_console
from ..options import OutputOptions, RowOptions
from . import options, terminal
from .options import argument, option
from .terminal import UsageError, say

_NOT_SAVED = "The scores of rows were not saved; --output scores.jsonl saves them."
Photos = Annotated[list[str] | None, option("Photo, instead of INPUT; repeatable.", metavar="PHOTO")]
Captions = Annotated[list[str] | None, option("Caption of --photo; repeatable.", metavar="TEXT")]
Texts = Annotated[list[str] | None, option("Reference; repeatable.", metavar="TEXT")]
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
    option("Column that files and lists are sorted by, worst first.", metavar="COLUMN", panel="Output"),
]
Calibration = Annotated[Path | None, option("File that capscore calibrate wrote.", panel="Output")]
Keep = Annotated[Path | None, option("File for the rows that stay.", panel="Output")]
Drop = Annotated[Path | None, option("File for the other rows, each with its reason.", panel="Output")]
MinRank = Annotated[float | None, option("Least rank, in the first metric, that stays.", panel="Output")]
MinScore = Annotated[float | None, option("Worst score, of the first metric, that stays.", panel="Output")]
FailUnder = Annotated[
    str | None, option("Share likely wrong, as 10%, above which it ends with 4.", metavar="N", panel="Output")
]
Top = Annotated[str | None, option("Best rows that stay, such as 1000 or 30%.", metavar="N", panel="Output")]
DryRun = Annotated[bool, option("Print how INPUT is understood; score nothing.", "--dry-run")]


@options.with_metric_options(options.of_score)
def score(
    input: Annotated[list[Path] | None, argument("INPUT")] = None,
    photo: Photos = None,
    caption: Captions = None,
    reference: Texts = None,
    metric: Metrics = None,
    preset: options.Preset = None,
    images: options.Images = None,
    references: options.References = None,
    language: options.Language = None,
    on_error: options.OnError = "raise",
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    output: Output = None,
    report: options.Report = None,
    worst: Worst = None,
    sort: Sort = None,
    calibration: Calibration = None,
    keep: Keep = None,
    drop: Drop = None,
    min_score: MinScore = None,
    min_rank: MinRank = None,
    top: Top = None,
    dry_run: DryRun = False,
    fail_under: FailUnder = None,
    image_column: options.ImageColumn = None,
    candidate_column: options.CandidateColumn = None,
    references_column: options.ReferencesColumn = None,
    references_id_column: options.ReferencesIdColumn = None,
    language_column: options.LanguageColumn = None,
    split: options.Split = None,
    metric_options: Mapping[str, object] = {},
) -> int | None:
    from ..files.references import describe_file
    from ..scoring.files import FileScoring, rows_to_score
    from ..show.score_report import write_score_report

    if (not input) == (not (photo or caption or reference)):
        expected = "expected one thing to score: a file or a folder of photos, or --photo dog.jpg --caption "
        raise UsageError(f"{expected}'a dog'")
    terminal.check_only_one(Setting("language", language), Setting("language_column", language_column))
    terminal.check_not_standard_output(output, ": rows are written to a file; --json prints the means")
    terminal.check_result_files(force, report=report)
    named = (image_column, candidate_column, references_column, language_column, references_id_column)
    given = options.columns(*named) | {"split": split, "images": images, "language": language}
    rows = RowOptions(**given, references=references or None, on_error=on_error)
    if dry_run and input:
        return terminal.print_descriptions(describe_file(input, rows, terminal.spell), as_json)
    scoring = FileScoring(
        rows_to_score(input or [], photo or [], caption or [], reference or [], rows),
        metric or None,
        rows,
        options.load_options({"progress": False if quiet else None, **metric_options}),
        OutputOptions(output, keep, min_score, top, force, fail_under, drop, min_rank, sort),
        preset=preset,
        calibration=calibration,
        spell=terminal.spell,
    )
    for note in scoring.notes:
        say(f"note: {note}")
    found = scoring.run()
    if report is not None:
        write_score_report(report, found)
    if as_json:
        terminal.print_json(found.to_dict())
    elif not quiet:
        console = make_console()
        found.report(worst).print(console)
        terminal.print_written(console, output, keep, drop, report)
        if output is keep is drop is None:
            terminal.print_line(console, _NOT_SAVED)
    if found.failures and not quiet:
        what = f"of {found.source.n_rows:,} rows could not be scored"
        terminal.print_failures(found.failures, what, found.source.long_place)
    if fail_under is not None:
        is_above = found.is_above_limit()
        say(f"{found.likely_wrong_sentence()}; --fail-under allows {fail_under}")
        if is_above:
            return terminal.TOO_MANY_WRONG
    return terminal.SKIPPED if found.failures else None
