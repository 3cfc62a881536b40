"""The command `capscore robustness`: measures how scores fall when captions are perturbed."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from ..errors import InputError, Setting
from ..files.console import make_console
from ..files.whole_file import write_text
from .benchmark import check_figures
from .models import embedders
from .options import (
    OF_TOWERS,
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
    Output,
    Partial,
    Quiet,
    Seed,
    TestSplit,
    column_option,
    metric_option,
)
from .request import flowing, metric_options, option
from .targets import Target, benchmark_targets, check_beside, targets_in_languages
from .terminal import SKIPPED, UsageError, as_usage, check_result_file, print_json, print_written, say

if TYPE_CHECKING:
    from ..benchmarks import BenchmarkRun
    from ..benchmarks.robustness import CaptionSet, RobustnessOptions, RobustnessRun
    from ..benchmarks.robustness.alarms import AlarmsRun
    from ..benchmarks.robustness.degrees import DegreesRun
    from ..embedding.embedder import Embedder
    from ..metrics.backbone_scorer import BackboneScorer
    from ..show.tables import Report

_HELP = """Measure how far the score of a true caption falls once the caption is perturbed.

Captions come from a benchmark (--data, with --config for its languages), or from a file (--captions, with a
caption, its photo and its language per row). Each metric scores them as they are and perturbed, as in Tables
2 and 7 to 11 of Kim et al. 2023 (PR-MCS): repetition, removal, masking, jumble, substitution. [bold]--kinds
all[/] adds six kinds that PR-MCS is not trained on, with an average of their own. Beside the drops stand the
mean score of the unchanged captions, how often they find their photo, and, with [bold]--agreement[/], how
well the metric agrees with ratings.

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

_PANEL = "Perturbations"


def robustness_help() -> str:
    """The command's help."""
    return flowing(_HELP)


@dataclass(frozen=True)
class RobustnessRequest:
    """What `capscore robustness` is asked for."""

    metric: Annotated[list[str] | None, metric_option("METRIC or METRIC@BACKBONE; repeatable.")] = None
    data: Data = None
    config: Configs = None
    data_dir: DataDir = None
    captions: Annotated[Path | None, option("File of captions: JSONL, CSV, Parquet, ….")] = None
    image_dir: ImageDir = None
    split: TestSplit = None
    languages: Annotated[str | None, option("Languages, as en,de,ja. Default: all.", metavar="CODES")] = None
    sample: Annotated[int | None, option("Most captions per language.", min=1)] = None
    stand_in: Annotated[bool, option("Open no photos: a text stands for each.", "--stand-in")] = False
    partial: Partial = False
    styles: Annotated[bool, option("Count false alarms on right captions, by style.", "--styles")] = False
    against: Annotated[
        str | None, option("Plain metric for --styles. Default: mcs.", metavar="METRIC[@BACKBONE]")
    ] = None
    degrees: Annotated[bool, option("Show how scores fall by degree of noise.", "--degrees")] = False
    agreement: Annotated[
        list[str] | None, option("Ratings: BENCHMARK\\[/CONFIG]=FOLDER; repeatable.", metavar="RATINGS")
    ] = None
    beside: Annotated[str | None, option("Benchmark with published figures, for --captions.")] = None
    output: Output = None
    markdown: Markdown = None
    figure: Annotated[Path | None, option("Figure of drops: .png, .svg or .pdf.")] = None
    bars: Annotated[Path | None, option("Figure of means before and after.")] = None
    force: Force = False
    as_json: AsJson = False
    quiet: Quiet = False
    kinds: Annotated[
        str, option("paper, unseen, all, or kinds such as jumble,typos.", panel=_PANEL, metavar="NAMES")
    ] = "paper"
    p: Annotated[float, option("Probability of drawing a word. Default: 0.4.", "--p", panel=_PANEL)] = 0.4
    seed: Seed = 0
    removal: Annotated[
        str, option("keep or drop the drawn words. Default: keep.", panel=_PANEL, metavar="HOW")
    ] = "keep"
    order: Annotated[
        str,
        option(
            "Order of the objects: published, or every (all move). Default: published.",
            panel=_PANEL,
            metavar="HOW",
        ),
    ] = "published"
    own_draws: Annotated[bool, option("Draw new words for each kind.", "--own-draws", panel=_PANEL)] = False
    leave_out_unchanged: Annotated[
        bool, option("Count only captions that change.", "--leave-out-unchanged", panel=_PANEL)
    ] = False
    bootstrap: Bootstrap = 1000
    confidence: Confidence = 0.95
    image_column: Annotated[str | None, column_option("image, image_path, file_name, img")] = None
    candidate_column: Annotated[str | None, column_option("caption, candidate, hyp, …")] = None
    language_column: Annotated[str | None, column_option("language, lang")] = None
    backbone: Backbones = None
    options: Mapping[str, Any] = metric_options(*OF_TOWERS)

    def __post_init__(self) -> None:
        if (self.captions is None) == (not self.data):
            raise UsageError("give either --data, for a benchmark, or --captions, for a file")
        if self.captions is not None and (self.config or self.data_dir):
            raise UsageError("--config and --data-dir belong to --data")
        of_file = (self.beside, self.image_column, self.candidate_column, self.language_column)
        if self.captions is None and any(of_file):
            raise UsageError("--beside and names of columns belong to --captions")
        if self.against is not None and not self.styles:
            raise UsageError("--against belongs to --styles")

    def check_files(self) -> None:
        """Check that all results can be written."""
        check_result_file("output", self.output, (".json",), self.force)
        check_result_file("markdown", self.markdown, (".md",), self.force)
        check_figures({"figure": self.figure, "bars": self.bars}, self.force)


