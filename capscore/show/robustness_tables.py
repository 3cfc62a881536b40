"""Runs of perturbed captions → tables: drops of scores, false alarms by style, curves by degree.

Tables of several languages end with their averages, as in Kim et al. 2023. Drops are in percent, as papers
print them; means are on the metric's own scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..benchmarks.protocols.results import counted
from ..benchmarks.results import MetricResult
from ..benchmarks.robustness.run import RobustnessRun
from ..benchmarks.robustness.styles_and_degrees import VersionsRun
from ..perturbations import KINDS, kind_of
from ..perturbations.styles import STYLES
from ..registry import PERTURBATIONS
from ..tables import Report, Table, fixed, level_text, signed

# headings for a terminal of 80 columns, besides those of kinds
_SHORT = {
    "language": "",
    "title": "Title",
    "capitals": "CAPS",
    "blanks": "blank",
    "stopped": "stop",
    "fragment": "frag.",
    "paragraph": "par.",
}
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
Averages = dict[str, tuple[float | None, float | None]]


@dataclass(frozen=True)
class Group:
    """Runs on one data set, one per language."""

    name: str
    runs: tuple[RobustnessRun, ...]

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics."""
        return [result.metric for result in self.runs[0].results]

    def results(self, metric: str) -> list[tuple[RobustnessRun, MetricResult]]:
        """(run, result) of a metric in every language."""
        return [(run, result) for run in self.runs for result in run.results if result.metric == metric]

    def kinds(self, unseen: bool | None = None) -> list[str]:
        """Kinds that were measured in any of the languages: the published ones, or the others, or both."""
        kinds = sorted(self.runs[0].options.kinds, key=lambda kind: kind not in KINDS)
        kinds = [kind for kind in kinds if any(kind in run.unchanged for run in self.runs)]
        return kinds if unseen is None else [kind for kind in kinds if (kind in KINDS) != unseen]


def groups(runs: Sequence[RobustnessRun]) -> list[Group]:
    """Runs by data set; a configuration that is not a language is a data set of its own."""
    found: dict[str, list[RobustnessRun]] = {}
    for run in runs:
        data, config = run.captions.data, run.captions.config
        name = data if config in ("", "default", run.language) else f"{data} · {config}"
        found.setdefault(name, []).append(run)
    return [Group(name, tuple(parts)) for name, parts in found.items()]


def averages(group: Group, metric: str) -> Averages:
    """Statistic → plain means over the languages, measured and published; None if a language lacks one."""
    results = [result for _, result in group.results(metric)]
    found: Averages = {}
    for name in dict.fromkeys(name for result in results for name in result.statistics):
        measured, published = [result.value(name) for result in results], map(_published, results)
        found[name] = _mean(measured), _mean([figures.get(name) for figures in published])
    return found


