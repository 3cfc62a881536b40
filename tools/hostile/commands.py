"""Calls of every command that are right in the folder which tests/test_command_laws.py makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from capscore.cli import app
from tools.tiny.command import command


class Case(NamedTuple):
    """Arguments that are right in the folder of the tests; files that are read, and that can be written."""

    arguments: str = ""
    reads: str = ""  # words of the arguments, and options with a file
    writes: str = ""  # option=file
    code: int = 0
    more: bool = False  # takes any number of arguments


BENCHMARK = "flickr8k_human --config expert --data-dir flickr"
_TWO_FILES = "--output=o.json --markdown=o.md"
CASES = {
    "app": Case(),
    "backbones": Case(),
    "benchmark": Case(
        f"--data {BENCHMARK} -m rouge_l --bootstrap 20",
        "flickr --scores",
        f"{_TWO_FILES} --write-queries=o.jsonl",
        more=True,
    ),
    "cache clear": Case("--yes"),
    "cache info": Case(),
    "calibrate": Case("rows.jsonl --json", "rows.jsonl", "--output=o.json"),
    "cite": Case("result.json --data xvnli", "result.json"),
    "compare": Case("a.jsonl b.jsonl --samples 20", "a.jsonl b.jsonl", _TWO_FILES, more=True),
    "data check": Case(BENCHMARK, code=1),  # not the published number of rows
    "data export": Case(f"{BENCHMARK} --output o", "flickr", "--output=o"),
    "data list": Case(),
    "explain": Case(
        "red.png red --backbone toy --weights info_clip", "red.png", "--output=o.html", more=True
    ),
    "leaderboard": Case("result.json", "result.json", "--output=o.html", more=True),
    "perturb": Case("rows.jsonl -k jumble", "rows.jsonl", "--output=o.jsonl --output=o.parquet"),
    "publish dataset": Case("xm3600 --config de --org me --data-dir xm3600 --dry-run", "xm3600"),
    "publish metric": Case("cider --org me --install release --dry-run"),
    "publish weights": Case("image_tower --org me --dry-run", "image_tower"),
    "robustness": Case("rows.jsonl -m mcs -k jumble", "rows.jsonl", _TWO_FILES),
    "score": Case(
        "rows.jsonl -m mcs,cider",
        "rows.jsonl --references --calibration --document-frequencies",
        "--output=o.jsonl --output=o.csv --report=o.html",
        more=True,
    ),
}


def command_named(name: str) -> Any:
    """The command of these words."""
    found: Any = command(app)
    for word in name.split():
        found = found.commands[word]
    return found


def content(path: Path) -> dict[str, bytes]:
    """Every file at or under a path, and its bytes."""
    return {str(part): part.read_bytes() for part in sorted([path, *path.rglob("*")]) if part.is_file()}
