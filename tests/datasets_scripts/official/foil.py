"""FOIL-it in the official files' format; captions and foils are invented."""

from __future__ import annotations

import json
from pathlib import Path

_PHOTOS = {
    7: "COCO_val2014_000000000007.jpg",
    8: "COCO_val2014_000000000008.jpg",
    9: "COCO_train2014_000000000009.jpg",
}


def _original(identity, image, caption, foil_id):
    return {
        "caption": caption,
        "foil": False,
        "foil_id": foil_id,
        "foil_word": "ORIG",
        "id": identity,
        "image_id": image,
        "target_word": "ORIG",
    }


def _foil(identity, image, caption, foil_id, word, foil_word):
    return {
        "caption": caption,
        "foil": True,
        "foil_id": foil_id,
        "foil_word": foil_word,
        "id": identity,
        "image_id": image,
        "target_word": word,
    }


def _document(images, annotations):
    return {
        "info": {},
        "licenses": [],
        "images": [{"id": number, "file_name": _PHOTOS[number], "license": 1} for number in images],
        "annotations": annotations,
    }


_TEST = _document(
    (7, 8),
    [
        _original(71, 7, "A dog on a  sofa. ", 701),
        _foil(71, 7, "A cat on a sofa. ", 701, "dog", "cat"),
        # its foil comes first; a second one is of the same caption
        _foil(81, 8, "Two skis at a bench.", 801, "bikes", "skis"),
        _original(81, 8, "Two bikes at a bench.", 801),
        _foil(81, 8, "Two bikes at a couch.", 802, "bench", "couch"),
    ],
)
_TRAIN = _document((9,), [_original(91, 9, "A bus.", 901), _foil(91, 9, "A train.", 901, "bus", "train")])
_COCO = {
    "images": [{"id": number, "file_name": name} for number, name in _PHOTOS.items() if number < 9],
    "annotations": [
        {"id": 1, "image_id": 7, "caption": "A dog on a sofa."},
        {"id": 2, "image_id": 7, "caption": "Somebody's dog."},
        {"id": 3, "image_id": 8, "caption": "A bench."},
    ],
}


def write(folder: Path) -> None:
    """The test split, with COCO's captions as references."""
    (folder / "foilv1.0_test_2017.json").write_text(json.dumps(_TEST))
    (folder / "captions_val2014.json").write_text(json.dumps(_COCO))


def write_both(folder: Path) -> None:
    """Both splits in a folder, without references."""
    (folder / "annotations").mkdir()
    for split, document in (("train", _TRAIN), ("test", _TEST)):
        (folder / "annotations" / f"foilv1.0_{split}_2017.json").write_text(json.dumps(document))


PHOTOS = [f"val2014/{_PHOTOS[number]}" for number in (7, 8)]
ROWS = {("default", "test"): 3}
FIRST = {
    ("default", "test"): {
        "image_id": "COCO_val2014_000000000007.jpg",
        "caption": "A dog on a sofa.",
        "foil": "A cat on a sofa.",
        "references": ["Somebody's dog."],
        "word": "dog",
        "foil_word": "cat",
        "id": 71,
        "language": "en",
    }
}
VARIANTS = [("both splits", write_both, {("default", "train"): 1, ("default", "test"): 3})]

_FILE = "foilv1.0_test_2017.json"
DAMAGE = [
    ("default", _FILE, None),
    ("default", _FILE, (b'"foil": true', b'"foil": 1')),
    ("default", _FILE, (b"A cat", b"A dog")),
    ("default", _FILE, (b'"id": 71', b'"id": 72')),
    (
        "default",
        _FILE,
        (
            b'"id": 81, "image_id": 8, "target_word": "bikes"',
            b'"id": 81, "image_id": 5, "target_word": "bikes"',
        ),
    ),
    (
        "default",
        _FILE,
        (b'"foil_word": "skis", "id": 81', b'"foil_word": "skis", "id": -1'),
    ),
    ("default", _FILE, (b'"foil": true, "foil_id": 802', b'"foil": false, "foil_id": 802')),
    ("default", _FILE, (b"A cat", b"A c\xe0t")),
    ("default", _FILE, (b"]}", b"]")),
]
