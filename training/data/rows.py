"""A file of captions, or a benchmark → `Row`s to train on, checked; an error names the row."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capscore.benchmarks.data.load import config_name, load_benchmark
from capscore.errors import InputError, Setting
from capscore.files.columns import FAMILIAR, ChunkInputs, columns_of, named_columns, read_inputs
from capscore.files.image_folder import ImageFolder
from capscore.files.matching import PHOTO_COLUMNS
from capscore.files.read import open_rows
from capscore.files.row_source import CHUNK_ROWS
from capscore.images.load import check_images
from capscore.perturbations import Object, find_objects
from capscore.text.languages import language_code

# Cells that a recipe reads besides caption, language, image and stand-in.
CAPTIONS: tuple[str, ...] = ("objects",)
RATED: tuple[str, ...] = ("rating",)
ALIGNED: tuple[str, ...] = ("boxes", "region_texts", "mentioned")


@dataclass(frozen=True)
class Row:
    """A caption, and what it describes: an image, or texts that stand in for it.

    Attributes:
        stand_in: Other captions of the same image, whose mean embedding replaces the image's.
        objects: Critical objects, as `capscore.perturbations.perturb` takes them; None if not annotated.
        rating: Mean of the ratings that people gave; NaN if nobody rated the caption.
        boxes, region_texts: Boxes (left, top, right, bottom) in pixels, or texts that stand for regions.
        mentioned: Numbers of the boxes, or of the region texts, that the caption mentions; None if unknown.
        names: Names by which a list may refer to the row or its image: its id, the image's name, and that
            name without folder and without suffix.
        photo: Names of the photo, such as path and id, whether there is an image or a text stands in for it.
        where: Name of the row in errors.
    """

    caption: str
    language: str
    image: Any = None
    stand_in: tuple[str, ...] = ()
    objects: tuple[Object, ...] | None = None
    rating: float = math.nan
    boxes: tuple[tuple[float, ...], ...] | None = None
    region_texts: tuple[str, ...] = ()
    mentioned: tuple[int, ...] | None = None
    names: tuple[str, ...] = ()
    photo: tuple[str, ...] = ()
    where: str = ""


def file_rows(
    path: str | Path,
    cells: Collection[str] = CAPTIONS,
    *,
    images: str | Path | None = None,
    language: str | None = None,
) -> Iterator[Row]:
    """The captions of a file: JSONL, JSON, CSV, TSV, Parquet, or a saved data set (docs/training.md).

    Of the columns that are not in every file, `cells` names those to read; `language` is for captions that
    state none. In CSV, lists are JSON. Photos stored in the file are never all in memory. Image names start
    from the folder `images`, or from that of the file. An InputError names the line of a malformed row, or,
    after the last row, the line of the first missing image and the number of them.
    """
    source = open_rows(path)
    with_images = bool(named_columns(FAMILIAR["image"], source.columns)) or "stand_in" not in source.columns
    columns = columns_of(source, with_images=with_images)
    if "rating" in cells and "rating" not in source.columns:
        raise InputError(f"{path} has no column 'rating'; it has {', '.join(source.columns)}")
    default = None if language is None else language_code(language)
    folder = ImageFolder(Path(source.folder if images is None else images))
    read, missing = ("stand_in", *cells), list[InputError]()
    for chunk in source.chunks(CHUNK_ROWS):
        inputs = read_inputs(chunk, source, columns, folder)
        values: dict[str | None, Sequence[Any]] = {}
        for name in (*read, "id", *PHOTO_COLUMNS, columns.image):
            present = name in source.columns
            values[name] = chunk.values(str(name)) if present else [None] * len(chunk)
        for index in range(len(chunk)):
            try:
                parsed = {name: _parsed(values[name][index], name, source.cells_are_text) for name in read}
                row = _row_of(inputs, index, parsed, default)
            except InputError as error:
                missing.append(source.at(error, chunk, index))
                if error.field != "image":
                    raise missing[-1] from None
                continue
            given = {name: _name_of(values[name][index]) for name in (columns.image, *PHOTO_COLUMNS)}
            names = _names([*given.values()], values["id"][index])
            if isinstance(row.image, Path):
                given[columns.image] = str(row.image)
            photo = tuple(filter(None, given.values()))
            yield replace(row, names=names, photo=photo, where=source.place(chunk, index))
    if missing:
        more = f"; {len(missing):,} rows have such a photo, this is the first" if len(missing) > 1 else ""
        raise InputError(*missing[0].parts, more)


def _row_of(inputs: ChunkInputs, index: int, parsed: Mapping[str, Any], default: str | None) -> Row:
    """A row of a file, checked, from its cells; `default` is the language of rows that state none."""
    problem, image, tag = inputs.problems.get(index), None, None
    if problem is not None and (problem.field != "image" or not parsed["stand_in"]):
        raise problem
    if problem is None and inputs.images and inputs.images[index] != "":
        image = inputs.images[index]
    if inputs.languages:
        tag = inputs.languages[index]
    known = {name: value for name, value in parsed.items() if value is not None}
    caption = checked_text(inputs.candidates[index], "caption")
    row = Row(caption, _language(tag, default), image, **known)
    _check_parts(row)
    return row


def benchmark_rows(
    slug: str,
    config: str | None = None,
    *,
    split: str | None = None,
    data_dir: str | Path | None = None,
    image_dir: str | Path | None = None,
) -> Iterator[Row]:
    """The correct captions of a benchmark: its references, or its captions where it has no references.

    Critical objects are included where the benchmark has them (M-FineCap3k), and so are boxes: a caption of
    Flickr30k Entities (Plummer et al. 2017) mentions those of its phrases. Arguments and errors are those of
    `capscore.load_benchmark`; all photos must be available, and of several splits one must be chosen.
    """
    loaded = load_benchmark(slug, config, split=split, data_dir=data_dir, image_dir=image_dir, images=True)
    name = f"{slug} ({config_name(slug, config)})"
    if hasattr(loaded, "keys"):
        splits = list(loaded)
        if len(splits) != 1:
            raise InputError(f"{name} has the splits {', '.join(splits)}: choose one", field="split")
        loaded = loaded[splits[0]]
    columns = loaded.column_names
    if "image" not in columns or not {"references", "caption"} & set(columns):
        raise InputError(f"{name} has no captions with one image each: its columns are {', '.join(columns)}")
    images = check_images(loaded["image"])
    texts = loaded.select_columns([column for column in columns if column != "image"])
    for index, row in enumerate(texts):
        photo, where = _name_of(row["image_id"]), f"{name}, row {index}, counted from 0"
        plain = Row("", "", images[index], names=_names([photo], row.get("id")), photo=(photo,), where=where)
        captions = row.get("references")
        if captions is None:
            captions = [row["caption"]]
            if row.get("critical_objects") is not None:
                plain = replace(plain, objects=tuple(row["critical_objects"]))
        for number, caption in enumerate(captions):
            if number in (row.get("unrelated") or ()):
                continue
            described = replace(plain, caption=caption, language=_language(row.get("language"), None))
            if "phrases" in columns:
                boxes = _boxes_of_chains(row)
                named = {phrase["chain"] for phrase in row["phrases"] if phrase["reference"] == number}
                shown = [box for box, chains in enumerate(boxes.values()) if named & chains]
                described = replace(described, boxes=tuple(boxes), mentioned=tuple(shown))
            yield described


def _boxes_of_chains(row: Mapping[str, Any]) -> dict[tuple[float, ...], set[str]]:
    """Boxes of Flickr30k Entities, in pixels from 0, cut at the photo's edge → the chains that each shows."""
    boxes: dict[tuple[float, ...], set[str]] = {}
    for box in row["boxes"]:
        # xmin 1 and xmax 10 in the file are the edges 0 and 10
        left, top = (max(box[name] - 1.0, 0.0) for name in ("xmin", "ymin"))
        right, bottom = min(box["xmax"], float(row["width"])), min(box["ymax"], float(row["height"]))
        boxes.setdefault((left, top, right, bottom), set()).add(box["chain"])
    return boxes


