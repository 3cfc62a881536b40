"""The command `capscore benchmark`: measures metrics on benchmarks, beside what was published."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..errors import CapscoreError, Setting
from ..files.console import make_console
from ..files.whole_file import write_text
from ..metrics.loading import all_options, options_of, own_options
from .benchmark_backbones import (
    DEFAULT_METRIC,
    is_comparison,
    kept_results,
    named_backbones,
    run_comparison,
    say_what_failed,
)
from .benchmark_systems import SystemsResult, check_systems, run_systems_of, show_systems
from .models import embedders
from .options import (
    OF_SEVERAL,
    AsJson,
    Backbones,
    Bootstrap,
    Confidence,
    Configs,
    Data,
    DataDir,
    Force,
    ImageDir,
    Markdown,
    Metrics,
    Output,
    Partial,
    Quiet,
    Seed,
    TestSplit,
)
from .request import argument, check_metric_options, flowing, metric_options, option
from .targets import Target, benchmark_targets
from .terminal import FAILED, SKIPPED, UsageError, as_usage, check_result_file, print_json, say

if TYPE_CHECKING:
    from rich.console import Console

    from ..benchmarks import BenchmarkRun
    from ..benchmarks.backbones import BackboneTable, DataSet
    from ..benchmarks.tasks import TaskOptions
    from ..embedding.embedder import Embedder
    from ..metrics.base import Scorer

_HELP = """Measure metrics on a benchmark, beside published figures.

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


def benchmark_help() -> str:
    """The command's help."""
    return flowing(_HELP)


@dataclass(frozen=True)
class BenchmarkRequest:
    """What `capscore benchmark` is asked for."""

    metric: Metrics = None
    data: Data = None
    config: Configs = None
    suite: Annotated[str | None, option("english, multilingual or all.")] = None
    data_dir: DataDir = None
    image_dir: ImageDir = None
    split: TestSplit = None
    scores: Annotated[list[str] | None, option("NAME=FILE of scores; repeatable.", metavar="FILE")] = None
    score_column: Annotated[str, option("Column of the scores. Default: score.")] = "score"
    write_queries: Annotated[Path | None, option("Write what to score, as .jsonl.")] = None
    output: Output = None
    markdown: Markdown = None
    figure: Annotated[Path | None, option("Figure: .png, .svg or .pdf.")] = None
    heatmap: Annotated[Path | None, option("Figure: by language, or of systems.")] = None
    systems: Annotated[list[str] | None, option("Captions of systems; any number.", metavar="FILES")] = None
    more: Annotated[list[str] | None, argument("FILE")] = None
    side_by_side: Annotated[str | None, option("Ratings of pairs: a file, or published.", metavar="FILE")] = (
        None
    )
    keep: Annotated[
        Path | None, option("Folder that keeps finished results.", metavar="FOLDER", panel="Backbone")
    ] = None
    compare: Annotated[bool, option("Test each metric against the first.", "--compare")] = False
    common_rows: Annotated[bool, option("Compare on rows that both scored.", "--common-rows")] = False
    partial: Partial = False
    force: Force = False
    as_json: AsJson = False
    quiet: Quiet = False
    bootstrap: Bootstrap = 1000
    confidence: Confidence = 0.95
    seed: Seed = 0
    raters: Annotated[str, option("flatten (row per rating) or mean.", panel="Statistics")] = "flatten"
    missing: Annotated[str, option("Missing scores: raise or skip.", panel="Statistics")] = "raise"
    backbone: Backbones = None
    options: Mapping[str, Any] = metric_options(*OF_SEVERAL)

    def __post_init__(self) -> None:
        if (self.suite is None) == (not self.data):
            raise UsageError(
                "give either --data, for one benchmark, or --suite, for all that --data-dir holds"
            )
        only_data = (self.config, self.split, self.image_dir, self.scores, self.write_queries, self.heatmap)
        if self.suite is not None and any(only_data):
            raise UsageError(
                "--config, --split, --image-dir, --scores, --write-queries and --heatmap belong to --data"
            )
        if self.keep is not None and not is_comparison(self.backbone):
            raise UsageError(
                Setting("keep", self.keep), ": results are kept where several backbones are compared"
            )
        if self.suite is not None and self.data_dir is None:
            raise UsageError("--suite needs --data-dir, a folder with a folder for each benchmark")
        if self.systems or self.more or self.side_by_side is not None:
            check_systems(self)

    def task_options(self) -> TaskOptions:
        """How scores become numbers."""
        from ..benchmarks.tasks import TaskOptions

        with as_usage():
            return TaskOptions(self.raters, self.bootstrap, self.confidence, self.seed, self.missing)

    def check_files(self) -> None:
        """Check that all results can be written."""
        check_result_file("output", self.output, (".json",), self.force)
        check_result_file("markdown", self.markdown, (".md",), self.force)
        check_result_file("write_queries", self.write_queries, (".jsonl",), self.force)
        check_figures({"figure": self.figure, "heatmap": self.heatmap}, self.force)


