"""Layouts of JSON that people have: how each is recognised, and its rows of one caption each.

In: a JSON document, or an object of a list or of lines. Out: rows with `image` and `caption`, and
`image_id`, `language` and `split` where the file has them; or rows of scores. `LAYOUTS` lists the layouts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from ..errors import InputError
from .columns import FAMILIAR, OTHER_NAMES
from .image_folder import image_key

Row = dict[str, Any]
_COLUMNS = {"id", "score", "image_id", "split", *sum((*FAMILIAR.values(), *OTHER_NAMES.values()), ())}


class Layout(NamedTuple):
    """A layout.

    Attributes:
        name: What errors call it.
        example: A small file in it, as an error shows it.
        recognises: Whether a document that is an object, or an object of a list or of lines, is in it.
        rows: The rows of a document or object; adds notes to a list, and raises InputError.
        lines: Whether its objects are those of a list or of lines.
    """

    name: str
    example: str
    recognises: Callable[[Any], bool]
    rows: Callable[[Any, list[str]], Iterator[Row]]
    lines: bool = False


def layout_of(value: Any, *, lines: bool) -> Layout | None:
    """The layout of a document, or of an object of lines; None: rows as they are, or nothing known.

    >>> layout_of({"a.jpg": "a dog", "b.jpg": ["a cat", "cats"]}, lines=False).name
    'captions by photo'
    """
    if isinstance(value, dict):
        for known in LAYOUTS:
            if known.lines == lines and known.recognises(value):
                return known
    return None


def nearest(value: Any) -> Layout:
    """The layout whose example shares the largest part of its names with a value that none recognises."""
    names = _names(value)

    def likeness(known: Layout) -> float:
        expected = _names(json.loads(known.example))
        return len(names & expected) / len(names | expected)

    return max(LAYOUTS, key=likeness)


def has_columns(value: dict[str, Any]) -> bool:
    """Whether an object is a row, by a name that columns have."""
    return not _COLUMNS.isdisjoint(value)


def _names(value: Any) -> set[str]:
    """Names of a value's first objects."""
    if isinstance(value, list):
        return _names(value[0]) if value else set()
    if not isinstance(value, dict):
        return set()
    return set(value) | {name for part in islice(value.values(), 10) for name in _names(part)}


def _has_objects(document: Any, *names: str) -> bool:
    """Whether a document has a list of objects under each name, the last with one object or more."""
    lists = [document.get(name) for name in names] if isinstance(document, dict) else [None]
    are_objects = (
        isinstance(found, list) and all(isinstance(part, dict) for part in found) for found in lists
    )
    return all(are_objects) and bool(lists[-1])


def _is_text(value: Any) -> bool:
    """Whether a value is a text, or a list of texts."""
    return all(isinstance(text, str) for text in _listed(value))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _annotations(document: Any, notes: list[str]) -> Iterator[Row]:
    """Annotations of COCO and its kin, without the captions that VizWiz's organisers leave out."""
    names: dict[str | None, Any] = {}
    for number, image in enumerate(document.get("images") or ()):
        key, name = image_key(image.get("id")), image.get("file_name")
        if names.setdefault(key, name) != name:
            raise InputError(f"entry {number} of `images` repeats the id {key}")
    captioned, without, n_left_out = set(), set(), 0
    for number, annotation in enumerate(document["annotations"]):
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
        yield {**row, "image_id": image_id, "caption": annotation.get("caption")}
    if n_left_out:
        notes.append(
            f"{n_left_out:,} rejected or precanned captions are left out, as by VizWiz's organisers; "
            f"{len(without - captioned):,} photos have no other caption"
        )


def _karpathy(document: Any, notes: list[str]) -> Iterator[Row]:
    for number, image in enumerate(document["images"]):
        if not _has_objects(image, "sentences"):
            raise InputError(f"entry {number} of `images` has no list `sentences`")
        about = {
            "image": image.get("filename"),
            "image_id": image.get("cocoid", image.get("imgid")),
            "split": image.get("split"),
        }
        yield from ({**about, "caption": sentence.get("raw")} for sentence in image["sentences"])


def _textcaps(document: Any, notes: list[str]) -> Iterator[Row]:
    for item in document["data"]:
        yield {
            "image": f"{item.get('image_name') or item.get('image_id')}.jpg",
            "image_id": item.get("image_id"),
            "caption": item.get("caption_str"),
            "split": item.get("set_name"),
        }


def _by_photo(document: Any, notes: list[str]) -> Iterator[Row]:
    for image, captions in document.items():
        yield from ({"image": image, "caption": caption} for caption in _listed(captions) or [None])


