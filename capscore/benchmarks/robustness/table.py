"""Runs in several languages → lines of tables as in Kim et al. 2023, with averages over the languages.

Drops are in percent, as papers print them; means are on the metric's own scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..protocols.results import counted
from .run import MetricRobustness, RobustnessRun

ALL = "all"


@dataclass(frozen=True)
class TableLine:
    """A line of a table.

    Attributes:
        language: Language code; "all" for the average over the languages; "" for the same as above.
        what: "mean", "drop %", an end of its interval, or "published".
        cells: Printed values: original captions, each kind, and their average.
    """

    language: str
    what: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Group:
    """Runs on one data set, one per language.

    Attributes:
        name: Name of the data set.
        runs: Runs in the order of the languages.
    """

    name: str
    runs: tuple[RobustnessRun, ...]

    @property
    def metrics(self) -> list[str]:
        return [result.metric for result in self.runs[0].results]

    def results(self, metric: str) -> list[tuple[RobustnessRun, MetricRobustness]]:
        """(run, result) of a metric in every language."""
        return [(run, result) for run in self.runs for result in run.results if result.metric == metric]

    def kinds(self, *, unseen: bool) -> list[str]:
        """Kinds that were measured in any of the languages."""
        options = self.runs[0].options
        named = options.unseen_kinds if unseen else options.paper_kinds
        return [kind for kind in named if any(kind in run.unchanged for run in self.runs)]


def groups(runs: Sequence[RobustnessRun]) -> list[Group]:
    """Runs by data set; a configuration that is not a language is a data set of its own."""
    found: dict[str, list[RobustnessRun]] = {}
    for run in runs:
        own = run.captions.config not in ("", "default", run.language)
        name = f"{run.data} · {run.captions.config}" if own else run.data
        found.setdefault(name, []).append(run)
    return [Group(name, tuple(parts)) for name, parts in found.items()]


def averages(group: Group, metric: str) -> dict[str, tuple[float | None, float | None]]:
    """Statistic → plain means over the languages, measured and published; None if a language lacks one."""
    found: dict[str, tuple[float | None, float | None]] = {}
    parts = [result for _, result in group.results(metric)]
    tables = [{each.name: each.value for each in part.statistics()} for part in parts]
    for name in dict.fromkeys(name for table in tables for name in table):
        measured = [table.get(name) for table in tables]
        printed = [part.published.get(name) for part in parts]
        found[name] = (
            _mean(measured),
            _mean([None if figure is None else figure.measured_unit for figure in printed]),
        )
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present and len(present) == len(values) else None


def lines(group: Group, metric: str, *, unseen: bool = False) -> list[TableLine]:
    """The table of a metric: means, drops, intervals and published drops of each language."""
    kinds = group.kinds(unseen=unseen)
    average = "average_unseen" if unseen else "average"
    names = ["original", *kinds, average]
    found: list[TableLine] = []
    for run, result in group.results(metric):
        table = {each.name: each for each in result.statistics()}
        values = {name: each.value for name, each in table.items()}
        printed = {name: figure.measured_unit for name, figure in result.published.items()}
        found += _lines(run.language, names, values, printed)
        ends = [table.get(f"drop_{name}") for name in names[1:]]
        if any(each is not None and each.interval for each in ends):
            share = f"{100 * run.options.confidence:.10g}%"
            for place, word in ((0, "from"), (1, "to")):
                cells = [
                    "" if each is None or each.interval is None else percent(each.interval[place])
                    for each in ends
                ]
                found.insert(
                    len(found) - bool(_published(names, printed)),
                    TableLine("", f"{share} {word}", ("", *cells)),
                )
    if len(group.runs) > 1:
        both = averages(group, metric)
        found += _lines(
            ALL,
            names,
            {name: measured for name, (measured, _) in both.items()},
            {name: value for name, (_, value) in both.items() if value is not None},
        )
    return found


def _lines(
    language: str, names: Sequence[str], values: dict[str, float | None], printed: dict[str, float]
) -> list[TableLine]:
    means = tuple(score(values.get(f"mean_{name}")) for name in names)
    drops = tuple(percent(values.get(f"drop_{name}")) for name in names[1:])
    found = [TableLine(language, "mean", means), TableLine("", "drop %", ("", *drops))]
    if _published(names, printed):
        found.append(TableLine("", "published", _published(names, printed)))
    return found


def _published(names: Sequence[str], printed: dict[str, float]) -> tuple[str, ...]:
    """The published drops; () if there are none."""
    drops = tuple(percent(printed.get(f"drop_{name}")) for name in names[1:])
    return (score(printed.get("mean_original")), *drops) if any(drops) else ()


def kept_lines(group: Group) -> list[tuple[str, ...]]:
    """Qualities to keep: language, metric, share of the first metric's original mean, R@1, R@5, R@10."""
    found = []
    for run in group.runs:
        for number, result in enumerate(run.results):
            share = "" if result.original_of_first is None else f"{result.original_of_first:.3f}"
            recall = ["" if value is None else f"{100 * value:.1f}" for value in result.retrieval.values()]
            found.append((run.language if number == 0 else "", result.metric, share, *recall))
    return found


def sources(group: Group) -> list[str]:
    """Sources of the published figures with their notes, each once with its languages."""
    found: dict[tuple[str, str], list[str]] = {}
    for run in group.runs:
        for result in run.results:
            figure = result.published.get("drop_average")
            if figure is not None:
                note = f": {figure.note}" if figure.note else ""
                languages = found.setdefault((result.metric, f"{figure.citation}{note}"), [])
                languages.append(run.language)
    return [f"{metric} ({', '.join(languages)}): {told}" for (metric, told), languages in found.items()]


def remarks(group: Group) -> list[str]:
    """Text below the tables: counts, signatures, notes, and what was not run."""
    found: list[str] = []
    for run in group.runs:
        photos = len(set(run.captions.image_ids))
        what = "" if run.images == "photos" else ", for which texts stand"
        found.append(
            f"{run.language}: {counted(len(run.captions), 'caption')} of {counted(photos, 'photo')}{what}"
        )
        found += [f"  note: {note}" for note in run.notes]
        found += [f"  {kind}: not run. {reason}" for kind, reason in run.skipped.items()]
        for result in run.results:
            found.append(f"  {result.signature}")
        told = dict.fromkeys(note for result in run.results for note in (*result.notes, *result.warnings))
        found += [f"  note: {note}" for note in told]
    return found


def score(value: float | None) -> str:
    """A mean score as printed; "" for None.

    >>> score(1.0939), score(None)
    ('1.0939', '')
    """
    return "" if value is None else f"{value:.4f}"


def percent(value: float | None) -> str:
    """A drop as printed, in percent; "" for None.

    >>> percent(-0.0327), percent(0.0021)
    ('−3.3', '+0.2')
    """
    if value is None:
        return ""
    text = f"{100 * value:+.1f}".replace("-", "−")
    return "0.0" if text in ("+0.0", "−0.0") else text


def averages_dict(found: Sequence[Group]) -> dict[str, Any]:
    """Averages over languages of every data set and metric, ready for JSON."""
    return {
        group.name: {
            metric: {
                name: {"measured": measured, "published": printed}
                for name, (measured, printed) in averages(group, metric).items()
            }
            for metric in group.metrics
        }
        for group in found
    }
