"""Systems that were compared in several languages → a heat map: languages down, systems and pairs across."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..benchmarks.protocols.cross_language_correlation import readable_ink
from ..benchmarks.systems.run import SystemsMetric, SystemsRun
from ..errors import CapscoreError
from .benchmark_figure import figure_class, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# both scales are readable with every kind of colour vision; the second has a middle, and dark ends
_MEANS, _DIFFERENCES = "cividis", "PuOr_r"
_CELL, _ROW = 0.62, 0.26  # inches


def write_systems_heatmap(run: SystemsRun, path: str | Path) -> Path:
    """Draw, for each metric, the mean of every system and the difference of every two, in every language.

    Differences share a scale around 0; those whose interval leaves out 0 are in bold.

    Args:
        run: Run of at least 2 systems.
        path: File that ends in .png, .svg or .pdf.

    Raises:
        CapscoreError: another suffix, fewer than 2 systems, or matplotlib is not installed.
        ResultWriteError: the file cannot be written.
    """
    if len(run.systems) < 2:
        raise CapscoreError("a heat map of differences needs at least 2 systems")
    new_figure = figure_class()
    languages = [part.language for part in run.metrics[0].languages]
    sizes = [len(run.systems), len(run.pairs)] * len(run.metrics)
    names = max(len(name) for name in run.systems)
    figure = new_figure(
        figsize=(
            max(_CELL * sum(sizes) + 1.3 * len(sizes) + 0.8, 7.0),
            _ROW * len(languages) + 2.0 + 0.05 * names,
        ),
        layout="constrained",
    )
    panels = figure.subplots(1, len(sizes), squeeze=False, width_ratios=[size + 1.2 for size in sizes])[0]
    for number, metric in enumerate(run.metrics):
        means, differences = panels[2 * number], panels[2 * number + 1]
        _draw(means, _mean_table(run, metric), languages, [*run.systems], _MEANS, f"{metric.metric}: means")
        clear = {
            (row, run.pairs.index((one.first, one.second)))
            for row, part in enumerate(metric.languages)
            for one in part.differences
            if one.is_clear
        }
        pairs = [f"{second} − {first}" for first, second in run.pairs]
        _draw(
            differences,
            _difference_table(run, metric),
            languages,
            pairs,
            _DIFFERENCES,
            f"{metric.metric}: differences",
            around_0=True,
            bold=clear,
        )
    level = f"{100 * run.options.confidence:.10g}%"
    told = f"\nbold: {level} interval leaves out 0" if run.options.bootstrap else ""
    figure.suptitle(f"{run.benchmark} ({run.split}){told}", fontsize=10)
    return save_figure(figure, path)


def _mean_table(run: SystemsRun, metric: SystemsMetric) -> np.ndarray:
    return np.array([[part.means.get(name, np.nan) for name in run.systems] for part in metric.languages])


def _difference_table(run: SystemsRun, metric: SystemsMetric) -> np.ndarray:
    rows = []
    for part in metric.languages:
        found = {(one.first, one.second): one.difference for one in part.differences}
        rows.append([found.get(pair, np.nan) for pair in run.pairs])
    return np.array(rows)


def _draw(
    panel: Axes,
    values: np.ndarray,
    languages: Sequence[str],
    columns: Sequence[str],
    scale: str,
    title: str,
    *,
    around_0: bool = False,
    bold: set[tuple[int, int]] | frozenset[tuple[int, int]] = frozenset(),
) -> None:
    import matplotlib

    known = values[~np.isnan(values)]
    high = float(np.abs(known).max() if around_0 else known.max()) or 1.0
    low = -high if around_0 else min(0.0, float(known.min()))
    colours = matplotlib.colormaps[scale].with_extremes(bad="white")
    limits: dict[str, Any] = {"vmin": low, "vmax": high}
    picture = panel.imshow(np.ma.masked_invalid(values), cmap=colours, aspect="auto", **limits)
    panel.set_xticks(
        range(len(columns)), columns, rotation=40, ha="right", rotation_mode="anchor", fontsize=8
    )
    panel.set_yticks(range(len(languages)), languages, fontsize=8)
    panel.tick_params(length=0)
    for side in panel.spines.values():
        side.set_visible(False)
    panel.set_xticks(np.arange(len(columns) - 1) + 0.5, minor=True)
    panel.set_yticks(np.arange(len(languages) - 1) + 0.5, minor=True)
    panel.grid(which="minor", color="white", linewidth=1.0)
    panel.tick_params(which="minor", length=0)
    for row, column in np.ndindex(*values.shape):
        value = values[row, column]
        missing = np.isnan(value)
        text = "–" if missing else f"{value:{'+' if around_0 else ''}.3f}".replace("-", "−")
        panel.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontsize=7,
            fontweight="bold" if (row, column) in bold else "normal",
            color="black" if missing else readable_ink(colours((value - low) / (high - low))),
        )
    panel.set_title(title, fontsize=9)
    panel.figure.colorbar(picture, ax=panel, shrink=0.6, aspect=25, location="right").ax.tick_params(
        labelsize=7
    )
