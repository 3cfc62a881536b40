"""Layouts of rows that people have: those of a JSON document, of an object of a line, of columns of a table.

A layout of a document, or of a line, is a function of a value and a list that takes notes. It gives rows with
`image` or `image_id`, `caption` or `references`, and `language` and `split` where the file has them, or rows
of scores; and None of a value that is in no such layout. A layout of columns is a `ColumnLayout`. The
register `LAYOUTS` has them all; `register_layout` adds one. A list of captions is a row each in all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Any

from ..errors import InputError
from ..registry import LAYOUTS, Item
from .columns import FAMILIAR, IDS, OTHER_NAMES, named_columns, plain_name
from .image_folder import image_key
from .photo_names import has_image_suffix
from .row_source import Row

_SPLITS = {"train", "val", "valid", "validation", "dev", "test", "restval"}
_NUMBERED_CAPTION = re.compile(r"\s*(?:raw[_ ])?caption[_ ]?[0-9]+\s*", re.IGNORECASE)
_Reader = Callable[[Any, list[str]], Iterable[Row] | None]
_ANSWERERS = ("gpt", "assistant", "model", "chatbot")


@dataclass
class ColumnLayout:
    """What a tool calls the columns of its tables, in every format.

    Attributes:
        columns: "image", "candidate" or "references" → name of its column, in small letters. The layout
            counts where all of them are there, and a column of a usual name is not.
        marks: Names of further columns by which the layout is known.
    """

    columns: Mapping[str, str]
    example: str = "{}"
    marks: Sequence[str] = ()
    lines: bool = True


# name of a layout → its example, whether it is one of lines, and its marks; or columns
_KNOWN = json.loads(Path(__file__).with_name("layouts.json").read_text(encoding="utf-8"))
_LAYOUTS: dict[str, object] = {
    name: ColumnLayout(about["columns"], json.dumps(about["example"]), about.get("marks", ()))
    for name, about in _KNOWN.items()
    if "columns" in about
}
known_layout = _LAYOUTS.__getitem__


def known_layouts() -> dict[str, str]:
    """{name: name} of the layouts that come with the library; see `capscore.registry.Registry`."""
    return {name: name for name in _KNOWN}


def _layout(name: str) -> Callable[[Item], Item]:
    """Decorator for the function of a layout of `layouts.json`."""

    def named(function: Any) -> Any:
        about = _KNOWN[name]
        function.example = json.dumps(about["example"], ensure_ascii=False)
        function.lines, function.marks = about.get("lines", False), about.get("marks", ())
        _LAYOUTS[name] = function
        return function

    return named


def read_document(document: object, notes: list[str]) -> tuple[str, list[Row] | None]:
    """The name of the layout of a JSON document, and its rows; "" and None if it is in no known layout.

    >>> read_document({"a.jpg": "a dog", "b.jpg": []}, [])[1]
    [{'image': 'a.jpg', 'caption': 'a dog'}, {'image': 'b.jpg', 'caption': None}]
    """
    if isinstance(document, dict):
        for name, layout in _layouts(lines=False).items():
            rows = layout(document, notes)
            if rows is not None:
                return name, [*rows]
    return "", None


def line_reader() -> Callable[[Row], Iterable[Row] | None]:
    """Function from an object of a list or of lines to its rows; None for an object that is a row itself."""
    layouts = [*_layouts(lines=True).values()]
    of_names: dict[tuple[str, ...], list[_Reader]] = {}  # names of an object → layouts that it may be in

    def read(line: Row) -> Iterable[Row] | None:
        names = tuple(line)
        possible = of_names.get(names)
        if possible is None:
            if len(of_names) > 1000:  # objects that hardly share names
                of_names.clear()
            possible = of_names[names] = []
            for layout in layouts:
                marks = getattr(layout, "marks", ())
                if not marks or not set(marks).isdisjoint(names):
                    possible.append(layout)
        for layout in possible:
            rows = layout(line, [])
            if rows is not None:
                return rows
        return None

    return read


def _layouts(lines: bool) -> dict[str, _Reader]:
    """The layouts of documents or of lines; those of other packages first, as they expect less."""
    outside, found = LAYOUTS.outside(), dict[str, _Reader]()
    for name, layout in sorted(LAYOUTS.all().items(), key=lambda entry: entry[0] not in outside):
        if callable(layout) and getattr(layout, "lines", False) == lines:
            found[name] = layout
    return found


def nearest(value: object) -> str:
    """Name and example of the layout that shares the largest part of its names with an unknown value."""
    names = _names(value)

    examples = {name: getattr(layout, "example", "{}") for name, layout in LAYOUTS.all().items()}

    def likeness(name: str) -> float:
        expected = _names(json.loads(examples[name]))
        return len(names & expected) / max(len(names | expected), 1)

    closest = max(examples, key=likeness)
    return f"{closest}: {examples[closest]}"


def has_columns(value: Iterable[str]) -> bool:
    """Whether an object is a row, or columns of rows, by a name that columns have."""
    return not _known_names().isdisjoint(map(plain_name, value))


def _known_names() -> frozenset[str]:
    """Names that columns have, also in the layouts that are registered now."""
    return _names_with(tuple(LAYOUTS.names()))


@lru_cache(4)
def _names_with(names_of_layouts: tuple[str, ...]) -> frozenset[str]:
    """Names that columns have, also in the layouts of these names, which are all that are registered."""
    names = {*("id", "score", "split", "img_id"), *chain(IDS, *FAMILIAR.values(), *OTHER_NAMES.values())}
    for layout in LAYOUTS.all().values():
        names.update(getattr(layout, "columns", {}).values())
    return frozenset(names - {"images"})  # which COCO's documents have


def _names(value: object) -> set[str]:
    """Names of a value's first objects."""
    if isinstance(value, list):
        return _names(value[0]) if value else set()
    if not isinstance(value, dict):
        return set()
    return set(value).union(*map(_names, islice(value.values(), 10)))


