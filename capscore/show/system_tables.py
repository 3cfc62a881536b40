"""Captioning systems, and calibrations → tables: means, differences with their tests, percentiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ..benchmarks.protocols.results import counted
from ..benchmarks.systems import SystemsRun
from ..metrics.signature import parse_signature
from ..statistics.bootstrap import Interval
from ..statistics.system_means import ALL, SystemComparison, SystemDifference
from ..tables import Report, Table, fixed, level_text, signed

_PERCENTS = (5, 25, 50, 75, 95)
_HEADINGS = ("system", "mean", "difference", "interval", "p")


# ---- scored files ----


def comparison_report(
    compared: Mapping[str, Sequence[SystemComparison]], signatures: Mapping[str, str]
) -> Report:
    """A table per metric and language: mean of each system, difference to the baseline, and its tests.

    Args:
        compared: Metric, or column of scores → its comparisons.
        signatures: Metric → signature, where it is known.
    """
    parts: list[Table | str] = []
    for metric, comparisons in compared.items():
        parts += [comparison_table(metric, comparison) for comparison in comparisons]
    parts += comparison_remarks([*chain.from_iterable(compared.values())])
    parts += [signatures[metric] for metric in compared if signatures.get(metric)]
    return Report("", parts)


def comparison_table(metric: str, comparison: SystemComparison) -> Table:
    """A row per system, the baseline first; the best mean in bold, unless several systems share it."""
    means = comparison.means
    rows = [(comparison.baseline, fixed(means[comparison.baseline]), "", "", "")]
    rows += [_difference_cells(means[other.system], other) for other in comparison.differences]
    bold = [(index, 1) for index, row in enumerate(rows) if row[0] in comparison.best]
    if len(bold) > 1:
        bold = []
    title = metric
    if comparison.rows != ALL:
        title += f", {comparison.rows}"
    counts = counted(comparison.n_rows, "row")
    if comparison.resampled_by != "row":
        counts += f", {counted(comparison.n_images, 'photo')}"
    return Table(_HEADINGS, rows, f"{title} ({counts})", bold=frozenset(bold))


def _difference_cells(mean: float, other: SystemDifference) -> tuple[str, str, str, str, str]:
    interval = p_value = ""
    if other.interval is not None:
        interval = _ends(other.interval)
    if other.p_value_holm is not None:
        p_value = f"{other.p_value_holm:.2g}"
    return other.system, fixed(mean), signed(other.difference), interval, p_value


def _ends(interval: Interval) -> str:
    return f"{signed(interval.low)} to {signed(interval.high)}"


def comparison_remarks(comparisons: Sequence[SystemComparison]) -> Iterator[str]:
    """How differences, intervals and p-values were made, and each note of a comparison once."""
    for comparison in comparisons:
        if comparison.differences:
            yield from _sampling_remarks(comparison)
            break
    notes: dict[str, str] = {}
    for comparison in comparisons:
        rows = f"{comparison.rows}: "
        if comparison.rows == ALL:
            rows = ""
        for note in comparison.notes:
            notes.setdefault(note, f"note: {rows}{note}")
    yield from notes.values()


def _sampling_remarks(comparison: SystemComparison) -> Iterator[str]:
    """What was drawn how often, and what the p-values are corrected for; nothing without intervals."""
    intervals = [other.interval for other in comparison.differences if other.interval is not None]
    if not intervals:
        return
    unit = {"image": "photos"}.get(comparison.resampled_by, "rows")
    yield (
        f"Differences are system minus {comparison.baseline}, with {level_text(intervals[0].confidence)} "
        f"intervals; {comparison.n_samples:,} draws of {unit}, seed {comparison.seed}."
    )
    n_others = len(comparison.differences)
    if n_others > 1:
        yield (
            f"p-values are corrected for the {n_others} comparisons with {comparison.baseline} "
            "(Holm), not for several metrics or languages."
        )


def verdict(metric: str, comparisons: Sequence[SystemComparison]) -> str:
    """One sentence about all rows: which systems score higher or lower than the baseline."""
    outcomes = [_outcome(other, comparisons[0]) for other in comparisons[0].differences]
    return f"{metric}: {'; '.join(outcomes)}."


def _outcome(other: SystemDifference, comparison: SystemComparison) -> str:
    """What a system's test says; where less is better, that it is."""
    baseline = comparison.baseline
    if other.interval is None or other.p_value_holm is None:
        return f"too few photos to tell {other.system} and {baseline} apart"
    p_value = f"p {other.p_value_holm:.2g}"
    if other.p_value_holm >= 1 - other.interval.confidence:
        return f"no difference between {other.system} and {baseline} is shown, {p_value}"
    direction = "lower"
    if other.difference > 0:
        direction = "higher"
    if not comparison.higher_is_better:
        direction = {"lower": "better (lower)", "higher": "worse (higher)"}[direction]
    size = f"{fixed(abs(other.difference))} ({_ends(other.interval)})"
    return f"{other.system} scores {direction} than {baseline} by {size}, {p_value}"


