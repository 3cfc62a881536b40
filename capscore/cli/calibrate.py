"""Measure the scores of right captions, and of captions of other photos.

INPUT holds right captions, one per row, with their photos; several captions of a photo and several
languages are fine. Each metric scores the captions with their photos, and with photos that they were not
written for. The percentiles of both go to --output, per language and over all; captions and photos do not.
[bold]capscore score --calibration FILE[/] then ranks scores among these right and shuffled captions.

A metric with references uses those of INPUT, or else the other captions of the photo, all or --n-references
of them. A calibration applies to scores with the same signature: backbone, settings and number of references.

[bold]Exit codes[/]: 0 calibrated; 1 failed; 2 wrong usage; 130 interrupted.

[bold]Example[/]: capscore calibrate captions.jsonl --images photos --metric mcs --set-name "my 500 photos"
--output mine.json
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from ..errors import Setting
from ..files.console import make_console
from . import options, terminal
from .options import argument, option

Metrics = Annotated[list[str] | None, options.metrics_option("METRIC or METRIC@BACKBONE; repeatable.")]
References = Annotated[
    list[int] | None, option("Other captions used as references; repeatable.", min=1, metavar="N")
]


@options.with_metric_options(options.of_captions)
def calibrate(
    input: Annotated[Path, argument("INPUT")],
    metric: Metrics = None,
    images: options.Images = None,
    output: Annotated[Path | None, option("File for the percentiles, as JSON.", "--output", "-o")] = None,
    set_name: Annotated[
        str | None, option("Name of the set, shown beside scores. Default: the file's.")
    ] = None,
    shuffled: Annotated[int, option("Captions of other photos for each. Default: 10.", min=1)] = 10,
    n_references: References = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    image_column: options.ImageColumn = None,
    candidate_column: options.CandidateColumn = None,
    references_column: options.ReferencesColumn = None,
    language_column: options.LanguageColumn = None,
    split: options.Split = None,
    metric_options: Mapping[str, object] = {},
) -> None:
    from ..scoring.calibrating import calibrate as measure

    metrics = metric or ["mcs"]
    options.check_metric_options(metrics, metric_options)
    terminal.check_result_files(force, output=output)
    if output is None and not as_json:
        raise terminal.UsageError(Setting("output"), ": expected a file for the percentiles (or --json)")
    found = measure(
        input,
        metrics,
        name=set_name,
        shuffled=shuffled,
        n_references=n_references or (),
        seed=seed,
        image_column=image_column,
        candidate_column=candidate_column,
        references_column=references_column,
        language_column=language_column,
        split=split,
        images=images,
        progress=False if quiet else None,
        **metric_options,
    )
    for note in found.notes:
        terminal.say(f"note: {note}")
    if output is not None:
        found.save(output)
    if as_json:
        terminal.print_json(found.to_dict())
    elif not quiet:
        console = make_console()
        found.report().print(console)
        terminal.print_written(console, output)
