"""Compare captioning systems: does one score higher than another, on the same photos?

Each FILE holds the captions of one system; NAME=FILE gives the system a name. Metrics without a column in a
file are computed first, with the options of `capscore score`. Rows are matched by [bold]id[/], or else
by photo or references (--match-by order: by their order), and by language where rows have one. Files with
different rows or settings are refused.

For each metric: means, differences to the first system (or --baseline), their intervals (paired
bootstrap over photos), and p-values by approximate randomisation, Holm-corrected for the number of
systems; then the same for each language. Means of rows are compared, not corpus scores such as corpus BLEU.

[bold]Exit codes[/]: 0 compared; 1 failed (other rows, other settings, a damaged file); 2 wrong usage; 130
interrupted.

[bold]Example[/]: capscore compare small.jsonl large.jsonl --metric mcs,cider --images photos
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

from .. import __version__
from ..errors import Setting
from ..options import MAX_DRAWS, RowOptions, Sampling, check_whole_number
from ..registry import METRICS
from . import options, score, terminal
from .options import argument, column_option, option

if TYPE_CHECKING:
    from ..statistics.system_means import SystemComparison

    Compared = Mapping[str, Sequence[SystemComparison]]  # metric → all rows, then each language


@options.with_metric_options(options.of_score)
def compare(
    files: Annotated[list[str], argument("FILE")],
    metric: Annotated[
        list[str] | None, options.metrics_option("Metrics, or columns of scores. Default: all columns.")
    ] = None,
    baseline: Annotated[str | None, option("System to compare with. Default: the first.")] = None,
    common_rows: options.CommonRows = False,
    match_by: Annotated[
        Literal["id", "photo", "references", "order"] | None,
        option("id, photo, references or order.", metavar="HOW"),
    ] = None,
    output: options.Output = None,
    markdown: options.Markdown = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    samples: Annotated[int, option("Number of samples. Default: 10000.", min=1, panel="Statistics")] = 10_000,
    confidence: options.Confidence = 0.95,
    seed: options.Seed = 0,
    id_column: Annotated[str | None, column_option("Default: id.")] = None,
    image_column: Annotated[
        str | None, column_option("Default: image, image_path, file_name, img, image_id.")
    ] = None,
    candidate_column: options.CandidateColumn = None,
    references_column: options.ReferencesColumn = None,
    language_column: options.LanguageColumn = None,
    images: options.Images = None,
    references: score.References = None,
    language: options.Language = None,
    on_error: options.OnError = "raise",
    metric_options: Mapping[str, Any] = {},
) -> None:
    """Compare the scores of systems, and write and print the tests."""
    from ..metrics.systems import read_systems
    from ..show.system_tables import comparison_report, verdict
    from ..tables import Report

    with terminal.as_usage():
        check_whole_number("samples", samples, 1, MAX_DRAWS)
        sampling = Sampling(samples, confidence, seed)
    systems = options.named_files(files)
    if len(systems) < 2:
        raise terminal.UsageError("give the scored files of at least 2 systems")
    if baseline is not None and baseline not in systems:
        raise terminal.UsageError(Setting("baseline", baseline), f": expected {' or '.join(systems)}")
    terminal.check_result_files(force, output=output, markdown=markdown)
    with TemporaryDirectory() as folder:
        scored = _scored(
            systems,
            metric or (),
            Path(folder),
            options.columns(image_column, candidate_column, references_column, language_column),
            metric_options,
            images=images,
            references=references,
            language=language,
            on_error=on_error,
            quiet=quiet or as_json,
        )
        named = RowOptions(id_column=id_column, image_column=image_column, language_column=language_column)
        rows = read_systems(scored, metric or None, match_by=match_by, options=named, common_rows=common_rows)
    compared = rows.compare(baseline=baseline, sampling=sampling)
    document = {
        "systems": {name: str(path) for name, path in systems.items()},
        "matched_by": rows.matched_by,
        "rows_left_out": rows.n_left,
        "metrics": {
            metric: {
                "signature": rows.signatures.get(metric),
                "comparisons": [comparison.to_dict() for comparison in comparisons],
            }
            for metric, comparisons in compared.items()
        },
        "notes": rows.notes,
        "version": __version__,
    }
    tables = comparison_report(compared, rows.signatures).parts
    report = Report(
        "",
        [
            *tables,
            rows.matching,
            *(f"note: {note}" for note in rows.notes),
            *(verdict(*item) for item in compared.items()),
        ],
    )
    terminal.show_results(document, [report], output=output, markdown=markdown, as_json=as_json, quiet=quiet)


def _scored(
    systems: Mapping[str, Path],
    metrics: Sequence[str],
    folder: Path,
    columns: Mapping[str, Any],
    metric_options: Mapping[str, Any],
    *,
    images: Path | None,
    references: Path | None,
    language: str | None,
    on_error: str,
    quiet: bool,
) -> dict[str, Path]:
    """System → its file, or one in `folder` where metrics that it lacks were computed."""
    from ..files.read import open_rows
    from ..files.references import read_references, with_references

    found, computed = {**systems}, [metric for metric in metrics if metric in METRICS.names()]
    row_options = RowOptions(**columns, language=language, on_error=on_error)
    sources = {name: open_rows(path, row_options) for name, path in systems.items() if computed}
    missing = {
        name: [metric for metric in computed if metric not in source.columns]
        for name, source in sources.items()
    }
    sources = {name: source for name, source in sources.items() if missing[name]}
    if not sources:
        return found
    terminal.check_only_one(
        Setting("language", language), Setting("language_column", columns["language_column"])
    )
    known = None if references is None else read_references(references, row_options)
    longest = max(source.n_rows for source in sources.values())
    load, has_bar = score.loader(metric_options, longest, quiet=quiet)
    for index, (name, source) in enumerate(sources.items()):
        if known is not None:
            source = with_references(source, known, row_options)
        options.check_metric_options(missing[name], metric_options)
        target = folder / f"{index}.jsonl"
        how: dict[str, Any] = {"images": images, "language": language, "on_error": on_error}
        run, new, *_ = score.prepare(source, missing[name], load, columns, target, **how)
        score.score_rows(run, target, new, {}, has_bar=has_bar)
        found[name] = target
    return found