def check_figures(paths: Mapping[str, Path | None], force: bool) -> None:
    """Check before the work that figures can be drawn and written."""
    if any(path is not None for path in paths.values()):
        from ..show.figures import KINDS, figure_class

        for name, path in paths.items():
            check_result_file(name, path, KINDS, force)
        figure_class()  # its package may be missing


@dataclass
class BenchmarkResult:
    """Benchmarks that were measured.

    Attributes:
        runs: One run per benchmark and configuration.
        document: All results, ready for JSON.
        skipped: For each benchmark of a suite that was not run, why.
        failed: For each benchmark of a suite whose files are damaged, how.
        n_queries: Number of rows that were written for others to score; None if none were asked for.
        systems: Captioning systems that were compared, instead of all of these; None if none were.
        table: Backbones side by side; None if there was one backbone.
    """

    runs: list[BenchmarkRun] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    n_queries: int | None = None
    systems: SystemsResult | None = None
    table: BackboneTable | None = None


def run_and_print_benchmarks(request: BenchmarkRequest) -> BenchmarkResult:
    """Measure, and print each benchmark's table as soon as it is measured."""
    from ..show.benchmark_tables import benchmark_report

    if request.systems or request.side_by_side is not None:
        return BenchmarkResult(
            systems=run_systems_of(
                request, lambda names: _scorers(dataclasses.replace(request, metric=names))
            )
        )
    console = make_console()
    one_table = is_comparison(request.backbone)
    shown = not request.quiet and not request.as_json and not one_table
    tell = say if not request.quiet and sys.stderr.isatty() else None
    return run_benchmarks(
        request,
        done=lambda run: benchmark_report(run).print(console) if shown else None,
        tell=tell or (lambda line: None),
    )


def run_benchmarks(
    request: BenchmarkRequest,
    *,
    done: Callable[[BenchmarkRun], None] = lambda run: None,
    tell: Callable[[str], None] = lambda line: None,
) -> BenchmarkResult:
    """Measure the benchmarks, and write the results.

    Args:
        request: What is asked for.
        done: Function that gets each run when it is measured.
        tell: Function that gets lines about what is being done.

    Raises:
        UsageError, CapscoreError: An option is wrong, or nothing could be measured.
    """
    options = request.task_options()
    targets = benchmark_targets(request.data or [], request.config, request.data_dir)
    request.check_files()
    if request.write_queries is not None:
        return _write_queries(request, request.write_queries, targets)
    if is_comparison(request.backbone):
        result = _run_backbones(request, targets, options, tell)
        _write(request, result)
        return result
    if not request.metric and not request.scores:
        raise UsageError("there is nothing to measure: give --metric, or --scores with a file")
    metrics = _scorers(request)
    if request.suite is not None:
        result = _run_suite(request, metrics, options, done, tell)
    else:
        result = _run_each(request, targets, metrics, options, done, tell)
    _write(request, result)
    return result


def _run_suite(
    request: BenchmarkRequest,
    metrics: Mapping[str, Callable[[], Scorer]],
    options: TaskOptions,
    done: Callable[[BenchmarkRun], None],
    tell: Callable[[str], None],
) -> BenchmarkResult:
    from ..benchmarks import run_suite

    found = run_suite(
        str(request.suite),
        str(request.data_dir),
        metrics,
        options=options,
        partial=request.partial,
        compare=request.compare,
        common_rows=request.common_rows,
        say=tell,
        done=done,
    )
    return BenchmarkResult(found.runs, found.to_dict(), found.skipped, found.failed)


def _run_each(
    request: BenchmarkRequest,
    targets: list[Target],
    metrics: Mapping[str, Callable[[], Scorer]],
    options: TaskOptions,
    done: Callable[[BenchmarkRun], None],
    tell: Callable[[str], None],
) -> BenchmarkResult:
    from ..benchmarks import run_benchmark
    from ..benchmarks.suite import reasons

    files = _score_files(request.scores or [], set(metrics))
    _check_heatmap(request, [*metrics, *files])
    runs = []
    for slug, config, home in targets:
        run = run_benchmark(
            slug,
            config,
            data_dir=home,
            split=request.split,
            image_dir=request.image_dir,
            metrics=metrics,
            scores=files,
            score_column=request.score_column,
            options=options,
            partial=request.partial,
            compare=request.compare,
            common_rows=request.common_rows,
            keep_going=True,
            say=tell,
        )
        if not run.results:
            raise CapscoreError(reasons(run.skipped))
        done(run)
        runs.append(run)
    document = runs[0].to_dict() if len(runs) == 1 else {"runs": [run.to_dict() for run in runs]}
    return BenchmarkResult(runs, document)


