"""What the studies measured of a run → one table: what ships, this run, what is to be held.

    python -m weights.measuring.summary --run build/training

In: the folder into which `make measure-embedded`, `measure-embedded-infometic` and `…-image-tower` wrote
`pr_mcs.json`, `marks.json` and `image_tower.json`; what they lack is listed as not measured. Out: a table in
Markdown of the figures of `summary.yaml`, which has those of the weights that ship, by the same commands.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from capscore.errors import InputError
from capscore.tables import Report, Table, fixed
from training.engine.config import main as run_as_command
from weights.making.jsonl import beside

# Key of a figure, and its value in percent.
Measured = Iterator[tuple[str, float | None]]
_HOLDS: dict[str, Callable[[float, float], bool]] = {
    "at least": lambda value, bound: value >= bound,
    "at most": lambda value, bound: value <= bound,
}


class Wanted(NamedTuple):
    key: str
    title: str
    shipped: float | None  # value of the weights that ship
    holds: str  # "at least" or "at most"
    bound: float


def of_pr_mcs(document: Mapping[str, Any]) -> Measured:
    """Drops, right captions below half by style, and what is kept of gamed captions, of the last backbone."""
    for measured in document["sets"]:
        (run,) = measured["every_kind"]["runs"]
        key = f"pr_mcs/{run['data']}/{run['language']}"
        statistics = {one["name"]: one["measured"] for one in run["results"][-1]["statistics"]}
        yield f"{key}/drop", _percent(statistics["drop_average"], -100)
        for styles in measured["every_kind"].get("styles", []):
            for name, numbers in styles["results"][-1]["styles"].items():
                yield f"{key}/below half/{name}", _percent(numbers["below_half"])
    for name, kept in document["gaming"].items():
        yield f"pr_mcs/gaming/{name}", 100 * [*kept.values()][-1]


def of_image_tower(document: Mapping[str, Any]) -> Measured:
    for figure in document["backbones"][-1]["measures"]:
        yield f"image_tower/{figure['key']}", figure["value"]


def of_marks(document: Mapping[str, Any]) -> Measured:
    """Shares by language, and those of captions with a planted word by its kind."""
    for language, found in document["languages"].items():
        marked = {kind: shares["marked"] for kind, shares in found["kinds"].items()}
        for name, share in {**found, **marked}.items():
            if name != "kinds":
                yield f"marks/{language}/{name}", _percent(share)


def _percent(share: float | None, of_one: float = 100) -> float | None:
    return None if share is None else of_one * share


STUDIES: dict[str, Callable[[Mapping[str, Any]], Measured]] = {
    "pr_mcs.json": of_pr_mcs,
    "image_tower.json": of_image_tower,
    "marks.json": of_marks,
}


def read_wanted() -> list[Wanted]:
    return [Wanted(*entry) for entry in beside(__file__, "summary.yaml")]


def measured_figures(folder: Path) -> dict[str, float | None]:
    """Key → figure in percent of all studies whose files are in the folder; InputError if there is none."""
    found: dict[str, float | None] = {}
    for name, read in STUDIES.items():
        if (path := folder / name).exists():
            try:
                found.update(read(json.loads(path.read_text(encoding="utf-8"))))
            except (ValueError, KeyError, TypeError, IndexError) as error:
                said = f"{type(error).__name__}: {error}"
                raise InputError(f"{path} is not what weights.measuring writes ({said})") from None
    if not found:
        raise InputError(f"{folder} has none of {', '.join(STUDIES)}: measure first")
    return found


def summary(wanted: Sequence[Wanted], found: Mapping[str, float | None]) -> Report:
    rows = []
    for figure in wanted:
        value = found.get(figure.key)
        held = "not measured"
        if value is not None:
            held = "yes" if _HOLDS[figure.holds](value, figure.bound) else "no"
        bound = f"{figure.holds} {figure.bound:g}"
        rows.append([figure.title, fixed(figure.shipped, 1), fixed(value, 1), bound, held])
    heads = ("in percent", "shipped", "this run", "to hold", "held")
    return Report("", [Table(heads, rows, "On photos that nothing was trained on")])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", type=Path, required=True, help="folder of the studies' results")
    given = parser.parse_args(argv)
    print(summary(read_wanted(), measured_figures(given.run)).markdown())


if __name__ == "__main__":
    run_as_command(main)
