"""M-CapEval1k in the format that its card documents; captions and ratings are invented."""

from __future__ import annotations

import json
from pathlib import Path

_TEXTS = {
    "en": ["a man with two umbrellas", "a man with a dog"],
    "de": ["ein Mann mit zwei Regenschirmen", "ein Mann mit einem Hund"],
    "es": ["un hombre con dos paraguas", "un hombre con un perro"],
    "fr": ["un homme avec deux parapluies", "un homme avec un chien"],
    "ja": ["傘を二本持つ男性", "犬を連れた男性"],
}


def write(folder: Path) -> None:
    """A file a language; ids and ratings are the same in all."""
    for language, (first, second) in _TEXTS.items():
        rows = [
            {"id": "31-1", "image": "COCO_val2014_000000000031.jpg", "caption": first, "score": 0.85},
            {"id": "31-2", "image": "COCO_val2014_000000000031.jpg", "caption": second, "score": 0},
        ]
        if language == "de":
            rows[0]["references"] = ["ein Mann mit Schirmen", "Schirme  im Regen"]
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (folder / f"{language}.jsonl").write_text("".join(lines), encoding="utf-8")


PHOTOS = ["val2014/COCO_val2014_000000000031.jpg"]
ROWS = {(language, "test"): 2 for language in _TEXTS}
FIRST = {
    (language, "test"): {
        "image_id": "COCO_val2014_000000000031.jpg",
        "caption": _TEXTS[language][0],
        "references": references,
        "rating": 0.85,
        "id": "31-1",
        "language": language,
    }
    for language, references in (
        ("en", []),
        ("de", ["ein Mann mit Schirmen", "Schirme im Regen"]),
        ("ja", []),
    )
}
DAMAGE = [
    ("de", "de.jsonl", None),
    ("de", "de.jsonl", (b'"score": 0}', b'"sco')),
    ("de", "de.jsonl", (b'"score": 0}', b'"rating": 0}')),
    ("de", "de.jsonl", (b"zwei", b"zw\xebi")),
    ("de", "de.jsonl", (b'"31-2"', b'"31-1"')),
    ("de", "de.jsonl", (b"0.85", b"8.5")),
    ("de", "de.jsonl", (b"ein Mann mit einem Hund", b" ")),
    ("de", "de.jsonl", (b'["ein Mann mit Schirmen", "Schirme  im Regen"]', b'"x"')),
]