def _check_heatmap(request: BenchmarkRequest, names: Sequence[str]) -> None:
    if request.heatmap is not None and len(names) > 2:
        raise UsageError(
            Setting("heatmap", request.heatmap),
            f": it has room for two, below and above its diagonal, not for {len(names)}: {', '.join(names)}",
        )


def _run_backbones(
    request: BenchmarkRequest, targets: list[Target], options: TaskOptions, tell: Callable[[str], None]
) -> BenchmarkResult:
    from ..benchmarks.backbones import suite_data

    names = named_backbones(request.backbone)
    metrics = request.metric or ([] if request.scores else [DEFAULT_METRIC])
    makers, plain = _makers(request, metrics)
    if not makers:
        raise UsageError(f"--backbone: none of {', '.join(metrics) or 'the scores'} has a backbone")
    skipped: dict[str, str] = {}
    data: list[DataSet] = [(target.slug, target.config, target.folder) for target in targets]
    if request.suite is not None:
        with as_usage():
            data, skipped = suite_data(request.suite, str(request.data_dir))
    labels = {f"{metric}@{name}" for metric in makers for name in names} | {*plain}
    files = _score_files(request.scores or [], labels)
    _check_heatmap(request, [*sorted(labels), *files])
    table = run_comparison(
        names,
        makers,
        plain,
        data,
        embedder_options=request.options,
        scores=files,
        score_column=request.score_column,
        keep=kept_results(request.keep, request.options),
        options=options,
        split=request.split,
        image_dir=request.image_dir,
        partial=request.partial,
        compare=request.compare,
        common_rows=request.common_rows,
        say=tell,
    )
    table.suite = request.suite or ""
    table.skipped = {**skipped, **table.skipped}
    return BenchmarkResult(table.runs, table.to_dict(), table.skipped, table.damaged, table=table)


def _scorers(request: BenchmarkRequest) -> dict[str, Callable[[], Scorer]]:
    """Name in the table → function that makes the scorer; a metric comes once for each backbone."""
    from ..benchmarks.run import COMPONENTS
    from ..metrics.loading import default_backbone

    with_backbone, plain = _makers(request, request.metric or [])
    embedder = embedders(request.options)
    backbones: Sequence[str | None] = request.backbone or [None]
    makers: dict[str, Callable[[], Scorer]] = {}
    for metric in request.metric or ():
        if metric in plain:
            makers[metric] = plain[metric]
            continue
        for backbone in backbones:
            name = backbone or default_backbone(COMPONENTS.get(metric, (metric, ""))[0])
            label = metric if len(backbones) == 1 else f"{metric}@{name}"
            makers[label] = functools.partial(_with_embedder, with_backbone[metric], embedder, name)
    return makers


def _makers(
    request: BenchmarkRequest, metrics: Sequence[str]
) -> tuple[dict[str, Callable[..., Scorer]], dict[str, Callable[[], Scorer]]]:
    """Metric → function that makes its scorer: from an embedder, and of metrics without a backbone."""
    from ..benchmarks.run import COMPONENTS
    from ..registry import METRICS

    slugs = {metric: COMPONENTS.get(metric, (metric, ""))[0] for metric in metrics}
    with as_usage():
        kinds = {metric: METRICS.get(slug) for metric, slug in slugs.items()}
    options = all_options()
    own = {name: value for name, value in request.options.items() if options[name].own}
    # document frequencies are ignored by benchmarks without CIDEr, so that one command line serves all
    own_checked = {name: value for name, value in own.items() if name != "document_frequencies"}
    check_metric_options([*slugs.values()], own_checked)
    with_backbone: dict[str, Callable[..., Scorer]] = {}
    plain: dict[str, Callable[[], Scorer]] = {}
    for metric, kind in kinds.items():
        takes = own_options(slugs[metric], own)
        into = with_backbone if "backbone" in options_of(slugs[metric]) else plain
        into[metric] = functools.partial(kind, **takes)
    return with_backbone, plain


def _with_embedder(make: Callable[..., Scorer], embedder: Callable[[str], Embedder], name: str) -> Scorer:
    return make(embedder(name))


