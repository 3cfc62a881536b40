r"""Measure how far the score of a true caption falls once the caption is perturbed.

Captions come from a benchmark (--data, with --config for its languages), or from a file (--captions, with a
caption, its photo and its language per row). Each metric scores them as they are and perturbed, as in Tables
2 and 7 to 11 of Kim et al. 2023 (PR-MCS): repetition, removal, masking, jumble, substitution. [bold]--kind
all[/] adds kinds that PR-MCS is not trained on, with an average of their own. Beside the drops stand the mean
score of the unchanged captions, how often they find their photo, and, with [bold]--agreement[/], how well the
metric agrees with ratings.

A metric may name its backbone: [bold]--metric mcs@embedded --metric pr_mcs@FOLDER[/].

[bold]Without photos[/], --stand-in lets a text stand for each photo: an English caption of it (from the
benchmark's English configuration, or the column stand_in of the file), embedded by the backbone that the
metric's own was fine-tuned from.

[bold]--styles[/] counts false alarms: right captions, written in other styles by rule (lower case, capitals,
noun phrases, paragraphs, …), that score below half of what a plain metric gives them; that is --against, by
default MCS on the backbone that the metric's own was fine-tuned from. [bold]--degrees[/] perturbs 10 to 80
percent of the words and shows how the score falls with them.

[bold]Exit codes[/]: 0 measured; 1 failed; 2 wrong usage; 3 a perturbation or an agreement could not be
measured, the rest was; 130 interrupted.

[bold]Example[/]: capscore robustness --metric mcs --metric pr_mcs --data multi30k --config de --config fr
--data-dir multi30k --figure drops.png --output drops.json
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..errors import InputError, Setting
from ..files.console import make_console
from ..files.write import write_text
from ..registry import METRICS
from . import options, terminal
from .options import Target, noise_option, option
from .terminal import UsageError, say

if TYPE_CHECKING:
    from ..benchmarks import BenchmarkRun
    from ..benchmarks.robustness import CaptionSet, RobustnessOptions

Towers = dict[str, tuple[str, str]]  # name in the table → metric and backbone


def _options() -> Any:
    return {name: entry for name, entry in options.of_several().items() if not entry.own}


Captions = Annotated[Path | None, option("File of captions: JSONL, CSV, Parquet, ….")]
Languages = Annotated[str | None, option("Languages, as en,de,ja. Default: all.", metavar="CODES")]
StandIn = Annotated[bool, option("Open no photos: a text stands for each.", "--stand-in")]
Styles = Annotated[bool, option("Count false alarms on right captions, by style.", "--styles")]
Against = Annotated[
    str | None, option("Plain metric for --styles. Default: mcs.", metavar="METRIC[@BACKBONE]")
]
Degrees = Annotated[bool, option("Show how scores fall by degree of noise.", "--degrees")]
Agreement = Annotated[
    list[str] | None, option("Ratings: BENCHMARK\\[/CONFIG]=FOLDER; repeatable.", metavar="RATINGS")
]
Beside = Annotated[str | None, option("Benchmark with published figures, for --captions.")]
Figure = Annotated[Path | None, option("Figure of drops: .png, .svg or .pdf.")]
Bars = Annotated[Path | None, option("Figure of means before and after.")]
Sample = Annotated[int | None, option("Most captions per language.", min=1)]
Metrics = Annotated[list[str] | None, options.metrics_option("METRIC or METRIC@BACKBONE; repeatable.")]
P = Annotated[float, noise_option("Probability of drawing a word. Default: 0.4.", "--p", min=0, max=1)]
OwnDraws = Annotated[bool, noise_option("Draw new words for each kind.", "--own-draws")]
LeaveOut = Annotated[bool, noise_option("Count only captions that change.", "--leave-out-unchanged")]


@options.with_metric_options(_options)
def robustness(
    metric: Metrics = None,
    data: options.Data = None,
    config: options.Configs = None,
    data_dir: options.DataDir = None,
    captions: Captions = None,
    image_dir: options.ImageDir = None,
    split: options.TestSplit = None,
    languages: Languages = None,
    sample: Sample = None,
    stand_in: StandIn = False,
    partial: options.Partial = False,
    styles: Styles = False,
    against: Against = None,
    degrees: Degrees = False,
    agreement: Agreement = None,
    beside: Beside = None,
    output: options.Output = None,
    markdown: options.Markdown = None,
    figure: Figure = None,
    bars: Bars = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    kind: options.Kinds = None,
    p: P = 0.4,
    seed: options.Seed = 0,
    removal: options.Removal = "keep",
    order: options.Order = "published",
    own_draws: OwnDraws = False,
    leave_out_unchanged: LeaveOut = False,
    bootstrap: options.Bootstrap = 1000,
    confidence: options.Confidence = 0.95,
    image_column: options.ImageColumn = None,
    candidate_column: options.CandidateColumn = None,
    language_column: options.LanguageColumn = None,
    backbone: options.Backbones = None,
    metric_options: Mapping[str, Any] = {},
) -> int | None:
    """Measure robustness, and write and print the results."""
    terminal.check_result_files(force, output=output, markdown=markdown, figure=figure, bars=bars)
    columns = {"image": image_column, "candidate": candidate_column, "language": language_column}
    _check_source(captions, data, {"config": config, "data_dir": data_dir}, {**columns, "beside": beside})
    if against is not None and not styles:
        raise UsageError(Setting("against", against), " belongs to ", Setting("styles"))
    draws = (p, seed, not own_draws, removal, order, leave_out_unchanged, bootstrap, confidence)
    noise = _noise(kind or ["paper"], draws, degrees)
    towers = _towers(metric or [], backbone or [None])
    _towers([against or "mcs"], [None])
    ratings = [_ratings(given) for given in agreement or ()]
    codes = [options.language_of(code) or "" for code in (languages or "").split(",") if code.strip()]
    where = {"image_dir": image_dir, "split": split, "stand_in": stand_in, "partial": partial}
    if captions is not None:
        sets = _of_file(captions, codes, beside, columns, where)
    else:
        sets = _of_benchmarks(data or [], config, data_dir, codes, where)
    sets = sets if sample is None else [part.sample(sample, seed) for part in sets]
    load = options.scorer_loader(metric_options, progress=False if quiet else None)
    results = _measure(sets, towers, load, noise, stand_in, (against or "mcs") if styles else "", degrees)
    results["agreement"] = _agree(ratings, towers, load, noise, stand_in, partial)
    return _show(results, output, markdown, figure, bars, as_json, quiet)


def _check_source(
    captions: Path | None, data: list[str] | None, of_data: Mapping[str, Any], of_file: Mapping[str, Any]
) -> None:
    """Check that captions come from one place, and that options belong to it."""
    from ..benchmarks.published import figures

    if (captions is None) == (not data):
        raise UsageError("give either --data, for a benchmark, or --captions, for a file")
    place, others = ("data", of_file) if captions is None else ("captions", of_data)
    for name, value in others.items():
        if value:
            raise UsageError(Setting(name, value), " does not go with ", Setting(place))
    known = {figure.benchmark for figure in figures() if figure.statistic.startswith("drop_")}
    if of_file["beside"] not in (None, *known):
        raise UsageError(Setting("beside", of_file["beside"]), f": expected {' or '.join(sorted(known))}")


def _noise(kinds: Sequence[str], draws: Sequence[Any], degrees: bool) -> RobustnessOptions:
    from ..benchmarks.robustness import RobustnessOptions
    from ..perturbations import KINDS

    with terminal.as_usage():
        noise = RobustnessOptions(options.chosen_kinds(kinds), *draws)
    if degrees and not set(noise.kinds) & set(KINDS):
        raise UsageError(f"--degrees: expected one of {', '.join(KINDS)} as --kind")
    return noise


def _towers(metrics: Sequence[str], backbones: Sequence[str | None]) -> Towers:
    """Name in the table → metric and backbone; a metric that names no backbone comes once for each."""
    from ..benchmarks.robustness.run import check_metric
    from ..metrics.loading import default_backbone

    towers: Towers = {}
    for metric in metrics:
        slug, sign, own = metric.partition("@")
        with terminal.as_usage():
            check_metric(slug, METRICS.get(slug))
        for spec in [own] if sign else backbones:
            name = spec or default_backbone(slug)
            towers[metric if sign or len(backbones) == 1 else f"{slug}@{name}"] = (slug, name)
    if not towers:
        raise UsageError("there is nothing to measure: give --metric")
    return towers


def _ratings(given: str) -> Target:
    """The parts of BENCHMARK[/CONFIG]=FOLDER."""
    from ..benchmarks.data.load import config_name

    name, _, folder = given.partition("=")
    slug, _, config = name.partition("/")
    if not slug or not folder:
        raise UsageError(
            Setting("agreement", given), ": expected BENCHMARK=FOLDER or BENCHMARK/CONFIG=FOLDER"
        )
    with terminal.as_usage():
        return Target(slug, config_name(slug, config or None), Path(folder))


def _of_file(
    path: Path,
    languages: Sequence[str],
    beside: str | None,
    columns: Mapping[str, str | None],
    where: Mapping[str, Any],
) -> list[CaptionSet]:
    """The captions of a file, a set per language."""
    from ..benchmarks.robustness import file_captions

    named: dict[str, Any] = {f"{name}_column": value for name, value in columns.items()}
    return file_captions(path, languages=languages, published_as=beside or "", **named, **where)


def _of_benchmarks(
    data: Sequence[str],
    configs: list[str] | None,
    data_dir: Path | None,
    languages: Sequence[str],
    where: Mapping[str, Any],
) -> list[CaptionSet]:
    """The captions of benchmarks, a set per language."""
    from ..benchmarks.data.load import builder_class
    from ..benchmarks.robustness import benchmark_captions

    targets = options.benchmark_targets(data, configs or (["all"] if languages else None), data_dir)
    if languages and not configs:  # a configuration for each language; the default one comes before others
        chosen = []
        for slug, folder in dict.fromkeys((target.slug, target.folder) for target in targets):
            kind = builder_class(slug)
            first = {config.language: config.name for config in reversed(kind.BUILDER_CONFIGS)}
            first |= {c.language: c.name for c in kind.BUILDER_CONFIGS if c.name == kind.DEFAULT_CONFIG_NAME}
            chosen += [Target(slug, first[code], folder) for code in languages if code in first]
        targets = chosen
    sets = []
    for slug, name, folder in targets:
        _tell(f"reading {slug}")
        sets += benchmark_captions(slug, name, data_dir=folder, **where)
    for slug, code in ((slug, code) for slug in data for code in languages):
        if all((part.data, part.language) != (slug, code) for part in sets):
            raise InputError(f"{slug} has no captions in {code!r}", field="languages")
    return [part for part in sets if not languages or part.language in languages]


def _measure(
    sets: Sequence[CaptionSet],
    towers: Towers,
    load: Any,
    noise: RobustnessOptions,
    stand_in: bool,
    plain: str,
    degrees: bool,
) -> dict[str, list[Any]]:
    """The runs of each set of captions; also in other styles against `plain`, METRIC[@BACKBONE] or ""."""
    from ..benchmarks.robustness import run_robustness
    from ..benchmarks.robustness.alarms import run_alarms
    from ..benchmarks.robustness.degrees import run_degrees
    from ..benchmarks.robustness.stand_in import plain_backbone
    from ..perturbations import KINDS

    scorers = {label: load(slug, spec) for label, (slug, spec) in towers.items()}
    embedders = _stand_ins(towers, load) if stand_in else None
    against = {}
    for label, scorer in scorers.items() if plain else ():
        slug, _, spec = plain.partition("@")
        spec = spec or plain_backbone(towers[label][1])
        against[label] = (scorer, load(slug, spec), f"{slug}@{spec}")
    found: dict[str, list[Any]] = {"runs": [], "styles": [], "degrees": []}
    for captions in sets:
        _tell(f"{captions.data} ({captions.language}): {len(captions):,} captions")
        found["runs"].append(run_robustness(captions, scorers, noise, plain_embedders=embedders))
        if plain:
            found["styles"].append(run_alarms(captions, against, plain_embedders=embedders))
        if degrees:
            kinds = [kind for kind in noise.kinds if kind in KINDS]
            how: dict[str, Any] = {"kinds": kinds, "seed": noise.seed, "plain_embedders": embedders}
            found["degrees"].append(run_degrees(captions, scorers, **how))
    return found


def _stand_ins(towers: Towers, load: Any) -> dict[str, Any]:
    """Name in the table → embedder of the texts that stand for photos."""
    from ..benchmarks.robustness.stand_in import plain_backbone

    return {label: load.embedder(plain_backbone(spec)) for label, (_, spec) in towers.items()}


def _agree(
    ratings: Sequence[Target],
    towers: Towers,
    load: Any,
    noise: RobustnessOptions,
    stand_in: bool,
    partial: bool,
) -> list[BenchmarkRun]:
    """Agreement with the ratings of benchmarks, by their photos or by references that stand for them."""
    from ..benchmarks import run_benchmark
    from ..benchmarks.robustness.stand_in import stand_in_agreement
    from ..benchmarks.tasks import TaskOptions

    sampling = TaskOptions(bootstrap=noise.bootstrap, confidence=noise.confidence, seed=noise.seed)
    makers = {label: functools.partial(load, *tower) for label, tower in towers.items()}
    runs = []
    for slug, config, folder in ratings:
        _tell(f"{slug}: agreement")
        how: dict[str, Any] = {"data_dir": folder, "options": sampling}
        if stand_in:
            scorers = {label: make() for label, make in makers.items()}
            runs.append(stand_in_agreement(slug, config, scorers, _stand_ins(towers, load), **how))
        else:
            how |= {"partial": partial, "keep_going": True, "say": _tell}
            runs.append(run_benchmark(slug, config, metrics=makers, **how))
    return runs


def _tell(line: str) -> None:
    """Say something to a person who waits."""
    if sys.stderr.isatty():
        say(line)


def _show(
    results: dict[str, list[Any]],
    output: Path | None,
    markdown: Path | None,
    figure: Path | None,
    bars: Path | None,
    as_json: bool,
    quiet: bool,
) -> int | None:
    """Write and print the results; returns the exit code."""
    from ..show.benchmark_tables import benchmark_report
    from ..show.figures import write_bars, write_dots
    from ..show.robustness_tables import alarms_report, averages_dict, curves_report, robustness_reports

    runs, styles, degrees = (results[name] for name in ("runs", "styles", "degrees"))
    document: dict[str, Any] = {
        name: [run.to_dict() for run in part]
        for name, part in results.items()
        if part or name in ("runs", "agreement")
    }
    document["averages"] = averages_dict(runs)
    reports = robustness_reports(runs)
    reports += [alarms_report(styles)] if styles else []
    reports += [curves_report(degrees)] if degrees else []
    reports += map(benchmark_report, results["agreement"])
    terminal.write_json(output, document)
    if markdown is not None:
        write_text(markdown, "\n".join(report.markdown() for report in reports))
    if figure is not None:
        write_dots(runs, figure)
    if bars is not None:
        write_bars(runs, bars)
    if as_json:
        terminal.print_json(document)
    elif not quiet:
        console = make_console()
        for report in reports:
            report.print(console)
        terminal.print_written(console, output, markdown, figure, bars)
    missed = [
        f"{run.captions.data} ({run.captions.language}): {name} was not measured. {why}"
        for run in (*runs, *styles, *degrees)
        for name, why in run.skipped.items()
    ]
    missed += [
        f"{run.name}: {name} was not run. {why}"
        for run in results["agreement"]
        for name, why in run.skipped.items()
    ]
    for line in dict.fromkeys(missed) if quiet or as_json else ():  # otherwise the tables say it
        say(line)
    return terminal.SKIPPED if missed else None
