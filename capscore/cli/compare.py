"""The command `capscore compare`: tests whether one system's captions score higher than another's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from .. import __version__
from ..errors import Setting
from ..files.console import make_console
from ..files.whole_file import write_text
from .options import AsJson, Confidence, Force, Markdown, Output, Quiet, Seed, column_option, metric_option
from .request import argument, flowing, option
from .score_report import SUFFIXES, write_systems
from .targets import system_files
from .terminal import (
    UsageError,
    as_usage,
    check_choice,
    check_result_file,
    print_json,
    print_line,
    print_written,
)

if TYPE_CHECKING:
    from ..metrics.scored_files import SystemRows
    from ..show.system_tables import ComparedMetric

_HELP = """Compare captioning systems: does one score higher than another, on the same photos?

Each FILE holds the captions of one system with their scores, as `capscore score --output` writes it;
NAME=FILE gives the system a name. Rows are matched by [bold]id[/], or else by photo, references or order, and
by language where rows have one. Files with other rows, or scored with other settings, are refused.

For each metric: means, differences to the first system (or --baseline), their intervals (paired bootstrap
over photos), and p-values by paired bootstrap and by approximate randomisation, corrected for the number of
systems after Holm; then the same for each language. Means of rows are compared; numbers of all rows together,
such as corpus BLEU, are shown and not tested.

[bold]Exit codes[/]: 0 compared; 1 failed (other rows, other settings, a damaged file); 2 wrong usage; 130
interrupted.

[bold]Example[/]: capscore compare small.scores.jsonl large.scores.jsonl --metric mcs --output compared.json
"""
_PANEL = "Statistics"


def compare_help() -> str:
    """The command's help."""
    return flowing(_HELP)


@dataclass(frozen=True)
class CompareRequest:
    """What `capscore compare` is asked for."""

    files: Annotated[list[str], argument("FILE")]
    metric: Annotated[list[str] | None, metric_option("Columns of scores; repeatable. Default: all.")] = None
    baseline: Annotated[str | None, option("System to compare with. Default: the first.")] = None
    common_rows: Annotated[bool, option("Compare only rows that all have.", "--common-rows")] = False
    match_by: Annotated[str | None, option("id, photo, references or order.", metavar="HOW")] = None
    report: Annotated[Path | None, option("HTML page: systems side by side.")] = None
    images: Annotated[Path | None, option("Folder of the photos, for --report.", metavar="FOLDER")] = None
    output: Output = None
    markdown: Markdown = None
    force: Force = False
    as_json: AsJson = False
    quiet: Quiet = False
    samples: Annotated[int, option("Number of samples. Default: 10000.", min=1, panel=_PANEL)] = 10_000
    confidence: Confidence = 0.95
    seed: Seed = 0
    id_column: Annotated[str | None, column_option("id")] = None
    image_column: Annotated[str | None, column_option("image, image_path, file_name, img, image_id")] = None
    language_column: Annotated[str | None, column_option("language, lang")] = None

    def __post_init__(self) -> None:
        if self.match_by is not None:
            check_choice("match_by", self.match_by, ("id", "photo", "references", "order"))
        systems = self.systems()
        if len(systems) < 2:
            raise UsageError("give the scored files of at least 2 systems")
        if self.baseline is not None and self.baseline not in systems:
            raise UsageError(Setting("baseline", self.baseline), f": expected {' or '.join(systems)}")
        check_result_file("output", self.output, (".json",), self.force)
        check_result_file("markdown", self.markdown, (".md",), self.force)
        check_result_file("report", self.report, SUFFIXES, self.force)
        if self.images is not None and self.report is None:
            raise UsageError(Setting("images", self.images), " goes with ", Setting("report"))

    def systems(self) -> dict[str, Path]:
        """System → file."""
        return system_files(self.files)


@dataclass(frozen=True)
class CompareResult:
    """Systems that were compared.

    Attributes:
        compared: Comparisons per metric.
        rows: The rows that were compared.
        document: All results, ready for JSON.
    """

    compared: list[ComparedMetric]
    rows: SystemRows
    document: dict[str, Any]


def run_compare(request: CompareRequest) -> CompareResult:
    """Compare the systems, and write the results.

    Raises:
        UsageError, InputError: An option is wrong, or the files cannot be compared.
    """
    from ..metrics.scored_files import read_systems
    from ..show.system_tables import ComparedMetric, comparison_report
    from ..statistics.bootstrap import check_sampling
    from ..statistics.system_means import compare_means_by_language

    systems = request.systems()
    with as_usage():
        check_sampling(request.samples, request.confidence, request.seed, field="samples", least=1)
    rows = read_systems(
        systems,
        request.metric,
        match_by=request.match_by,
        id_column=request.id_column,
        image_column=request.image_column,
        language_column=request.language_column,
        common_rows=request.common_rows,
    )
    compared = [
        ComparedMetric(
            metric,
            compare_means_by_language(
                scores,
                rows.languages,
                images=rows.photos,
                baseline=request.baseline,
                n=request.samples,
                confidence=request.confidence,
                seed=request.seed,
                missing="skip" if request.common_rows else "raise",
            ),
            rows.signatures.get(metric, ""),
            rows.corpus.get(metric, {}),
        )
        for metric, scores in rows.scores.items()
    ]
    result = CompareResult(compared, rows, _document(systems, rows, compared))
    if request.output is not None:
        write_text(request.output, f"{json.dumps(result.document, ensure_ascii=False, indent=2)}\n")
    if request.markdown is not None:
        write_text(request.markdown, f"{comparison_report(compared).markdown()}- {_matched(rows)}\n")
    if request.report is not None:
        notes = [_matched(rows), *rows.notes]
        write_systems(request.report, rows, compared, images=request.images, notes=notes)
    return result


def _document(systems: dict[str, Path], rows: SystemRows, compared: list[ComparedMetric]) -> dict[str, Any]:
    return {
        "systems": {name: str(path) for name, path in systems.items()},
        "matched_by": rows.matched_by,
        "rows_left_out": rows.n_left,
        "metrics": {
            one.metric: {
                "signature": one.signature or None,
                "comparisons": [comparison.to_dict() for comparison in one.comparisons],
                "not_tested": {name: dict(numbers) for name, numbers in one.corpus.items()},
            }
            for one in compared
        },
        "notes": rows.notes,
        "version": __version__,
    }


def _matched(rows: SystemRows) -> str:
    """How rows were matched, and how many were left out."""
    left = [f"{count:,} of {name}" for name, count in rows.n_left.items() if count]
    told = f"; rows that not all systems have were left out: {', '.join(left)}" if left else ""
    return f"Rows were matched by {rows.matched_by}{told}."


def show_compare(request: CompareRequest, result: CompareResult) -> None:
    """Print the tables, or all results as JSON."""
    from ..show.system_tables import comparison_report

    if request.as_json:
        print_json(result.document)
    elif not request.quiet:
        console = make_console()
        comparison_report(result.compared).print(console)
        print_line(console, _matched(result.rows))
        for note in result.rows.notes:
            print_line(console, f"note: {note}")
        print_written(console, request.output, request.markdown, request.report)
