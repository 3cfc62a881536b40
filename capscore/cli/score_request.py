"""The options of `capscore score`, its help, and what is checked before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ..errors import Setting
from ..metrics import PRESETS
from ..registry import METRICS
from .models import check_calibration, check_metrics, complete_presets, split_metrics, spoken_language
from .options import OF_SCORE, AsJson, Force, Language, OnError, Quiet, Split, column_option, metric_option
from .request import argument, check_metric_options, flowing, metric_options, option
from .score_report import SUFFIXES
from .terminal import (
    UsageError,
    check_choice,
    check_not_standard_output,
    check_only_one,
    check_result_file,
)

_OUTPUT = "Output"

_HELP = """Score the captions of photos, of a folder, or of a file.

INPUT is a folder with NAME.txt beside each NAME.jpg; or JSONL, JSON, CSV, TSV, Parquet, COCO results or a
saved data set with columns caption, image, references, language. {metrics}

[bold]Exit codes[/]: 0 all rows scored; 1 failed; 2 wrong usage; 3 done, but rows were skipped;
130 interrupted.
"""


def score_help() -> str:
    """The command's help, with all metrics."""
    groups: dict[str, list[str]] = {}
    for name in METRICS.names():
        kind = METRICS.get(name)
        reads = " and ".join(["images"] * kind.needs_images + ["references"] * kind.needs_references)
        groups.setdefault(reads.capitalize() or "Captions alone", []).append(name)
    metrics = " ".join(f"[bold]{reads}[/]: {', '.join(names)}." for reads, names in groups.items())
    return flowing(_HELP).replace("{metrics}", metrics)


@dataclass(frozen=True)
class ScoreRequest:
    """What `capscore score` is asked for."""

    input: Annotated[Path | None, argument("INPUT")] = None
    photo: Annotated[list[str] | None, option("Photo, instead of INPUT; repeatable.", metavar="PHOTO")] = None
    caption: Annotated[list[str] | None, option("Caption of --photo; repeatable.", metavar="TEXT")] = None
    reference: Annotated[list[str] | None, option("Reference; repeatable.", metavar="TEXT")] = None
    metric: Annotated[list[str] | None, metric_option("As mcs,cider; repeatable. Default: mcs.")] = None
    preset: Annotated[
        str | None, option(f"Metrics: {', '.join(PRESETS)}.", autocompletion=complete_presets)
    ] = None
    images: Annotated[Path | None, option("Folder of the photos of a file.", metavar="FOLDER")] = None
    references: Annotated[Path | None, option("References, as COCO's annotations.")] = None
    language: Language = None
    on_error: OnError = "raise"
    force: Force = False
    as_json: AsJson = False
    quiet: Quiet = False
    output: Annotated[
        Path | None, option("File for the rows, with all columns.", "--output", "-o", panel=_OUTPUT)
    ] = None
    report: Annotated[Path | None, option("HTML page: distributions, photos.", panel=_OUTPUT)] = None
    calibration: Annotated[Path | None, option("File of capscore calibrate.", panel=_OUTPUT)] = None
    per_row: Annotated[
        bool | None,
        option("Print rows. Default: up to 10.", "--per-row/--no-per-row", panel=_OUTPUT),
    ] = None
    rows_per_file: Annotated[
        int | None,
        option("Rows per Parquet file of OUTPUT.", metavar="N", min=1, panel=_OUTPUT),
    ] = None
    image_column: Annotated[str | None, column_option("image, image_path, file_name, img")] = None
    candidate_column: Annotated[str | None, column_option("caption, candidate, hyp, …")] = None
    references_column: Annotated[str | None, column_option("references, refs, reference_1, …")] = None
    language_column: Annotated[str | None, column_option("language, lang")] = None
    split: Split = None
    options: Mapping[str, Any] = metric_options(*OF_SCORE)

    def __post_init__(self) -> None:
        if self.preset is not None:
            check_choice("preset", self.preset, [*PRESETS])
        _check_what_is_scored(self)
        check_metrics(self.metrics)
        check_choice("on_error", self.on_error, ("raise", "skip"))
        check_only_one(Setting("language", self.language), Setting("language_column", self.language_column))
        spoken_language(self.language)
        check_metric_options(self.metrics, self.options)
        check_not_standard_output(self.output, ": rows are written to a file; --json --per-row prints scores")
        if self.rows_per_file is not None and self.output is None:
            raise UsageError(Setting("rows_per_file", self.rows_per_file), " goes with ", Setting("output"))
        check_result_file("report", self.report, SUFFIXES, self.force)
        if self.calibration is not None:
            check_calibration(self.calibration)

    @property
    def metrics(self) -> list[str]:
        """The metrics, each once; those of the preset come first."""
        preset = PRESETS.get(self.preset or "", ())
        return list(dict.fromkeys([*preset, *(split_metrics(self.metric) or ())])) or ["mcs"]


def _check_what_is_scored(request: ScoreRequest) -> None:
    """Check that there is one thing to score: INPUT, or captions with their photos.

    Raises:
        UsageError: There is nothing, or two things; or an option belongs to the other one.
    """
    if request.input is not None:
        for name in ("photo", "caption", "reference"):
            if getattr(request, name):
                raise UsageError(
                    f"INPUT {request.input} and ",
                    Setting(name),
                    ": give only one of them; INPUT names its own photos and captions",
                )
        return
    if not request.caption:
        if request.photo:
            raise UsageError(
                Setting("photo"), f' {request.photo[0]} has no caption: add one, as --caption "a dog"'
            )
        raise UsageError(
            'there is nothing to score: give a file, a folder of photos, or --photo dog.jpg --caption "a dog"'
        )
    for name in ("references", "split", "image_column", "candidate_column", "references_column"):
        if getattr(request, name) is not None:
            raise UsageError(
                Setting(name, getattr(request, name)), " goes with INPUT, but there are captions instead"
            )
