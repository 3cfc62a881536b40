r"""Measure how far the score of a true caption falls once the caption is perturbed.

[bold]Example[/]: capscore robustness -m mcs -m pr_mcs --data multi30k --config de --data-dir multi30k

Captions come from a benchmark, or from a file with caption, photo and language. The tables are those of Kim
et al. 2023 (PR-MCS), 2 and 7 to 11, with the mean score of the unchanged captions and how often they
retrieve their photo. A metric may name its backbone: [bold]--metric pr_mcs@FOLDER[/].

[bold]--stand-in[/] uses an English caption in place of each photo, where there are none. [bold]--styles[/]
counts right captions that lose half of their score in another style. [bold]--degrees[/] perturbs 10 to 80
percent of the words.

[bold]Exit codes[/]: 0 measured; 1 failed; 2 wrong usage; 3 some could not be measured; 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..errors import Setting
from ..metrics.loading import ScorerLoader
from ..options import Sampling
from ..registry import METRICS
from . import options, terminal
from .options import noise_option, option
from .terminal import UsageError, say

if TYPE_CHECKING:
    from ..benchmarks.robustness import CaptionSet, RobustnessOptions

Towers = dict[str, tuple[str, str]]  # name in the table → metric and backbone


Captions = Annotated[Path | None, option("File of captions: JSONL, CSV, Parquet, ….")]
StandIn = Annotated[bool, option("Use a text in place of each photo.", "--stand-in")]
Styles = Annotated[bool, option("Count false alarms on right captions, by style.", "--styles")]
Degrees = Annotated[bool, option("Show how scores fall by degree of noise.", "--degrees")]
Sample = Annotated[int | None, option("Maximum number of captions per language.", min=1)]
Metrics = Annotated[list[str] | None, options.metrics_option("METRIC or METRIC@BACKBONE; repeatable.")]
P = Annotated[float, noise_option("Probability of drawing a word. Default: 0.4.", "--p", min=0, max=1)]


@options.with_metric_options(
    lambda: {name: entry for name, entry in options.of_several().items() if not entry.own}
)
def robustness(
    metric: Metrics = None,
    data: options.Data = None,
    config: options.Configs = None,
    data_dir: options.DataDir = None,
    captions: Captions = None,
    image_dir: options.ImageDir = None,
    split: options.TestSplit = None,
    sample: Sample = None,
    stand_in: StandIn = False,
    partial: options.Partial = False,
    styles: Styles = False,
    degrees: Degrees = False,
    output: options.Output = None,
    markdown: options.Markdown = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    kind: options.Kinds = None,
    p: P = 0.4,
    seed: options.Seed = 0,
    image_column: options.ImageColumn = None,
    candidate_column: options.CandidateColumn = None,
    language_column: options.LanguageColumn = None,
    backbone: options.Backbones = None,
    metric_options: Mapping[str, Any] = {},
) -> int | None:
    """Measure robustness, and write and print the results."""
    from ..benchmarks.reading import configurations
    from ..benchmarks.robustness import RobustnessOptions, benchmark_captions, file_captions
    from ..perturbations import KINDS

    terminal.check_result_files(force, output=output, markdown=markdown)
    columns: dict[str, Any] = {
        "image_column": image_column,
        "candidate_column": candidate_column,
        "language_column": language_column,
    }
    if (captions is None) == (not data):
        raise UsageError("give either --data, for a benchmark, or --captions, for a file")
    source, others = (
        ("data", columns) if captions is None else ("captions", {"config": config, "data_dir": data_dir})
    )
    for name, value in others.items():
        if value:
            raise UsageError(Setting(name, value), " does not go with ", Setting(source))
    with terminal.as_usage():
        noise = RobustnessOptions(options.chosen_kinds(kind or ["paper"]), p, sampling=Sampling(seed=seed))
    if degrees and not set(noise.kinds) & set(KINDS):
        raise UsageError(f"--degrees: expected one of {', '.join(KINDS)} as --kind")
    towers = _towers(metric or [], backbone or [None])
    where: dict[str, Any] = {"image_dir": image_dir, "split": split, "stand_in": stand_in, "partial": partial}
    sets = [] if captions is None else file_captions(captions, **columns, **where)
    with terminal.as_usage():
        targets = configurations(data or [], config or (), data_dir)
    for target in targets:
        sets += benchmark_captions(target.slug, target.config, data_dir=target.folder, **where)
    sets = sets if sample is None else [part.sample(sample, seed) for part in sets]
    load = ScorerLoader({**metric_options, "progress": False if quiet else None})
    results = _measure(sets, towers, load, noise, stand_in, styles, degrees)
    show = {"output": output, "markdown": markdown, "as_json": as_json, "quiet": quiet}
    return _show(results, show)


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


def _measure(
    sets: Sequence[CaptionSet],
    towers: Towers,
    load: Any,
    noise: RobustnessOptions,
    stand_in: bool,
    styles: bool,
    degrees: bool,
) -> dict[str, list[Any]]:
    """The runs of each set of captions: perturbed and, if asked for, in other styles and by degree."""
    from ..benchmarks.robustness import run_robustness
    from ..benchmarks.robustness.run import plain_backbone
    from ..benchmarks.robustness.styles_and_degrees import run_alarms, run_degrees
    from ..perturbations import KINDS

    scorers = {label: load(slug, spec) for label, (slug, spec) in towers.items()}
    plains = {label: plain_backbone(spec) for label, (_, spec) in towers.items()}
    how: dict[str, Any] = {"plain_embedders": None}
    if stand_in:
        how["plain_embedders"] = {label: load.embedder(spec) for label, spec in plains.items()}
    against = {}
    for label, scorer in scorers.items() if styles else ():
        against[label] = (scorer, load("mcs", plains[label]), f"mcs@{plains[label]}")
    found: dict[str, list[Any]] = {"runs": [], "styles": [], "degrees": []}
    for captions in sets:
        found["runs"].append(run_robustness(captions, scorers, noise, **how))
        if styles:
            found["styles"].append(run_alarms(captions, against, **how))
        if degrees:
            kinds = [kind for kind in noise.kinds if kind in KINDS]
            found["degrees"].append(
                run_degrees(captions, scorers, kinds=kinds, seed=noise.sampling.seed, **how)
            )
    return found


def _show(results: dict[str, list[Any]], show: dict[str, Any]) -> int | None:
    """Write and print the results; returns the exit code."""
    from ..show.robustness_tables import alarms_report, averages_dict, curves_report, robustness_reports

    runs, styles, degrees = results.values()
    document: dict[str, Any] = {
        name: [run.to_dict() for run in part] for name, part in results.items() if part or name == "runs"
    }
    document["averages"] = averages_dict(runs)
    reports = robustness_reports(runs)
    reports += [alarms_report(styles)] if styles else []
    reports += [curves_report(degrees)] if degrees else []
    terminal.show_results(document, reports, **show)
    missed = [
        f"{run.captions.data} ({run.captions.language}): {name} was not measured. {why}"
        for run in (*runs, *styles, *degrees)
        for name, why in run.skipped.items()
    ]
    if show["quiet"] or show["as_json"]:  # otherwise the tables say it
        for line in dict.fromkeys(missed):
            say(line)
    return terminal.SKIPPED if missed else None