# ---- systems on a benchmark, in several languages ----


def systems_report(run: SystemsRun) -> Report:
    """For each metric: means per language, then each language's differences to the first system."""
    parts: list[Table | str] = []
    comparisons: list[SystemComparison] = []
    for metric, by_language in run.metrics.items():
        parts.append(_means(run, metric))
        if len(run.systems) > 1:
            parts += [comparison_table(metric, comparison) for comparison in by_language.values()]
        comparisons += by_language.values()
    parts += comparison_remarks(comparisons)
    parts += [f"note: {note}" for note in run.notes]
    parts += run.signatures.values()
    return Report(f"{run.benchmark} ({run.split}): {', '.join(run.systems)}", parts)


def _means(run: SystemsRun, metric: str) -> Table:
    """A row per language: the mean of every system, the best in bold."""
    rows: list[list[str]] = []
    bold = set()
    for language, comparison in run.metrics[metric].items():
        means = comparison.means
        if len(means) > 1:
            bold |= {(len(rows), 2 + index) for index, name in enumerate(means) if name in comparison.best}
        rows.append([language, f"{comparison.n_rows:,}", *map(fixed, means.values())])
    if len(rows) > 1:
        rows.append(["mean", "", *map(fixed, run.means(metric).values())])
    return Table(("language", "photos", *run.systems), rows, f"{metric}: means", bold=frozenset(bold))


# ---- calibrations ----


def calibration_table(document: Mapping[str, Any], language: str = "all") -> Table:
    """Percentiles of right captions, and of captions of other photos, per metric.

    Args:
        document: Content of a file of calibrations.
        language: Language, or "all".
    """
    places = [document["percents"].index(percent) for percent in _PERCENTS]
    rows = []
    for entry in document["metrics"]:
        name = _metric_with_references(entry["metric"], entry["signature"])
        for kind, scores in entry["languages"].get(language, {}).items():
            values = [fixed(scores["values"][place], 3) for place in places]
            rows.append((name, kind, f"{scores['n']:,}", *values))
            name = ""  # once per metric
    return Table(("metric", "captions", "n", *(f"{percent} %" for percent in _PERCENTS)), rows, left=2)


def _metric_with_references(metric: str, signature: str) -> str:
    count = parse_signature(signature)[1].get("refs", "0")
    return {"0": metric, "1": f"{metric}, 1 reference"}.get(count, f"{metric}, {count} references")


def calibration_counts(document: Mapping[str, Any]) -> str:
    """The set, its counts and the date, in one sentence."""
    captions = document["set"]
    languages = ", ".join(f"{code} {count:,}" for code, count in captions["languages"].items())
    return (
        f"{captions['name']}: {captions['captions']:,} captions of {captions['photos']:,} photos "
        f"({languages}), measured on {document['made']} with capscore {document['version']}; up to "
        f"{document['shuffled_per_caption']} captions of other photos for each."
    )