def _objects(document: Row, name: str) -> list[Row]:
    """The list of objects that a document has under a name; [] if it has none."""
    found = document.get(name)
    if isinstance(found, list) and all(isinstance(part, dict) for part in found):
        return found
    return []


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


@_layout("COCO annotations")
def coco(document: Row, notes: list[str]) -> list[Row] | None:
    """Annotations of COCO and its kin, without the captions that VizWiz's organisers leave out."""
    images, annotations = _objects(document, "images"), _objects(document, "annotations")
    if not annotations or ("images" in document and document["images"] is not images):
        return None
    names: dict[str | None, object] = {}
    for number, image in enumerate(images):
        key, name = image_key(image.get("id")), image.get("file_name")
        if names.setdefault(key, name) != name:
            raise InputError(f"entry {number} of `images` repeats the id {key}")
    rows: list[Row] = []
    captioned, without, n_left_out = set(), set(), 0
    for number, annotation in enumerate(annotations):
        image_id = annotation.get("image_id")
        key = image_key(image_id)
        if names and key not in names:
            raise InputError(
                f"entry {number} of `annotations` has image_id {image_id!r:.60}, which is not in `images`"
            )
        if annotation.get("is_rejected") or annotation.get("is_precanned"):
            n_left_out += 1
            without.add(key)
            continue
        captioned.add(key)
        row = {"image": names[key]} if any(names.values()) else {}
        rows.append({**row, "image_id": image_id, "caption": annotation.get("caption")})
    if n_left_out:
        notes.append(
            f"{n_left_out:,} rejected or precanned captions are left out, as by VizWiz's organisers; "
            f"{len(without - captioned):,} photos have no other caption"
        )
    return rows


@_layout("Karpathy's splits")
def karpathy(document: Row, notes: list[str]) -> list[Row] | None:
    images = _objects(document, "images")
    if not images or "sentences" not in images[0]:
        return None
    rows: list[Row] = []
    for number, image in enumerate(images):
        found = sentences_of_photo(image, notes)
        if not found:
            raise InputError(f"entry {number} of `images` has no list `sentences`, each with `raw`")
        rows += found
    return rows