def _scores_by_photo(document: Any, notes: list[str]) -> Iterator[Row]:
    for image, scores in document.items():
        yield {"id": image, "image": image, **(scores if isinstance(scores, dict) else {"score": scores})}


def _crossmodal(line: Any, notes: list[str]) -> Iterator[Row]:
    for language, found in line.items():
        for caption in _listed(found.get("caption")) if isinstance(found, dict) else ():
            yield {"image": f"{line['image/key']}.jpg", "caption": caption, "language": language}


def _lmms_eval(line: Any, notes: list[str]) -> Iterator[Row]:
    """What was answered, and photo and references of the document or, without it, of what metrics got."""
    parts = [part for part in line.values() if isinstance(part, dict)]
    names = ("image", "image_path", "file_name", "filename", "image_id", "img_id", "question_id")
    named = (part[name] for name in names for part in parts if isinstance(part.get(name), str | int))
    answers = [part["answer"] for part in parts if isinstance(part.get("answer"), list)]
    caption = line["filtered_resps"]
    while isinstance(caption, list) and caption:
        caption = caption[0]
    references = {"answer": answers[0]} if answers else {}
    yield {"image": next(named, line["doc_id"]), "caption": caption, **references}


def _lmms_logs(document: Any, notes: list[str]) -> Iterator[Row]:
    for number, line in enumerate(document["logs"]):
        if not _is_sample(line):
            raise InputError(f"entry {number} of `logs` has no `filtered_resps`")
        yield from _lmms_eval(line, notes)


def _is_sample(line: Any) -> bool:
    return isinstance(line, dict) and {"doc_id", "filtered_resps"} <= set(line)


def _several(line: Any, notes: list[str]) -> Iterator[Row]:
    name = "caption" if "caption" in line else "captions"
    more = {key: value for key, value in line.items() if key != name}
    yield from ({**more, "caption": caption} for caption in line[name])


LAYOUTS = (
    Layout(
        "COCO annotations",
        '{"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [{"image_id": 1, "caption": "dog"}]}',
        lambda value: _has_objects(value, *["images"] * ("images" in value), "annotations"),
        _annotations,
    ),
    Layout(
        "Karpathy's splits",
        '{"images": [{"filename": "dog.jpg", "split": "test", "sentences": [{"raw": "A dog."}]}]}',
        lambda value: _has_objects(value, "images") and "sentences" in value["images"][0],
        _karpathy,
    ),
    Layout(
        "TextCaps",
        '{"data": [{"image_id": "0a", "caption_str": "A sign.", "set_name": "val"}]}',
        lambda value: _has_objects(value, "data") and "caption_str" in value["data"][0],
        _textcaps,
    ),
    Layout(
        "samples of lmms-eval under `logs`",
        '{"logs": [{"doc_id": 0, "doc": {"image_id": "dog.jpg"}, "filtered_resps": ["a dog"]}]}',
        lambda value: _has_objects(value, "logs") and _is_sample(value["logs"][0]),
        _lmms_logs,
    ),
    Layout(
        "captions by photo",
        '{"dog.jpg": "a dog", "cat.jpg": ["a cat", "two cats"]}',
        lambda value: bool(value) and not has_columns(value) and all(map(_is_text, value.values())),
        _by_photo,
    ),
    Layout(
        "scores by photo",
        '{"dog.jpg": {"CLIPScore": 0.7}, "cat.jpg": {"CLIPScore": 0.8}}',
        lambda value: bool(value) and not has_columns(value) and all(map(_is_scores, value.values())),
        _scores_by_photo,
    ),
    Layout(
        "Crossmodal-3600",
        '{"image/key": "0a", "de": {"caption": ["Ein Hund."]}}',
        lambda line: "image/key" in line,
        _crossmodal,
        lines=True,
    ),
    Layout(
        "samples of lmms-eval",
        '{"doc_id": 0, "doc": {"image_id": "dog.jpg"}, "filtered_resps": ["a dog"]}',
        _is_sample,
        _lmms_eval,
        lines=True,
    ),
    Layout(
        "several captions per row",
        '{"image_id": 1, "caption": ["a dog", "dogs"]}',
        lambda line: (
            isinstance(found := line.get("caption", line.get("captions")), list) and bool(found)
        ),  # a list of none stays a row, and an error
        _several,
        lines=True,
    ),
)


def _is_scores(value: Any) -> bool:
    numbers = [*value.values()] if isinstance(value, dict) and value else [value]
    return all(isinstance(number, int | float) for number in numbers)
