"""False alarms by style and curves by degree → tables for a terminal of 80 columns, or Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..benchmarks.robustness.alarms import AlarmsRun, MetricAlarms
from ..benchmarks.robustness.degrees import Curve, DegreesRun
from ..benchmarks.robustness.table import percent
from .benchmark_table import printable
from .robustness_table import SHORT, markdown_table, print_table

if TYPE_CHECKING:
    from rich.console import Console

# headings have at most five letters, so that a table fits 80 columns
STYLE_HEADINGS = {
    "given": "given",
    "lower": "lower",
    "bare": "bare",
    "title": "Title",
    "capitals": "CAPS",
    "blanks": "blank",
    "nouns": "nouns",
    "stopped": "stop",
    "fragment": "frag.",
    "paragraph": "par.",
}
_ALARMS = (
    "Below half: share of right captions that score below half of what {against} gives them, in percent. "
    "Kept: their mean as a share of the mean of {against}, in percent."
)
_CURVES = (
    "Drops are changes of the mean score, in percent; touched is the share of the words. ρ: Spearman's rank "
    "correlation of the fall and the share touched, over the degrees, and over captions at all degrees."
)


def share(value: float | None) -> str:
    """A share in percent; "" for None.

    >>> share(0.034), share(None)
    ('3.4', '')
    """
    return "" if value is None else f"{100 * value:.1f}"


def alarm_lines(runs: Sequence[AlarmsRun], metric: str) -> list[tuple[str, ...]]:
    """Of each language, captions per style, the share below half, and what is kept."""
    found = []
    for run in runs:
        result = _result(run, metric)
        parts = [result.styles.get(style) for style in STYLE_HEADINGS]
        counts = ["" if part is None else f"{part.n}" for part in parts]
        below = ["" if part is None else share(part.below_half) for part in parts]
        kept = ["" if part is None else share(part.kept) for part in parts]
        found += [
            (run.captions.language, "captions", *counts),
            ("", "below half", *below),
            ("", "kept", *kept),
        ]
    return found


def curve_lines(runs: Sequence[DegreesRun], metric: str) -> list[tuple[str, ...]]:
    """Of each language and kind, the drops at each degree with both ρ, and the share touched."""
    found = []
    for run in runs:
        for number, (kind, curve) in enumerate(run.curves[metric].items()):
            found += [
                (
                    run.captions.language if not number else "",
                    SHORT.get(kind, kind),
                    "drop",
                    *map(percent, curve.drops),
                    _rho(curve.of_means),
                    _rho(curve.of_captions),
                ),
                ("", "", "touched", *map(share, curve.touched), "", ""),
            ]
    return found


def print_alarms(runs: Sequence[AlarmsRun], console: Console) -> None:
    """Print the false alarms of all runs, a table per metric."""
    for result in runs[0].results:
        console.print(f"\nright captions in other styles, {result.metric}", style="bold", markup=False)
        print_table(console, ["", "", *STYLE_HEADINGS.values()], alarm_lines(runs, result.metric), left=2)
        console.print(_ALARMS.format(against=result.against), style="dim", markup=False)
    for line in _skipped(runs):
        console.print(line, markup=False)


def print_curves(runs: Sequence[DegreesRun], console: Console) -> None:
    """Print the curves of all runs, a table per metric."""
    for metric in runs[0].curves:
        console.print(f"\nby degree, {metric}", style="bold", markup=False)
        print_table(console, _curve_headings(runs), curve_lines(runs, metric), left=3)
        console.print(printable(_CURVES, console.encoding), style="dim", markup=False)
    for line in _skipped(runs):
        console.print(line, markup=False)


def alarms_markdown(runs: Sequence[AlarmsRun]) -> str:
    """Tables of the false alarms of all runs."""
    parts = []
    for result in runs[0].results:
        parts.append(f"### Right captions in other styles, {result.metric}\n")
        parts += markdown_table(["language", "", *STYLE_HEADINGS], alarm_lines(runs, result.metric))
        parts.append(f"{_ALARMS.format(against=result.against)}\n")
    return "\n".join([*parts, *(f"- {line}" for line in _skipped(runs))]).rstrip() + "\n"


def curves_markdown(runs: Sequence[DegreesRun]) -> str:
    """Tables of the curves of all runs."""
    parts = []
    for metric in runs[0].curves:
        parts.append(f"### By degree, {metric}\n")
        headings = ["language", "kind", *_curve_headings(runs)[2:]]
        parts += markdown_table(headings, curve_lines(runs, metric))
        parts.append(f"{_CURVES}\n")
    return "\n".join([*parts, *(f"- {line}" for line in _skipped(runs))]).rstrip() + "\n"


def _curve_headings(runs: Sequence[DegreesRun]) -> list[str]:
    curves: list[Curve] = [curve for run in runs for found in run.curves.values() for curve in found.values()]
    degrees = curves[0].degrees if curves else ()
    return ["", "", "degree", *(f"{degree:g}" for degree in degrees), "ρ", "ρ each"]


def _result(run: AlarmsRun, metric: str) -> MetricAlarms:
    return next(result for result in run.results if result.metric == metric)


def _rho(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _skipped(runs: Sequence[AlarmsRun] | Sequence[DegreesRun]) -> list[str]:
    return [
        f"{run.captions.language}: {name} was not measured. {reason}"
        for run in runs
        for name, reason in run.skipped.items()
    ]
