"""xFlickr&CO in the official files' format; captions are invented."""

from __future__ import annotations

import json
from pathlib import Path

_TEST = {
    "de": [
        (["Ein  Hund läuft."], "111", "111.jpg"),
        ([""], 122239, "COCO_val2014_000000122239.jpg"),
        (["Zwei Kinder."], 34, "COCO_val2014_000000000034.jpg"),
    ],
    "en": [(["A dog runs."], "111", "111.jpg"), (["Two children."], 34, "COCO_val2014_000000000034.jpg")],
    "ja": [(["犬が走る。"], "111", "111.jpg")],
}
_TRAIN = {
    "train_1": [(["Ein Ball."], "555", "555.jpg")],
    "train_100x5": [(["Ein Ball.", "Ball", "Roter Ball", "Der Ball", "Kugel"], "555", "555.jpg")],
}


def _write(folder: Path) -> None:
    for language, rows in _TEST.items():
        (folder / language).mkdir(parents=True)
        _write_lines(folder / language / "test.jsonl", rows)
    for split, rows in _TRAIN.items():
        _write_lines(folder / "de" / f"{split}.jsonl", rows)


def _write_lines(path: Path, rows: list) -> None:
    lines = [
        json.dumps({"sentences": texts, "id": identity, "img_path": photo}, ensure_ascii=False)
        for texts, identity, photo in rows
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write(folder: Path) -> None:
    """A folder a language."""
    _write(folder)


def write_repository(folder: Path) -> None:
    """The same, in the repository's folders."""
    _write(folder / "datasets" / "xFlickrCO" / "annotations")


PHOTOS = [
    "flickr30k-images/111.jpg",
    "flickr30k-images/555.jpg",
    "val2014/COCO_val2014_000000122239.jpg",
    "val2014/COCO_val2014_000000000034.jpg",
]

ROWS = {
    ("de", "test"): 3,
    ("de", "train_1"): 1,
    ("de", "train_100x5"): 1,
    ("en", "test"): 2,
    ("ja", "test"): 1,
}

FIRST = {
    ("de", "test"): {
        "image_id": "111.jpg",
        "references": ["Ein Hund läuft."],
        "id": "111",
        "language": "de",
    },
    ("de", "train_100x5"): {
        "image_id": "555.jpg",
        "references": ["Ein Ball.", "Ball", "Roter Ball", "Der Ball", "Kugel"],
        "id": "555",
        "language": "de",
    },
}

VARIANTS = [("the repository", write_repository, {("de", "test"): 3, ("de", "train_1"): 1})]

DAMAGE = [
    ("en", "en/test.jsonl", None),
    ("en", "en/test.jsonl", (b'"img_path"', b'"image"')),
    ("en", "en/test.jsonl", (b'"A dog runs."', b'""')),
    ("en", "en/test.jsonl", (b'["A dog runs."]', b'"A dog runs."')),
    ("en", "en/test.jsonl", (b'["A dog runs."]', b"[]")),
    ("en", "en/test.jsonl", (b'"id": 34', b'"id": 3.4')),
    ("en", "en/test.jsonl", (b"COCO_val2014_000000000034", b"111")),
    ("en", "en/test.jsonl", (b'.jpg"}\n', b"\n")),
    ("de", "de/test.jsonl", ("läuft".encode(), b"l\xe4uft")),
]
