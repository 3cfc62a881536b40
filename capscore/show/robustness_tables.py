"""Runs of perturbed captions → tables: drops of scores, false alarms by style, curves by degree."""

from __future__ import annotations

from collections.abc import Sequence

from ..benchmarks.robustness.alarms import AlarmsRun
from ..benchmarks.robustness.degrees import DegreesRun
from ..benchmarks.robustness.run import RobustnessRun
from ..benchmarks.robustness.table import Group, groups, kept_lines, lines, percent, remarks, sources
from .tables import Report, Table, fixed

# headings for a terminal of 80 columns
_SHORT = {
    "language": "",
    "repetition": "repeat",
    "substitution": "subst.",
    "masking": "mask",
    "neighbours": "neighb.",
    "negation": "negat.",
    "truncation": "trunc.",
    "title": "Title",
    "capitals": "CAPS",
    "blanks": "blank",
    "stopped": "stop",
    "fragment": "frag.",
    "paragraph": "par.",
}
STYLES = (
    "given",
    "lower",
    "bare",
    "title",
    "capitals",
    "blanks",
    "nouns",
    "stopped",
    "fragment",
    "paragraph",
)
_DROPS = (
    "Drops are changes of the mean score, in percent. Kept: original mean as a share of the first metric's, "
    "and how often original captions retrieve their photo, in percent."
)
_ALARMS = (
    "Below half: share of right captions that score below half of what {against} gives them, in percent. "
    "Kept: their mean as a share of the mean of {against}, in percent."
)
_CURVES = (
    "Drops are changes of the mean score, in percent; touched is the share of the words. ρ: Spearman's rank "
    "correlation of the fall and the share touched, over the degrees, and over captions at all degrees."
)


def metric_heading(group: Group, metric: str) -> str:
    """A metric with its backbone."""
    backbone = group.results(metric)[0][1].backbone
    return metric if "@" in metric else f"{metric} ({backbone})"


def robustness_reports(runs: Sequence[RobustnessRun]) -> list[Report]:
    """For each data set: drops of each metric, what is kept of original captions, sources and remarks."""
    found = []
    for group in groups(runs):
        parts: list[Table | str] = []
        for metric in group.metrics:
            for unseen in (False, True):
                kinds = group.kinds(unseen=unseen)
                if kinds:
                    never = ", kinds that PR-MCS does not train on" if unseen else ""
                    cells = [
                        (line.language, line.what, *line.cells, *[""] * (len(kinds) + 2 - len(line.cells)))
                        for line in lines(group, metric, unseen=unseen)
                    ]
                    headings = ("language", "", "original", *kinds, "average")
                    parts.append(_table(headings, cells, f"{metric_heading(group, metric)}{never}"))
        kept = ("language", "metric", "of first", "R@1", "R@5", "R@10")
        parts += [_table(kept, kept_lines(group), "Kept"), _DROPS]
        parts += [f"published {source}" for source in sources(group)]
        split = group.runs[0].captions.split
        title = f"{group.name} ({split})" if split else group.name
        found.append(Report(title, [*parts, *remarks(group)]))
    return found


def alarms_report(runs: Sequence[AlarmsRun]) -> Report:
    """Of each metric and language, captions per style, the share below half, and what is kept."""
    parts: list[Table | str] = []
    for first in runs[0].results:
        rows = []
        for run in runs:
            result = next(result for result in run.results if result.metric == first.metric)
            styles = [result.styles.get(style) for style in STYLES]
            counts = ["" if part is None else f"{part.n}" for part in styles]
            below = [_share(part.below_half if part else None) for part in styles]
            kept = [_share(part.kept if part else None) for part in styles]
            rows += [(run.captions.language, "captions", *counts), ("", "below half", *below)]
            rows.append(("", "kept", *kept))
        title = f"Right captions in other styles, {first.metric}"
        parts += [_table(("language", "", *STYLES), rows, title), _ALARMS.format(against=first.against)]
    return Report("", [*parts, *_skipped(runs)])


def curves_report(runs: Sequence[DegreesRun]) -> Report:
    """Of each metric, language and kind, the drops at each degree with both ρ, and the share touched."""
    parts: list[Table | str] = []
    for metric in runs[0].curves:
        rows = []
        for run in runs:
            for index, (kind, curve) in enumerate(run.curves[metric].items()):
                language = "" if index else run.captions.language
                rho = fixed(curve.of_means, 2, ""), fixed(curve.of_captions, 2, "")
                rows.append((language, kind, "drop", *map(percent, curve.drops), *rho))
                rows.append(("", "", "touched", *map(_share, curve.touched), "", ""))
        curves = [curve for run in runs for curve in run.curves[metric].values()]
        degrees = [f"{degree:g}" for degree in curves[0].degrees] if curves else []
        headings = ("language", "kind", "degree", *degrees, "ρ", "ρ each")
        parts += [_table(headings, rows, f"By degree, {metric}", left=3), _CURVES]
    return Report("", [*parts, *_skipped(runs)])


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str, left: int = 2) -> Table:
    short = [_SHORT.get(heading, heading) for heading in headings]
    return Table(headings, rows, title, left=left, short=short)


def _share(value: float | None) -> str:
    return fixed(None if value is None else 100 * value, 1, "")


def _skipped(runs: Sequence[AlarmsRun] | Sequence[DegreesRun]) -> list[str]:
    return [
        f"{run.captions.language}: {name} was not measured. {reason}"
        for run in runs
        for name, reason in run.skipped.items()
    ]