@_layout("TextCaps")
def textcaps(document: Row, notes: list[str]) -> list[Row] | None:
    items = _objects(document, "data")
    if not items or "caption_str" not in items[0]:
        return None
    rows: list[Row] = []
    for item in items:
        image_id = item.get("image_id")
        image, split = f"{item.get('image_name') or image_id}.jpg", item.get("set_name")
        rows.append(
            {"image": image, "image_id": image_id, "caption": item.get("caption_str"), "split": split}
        )
    return rows


@_layout("samples of lmms-eval under `logs`")
def lmms_logs(document: Row, notes: list[str]) -> list[Row] | None:
    logs = _objects(document, "logs")
    if not logs or lmms_sample(logs[0], notes) is None:
        return None
    rows: list[Row] = []
    for number, line in enumerate(logs):
        found = lmms_sample(line, notes)
        if found is None:
            raise InputError(f"entry {number} of `logs` has no `filtered_resps`")
        rows += found
    return rows


@_layout("captions by photo")
def captions_by_photo(document: Row, notes: list[str]) -> list[Row] | None:
    """A text, or a list of texts, under the name of each photo."""
    if not document or has_columns(document):
        return None
    rows: list[Row] = []
    for image, captions in document.items():
        if not all(isinstance(text, str) for text in _listed(captions)):
            return None
        rows.append({"image": image, "caption": captions or None})
    lengths = {len(value) for value in document.values() if isinstance(value, list)}
    if len(document) > 1 and len(lengths) == 1 and lengths != {1} and not any(map(_names_a_photo, document)):
        if all(isinstance(value, list) for value in document.values()):
            raise InputError(
                f"the lists {', '.join(map(repr, document))!s:.80} are of one length: are they columns of a "
                "table, or captions of photos? Columns need a name such as caption or references; photos "
                "need their suffix, as dog.jpg, or their number"
            )
    return rows


def _names_a_photo(name: str) -> bool:
    """Whether a name is that of a file, or has a number in it."""
    return PurePath(name).suffix != "" or any(character.isdecimal() for character in name)


@_layout("scores by photo")
def scores_by_photo(document: Row, notes: list[str]) -> list[Row] | None:
    """A number, or numbers by metric, under the name of each photo."""
    if not document or has_columns(document):
        return None
    rows: list[Row] = []
    for image, found in document.items():
        scores = found if isinstance(found, dict) and found else {"score": found}
        if not all(isinstance(number, int | float) for number in scores.values()):
            return None
        rows.append({"id": image, "image": image, **scores})
    return rows


@_layout("results of coco-caption")
def coco_caption(document: Row, notes: list[str]) -> list[Row] | None:
    """What `pycocoevalcap` takes as `gts` and `res`: under each photo's id, a list of its captions."""
    rows: list[Row] = []
    for image_id in document:
        entries = _objects(document, image_id)
        if not entries or not all("caption" in entry for entry in entries) or image_id.lower() in _SPLITS:
            return None
        if len(document) == 1 and plain_name(image_id) in ("annotations", "data", *OTHER_NAMES["candidate"]):
            return None
        rows += ({"image_id": image_id, **entry} for entry in entries)
    return rows or None


@_layout("predictions of MSR-VTT")
def msrvtt_predictions(document: Row, notes: list[str]) -> list[Row] | None:
    """What is saved beside scores of video captions: results of coco-caption, or captions, by photo."""
    found = document.get("predictions")
    if not isinstance(found, dict):
        return None
    return coco_caption(found, notes) or captions_by_photo(found, notes)


@_layout("MSR-VTT")
def msrvtt(document: Row, notes: list[str]) -> list[Row] | None:
    """The annotations of MSR-VTT, whose videos name their split."""
    videos, sentences = _objects(document, "videos"), _objects(document, "sentences")
    if not sentences or "video_id" not in sentences[0]:
        return None
    splits = {video.get("video_id"): video.get("split") for video in videos}
    rows: list[Row] = []
    for sentence in sentences:
        video = sentence.get("video_id")
        row = {"image_id": video, "caption": sentence.get("caption")}
        rows.append({**row, "split": splits.get(video)} if videos else row)
    return rows


