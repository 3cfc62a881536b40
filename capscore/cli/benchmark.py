"""Measure metrics on a benchmark, beside published figures.

Either --data names a benchmark (and --config its configuration), whose official files are in --data-dir; or
--suite runs every benchmark that has a folder of its name in --data-dir.

[bold]Other people's scores[/] need no code: --write-queries writes what to score (JSONL with id, image,
caption, references), and --scores NAME=FILE reads the rows back with a column [bold]score[/]. Rows are
matched by id, or else by image_id and caption, or else by order. Scores named METRIC@BACKBONE stand beside
the published figures of that backbone.

[bold]Captioning systems[/] on a set of captioned photos (xm3600, multi30k, …): --systems FILE FILE … with one
caption per photo and language scores each per language with all references, and compares every two;
--side-by-side has people's ratings of pairs. Default metric: cider.

Numbers are printed times 100, with bootstrap intervals over photos; --output has them unrounded, with every
published value, its source, signatures and counts.

[bold]Several backbones[/] (--backbone A --backbone B, or all-known) give one table of backbones and data
sets: metric mcs unless others are named, best in bold, with size, speed and licence. A backbone that cannot
be loaded has its reason in its row. With --keep FOLDER, what is finished stays there, and the same command
goes on from it.

[bold]Exit codes[/]: 0 measured; 1 failed (a damaged file, or nothing could be measured); 2 wrong usage; 3 a
metric or backbone could not be run (photos or weights are missing), the others were; 130 interrupted.

[bold]Example[/]: capscore benchmark --metric cider --metric rouge_l --data flickr8k_human --config expert
--data-dir flickr8k --output expert.json
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from ..errors import CapscoreError, Setting
from ..files.console import make_console
from ..files.write import write_text
from ..metrics.loading import all_options, own_options
from ..registry import METRICS
from . import options, terminal
from .options import Target, argument, option, statistics_option
from .terminal import UsageError, say

if TYPE_CHECKING:
    from ..benchmarks.backbones import BackboneTable
    from ..benchmarks.run import BenchmarkRun
    from ..benchmarks.suite import SuiteRun
    from ..show.tables import Report

ALL_KNOWN = "all-known"
Makers = dict[str, Callable[[], Any]]  # name in the table → function that makes its scorer

Metrics = Annotated[list[str] | None, options.metrics_option("Metrics, such as mcs,cider; repeatable.")]
Scores = Annotated[list[str] | None, option("NAME=FILE of scores; repeatable.", metavar="FILE")]
Systems = Annotated[list[str] | None, option("Captions of systems; any number.", metavar="FILES")]
SideBySide = Annotated[str | None, option("Ratings of pairs: a file, or published.", metavar="FILE")]
Keep = Annotated[
    Path | None, option("Folder that keeps finished results.", metavar="FOLDER", panel="Backbone")
]
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
    score_column: Annotated[str, option("Column of the scores. Default: score.")] = "score",
    write_queries: Annotated[Path | None, option("Write what to score, as .jsonl.")] = None,
    output: options.Output = None,
    markdown: options.Markdown = None,
    figure: Annotated[Path | None, option("Figure: .png, .svg or .pdf.")] = None,
    heatmap: Annotated[Path | None, option("Figure: by language, or of systems.")] = None,
    systems: Systems = None,
    more: Annotated[list[str] | None, argument("FILE")] = None,
    side_by_side: SideBySide = None,
    keep: Keep = None,
    compare: Annotated[bool, option("Test each metric against the first.", "--compare")] = False,
    common_rows: options.CommonRows = False,
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
    files = {"output": output, "markdown": markdown, "figure": figure, "heatmap": heatmap}
    terminal.check_result_files(force, **files)
    with terminal.as_usage():
        sampling = TaskOptions(raters, bootstrap, confidence, seed, missing)
    tell = say if sys.stderr.isatty() and not quiet else None  # a person waits
    where = {"split": split, "image_dir": image_dir}
    how: dict[str, Any] = {"options": sampling, "common_rows": common_rows, "partial": partial}
    how |= {"say": tell, **where}
    of_scores = {"scores": scores, "write_queries": write_queries}
    show = _Shown(files, as_json, quiet)
    if systems or more or side_by_side is not None:
        unfit = {"suite": suite, "figure": figure, "compare": compare, **of_scores}
        captions = _check_systems(systems, more, side_by_side, data, heatmap, unfit)
        makers = _makers(metric or ["cider"], backbone, metric_options)
        how |= {"data_dir": data_dir, "may_be_empty": metric_options.get("empty", "raise") != "raise"}
        _compare_systems(captions, makers, data, config, side_by_side, how, show)
        return None
    several = len(backbone or ()) > 1 or ALL_KNOWN in (backbone or ())
    _check(data, suite, data_dir, {**where, **of_scores, "config": config, "heatmap": heatmap}, keep, several)
    targets = options.benchmark_targets(data or [], config, data_dir)
    if write_queries is not None:
        _write_queries(write_queries, targets, where)
        return None
    how |= {"compare": compare, "scores": options.named_files(scores or ()), "score_column": score_column}
    measure = _compare_backbones if several else _compare_metrics
    return measure(metric or [], backbone or [], metric_options, targets, suite, data_dir, keep, how, show)


class _Shown(NamedTuple):
    """Files that are to be written, and whether results are printed as JSON, or not at all."""

    files: Mapping[str, Path | None]
    as_json: bool
    quiet: bool

    @property
    def tables(self) -> bool:
        """Whether tables are printed."""
        return not (self.as_json or self.quiet)

    def write(
        self, document: Mapping[str, Any], reports: Sequence[Report], runs: Sequence[BenchmarkRun] = ()
    ) -> None:
        """Write all files that are asked for, and JSON to stdout."""
        terminal.write_json(self.files["output"], document)
        if (markdown := self.files["markdown"]) is not None:
            write_text(markdown, "\n".join(report.markdown() for report in reports))
        if (figure := self.files["figure"]) is not None and runs:
            from ..show.figures import write_benchmark_figure

            write_benchmark_figure(runs, figure)
        if (heatmap := self.files["heatmap"]) is not None and runs:
            from ..show.figures import write_language_heatmap

            write_language_heatmap(runs, heatmap)
        if self.as_json:
            terminal.print_json(document)


def _check(
    data: list[str] | None,
    suite: str | None,
    data_dir: Path | None,
    of_data: Mapping[str, Any],
    keep: Path | None,
    several: bool,
) -> None:
    """Check that the options go together."""
    if (suite is None) == (not data):
        raise UsageError("give either --data, for one benchmark, or --suite, for all that --data-dir holds")
    for name, value in of_data.items() if suite is not None else ():
        if value:
            raise UsageError(Setting(name, value), " goes with ", Setting("data"))
    if suite is not None and data_dir is None:
        raise UsageError("--suite needs --data-dir, a folder with a folder for each benchmark")
    if keep is not None and not several:
        raise UsageError(Setting("keep", keep), ": results are kept where several backbones are compared")


def _check_heatmap(show: _Shown, n_rows: int) -> None:
    if (heatmap := show.files["heatmap"]) is not None and n_rows > 2:
        raise UsageError(
            Setting("heatmap", heatmap),
            f": it has room for two, below and above its diagonal, not {n_rows}",
        )


# ---- what is measured ----


def _slugs(metrics: Sequence[str], metric_options: Mapping[str, Any]) -> dict[str, str]:
    """Metric as it is asked for, such as bleu_4 → the one that computes it; options are checked."""
    from ..benchmarks.run import COMPONENTS

    slugs = {metric: COMPONENTS.get(metric, (metric, ""))[0] for metric in metrics}
    known = all_options()
    # document frequencies are ignored by benchmarks without CIDEr, so that one command line serves all
    own = {
        name: value
        for name, value in metric_options.items()
        if known[name].own and name != "document_frequencies"
    }
    options.check_metric_options([*slugs.values()], own)
    return slugs


def _makers(
    metrics: Sequence[str], backbones: Sequence[str] | None, metric_options: Mapping[str, Any]
) -> Makers:
    """Name in the table → function that makes the scorer; a metric comes once for each backbone."""
    from ..metrics.loading import default_backbone

    load = options.scorer_loader(metric_options)
    makers: Makers = {}
    for metric, slug in _slugs(metrics, metric_options).items():
        if not METRICS.get(slug).takes_backbone:
            makers[metric] = functools.partial(load, slug)
            continue
        for name in backbones or [default_backbone(slug)]:
            label = metric if len(backbones or ()) < 2 else f"{metric}@{name}"
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
    metrics: Sequence[str],
    backbones: Sequence[str],
    metric_options: Mapping[str, Any],
    targets: Sequence[Target],
    suite: str | None,
    data_dir: Path | None,
    keep: Path | None,
    how: dict[str, Any],
    show: _Shown,
) -> int | None:
    """Measure metrics on each benchmark that --data names, or on a suite; returns the exit code."""
    from ..benchmarks.run import run_benchmark
    from ..benchmarks.suite import SuiteRun, reasons, run_suite
    from ..show.benchmark_tables import benchmark_report

    makers = _makers(metrics, backbones, metric_options)
    _check_heatmap(show, len(makers) + len(how["scores"]))
    if not makers and not how["scores"]:
        raise UsageError("there is nothing to measure: give --metric, or --scores with a file")
    if taken := makers.keys() & how["scores"].keys():
        raise UsageError(f"--scores: NAME=FILE gives another name than {', '.join(taken)}, that of a metric")

    def done(run: BenchmarkRun) -> None:
        if show.tables:
            benchmark_report(run).print(make_console())

    if suite:
        return _show_suite(run_suite(suite, str(data_dir), makers, done=done, **how), show)
    found = SuiteRun()
    for slug, config, home in targets:
        run = run_benchmark(slug, config, data_dir=home, metrics=makers, keep_going=True, **how)
        if not run.results:
            raise CapscoreError(reasons(run.skipped))
        done(run)
        found.runs.append(run)
    return _show_suite(found, show)


def _show_suite(found: SuiteRun, show: _Shown) -> int | None:
    """Write the results, and print what was not run; returns the exit code."""
    from rich.text import Text

    from ..benchmarks.result_file import stamped
    from ..show.benchmark_tables import benchmark_report
    from ..show.tables import printable

    document = found.to_dict()
    if not found.suite:
        document = found.runs[0].to_dict() if len(found.runs) == 1 else {"runs": document["runs"]}
    show.write(stamped(document), [benchmark_report(run) for run in found.runs], found.runs)
    console = make_console()
    for title, reasons in (("Not run", found.skipped), ("Damaged", found.failed)):
        if reasons and show.tables:
            console.print(Text(f"\n{title}", style="bold"))
            for name, reason in reasons.items():
                console.print(Text(printable(f"{name}: {reason}", console.encoding)))
    if found.failed:
        return terminal.FAILED
    if not found.runs:
        raise CapscoreError(f"nothing of the suite {found.suite!r} could be measured")
    if found.suite:
        return None
    skipped = [
        f"{run.name}: {name} was not run. {why}" for run in found.runs for name, why in run.skipped.items()
    ]
    for line in () if show.tables else skipped:  # tables say it themselves
        say(line)
    return terminal.SKIPPED if skipped else None


def _backbone_names(given: Sequence[str]) -> list[str]:
    """The backbones that --backbone names, with `all-known` for each entry of the registry.

    Raises:
        UsageError: a name is unknown, or two name the same backbone.
    """
    from ..backbones import registry
    from ..backbones.loading import check_spec, find_known

    found: dict[str, str] = {}
    for name in (part for entry in given for part in (registry() if entry == ALL_KNOWN else [entry])):
        with terminal.as_usage():
            check_spec(name)
        known = find_known(name)
        identity = name if known is None or "@" in name else known.name
        if identity in found:
            raise UsageError(Setting("backbone", name), f" is the same as {found[identity]}: name each once")
        found[identity] = name
    return list(found.values())


def _compare_backbones(
    metrics: Sequence[str],
    backbones: Sequence[str],
    metric_options: Mapping[str, Any],
    targets: Sequence[Target],
    suite: str | None,
    data_dir: Path | None,
    keep: Path | None,
    how: dict[str, Any],
    show: _Shown,
) -> int | None:
    """Measure metrics with each backbone, on data sets or on a suite in a folder; returns the exit code."""
    from ..benchmarks.backbones import compare_backbones
    from ..benchmarks.kept import KeptResults
    from ..benchmarks.suite import DataSet, suite_data
    from ..metrics.loading import make_embedder

    metrics = metrics or ([] if how["scores"] else ["mcs"])
    names = _backbone_names(backbones)
    with_backbone: dict[str, Callable[..., Any]] = {}
    others: Makers = {}
    for metric, slug in _slugs(metrics, metric_options).items():
        kinds = with_backbone if METRICS.get(slug).takes_backbone else others
        kinds[metric] = functools.partial(METRICS.get(slug), **own_options(slug, metric_options))
    if not with_backbone:
        raise UsageError(f"--backbone: none of {', '.join(metrics) or 'the scores'} has a backbone")
    _check_heatmap(show, len(with_backbone) * len(names) + len(others) + len(how["scores"]))

    def makers(backbone: str, embedder: Any) -> Makers:
        return {
            f"{name}@{backbone}": functools.partial(make, embedder) for name, make in with_backbone.items()
        }

    data: Sequence[DataSet] = targets
    skipped: dict[str, str] = {}
    with terminal.as_usage():
        kept = None if keep is None else KeptResults(keep, metric_options)
        if suite is not None:
            data, skipped = suite_data(suite, str(data_dir))
    loaders = {name: functools.partial(make_embedder, name, **metric_options) for name in names}
    table = compare_backbones(loaders, makers, data, others=others, keep=kept, **how)
    table.suite, table.skipped = suite or "", {**skipped, **table.skipped}
    return _show_backbones(table, show)


def _show_backbones(table: BackboneTable, show: _Shown) -> int | None:
    """Write and print the table; returns the exit code."""
    from ..benchmarks.result_file import stamped
    from ..show.benchmark_tables import backbones_report, benchmark_report

    report = backbones_report(table)
    show.write(stamped(table.to_dict()), [report, *map(benchmark_report, table.runs)], table.runs)
    if show.tables:
        report.print(make_console())
    else:  # otherwise the table says it
        for facts in table.backbones:
            if facts.failed:
                say(f"{facts.name}: {facts.failed}")
        for run in table.runs:
            for name, why in run.skipped.items():
                say(f"{run.name}: {name}: {why}")
    if not table.runs:
        say("error: no backbone could be measured on any data set")
    if table.failed or not table.runs:
        return terminal.FAILED
    return None if table.complete else terminal.SKIPPED


# ---- systems ----


def _check_systems(
    systems: list[str] | None,
    more: list[str] | None,
    side_by_side: str | None,
    data: list[str] | None,
    heatmap: Path | None,
    unfit: Mapping[str, Any],
) -> dict[str, Path]:
    """System → file of its captions; {} where published ratings alone are asked for."""
    if not systems:
        if more:
            raise UsageError(f"{more[0]!r}: unexpected; files of captions go with ", Setting("systems"))
        if not _is_published(side_by_side) or heatmap is not None:
            raise UsageError("--side-by-side FILE and --heatmap go with ", Setting("systems"))
    for name, value in unfit.items():
        if value:
            raise UsageError(Setting(name), " and ", Setting("systems"), ": give only one of them")
    if len(data or ()) != 1:
        raise UsageError(Setting("systems"), " takes one benchmark: give one --data")
    files = options.named_files([*(systems or ()), *(more or ())])
    if len(files) == 1 and (side_by_side or heatmap):
        raise UsageError("--side-by-side and --heatmap compare systems, and there is 1: give at least 2")
    return files


def _is_published(side_by_side: str | None) -> bool:
    """Whether the published ratings are meant, and not a file of that name."""
    from ..benchmarks.systems.side_by_side import PUBLISHED

    return side_by_side == PUBLISHED and not Path(PUBLISHED).exists()


def _compare_systems(
    captions: Mapping[str, Path],
    makers: Makers,
    data: list[str] | None,
    configs: list[str] | None,
    side_by_side: str | None,
    how: Mapping[str, Any],
    show: _Shown,
) -> None:
    """Compare systems, or correlate the published ratings again, and write and print the results."""
    from ..benchmarks.systems import published_agreement, read_evaluations, run_systems
    from ..benchmarks.systems.side_by_side import published_evaluations
    from ..show.figures import write_systems_heatmap
    from ..show.system_tables import published_report, systems_report

    if not captions:
        lines = published_agreement()
        document: dict[str, Any] = {"published": [line.to_dict() for line in lines]}
        report = published_report(lines)
    else:
        evaluations = published_evaluations() if _is_published(side_by_side) else []
        if side_by_side is not None and not evaluations:
            evaluations = read_evaluations(side_by_side)
        chosen = None if "all" in (configs or ()) else configs
        (slug,) = data or [""]
        run = run_systems(slug, captions, makers, configs=chosen, evaluations=evaluations, **how)
        document, report = run.to_dict(), systems_report(run)
        if (heatmap := show.files["heatmap"]) is not None:
            write_systems_heatmap(run, heatmap)
    show.write(document, [report])
    if show.tables:
        console = make_console()
        report.print(console)
        terminal.print_written(console, *show.files.values())
