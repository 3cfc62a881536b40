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

import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..errors import Setting
from ..files.console import make_console
from ..files.write import write_text
from ..metrics.loading import ScorerLoader
from ..options import RowOptions
from ..registry import METRICS
from . import options, terminal
from .options import argument, option

if TYPE_CHECKING:
    from ..metrics.calibration import CaptionedPhoto

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
    metric_options: Mapping[str, Any] = {},
) -> None:
    """Calibrate metrics, and write and print the percentiles."""
    from ..metrics.calibration import calibrate, document
    from ..show.system_tables import calibration_counts, calibration_table

    chosen = [(slug, backbone) for slug, _, backbone in (name.partition("@") for name in metric or ["mcs"])]
    options.check_metric_options([slug for slug, _ in chosen], metric_options)
    terminal.check_result_files(force, output=output)
    if output is None and not as_json:
        raise terminal.UsageError(Setting("output"), ": expected a file for the percentiles (or --json)")
    columns = options.columns(image_column, candidate_column, references_column, language_column)
    with_references = any(METRICS.get(slug).needs_references for slug, _ in chosen)
    rows = _rows(input, split, images, columns, with_references, metric_options.get("allow_urls", False))
    load = ScorerLoader({**metric_options, "progress": False if quiet else None})
    sampling = {"shuffled": shuffled, "seed": seed}
    entries = []
    for slug, backbone in chosen:
        scorer = load(slug, backbone or None)
        sizes: list[int | None] = [*(n_references or ())] if scorer.needs_references else []
        entries += [calibrate(scorer, rows, n_references=size, **sampling) for size in sizes or [None]]
    today = datetime.now(timezone.utc).date().isoformat()
    found = document(entries, rows, name=set_name or input.stem, made=today, **sampling)
    if output is not None:
        # each list of numbers on one line
        text = json.dumps(found, ensure_ascii=False, indent=1)
        lines = re.sub(r"\[[-\d.,e\s]+\]", lambda numbers: " ".join(numbers[0].split()), text)
        write_text(output, f"{lines}\n")
    if as_json:
        terminal.print_json(found)
    elif not quiet:
        console = make_console()
        calibration_table(found).print(console)
        console.print(calibration_counts(found), markup=False)
        terminal.print_written(console, output)


def _rows(
    path: Path,
    split: str | None,
    images: Path | None,
    columns: dict[str, Any],
    with_references: bool,
    allow_urls: bool,
) -> list[CaptionedPhoto]:
    """All captions of the file, with photos by name; each checked to be text."""
    from ..files.columns import columns_of, find_reference_columns, read_inputs
    from ..files.image_folder import ImageFolder
    from ..files.read import open_rows
    from ..files.row_source import CHUNK_ROWS
    from ..images.load import content_key
    from ..metrics.calibration import CaptionedPhoto
    from ..text.languages import language_code

    row_options = RowOptions(**columns, split=split)
    source = open_rows(path, row_options)
    listed = with_references and bool(find_reference_columns(source.columns, columns["references_column"]))
    names = columns_of(source, row_options, with_references=listed)
    options.say_notes(source, names, None)
    folder = ImageFolder(images or source.folder, allow_urls=allow_urls)
    rows = []
    first: dict[str, Any] = {}  # an image that is stored in the file is kept once
    for chunk in source.chunks(CHUNK_ROWS):
        inputs = read_inputs(chunk, source, names, folder)
        if inputs.problems:
            row = min(inputs.problems)
            raise source.at(inputs.problems[row], chunk, row)
        languages = inputs.languages or [""] * len(chunk)
        references = inputs.references if listed else None
        for row, image in enumerate(inputs.images or ()):
            named = isinstance(image, (str, Path))
            photo = str(image) if named else content_key(image, allow_urls=allow_urls)
            language = language_code(languages[row]) if languages[row] else ""
            given = references[row] if references else None
            image = first.setdefault(photo, image)
            rows.append(CaptionedPhoto(photo, image, inputs.candidates[row], language, given))
    return rows
