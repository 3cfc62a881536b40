"""What `capscore score` reads: a file, a folder of photos, or photos and captions that were typed in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError, Setting
from ..metrics import PRESETS
from ..registry import METRICS
from .terminal import UsageError, as_usage

if TYPE_CHECKING:
    from ..files.columns import ColumnNames
    from ..files.image_folder import ImageFolder
    from ..files.row_source import RowSource
    from .score_request import ScoreRequest


@dataclass(frozen=True)
class ScoreInput:
    """Rows to score.

    Attributes:
        source: The rows.
        names: Names of the columns to read.
        folder: Folder of the images.
        metrics: Names of the metrics; of a preset, those that the rows have inputs for.
        notes: Sentences for the person who waits.
    """

    source: RowSource
    names: ColumnNames
    folder: ImageFolder
    metrics: list[str]
    notes: list[str]


def open_input(request: ScoreRequest) -> ScoreInput:
    """Open what is asked for, and find its columns, images and metrics.

    Raises:
        UsageError, InputError: It does not exist, or lacks what the metrics read.
    """
    from ..files.columns import find_columns, unread_language
    from ..files.image_folder import ImageFolder

    source = _source(request)
    metrics, notes = _metrics(request, source)
    kinds = [METRICS.get(metric) for metric in metrics]
    if request.input is None:
        _check_typed(request, metrics)
    names = find_columns(
        source.columns,
        image=request.image_column,
        candidate=request.candidate_column,
        references=request.references_column,
        language=request.language_column,
        with_images=any(kind.needs_images for kind in kinds),
        with_references=any(kind.needs_references for kind in kinds),
        with_language=request.language is None,
    )
    unread = unread_language(source.columns, request.language)
    if unread:
        notes.append(
            f"--language {request.language} is taken for every row; the column {unread!r} is not read"
        )
    found = ImageFolder(request.images or source.folder, allow_urls=request.options.get("allow_urls", False))
    if request.input is None and names.image is not None:
        with as_usage():
            for photo in request.photo or ():
                found.find(photo)
    if request.reference and not names.references:
        notes.append(f"{', '.join(metrics)} compares with no references; --reference is not read")
    if request.photo and names.image is None:
        notes.append(f"{', '.join(metrics)} looks at no photos; --photo is not read")
    return ScoreInput(source, names, found, metrics, [*source.notes, *notes])


def _source(request: ScoreRequest) -> RowSource:
    from ..files.captioned_photos import open_captions
    from ..files.given_captions import pair_captions

    if request.input is None:
        return pair_captions(request.photo or [], request.caption or [], request.reference or [])
    _refuse_what_is_no_input(request.input)
    source = open_captions(request.input, split=request.split)
    if request.references is not None:
        from ..files.coco import RowsWithReferences, read_annotations

        annotations = read_annotations(request.references, option="references")
        source = RowsWithReferences(source, annotations, image=request.image_column)
    _refuse_annotations(source)
    return source


def _refuse_what_is_no_input(path: Path) -> None:
    from ..files.image_folder import IMAGE_SUFFIXES

    if re.match(r"https?:/", str(path), re.IGNORECASE):
        raise UsageError(
            f"{path} is a URL, and INPUT is a file or a folder; a photo there is scored with --photo URL "
            '--caption "a dog" ',
            Setting("allow_urls", True),
        )
    if path.suffix.lower() in IMAGE_SUFFIXES and not path.is_dir():
        raise UsageError(f'{path} is a photo; to score a caption of it: --photo {path} --caption "a dog"')
    if path.suffix.lower() == ".txt" and path.is_file():
        raise UsageError(
            f"{path} is a text file, which names no photos; put captions into NAME.txt beside each NAME.jpg "
            "and give the folder, or make a .csv or .jsonl file with the columns image and caption"
        )


def _refuse_annotations(source: RowSource) -> None:
    if {"images", "annotations"} <= set(source.columns):
        raise InputError(
            Setting("path", source.path),
            " holds references in COCO's annotation format, and no captions to score; give the captions as "
            'INPUT ([{"image_id": 42, "caption": "A dog."}, …]) and this file as ',
            Setting("references", source.path),
        )


def _metrics(request: ScoreRequest, source: RowSource) -> tuple[list[str], list[str]]:
    """The metrics, and notes about those of a preset that the rows lack something for."""
    from ..files.columns import find_image_column, find_reference_columns

    if request.preset is None:
        return request.metrics, []
    lacks = set()
    if find_image_column(source.columns, request.image_column) is None:
        lacks.add("photos")
    if not find_reference_columns(source.columns, request.references_column):
        lacks.add("references")
    reads = {
        metric: {
            *(("photos",) if METRICS.get(metric).needs_images else ()),
            *(("references",) if METRICS.get(metric).needs_references else ()),
        }
        for metric in PRESETS[request.preset]
    }
    left_out = {metric: reads[metric] & lacks for metric in reads if reads[metric] & lacks}
    chosen = [metric for metric in request.metrics if metric not in left_out]
    missing = " and no ".join(sorted({what for whats in left_out.values() for what in whats}))
    if not chosen:
        raise UsageError(
            Setting("preset", request.preset),
            f" is {', '.join(reads)}, and the input has no {missing}",
            *(_how_to_add(missing, request.input)),
        )
    if left_out:
        return chosen, [
            f"--preset {request.preset}: {', '.join(left_out)} left out, because the input has no {missing}"
        ]
    return chosen, []


def _how_to_add(missing: str, path: Path | None) -> Sequence[str | Setting]:
    if path is None:
        return ("; add ", Setting("photo" if missing == "photos" else "reference"))
    if missing == "references":
        return ("; a column references, or ", Setting("references"), " with COCO's annotations, holds them")
    return ()


def _check_typed(request: ScoreRequest, metrics: Sequence[str]) -> None:
    """Check that captions which were typed in come with what the metrics read."""
    for metric in metrics:
        kind = METRICS.get(metric)
        if kind.needs_images and not request.photo:
            raise UsageError(f"{metric} looks at photos: add --photo dog.jpg")
        if kind.needs_references and not request.reference:
            raise UsageError(
                f'{metric} compares with references: add --reference "a brown dog"; it is repeatable'
            )
