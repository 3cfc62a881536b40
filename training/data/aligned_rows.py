"""Captions aligned with the regions that they mention → `AlignedRow`s, to train InfoMetIC on.

In: Flickr30k Entities, a captions file in COCO's format, or rows of a file. Out: one row per caption. An
error names the line or entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import photos_with_captions
from capscore.errors import InputError
from capscore.files.image_folder import ImageFolder
from capscore.text.languages import language_code
from training.data.flickr30k_entities import read_entities
from training.data.row_files import check_text, read_rows, row_names


class RegionText(NamedTuple):
    """A text that stands for a region.

    Attributes:
        text: What the region shows, such as a noun phrase.
        box: Its box (left, top, right, bottom) in shares of the image's width and height; None without a
            place.
    """

    text: str
    box: tuple[float, float, float, float] | None = None


@dataclass(frozen=True)
class AlignedRow:
    """A caption, the image that it describes, and the regions of the image that it mentions.

    Attributes:
        caption: The caption.
        language: Its language, a primary subtag.
        image: Anything that capscore takes as an image; None where texts stand in.
        stand_ins: Other captions of the image, whose mean embedding replaces the image's; () with an image.
        boxes: Boxes (left, top, right, bottom) in pixels; None where none are given.
        region_texts: Texts that stand for regions, instead of boxes.
        mentioned: Numbers of the boxes, or of the region texts, that the caption mentions; None if unknown.
        photo: Name shared by the rows of one photo where their images differ, so that a split keeps them
            together; "" for the image itself.
        names: Names by which a list may refer to the row or its image.
        place: Name of the row in errors.
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

    A row has `caption`, and `image` or `stand_in` (one text, or several); optionally `language`, `id`,
    `photo`; `boxes` in pixels, or `region_texts`, each a text or {"text": …, "box": shares or null}; and
    `mentioned`, the numbers of the regions that the caption mentions. In CSV, lists are JSON. Arguments and
    errors as in `training.data.row_files.read_rows`.
    """
    rows = read_rows(
        path,
        lists=("stand_in", "boxes", "region_texts", "mentioned"),
        texts=("photo",),
        images=images,
        language=language,
        split=split,
    )
    for row in rows:
        cells, place = row.cells, row.place
        stand_ins = _stand_ins(row.stand_in, place)
        boxes, texts = _boxes(cells["boxes"], place), _region_texts(cells["region_texts"], place)
        if boxes is not None and (texts or stand_ins):
            what = "region_texts" if texts else "a stand_in"
            raise InputError(f"{place} has boxes in pixels and {what}; expected one of them")
        yield AlignedRow(
            caption=row.caption,
            language=row.language,
            image=row.image,
            stand_ins=stand_ins,
            boxes=boxes,
            region_texts=texts,
            mentioned=_mentioned(cells["mentioned"], len(texts) if boxes is None else len(boxes), place),
            photo="" if cells["photo"] is None else str(cells["photo"]),
            names=row.names,
            place=place,
        )


def coco_rows(path: str | Path, images: str | Path, *, language: str = "en") -> Iterator[AlignedRow]:
    """The captions of a file in COCO's format (captions_train2014.json, …).

    Args:
        path: The file.
        images: Folder of the images.
        language: Language of the captions.

    Raises:
        InputError, ImageError: an image is missing; names it.
        AnnotationError: the file is not in COCO's format; names the entry.
    """
    folder, code = ImageFolder(Path(images)), language_code(language)
    for image, captions in photos_with_captions(AnnotationSource(Path(path).expanduser())):
        file = folder.find(image["file_name"])
        for caption in captions:
            yield AlignedRow(
                caption=caption.caption("caption"),
                language=code,
                image=file,
                names=row_names(image["file_name"], image["id"]),
                place=f"{path}, caption {caption['id']}",
            )


def entity_rows(folder: str | Path, images: str | Path, *, split: str | None = None) -> Iterator[AlignedRow]:
    """The captions of Flickr30k Entities; a caption mentions the boxes of its phrases.

    Args:
        folder: Folder of the data set, as `training.data.flickr30k_entities.read_entities` takes it.
        images: Folder of the images of Flickr30k.
        split: "train", "val" or "test"; None for all photos.

    Raises:
        InputError, ImageError, AnnotationError: a file or an image is missing or damaged.
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


def _stand_ins(cell: Any, place: str) -> tuple[str, ...]:
    if cell is None:
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
