"""MaRVL in the official files' format; captions, concepts and people are invented."""

from __future__ import annotations

import json
from pathlib import Path

_TEXTS = {
    "id": ("7-Sapu", "Kedua gambar memperlihatkan  sapu.", "Ada sapu merah di kiri."),
    "sw": ("7-Ufagio", "Picha zote mbili zina ufagio.", "Kuna ufagio mwekundu kushoto."),
    "ta": ("7-துடைப்பம்", "இரண்டு படங்களிலும் துடைப்பம் உள்ளது.", "இடதுபுறம் சிவப்பு துடைப்பம் உள்ளது."),
    "tr": ("7-Süpürge", "Her iki görselde de süpürge var.", "Soldaki süpürge kırmızı."),
    "zh": ("7-扫帚", "两张图中都有扫帚。", "左边的扫帚是红色的。"),
}
# number of the caption, left and right photo, label; of the second caption a row is lost
_ROWS = [
    (1, 0, 1, True),
    (1, 2, 3, True),
    (1, 0, 4, False),
    (1, 4, 5, False),
    (2, 1, 0, True),
    (2, 3, 2, False),
    (2, 5, 4, False),
]


def write(folder: Path) -> None:
    """A file a language, side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    for language in _TEXTS:
        _write(folder / f"marvl-{language}.jsonl", language)


def _write(path: Path, language: str) -> None:
    texts = _TEXTS[language]
    rows = [
        {
            "concept": texts[0],
            "language": language,
            "caption": texts[caption],
            "left_img": f"7-{left}.jpg",
            "right_img": f"7-{right}.jpg",
            "annotator_info": {"annotator_id": f"{language}_01", "country_of_birth": "Nowhere", "age": 40},
            "chapter": "The house",
            "id": f"{language}-{number}",
            "label": label,
        }
        for number, (caption, left, right, label) in enumerate(_ROWS)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")


def _checkout(folder: Path) -> None:
    for language in _TEXTS:
        _write(folder / "data" / language / "annotations" / f"marvl-{language}.jsonl", language)


PHOTOS = [
    f"marvl-images/{language}/images/{texts[0]}/7-{number}.jpg"
    for language, texts in _TEXTS.items()
    for number in range(6)
]
ROWS = {(language, "test"): 7 for language in _TEXTS}
VARIANTS = [("checkout", _checkout, ROWS)]
FIRST = {
    (language, "test"): {
        "left_image_id": "7-0.jpg",
        "right_image_id": "7-1.jpg",
        "caption": " ".join(texts[1].split()),
        "label": True,
        "concept": texts[0],
        "chapter": "The house",
        "annotator_id": f"{language}_01",
        "id": f"{language}-0",
        "language": language,
    }
    for language, texts in _TEXTS.items()
}
DAMAGE = [
    ("sw", "marvl-sw.jsonl", None),
    ("sw", "marvl-sw.jsonl", (b"false}\n{", b"fal")),
    ("sw", "marvl-sw.jsonl", (b'"left_img"', b'"left_image"')),
    ("sw", "marvl-sw.jsonl", (b"Picha zote", b"Pich\xe4 zote")),
    ("sw", "marvl-sw.jsonl", (b'"sw-1"', b'"sw-0"')),
    ("sw", "marvl-sw.jsonl", (b'"label": true', b'"label": "true"')),
    ("sw", "marvl-sw.jsonl", (b'"language": "sw"', b'"language": "ta"')),
    ("sw", "marvl-sw.jsonl", (b'"7-1.jpg"', b"null")),
]
