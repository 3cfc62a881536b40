r"""Measure how far the score of a true caption falls once the caption is perturbed.

[bold]Example[/]: capscore robustness -m mcs -m pr_mcs --data multi30k --config de --data-dir multi30k

Captions come from a benchmark, or from INPUT, a file with caption, photo and language. The tables are those
of Kim et al. 2023 (PR-MCS), 2 and 7 to 11, with the mean score of the unchanged captions and how often they
retrieve their photo. A metric may name its backbone: [bold]--metric pr_mcs@FOLDER[/].

[bold]--styles[/] counts right captions that lose half of their score in another style. [bold]--degrees[/]
perturbs 10 to 80 percent of the words.

[bold]Exit codes[/]: 0 measured; 1 failed; 2 wrong usage; 3 some could not be measured; 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from ..options import Sampling
from . import options, terminal
from .options import argument, noise_option, option
from .terminal import UsageError

Styles = Annotated[bool, option("Count false alarms on right captions, by style.", "--styles")]
Degrees = Annotated[bool, option("Show how scores fall by degree of noise.", "--degrees")]
Sample = Annotated[int | None, option("Maximum number of captions per language.", min=1)]
Metrics = Annotated[list[str] | None, options.metrics_option("METRIC or METRIC@BACKBONE; repeatable.")]
P = Annotated[float, noise_option("Probability of drawing a word. Default: 0.4.", "--p", min=0, max=1)]


@options.with_metric_options(
    lambda: {name: entry for name, entry in options.of_several().items() if not entry.own}
)
def robustness(
    input: Annotated[Path | None, argument("INPUT")] = None,
    metric: Metrics = None,
    data: options.Data = None,
    config: options.Configs = None,
    data_dir: options.DataDir = None,
    image_dir: options.ImageDir = None,
    split: options.TestSplit = None,
    sample: Sample = None,
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
    metric_options: Mapping[str, object] = {},
) -> int | None:
    from ..benchmarks.reading import configurations
    from ..benchmarks.robustness.results import RobustnessOptions
    from ..benchmarks.robustness.run import photo_metrics
    from ..benchmarks.robustness.run import robustness as measure
    from ..perturbations import KINDS

    terminal.check_result_files(force, output=output, markdown=markdown)
    columns: dict[str, Any] = {"image_column": image_column, "candidate_column": candidate_column}
    columns["language_column"] = language_column
    if (input is None) == (not data):
        raise UsageError("give either INPUT, a file of captions, or --data, for a benchmark")
    if input is None:
        terminal.check_alone("data", columns)
    elif config or data_dir:
        raise UsageError("--config and --data-dir belong to --data, not to INPUT")
    loading = options.loading(metric_options, backbone, quiet)
    with terminal.as_usage():
        noise = RobustnessOptions(
            options.chosen_kinds(kind or ["paper"]),
            p,
            sampling=Sampling(seed=seed),
            styles=styles,
            degrees=degrees,
            sample=sample,
            partial=partial,
        )
        names = options.on_backbones(metric or [], backbone)
        if not names:
            raise UsageError("there is nothing to measure: give --metric")
        photo_metrics(names, options.load_options(loading))
        configurations(data or (), config or (), data_dir)
    if degrees and not set(noise.kinds) & set(KINDS):
        raise UsageError(f"--degrees: expected one of {', '.join(KINDS)} as --kind")
    where: dict[str, Any] = {"config": config or (), "data_dir": data_dir, **columns}
    where |= {"split": split, "images": image_dir}
    found = measure(input or data or (), names, **where, **vars(noise), **loading)
    terminal.show_results(found, output, markdown, as_json=as_json, quiet=quiet)
    return terminal.code_of(found.not_measured(), told=not (as_json or quiet))
