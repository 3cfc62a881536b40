"""Captions, and what of their images they mention → `AlignedRow`s, to train InfoMetIC on.

In: Flickr30k Entities, a captions file in COCO's format, or rows of a file (JSONL, JSON, CSV, TSV, Parquet, a
saved data set). Out: a row a caption. What is wrong with one names its line or entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from capscore.benchmark.data.annotation_files import AnnotationSource
from capscore.benchmark.data.coco_format import photos_with_captions
from capscore.errors import InputError
from capscore.files.columns import FAMILIAR, ImageFolder, find_fields
from capscore.files.rows import open_rows
from capscore.text.languages import language_code
from training.data.caption_rows import (
    CHUNK,
    check_text,
    chunk_images,
    row_language,
    row_names,
    written_names,
)
from training.data.flickr30k_entities import read_entities


class RegionText(NamedTuple):
    """A text that stands for a region.

    Attributes:
        text: what the region shows, such as a noun phrase.
        box: where it is, (left, top, right, bottom) in shares of the image's width and height; None if it has
            no place.
    """

    text: str
    box: tuple[float, float, float, float] | None = None


@dataclass(frozen=True)
class AlignedRow:
    """A caption, the image that it describes, and what of the image it mentions.

    Attributes:
        caption: the caption.
        language: its language, a primary subtag.
        image: anything that capscore takes for an image; None where texts stand in.
        stand_ins: other captions of the image, whose mean embedding stands for the image's; () with an image.
        boxes: (left, top, right, bottom) in pixels; None where none are given.
        region_texts: texts that stand for regions, instead of boxes.
        mentioned: numbers of the boxes, or of the region texts, that the caption mentions; None if nobody
            says so.
        photo: what rows of one photo have in common, where their images are not the same: no photo is on two
            sides of a split. "" for the image itself.
        names: by which a list may name the row or its image.
        place: what an error calls the row.
    """

    caption: str
    language: str
    image: Any = None
    stand_ins: tuple[str, ...] = ()
    boxes: tuple[tuple[float, ...], ...] | None = None
    region_texts: tuple[RegionText, ...] = ()
    mentioned: tuple[int, ...] | None = None
    photo: str = ""
    names: tuple[str, ...] = ()
    place: str = ""


def file_rows(
    path: str | Path,
    *,
    images: str | Path | None = None,
    language: str | None = None,
    split: str | None = None,
) -> Iterator[AlignedRow]:
    """The captions of a file: JSONL, JSON, CSV, TSV, Parquet, or a saved data set.

    A row has `caption`, and `image` or `stand_in` (a text, or several); maybe `language`, `id`, `photo`;
    `boxes` in pixels, or `region_texts`, each a text or {"text": …, "box": shares or null}; and `mentioned`,
    the numbers of those that the caption mentions. In CSV, lists are JSON.

    Args:
        path: as `capscore.files.rows.open_rows` takes it.
        images: folder that relative image names start from; None for the folder of the file.
        language: of rows that state none.
        split: of a saved data set.

    Raises:
        InputError: a row is not what it should be; names the line.
        UsageError: no such file, folder or column.
    """
    source = open_rows(path, split=split)
    with_stand_ins = "stand_in" in source.columns
    pictured = any(name in source.columns for name in FAMILIAR["image"]) or not with_stand_ins
    columns = find_fields(source.columns, with_images=pictured)
    default = None if language is None else language_code(language)
    folder = ImageFolder(Path(images) if images is not None else source.path.parent)

    for chunk in source.chunks(CHUNK):

        def cells(name: str | None, chunk: Any = chunk) -> list[Any]:
            return chunk.values(name) if name in source.columns else [None] * len(chunk)

        found, problems = chunk_images(chunk, columns.image, folder)
        written = written_names(chunk, columns.image)
        captions, languages, ids = cells(columns.candidate), cells(columns.language), cells("id")
        listed = {name: cells(name) for name in ("stand_in", "boxes", "region_texts", "mentioned")}
        photos = cells("photo")
        for row in range(len(chunk)):
            place = source.place(chunk, row)
            if source.cells_are_text:
                own = {name: _from_json(cell[row], place, name) for name, cell in listed.items()}
            else:
                own = {name: cell[row] for name, cell in listed.items()}
            stand_ins = _stand_ins(own["stand_in"], place)
            if not stand_ins and row in problems:
                raise InputError(f"{place}, {problems[row].message_with_field()}")
            image = found[row]
            if isinstance(image, str) and not image:
                image = None
            if (image is None) == (not stand_ins):
                has = "neither an image nor" if image is None else "both an image and"
                raise InputError(f"{place} has {has} a stand_in; expected one of them")
            boxes, texts = _boxes(own["boxes"], place), _region_texts(own["region_texts"], place)
            if boxes is not None and (texts or stand_ins):
                what = "region_texts" if texts else "a stand_in"
                raise InputError(f"{place} has boxes in pixels and {what}; expected one of them")
            yield AlignedRow(
                caption=check_text(captions[row], place, columns.candidate),
                language=row_language(languages[row], default, place),
                image=image,
                stand_ins=stand_ins,
                boxes=boxes,
                region_texts=texts,
                mentioned=_mentioned(own["mentioned"], len(texts) if boxes is None else len(boxes), place),
                photo="" if photos[row] is None else str(photos[row]),
                names=row_names(written[row], ids[row]),
                place=place,
            )


def coco_rows(path: str | Path, images: str | Path, *, language: str = "en") -> Iterator[AlignedRow]:
    """The captions of a file in COCO's format (captions_train2014.json, …).

    Args:
        path: the file.
        images: the folder that holds the images.
        language: of the captions.

    Raises:
        InputError, ImageError: an image is not there; names it.
        AnnotationError: the file is not what COCO's are; names the entry.
    """
    folder, code = ImageFolder(Path(images)), language_code(language)
    for image, captions in photos_with_captions(AnnotationSource(Path(path).expanduser())):
        file = folder.find(image["file_name"])
        for caption in captions:
            yield AlignedRow(
                caption=caption["caption"],
                language=code,
                image=file,
                names=row_names(image["file_name"], image["id"]),
                place=f"{path}, caption {caption['id']}",
            )


def entity_rows(folder: str | Path, images: str | Path, *, split: str | None = None) -> Iterator[AlignedRow]:
    """The captions of Flickr30k Entities; what a caption mentions are the boxes of its phrases.

    Args:
        folder: as `training.data.flickr30k_entities.read_entities` takes it.
        images: the folder that holds the images of Flickr30k.
        split: "train", "val", "test", or None for all.

    Raises:
        InputError, ImageError, AnnotationError: as there; an image is not there.
    """
    found = ImageFolder(Path(images))
    for image in read_entities(folder, split):
        file = found.find(image.file_name)
        for caption in image.captions:
            yield AlignedRow(
                caption=caption.text,
                language="en",
                image=file,
                boxes=image.boxes,
                mentioned=image.mentioned(caption),
                names=row_names(image.file_name, image.id),
                place=f"{folder}, {image.id}.txt, line {caption.line}",
            )


def _from_json(cell: Any, place: str, name: str) -> Any:
    if cell is None or cell == "":
        return None
    if name == "stand_in" and not cell.lstrip().startswith("["):
        return cell
    try:
        return json.loads(cell)
    except (json.JSONDecodeError, RecursionError):
        raise InputError(f"{place}, {name}: {cell!r:.60}; expected a JSON list") from None


def _stand_ins(cell: Any, place: str) -> tuple[str, ...]:
    if cell is None or cell == "":
        return ()
    texts = cell if isinstance(cell, (list, tuple)) else [cell]
    return tuple(check_text(text, place, "stand_in") for text in texts)


def _boxes(cell: Any, place: str) -> tuple[tuple[float, ...], ...] | None:
    if cell is None:
        return None
    if not isinstance(cell, (list, tuple)) or not all(_is_box(box) for box in cell):
        raise InputError(
            f"{place}, boxes: {cell!r:.60}; expected a list of [left, top, right, bottom] in pixels"
        )
    return tuple(tuple(float(corner) for corner in box) for box in cell)


def _is_box(box: Any) -> bool:
    return (
        isinstance(box, (list, tuple))
        and len(box) == 4
        and all(isinstance(corner, (int, float)) and not isinstance(corner, bool) for corner in box)
    )


def _region_texts(cell: Any, place: str) -> tuple[RegionText, ...]:
    if cell is None:
        return ()
    if not isinstance(cell, (list, tuple)):
        raise InputError(f"{place}, region_texts: {cell!r:.60}; expected a list of texts")
    found = []
    for number, entry in enumerate(cell):
        where = f"region_texts[{number}]"
        text, box = entry, None
        if isinstance(entry, dict):
            if not set(entry) <= {"text", "box"}:
                raise InputError(f"{place}, {where} has {', '.join(entry)}; expected text and box")
            text, box = entry.get("text"), entry.get("box")
        text = check_text(text, place, where)
        if box is not None:
            inside = _is_box(box) and 0 <= box[0] < box[2] <= 1 and 0 <= box[1] < box[3] <= 1
            if not inside:
                raise InputError(
                    f"{place}, {where}: the box is {box!r:.60}; expected [left, top, right, bottom] in "
                    "shares of the image's width and height, from 0 to 1"
                )
            box = tuple(float(corner) for corner in box)
        found.append(RegionText(text, box))
    return tuple(found)


def _mentioned(cell: Any, n: int, place: str) -> tuple[int, ...] | None:
    if cell is None:
        return None
    good = isinstance(cell, (list, tuple)) and all(
        isinstance(number, int) and not isinstance(number, bool) and 0 <= number < n for number in cell
    )
    if not good:
        raise InputError(
            f"{place}, mentioned: {cell!r:.60}; expected numbers of its {n} boxes or region_texts, from 0"
        )
    return tuple(sorted(set(cell)))
