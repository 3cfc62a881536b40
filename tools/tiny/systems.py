"""A small set in Crossmodal-3600's format, and captions of its photos by three systems; all invented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.tiny.official import xm3600

# photo → language → references
REFERENCES = {
    "00aa": {
        "de": ["ein Hund läuft am Strand", "ein brauner Hund am Meer"],
        "quz": ["huk allqu qucha patapi", "allqu phawan"],
    },
    "11bb": {"de": ["zwei Kinder spielen im Garten"], "quz": ["iskay wawakuna pukllanku"]},
    "22cc": {
        "de": ["ein rotes Auto auf der Straße", "ein Auto", "ein rotes Auto fährt"],
        "quz": ["puka awto ñanpi", "huk puka awto"],
    },
    "33dd": {
        "de": ["eine Frau mit Hut", "eine Frau trägt einen Hut"],
        "quz": ["warmi chukuyuq", "huk warmi chukuwan"],
    },
}
# system → language → captions in the order of the photos
CAPTIONS = {
    "small": {
        "de": ["ein Hund", "zwei Hunde im Garten", "ein Auto auf der Straße", "eine Frau"],
        "quz": ["huk allqu", "wawakuna", "puka awto", "huk warmi"],
    },
    "large": {
        "de": [
            "ein Hund läuft am Strand",
            "zwei Kinder im Garten",
            "ein rotes Auto auf der Straße",
            "eine Frau mit Hut",
        ],
        "quz": ["allqu", "iskay wawakuna", "huk puka awto", "warmi"],
    },
    "other": {
        "de": ["ein Hund am Strand", "zwei Kinder", "ein rotes Auto", "ein Mann mit Hut"],
        "quz": ["huk allqu qucha patapi", "iskay wawakuna", "puka awto ñanpi", "huk warmi"],
    },
}


def write_set(folder: Path) -> Path:
    """The official file."""
    folder.mkdir(exist_ok=True)
    (folder / "captions.jsonl").write_text(xm3600.lines(REFERENCES), encoding="utf-8")
    return folder


def rows_of(system: str) -> list[dict[str, Any]]:
    """The rows of a system's file; Cusco Quechua has the code that the set calls it by."""
    return [
        {"image_id": photo, "language": language, "caption": caption}
        for language, captions in CAPTIONS[system].items()
        for photo, caption in zip(REFERENCES, captions, strict=True)
    ]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Rows as JSONL."""
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    return path


def write_systems(folder: Path, *systems: str) -> dict[str, Path]:
    """The files of systems."""
    return {name: write_rows(folder / f"{name}.jsonl", rows_of(name)) for name in systems}
