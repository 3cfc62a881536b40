"""Compare captioning systems: does one score higher than another, on the same photos?

Each FILE holds the captions of one system with their scores, as `capscore score --output` writes it;
NAME=FILE gives the system a name. Rows are matched by [bold]id[/], or else by photo or references
(--match-by order: by their order), and by language where rows have one. Files with other rows, or scored
with other settings, are refused.

For each metric: means, differences to the first system (or --baseline), their intervals (paired
bootstrap over photos), and p-values by approximate randomisation, Holm-corrected for the number of
systems; then the same for each language. Means of rows are compared, not numbers of all rows together,
such as corpus BLEU.

[bold]Exit codes[/]: 0 compared; 1 failed (other rows, other settings, a damaged file); 2 wrong usage; 130
interrupted.

[bold]Example[/]: capscore compare small.scores.jsonl large.scores.jsonl --metric mcs --output compared.json
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from .. import __version__
from ..errors import Setting
from . import options, terminal
from .options import argument, column_option, option

if TYPE_CHECKING:
    from ..statistics.system_means import SystemComparison

    Compared = Mapping[str, Sequence[SystemComparison]]  # metric → all rows, then each language


def compare(
    files: Annotated[list[str], argument("FILE")],
    metric: Annotated[
        list[str] | None, options.metrics_option("Columns of scores; repeatable. Default: all.")
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
    language_column: options.LanguageColumn = None,
) -> None:
    """Compare the scores of systems, and write and print the tests."""
    from ..metrics.systems import read_systems
    from ..show.system_tables import comparison_report
    from ..show.tables import Report
    from ..statistics.bootstrap import check_sampling

    with terminal.as_usage():
        check_sampling(samples, confidence, seed, field="samples", least=1)
    systems = options.named_files(files)
    if len(systems) < 2:
        raise terminal.UsageError("give the scored files of at least 2 systems")
    if baseline is not None and baseline not in systems:
        raise terminal.UsageError(Setting("baseline", baseline), f": expected {' or '.join(systems)}")
    terminal.check_result_files(force, output=output, markdown=markdown)
    columns = {"id_column": id_column, "image_column": image_column, "language_column": language_column}
    rows = read_systems(systems, metric or None, match_by=match_by, common_rows=common_rows, **columns)
    compared = rows.compare(baseline=baseline, n=samples, confidence=confidence, seed=seed)
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
    report = Report("", [*tables, rows.matching, *(f"note: {note}" for note in rows.notes)])
    terminal.show_results(document, [report], output=output, markdown=markdown, as_json=as_json, quiet=quiet)
