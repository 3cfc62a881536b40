"""Measured statistics with intervals, beside published ones → a figure with one panel per benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..benchmarks.run import BenchmarkRun
from ..errors import CapscoreError, MissingExtraError
from ..files.whole_file import whole_file
from .benchmark_table import confidence_text, metric_name, statistic_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = (".png", ".svg", ".pdf")
# Okabe and Ito's blue and vermilion are distinct with every kind of colour vision; shapes differ too
_MEASURED, _PUBLISHED = "#0072B2", "#D55E00"


def figure_class() -> type[Figure]:
    """matplotlib's `Figure`.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "figures", "a figure") from error
    return Figure


def write_figure(runs: Sequence[BenchmarkRun], path: str | Path) -> Path:
    """Draw the statistics of runs. The file gets its name once it is complete.

    Args:
        runs: Runs, at least one of them with a measured number.
        path: File that ends in .png, .svg or .pdf.

    Raises:
        MissingExtraError: matplotlib is not installed.
        CapscoreError: another suffix, or nothing to draw.
        ResultWriteError: the file cannot be written.
    """
    new_figure = figure_class()
    runs = [
        run for run in runs if any(s.value is not None for r in run.results for s in r.outcome.statistics)
    ]
    if not runs:
        raise CapscoreError("there is no measured number to draw")
    rows = [sum(len(result.outcome.statistics) for result in run.results) for run in runs]
    longest = max(len(name) for run in runs for name in _names(run))
    figure = new_figure(
        figsize=(max(7.5, 4.5 + 0.075 * longest), 0.9 * len(runs) + 0.3 * sum(rows) + 0.6),
        layout="constrained",
    )
    panels = figure.subplots(len(runs), 1, squeeze=False, height_ratios=[n + 1.5 for n in rows])[:, 0]
    for panel, run in zip(panels, runs, strict=True):
        _draw(panel, run)
    add_legend(figure, panels, ncols=3)
    return save_figure(figure, path)


def add_legend(figure: Figure, panels: Iterable[Axes], **options: Any) -> None:
    """Put one legend for all panels below them; options as in `Figure.legend`."""
    legend: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        legend.update(zip(labels, handles, strict=True))
    figure.legend(legend.values(), legend.keys(), loc="outside lower center", frameon=False, **options)


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure. The file gets its name once it is complete.

    Raises:
        CapscoreError: the suffix is not one of `KINDS`.
        ResultWriteError: the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in KINDS:
        raise CapscoreError(f"{path}: a figure is one of {', '.join(KINDS)}")
    with whole_file(path, "figure", make_folders=True) as file:
        figure.savefig(file, format=path.suffix[1:].lower(), dpi=150)
    return path


def _names(run: BenchmarkRun) -> list[str]:
    return [
        f"{metric_name(result)}  {statistic_name(statistic.name)}"
        for result in run.results
        for statistic in result.outcome.statistics
    ]


def _draw(panel: Axes, run: BenchmarkRun) -> None:
    at = 0
    for result in run.results:
        for statistic in result.outcome.statistics:
            value = None if statistic.value is None else 100 * statistic.value
            if value is not None:
                if statistic.interval is not None:
                    low, high = (100 * bound for bound in statistic.interval)
                    label = f"{confidence_text(run)} interval"
                    panel.plot([low, high], [at, at], color=_MEASURED, linewidth=2, alpha=0.6, label=label)
                panel.plot(value, at, "o", color=_MEASURED, markersize=6, label="measured")
                shown = f"{value:.1f}".replace("-", "−")  # as on the axis
                panel.annotate(
                    shown, (value, at), (0, 6), textcoords="offset points", ha="center", fontsize=7
                )
            for entry in result.published.get(statistic.name, [])[:1]:
                panel.plot(
                    100 * entry.measured_unit,
                    at,
                    "D",
                    color=_PUBLISHED,
                    markersize=6,
                    fillstyle="none",
                    markeredgewidth=1.6,
                    label="published",
                )
            at += 1
    panel.set_yticks(range(at), _names(run), fontsize=8)
    panel.set_ylim(at - 0.4, -0.7)
    panel.margins(x=0.08)
    panel.grid(axis="x", color="0.9")
    panel.set_axisbelow(True)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
    panel.tick_params(axis="y", length=0)
    panel.set_title(f"{run.name} (×100)", loc="left", fontsize=9, fontweight="bold")
