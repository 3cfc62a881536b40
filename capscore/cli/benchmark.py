"""Measure metrics on a benchmark, beside published figures.

Either --data names a benchmark (and --config its configuration), whose official files are in --data-dir; or
--suite runs every benchmark that has a folder of its name in --data-dir.

[bold]Scores computed elsewhere[/] need no code: --write-queries writes the rows to score (JSONL with id,
image, caption, references), and --scores NAME=FILE reads them back by id, with a column [bold]score[/].
Scores named METRIC@BACKBONE are shown beside the published figures of that backbone.

[bold]Captioning systems[/] on a set of captioned photos (xm3600, multi30k, …): --systems FILE FILE …, with
one caption per photo and language, scores each system per language with all references, and compares it with
the first. Default metric: cider.

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

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any, Literal

from ..errors import CapscoreError, InputError, Setting
from ..files.write import write_text
from ..metrics.loading import ScorerLoader, all_options
from ..options import Sampling
from ..registry import METRICS
from . import options, terminal
from .options import Target, argument, option, statistics_option
from .terminal import UsageError, say

Makers = dict[str, Callable[[], Any]]  # name in the table → function that makes its scorer

Metrics = Annotated[list[str] | None, options.metrics_option("METRIC or METRIC@BACKBONE; repeatable.")]
Scores = Annotated[list[str] | None, option("NAME=FILE of scores; repeatable.", metavar="FILE")]
Systems = Annotated[list[str] | None, option("Captions of systems; any number.", metavar="FILES")]
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
    systems: Systems = None,
    more: Annotated[list[str] | None, argument("FILE")] = None,
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
    metric_options: Mapping[str, Any] = {},
) -> int | None:
    """Measure metrics, and write and print the results."""
    from ..benchmarks.tasks import TaskOptions

    terminal.check_result_file("write_queries", write_queries, (".jsonl",), force)
    terminal.check_result_files(force, output=output, markdown=markdown)
    _check_eval_results(eval_results, org)
    show: dict[str, Any] = {"output": output, "markdown": markdown, "as_json": as_json, "quiet": quiet}
    with terminal.as_usage():
        task_options = TaskOptions(raters, missing, Sampling(bootstrap, confidence, seed))
    where: dict[str, Any] = {"split": split, "image_dir": image_dir}
    how = {"options": task_options, "partial": partial, **where}
    how["say"] = say if sys.stderr.isatty() and not quiet else None  # a person waits
    of_scores = {"scores": scores, "write_queries": write_queries}
    if systems or more:
        not_systems = {"suite": suite, "compare": compare, "eval_results": eval_results}
        _refuse("systems", {**not_systems, **of_scores})
        makers = _makers(metric or ["cider"], backbone, metric_options)
        how |= {"data_dir": data_dir, "may_be_empty": metric_options.get("empty", "raise") != "raise"}
        _compare_systems(systems, more or [], makers, data or [], config, how, show)
        return None
    if (suite is None) == (not data):
        raise UsageError("give either --data, for one benchmark, or --suite, for all that --data-dir holds")
    if suite is not None:
        _refuse("suite", {**where, **of_scores, "config": config})
        if data_dir is None:
            raise UsageError("--suite needs --data-dir, a folder with a folder for each benchmark")
    targets = options.benchmark_targets(data or [], config, data_dir)
    if write_queries is not None:
        _refuse("write_queries", {"eval_results": eval_results})
        _write_queries(write_queries, targets, where)
        return None
    files = options.named_files(scores or ())
    makers = _makers(metric or (["mcs"] if backbone and not files else []), backbone, metric_options)
    if not makers and not files:
        raise UsageError("there is nothing to measure: give --metric, or --scores with a file")
    how |= {"compare": compare, "scores": files}
    code, document = _compare_metrics(makers, targets, suite, data_dir, how, show)
    if eval_results is not None:
        _write_eval_results(eval_results, str(org), document, quiet)
    return code


def _check_eval_results(folder: Path | None, org: str | None) -> None:
    """Raise an error before the work if the numbers cannot be written for the Hub."""
    from ..hub.push import check_repo_id

    if (folder is None) != (org is None):
        raise UsageError("--eval-results and --org go together: a model's folder, and whose data sets")
    if folder is not None:
        with terminal.as_usage():
            check_repo_id(f"{org}/benchmark")
        if not folder.is_dir():
            raise InputError(Setting("eval_results", folder), ": there is no such folder")


def _write_eval_results(folder: Path, org: str, document: dict[str, Any], quiet: bool) -> None:
    from ..hub.eval_results import eval_result_files

    files = eval_result_files([document], org, date=f"{datetime.now(timezone.utc):%Y-%m-%d}")
    if not files:
        raise CapscoreError(Setting("eval_results"), ": no metric with weights was measured on all rows")
    for name, text in files.items():
        write_text(folder / name, text)
    if not quiet:
        say(f"written for the Hub: {', '.join(str(folder / name) for name in files)}")


def _refuse(option: str, given: Mapping[str, Any]) -> None:
    """Raise UsageError for the first of these options that was given: they don't go with another one."""
    for name, value in given.items():
        terminal.check_only_one(Setting(name, value), Setting(option))


