"""Draw the logs of runs: losses and evaluations by step.

    python -m training.plot runs/a                      # → runs/a/log.png
    python -m training.plot runs/a runs/b --to ab.png   # several in one picture

In: folders of runs. Out: a .png, .svg or .pdf with few panels: the loss, its parts, one per kind of
evaluation number, gradient and learning rate. Colours tell curves apart, line styles tell runs apart.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from capscore.errors import CapscoreError, MissingExtraError
from capscore.files.write import whole_file
from training.engine.config import main
from training.engine.training_log import read_log

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = (".png", ".svg", ".pdf")
# Okabe and Ito's colours for colour-blind readers, without yellow, which is faint on white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", ":", "-.")
_COLUMNS = 3
# A loss that falls by this factor has a logarithmic axis.
_LOGARITHMIC = 20
_LOSS, _PARTS, _RATE, _NORM = "loss", "parts of the loss", "learning rate", "norm of the gradient"
_EVALUATION = "evaluation"
# A curve with more points than this has its running mean drawn on top.
_MANY = 60


class Curve(NamedTuple):
    """A curve of a panel: its name, "" for the panel's only number, and its run, "" for the only run."""

    name: str
    run: str

    @property
    def label(self) -> str:
        """Entry in the legend."""
        return " ".join(part for part in (self.run, self.name) if part)


# curve → (steps, values)
Curves = dict[Curve, tuple[list[int], list[float]]]
Panels = dict[str, Curves]


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
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "figures", "a figure") from None
    panels: Panels = {}
    names = [Path(out).expanduser().resolve().name for out in outs]
    for out, name in zip(outs, names, strict=True):
        lines = read_log(out)
        if not lines:
            raise CapscoreError(f"the log in {out} is empty so far")
        _add(panels, lines, name if len(outs) > 1 else "")
    rows = -(-len(panels) // _COLUMNS)
    columns = min(_COLUMNS, len(panels))
    figure = Figure(figsize=(4.6 * columns, 3.2 * rows + 0.3), layout="constrained")
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
    """Sort a log's numbers into panels."""

    def add(panel: str, curve: str, step: int, value: float | None) -> None:
        if value is not None:
            curves = panels.setdefault(panel, {})
            steps, values = curves.setdefault(Curve(curve, run), ([], []))
            steps.append(step)
            values.append(value)

    for line in lines:
        for name, value in line.get("losses", {}).items():
            add(_LOSS if name == "loss" else _PARTS, "" if name == "loss" else name, line["step"], value)
    for line in lines:
        for name, value in line.get("evaluation", {}).items():
            add(*panel_of(name), line["step"], value)
    for field, title in (("grad_norm", _NORM), ("lr", _RATE)):
        for line in lines:
            add(title, "", line["step"], line.get(field))


def panel_of(name: str) -> tuple[str, str]:
    """Panel and curve of an evaluation number: numbers of one kind share a panel.

    >>> panel_of("de cosine"), panel_of("drop_removal"), panel_of("text_to_image_r@1")
    (('evaluation: cosine', 'de'), ('evaluation: drop', 'removal'), ('evaluation: R@1', 'text to image'))
    >>> panel_of("words_right")
    ('evaluation', 'words right')
    """
    subject, _, measure = name.rpartition(" ")
    if subject:
        return f"{_EVALUATION}: {measure}", subject
    if name.startswith("drop_"):
        return f"{_EVALUATION}: drop", name.removeprefix("drop_").replace("_", " ")
    before, at, k = name.rpartition("_r@")
    if at:
        return f"{_EVALUATION}: R@{k}", before.replace("_", " ")
    return _EVALUATION, name.replace("_", " ")


def _draw(axis: Axes, title: str, curves: Curves) -> None:
    from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

    names = list(dict.fromkeys(curve.name for curve in curves))
    runs = list(dict.fromkeys(curve.run for curve in curves))
    for curve, (steps, values) in curves.items():
        number = names.index(curve.name) if len(names) > 1 else runs.index(curve.run)
        look: dict[str, Any] = {
            "color": _COLOURS[number % len(_COLOURS)],
            "linestyle": _STYLES[runs.index(curve.run) % len(_STYLES)],
        }
        few = len(steps) <= _MANY or title == _RATE
        marker = "o" if len(steps) < 30 else None
        axis.plot(
            steps,
            values,
            label=curve.label if few else None,
            marker=marker,
            markersize=3,
            alpha=1 if few else 0.25,
            **look,
        )
        if not few:
            axis.plot(steps, _running_mean(values), label=curve.label, **look)
    everything = [value for _, values in curves.values() for value in values]
    least, most = min(everything), max(everything)
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    if not title.startswith(_EVALUATION) and title != _RATE and 0 < _LOGARITHMIC * least < most:
        axis.set_yscale("log")
    else:
        axis.yaxis.set_major_locator(MaxNLocator(5))
        if most - least < 1e-3 * max(abs(most), 1e-12):  # a constant: digits of its noise say nothing
            middle, half = (most + least) / 2, 0.05 * max(abs(most), 1e-12)
            axis.set_ylim(middle - half, middle + half)
    if title == _RATE:
        axis.set_ylim(bottom=0)
    digits = _digits(axis.get_yticks())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.{digits}g}"))
    axis.set_title(title)
    axis.set_xlabel("step")
    axis.grid(alpha=0.3)
    if any(curve.label for curve in curves):
        axis.legend(frameon=False, fontsize="small")


def _digits(ticks: Sequence[float] | np.ndarray) -> int:
    """Significant digits that tell an axis' ticks apart: 3, or more where they are close together.

    >>> _digits([1.87, 1.875, 1.88, 1.885]), _digits([0, 0.5, 1])
    (4, 3)
    """
    return next(
        (
            n
            for n in range(3, 7)
            if len({f"{tick:.{n}g}" for tick in ticks}) == len({float(tick) for tick in ticks})
        ),
        7,
    )


def _running_mean(values: Sequence[float]) -> np.ndarray:
    """Mean of each value and its neighbours, a twentieth of all at each side, (n,)."""
    array = np.asarray(values, np.float64)
    half = max(1, len(array) // 20)
    sums = np.concatenate([[0.0], array.cumsum()])
    first = np.maximum(np.arange(len(array)) - half, 0)
    last = np.minimum(np.arange(len(array)) + half + 1, len(array))
    return (sums[last] - sums[first]) / (last - first)


def _command() -> None:
    parser = argparse.ArgumentParser(description="Draw losses and evaluations of runs.")
    parser.add_argument("out", nargs="+", help="folder of a run")
    parser.add_argument("--to", metavar="FILE", help="a .png, .svg or .pdf; log.png in the first folder")
    given = parser.parse_args()
    print(plot(given.out, given.to))


if __name__ == "__main__":
    main(_command)
