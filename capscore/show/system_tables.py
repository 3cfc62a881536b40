"""Captioning systems, and calibrations → tables: means, differences with their tests, percentiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..benchmarks.systems import SystemsRun
from ..comparing import comparison_remarks, comparison_table
from ..metrics.signature import parse_signature
from ..statistics.system_means import SystemComparison
from ..tables import Report, Table, fixed

_PERCENTS = (5, 25, 50, 75, 95)
_HEADINGS = ("system", "mean", "difference", "interval", "p")


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
