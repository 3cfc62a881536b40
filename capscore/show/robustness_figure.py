"""Runs of perturbed captions → bars and lines, as in Figures 3 and 6 of Kim et al. (2023)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..benchmark.robustness.run import RobustnessRun
from ..benchmark.robustness.table import Group, averages, groups
from ..errors import CapscoreError
from .benchmark_figure import add_legend, figure_class, save_figure
from .robustness_table import SHORT, metric_heading

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours are distinct with every kind of colour vision; shapes differ too
_ORIGINAL, _PERTURBED = "#0072B2", "#D55E00"
_COLOURS = ("#0072B2", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_MARKERS = "osD^vPX"


def write_bars(runs: Sequence[RobustnessRun], path: str | Path) -> Path:
    """Draw the mean scores of original and perturbed captions, two bars per language.

    Each data set and metric has a row of panels, each perturbation a panel.

    Args:
        runs: At least one run.
        path: File that ends in .png, .svg or .pdf.

    Raises:
        MissingExtraError: matplotlib is not installed.
        CapscoreError: another suffix, or nothing to draw.
        ResultWriteError: the file cannot be written.
    """
    rows = [(group, metric) for group in _drawn(runs) for metric in group.metrics]
    kinds = {number: _kinds(group) for number, (group, _) in enumerate(rows)}
    width = max(map(len, kinds.values()))
    figure = figure_class()(figsize=(1.2 + 1.9 * width, 0.6 + 1.9 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), width, squeeze=False, sharey="row")
    for number, (group, metric) in enumerate(rows):
        for place, panel in enumerate(panels[number]):
            if place >= len(kinds[number]):
                panel.set_axis_off()
                continue
            _draw_bars(panel, group, metric, kinds[number][place])
        panels[number][0].set_ylabel(f"{group.name}\n{metric_heading(group, metric)}", fontsize=7)
    add_legend(figure, [panels[0][0]], ncols=4, fontsize=8)
    return save_figure(figure, path)


def _draw_bars(panel: Axes, group: Group, metric: str, kind: str) -> None:
    found = [(run, result) for run, result in group.results(metric) if kind in result.parts]
    at = np.arange(len(found))
    parts = [result.parts[kind] for _, result in found]
    panel.bar(at - 0.2, [part.original or 0 for part in parts], 0.38, color=_ORIGINAL, label="original")
    panel.bar(at + 0.2, [part.perturbed or 0 for part in parts], 0.38, color=_PERTURBED, label="perturbed")
    panel.set_xticks(at, [run.language for run, _ in found], fontsize=7)
    panel.tick_params(axis="y", labelsize=7)
    panel.set_title(kind, fontsize=8)
    _tidy(panel)


def write_lines(runs: Sequence[RobustnessRun], path: str | Path) -> Path:
    """Draw the drop under each perturbation, averaged over languages; panels are data sets, lines metrics.

    Published averages over the same languages are dashed. Arguments and errors are those of `write_bars`.
    """
    found = _drawn(runs)
    figure = figure_class()(figsize=(max(5.0, 4.6 * len(found)), 4.0), layout="constrained")
    panels = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    for panel, group in zip(panels, found, strict=True):
        kinds = _kinds(group)
        for number, metric in enumerate(group.metrics):
            both = averages(group, metric)
            colour, marker = _COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)]
            for place, style, name in ((0, "-", metric), (1, "--", f"{metric}, published")):
                values = [both.get(f"drop_{kind}", (None, None))[place] for kind in kinds]
                if any(value is not None for value in values):
                    points = [np.nan if value is None else 100 * value for value in values]
                    panel.plot(kinds, points, style, marker=marker, color=colour, label=name, markersize=4)
        panel.axhline(0, color="0.6", linewidth=0.8)
        panel.set_title(f"{group.name} ({', '.join(run.language for run in group.runs)})", fontsize=9)
        panel.set_xticks(
            range(len(kinds)), [SHORT.get(kind, kind) for kind in kinds], rotation=45, fontsize=7
        )
        panel.tick_params(axis="y", labelsize=7)
        _tidy(panel)
    panels[0].set_ylabel("change of the mean score, percent", fontsize=8)
    add_legend(figure, panels, ncols=4, fontsize=8)
    return save_figure(figure, path)


def _drawn(runs: Sequence[RobustnessRun]) -> list[Group]:
    found = groups(runs)
    if not found:
        raise CapscoreError("there is no measured number to draw")
    return found


def _kinds(group: Group) -> list[str]:
    return [*group.kinds(unseen=False), *group.kinds(unseen=True)]


def _tidy(panel: Axes) -> None:
    panel.grid(axis="y", color="0.9")
    panel.set_axisbelow(True)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
