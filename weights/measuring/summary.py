"""What the studies measured of a run → one table: what ships, this run, what is to be held.

    python -m weights.measuring.summary --run build/training

In: the folder into which `make measure-embedded`, `measure-embedded-infometic` and `…-image-tower` wrote
their results; what they lack is listed as not measured. Out: a table in Markdown of the figures of
`summary.yaml`, which has those of the weights that ship, by the same commands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from capscore.errors import InputError
from capscore.tables import Table, fixed, percent
from training.engine.config import main as run_as_command
from weights.making.jsonl import beside

from .believable_marks import SHARES
from .figures import FILES, read_options, write_results

# Key of a figure, and its value in percent.
Measured = Iterator[tuple[str, float | None]]
# key, title, value of the weights that ship, "at least" or "at most", bound
WANTED: list[tuple[str, str, float | None, str, float]] = beside(__file__, "summary.yaml")


def of_pr_mcs(document: Mapping[str, Any]) -> Measured:
    """Drops, right captions below half by style, and what is kept of gamed captions, of the last backbone."""
    for measured in document["sets"]:
        (run,) = measured["every_kind"]["runs"]
        key = f"pr_mcs/{run['data']}/{run['language']}"
        statistics = {one["name"]: one["measured"] for one in run["results"][-1]["statistics"]}
        yield f"{key}/drop", -100 * statistics["drop_average"]
        for styles in measured["every_kind"].get("styles", []):
            for name, numbers in styles["results"][-1]["styles"].items():
                yield f"{key}/below half/{name}", percent(numbers["below_half"])
    for name, found in document["texts"].items():
        yield f"pr_mcs/kept/{name}", percent([*found.values()][-1]["kept"])


def of_image_tower(document: Mapping[str, Any]) -> Measured:
    """R@k by language, and agreement by benchmark, configuration and metric, of the last backbone."""
    for language, found in [*document["search"].values()][-1].items():
        for name in ("r@1", "r@5", "r@10"):
            yield f"search/{language}/{name}", found[name][0]
    for run in document["runs"]:
        for result in run["results"]:
            metric = result["metric"].partition("@")[0]
            for one in result["statistics"]:
                key = f"{run['benchmark']}/{run['config']}/{metric}/{one['name']}"
                yield key, percent(one["measured"])


def of_marks(document: Mapping[str, Any]) -> Measured:
    """Shares by language."""
    for language, found in document["languages"].items():
        for name in SHARES:
            yield f"marks/{language}/{name}", percent(found[name])


def of_changes(document: Mapping[str, Any]) -> Measured:
    """How far the mean moves, by language and change."""
    for change, by_language in document.items():
        for language, found in by_language.items():
            yield f"changes/{language}/{change}", percent(found["change"])


STUDIES: dict[str, Callable[[Mapping[str, Any]], Measured]] = {
    "pr_mcs.json": of_pr_mcs,
    "image_tower.json": of_image_tower,
    "marks.json": of_marks,
    "changed_captions.json": of_changes,
}


def measured_figures(folder: Path) -> dict[str, float | None]:
    """Key → figure in percent of all studies whose files are in the folder; InputError if there is none."""
    found: dict[str, float | None] = {}
    for name, read in STUDIES.items():
        if (path := folder / name).exists():
            found.update(read(json.loads(path.read_text(encoding="utf-8"))))
    if not found:
        raise InputError(f"{folder} has none of {', '.join(STUDIES)}: measure first")
    return found


def main(argv: Sequence[str] | None = None) -> None:
    given = read_options(__doc__, argv, {"run": "folder of the studies' results"}, FILES)
    found = measured_figures(given.run)
    rows = []
    for key, title, shipped, holds, bound in WANTED:
        value, held = found.get(key), "not measured"
        if value is not None:
            is_held = value >= bound if holds == "at least" else value <= bound
            held = "yes" if is_held else "no"
        rows.append([title, fixed(shipped, 1), fixed(value, 1), f"{holds} {bound:g}", held])
    heads = ("in percent", "shipped", "this run", "to hold", "held")
    write_results(given, found, [Table(heads, rows, "On photos that nothing was trained on")])


if __name__ == "__main__":
    run_as_command(main)
