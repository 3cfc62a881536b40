"""Draw the logs of runs: losses and evaluations by step.

    python -m training.plot runs/a                      # → runs/a/log.png
    python -m training.plot runs/a runs/b --to ab.png   # several in one picture

In: folders of runs. Out: a .png, .svg or .pdf, with one panel per loss or kind of evaluation.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capscore.errors import CapscoreError
from capscore.files.whole_file import whole_file
from capscore.show.benchmark_figure import KINDS, figure_class
from training.engine.config import main
from training.engine.training_log import read_log

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours for colour-blind readers, without yellow, which is faint on white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", ":", "-.")
_COLUMNS = 3
# A loss that falls by this factor has a logarithmic axis.
_LOGARITHMIC = 20
_RATE = "learning rate"

# panel → curve → (steps, values)
Panels = dict[str, dict[str, tuple[list[int], list[float]]]]


def plot(outs: Sequence[str | Path], path: str | Path | None = None) -> Path:
    """Draw the logs of runs.

    Args:
        outs: Folders of runs. With more than one, curves are named by their folders too.
        path: File of the picture; None for `log.png` in the first folder.

    Returns:
        The file of the picture.

    Raises:
        CapscoreError: no log, an empty log, or a suffix other than .png, .svg and .pdf.
        MissingExtraError: matplotlib is not installed.
        ResultWriteError: the picture cannot be written.
    """
    if not outs:
        raise CapscoreError("no folder of a run was given")
    path = Path(path) if path is not None else Path(outs[0]).expanduser() / "log.png"
    if path.suffix.lower() not in KINDS:
        raise CapscoreError(f"{path}: expected a figure with the suffix {', '.join(KINDS)}")
    new_figure = figure_class()
    panels: Panels = {}
    names = [Path(out).expanduser().resolve().name for out in outs]
    for out, name in zip(outs, names, strict=True):
        lines = read_log(out)
        if not lines:
            raise CapscoreError(f"the log in {out} is empty so far")
        _add(panels, lines, f"{name} " if len(outs) > 1 else "")
    rows = -(-len(panels) // _COLUMNS)
    columns = min(_COLUMNS, len(panels))
    figure = new_figure(figsize=(4.6 * columns, 3.2 * rows + 0.3), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for axis, (title, curves) in zip(axes, panels.items(), strict=False):
        _draw(axis, title, curves)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    figure.suptitle(", ".join(names))
    with whole_file(path, "figure", make_folders=True) as file:
        figure.savefig(file, format=path.suffix[1:].lower(), dpi=120)
    return path


def _add(panels: Panels, lines: Sequence[dict[str, Any]], run: str) -> None:
    """Sort a log's numbers into panels: one per loss, one per measure of the evaluations."""

    def add(panel: str, curve: str, step: int, value: float | None) -> None:
        if value is not None:
            steps, values = panels.setdefault(panel, {}).setdefault((run + curve).strip(), ([], []))
            steps.append(step)
            values.append(value)

    for line in lines:
        for name, value in line.get("losses", {}).items():
            add(name, "", line["step"], value)
    for line in lines:
        for name, value in line.get("evaluation", {}).items():
            subject, _, measure = name.rpartition(" ")
            add(f"evaluation: {measure}", subject, line["step"], value)
    for field, title in (("grad_norm", "gradient's norm"), ("lr", _RATE)):
        for line in lines:
            add(title, "", line["step"], line.get(field))


def _draw(axis: Axes, title: str, curves: dict[str, tuple[list[int], list[float]]]) -> None:
    for number, (name, (steps, values)) in enumerate(curves.items()):
        axis.plot(
            steps,
            values,
            label=name,
            color=_COLOURS[number % len(_COLOURS)],
            linestyle=_STYLES[number // len(_COLOURS) % len(_STYLES)],
            marker="o" if len(steps) < 30 else None,
            markersize=3,
        )
    everything = [value for _, values in curves.values() for value in values]
    if title == _RATE:
        axis.set_ylim(bottom=0)
    elif not title.startswith("evaluation") and 0 < _LOGARITHMIC * min(everything) < max(everything):
        axis.set_yscale("log")
    axis.set_title(title)
    axis.set_xlabel("step")
    axis.grid(alpha=0.3)
    if any(curves):
        axis.legend(frameon=False, fontsize="small")


def _command() -> None:
    parser = argparse.ArgumentParser(description="Draw losses and evaluations of runs.")
    parser.add_argument("out", nargs="+", help="folder of a run")
    parser.add_argument("--to", metavar="FILE", help="a .png, .svg or .pdf; log.png in the first folder")
    given = parser.parse_args()
    print(plot(given.out, given.to))


if __name__ == "__main__":
    main(_command)
