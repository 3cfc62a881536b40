"""`python -m speed`: measures time and memory, each part in its own process, and prints a table of each.

The heading of a part ends with the option that measures it alone. A slow machine causes no failure: the exit
code is 0 whenever the measuring itself worked.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .figures import Figure, cores

ROOT = Path(__file__).resolve().parents[1]
# part (a module beside this one, with `measure`) → its heading
PARTS = {
    "flickr": "Rows like Flickr8k-Expert's, ViT-B/32",
    "embedded": "The embedded backbone",
    "infometic": "InfoMetIC beside MCS, on the embedded backbone",
    "judge": "A judge beside the bare passes of its model",
    "cached": "Rows from the cache",
    "training": "A training step",
    "bootstrap": "Agreement with people, bootstrapped",
    "cider": "CIDEr on rows like Flickr8k-Expert's",
    "meteor": "METEOR beside the Java program",
    "startup": "Start",
    "memory": "Peak memory of a process",
}
# no look-ups on the Hub, and no progress bars in the table
QUIET = {"HF_HUB_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m speed", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer rows, photos and repetitions: under ten minutes; rougher numbers",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    parser.add_argument("--only", choices=PARTS, action="append", help="only this part; repeatable")
    arguments = parser.parse_args()

    parts: dict[str, list[Figure]] = {}
    load_before = _load()
    for part in arguments.only or PARTS:
        print(f"measuring: {PARTS[part]} …", file=sys.stderr, flush=True)
        parts[part] = _measure_apart(part, arguments.quick)
        _console().print(_table(f"{PARTS[part]} (--only {part})", parts[part]))
    machine = {**_machine(), "load_before": load_before, "load_after": _load(), "quick": arguments.quick}
    if arguments.json:
        rows = {part: [_plain(figure) for figure in figures] for part, figures in parts.items()}
        beside = arguments.json.with_name(f"{arguments.json.name}.part")
        beside.write_text(json.dumps({"machine": machine, "figures": rows}, ensure_ascii=False, indent=1))
        beside.replace(arguments.json)
    _print_end([figure for figures in parts.values() for figure in figures], machine)


def _measure_apart(part: str, quick: bool) -> list[Figure]:
    """Measure one part in a fresh process, without the memory, threads or imports of other parts."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        code = (
            "import sys; from speed.__main__ import _measure_here; "
            "_measure_here(sys.argv[1], sys.argv[2] == 'quick', sys.argv[3])"
        )
        command = [sys.executable, "-c", code, part, "quick" if quick else "full", str(file)]
        subprocess.run(command, cwd=ROOT, env={**os.environ, **QUIET}, check=True)
        return [Figure(**figure) for figure in json.loads(file.read_text())]


def _measure_here(part: str, quick: bool, file: str) -> None:
    figures = importlib.import_module(f"speed.{part}").measure(quick)
    Path(file).write_text(json.dumps([asdict(figure) for figure in figures]))


def _plain(figure: Figure) -> dict[str, object]:
    return {**asdict(figure), "met": figure.met}


def _machine() -> dict[str, object]:
    from importlib.metadata import version

    packages = ("torch", "open_clip_torch", "transformers", "numpy", "pillow")
    return {
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


def _load() -> float | None:
    """Programs that wanted a core over the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _console() -> Any:
    from rich.console import Console

    return Console(width=80, highlight=False)


def _print_end(figures: list[Figure], machine: dict[str, object]) -> None:
    console = _console()
    aims = sum(figure.met is not None for figure in figures)
    console.print(f"{sum(figure.met is True for figure in figures)} of {aims} targets met.")
    console.print(_named(machine))
    if machine["quick"]:
        console.print("Quick run: fewer rows, photos and repetitions than the targets are meant for.")
    if any(figure.disturbed for figure in figures):
        console.print("* Other programs were at work in every repetition: measure again on a quiet machine.")


def _table(title: str, figures: list[Figure]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, width=80)
    table.add_column(title, ratio=1)
    for heading, width in (("value", 9), ("target", 10), ("met", 3), ("noise", 5)):
        table.add_column(heading, justify="right", no_wrap=True, width=width)
    for figure in figures:
        sign = "≤" if figure.at_most else "≥"
        table.add_row(
            figure.what,
            figure.unit.format(figure.value) + ("*" if figure.disturbed else " "),
            "" if figure.target is None else f"{sign} {figure.unit.format(figure.target)}",
            {True: "yes", False: "[red]NO[/red]", None: ""}[figure.met],
            "" if figure.noise is None else f"{figure.noise:.0%}",
        )
    table.add_row()
    return table


def _named(machine: dict[str, object]) -> str:
    parts = [f"CPU only, {machine['cores']} cores", str(machine["system"]), f"Python {machine['python']}"]
    parts += [f"{name} {machine[name]}" for name in ("torch", "open_clip_torch", "pillow")]
    return f"{', '.join(parts)}; load {machine['load_before']} before, {machine['load_after']} after."


if __name__ == "__main__":
    main()