@_layout("rows by split")
def rows_by_split(document: Row, notes: list[str]) -> list[Row] | None:
    """Lists of rows under the names of splits, as R2Gen's annotations are."""
    if not document or not _SPLITS.issuperset(map(str.lower, document)):
        return None
    rows: list[Row] = []
    for split, listed in document.items():
        if not isinstance(listed, list):
            return None
        found = _rows_of_objects(listed)
        if found is None:
            return None
        rows += ({**row, "split": split} for row in found)
    return rows


@_layout("rows under one name")
def rows_under_one_name(document: Row, notes: list[str]) -> list[Row] | None:
    """The one list of rows in a document about them."""
    lists = [name for name in document if _objects(document, name)]
    if len(lists) != 1 or any(isinstance(value, dict) and has_columns(value) for value in document.values()):
        return None
    return _rows_of_objects(document[lists[0]])


@_layout("rows by name")
def rows_by_name(document: Row, notes: list[str]) -> list[Row] | None:
    """An object under the name of each photo (kohya's meta_cap.json), or under a number (SugarCrepe, pandas).

    The name is that of the photo, where the object names none.
    """
    if not document or has_columns(document):
        return None
    texts = (*FAMILIAR["candidate"], *OTHER_NAMES["candidate"], *FAMILIAR["references"])
    rows: list[Row] = []
    for name, found in document.items():
        if not isinstance(found, dict) or not named_columns(texts, [*found]):
            return None
        names_photo = named_columns((*FAMILIAR["image"], *OTHER_NAMES["image"], *IDS), [*found])
        rows.append({"id": name, **found} if names_photo else {"image": name, **found})
    return rows


@_layout("pandas, by columns")
def pandas_columns(document: Row, notes: list[str]) -> list[Row] | None:
    """`DataFrame.to_json()`: columns that have their cells by the number of the row."""
    cells = [*document.values()]
    if not cells or not has_columns(document) or not all(isinstance(value, dict) for value in cells):
        return None
    if any(value.keys() != cells[0].keys() for value in cells):
        return None
    return [{name: document[name][row] for name in document} for row in cells[0]]


@_layout("pandas, split")
def pandas_split(document: Row, notes: list[str]) -> list[Row] | None:
    """`DataFrame.to_json(orient="split")`: names of columns, and a list of cells per row."""
    names, data = document.get("columns"), document.get("data")
    if not isinstance(names, list) or not isinstance(data, list):
        return None
    rows: list[Row] = []
    for number, cells in enumerate(data):
        if not isinstance(cells, list) or len(cells) != len(names):
            raise InputError(f"entry {number} of `data` has not the {len(names)} cells of `columns`")
        rows.append(dict(zip(map(str, names), cells, strict=True)))
    return rows


@_layout("columns")
def columns_of_lists(document: Row, notes: list[str]) -> list[Row] | None:
    """What `evaluate` and `datasets` take: columns as lists of one length; what is one for all is repeated.

    An object that names one photo is a row of it, whose lists are several captions, or references.
    """
    lists = {name: value for name, value in document.items() if isinstance(value, list)}
    photo = named_columns((*FAMILIAR["image"], *OTHER_NAMES["image"], *IDS), [*document])
    if not has_columns(document) or not lists or any(not isinstance(document[name], list) for name in photo):
        return None
    texts = named_columns(
        (*FAMILIAR["candidate"], *OTHER_NAMES["candidate"], *FAMILIAR["references"]), [*document]
    )
    if not texts or not all(isinstance(document[name], list) for name in texts):
        return None
    lengths = {name: len(value) for name, value in lists.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise InputError(f"the lists in it are of several lengths ({shown:.200}), so they are no columns")
    n_rows = max(lengths.values())
    cells = {name: lists.get(name, [value] * n_rows) for name, value in document.items()}
    return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]


