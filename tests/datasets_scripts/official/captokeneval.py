"""CapTokenEval in the format that its card documents; captions, labels and boxes are invented."""

from __future__ import annotations

import json
from pathlib import Path

_PAIRS = [
    {
        "id": "a",
        "image": "COCO_val2014_000000000021.jpg",
        "caption": "two dogs on a sofa",
        "words": [
            {"text": "two", "correct": False, "semantic": True},
            {"text": "dogs", "correct": True, "semantic": True},
            {"text": "on", "correct": True, "semantic": False},
            {"text": "a", "correct": True, "semantic": False},
            {"text": "sofa", "correct": True, "semantic": True},
        ],
        "regions": [
            {"box": [10, 20, 110.5, 90], "mentioned": True},
            {"box": [0, 0, 40, 30], "mentioned": False},
        ],
    },
    {
        "id": "b",
        "image": "COCO_val2014_000000000022.jpg",
        "caption": "a kite",
        "words": [
            {"text": "a", "correct": True, "semantic": False},
            {"text": "kite", "correct": False, "semantic": True},
        ],
        "regions": [{"box": [5, 5, 9, 9], "mentioned": False}],
    },
]


def write(folder: Path) -> None:
    """One JSON object a pair."""
    lines = [json.dumps(pair) + "\n" for pair in _PAIRS]
    (folder / "captokeneval.jsonl").write_text("".join(lines), encoding="utf-8")


PHOTOS = ["val2014/COCO_val2014_000000000021.jpg", "val2014/COCO_val2014_000000000022.jpg"]
ROWS = {("default", "test"): 2}
FIRST = {
    ("default", "test"): {
        "image_id": "COCO_val2014_000000000021.jpg",
        "caption": "two dogs on a sofa",
        "words": ["two", "dogs", "on", "a", "sofa"],
        "word_labels": [0, 1, 1, 1, 1],
        "semantic": [True, True, False, False, True],
        "regions": [[10.0, 20.0, 110.5, 90.0], [0.0, 0.0, 40.0, 30.0]],
        "region_labels": [1, 0],
        "id": "a",
        "language": "en",
    }
}
_FILE = "captokeneval.jsonl"
DAMAGE = [
    ("default", _FILE, None),
    ("default", _FILE, (b'}]}\n{"id": "b"', b'}]}\n{"id": ')),
    ("default", _FILE, (b'"words"', b'"tokens"')),
    ("default", _FILE, (b'"correct": false', b'"right": false')),
    ("default", _FILE, (b"a sofa", b"\xe0 sofa")),
    ("default", _FILE, (b'"id": "b"', b'"id": "a"')),
    ("default", _FILE, (b'"semantic": true', b'"semantic": 1')),
    ("default", _FILE, (b"[5, 5, 9, 9]", b"[9, 5, 5, 9]")),
    ("default", _FILE, (b"[5, 5, 9, 9]", b"[-5, 5, 9, 9]")),
    ("default", _FILE, (b'[{"box": [5, 5, 9, 9], "mentioned": false}]', b"[]")),
]
