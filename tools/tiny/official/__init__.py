"""Tiny official files, a module a benchmark; captions, ratings and boxes in them are invented.

A module has `write` (folder → files), PHOTOS (that its rows ask for; none if its files hold them), ROWS
((configuration, split) → rows), VARIANTS (name → another way to write the files, and its ROWS), and DAMAGE
((configuration, file) → what becomes what in the file, and is an error; without the first file nothing is
read).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Texts = Iterable[tuple[int, str]]


def write_text(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    return write_text(path, "".join(f"{line}\n" for line in lines))


def write_json(path: Path, content: Any, indent: int | None = None) -> None:
    write_text(path, json.dumps(content, indent=indent))


def write_jsonl(path: Path, rows: Iterable[Any]) -> Path:
    return write_lines(path, (json.dumps(row, ensure_ascii=False) for row in rows))


def write_zip(path: Path, texts: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in texts.items():
            archive.writestr(name, text)


def coco(photos: Mapping[int, str], captions: Texts) -> dict[str, list[dict[str, Any]]]:
    """COCO's layout: id → photo, and (id, caption)."""
    return {
        "images": [{"id": number, "file_name": name} for number, name in photos.items()],
        "annotations": [
            {"image_id": number, "id": entry, "caption": text}
            for entry, (number, text) in enumerate(captions)
        ],
    }