def _rows_of_objects(objects: list[object]) -> list[Row] | None:
    """Rows of the objects of a list, in any layout of lines; None if one of them is no row."""
    rows: list[Row] = []
    read, known = line_reader(), _known_names()
    for value in objects:
        if not isinstance(value, dict):
            return None
        found = read(value)
        if found is None and known.isdisjoint(map(plain_name, value)):
            return None
        rows += [value] if found is None else found
    return rows


@_layout("Crossmodal-3600")
def crossmodal(line: Row, notes: list[str]) -> list[Row] | None:
    """Captions of a photo in many languages."""
    if "image/key" not in line:
        return None
    rows: list[Row] = []
    image = f"{line['image/key']}.jpg"
    for language, found in line.items():
        if isinstance(found, dict):
            for caption in _listed(found.get("caption")):
                rows.append({"image": image, "caption": caption, "language": language})
    return rows


@_layout("samples of lmms-eval")
def lmms_sample(line: Row, notes: list[str]) -> list[Row] | None:
    """What was answered, and photo and references of the document or, without it, of what metrics got."""
    if "doc_id" not in line or "filtered_resps" not in line:
        return None
    parts = [part for part in line.values() if isinstance(part, dict)]
    caption = line["filtered_resps"]
    while isinstance(caption, list) and caption:
        caption = caption[0]
    row: Row = {"image": _sample_photo(parts, line["doc_id"]), "caption": caption}
    answers = [part["answer"] for part in parts if isinstance(part.get("answer"), list)]
    if answers:
        row["answer"] = answers[0]
    return [row]


def _sample_photo(parts: list[Row], otherwise: object) -> object:
    for name in ("image", "image_path", "file_name", "filename", "image_id", "img_id", "question_id"):
        for part in parts:
            if isinstance(part.get(name), str | int):
                return part[name]
    return otherwise


@_layout("conversations")
def conversations(line: Row, notes: list[str]) -> list[Row] | None:
    """Rows of LLaVA, of LLaMA-Factory and of chats: the one answer is the caption.

    A column of captions, such as `response` of ms-swift, comes before what was said.
    """
    name = next((name for name in ("conversations", "messages") if _objects(line, name)), None)
    if name is None or named_columns((*FAMILIAR["candidate"], *OTHER_NAMES["candidate"]), [*line]):
        return None
    answers = []
    for turn in line[name]:
        if turn.get("from", turn.get("role")) in _ANSWERERS:
            answers.append(_text_of(turn.get("value", turn.get("content"))))
    if len(answers) != 1:
        raise InputError(f"{name!r} has {len(answers)} answers; expected one, which is the caption")
    more = {key: value for key, value in line.items() if key != name}
    return [{**_with_one_photo(more), "caption": answers[0]}]


def _text_of(content: object) -> object:
    """The text of a message, or of the parts that it is a list of."""
    if not isinstance(content, list):
        return content
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return " ".join(text for text in texts if isinstance(text, str)) or None


def _with_one_photo(row: Row) -> Row:
    """A row whose list of photos, which a tool writes for one of them too, is that photo."""
    name = next((name for name in ("images", "image", "image_path") if isinstance(row.get(name), list)), None)
    if name is None:
        return row
    photos = row[name]
    if len(photos) > 1 and name == "images":
        raise InputError(f"{name!r} has {len(photos)} photos; a caption is of one")
    more = {key: value for key, value in row.items() if key != name}
    return {**more, "image": photos[0] if photos else None}


@_layout("results of ms-swift")
def ms_swift(line: Row, notes: list[str]) -> list[Row] | None:
    """What `swift infer` writes: the answer, what it is compared with, and a list of the photo."""
    if not isinstance(line.get("response"), str) or not {"labels", "images", "messages"} & {*line}:
        return None
    row = _with_one_photo({key: value for key, value in line.items() if key not in ("response", "labels")})
    row["caption"] = line["response"]
    if isinstance(line.get("labels"), str):
        row["references"] = [line["labels"]]
    return [row]


