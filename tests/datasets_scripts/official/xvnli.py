"""XVNLI in the official files' format; sentences are invented."""

from __future__ import annotations

import json
from pathlib import Path

# photo, number of its caption, number of the sentence, label
_PAIRS = [
    ("3001", 0, "r1e", "entailment"),
    ("3001", 0, "r1n", "neutral"),
    ("3001", 0, "r1c", "contradiction"),
    ("3001", 4, "r2c", "contradiction"),
    ("3002", 1, "r1n", "neutral"),
    ("3002", 1, "r1x", "-"),
]
_TEXTS = {
    "en": ("A girl feeds a goat.", "A child is near an animal.", "She is  laughing."),
    "ar": ("فتاة تطعم ماعزا.", "طفلة بجانب حيوان.", "إنها تضحك."),
    "es": ("Una niña alimenta a una cabra.", "Una niña está junto a un animal.", "Ella se ríe."),
    "fr": ("Une fille nourrit une chèvre.", "Une enfant est près d'un animal.", "Elle rit."),
    "ru": ("Девочка кормит козу.", "Ребёнок рядом с животным.", "Она смеётся."),
}


def write(folder: Path) -> None:
    """A folder a language with its test.jsonl."""
    for language, (premise, first, other) in _TEXTS.items():
        rows = [
            {
                "gold_label": label,
                "sentence1": premise,
                "sentence2": other if number else first,
                "captionID": f"{photo}.jpg#{caption}",
                "pairID": f"{photo}.jpg#{caption}{name}",
                "Flikr30kID": photo,
            }
            for number, (photo, caption, name, label) in enumerate(_PAIRS)
        ]
        path = folder / language / "test.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        path.write_text("".join(lines), encoding="utf-8")


def _checkout(folder: Path) -> None:
    write(folder / "datasets" / "XVNLI" / "annotations")


PHOTOS = ["flickr30k-images/3001.jpg", "flickr30k-images/3002.jpg"]
ROWS = {(language, "test"): 6 for language in _TEXTS}
VARIANTS = [("checkout", _checkout, ROWS)]
FIRST = {
    (language, "test"): {
        "image_id": "3001.jpg",
        "caption": _TEXTS[language][1],
        "premise": _TEXTS[language][0],
        "label": "entailment",
        "premise_id": "3001.jpg#0",
        "id": "3001.jpg#0r1e",
        "language": language,
    }
    for language in ("en", "ar", "ru")
}
DAMAGE = [
    ("fr", "fr/test.jsonl", None),
    ("fr", "fr/test.jsonl", (b'"3002"}\n{', b'"30')),
    ("fr", "fr/test.jsonl", (b"Flikr30kID", b"Flickr30kID")),
    ("fr", "fr/test.jsonl", ("près".encode(), b"pr\xe8s")),
    ("fr", "fr/test.jsonl", (b"#0r1n", b"#0r1e")),
    ("fr", "fr/test.jsonl", (b'"gold_label": "neutral"', b'"gold_label": "maybe"')),
    ("fr", "fr/test.jsonl", (b'"captionID": "3001', b'"captionID": "3003')),
    ("ar", "ar/test.jsonl", ("إنها تضحك.".encode(), b" ")),
]
