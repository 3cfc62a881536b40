"""Scores of every release, so that a version that moves a number is seen.

    python -m tools.golden release 0.6.0

keeps the scores of `results.json` under the version's name. `moved` compares two releases.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "golden" / "releases"
TOLERANCE = 1e-5
# capscore's own version, and those of packages, which every signature names
_VERSION = re.compile(r"(?<=version:)[^|]+|(?<=[a-z]-)\d+(?:\.\d+)+")

Scores = dict[str, dict[str, Any]]


def keep(version: str, results: dict[str, Any]) -> Path:
    """Write the scores of golden results as those of a version."""
    path = FOLDER / f"{version}.json"
    lines = ",\n".join(f"{json.dumps(place)}: {json.dumps(one)}" for place, one in scores_in(results).items())
    path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    return path


def kept() -> dict[str, Scores]:
    """Version → its scores, oldest version first."""
    paths = sorted(FOLDER.glob("*.json"), key=lambda path: [int(part) for part in path.stem.split(".")])
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def scores_in(results: dict[str, Any]) -> Scores:
    """Place in the golden results of metrics → signature without versions, and scores."""
    metrics = {name: case for name, case in results.items() if name.startswith("metrics/")}
    return {place: one for name, case in metrics.items() for place, one in _found(case, name)}


def _found(value: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if not isinstance(value, dict):
        return
    if isinstance(value.get("scores"), list) and isinstance(value.get("signature"), str):
        yield place, {"signature": _VERSION.sub("*", value["signature"]), "scores": value["scores"]}
    for key, item in value.items():
        yield from _found(item, f"{place}/{key}")


def moved(before: Scores, after: Scores) -> dict[str, float]:
    """Place → largest difference, where scores differ although the signature says that they are comparable.

    Numbers count as the same within 1e-5, or, if they are large, within that share of them.
    """
    found: dict[str, float] = {}
    for place in sorted(before.keys() & after.keys()):
        if before[place]["signature"] == after[place]["signature"]:
            difference = _largest(before[place]["scores"], after[place]["scores"])
            found |= {place: difference} if difference else {}
    return found


def _largest(old: list[Any], new: list[Any]) -> float:
    pairs = [(a, b) for a, b in zip(old, new, strict=False) if a != b]
    if len(old) != len(new) or any(None in pair for pair in pairs):
        return math.inf
    moved = [abs(a - b) for a, b in pairs if not math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)]
    return max(moved, default=0.0)