@_layout("output of a batch")
def batch_output(line: Row, notes: list[str]) -> list[Row] | None:
    """Answers of OpenAI's and Anthropic's batches; one that failed is a row without a caption."""
    if "custom_id" not in line or not {"response", "result"} & {*line}:
        return None
    found = line.get("response") or line.get("result") or {}
    body = found.get("body") or found.get("message") or {}
    if isinstance(body.get("choices"), list) and body["choices"]:
        content = body["choices"][0].get("message", {}).get("content")
    elif isinstance(body.get("output"), list):  # of OpenAI's Responses
        parts = [part for item in body["output"] for part in item.get("content") or ()]
        content = [part for part in parts if part.get("type") == "output_text"]
    else:
        content = body.get("content")
    return [{"image_id": line["custom_id"], "caption": _text_of(content)}]


@_layout("sentences of a photo")
def sentences_of_photo(line: Row, notes: list[str]) -> list[Row] | None:
    """Rows of HuggingFaceM4/COCO, or of Karpathy's photos: one sentence, or a list of them."""
    sentences = _listed(line.get("sentences"))
    if not all(isinstance(sentence, dict) and "raw" in sentence for sentence in sentences):
        return None
    about = {
        "image": line.get("image", line.get("filename")),
        "image_id": line.get("cocoid", line.get("imgid")),
        "split": line.get("split"),
    }
    if isinstance(about["image"], dict) and not about["image"].get("path"):
        about["image"] = {**about["image"], "path": line.get("filename")}
    return [{**about, "caption": sentence["raw"]} for sentence in sentences]


@lru_cache(1024)
def _numbered_names(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if _NUMBERED_CAPTION.fullmatch(name)]


@_layout("numbered captions")
def numbered_captions(line: Row, notes: list[str]) -> list[Row] | None:
    """The captions of Clotho and its kin, a column each; empty ones are none."""
    names = _numbered_names(tuple(line))
    if not names or named_columns(FAMILIAR["candidate"], [*line]):
        return None
    more = {key: value for key, value in line.items() if key not in names}
    captions = [line[name] for name in names if line[name]]
    return [{**more, "caption": caption} for caption in captions or [None]]


@_layout("reports")
def reports(line: Row, notes: list[str]) -> list[Row] | None:
    """Reports of R2Gen, which are about several photos of a patient; the first stands for them."""
    if "report" not in line or "id" not in line or named_columns(FAMILIAR["candidate"], [*line]):
        return None
    more = {key: value for key, value in line.items() if key not in ("id", "report")}
    return [{"image_id": line["id"], **_with_one_photo(more), "caption": line["report"]}]


@_layout("a photo per object")
def photo_per_object(line: Row, notes: list[str]) -> list[Row] | None:
    """A caption, or a list of captions, under the id or the file's name of its photo."""
    if len(line) != 1:
        return None
    ((name, captions),) = line.items()
    is_photo = name.isdecimal() or has_image_suffix(name) or name.startswith("COCO_")
    if not is_photo or not all(isinstance(text, str) for text in _listed(captions)):
        return None
    return [{"image_id": name, "caption": captions}]


@_layout("scores per caption")
def scores_per_caption(line: Row, notes: list[str]) -> list[Row] | None:
    """Several captions of a photo, with a list of numbers that has one for each."""
    name = "caption" if isinstance(line.get("caption"), list) else "captions"
    captions = line.get(name)
    if not isinstance(captions, list) or len(captions) < 2:
        return None
    per_caption = [name]
    for key, value in line.items():
        if isinstance(value, list) and len(value) == len(captions):
            if all(isinstance(item, int | float) for item in value):
                per_caption.append(key)
    if len(per_caption) == 1:
        return None
    rows: list[Row] = []
    for cells in zip(*(line[key] for key in per_caption), strict=True):
        rows.append({**line, **dict(zip(per_caption, cells, strict=True))})
    return rows