def _score_files(given: list[str], taken: set[str]) -> dict[str, Path]:
    """Name in the table → file; the name is the file's own if none is given."""
    files: dict[str, Path] = {}
    for entry in given:
        name, sign, path = entry.partition("=")
        if not sign or Path(entry).exists():
            name, path = Path(entry).stem, entry
        if not name or not path:
            raise UsageError(Setting("scores", entry), ": expected NAME=FILE, or a file")
        if name in files or name in taken:
            raise UsageError(
                Setting("scores", entry),
                f": two rows of the table would be called {name!r}; NAME=FILE gives another name",
            )
        files[name] = Path(path)
    return files


def _write_queries(request: BenchmarkRequest, path: Path, targets: list[Target]) -> BenchmarkResult:
    from ..benchmarks.run import benchmark_queries

    if len(targets) != 1:
        raise UsageError("--write-queries takes one benchmark and configuration")
    slug, config, home = targets[0]
    queries = benchmark_queries(slug, config, data_dir=home, split=request.split, image_dir=request.image_dir)
    rows = queries.to_rows()
    write_text(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
    return BenchmarkResult(n_queries=len(rows))


def _write(request: BenchmarkRequest, result: BenchmarkResult) -> None:
    from ..benchmarks.result_file import stamped

    result.document = stamped(result.document)
    if request.output is not None:
        write_text(request.output, f"{json.dumps(result.document, ensure_ascii=False, indent=2)}\n")
    if request.markdown is not None:
        from ..show.benchmark_tables import backbones_report, benchmark_report

        reports = [] if result.table is None else [backbones_report(result.table)]
        reports += map(benchmark_report, result.runs)
        write_text(request.markdown, "\n".join(report.markdown() for report in reports))
    if request.figure is not None and result.runs:
        from ..show.figures import write_benchmark_figure

        write_benchmark_figure(result.runs, request.figure)
    if request.heatmap is not None:
        from ..show.figures import write_language_heatmap

        write_language_heatmap(result.runs, request.heatmap)


def show_benchmarks(request: BenchmarkRequest, result: BenchmarkResult) -> int | None:
    """Print what was not run, or all results as JSON; tables were printed as they came."""
    if result.systems is not None:
        show_systems(request, result.systems)
        return None
    if result.n_queries is not None:
        say(
            f"{result.n_queries:,} rows to score are in {request.write_queries}; add a column score, and "
            "read them back with --scores"
        )
        return None
    if result.table is not None:
        return _show_table(request, result.table)
    if request.as_json:
        print_json(result.document)
    elif not request.quiet:
        _print_not_run(make_console(), result)
    if result.failed:
        return FAILED
    if not result.runs:
        raise CapscoreError(f"nothing of the suite {request.suite!r} could be measured")
    skipped = [
        f"{run.name}: {name} was not run. {reason}"
        for run in result.runs
        for name, reason in run.skipped.items()
    ]
    if request.suite is not None or not skipped:
        return None
    if request.quiet or request.as_json:  # otherwise the tables say it
        for line in skipped:
            say(line)
    return SKIPPED


def _show_table(request: BenchmarkRequest, table: BackboneTable) -> int | None:
    if request.as_json:
        print_json(table.to_dict())
    elif not request.quiet:
        from ..show.benchmark_tables import backbones_report

        backbones_report(table).print(make_console())
    if request.quiet or request.as_json:  # otherwise the table says it
        say_what_failed(table)
    if table.damaged:
        return FAILED
    if not table.runs:
        say("error: no backbone could be measured on any data set")
        return FAILED
    return None if table.complete else SKIPPED


def _print_not_run(console: Console, result: BenchmarkResult) -> None:
    from rich.text import Text

    from ..show.tables import printable

    for title, reasons in (("Not run", result.skipped), ("Damaged", result.failed)):
        if reasons:
            console.print(Text(f"\n{title}", style="bold"))
        for (slug, reason), configs in _by_reason(reasons).items():
            of = "" if configs == [""] else f" · {', '.join(config or 'default' for config in configs)}"
            console.print(Text(printable(f"{slug}{of}: {reason}", console.encoding)))


def _by_reason(reasons: dict[str, str]) -> dict[tuple[str, str], list[str]]:
    """(benchmark, reason without the configuration's name) → configurations."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for name, reason in reasons.items():
        slug, _, config = name.partition(" · ")
        same = reason.replace(f" ({config})", "").replace(f"{slug} reads ", "reads ")
        grouped.setdefault((slug, same), []).append(config)
    return grouped
