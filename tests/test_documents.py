"""Documents name files, folders, modules and targets of this repository; every one of them exists."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("capscore", "metrics", "datasets_scripts", "training", "tests", "benchmarks", "docs", "weights")
DOCUMENTS = [
    path
    for path in sorted(
        [*ROOT.glob("*.md"), *(found for room in FOLDERS for found in ROOT.glob(f"{room}/**/*.md"))]
    )
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
]
# `capscore/text/ptb.py`, `training/configs/pr_mcs.yaml`, `metrics/<name>/` (a pattern, so not taken)
PLACE = re.compile(rf"(?<![\w./<>-])((?:{'|'.join(FOLDERS)})/[\w./-]*\w/?)(?![\w<>*{{])")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)")
MODULE = re.compile(r"python -m ((?:benchmarks|training|tests|capscore)(?:\.\w+)*)")
CODE = re.compile(r"```\w*\n(.*?)```|`([^`\n]+)`", re.S)
TARGET = re.compile(r"(?:^|&& )make ([a-z][a-z0-9.-]*)", re.M)
# what a command in a document makes, or where a reader's own files are
MADE = ("docs/build",)


def named(document: Path) -> str:
    return str(document.relative_to(ROOT))


def code(text: str) -> str:
    """All code of a document, blocks and inline."""
    return "\n".join(block or inline for block, inline in CODE.findall(text))


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_places_exist(document):
    text = document.read_text(encoding="utf-8")
    missing = [
        place for place in PLACE.findall(text) if not (ROOT / place).exists() and not place.startswith(MADE)
    ]
    missing += [
        link
        for link in LINK.findall(text)
        if not (document.parent / link).exists() and "{" not in link and "<" not in link
    ]
    assert not missing, f"{named(document)} names {', '.join(sorted(set(missing)))}, which is not there"


@pytest.mark.parametrize("document", [one for one in DOCUMENTS if one.name != "CHANGELOG.md"], ids=named)
def test_commands_exist(document):
    text = document.read_text(encoding="utf-8")
    absent = [module for module in MODULE.findall(text) if importlib.util.find_spec(module) is None]
    targets = set(re.findall(r"^([a-z][a-z0-9.-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    absent += [f"make {target}" for target in TARGET.findall(code(text)) if target not in targets]
    assert not absent, f"{named(document)} names {', '.join(sorted(set(absent)))}, which is not there"
