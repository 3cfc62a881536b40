"""The command `capscore calibrate`: scores of right captions, and of captions of other photos."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..errors import Setting
from ..files.console import make_console
from ..files.progress import progress_bar
from ..files.whole_file import write_text
from .models import check_metrics, embedders, split_metrics
from .options import OF_SCORE, AsJson, Force, Quiet, Seed, Split, column_option, metric_option
from .request import argument, check_metric_options, flowing, metric_options, option
from .terminal import UsageError, check_result_file, print_json, print_written

if TYPE_CHECKING:
    from ..files.columns import ColumnNames
    from ..files.row_source import RowSource
    from ..metrics.base import Scorer
    from ..metrics.calibrate import CaptionedPhotos

_HELP = """Measure the scores of right captions, and of captions of other photos.

INPUT holds right captions, one per row, with their photos; several captions of a photo and several
languages are fine. Each metric scores the captions as they are, and beside photos that they were not written
for. The percentiles of both go to --output, per language and over all: numbers, no captions and no photos.
[bold]capscore score --calibration FILE[/] then says how many right and shuffled captions a score is better
than.

A metric with references takes those of INPUT, or else the other captions of the photo, all or --n-references
of them. A calibration applies to scores with the same signature: backbone, settings and number of references.

[bold]Exit codes[/]: 0 calibrated; 1 failed; 2 wrong usage; 130 interrupted.

[bold]Example[/]: capscore calibrate captions.jsonl --images photos --metric mcs --set-name "my 500 photos"
--output mine.json
"""


def calibrate_help() -> str:
    """The command's help."""
    return flowing(_HELP)


@dataclass(frozen=True)
class CalibrateRequest:
    """What `capscore calibrate` is asked for."""

    input: Annotated[Path, argument("INPUT")]
    metric: Annotated[list[str] | None, metric_option("METRIC or METRIC@BACKBONE; repeatable.")] = None
    images: Annotated[Path | None, option("Folder of the photos of a file.", metavar="FOLDER")] = None
    output: Annotated[Path | None, option("File for the percentiles, as JSON.", "--output", "-o")] = None
    set_name: Annotated[str | None, option("Name of the set, shown beside scores. Default: the file's.")] = (
        None
    )
    shuffled: Annotated[int, option("Captions of other photos for each. Default: 10.", min=1)] = 10
    n_references: Annotated[
        list[int] | None, option("Other captions used as references; repeatable.", min=1, metavar="N")
    ] = None
    least_photos: Annotated[int, option("Photos that a language needs. Default: 20.", min=2)] = 20
    seed: Seed = 0
    force: Force = False
    as_json: AsJson = False
    quiet: Quiet = False
    image_column: Annotated[str | None, column_option("image, image_path, file_name, img")] = None
    candidate_column: Annotated[str | None, column_option("caption, candidate, hyp, …")] = None
    references_column: Annotated[str | None, column_option("references, refs, reference_1, …")] = None
    language_column: Annotated[str | None, column_option("language, lang")] = None
    split: Split = None
    options: Mapping[str, Any] = metric_options(*OF_SCORE)

    def __post_init__(self) -> None:
        metrics = [metric for metric, _ in self.metrics]
        check_metrics(metrics)
        check_metric_options(metrics, self.options)
        check_result_file("output", self.output, (".json",), self.force)
        if self.output is None and not self.as_json:
            raise UsageError(Setting("output"), ": expected a file for the percentiles (or --json)")

    @property
    def metrics(self) -> list[tuple[str, str]]:
        """The metrics, each once, with the backbone that METRIC@BACKBONE names, or ""."""
        named = dict.fromkeys(split_metrics(self.metric) or ["mcs"])
        return [(metric, backbone) for metric, _, backbone in (one.partition("@") for one in named)]