@dataclass(frozen=True)
class _Plan:
    """What is to be measured, checked.

    Attributes:
        languages: Languages to measure; None for all.
        options: Options of the protocol.
        towers: Name in the table → metric and backbone.
        against: Name in the table → metric and backbone that its false alarms are counted against.
        ratings: Benchmarks of ratings to agree with.
        targets: Benchmarks of captions.
    """

    languages: list[str] | None
    options: RobustnessOptions
    towers: dict[str, tuple[str, str]]
    against: dict[str, tuple[str, str]]
    ratings: list[Target]
    targets: list[Target]


@dataclass(frozen=True)
class RobustnessResult:
    """Robustness that was measured.

    Attributes:
        runs: One run per benchmark and language.
        agreed: One run per benchmark of ratings.
        alarms: False alarms, one run per set of captions; none without --styles.
        curves: Curves by degree, one run per set of captions; none without --degrees.
        document: All results, ready for JSON.
    """

    runs: list[RobustnessRun]
    agreed: list[BenchmarkRun]
    alarms: list[AlarmsRun]
    curves: list[DegreesRun]
    document: dict[str, Any]

    @property
    def missed(self) -> list[str]:
        """What could not be measured, a line each."""
        kinds = [
            f"{run.data} ({run.language}): {kind} was not measured. {reason}"
            for run in self.runs
            for kind, reason in run.skipped.items()
        ]
        metrics = [
            f"{run.name}: {name} was not run. {reason}"
            for run in self.agreed
            for name, reason in run.skipped.items()
        ]
        restyled = [
            f"{captions.data} ({captions.language}): {name} was not measured. {reason}"
            for captions, skipped in (
                *((run.captions, run.skipped) for run in self.alarms),
                *((run.captions, run.skipped) for run in self.curves),
            )
            for name, reason in skipped.items()
            if not any(run.captions is captions and name in run.skipped for run in self.runs)
        ]
        return kinds + restyled + metrics


def run_robustness_command(request: RobustnessRequest) -> RobustnessResult:
    """Measure robustness, and write the results.

    Raises:
        UsageError, CapscoreError: An option is wrong, or captions, photos or weights are missing.
    """
    from ..benchmarks.robustness import run_robustness
    from ..benchmarks.robustness.table import averages_dict, groups

    plan = _plan(request)
    request.check_files()

    def tell(line: str) -> None:
        if not request.quiet and sys.stderr.isatty():
            say(line)

    sets = _caption_sets(request, plan, tell)
    embedder = embedders(request.options, progress=False if request.quiet else None)
    scorers = {label: _scorer(slug, embedder(spec)) for label, (slug, spec) in plan.towers.items()}
    plain = None
    if request.stand_in:
        from ..benchmarks.robustness.stand_in import plain_backbone

        plain = {label: embedder(plain_backbone(spec)) for label, (_, spec) in plan.towers.items()}
    runs, alarms, curves = [], [], []
    for one in sets:
        tell(f"{one.data} ({one.language}): {len(one):,} captions")
        runs.append(run_robustness(one, scorers, plan.options, plain_embedders=plain))
        if request.styles:
            tell(f"{one.data} ({one.language}): in other styles")
            alarms.append(_count_alarms(one, plan, scorers, plain, embedder))
        if request.degrees:
            tell(f"{one.data} ({one.language}): by degree")
            curves.append(_follow_degrees(one, plan, scorers, plain))
    agreed = [_agree(target, scorers, plain, plan.options, request.partial, tell) for target in plan.ratings]
    document: dict[str, Any] = {
        "runs": [run.to_dict() for run in runs],
        "averages": averages_dict(groups(runs)),
        "agreement": [run.to_dict() for run in agreed],
    }
    if request.styles:
        document["styles"] = [run.to_dict() for run in alarms]
    if request.degrees:
        document["degrees"] = [run.to_dict() for run in curves]
    result = RobustnessResult(runs, agreed, alarms, curves, document)
    _write(request, result)
    return result


