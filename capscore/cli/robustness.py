"""The command `capscore robustness`: captions and metrics in; PR-MCS's tables and figures out."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..files.whole_file import write_text
from .benchmark import benchmark_targets, check_target
from .options import BatchSize, CacheDir, Debug, Device, Dtype, NoCache, TrustRemoteCode, chosen_cache
from .terminal import DEBUG, SKIPPED, as_usage, command, say

if TYPE_CHECKING:
    from rich.console import Console

    from ..benchmark import BenchmarkRun
    from ..benchmark.robustness import CaptionSet, RobustnessOptions, RobustnessRun
    from ..embedding.embedder import Embedder
    from ..scorers.backbone_scorer import BackboneScorer
    from ..scorers.base import Scorer

HELP = """Measure how far the score of a true caption falls once the caption is perturbed.

Captions are those of a benchmark (--data, with --config for its languages), or of a file (--captions: a
caption, its photo and its language a row). Each metric scores them as they are and perturbed, as in Tables 2
and 7 to 11 of PR-MCS: repetition, removal, masking, jumble, substitution. [bold]--kinds all[/] adds six kinds
that PR-MCS is not trained on, with an average of their own. Beside the drops stands what a robust metric must
keep: its mean score on the captions as they are, how often they find their photo, and with
[bold]--agreement[/] how well it agrees with ratings.

A metric may name its towers: [bold]--metric mcs@embedded --metric pr_mcs@FOLDER[/].

