"""Measure metrics on a benchmark, beside published figures.

Either --data names a benchmark (and --config its configuration), whose official files are in --data-dir; or
--suite runs every benchmark that has a folder of its name in --data-dir.

[bold]Scores computed elsewhere[/] need no code: --write-queries writes the rows to score (JSONL with id,
image, caption, references), and --scores NAME=FILE reads them back by id, with a column [bold]score[/].
Scores named METRIC@BACKBONE are shown beside the published figures of that backbone.

Numbers are printed times 100, with bootstrap intervals over photos; --output has them unrounded, with every
published value, its source, signatures and counts.

[bold]Several backbones[/] (--backbone A --backbone B) share one table, with a row each; the metric is mcs
unless --metric names others. Embeddings are cached, so an interrupted command is quick to repeat.

--eval-results FOLDER, with --org, adds the numbers to a model's folder as the Hub reads them:
.eval_results/*.yaml, for the data sets of that organisation. They must be of one model.

[bold]Exit codes[/]: 0 measured; 1 failed (a damaged file, or nothing could be measured); 2 wrong usage; 3 a
metric or backbone could not be run (photos or weights are missing), the others were; 130 interrupted.

[bold]Example[/]: capscore benchmark --metric cider --metric rouge_l --data flickr8k_human --config expert
--data-dir flickr8k --output expert.json
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..errors import CapscoreError
from ..options import RowOptions, Sampling
from . import options, terminal
from .options import option, statistics_option
from .terminal import UsageError, say

if TYPE_CHECKING:
    from ..benchmarks.reading import Configuration

Metrics = Annotated[list[str] | None, options.metrics_option("METRIC or METRIC@BACKBONE; repeatable.")]
Scores = Annotated[list[str] | None, option("NAME=FILE of scores; repeatable.", metavar="FILE")]
Raters = Annotated[Literal["flatten", "mean"], statistics_option("flatten (row per rating) or mean.")]
Missing = Annotated[Literal["raise", "skip"], statistics_option("Missing scores: raise or skip.")]


@options.with_metric_options(options.of_several)
def benchmark(
    metric: Metrics = None,
    data: options.Data = None,
    config: options.Configs = None,
    suite: Annotated[str | None, option("english, multilingual or all.")] = None,
    data_dir: options.DataDir = None,
    image_dir: options.ImageDir = None,
    split: options.TestSplit = None,
    scores: Scores = None,
    write_queries: Annotated[Path | None, option("Write the rows to score, as .jsonl.")] = None,
    output: options.Output = None,
    markdown: options.Markdown = None,
    eval_results: Annotated[
        Path | None, option("Folder of the model, for .eval_results/.", metavar="FOLDER")
    ] = None,
    org: Annotated[str | None, option("Organisation of its data sets on the Hub.", metavar="ORG")] = None,
    compare: Annotated[bool, option("Test each metric against the first.", "--compare")] = False,
    partial: options.Partial = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    bootstrap: options.Bootstrap = 1000,
    confidence: options.Confidence = 0.95,
    seed: options.Seed = 0,
    raters: Raters = "flatten",
    missing: Missing = "raise",
    backbone: options.Backbones = None,
    metric_options: Mapping[str, object] = {},
) -> int | None:
    from ..backbones import check_spec
    from ..benchmarks.reading import configurations
    from ..benchmarks.run import benchmark as measure
    from ..benchmarks.run import named_metrics
    from ..benchmarks.tasks import TaskOptions
    from ..hub.eval_results import check_eval_results, write_eval_results
    from ..judges.server import is_address

    terminal.check_result_file("write_queries", write_queries, (".jsonl",), force)
    terminal.check_result_files(force, output=output, markdown=markdown)
    if (eval_results is None) != (org is None):
        raise UsageError("--eval-results and --org go together: a model's folder, and whose data sets")
    if eval_results is not None and org is not None:
        with terminal.as_usage():
            check_eval_results(eval_results, org)
    with terminal.as_usage():
        sampling = Sampling(bootstrap, confidence, seed)
        numbers = vars(TaskOptions(raters, missing, sampling, partial, compare))
    of_scores = {"scores": scores, "write_queries": write_queries}
    loading = options.loading(metric_options, backbone, quiet)
    if (suite is None) == (not data):
        raise UsageError("give either --data, for one benchmark, or --suite, for all that --data-dir holds")
    if suite is not None:
        terminal.check_alone("suite", {"split": split, "image_dir": image_dir, **of_scores, "config": config})
        if data_dir is None:
            raise UsageError("--suite needs --data-dir, a folder with a folder for each benchmark")
    with terminal.as_usage():
        targets = configurations(data or (), config or (), data_dir)
    if write_queries is not None:
        terminal.check_alone("write_queries", {"eval_results": eval_results})
        _write_queries(write_queries, targets, RowOptions(split=split, images=image_dir))
        return None
    files = options.named_files(scores or ())
    names = options.on_backbones(metric or (["mcs"] if backbone and not files else []), backbone)
    if not names and not files:
        raise UsageError("there is nothing to measure: give --metric, or --scores with a file")
    if taken := files.keys() & names:
        raise UsageError(f"--scores: {', '.join(taken)} is the name of a metric; NAME=FILE gives another")
    metrics = {**dict.fromkeys(names), **files}
    with terminal.as_usage():
        for name in backbone or ():
            if not is_address(name):
                check_spec(name)
        named_metrics(metrics, options.load_options(loading))
    where: dict[str, Any] = {"config": config or (), "data_dir": data_dir}
    where |= {"split": split, "images": image_dir}
    found = measure(suite or data or (), metrics, **where, **numbers, **loading)
    terminal.show_results(found, output, markdown, as_json=as_json, quiet=quiet)
    if eval_results is not None and org is not None:
        written = write_eval_results(found.to_dict(), eval_results, org)
        if not quiet:
            say(f"written for the Hub: {', '.join(map(str, written))}")
    if found.failed:
        return terminal.FAILED
    if not found.runs:
        raise CapscoreError(f"nothing of the suite {suite!r} could be measured")
    return terminal.code_of(found.not_run(), told=not (as_json or quiet))


def _write_queries(path: Path, targets: list[Configuration], rows: RowOptions) -> None:
    from ..benchmarks.reading import benchmark_queries

    if len(targets) != 1:
        raise UsageError("--write-queries takes one benchmark and configuration")
    queries = benchmark_queries(targets[0], rows)
    queries.write(path)
    scored = "add a column score, and read them back with --scores"
    say(f"{len(queries):,} rows to score are in {path}; {scored}")
