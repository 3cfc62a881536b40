"""The command `capscore benchmark`: benchmarks and metrics in; tables, JSON, Markdown and a figure out."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import CapscoreError
from ..files.whole_file import write_text
from .options import (
    BatchSize,
    Beta,
    CacheDir,
    Debug,
    Device,
    Dtype,
    NoCache,
    NRegions,
    RegionNames,
    RegionsFrom,
    TrustRemoteCode,
    Weights,
    chosen_cache,
    infometic_options,
)
from .terminal import DEBUG, FAILED, SKIPPED, as_usage, command, say

if TYPE_CHECKING:
    from rich.console import Console

    from ..benchmark import BenchmarkRun
    from ..embedding.embedder import Embedder
    from ..scorers.base import Scorer

HELP = """Measure metrics on a benchmark, and print what comes out beside what was published.

Either one benchmark (--data, with --config where it has several; both may be repeated), whose official files
lie in --data-dir; or a --suite of all benchmarks that have a folder of their name in --data-dir.

[bold]Somebody else's scores[/] need no code: --write-queries writes what is to be scored (JSONL with id,
image, caption, references), and --scores NAME=FILE reads the same rows back with a column [bold]score[/].
Rows are matched by id, else by image_id and caption, else by their order. Scores named METRIC@BACKBONE stand
beside the published figures of that backbone.

Numbers are printed times 100, with bootstrap intervals over photos; --output has them unrounded, with every
published value, its source, signatures and counts.

[bold]Exit codes[/]: 0 measured; 1 failed (a damaged file, or nothing could be measured); 2 wrong usage; 3 a
metric could not be run (its photos or its weights are not there), the others were; 130 interrupted.