[bold]Without photos[/] --stand-in lets a text stand for each: an English caption of the same photo (of the
benchmark's English configuration, or the column stand_in of the file), always embedded by the plain tower
that the metric's own was fine-tuned from.

[bold]Exit codes[/]: 0 measured; 1 failed; 2 wrong usage; 3 a perturbation, or an agreement, could not be
measured and the rest was; 130 interrupted.

[bold]Example[/]: capscore robustness --metric mcs --metric pr_mcs --data multi30k --config de --config fr
--data-dir multi30k --figure drops.png --output drops.json
"""
PARAGRAPHS = re.sub(r"(?<!\n)\n(?!\n)", " ", HELP)

_PERTURBATIONS, _MODEL, _FILES = "Perturbations", "Model", "Columns of a file"


@command
def robustness(
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", help="METRIC or METRIC@BACKBONE; may be repeated.", show_default=False
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", "-d", help="A benchmark; may be repeated.", show_default=False),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config", "-c", help="Its configuration; may be repeated; all for all.", show_default=False
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the benchmark's files; of several, a folder of such folders.", show_default=False
        ),
    ] = None,
    captions: Annotated[
        Path | None,
        typer.Option(help="A file of captions: JSONL, CSV, Parquet, ….", show_default=False),
    ] = None,
    image_dir: Annotated[
        Path | None, typer.Option(help="Folder of the photos, if elsewhere.", show_default=False)
    ] = None,
    split: Annotated[str | None, typer.Option(help="Default: test.", show_default=False)] = None,
    languages: Annotated[
        str | None,
        typer.Option(help="Only these, such as en,de,ja. Default: all there are.", show_default=False),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="At most so many captions a language.", show_default=False),
    ] = None,
    stand_in: Annotated[
        bool, typer.Option("--stand-in", help="Open no photos: a text stands for each.")
    ] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Score only the captions whose photos are there.")
    ] = False,
    agreement: Annotated[
        list[str] | None,
        typer.Option(
            help="BENCHMARK=FOLDER or BENCHMARK/CONFIG=FOLDER of ratings to agree with; may be repeated.",
            show_default=False,
        ),
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(
            help="With --captions: the benchmark whose published figures to set beside.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Results as JSON.", show_default=False)
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="The tables as Markdown.", show_default=False)] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Drops by perturbation: .png, .svg or .pdf.", show_default=False),
    ] = None,
    bars: Annotated[
        Path | None,
        typer.Option(help="Means before and after, by language: likewise.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No tables, no progress.")] = False,
    debug: Debug = False,
    kinds: Annotated[
        str,
        typer.Option(
            help="paper, unseen, all, or names such as jumble,typos.", rich_help_panel=_PERTURBATIONS
        ),
    ] = "paper",
    p: Annotated[
        float, typer.Option(help="Probability with which a word is drawn.", rich_help_panel=_PERTURBATIONS)
    ] = 0.4,
    seed: Annotated[int, typer.Option(min=0, help="Of all draws.", rich_help_panel=_PERTURBATIONS)] = 0,
    removal: Annotated[
        str,
        typer.Option(
            help="keep the drawn words, as published, or drop them.", rich_help_panel=_PERTURBATIONS
        ),
    ] = "keep",
    own_draws: Annotated[
        bool,
        typer.Option(
            "--own-draws",
            help="Repetition, removal and masking draw words each for itself; published: the same.",
            rich_help_panel=_PERTURBATIONS,
        ),
    ] = False,
    leave_out_unchanged: Annotated[
        bool,
        typer.Option(
            "--leave-out-unchanged",
            help="Captions that a perturbation leaves as they are do not count; published: they do.",
            rich_help_panel=_PERTURBATIONS,
        ),
    ] = False,
    bootstrap: Annotated[
        int, typer.Option(min=0, help="Draws for intervals; 0 for none.", rich_help_panel=_PERTURBATIONS)
    ] = 1000,
    confidence: Annotated[
        float, typer.Option(help="Share of draws inside.", rich_help_panel=_PERTURBATIONS)
    ] = 0.95,
    image_column: Annotated[
        str | None, typer.Option(help="The photos.", show_default=False, rich_help_panel=_FILES)
    ] = None,
    candidate_column: Annotated[
        str | None, typer.Option(help="The captions.", show_default=False, rich_help_panel=_FILES)
    ] = None,
    language_column: Annotated[
        str | None, typer.Option(help="Their languages.", show_default=False, rich_help_panel=_FILES)
    ] = None,
    backbone: Annotated[
        list[str] | None,
        typer.Option(
            help="For metrics that name none; may be repeated. Default: the variable CAPSCORE_BACKBONE, else "
            "the metric's own.",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    device: Device = None,
    dtype: Dtype = "float32",
    batch_size: BatchSize = None,
    trust_remote_code: TrustRemoteCode = False,
    cache_dir: CacheDir = None,
    no_cache: NoCache = False,
) -> None:
    DEBUG.set(debug)
    from ..benchmark.robustness import RobustnessOptions, run_robustness
    from ..benchmark.robustness.table import averages_dict, groups
    from ..files.rows import UsageError
    from ..show.benchmark_table import print_run
    from ..show.robustness_table import print_runs, to_markdown

    if (captions is None) == (not data):
        raise UsageError("give either --data, for a benchmark, or --captions, for a file")
    if captions is not None and (config or data_dir):
        raise UsageError("--config and --data-dir belong to --data")
    if captions is None and (beside or image_column or candidate_column or language_column):
        raise UsageError("--beside and names of columns belong to --captions")
    cache = chosen_cache(cache_dir, no_cache)
    with as_usage():
        wanted = _codes(languages)
        options = RobustnessOptions(
            kinds=tuple(name.strip() for name in kinds.split(",") if name.strip()),
            p=p,
            seed=seed,
            shared_draws=not own_draws,
            removal=removal,
            leave_out_unchanged=leave_out_unchanged,
            bootstrap=bootstrap,
            confidence=confidence,
        )
        towers = _towers(metric or [], backbone or [None])
        ratings = [_ratings(given) for given in agreement or []]
        targets = _chosen(data or [], config, data_dir, wanted)
        _check_beside(beside)
    if not towers:
        raise UsageError("there is nothing to measure: give --metric")
    if not options.kinds:
        raise UsageError("--kinds: expected paper, unseen, all, or names such as jumble,typos")
    for path, suffixes in ((output, (".json",)), (markdown, (".md",))):
        check_target(path, suffixes, force)
    if figure is not None or bars is not None:
        from ..show.benchmark_figure import KINDS, figure_class

        check_target(figure, KINDS, force)
        check_target(bars, KINDS, force)
        figure_class()  # that it is not installed is said before the work, not after it

    def tell(line: str) -> None:
        if not quiet and sys.stderr.isatty():
            say(line)

    sets: list[CaptionSet] = []
    if captions is not None:
        from ..benchmark.robustness import file_captions

        sets = file_captions(
            captions,
            languages=wanted,
            image_dir=image_dir,
            split=split,
            image_column=image_column,
            candidate_column=candidate_column,
            language_column=language_column,
            stand_in=stand_in,
            partial=partial,
            published_as=beside or "",
        )
    for slug, name, home in targets:
        tell(f"reading {slug}")
        sets += _of_benchmark(slug, name, home, image_dir, split, stand_in, partial, wanted)
    if sample is not None:
        sets = [one.sample(sample, seed) for one in sets]

    @functools.cache
    def embedder(name: str) -> Embedder:
        """What embeds with a backbone: loaded when first needed, once for all that look through it."""
        from ..backbones import load_backbone
        from ..embedding.cache import resolve_cache
        from ..embedding.embedder import Embedder

        loaded = load_backbone(name, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
        progress = False if quiet else None
        return Embedder(loaded, batch_size=batch_size, cache=resolve_cache(cache), progress=progress)

    scorers = {label: _scorer(slug, embedder(spec)) for label, (slug, spec) in towers.items()}
    plain = None
    if stand_in:
        from ..benchmark.robustness.stand_in import plain_backbone

        plain = {label: embedder(plain_backbone(spec)) for label, (_, spec) in towers.items()}
    runs: list[RobustnessRun] = []
    for one in sets:
        tell(f"{one.data} ({one.language}): {len(one):,} captions")
        runs.append(run_robustness(one, scorers, options, plain_embedders=plain))

    agreed = [_agree(given, scorers, plain, options, partial, tell) for given in ratings]
    console = _console()
    if not quiet and not as_json:
        print_runs(runs, console)
        for run in agreed:
            print_run(run, console)
    document = {
        "runs": [run.to_dict() for run in runs],
        "averages": averages_dict(groups(runs)),
        "agreement": [run.to_dict() for run in agreed],
    }
    text = json.dumps(document, ensure_ascii=False, indent=2)
    if output is not None:
        write_text(output, f"{text}\n")
    if markdown is not None:
        from ..show.benchmark_table import to_markdown as agreement_markdown

        whole = to_markdown(runs)
        write_text(markdown, f"{whole}\n{agreement_markdown(agreed)}" if agreed else whole)
    if figure is not None or bars is not None:
        from ..show.robustness_figure import write_bars, write_lines

        if figure is not None:
            write_lines(runs, figure)
        if bars is not None:
            write_bars(runs, bars)
    if as_json:
        print(text)
    missed = [
        f"{run.data} ({run.language}): {kind} was not measured. {reason}"
        for run in runs
        for kind, reason in run.skipped.items()
    ]
    missed += [
        f"{run.name}: {name} was not run. {reason}" for run in agreed for name, reason in run.skipped.items()
    ]
    if missed:
        for line in missed if quiet or as_json else ():
            say(line)
        raise typer.Exit(SKIPPED)


def _codes(languages: str | None) -> list[str] | None:
    from ..text.languages import language_code

    if languages is None:
        return None
    codes = [language_code(code) for code in languages.split(",") if code.strip()]
    return list(dict.fromkeys(codes)) or None


def _towers(metrics: Sequence[str], backbones: Sequence[str | None]) -> dict[str, tuple[str, str]]:
    """Name in the table → (metric, backbone): a metric that names no towers comes once for each of them."""
    from ..backbones.loading import default_backbone
    from ..benchmark.robustness.run import check_metrics
    from ..scorers import scorer_class

    towers: dict[str, tuple[str, str]] = {}
    for metric in dict.fromkeys(metrics):
        slug, sign, own = metric.partition("@")
        check_metrics({slug: scorer_class(slug)})
        for spec in [own] if sign else backbones:
            name = spec or default_backbone(slug)
            label = metric if sign or len(backbones) == 1 else f"{slug}@{name}"
            towers[label] = (slug, name)
    return towers


def _scorer(slug: str, embedder: Embedder) -> BackboneScorer:
    from ..scorers import scorer_class

    return scorer_class(slug)(embedder)  # type: ignore[call-arg, return-value]


def _ratings(given: str) -> tuple[str, str | None, Path]:
    """BENCHMARK[/CONFIG]=FOLDER → its parts."""
    from ..benchmark.data.load import config_name
    from ..files.rows import UsageError

    name, sign, folder = given.partition("=")
    slug, _, config = name.partition("/")
    if not sign or not slug or not folder:
        raise UsageError(f"--agreement {given}: expected BENCHMARK=FOLDER or BENCHMARK/CONFIG=FOLDER")
    return slug, config_name(slug, config or None), Path(folder)


def _check_beside(slug: str | None) -> None:
    from ..benchmark.published import figures
    from ..files.rows import UsageError

    known = sorted({each.benchmark for each in figures() if each.statistic.startswith("drop_")})
    if slug is not None and slug not in known:
        raise UsageError(f"--beside {slug}: no figures of perturbations; there are of {', '.join(known)}")


def _chosen(
    data: Sequence[str],
    configs: Sequence[str] | None,
    data_dir: Path | None,
    languages: Sequence[str] | None,
) -> list[tuple[str, str | None, Path | None]]:
    """(benchmark, configuration, folder): without --config, the configurations of the languages asked for."""
    from ..benchmark.data.load import builder_class
    from ..files.rows import UsageError

    if configs or not languages:
        return benchmark_targets(data, configs, data_dir)
    homes = {slug: home for slug, _, home in benchmark_targets(data, ["all"], data_dir)}
    targets: list[tuple[str, str | None, Path | None]] = []
    for slug, home in homes.items():
        kind = builder_class(slug)
        first = {config.language: config.name for config in reversed(kind.BUILDER_CONFIGS)}
        first |= {c.language: c.name for c in kind.BUILDER_CONFIGS if c.name == kind.DEFAULT_CONFIG_NAME}
        for language in languages:
            if language not in first:
                known = ", ".join(sorted(filter(None, first)))
                raise UsageError(f"{slug} has no captions in {language!r}: those that it has are in {known}")
            targets.append((slug, first[language], home))
    return targets


def _of_benchmark(
    slug: str,
    config: str | None,
    home: Path | None,
    image_dir: Path | None,
    split: str | None,
    stand_in: bool,
    partial: bool,
    languages: Sequence[str] | None,
) -> list[CaptionSet]:
    from ..benchmark.robustness import benchmark_captions
    from ..errors import InputError

    sets = benchmark_captions(
        slug, config, data_dir=home, image_dir=image_dir, split=split, stand_in=stand_in, partial=partial
    )
    chosen = [one for one in sets if languages is None or one.language in languages]
    if not chosen:
        raise InputError(
            f"{slug} ({config}) has no captions in {', '.join(languages or ())}: those that it has are in "
            f"{', '.join(one.language for one in sets)}",
            field="languages",
        )
    return chosen


def _agree(
    given: tuple[str, str | None, Path],
    scorers: dict[str, BackboneScorer],
    plain: dict[str, Embedder] | None,
    options: RobustnessOptions,
    partial: bool,
    tell: Callable[[str], None],
) -> BenchmarkRun:
    """Agreement with the ratings of a benchmark, by its photos or by references that stand for them."""
    from ..benchmark import run_benchmark
    from ..benchmark.tasks import TaskOptions

    slug, config, folder = given
    sampling = TaskOptions(bootstrap=options.bootstrap, confidence=options.confidence, seed=options.seed)
    if plain is not None:
        from ..benchmark.robustness.agreement import stand_in_agreement

        tell(f"{slug}: agreement")
        return stand_in_agreement(slug, config, scorers, plain, data_dir=folder, options=sampling)
    return run_benchmark(
        slug,
        config,
        data_dir=folder,
        metrics={name: functools.partial(_as_it_is, scorer) for name, scorer in scorers.items()},
        options=sampling,
        partial=partial,
        keep_going=True,
        say=tell,
    )


def _as_it_is(scorer: Scorer) -> Scorer:
    return scorer


def _console() -> Console:
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            """Whoever reads the tables has seen enough; files are still to be written."""
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return Terminal(highlight=False)
