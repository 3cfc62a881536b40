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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from ..errors import InputError, Setting
from ..files.console import make_console
from ..files.whole_file import write_text
from ..registry import METRICS
from . import options, terminal
from .options import Target, noise_option, option
from .terminal import UsageError, say

if TYPE_CHECKING:
    from ..benchmarks import BenchmarkRun
    from ..benchmarks.robustness import CaptionSet, RobustnessOptions, RobustnessRun
    from ..benchmarks.robustness.alarms import AlarmsRun
    from ..benchmarks.robustness.degrees import DegreesRun

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
P = Annotated[float, noise_option("Probability of drawing a word. Default: 0.4.", "--p", min=0, max=1)]
OwnDraws = Annotated[bool, noise_option("Draw new words for each kind.", "--own-draws")]
LeaveOut = Annotated[bool, noise_option("Count only captions that change.", "--leave-out-unchanged")]


class _Measured(NamedTuple):
    """Runs per set of captions; of ratings, one per benchmark."""

    runs: list[RobustnessRun]
    alarms: list[AlarmsRun]
    curves: list[DegreesRun]
    agreed: list[BenchmarkRun]


@options.with_metric_options(_options)
def robustness(
    metric: Annotated[
        list[str] | None, options.metrics_option("METRIC or METRIC@BACKBONE; repeatable.")
    ] = None,
    data: options.Data = None,
    config: options.Configs = None,
    data_dir: options.DataDir = None,
    captions: Captions = None,
    image_dir: options.ImageDir = None,
    split: options.TestSplit = None,
    languages: Languages = None,
    sample: Annotated[int | None, option("Most captions per language.", min=1)] = None,
    stand_in: StandIn = False,
    partial: options.Partial = False,
    styles: Styles = False,
    against: Against = None,
    degrees: Degrees = False,
    agreement: Agreement = None,
    beside: Annotated[str | None, option("Benchmark with published figures, for --captions.")] = None,
    output: options.Output = None,
    markdown: options.Markdown = None,
    figure: Annotated[Path | None, option("Figure of drops: .png, .svg or .pdf.")] = None,
    bars: Annotated[Path | None, option("Figure of means before and after.")] = None,
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
    _check(captions, data, {"config": config, "data_dir": data_dir}, {**columns, "beside": beside})
    if against is not None and not styles:
        raise UsageError(Setting("against", against), " belongs to ", Setting("styles"))
    draws = (p, seed, not own_draws, removal, order, leave_out_unchanged, bootstrap, confidence)
    noise = _noise(kind or ["paper"], draws, degrees)
    towers = _towers(metric or [], backbone or [None])
    ratings = [_ratings(given) for given in agreement or ()]
    where = {"image_dir": image_dir, "split": split, "stand_in": stand_in, "partial": partial}
    sets = _caption_sets((captions, beside, columns), (data, config, data_dir), languages, where)
    load = options.scorer_loader(metric_options, progress=False if quiet else None)
    plain = (against or "mcs").partition("@") if styles else None
    _towers([plain[0]] if plain else [*towers], [None])  # a metric that looks at no photo is refused
    sets = sets if sample is None else [part.sample(sample, seed) for part in sets]
    measured = _measure(sets, towers, load, noise, stand_in, plain, degrees)
    measured.agreed.extend(_agree(ratings, towers, load, noise, stand_in, partial))
    return _show(measured, output, markdown, figure, bars, as_json, quiet)


def _check(
    captions: Path | None, data: list[str] | None, of_data: Mapping[str, Any], of_file: Mapping[str, Any]
) -> None:
    """Check that captions come from one place, and that options belong to it."""
    if (captions is None) == (not data):
        raise UsageError("give either --data, for a benchmark, or --captions, for a file")
    place, others = ("data", of_file) if captions is None else ("captions", of_data)
    for name, value in others.items():
        if value:
            raise UsageError(Setting(name, value), " does not go with ", Setting(place))
    if of_file["beside"] is not None:
        from ..benchmarks.published import figures

        known = sorted({each.benchmark for each in figures() if each.statistic.startswith("drop_")})
        if of_file["beside"] not in known:
            raise UsageError(Setting("beside", of_file["beside"]), f": expected {' or '.join(known)}")


def _noise(kinds: Sequence[str], draws: Sequence[Any], degrees: bool) -> RobustnessOptions:
    from ..benchmarks.robustness import RobustnessOptions
    from ..perturbations import KINDS

    with terminal.as_usage():
        noise = RobustnessOptions(options.chosen_kinds(kinds), *draws)
    if degrees and not noise.paper_kinds:
        raise UsageError(f"--degrees: expected one of {', '.join(KINDS)} as --kind")
    return noise


def _towers(metrics: Sequence[str], backbones: Sequence[str | None]) -> Towers:
    """Name in the table → metric and backbone; a metric that names no backbone comes once for each."""
    from ..benchmarks.robustness.run import check_metrics
    from ..metrics.loading import default_backbone

    towers: Towers = {}
    with terminal.as_usage():
        for metric in metrics:
            slug, sign, own = metric.partition("@")
            check_metrics({slug: METRICS.get(slug)})
            for spec in [own] if sign else backbones:
                name = spec or default_backbone(slug)
                label = metric if sign or len(backbones) == 1 else f"{slug}@{name}"
                towers[label] = (slug, name)
    if not towers:
        raise UsageError("there is nothing to measure: give --metric")
    return towers


def _ratings(given: str) -> Target:
    """The parts of BENCHMARK[/CONFIG]=FOLDER."""
    from ..benchmarks.data.load import config_name

    name, sign, folder = given.partition("=")
    slug, _, config = name.partition("/")
    if not sign or not slug or not folder:
        raise UsageError(
            Setting("agreement", given), ": expected BENCHMARK=FOLDER or BENCHMARK/CONFIG=FOLDER"
        )
    with terminal.as_usage():
        return Target(slug, config_name(slug, config or None), Path(folder))


def _caption_sets(
    file: tuple[Path | None, str | None, Mapping[str, str | None]],
    benchmarks: tuple[list[str] | None, list[str] | None, Path | None],
    languages: str | None,
    where: Mapping[str, Any],
) -> list[CaptionSet]:
    """The captions of a file or of benchmarks, a set per language."""
    from ..benchmarks.robustness import benchmark_captions, file_captions

    with terminal.as_usage():
        listed = [options.language_of(code) for code in (languages or "").split(",") if code.strip()]
    codes = list(dict.fromkeys(filter(None, listed))) or None
    path, beside, columns = file
    if path is not None:
        named: dict[str, Any] = {f"{name}_column": value for name, value in columns.items()}
        return file_captions(path, languages=codes, published_as=beside or "", **named, **where)
    data, config, data_dir = benchmarks
    targets = options.benchmark_targets(data or [], config or (["all"] if codes else None), data_dir)
    if codes and not config:
        targets = list(_in_languages(targets, codes))
    sets = []
    for slug, name, folder in targets:
        _tell(f"reading {slug}")
        found = benchmark_captions(slug, name, data_dir=folder, **where)
        chosen = [part for part in found if codes is None or part.language in codes]
        if not chosen:
            known = ", ".join(part.language for part in found)
            raise InputError(
                f"{slug} ({name}) has no captions in {', '.join(codes or ())}; it has captions in {known}",
                field="languages",
            )
        sets += chosen
    return sets


def _in_languages(targets: Sequence[Target], languages: Sequence[str]) -> Iterator[Target]:
    """A configuration of each benchmark for each language; a default configuration comes before others."""
    from ..benchmarks.data.load import builder_class

    for slug, folder in dict.fromkeys((target.slug, target.folder) for target in targets):
        kind = builder_class(slug)
        first = {config.language: config.name for config in reversed(kind.BUILDER_CONFIGS)}
        first |= {c.language: c.name for c in kind.BUILDER_CONFIGS if c.name == kind.DEFAULT_CONFIG_NAME}
        for language in languages:
            if language not in first:
                known = ", ".join(sorted(filter(None, first)))
                raise UsageError(f"{slug} has no captions in {language!r}; it has captions in {known}")
            yield Target(slug, first[language], folder)


def _measure(
    sets: Sequence[CaptionSet],
    towers: Towers,
    load: Any,
    noise: RobustnessOptions,
    stand_in: bool,
    plain: tuple[str, str, str] | None,
    degrees: bool,
) -> _Measured:
    """Measure each set of captions; with `plain`, a metric and its backbone, also in other styles."""
    from ..benchmarks.robustness import run_robustness
    from ..benchmarks.robustness.alarms import run_alarms
    from ..benchmarks.robustness.degrees import run_degrees
    from ..benchmarks.robustness.stand_in import plain_backbone

    scorers = {label: load(slug, spec) for label, (slug, spec) in towers.items()}
    embedders = _stand_ins(towers, load) if stand_in else None
    measured = _Measured([], [], [], [])
    for captions in sets:
        _tell(f"{captions.data} ({captions.language}): {len(captions):,} captions")
        measured.runs.append(run_robustness(captions, scorers, noise, plain_embedders=embedders))
        if plain is not None:
            against = {}
            for label, scorer in scorers.items():
                spec = plain[2] or plain_backbone(towers[label][1])
                against[label] = (scorer, load(plain[0], spec), f"{plain[0]}@{spec}")
            measured.alarms.append(run_alarms(captions, against, plain_embedders=embedders))
        if degrees:
            how: dict[str, Any] = {
                "kinds": noise.paper_kinds,
                "seed": noise.seed,
                "plain_embedders": embedders,
            }
            measured.curves.append(run_degrees(captions, scorers, **how))
    return measured


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
    from ..benchmarks.robustness.agreement import stand_in_agreement
    from ..benchmarks.tasks import TaskOptions

    sampling = TaskOptions(bootstrap=noise.bootstrap, confidence=noise.confidence, seed=noise.seed)
    runs = []
    for slug, config, folder in ratings:
        _tell(f"{slug}: agreement")
        if stand_in:
            scorers = {label: load(metric, spec) for label, (metric, spec) in towers.items()}
            embedders = _stand_ins(towers, load)
            run = stand_in_agreement(slug, config, scorers, embedders, data_dir=folder, options=sampling)
        else:
            run = run_benchmark(
                slug,
                config,
                data_dir=folder,
                metrics={label: functools.partial(load, *tower) for label, tower in towers.items()},
                options=sampling,
                partial=partial,
                keep_going=True,
                say=_tell,
            )
        runs.append(run)
    return runs


def _tell(line: str) -> None:
    """Say something to a person who waits."""
    if sys.stderr.isatty():
        say(line)


def _show(
    measured: _Measured,
    output: Path | None,
    markdown: Path | None,
    figure: Path | None,
    bars: Path | None,
    as_json: bool,
    quiet: bool,
) -> int | None:
    """Write and print the results; returns the exit code."""
    from ..benchmarks.robustness.table import averages_dict, groups
    from ..show.benchmark_tables import benchmark_report
    from ..show.figures import write_bars, write_dots
    from ..show.robustness_tables import alarms_report, curves_report, robustness_reports

    document: dict[str, Any] = {
        "runs": [run.to_dict() for run in measured.runs],
        "averages": averages_dict(groups(measured.runs)),
        "agreement": [run.to_dict() for run in measured.agreed],
    }
    if measured.alarms:
        document["styles"] = [run.to_dict() for run in measured.alarms]
    if measured.curves:
        document["degrees"] = [run.to_dict() for run in measured.curves]
    reports = robustness_reports(measured.runs)
    reports += [alarms_report(measured.alarms)] if measured.alarms else []
    reports += [curves_report(measured.curves)] if measured.curves else []
    reports += map(benchmark_report, measured.agreed)
    terminal.write_json(output, document)
    if markdown is not None:
        write_text(markdown, "\n".join(report.markdown() for report in reports))
    if figure is not None:
        write_dots(measured.runs, figure)
    if bars is not None:
        write_bars(measured.runs, bars)
    if as_json:
        terminal.print_json(document)
    elif not quiet:
        console = make_console()
        for report in reports:
            report.print(console)
        terminal.print_written(console, output, markdown, figure, bars)
    missed = _missed(measured)
    for line in missed if quiet or as_json else ():  # otherwise the tables say it
        say(line)
    return terminal.SKIPPED if missed else None


def _missed(measured: _Measured) -> list[str]:
    """What could not be measured, a line each."""
    lines = [
        f"{run.data} ({run.language}): {kind} was not measured. {reason}"
        for run in measured.runs
        for kind, reason in run.skipped.items()
    ]
    further: list[AlarmsRun | DegreesRun] = [*measured.alarms, *measured.curves]
    for run in further:
        name = f"{run.captions.data} ({run.captions.language})"
        lines += [f"{name}: {kind} was not measured. {reason}" for kind, reason in run.skipped.items()]
    for agreed in measured.agreed:
        lines += [f"{agreed.name}: {name} was not run. {why}" for name, why in agreed.skipped.items()]
    return list(dict.fromkeys(lines))
