"""Reports of backbones → tables for a terminal of 80 columns, and one table in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from .figures import GROUPS, Figure, Report

if TYPE_CHECKING:
    from rich.console import Console

# backbones side by side in 80 columns
ABREAST = 2
NOT_MEASURED = "not measured"


def rows(reports: Sequence[Report]) -> Iterator[tuple[str, list[Figure | None]]]:
    """(group, the figure of each report) for every key, in the order of groups and of the first report."""
    keys = list(dict.fromkeys(figure.key for report in reports for figure in report.figures))
    found = [{figure.key: figure for figure in report.figures} for report in reports]
    for group in GROUPS:
        for key in keys:
            if key.partition("/")[0] == group:
                yield group, [own.get(key) for own in found]


def number(figure: Figure | None) -> str:
    """The value and its interval, as the tables print them.

    >>> number(Figure("expert/mcs/tau_c", "MCS", 40.13, (38.7, 41.54)))
    '40.1 [38.7–41.5]'
    >>> number(Figure("demo/mcs/ordered", "MCS", 41.0, unit="pairs", n=48)), number(None)
    ('41 of 48', '–')
    >>> number(Figure("speed/alone", "photos a second", 41.26, (9.5, 123.4), unit="photos/s"))
    '41.3 [9.5–123]'
    """
    if figure is None:
        return "–"
    if figure.missing:
        return NOT_MEASURED
    if figure.value is None:
        return "undefined"
    form = {"percent": ".1f", "photos/s": ".3g", "pairs": ".0f", "ratio": ".3g", "score": ".2f"}[figure.unit]
    shown = f"{figure.value:{form}}" + (f" of {figure.n}" if figure.unit == "pairs" else "")
    if figure.interval is not None:
        shown += " [{}]".format("–".join(f"{end:{form}}" for end in figure.interval))
    return shown.replace("-", "−")


def published(figures: Iterable[Figure | None]) -> str:
    """Printed values of all figures in a row, those of one metric together.

    >>> from .figures import PublishedFigure
    >>> printed = (PublishedFigure("CLIPScore", "b", 51.5, "x"), PublishedFigure("CLIPScore", "b", 51.2, "y"))
    >>> published([Figure("expert/mcs/tau_c", "MCS", published=printed)])
    'CLIPScore 51.2–51.5'
    """
    values: dict[str, list[float]] = {}
    for figure in figures:
        for entry in figure.published if figure else ():
            values.setdefault(entry.metric, []).append(entry.value)
    return ", ".join(
        f"{metric} " + "–".join(f"{value:.1f}" for value in sorted({min(some), max(some)}))
        for metric, some in values.items()
    )


def count(figures: Iterable[Figure | None]) -> str:
    """The number of captions, ratings, pairs or photos behind a row: the largest, where they differ."""
    return f"{max(figure.n for figure in figures if figure is not None):,}"


def why_missing(figures: Sequence[Figure | None]) -> str:
    """Why no report has the figure; "" if one has."""
    reasons = dict.fromkeys(figure.missing for figure in figures if figure is not None)
    return "" if "" in reasons else "; ".join(reasons)


def print_reports(reports: Sequence[Report], console: Console) -> None:
    """Print a table per group for two backbones at a time, then what the intervals are."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    for start in range(0, len(reports), ABREAST):
        part = reports[start : start + ABREAST]
        by_group: dict[str, list[list[Figure | None]]] = {}
        for group, figures in rows(part):
            by_group.setdefault(group, []).append(figures)
        for group, lines in by_group.items():
            table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, width=80)
            table.add_column(GROUPS[group], ratio=1)
            table.add_column("n", justify="right", no_wrap=True, width=6)
            for report in part:
                table.add_column(Text(report.name), justify="right", width=17, overflow="fold")
            for figures in lines:
                title = next(figure.title for figure in figures if figure is not None)
                beside = published(figures)
                why = why_missing(figures)
                if why:
                    title += f" — {NOT_MEASURED}: {why}"
                elif beside:
                    title += f" (published: {beside})"
                cells = ["" if why else number(figure) for figure in figures]
                table.add_row(Text(title), "" if why else count(figures), *map(Text, cells))
            table.add_row()
            console.print(table)
    for line in remarks(reports):
        console.print(Text(line))


def remarks(reports: Sequence[Report]) -> list[str]:
    """What a reader of the tables has to know, in sentences."""
    figures = [figure for report in reports for figure in report.figures]
    drawn = dict.fromkeys(figure.resampled for figure in figures if figure.resampled)
    scales = "τ, ρ, R@k and accuracies are times 100."
    if drawn:
        scales += (
            f" In brackets: 95 % bootstrap intervals, which draw {' or '.join(map(_drawn, drawn))}; in "
            "retrieval the ranked photos stay the same."
        )
    lines = [scales]
    if any(figure.published for figure in figures):
        lines.append("Published: values with OpenAI's ViT-B/32, on all rows of a set.")
    # one reason may stand for several figures of one backbone where another backbone has them
    for report in reports:
        for figure in report.figures:
            others = [f for r in reports for f in r.figures if f.key == figure.key]
            if figure.missing and not why_missing(others):
                lines.append(f"{report.name}, {figure.title}: {NOT_MEASURED}: {figure.missing}")
    return lines


def markdown(reports: Sequence[Report]) -> str:
    """One table of all groups in Markdown, and the remarks under it."""
    names = [report.name for report in reports]
    lines = [
        "| measure | n | " + " | ".join(f"`{_cell(name)}`" for name in names) + " | published |",
        "|---|---:|" + "---:|" * len(names) + "---|",
    ]
    headed = ""
    for group, figures in rows(reports):
        if group != headed:
            lines.append(f"| **{GROUPS[group]}** | |" + " |" * len(names) + " |")
            headed = group
        known = next(figure for figure in figures if figure is not None)
        why = why_missing(figures)
        title = known.title + (f" — {NOT_MEASURED}: {why}" if why else "")
        n = "" if why else count(figures)
        cells = ["" if why else number(figure) for figure in figures]
        lines.append("| " + " | ".join(map(_cell, [title, n, *cells, published(figures)])) + " |")
    return "\n".join([*lines, "", *remarks(reports)]) + "\n"


def _drawn(unit: str) -> str:
    """What a draw of photos takes along; their time belongs to blocks of photos alone."""
    return "photos with all their captions" if unit == "photos" else unit


def _cell(text: str) -> str:
    return " ".join(text.replace("|", r"\|").split())