[bold]Example[/]: capscore benchmark --metric cider --metric rouge_l --data flickr8k_human --config expert
--data-dir flickr8k --output expert.json
"""
PARAGRAPHS = re.sub(r"(?<!\n)\n(?!\n)", " ", HELP)


@command
def benchmark(
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", help="Such as cider, bleu_4, mcs; may be repeated.", show_default=False
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", "-d", help="A benchmark, such as xvnli; may be repeated.", show_default=False),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config", "-c", help="Its configuration; may be repeated; all for all.", show_default=False
        ),
    ] = None,
    suite: Annotated[
        str | None, typer.Option(help="english, multilingual or all.", show_default=False)
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the benchmark's files; of several, a folder of such folders.", show_default=False
        ),
    ] = None,
    image_dir: Annotated[
        Path | None, typer.Option(help="Folder of the photos, if elsewhere.", show_default=False)
    ] = None,
    split: Annotated[str | None, typer.Option(help="Default: test.", show_default=False)] = None,
    scores: Annotated[
        list[str] | None,
        typer.Option(help="[NAME=]FILE of scores; may be repeated.", show_default=False),
    ] = None,
    score_column: Annotated[str, typer.Option(help="The column of those files.")] = "score",
    write_queries: Annotated[
        Path | None,
        typer.Option(help="Write what is to be scored to a .jsonl, and stop.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Results as JSON.", show_default=False)
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="The tables as Markdown.", show_default=False)] = None,
    figure: Annotated[
        Path | None, typer.Option(help="A figure: .png, .svg or .pdf.", show_default=False)
    ] = None,
    heatmap: Annotated[
        Path | None,
        typer.Option(help="Correlations between the languages of --config, as a figure.", show_default=False),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Test each metric against the first, paired by photo.")
    ] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Score only the rows whose photos and references are there.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No tables, no progress.")] = False,
    debug: Debug = False,
    bootstrap: Annotated[
        int, typer.Option(min=0, help="Draws for intervals; 0 for none.", rich_help_panel="Statistics")
    ] = 1000,
    confidence: Annotated[
        float, typer.Option(help="Share of draws inside.", rich_help_panel="Statistics")
    ] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.", rich_help_panel="Statistics")] = 0,
    raters: Annotated[
        str,
        typer.Option(
            help="flatten: a row for each rating, as published. mean: a row for each item.",
            rich_help_panel="Statistics",
        ),
    ] = "flatten",
    missing: Annotated[
        str,
        typer.Option(
            help="raise: a missing score is an error. skip: it is left out and counted.",
            rich_help_panel="Statistics",
        ),
    ] = "raise",
    backbone: Annotated[
        list[str] | None,
        typer.Option(
            help="Name, Hub id or folder; may be repeated. Default: the variable CAPSCORE_BACKBONE, else the "
            "metric's own.",
            show_default=False,
            rich_help_panel="Model",
        ),
    ] = None,
    document_frequencies: Annotated[
        Path | None,
        typer.Option(help="For cider: a file of them.", show_default=False, rich_help_panel="Model"),
    ] = None,
    device: Device = None,
    dtype: Dtype = "float32",
    batch_size: BatchSize = None,
    trust_remote_code: TrustRemoteCode = False,
    cache_dir: CacheDir = None,
    no_cache: NoCache = False,
    weights: Weights = None,
    regions: RegionsFrom = None,
    region_names: RegionNames = None,
    n_regions: NRegions = None,
    beta: Beta = None,
) -> None:
    DEBUG.set(debug)
    from rich.console import Console

    from ..benchmark import run_benchmark, run_suite
    from ..benchmark.suite import reasons
    from ..benchmark.tasks import TaskOptions
    from ..files.rows import UsageError
    from ..show.benchmark_table import print_run

    if (suite is None) == (not data):
        raise UsageError("give either --data, for one benchmark, or --suite, for all that --data-dir holds")
    if suite is not None and (config or split or image_dir or scores or write_queries or heatmap):
        raise UsageError(
            "--config, --split, --image-dir, --scores, --write-queries and --heatmap belong to --data"
        )
    if suite is not None and data_dir is None:
        raise UsageError("--suite needs --data-dir, a folder with one folder a benchmark")
    cache = chosen_cache(cache_dir, no_cache)
    own = infometic_options(
        weights=weights, regions=regions, region_names=region_names, n_regions=n_regions, beta=beta
    )
    with as_usage():
        options = TaskOptions(raters, bootstrap, confidence, seed, missing)
        targets = benchmark_targets(data or [], config, data_dir)
    for path, kinds in ((output, (".json",)), (markdown, (".md",)), (write_queries, (".jsonl",))):
        check_target(path, kinds, force)
    if figure is not None or heatmap is not None:
        from ..show.benchmark_figure import KINDS, figure_class

        check_target(figure, KINDS, force)
        check_target(heatmap, KINDS, force)
        figure_class()  # that it is not installed is said before the work, not after it
    if write_queries is not None:
        _write_queries(write_queries, targets, split, image_dir)
        return
    if not metric and not scores:
        raise UsageError("there is nothing to measure: give --metric, or --scores with a file")

    @functools.cache
    def embedder(name: str) -> Embedder:
        """What embeds with a backbone: loaded when first needed, once for all that look through it."""
        from ..backbones import load_backbone
        from ..embedding.cache import resolve_cache
        from ..embedding.embedder import Embedder

        backbone = load_backbone(name, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
        return Embedder(backbone, batch_size=batch_size, cache=resolve_cache(cache))

    metrics = _scorers(
        metric or [],
        backbone or [None],
        embedder,
        {"document_frequencies": document_frequencies, **own},
    )
    files = _score_files(scores or [], set(metrics))

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            """Whoever reads the tables has seen enough; files are still to be written."""
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    console = Terminal()

    def tell(line: str) -> None:
        if not quiet and sys.stderr.isatty():
            say(line)

    def show(run: BenchmarkRun) -> None:
        if not quiet and not as_json:
            print_run(run, console)

    failed: dict[str, str] = {}
    if suite is not None:
        found = run_suite(
            suite, data_dir, metrics, options=options, partial=partial, compare=compare, say=tell, done=show
        )
        runs, document = found.runs, found.to_dict()
        failed = found.failed
        if not quiet and not as_json:
            _print_skipped(console, found.skipped, found.failed)
    else:
        runs = []
        for slug, name, home in targets:
            runs.append(
                run_benchmark(
                    slug,
                    name,
                    data_dir=home,
                    split=split,
                    image_dir=image_dir,
                    metrics=metrics,
                    scores=files,
                    score_column=score_column,
                    options=options,
                    partial=partial,
                    compare=compare,
                    keep_going=True,
                    say=tell,
                )
            )
            if not runs[-1].results:
                raise CapscoreError(reasons(runs[-1].skipped))
            show(runs[-1])
        document = runs[0].to_dict() if len(runs) == 1 else {"runs": [run.to_dict() for run in runs]}
    text = json.dumps(document, ensure_ascii=False, indent=2)
    if output is not None:
        write_text(output, f"{text}\n")
    if markdown is not None:
        from ..show.benchmark_table import to_markdown

        write_text(markdown, to_markdown(runs))
    if figure is not None and runs:
        from ..show.benchmark_figure import write_figure

        write_figure(runs, figure)
    if heatmap is not None:
        from ..show.language_heatmap import write_heatmap

        write_heatmap(runs, heatmap)
    if as_json:
        print(text)
    if failed:
        raise typer.Exit(FAILED)
    if not runs:
        raise CapscoreError(f"nothing of the suite {suite!r} could be measured")
    if suite is None and any(run.skipped for run in runs):
        if quiet or as_json:
            for run in runs:
                for name, reason in run.skipped.items():
                    say(f"{run.name}: {name} was not run. {reason}")
        raise typer.Exit(SKIPPED)


def benchmark_targets(
    data: Sequence[str], configs: Sequence[str] | None, data_dir: Path | None
) -> list[tuple[str, str | None, Path | None]]:
    """(benchmark, configuration, folder) of everything that is to be measured."""
    from ..benchmark.data.load import builder_class, config_name
    from ..benchmark.suite import benchmark_home

    targets = []
    for slug in dict.fromkeys(data):
        known = [config.name for config in builder_class(slug).BUILDER_CONFIGS]
        home = data_dir
        if data_dir is not None and len(data) > 1:
            home = benchmark_home(data_dir, slug)
            if home is None:
                raise CapscoreError(
                    f"of several benchmarks --data-dir holds a folder each; {data_dir} has none for {slug}"
                )
        names: list[str | None] = [None] if not configs else [*configs]
        if configs and "all" in configs and "all" not in known:
            names = [*known]
        targets += [(slug, name, home) for name in dict.fromkeys(config_name(slug, name) for name in names)]
    return targets


def _scorers(
    metrics: Sequence[str],
    backbones: Sequence[str | None],
    embedder: Callable[[str], Embedder],
    options: Mapping[str, Any],
) -> dict[str, Callable[[], Scorer]]:
    """Name in the table → what makes the scorer; a metric with towers comes once for each of them.

    Each metric gets those of the options that it takes; one that no metric takes is an error.
    """
    from ..backbones.loading import default_backbone
    from ..benchmark.run import COMPONENTS
    from ..files.rows import UsageError
    from ..scorers import scorer_class
    from ..scorers.options import options_of, own_options

    given = {name: value for name, value in options.items() if value is not None}
    used: set[str] = set()
    makers: dict[str, Callable[[], Scorer]] = {}
    for metric in dict.fromkeys(metrics):
        slug, _ = COMPONENTS.get(metric, (metric, ""))
        with as_usage():
            kind = scorer_class(slug)
        own = own_options(slug, given)
        used.update(own)
        if "backbone" not in options_of(slug):
            makers[metric] = functools.partial(kind, **own)
            continue
        for backbone in backbones:
            name = backbone or default_backbone(slug)
            label = metric if len(backbones) == 1 else f"{metric}@{name}"
            makers[label] = functools.partial(_with_embedder, kind, embedder, name, own)
    for name in given:
        if name not in used and name != "document_frequencies":
            raise UsageError(f"--{name.replace('_', '-')} is for infometic, which is not among the metrics")
    return makers


def _with_embedder(
    kind: type[Scorer], embedder: Callable[[str], Embedder], name: str, own: dict[str, Any]
) -> Scorer:
    return kind(embedder(name), **own)  # type: ignore[call-arg]


def _score_files(given: Sequence[str], taken: set[str]) -> dict[str, Path]:
    """Name in the table → file; a name that is not given is the file's own."""
    from ..files.rows import UsageError

    files: dict[str, Path] = {}
    for entry in given:
        name, sign, path = entry.partition("=")
        if not sign or Path(entry).exists():
            name, path = Path(entry).stem, entry
        if not name or not path:
            raise UsageError(f"--scores {entry}: expected NAME=FILE, or a file")
        if name in files or name in taken:
            raise UsageError(
                f"--scores {entry}: two rows of the table would be called {name!r}; NAME=FILE names"
            )
        files[name] = Path(path)
    return files


