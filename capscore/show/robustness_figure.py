"""Runs of perturbed captions → bars and dots, as in Figures 3 and 6 of Kim et al. (2023)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..benchmarks.robustness.run import RobustnessRun
from ..benchmarks.robustness.table import Group, averages, groups
from ..errors import CapscoreError
from .benchmark_figure import add_legend, figure_class, save_figure
from .robustness_table import metric_heading

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


def write_dots(runs: Sequence[RobustnessRun], path: str | Path) -> Path:
    """Draw the drop under each perturbation; panels are data sets, colours and shapes are metrics.

    A whisker is the bootstrap interval of a single language, or the range over several languages, of which
    the dot is the mean. A hollow dot is the published value for the same languages. Kinds of perturbation
    have no order, so no line joins them. Arguments and errors are those of `write_bars`.
    """
    found = _drawn(runs)
    heights = [0.55 + 0.17 * len(_kinds(group)) * (len(group.metrics) + 1) for group in found]
    labels = {label for group in found for label in _dot_labels(group)}
    columns = 2 if max(map(len, labels)) <= 36 else 1
    height = sum(heights) + 0.5 + 0.17 * (-(-len(labels) // columns)) + 0.2 * len(found)
    figure = figure_class()(figsize=(7.5, height), layout="constrained")
    panels = figure.subplots(len(found), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, group in zip(panels, found, strict=True):
        _draw_dots(panel, group)
    panels[-1].set_xlabel("change of the mean score, percent", fontsize=8)
    add_legend(figure, panels, ncols=columns, fontsize=8)
    return save_figure(figure, path)


def _draw_dots(panel: Axes, group: Group) -> None:
    kinds, n = _kinds(group), len(group.metrics)
    for number, metric in enumerate(group.metrics):
        look: dict[str, Any] = {
            "color": _COLOURS[number % len(_COLOURS)],
            "marker": _MARKERS[number % len(_MARKERS)],
        }
        below = 0.6 * ((number + 0.5) / n - 0.5)
        drops = dot_drops(group, metric, kinds)
        for place, drop in enumerate(drops):
            if drop.mean is None:
                continue
            if drop.low is not None and drop.high is not None:
                ends = [100 * drop.low, 100 * drop.high]
                panel.plot(ends, [place + below] * 2, color=look["color"], linewidth=1.5, alpha=0.6)
            panel.plot(100 * drop.mean, place + below, linestyle="", markersize=5, label=metric, **look)
        for place, drop in enumerate(drops):
            if drop.published is not None:
                panel.plot(
                    100 * drop.published,
                    place + below,
                    linestyle="",
                    markersize=6,
                    fillstyle="none",
                    label=f"{metric}, published",
                    **look,
                )
    panel.axvline(0, color="0.6", linewidth=0.8)
    panel.set_yticks(range(len(kinds)), kinds, fontsize=8)
    panel.set_ylim(len(kinds) - 0.4, -0.6)
    panel.tick_params(axis="x", labelsize=7)
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x", color="0.9")
    panel.set_axisbelow(True)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
    panel.set_title(_dots_title(group), loc="left", fontsize=9)


class Drop(NamedTuple):
    """A drop as the figure shows it: mean over the languages, ends of the whisker, published mean."""

    mean: float | None
    low: float | None
    high: float | None
    published: float | None


def dot_drops(group: Group, metric: str, kinds: Sequence[str]) -> list[Drop]:
    """Drops of a metric under each kind, as shares of the original mean."""
    both = averages(group, metric)
    results = [result for _, result in group.results(metric)]
    found = []
    for kind in kinds:
        name = f"drop_{kind}"
        mean, published = both.get(name, (None, None))
        if len(results) == 1:
            low, high = results[0].intervals.get(name) or (None, None)
        else:
            values = [part.drop for result in results if (part := result.parts.get(kind)) is not None]
            present = [value for value in values if value is not None]
            low, high = (min(present), max(present)) if mean is not None else (None, None)
        found.append(Drop(mean, low, high, published))
    return found


def _dot_labels(group: Group) -> list[str]:
    names = []
    for metric in group.metrics:
        names.append(metric)
        if any(drop.published is not None for drop in dot_drops(group, metric, _kinds(group))):
            names.append(f"{metric}, published")
    return names


def _dots_title(group: Group) -> str:
    """Name, languages, what a whisker is, and whether texts stood in for photos."""
    languages = [run.language for run in group.runs]
    share = f"{100 * group.runs[0].options.confidence:g} %"
    whisker = "range over the languages"
    if len(languages) == 1:
        whisker = f"{share} interval" if group.runs[0].options.bootstrap else ""
    about = [", ".join(languages), f"whisker: {whisker}" if whisker else ""]
    if any(run.images != "photos" for run in group.runs):
        about.append("texts stand in for photos")
    title = f"{group.name} ({'; '.join(part for part in about if part)})"
    return "\n".join(textwrap.wrap(title, 95, break_on_hyphens=False))


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
