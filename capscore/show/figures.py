"""Robustness → a figure of drops by perturbation, beside published values.

Colours are those of Okabe and Ito, which are distinct with every kind of colour vision; shapes differ too.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..benchmarks.robustness.run import CONFIDENCE, RobustnessRun
from ..errors import CapscoreError, MissingExtraError
from ..files.write import whole_file
from .robustness_tables import Group, averages, groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = (".png", ".svg", ".pdf")
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_MARKERS = "osD^vPX"


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


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure; the file gets its name once it is complete. Equal figures give equal files.

    Raises:
        CapscoreError: the suffix is not one of `KINDS`.
        ResultWriteError: the file cannot be written.
    """
    import matplotlib

    path = Path(path).expanduser()
    kind = path.suffix[1:].lower()
    if f".{kind}" not in KINDS:
        raise CapscoreError(f"{path}: a figure is one of {', '.join(KINDS)}")
    settings = {"svg.fonttype": "none", "svg.hashsalt": "capscore", "pdf.fonttype": 42}
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with whole_file(path, "figure", make_folders=True) as file, matplotlib.rc_context(settings):  # type: ignore[arg-type]
        figure.savefig(file, format=kind, dpi=150, metadata=dates.get(kind))
    return path


def write_dots(runs: Sequence[RobustnessRun], path: str | Path) -> Path:
    """Draw the drop under each perturbation; panels are data sets, colours and shapes are metrics.

    A whisker is the bootstrap interval of a single language, or the range over several languages, of which
    the dot is the mean. A hollow dot is the published value for the same languages.

    Raises:
        MissingExtraError: matplotlib is not installed.
        CapscoreError: a suffix other than .png, .svg or .pdf, or nothing to draw.
        ResultWriteError: the file cannot be written.
    """
    found = groups(runs)
    if not found:
        raise CapscoreError("there is no measured number to draw")
    heights = [0.55 + 0.17 * len(group.kinds()) * (len(group.metrics) + 1) for group in found]
    labels = {metric for group in found for metric in group.metrics}
    columns = 2 if max(map(len, labels)) <= 25 else 1
    height = sum(heights) + 0.5 + 0.34 * len(labels) + 0.2 * len(found)
    figure = figure_class()(figsize=(7.5, height), layout="constrained")
    panels = figure.subplots(len(found), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, group in zip(panels, found, strict=True):
        _draw_dots(panel, group)
    panels[-1].set_xlabel("change of the mean score, percent", fontsize=8)
    legend: dict[str, Any] = {}
    for panel in panels:
        handles, names = panel.get_legend_handles_labels()
        legend.update(zip(names, handles, strict=True))
    place: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "ncols": columns, "fontsize": 8}
    figure.legend(legend.values(), legend.keys(), **place)
    return save_figure(figure, path)


def _draw_dots(panel: Axes, group: Group) -> None:
    kinds, n = group.kinds(), len(group.metrics)
    for number, metric in enumerate(group.metrics):
        color = _COLOURS[number % len(_COLOURS)]
        look: dict[str, Any] = {"color": color, "marker": _MARKERS[number % len(_MARKERS)], "linestyle": ""}
        below = 0.6 * ((number + 0.5) / n - 0.5)
        both = averages(group, metric)
        for at, name in enumerate(f"drop_{kind}" for kind in kinds):
            mean, published = both.get(name, (None, None))
            if ends := whisker(group, metric, name):
                panel.plot(
                    [100 * end for end in ends], [at + below] * 2, color=color, linewidth=1.5, alpha=0.6
                )
            if mean is not None:
                panel.plot(100 * mean, at + below, markersize=5, label=metric, **look)
            if published is not None:
                hollow: dict[str, Any] = {"fillstyle": "none", "label": f"{metric}, published"}
                panel.plot(100 * published, at + below, **hollow, **look)
    panel.axvline(0, color="0.6", linewidth=0.8)
    panel.tick_params(axis="x", labelsize=7)
    panel.grid(axis="x", color="0.9")
    panel.set_axisbelow(True)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
    panel.set_yticks(range(len(kinds)), kinds, fontsize=8)
    panel.set_ylim(len(kinds) - 0.4, -0.7)
    panel.tick_params(axis="y", length=0)
    panel.set_title(_dots_title(group), loc="left", fontsize=9)


def whisker(group: Group, metric: str, name: str) -> tuple[float, float] | None:
    """The interval of a single language, or the range over several."""
    results = [result for _, result in group.results(metric)]
    if len(results) == 1:
        statistic = results[0].statistics.get(name)
        return statistic.interval if statistic else None
    values = [value for value in (result.value(name) for result in results) if value is not None]
    return (min(values), max(values)) if len(values) == len(results) else None


def _dots_title(group: Group) -> str:
    """Name, languages, what a whisker is, and whether texts stood in for photos."""
    languages = [run.language for run in group.runs]
    whisker = "range over the languages"
    if len(languages) == 1:
        whisker = f"{100 * CONFIDENCE:g} % interval" if group.runs[0].options.bootstrap else ""
    about = [", ".join(languages), f"whisker: {whisker}" if whisker else ""]
    if any(run.images != "photos" for run in group.runs):
        about.append("texts stand in for photos")
    title = f"{group.name} ({'; '.join(part for part in about if part)})"
    return "\n".join(textwrap.wrap(title, 95, break_on_hyphens=False))