def check_target(path: Path | None, kinds: Sequence[str], force: bool) -> None:
    """Stop with a usage error where a file that was asked for cannot be written; None asks for none."""
    from ..files.rows import UsageError

    if path is None:
        return
    if path.suffix.lower() not in kinds:
        raise UsageError(f"{path}: expected a name that ends in {' or '.join(kinds)}")
    if path.exists() and not force:
        raise UsageError(f"{path} exists; --force overwrites it")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise UsageError(f"{above} is not a folder")
    if path.is_dir():
        raise UsageError(f"{path} is a folder")
    if not os.access(above, os.W_OK):
        raise UsageError(f"{path} cannot be written: {above} is read-only")


def _write_queries(
    path: Path, targets: Sequence[tuple[str, str | None, Path | None]], split: str | None, images: Path | None
) -> None:
    from ..benchmark.run import benchmark_queries
    from ..files.rows import UsageError

    if len(targets) != 1:
        raise UsageError("--write-queries writes those of one benchmark and configuration")
    slug, config, home = targets[0]
    queries = benchmark_queries(slug, config, data_dir=home, split=split, image_dir=images)
    rows = queries.to_rows()
    write_text(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
    say(f"{len(rows):,} rows to score are in {path}; add a column score, and hand them to --scores")


def _print_skipped(console: Console, skipped: dict[str, str], failed: dict[str, str]) -> None:
    from rich.text import Text

    from ..show.benchmark_table import printable

    for title, reasons in (("Not run", skipped), ("Damaged", failed)):
        if reasons:
            console.print(Text(f"\n{title}", style="bold"))
        for (slug, reason), configs in _by_reason(reasons).items():
            of = "" if configs == [""] else f" · {', '.join(config or 'default' for config in configs)}"
            console.print(Text(printable(f"{slug}{of}: {reason}", console.encoding)))


def _by_reason(reasons: dict[str, str]) -> dict[tuple[str, str], list[str]]:
    """(benchmark, reason without its configuration's name) → configurations."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for name, reason in reasons.items():
        slug, _, config = name.partition(" · ")
        same = reason.replace(f" ({config})", "").replace(f"{slug} reads ", "reads ")
        grouped.setdefault((slug, same), []).append(config)
    return grouped