def checked_text(text: object, field: str) -> str:
    """The text, if it is a string that is not blank; else raises InputError."""
    if not isinstance(text, str):
        raise InputError(f"{text!r:.60} is a {type(text).__name__}; expected a string", field=field)
    if not text.strip():
        raise InputError("it is blank", field=field)
    return text


def _language(tag: str | None, default: str | None) -> str:
    tag = default if tag is None else tag
    if tag is None:
        missing = "it states no language, which determines what a word is: give a column 'language', or "
        raise InputError(missing, Setting("language"))
    try:
        return language_code(tag)
    except InputError as error:
        raise InputError(error.message, field="language") from None


def _name_of(cell: object) -> str:
    """The name in a cell of images or ids; "" where there is none.

    >>> _name_of({"bytes": b"", "path": "a.jpg"}), _name_of(7.0), _name_of("data:image/png;base64,")
    ('a.jpg', '7', '')
    """
    if isinstance(cell, dict):
        cell = cell.get("path")
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)  # a column of Arrow with a gap in it
    if not isinstance(cell, str | int) or isinstance(cell, bool) or str(cell)[:5].lower() == "data:":
        return ""
    return str(cell).strip()


def _names(photo: Sequence[str], row_id: object) -> tuple[str, ...]:
    """Names by which a list may refer to a row or its photo, from the photo's own names.

    >>> _names(["photos/12.jpg"], 7)
    ('7', 'photos/12.jpg', '12.jpg', '12')
    """
    names = [_name_of(row_id)]
    for name in photo:
        base = os.path.basename(name)
        names += [name, base, os.path.splitext(base)[0]]
    return tuple(dict.fromkeys(filter(None, names)))


