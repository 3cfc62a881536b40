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
    ("default", _FILE, None, r"captokeneval\.jsonl.*not found under data_dir.*never released"),
    ("default", _FILE, (b'}]}\n{"id": "b"', b'}]}\n{"id": '), r"line 2: is not a JSON object .*cut short"),
    ("default", _FILE, (b'"words"', b'"tokens"'), r"line 1: lacks the field 'words'"),
    ("default", _FILE, (b'"correct": false', b'"right": false'), r"line 1, entry 'word 1': lacks the field"),
    ("default", _FILE, (b"a sofa", b"\xe0 sofa"), r"captokeneval\.jsonl, line 1: is not UTF-8"),
    ("default", _FILE, (b'"id": "b"', b'"id": "a"'), r"line 2: 'id' 'a' appears twice, first in line 1"),
    (
        "default",
        _FILE,
        (b'"semantic": true', b'"semantic": 1'),
        r"line 1, entry 'word 1': 'semantic' is 1, expected true or false",
    ),
    (
        "default",
        _FILE,
        (b"[5, 5, 9, 9]", b"[9, 5, 5, 9]"),
        r"line 2, entry 'region 1': 'box' is \[9, 5, 5, 9\], expected \[left, top, right, bottom\]",
    ),
    (
        "default",
        _FILE,
        (b"[5, 5, 9, 9]", b"[-5, 5, 9, 9]"),
        r"an edge of 'box' is -5, expected a number from 0",
    ),
    (
        "default",
        _FILE,
        (b'[{"box": [5, 5, 9, 9], "mentioned": false}]', b"[]"),
        r"line 2: it has 2 words and 0",
    ),
]
