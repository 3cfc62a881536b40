"""Layouts of JSON that people have: rows of one caption each, from a document, or from an object of a line.

A layout is a function of a value and a list that takes notes. It gives rows with `image` and `caption`, and
`image_id`, `language` and `split` where the file has them, or rows of scores; and None of a value that is in
no such layout. `register_layout` makes it known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Any

from ..errors import InputError
from ..registry import LAYOUTS, register_layout
from .columns import FAMILIAR, OTHER_NAMES
from .image_folder import image_key
from .row_source import Row

_COLUMNS = {"id", "score", "image_id", "split", *chain(*FAMILIAR.values(), *OTHER_NAMES.values())}


def rows_of_document(document: object, notes: list[str]) -> list[Row] | None:
    """The rows of a JSON document in a known layout; None if it is in none.

    >>> rows_of_document({"a.jpg": "a dog", "b.jpg": []}, [])
    [{'image': 'a.jpg', 'caption': 'a dog'}, {'image': 'b.jpg', 'caption': None}]
    """
    if isinstance(document, dict):
        for layout in _layouts(lines=False):
            rows = layout(document, notes)
            if rows is not None:
                return [*rows]
    return None


def line_reader() -> Callable[[Row], Iterable[Row] | None]:
    """Function from an object of a list or of lines to its rows; None for an object that is a row itself."""
    layouts = _layouts(lines=True)

    def read(line: Row) -> Iterable[Row] | None:
        for layout in layouts:
            rows = layout(line, [])
            if rows is not None:
                return rows
        return None

    return read


def _layouts(lines: bool) -> list[Callable[[Any, list[str]], Iterable[Row] | None]]:
    """The layouts of documents or of lines; those of other packages first, as they expect less."""
    outside = LAYOUTS.outside()
    names = [*outside, *(name for name in LAYOUTS.names() if name not in outside)]
    known = [LAYOUTS.get(name) for name in names]
    return [layout for layout in known if getattr(layout, "lines", False) == lines]


def nearest(value: object) -> str:
    """Name and example of the layout that shares the largest part of its names with an unknown value."""
    names = _names(value)

    examples = {name: getattr(LAYOUTS.get(name), "example", "{}") for name in LAYOUTS.names()}

    def likeness(name: str) -> float:
        expected = _names(json.loads(examples[name]))
        return len(names & expected) / max(len(names | expected), 1)

    closest = max(examples, key=likeness)
    return f"{closest}: {examples[closest]}"


def has_columns(value: Row) -> bool:
    """Whether an object is a row, by a name that columns have."""
    return not _COLUMNS.isdisjoint(value)


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


# ---- documents ----


@register_layout(
    "COCO annotations",
    '{"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [{"image_id": 1, "caption": "dog"}]}',
)
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
        row = {"image": names[key]} if names else {}
        rows.append({**row, "image_id": image_id, "caption": annotation.get("caption")})
    if n_left_out:
        notes.append(
            f"{n_left_out:,} rejected or precanned captions are left out, as by VizWiz's organisers; "
            f"{len(without - captioned):,} photos have no other caption"
        )
    return rows


@register_layout(
    "Karpathy's splits",
    '{"images": [{"filename": "dog.jpg", "split": "test", "sentences": [{"raw": "A dog."}]}]}',
)
def karpathy(document: Row, notes: list[str]) -> list[Row] | None:
    """Karpathy's splits of COCO, Flickr8k and Flickr30k."""
    images = _objects(document, "images")
    if not images or "sentences" not in images[0]:
        return None
    rows: list[Row] = []
    for number, image in enumerate(images):
        sentences = _objects(image, "sentences")
        if not sentences:
            raise InputError(f"entry {number} of `images` has no list `sentences`")
        about = {
            "image": image.get("filename"),
            "image_id": image.get("cocoid", image.get("imgid")),
            "split": image.get("split"),
        }
        rows += ({**about, "caption": sentence.get("raw")} for sentence in sentences)
    return rows


@register_layout("TextCaps", '{"data": [{"image_id": "0a", "caption_str": "A sign.", "set_name": "val"}]}')
def textcaps(document: Row, notes: list[str]) -> list[Row] | None:
    """The annotations of TextCaps."""
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


@register_layout(
    "samples of lmms-eval under `logs`",
    '{"logs": [{"doc_id": 0, "doc": {"image_id": "dog.jpg"}, "filtered_resps": ["a dog"]}]}',
)
def lmms_logs(document: Row, notes: list[str]) -> list[Row] | None:
    """The log of a task of lmms-eval."""
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


@register_layout("captions by photo", '{"dog.jpg": "a dog", "cat.jpg": ["a cat", "two cats"]}')
def captions_by_photo(document: Row, notes: list[str]) -> list[Row] | None:
    """A text, or a list of texts, under the name of each photo."""
    if not document or has_columns(document):
        return None
    rows: list[Row] = []
    for image, value in document.items():
        captions = _listed(value)
        if not all(isinstance(text, str) for text in captions):
            return None
        rows += ({"image": image, "caption": caption} for caption in captions or [None])
    return rows


@register_layout("scores by photo", '{"dog.jpg": {"CLIPScore": 0.7}, "cat.jpg": {"CLIPScore": 0.8}}')
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


# ---- objects of a list or of lines ----


@register_layout("Crossmodal-3600", '{"image/key": "0a", "de": {"caption": ["Ein Hund."]}}', lines=True)
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


@register_layout(
    "samples of lmms-eval",
    '{"doc_id": 0, "doc": {"image_id": "dog.jpg"}, "filtered_resps": ["a dog"]}',
    lines=True,
)
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


@register_layout("several captions per row", '{"image_id": 1, "caption": ["a dog", "dogs"]}', lines=True)
def several_captions(line: Row, notes: list[str]) -> list[Row] | None:
    """A list of captions; an empty list stays a row, and an error."""
    name = "caption" if "caption" in line else "captions"
    captions = line.get(name)
    if not isinstance(captions, list) or not captions:
        return None
    more = {key: value for key, value in line.items() if key != name}
    return [{**more, "caption": caption} for caption in captions]