def _check_parts(row: Row) -> None:
    """Raise if the parts of a row do not go together."""
    image, boxes = row.image is not None, row.boxes is not None
    problems = {
        "neither an image nor a stand_in": not image and not row.stand_in,
        "both an image and a stand_in": image and row.stand_in,
        "boxes in pixels and region_texts": boxes and row.region_texts,
        "boxes in pixels and a stand_in": boxes and row.stand_in,
    }
    for problem, is_there in problems.items():
        if is_there:
            raise InputError(f"the row has {problem}; expected one of them")
    find_objects([row.caption], [row.objects or ()])  # raises for places that are not in the caption
    n = len(row.boxes or row.region_texts)
    if row.mentioned and row.mentioned[-1] >= n:
        problem = f"{list(row.mentioned)}; expected numbers of its {n} boxes or region_texts, from 0"
        raise InputError(problem, field="mentioned")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


# cell → what is expected, which entries fit, and what becomes of an entry
_CELLS: dict[str, tuple[str, Callable[[Any], bool], Callable[[Any], Any]]] = {
    "stand_in": ("a text that is not blank, or a list of them", _is_text, str),
    "rating": ("a finite number, or a list with one per person", _is_number, float),
    "objects": (
        "a list of texts, or of (start, end) places",
        lambda value: isinstance(value, (str, list, tuple)),
        lambda value: value if isinstance(value, str) else tuple(value),
    ),
    "boxes": (
        "a list of [left, top, right, bottom] in pixels",
        lambda value: isinstance(value, (list, tuple)) and len(value) == 4 and all(map(_is_number, value)),
        lambda value: tuple(map(float, value)),
    ),
    "region_texts": ("a list of texts that are not blank", _is_text, str),
    "mentioned": (
        "a list of numbers of boxes or region_texts, from 0",
        lambda value: _is_number(value) and isinstance(value, int) and value >= 0,
        int,
    ),
}


def _parsed(cell: Any, name: str, is_text: bool) -> Any:
    """A cell → an attribute of `Row`, None for an empty one; raises InputError."""
    if (cell is None or (isinstance(cell, str) and not cell.strip())) and name != "rating":
        return None
    (expected, fits, convert), content = _CELLS[name], cell
    if is_text and (name != "stand_in" or cell.lstrip().startswith("[")):
        try:
            content = json.loads(cell)
        except (ValueError, RecursionError, TypeError):
            raise InputError(f"{cell!r:.60}; expected {expected}, as JSON", field=name) from None
    if name in ("stand_in", "rating") and not isinstance(content, (list, tuple)):
        content = [content]
    right = isinstance(content, (list, tuple)) and all(map(fits, content))
    if not right or (name == "rating" and not content):
        raise InputError(f"{cell!r:.60}; expected {expected}", field=name)
    values = tuple(map(convert, content))
    if name == "rating":
        return math.fsum(values) / len(values)
    if name == "mentioned":
        return tuple(sorted(set(values)))
    return values
