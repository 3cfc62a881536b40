"""What the studies measured of a run → one table: what ships, this run, what is to be held.

    python -m weights.measuring.summary --run build/training

In: the folder into which `make measure-embedded`, `measure-embedded-infometic` and `…-image-tower` wrote
their results; what they lack is listed as not measured. Out: a table in Markdown of the figures of
`summary.yaml`, which has those of the weights that ship, by the same commands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from capscore.errors import InputError
from capscore.tables import Table, fixed
from weights.making.jsonl import beside
from weights.making.settings import command

from .figures import FILES, MaybePath, write_results

STUDIES = ("pr_mcs", "image_tower", "marks", "changed_captions")
# where, times what, title, value of the weights that ship, "at least" or "at most", bound
WANTED: list[tuple[str, float, str, float | None, str, float]] = beside(__file__, "summary.yaml")
# Texts that name an entry of a list
_NAMES = ("benchmark", "config", "data", "language", "metric", "name")


def values_at(content: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Path and value of everything in a study's file; an entry of a list is named by its texts or number.

    >>> dict(values_at({"runs": [{"data": "a.jsonl", "language": "en", "n": 2}], "r@1": [0.5]}, "study"))
    {'study/runs/a.jsonl/en/data': 'a.jsonl', ..., 'study/runs/a.jsonl/en/n': 2, 'study/r@1/0': 0.5}
    """
    if isinstance(content, dict):
        for name, value in content.items():
            yield from values_at(value, f"{path}/{name}")
    elif isinstance(content, list):
        for number, value in enumerate(content):
            names = (
                [value[name] for name in _NAMES if value.get(name)] if isinstance(value, dict) else [number]
            )
            yield from values_at(value, "/".join([path, *map(str, names)]))
    else:
        yield path, content


def measured_figures(folder: Path) -> dict[str, float | None]:
    """Title → figure in percent, of all files of studies in the folder; InputError if there is none."""
    values: dict[str, Any] = {}
    for name in STUDIES:
        if (path := folder / f"{name}.json").exists():
            values.update(values_at(json.loads(path.read_text(encoding="utf-8")), name))
    if not values:
        raise InputError(f"{folder} has none of {', '.join(STUDIES)} (.json): measure first")
    found: dict[str, float | None] = {}
    for where, times, title, *_ in WANTED:
        of_backbones = [value for path, value in values.items() if fnmatchcase(path, where)]
        if of_backbones and of_backbones[-1] is not None:
            found[title] = times * of_backbones[-1]
    return found


@command(run="folder of the studies' results", **FILES)
def main(run: Path, **files: MaybePath) -> None:
    found = measured_figures(run)
    rows = []
    for _, _, title, shipped, holds, bound in WANTED:
        value, held = found.get(title), "not measured"
        if value is not None:
            is_held = value >= bound if holds == "at least" else value <= bound
            held = "yes" if is_held else "no"
        rows.append([title, fixed(shipped, 1), fixed(value, 1), f"{holds} {bound:g}", held])
    heads = ("in percent", "shipped", "this run", "to hold", "held")
    write_results(files, found, [Table(heads, rows, "On photos that nothing was trained on")])


if __name__ == "__main__":
    main()
