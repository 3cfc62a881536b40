"""M-FineCap3k in the format that its card documents, and FineCapEval's CSV; captions are invented."""

from __future__ import annotations

import json
from pathlib import Path

_TEXTS = {
    "en": ("A woman in a red coat waits at a tram stop.", ["woman", "red coat"], ["tram stop"], ["waits"]),
    "de": ("Eine Frau in rotem Mantel  wartet.", ["Frau", "rotem Mantel"], [], ["wartet"]),
    "es": ("Una mujer con abrigo rojo espera.", ["mujer", "abrigo rojo"], [], ["espera"]),
    "fr": ("Une femme en manteau rouge attend.", ["femme", "manteau rouge"], [], ["attend"]),
    "ja": ("赤いコートを着た女性が停留所で待っている。", ["女性", "赤いコート"], ["停留所"], ["待っている"]),
}


def write(folder: Path) -> None:
    """A file a language."""
    for language, (caption, objects, backgrounds, relationships) in _TEXTS.items():
        row = {
            "image": "41.jpg",
            "caption": caption,
            "critical_objects": objects,
            "backgrounds": backgrounds,
            "relationships": relationships,
        }
        lines = [
            json.dumps({"id": f"{language}-{number}", **row}, ensure_ascii=False) + "\n" for number in (0, 1)
        ]
        (folder / f"{language}.jsonl").write_text("".join(lines), encoding="utf-8")


def write_finecapeval(folder: Path) -> None:
    """FineCapEval as its authors publish it: English only."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "data" / "FineCapEval.csv").write_text(
        "image,caption,background,object,relation\n"
        '41.jpg,"A woman, in a red  coat, waits.",tram stop\\;grey sky,woman\\; red coat\\;,waits\n'
        "41.jpg,A woman waits.,,woman,waits\n"
        "42.jpg,A dog sleeps.,sofa,dog,sleeps on\n",
        encoding="utf-8",
    )


PHOTOS = ["images/41.jpg"]
ROWS = {(language, "test"): 2 for language in _TEXTS}
VARIANTS = [("finecapeval", write_finecapeval, {("en", "test"): 3})]
FIRST = {
    (language, "test"): {
        "image_id": "41.jpg",
        "caption": " ".join(_TEXTS[language][0].split()),
        "critical_objects": _TEXTS[language][1],
        "backgrounds": _TEXTS[language][2],
        "relationships": _TEXTS[language][3],
        "id": f"{language}-0",
        "language": language,
    }
    for language in ("en", "de", "ja")
}
DAMAGE = [
    ("fr", "fr.jsonl", None),
    ("en", "en.jsonl", None),
    ("fr", "fr.jsonl", (b'"attend"]}', b'"atte')),
    ("fr", "fr.jsonl", (b'"critical_objects"', b'"objects"')),
    ("fr", "fr.jsonl", (b"Une femme", b"Un\xe9 femme")),
    ("fr", "fr.jsonl", (b'"fr-1"', b'"fr-0"')),
    ("fr", "fr.jsonl", (b'["attend"]', b'"attend"')),
    ("fr", "fr.jsonl", (b'["attend"]', b'[""]')),
]