def _published(result: MetricResult) -> dict[str, float]:
    """The preferred published value of each statistic."""
    return {name: figures[0].measured_unit for name, figures in result.published.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if len(present) == len(values) else None


def averages_dict(runs: Sequence[RobustnessRun]) -> dict[str, Any]:
    """Averages over languages of every data set and metric, ready for JSON."""
    return {
        group.name: {
            metric: {
                name: {"measured": measured, "published": published}
                for name, (measured, published) in averages(group, metric).items()
            }
            for metric in group.metrics
        }
        for group in groups(runs)
    }


def robustness_reports(runs: Sequence[RobustnessRun]) -> list[Report]:
    """For each data set: drops of each metric, what is kept of original captions, sources and remarks."""
    found = []
    for group in groups(runs):
        parts: list[Table | str] = []
        for metric in group.metrics:
            title = metric if "@" in metric else f"{metric} ({group.results(metric)[0][1].backbone})"
            for unseen, which in ((False, ""), (True, ", kinds that PR-MCS does not train on")):
                if kinds := group.kinds(unseen):
                    names = [*kinds, "average_unseen" if unseen else "average"]
                    headings = ("language", "", "original", *kinds, "average")
                    parts.append(_table(headings, _drop_rows(group, metric, names), f"{title}{which}"))
        kept = [
            (
                "" if index else run.language,
                result.metric,
                fixed(result.value("original_of_first"), 3, ""),
                *(_share(result.value(f"text_to_image_r@{k}")) for k in (1, 5, 10)),
            )
            for run in group.runs
            for index, result in enumerate(run.results)
        ]
        parts += [_table(("language", "metric", "of first", "R@1", "R@5", "R@10"), kept, "Kept"), _DROPS]
        split = group.runs[0].captions.split
        title = f"{group.name} ({split})" if split else group.name
        found.append(Report(title, [*parts, *_sources(group), *_remarks(group)]))
    return found


def _drop_rows(group: Group, metric: str, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Means, drops, intervals and published drops of a metric in each language, and their averages."""
    rows: list[tuple[str, ...]] = []
    for run, result in group.results(metric):
        values = {name: statistic.value for name, statistic in result.statistics.items()}
        intervals = {name: statistic.interval for name, statistic in result.statistics.items()}
        level = level_text(run.options.sampling.confidence)
        rows += _rows(run.language, names, values, intervals, _published(result), level)
    if len(group.runs) > 1:
        both = averages(group, metric)
        means, published_means = ({name: pair[index] for name, pair in both.items()} for index in (0, 1))
        rows += _rows("all", names, means, {}, published_means)
    return rows


def _rows(
    language: str,
    names: Sequence[str],
    values: Mapping[str, float | None],
    intervals: Mapping[str, tuple[float, float] | None],
    published: Mapping[str, float | None],
    level: str = "",
) -> list[tuple[str, ...]]:
    means = [fixed(values.get(f"mean_{name}"), 4, "") for name in ("original", *names)]
    drops = [f"drop_{name}" for name in names]
    rows = [(language, "mean", *means), ("", "drop %", "", *(_percent(values.get(name)) for name in drops))]
    ends = [intervals.get(name) or (None, None) for name in drops]
    for end, word in enumerate(("from", "to")) if any(low is not None for low, _ in ends) else ():
        rows.append(("", f"{level} {word}", "", *(_percent(pair[end]) for pair in ends)))
    printed = [_percent(published.get(name)) for name in drops]
    if any(printed):
        rows.append(("", "published", fixed(published.get("mean_original"), 4, ""), *printed))
    return rows


def _sources(group: Group) -> list[str]:
    """Sources of the published figures with their notes, each once with its languages."""
    found: dict[tuple[str, str], list[str]] = {}
    for run in group.runs:
        for result in run.results:
            for figure in result.published.get("drop_average", [])[:1]:
                source = f"{figure.citation}: {figure.note}" if figure.note else figure.citation
                found.setdefault((result.metric, source), []).append(run.language)
    return [f"published {metric} ({', '.join(codes)}): {source}" for (metric, source), codes in found.items()]


def _remarks(group: Group) -> list[str]:
    """Counts, notes, signatures, and what was not run."""
    found: list[str] = []
    for run in group.runs:
        photos = counted(len(set(run.captions.image_ids)), "photo")
        texts = "" if run.images == "photos" else ", for which texts stand"
        found.append(f"{run.language}: {counted(len(run.captions), 'caption')} of {photos}{texts}")
        found += [f"  {kind}: not run. {reason}" for kind, reason in run.skipped.items()]
        found += [f"  {result.signature}" for result in run.results]
        notes = [note for result in run.results for note in (*result.outcome.notes, *result.warnings)]
        found += [f"  note: {note}" for note in dict.fromkeys([*run.notes, *notes])]
    return found


def alarms_report(runs: Sequence[VersionsRun]) -> Report:
    """Of each metric and language, captions per style, the share below half, and what is kept."""
    parts: list[Table | str] = []
    for metric, against in runs[0].against.items():
        rows = []
        for run in runs:
            styles = [run.rows[metric].get(style, {}) for style in STYLES]
            counts = [f"{part['n']}" if part else "" for part in styles]
            rows.append((run.captions.language, "captions", *counts))
            for name, key in (("below half", "below_half"), ("kept", "kept")):
                rows.append(("", name, *(_share(part.get(key)) for part in styles)))
        title = f"Right captions in other styles, {metric}"
        parts += [_table(("language", "", *STYLES), rows, title), _ALARMS.format(against=against)]
    return Report("", [*parts, *_skipped(runs)])


def curves_report(runs: Sequence[VersionsRun]) -> Report:
    """Of each metric, language and kind, the drops at each degree with both ρ, and the share touched."""
    parts: list[Table | str] = []
    for metric in runs[0].rows:
        rows, degrees = [], []
        for run in runs:
            for index, (kind, curve) in enumerate(run.rows[metric].items()):
                degrees = [f"{degree:g}" for degree in curve["degrees"]]
                language = "" if index else run.captions.language
                rhos = fixed(curve["of_means"], 2, ""), fixed(curve["of_captions"], 2, "")
                rows.append((language, kind, "drop", *map(_percent, curve["drops"]), *rhos))
                rows.append(("", "", "touched", *map(_share, curve["touched"]), "", ""))
        headings = ("language", "kind", "degree", *degrees, "ρ", "ρ each")
        parts += [_table(headings, rows, f"By degree, {metric}", left=3), _CURVES]
    return Report("", [*parts, *_skipped(runs)])


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str, left: int = 2) -> Table:
    return Table(headings, rows, title, left=left, short=[*map(_short, headings)])


def _short(heading: str) -> str:
    """A heading for a terminal."""
    if heading in _SHORT or PERTURBATIONS.find(heading) is None:
        return _SHORT.get(heading, heading)
    return kind_of(heading).title or heading


def _percent(value: float | None) -> str:
    return "" if value is None else signed(100 * value, 1)


def _share(value: float | None) -> str:
    return fixed(None if value is None else 100 * value, 1, "")


def _skipped(runs: Sequence[VersionsRun]) -> list[str]:
    return [
        f"{run.captions.language}: {name} was not measured. {reason}"
        for run in runs
        for name, reason in run.skipped.items()
    ]
