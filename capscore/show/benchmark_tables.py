"""Results of a benchmark → a table. All numbers are multiplied by 100, as papers print them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ..benchmarks.protocols.results import Statistic
from ..benchmarks.published import find
from ..benchmarks.run import COMPONENTS, BenchmarkRun, MetricResult, config_title
from ..files.shipped import benchmark_card
from ..registry import METRICS
from ..tables import Report, Table, fixed, level_text, signed

if TYPE_CHECKING:
    from ..benchmarks.published import Published

NAMES = {"tau_b": "τ_b", "tau_c": "τ_c", "spearman": "ρ", "pearson": "r"}


def statistic_name(name: str) -> str:
    """The name of a statistic as papers write it.

    >>> [statistic_name(name) for name in ("tau_c", "accuracy_hc", "pearson_recall_with_human")]
    ['τ_c', 'accuracy HC', 'r recall + human']
    >>> statistic_name("text_to_image_r@1")
    'text to image R@1'
    """
    if name in NAMES:
        return NAMES[name]
    head, _, tail = name.partition("_")
    if head == "accuracy" and len(tail) == 2:
        tail = tail.upper()
    words = f"{NAMES.get(head, head)} {tail}".replace("_without_human", "").replace("_with_human", " + human")
    return words.strip().replace("_", " ").replace(" r@", " R@")


def metric_title(name: str) -> str:
    """The name of a metric, or of its component, as papers write it.

    >>> [metric_title(name) for name in ("ref_clip_score", "infometic_plus", "bleu_4", "theirs.jsonl")]
    ['RefCLIPScore', 'InfoMetIC+', 'BLEU-4', 'theirs.jsonl']
    """
    metric, _ = COMPONENTS.get(name, (name, ""))
    scorer = METRICS.find(metric)
    if scorer is None:
        return name
    part = name.removeprefix(metric).replace("_plus", "+").replace("_", "-" if name[-1].isdigit() else " ")
    return (scorer.title or metric) + part


@cache
def benchmark_title(slug: str, config: str | None = None) -> str:
    """The name of a benchmark, as its card has it, and a configuration.

    >>> benchmark_title("flickr8k_human", "expert"), benchmark_title("theirs", "default")
    ('Flickr8k human judgements · expert', 'theirs')
    """
    pretty_name = re.search(r"^pretty_name: (.+)$", benchmark_card(slug), re.MULTILINE)
    if pretty_name:
        slug = pretty_name[1]
    return config_title(slug, config)


def metric_name(result: MetricResult) -> str:
    """A metric with its backbone."""
    named = not result.backbone or "@" in result.metric
    return result.metric if named else f"{result.metric} ({result.backbone})"


def benchmark_report(run: BenchmarkRun) -> Report:
    """Every statistic of every metric, beside published ones; then counts, signatures and notes."""
    sources: list[str] = []
    rows: list[list[str]] = []
    for result in run.results:
        for index, statistic in enumerate(result.outcome.statistics):
            entries = [one for one in result.published.get(statistic.name, []) if not one.unlike]
            first = {entry.kind == "recomputed": entry for entry in reversed(entries)}
            main, *others = [*filter(None, map(first.get, (False, True))), None][: len(first) or 1]
            value = statistic.value
            rows.append(
                [
                    metric_name(result) if index == 0 else "",
                    statistic_name(statistic.name),
                    fixed(value and 100 * value, 2, "undefined"),
                    _range(statistic.interval),
                    *_published(statistic, main, sources),
                    f"{statistic.n:,}" if statistic.n else "",
                ]
            )
            rows += [["", "", "", "", *_published(statistic, other, sources), ""] for other in others]
    interval = f"{level_text(run.options.sampling.confidence)} interval"
    headings = ("metric", "statistic", "measured", interval, "published", "reproduced", "n")
    parts: list[Table | str] = []
    if rows:
        legend = "Numbers are times 100."
        if any(row[5] for row in rows):
            legend += (
                " Reproduced: the measured number is within half a unit of the published one's last digit; "
                "if not, by how much it is higher (+) or lower (−)."
            )
        if run.options.sampling.bootstrap:
            legend += f" Intervals: {run.options.sampling.bootstrap:,} bootstrap draws of photos."
        parts = [Table(headings, rows, left=2), legend]
    unlike = [line for result in run.results for line in _not_comparable(result, sources)]
    parts += [*unlike, *(f"[{number}] {source}" for number, source in enumerate(sources, start=1))]
    return Report(f"{run.name} ({run.split}, {run.n_rows:,} rows)", [*parts, *_benchmark_remarks(run)])


def _published(statistic: Statistic, entry: Published | None, sources: list[str]) -> list[str]:
    """The cells of a published value and of whether it is reproduced; its source joins the list."""
    if entry is None:
        return ["", ""]
    off = "" if statistic.value is None else signed(100 * (statistic.value - entry.measured_unit), 2)
    standing = {"reproduced": "yes", "not reproduced": f"no, {off}"}.get(entry.standing(statistic.value), "")
    return [f"{entry.printed} {_number(entry, sources)}", standing]


def _number(entry: Published, sources: list[str]) -> str:
    """The number of a figure's source, in brackets; the source joins the list."""
    quoted = ", quoted" if entry.kind == "quoted" else ""
    source = f"{entry.citation}{quoted}{': ' if entry.note else ''}{entry.note}"
    if source not in sources:
        sources.append(source)
    return f"[{sources.index(source) + 1}]"