def _makers(
    metrics: Sequence[str], backbones: Sequence[str] | None, metric_options: Mapping[str, Any]
) -> Makers:
    """Name in the table → function that makes the scorer; a metric comes once for each backbone."""
    from ..backbones.loading import check_spec
    from ..benchmarks.run import scored_by
    from ..metrics.loading import default_backbone

    slugs = {metric: scored_by(metric)[0] for metric in metrics}
    known = all_options()
    # document frequencies are ignored by benchmarks without CIDEr, so that one command line serves all
    chosen = {
        name: value
        for name, value in metric_options.items()
        if known[name].own and name != "document_frequencies"
    }
    options.check_metric_options([*slugs.values()], chosen)
    with terminal.as_usage():
        for name in backbones or ():
            check_spec(name)
    if backbones and metrics and not any(METRICS.get(slug).takes_backbone for slug in slugs.values()):
        raise UsageError(f"--backbone: none of {', '.join(metrics)} has a backbone")
    load = ScorerLoader(metric_options)
    makers: Makers = {}
    for metric, slug in slugs.items():
        if not METRICS.get(slug).takes_backbone:
            makers[metric] = functools.partial(load, slug)
            continue
        own = metric.partition("@")[2]
        for name in [own] if own else backbones or [default_backbone(slug)]:
            label = f"{metric}@{name}" if len(backbones or ()) > 1 and not own else metric
            makers[label] = functools.partial(load, slug, name)
    return makers


def _write_queries(path: Path, targets: Sequence[Target], where: Mapping[str, Any]) -> None:
    from ..benchmarks.run import benchmark_queries
    from ..files.write import json_bytes

    if len(targets) != 1:
        raise UsageError("--write-queries takes one benchmark and configuration")
    slug, config, home = targets[0]
    rows = benchmark_queries(slug, config, data_dir=home, **where).to_rows()
    write_text(path, "".join(f"{json_bytes(row).decode()}\n" for row in rows))
    say(f"{len(rows):,} rows to score are in {path}; add a column score, and read them back with --scores")


def _compare_metrics(
    makers: Makers,
    targets: Sequence[Target],
    suite: str | None,
    data_dir: Path | None,
    how: Mapping[str, Any],
    show: dict[str, Any],
) -> tuple[int | None, dict[str, Any]]:
    """Measure metrics on each benchmark that --data names, or on a suite; the exit code and the results."""
    from ..benchmarks.result_file import stamped
    from ..benchmarks.run import MetricRefusal, run_benchmark
    from ..benchmarks.suite import SuiteRun, reasons, run_suite
    from ..show.benchmark_tables import benchmark_report
    from ..tables import Report

    if taken := makers.keys() & how["scores"].keys():
        raise UsageError(f"--scores: {', '.join(taken)} is the name of a metric; NAME=FILE gives another")
    found = run_suite(suite, str(data_dir), makers, **how) if suite else SuiteRun()
    for slug, config, home in targets:
        run = run_benchmark(slug, config, data_dir=home, metrics=makers, keep_going=True, **how)
        if not run.results:
            raise CapscoreError(reasons(run.skipped))
        found.runs.append(run)
    document = found.to_dict()
    if not suite:
        document = found.runs[0].to_dict() if len(found.runs) == 1 else {"runs": document["runs"]}
    reports = [benchmark_report(run) for run in found.runs]
    for title, left_out in (("Not run", found.skipped), ("Damaged", found.failed)):
        if left_out:
            reports.append(Report(title, [f"{name}: {reason}" for name, reason in left_out.items()]))
    document = stamped(document)
    terminal.show_results(document, reports, **show)
    if found.failed:
        return terminal.FAILED, document
    if not found.runs:
        raise CapscoreError(f"nothing of the suite {suite!r} could be measured")
    skipped = [
        f"{run.name}: {name} was not run. {why}"
        for run in found.runs
        for name, why in run.skipped.items()
        if not (suite and isinstance(why, MetricRefusal))
    ]
    for line in skipped if show["as_json"] or show["quiet"] else ():  # tables say it themselves
        say(line)
    return terminal.SKIPPED if skipped else None, document


def _compare_systems(
    systems: list[str] | None,
    more: list[str],
    makers: Makers,
    data: list[str],
    configs: list[str] | None,
    how: Mapping[str, Any],
    show: dict[str, Any],
) -> None:
    """Compare systems, and write and print the results."""
    from ..benchmarks.systems import run_systems
    from ..show.system_tables import systems_report

    if not systems:
        raise UsageError(f"{more[0]!r}: unexpected; files of captions go with ", Setting("systems"))
    if len(data) != 1:
        raise UsageError(Setting("systems"), " takes one benchmark: give one --data")
    captions = options.named_files([*systems, *more])
    chosen = None if "all" in (configs or ()) else configs
    run = run_systems(data[0], captions, makers, configs=chosen, **how)
    terminal.show_results(run.to_dict(), [systems_report(run)], **show)
