"""Composite in the official files' format, with the caption files of its photos; captions are invented."""

from __future__ import annotations

import json
from pathlib import Path

_OWN = {
    "333_c.jpg": ["A girl jumps .", "A girl in a red dress jumps over a puddle .", "Girl in the rain ."],
    "444_d.jpg": ["Two men cook .", "Men in a kitchen ."],
    "555.jpg": ["An old man feeds pigeons .", "A man sits in a park ."],
    "COCO_val2014_000000000007.jpg": ["A cat sleeps on a keyboard.", "A cat, lying down."],
}
_RATED = {
    "flickr8k": {
        "333_c.jpg": [
            ("A girl in a red dress jumps over a puddle", 5),
            ("a dog runs", 1),
            ("The scene contains girl and rain.", 3),
        ],
        "444_d.jpg": [("Two men cook", 4), ("a man is sitting", 2), ("man is cooking.", 4)],
    },
    "flickr30k": {
        "555.jpg": [
            ("An old man feeds pigeons.", 5),
            ("a man on a bench", 3),
            ("person is standing; it is outdoors.", 2),
            ("person is feeding bird.", 4),
        ]
    },
    "coco": {
        "COCO_val2014_000000000007.jpg": [
            ("A cat, lying down", 4),
            ("a cat on a desk", 5),
            ("cat is sleeping.", 4),
            ("cat is lying.", 1),
        ]
    },
}
_STEMS = {"flickr8k": "8k", "flickr30k": "30k", "coco": "coco"}


def _table(rated: dict, *, shift: int = 0) -> str:
    """The results of an AMT task, and below them two rows of sums."""
    number = len(next(iter(rated.values())))
    header = ["HITId", "Title", "Input.image_url"]
    header += [f"Input.text{n + 1}" for n in range(number)] + [
        f"Answer.Q{n + 1}Answer" for n in range(number)
    ]
    lines = [";".join([*header, "Approve"])]
    for hit, (photo, captions) in enumerate(rated.items()):
        texts = [f'"{text}"' if ";" in text else text for text, _ in captions]
        answers = [str(max(1, rating - shift)) for _, rating in captions]
        lines.append(";".join([f"H{hit}", "Rate", f"http://photos.example/{photo}", *texts, *answers, ""]))
    sums = ["17", *[""] * (len(header) - 2), "", "x"]
    return "\n".join([*lines, ";".join(sums), ";".join(["", *sums[1:]])]) + "\n"


def write(folder: Path) -> None:
    """The tables of answers, and the photos' own captions."""
    for part, rated in _RATED.items():
        (folder / f"{_STEMS[part]}_correctness.csv").write_text(_table(rated), encoding="utf-8")
        (folder / f"{_STEMS[part]}_throughness.csv").write_text(_table(rated, shift=1), encoding="utf-8")
    for name, photos in (
        ("Flickr8k.token.txt", ["333_c.jpg", "444_d.jpg"]),
        ("results_20130124.token", ["555.jpg"]),
    ):
        lines = [f"{photo}#{number}\t{text}" for photo in photos for number, text in enumerate(_OWN[photo])]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    cat = "COCO_val2014_000000000007.jpg"
    (folder / "annotations").mkdir()
    (folder / "annotations" / "captions_val2014.json").write_text(
        json.dumps(
            {
                "images": [{"id": 9, "file_name": "another.jpg"}, {"id": 7, "file_name": cat}],
                "annotations": [
                    {"image_id": 7, "id": 1, "caption": _OWN[cat][0]},
                    {"image_id": 9, "id": 2, "caption": "Something else."},
                    {"image_id": 7, "id": 3, "caption": _OWN[cat][1]},
                ],
            }
        )
    )


def write_decoded(folder: Path) -> None:
    """What others decoded of UMIC's texts, with Karpathy's files of captions."""
    names = {
        "333_c.jpg": "flickr8k_333_c.npz",
        "444_d.jpg": "flickr8k_444_d.npz",
        "555.jpg": "flickr30k_000000000555.npz",
        "COCO_val2014_000000000007.jpg": "coco_val2014_000000000007.npz",
    }
    for part, rated in _RATED.items():
        (folder / f"umic_composite_{_STEMS[part]}_decoded.json").write_text(
            json.dumps(
                [
                    {"img": names[photo], "caption": text.lower(), "score": rating}
                    for photo, captions in rated.items()
                    for text, rating in captions[:3]
                ]
            )
        )
        images = [
            {"filename": photo, "sentences": [{"raw": text} for text in _OWN[photo]]} for photo in rated
        ]
        (folder / f"dataset_{part}.json").write_text(json.dumps({"images": images, "dataset": part}))


PHOTOS = [
    "Flicker8k_Dataset/333_c.jpg",
    "Flicker8k_Dataset/444_d.jpg",
    "flickr30k-images/555.jpg",
    "val2014/COCO_val2014_000000000007.jpg",
]
ROWS = {("flickr8k", "test"): 6, ("flickr30k", "test"): 3, ("coco", "test"): 3, ("all", "test"): 12}
VARIANTS = [("decoded", write_decoded, ROWS)]
FIRST = {
    ("flickr8k", "test"): {
        "image_id": "333_c.jpg",
        "caption": "A girl in a red dress jumps over a puddle",
        "references": ["A girl jumps .", "Girl in the rain ."],
        "rating": 5.0,
        "system": "Human",
        "language": "en",
    },
    ("coco", "test"): {
        "image_id": "COCO_val2014_000000000007.jpg",
        "caption": "A cat, lying down",
        "references": ["A cat sleeps on a keyboard."],
        "rating": 4.0,
        "system": "Human",
        "language": "en",
    },
}
DAMAGE = [
    ("coco", "coco_correctness.csv", None),
    ("flickr8k", "8k_correctness.csv", (b"Input.image_url", b"Input.image")),
    ("flickr8k", "8k_correctness.csv", (b";1;3;\n", b";1;3")),
    ("flickr8k", "8k_correctness.csv", (b";5;1;3;", b";7;1;3;")),
    ("flickr8k", "8k_correctness.csv", (b"a dog runs", b"")),
    ("flickr8k", "8k_correctness.csv", (b"a dog", b"a d\xf6g")),
    ("flickr8k", "8k_correctness.csv", (b"444_d.jpg", b"333_c.jpg")),
    ("flickr8k", "8k_correctness.csv", (b"http://photos.example/333_c.jpg", b"")),
    ("flickr30k", "results_20130124.token", (b"555.jpg#1", b"555.jpg#0")),
    ("coco", "annotations/captions_val2014.json", (b"val2014_000000000007", b"val2014_000000000008")),
    ("coco", "annotations/captions_val2014.json", (b"]}", b"")),
]