def _not_comparable(result: MetricResult, sources: list[str]) -> Iterator[str]:
    """The first published figure of each statistic that has none to compare with, by reason and source."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, entries in result.published.items():
        if entries and entries[0].unlike:
            shown = f"{statistic_name(name)} {entries[0].printed}"
            found.setdefault((entries[0].unlike, _number(entries[0], sources)), []).append(shown)
    for (reason, number), figures in found.items():
        listed = ", ".join(figures)
        yield f"{metric_name(result)}: published, but not comparable ({reason}): {listed} {number}"


def _range(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{fixed(100 * interval[0], 1)} to {fixed(100 * interval[1], 1)}"


def _benchmark_remarks(run: BenchmarkRun) -> Iterator[str]:
    for note in run.notes:
        yield f"note: {note}"
    for result in run.results:
        counts = ", ".join(f"{number:,} {what}" for what, number in result.outcome.counts.items())
        part = "" if result.n_rows == run.n_rows else f" ({result.n_rows:,} of {run.n_rows:,} rows)"
        yield f"{metric_name(result)}: {counts}{part}; {result.seconds:.1f} s"
        yield f"  {result.signature}"
        for note in (*result.outcome.notes, *result.warnings):
            yield f"  note: {note}"
        scorer = METRICS.find(result.metric.partition("@")[0])
        if scorer is not None and scorer.kin:
            yield from _published_kin(run, result, scorer.kin)
    for test in run.comparisons:
        yield _comparison(test)
    for metric, reason in run.skipped.items():
        yield f"{metric}: not run. {reason}"


def _published_kin(run: BenchmarkRun, result: MetricResult, kin: Mapping[str, str]) -> Iterator[str]:
    """Published figures of metrics of the same kind, such as judges of another model or question."""
    for name in result.statistics:
        listed = [
            f"{judge} {figure.value:g} ({figure.citation}{', quoted' * (figure.kind == 'quoted')})"
            for key, judge in kin.items()
            for figure in find(run.benchmark, run.config, key)
            if figure.statistic == name and figure.kind != "recomputed" and not figure.setting
        ]
        if listed:
            yield f"published judges (other models), {statistic_name(name)}: {'; '.join(listed)}"


def _comparison(test: dict[str, Any]) -> str:
    pair = f"{' against '.join(test['metrics'])} (bootstrap)"
    if test["p_value"] is None:
        return f"{pair}: undefined"
    ends = test["interval"] and f" ({_range((test['interval']['low'], test['interval']['high']))})"
    difference = signed(100 * test["difference"], 2)
    return f"{pair}: {statistic_name(test['statistic'])} {difference}{ends or ''}, p = {test['p_value']:.2g}"