def _plan(request: RobustnessRequest) -> _Plan:
    from ..benchmarks.robustness import RobustnessOptions
    from ..perturbations import KINDS

    with as_usage():
        languages = _codes(request.languages)
        options = RobustnessOptions(
            kinds=tuple(name.strip() for name in request.kinds.split(",") if name.strip()),
            p=request.p,
            seed=request.seed,
            shared_draws=not request.own_draws,
            removal=request.removal,
            order=request.order,
            leave_out_unchanged=request.leave_out_unchanged,
            bootstrap=request.bootstrap,
            confidence=request.confidence,
        )
        towers = _towers(request.metric or [], request.backbone or [None])
        against = _against(request.against, towers)
        ratings = [_ratings(given) for given in request.agreement or []]
        data = request.data or []
        if request.config or not languages:
            targets = benchmark_targets(data, request.config, request.data_dir)
        else:
            targets = targets_in_languages(data, request.data_dir, languages)
        check_beside(request.beside)
    if not towers:
        raise UsageError("there is nothing to measure: give --metric")
    if not options.kinds:
        raise UsageError("--kinds: expected paper, unseen, all, or names such as jumble,typos")
    if request.degrees and not options.paper_kinds:
        raise UsageError(f"--degrees: expected one of the kinds {', '.join(KINDS)} among --kinds")
    return _Plan(languages, options, towers, against, ratings, targets)


def _codes(languages: str | None) -> list[str] | None:
    from ..text.languages import language_code

    if languages is None:
        return None
    codes = [language_code(code) for code in languages.split(",") if code.strip()]
    return list(dict.fromkeys(codes)) or None


def _towers(metrics: Sequence[str], backbones: Sequence[str | None]) -> dict[str, tuple[str, str]]:
    """Name in the table → metric and backbone; a metric that names no backbone comes once for each."""
    from ..benchmarks.robustness.run import check_metrics
    from ..metrics.loading import default_backbone
    from ..registry import METRICS

    towers: dict[str, tuple[str, str]] = {}
    for metric in dict.fromkeys(metrics):
        slug, sign, own = metric.partition("@")
        check_metrics({slug: METRICS.get(slug)})
        for spec in [own] if sign else backbones:
            name = spec or default_backbone(slug)
            label = metric if sign or len(backbones) == 1 else f"{slug}@{name}"
            towers[label] = (slug, name)
    return towers