def run_calibrate(request: CalibrateRequest) -> dict[str, Any]:
    """Calibrate the metrics, write the document, and return it.

    Raises:
        UsageError, InputError: An option is wrong, or captions, photos or weights are missing.
    """
    from datetime import datetime, timezone

    from ..metrics.calibrate import calibrate, document
    from ..metrics.loading import default_backbone, options_of
    from ..metrics.score_file import load_scorers
    from ..registry import METRICS

    rows = _rows(request, any(METRICS.get(metric).needs_references for metric, _ in request.metrics))
    embedder = embedders(request.options, progress=False)
    entries = []
    n_pairs = len(rows) * (1 + request.shuffled)
    for metric, named in request.metrics:
        backbone = named or request.options.get("backbone") or default_backbone(metric)
        scorer: Scorer
        (scorer,) = load_scorers(
            [metric], [backbone if "backbone" in options_of(metric) else None], embedder, request.options
        )
        sizes: list[int | None] = [*(request.n_references or [])] if scorer.needs_references else []
        for size in sizes or [None]:
            shown = False if request.quiet else None
            with progress_bar(scorer.metric, n_pairs, shown=shown) as advance:
                entries.append(
                    calibrate(
                        scorer,
                        rows,
                        shuffled=request.shuffled,
                        n_references=size,
                        least_photos=request.least_photos,
                        seed=request.seed,
                        advance=advance,
                    )
                )
    found = document(
        entries,
        rows.distinct().in_languages(None, request.least_photos),
        name=request.set_name or request.input.stem,
        made=datetime.now(timezone.utc).date().isoformat(),
        shuffled=request.shuffled,
        seed=request.seed,
    )
    if request.output is not None:
        write_text(request.output, as_text(found))
    return found


def as_text(found: dict[str, Any]) -> str:
    """The document as JSON with each list of numbers on one line."""
    import re

    text = json.dumps(found, ensure_ascii=False, indent=1)
    lists = re.compile(r"\[[-\d.,e\s]+\]")
    return lists.sub(lambda match: " ".join(match[0].split()), text) + "\n"


def _rows(request: CalibrateRequest, with_references: bool) -> CaptionedPhotos:
    """All captions of the file, with photos by name; each checked to be text."""
    from ..files.columns import read_inputs
    from ..files.image_folder import ImageFolder
    from ..files.read import open_rows
    from ..files.row_source import CHUNK_ROWS
    from ..images.load import content_key
    from ..metrics.calibrate import CaptionedPhotos
    from ..text.languages import language_code

    source = open_rows(request.input, split=request.split)
    names = _columns(request, source, with_references)
    folder = ImageFolder(
        source.path.parent if request.images is None else request.images,
        allow_urls=request.options.get("allow_urls", False),
    )
    photos: list[str] = []
    images: list[Any] = []
    first: dict[str, Any] = {}  # an image that is stored in the file is kept once
    captions: list[str] = []
    languages: list[str] = []
    references: list[Any] = []
    for chunk in source.chunks(CHUNK_ROWS):
        inputs = read_inputs(chunk, source, names, folder)
        if inputs.problems:
            row = min(inputs.problems)
            raise source.at(inputs.problems[row], chunk, row)
        for image in inputs.images or ():
            named = isinstance(image, (str, Path))
            photos.append(str(image) if named else content_key(image, allow_urls=folder.allow_urls))
            images.append(first.setdefault(photos[-1], image))
        captions += inputs.candidates
        languages += [language_code(one) if one else "" for one in inputs.languages or [""] * len(chunk)]
        references += inputs.references or ()
    return CaptionedPhotos(photos, images, captions, languages, references or None)


def _columns(request: CalibrateRequest, source: RowSource, with_references: bool) -> ColumnNames:
    """The columns to read; references are read where there are some and a metric needs them."""
    from ..files.columns import FAMILIAR, find_columns

    listed = any(one in FAMILIAR["references"] or one.startswith("reference") for one in source.columns)
    return find_columns(
        source.columns,
        image=request.image_column,
        candidate=request.candidate_column,
        references=request.references_column,
        language=request.language_column,
        with_images=True,
        with_references=with_references and (listed or request.references_column is not None),
    )


def show_calibrate(request: CalibrateRequest, document: dict[str, Any]) -> None:
    """Print the percentiles, or the whole document as JSON."""
    from ..show.system_tables import calibration_counts, calibration_table

    if request.as_json:
        print_json(document)
    elif not request.quiet:
        console = make_console()
        calibration_table(document).print(console)
        console.print(calibration_counts(document), markup=False)
        print_written(console, request.output)
