"""Crossmodal-3600 in the official file's format; captions are invented."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

# photo → language → captions
_CAPTIONS = {
    "00aa11bb22cc33dd": {
        "de": ["Ein  Hund am Strand", "Hund läuft im Sand"],
        "bn": ["সৈকতে একটি কুকুর"],
        "quz": ["Allqu qucha patapi", "Huk allqu"],
    },
    "44ee55ff66aa77bb": {"de": ["Zwei Kinder"], "bn": ["দুটি শিশু"], "quz": ["Iskay wawakuna"]},
}


def lines(of_photos: Mapping[str, Mapping[str, list[str]]]) -> str:
    """Photo → language → captions, as the file has them."""
    lines = []
    for key, captions in of_photos.items():
        row: dict = {"image/key": key, "image/locale": "de"}
        for language, texts in captions.items():
            row[language] = {
                "caption": texts,
                "caption/tokenized": [" ".join(text.split()) + " ." for text in texts],
                "caption/tokenized/lowercase": [" ".join(text.split()).lower() + " ." for text in texts],
            }
        lines.append(json.dumps(row, ensure_ascii=False))
    return "\n".join(lines) + "\n"


def write(folder: Path) -> None:
    """The unpacked captions, and the list of photos."""
    (folder / "captions.jsonl").write_text(lines(_CAPTIONS), encoding="utf-8")
    (folder / "image_ids.txt").write_text("\n".join(reversed(_CAPTIONS)) + "\n", encoding="utf-8")


def write_repository(folder: Path) -> None:
    """The folder web-data of the repository, captions in their archive."""
    (folder / "web-data").mkdir()
    with zipfile.ZipFile(folder / "web-data" / "captions.zip", "w") as archive:
        archive.writestr("captions.jsonl", lines(_CAPTIONS))


PHOTOS = ["images/00aa11bb22cc33dd.jpg", "images/44ee55ff66aa77bb.jpg"]

ROWS = {("de", "test"): 2, ("bn", "test"): 2, ("quz", "test"): 2}

FIRST = {
    ("de", "test"): {
        "image_id": "00aa11bb22cc33dd.jpg",
        "references": ["Ein Hund am Strand", "Hund läuft im Sand"],
        "tokenized_references": ["Ein Hund am Strand .", "Hund läuft im Sand ."],
        "lowercase_references": ["ein hund am strand .", "hund läuft im sand ."],
        "image_locale": "de",
        "language": "de",
    },
    ("quz", "test"): {
        "image_id": "00aa11bb22cc33dd.jpg",
        "references": ["Allqu qucha patapi", "Huk allqu"],
        "tokenized_references": ["Allqu qucha patapi .", "Huk allqu ."],
        "lowercase_references": ["allqu qucha patapi .", "huk allqu ."],
        "image_locale": "de",
        "language": "qu",
    },
}

VARIANTS = [("the repository", write_repository, {("de", "test"): 2, ("bn", "test"): 2})]

_FILE = r"captions\.jsonl"
DAMAGE = [
    ("de", "captions.jsonl", None),
    ("de", "captions.jsonl", (b'"image/key": "44', b'"key": "44')),
    ("de", "captions.jsonl", (b'"de": {', b'"xx": {')),
    ("de", "captions.jsonl", (b'"caption/tokenized":', b'"tokens":')),
    ("de", "captions.jsonl", (b'"Zwei Kinder"', b'" "')),
    ("de", "captions.jsonl", (b'["Zwei Kinder"]', b'"Zwei Kinder"')),
    ("de", "captions.jsonl", (b"44ee55ff66aa77bb", b"00aa11bb22cc33dd")),
    ("de", "captions.jsonl", (b"44ee55ff66aa77bb", b"0000000000000000")),
    ("de", "captions.jsonl", (b"}}\n", b"}\n")),
    ("de", "captions.jsonl", ("läuft".encode(), b"l\xe4uft")),
    ("de", "image_ids.txt", (b"44ee", b"9999999999999999\n44ee")),
]