def _against(given: str | None, towers: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Name in the table → the plain metric and its backbone."""
    from ..benchmarks.robustness.run import check_metrics
    from ..registry import METRICS

    slug, _, spec = (given or "mcs").partition("@")
    check_metrics({slug: METRICS.get(slug)})
    return {label: (slug, spec) for label in towers}


def _count_alarms(
    one: CaptionSet,
    plan: _Plan,
    scorers: Mapping[str, BackboneScorer],
    plain: Mapping[str, Embedder] | None,
    embedder: Callable[[str], Embedder],
) -> AlarmsRun:
    from ..benchmarks.robustness.alarms import run_alarms
    from ..benchmarks.robustness.stand_in import plain_backbone

    metrics = {}
    for label, scorer in scorers.items():
        slug, spec = plan.against[label]
        spec = spec or plain_backbone(plan.towers[label][1])
        metrics[label] = (scorer, _scorer(slug, embedder(spec)), f"{slug}@{spec}")
    return run_alarms(one, metrics, plain_embedders=plain)


def _follow_degrees(
    one: CaptionSet,
    plan: _Plan,
    scorers: Mapping[str, BackboneScorer],
    plain: Mapping[str, Embedder] | None,
) -> DegreesRun:
    from ..benchmarks.robustness.degrees import run_degrees

    options = plan.options
    return run_degrees(one, scorers, plain_embedders=plain, kinds=options.paper_kinds, seed=options.seed)


def _scorer(slug: str, embedder: Embedder) -> BackboneScorer:
    from ..registry import METRICS

    return cast("type[BackboneScorer]", METRICS.get(slug))(embedder)


def _ratings(given: str) -> Target:
    """The parts of BENCHMARK[/CONFIG]=FOLDER."""
    from ..benchmarks.data.load import config_name

    name, sign, folder = given.partition("=")
    slug, _, config = name.partition("/")
    if not sign or not slug or not folder:
        raise UsageError(
            Setting("agreement", given), ": expected BENCHMARK=FOLDER or BENCHMARK/CONFIG=FOLDER"
        )
    return Target(slug, config_name(slug, config or None), Path(folder))


def _caption_sets(request: RobustnessRequest, plan: _Plan, tell: Callable[[str], None]) -> list[CaptionSet]:
    from ..benchmarks.robustness import file_captions

    sets: list[CaptionSet] = []
    if request.captions is not None:
        sets = file_captions(
            request.captions,
            languages=plan.languages,
            image_dir=request.image_dir,
            split=request.split,
            image_column=request.image_column,
            candidate_column=request.candidate_column,
            language_column=request.language_column,
            stand_in=request.stand_in,
            partial=request.partial,
            published_as=request.beside or "",
        )
    for target in plan.targets:
        tell(f"reading {target.slug}")
        sets += _of_benchmark(request, target, plan.languages)
    return sets if request.sample is None else [one.sample(request.sample, request.seed) for one in sets]


def _of_benchmark(
    request: RobustnessRequest, target: Target, languages: Sequence[str] | None
) -> list[CaptionSet]:
    from ..benchmarks.robustness import benchmark_captions

    sets = benchmark_captions(
        target.slug,
        target.config,
        data_dir=target.folder,
        image_dir=request.image_dir,
        split=request.split,
        stand_in=request.stand_in,
        partial=request.partial,
    )
    chosen = [one for one in sets if languages is None or one.language in languages]
    if not chosen:
        raise InputError(
            f"{target.slug} ({target.config}) has no captions in {', '.join(languages or ())}; "
            f"it has captions in {', '.join(one.language for one in sets)}",
            field="languages",
        )
    return chosen


def _agree(
    target: Target,
    scorers: dict[str, BackboneScorer],
    plain: dict[str, Embedder] | None,
    options: RobustnessOptions,
    partial: bool,
    tell: Callable[[str], None],
) -> BenchmarkRun:
    """Agreement with the ratings of a benchmark, by its photos or by references that stand for them."""
    from ..benchmarks import run_benchmark
    from ..benchmarks.tasks import TaskOptions

    sampling = TaskOptions(bootstrap=options.bootstrap, confidence=options.confidence, seed=options.seed)
    if plain is not None:
        from ..benchmarks.robustness.agreement import stand_in_agreement

        tell(f"{target.slug}: agreement")
        return stand_in_agreement(
            target.slug, target.config, scorers, plain, data_dir=target.folder, options=sampling
        )
    return run_benchmark(
        target.slug,
        target.config,
        data_dir=target.folder,
        metrics={name: functools.partial(scorers.__getitem__, name) for name in scorers},
        options=sampling,
        partial=partial,
        keep_going=True,
        say=tell,
    )


def _write(request: RobustnessRequest, result: RobustnessResult) -> None:
    if request.output is not None:
        write_text(request.output, f"{json.dumps(result.document, ensure_ascii=False, indent=2)}\n")
    if request.markdown is not None:
        write_text(request.markdown, "\n".join(report.markdown() for report in _reports(result)))
    if request.figure is not None or request.bars is not None:
        from ..show.figures import write_bars, write_dots

        if request.figure is not None:
            write_dots(result.runs, request.figure)
        if request.bars is not None:
            write_bars(result.runs, request.bars)


def _reports(result: RobustnessResult) -> list[Report]:
    """Tables of drops, false alarms, curves, and agreement with people."""
    from ..show.benchmark_tables import benchmark_report
    from ..show.robustness_tables import alarms_report, curves_report, robustness_reports

    reports = robustness_reports(result.runs)
    reports += [alarms_report(result.alarms)] if result.alarms else []
    reports += [curves_report(result.curves)] if result.curves else []
    return reports + [benchmark_report(run) for run in result.agreed]


def show_robustness(request: RobustnessRequest, result: RobustnessResult) -> int | None:
    """Print the tables, or all results as JSON, and what could not be measured."""
    if request.as_json:
        print_json(result.document)
    elif not request.quiet:
        console = make_console()
        for report in _reports(result):
            report.print(console)
        print_written(console, request.output, request.markdown, request.figure, request.bars)
    if not result.missed:
        return None
    if request.quiet or request.as_json:  # otherwise the tables say it
        for line in result.missed:
            say(line)
    return SKIPPED
