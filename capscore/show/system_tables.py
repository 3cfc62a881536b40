"""Captioning systems, and calibrations → tables: means, differences with their tests, percentiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..benchmarks.protocols.results import counted
from ..benchmarks.systems import SystemsRun
from ..metrics.signature import parse_signature
from ..statistics.bootstrap import Interval
from ..statistics.system_means import ALL, SystemComparison
from ..tables import Report, Table, fixed, level_text, signed

_PERCENTS = (5, 25, 50, 75, 95)


# ---- scored files ----


def comparison_report(
    compared: Mapping[str, Sequence[SystemComparison]], signatures: Mapping[str, str]
) -> Report:
    """A table per metric and language: mean of each system, difference to the baseline, and its tests.

    Args:
        compared: Metric, or column of scores → its comparisons.
        signatures: Metric → signature, where it is known.
    """
    tables = [
        _comparison_table(metric, comparison) for metric, parts in compared.items() for comparison in parts
    ]
    return Report("", [*tables, *_remarks(compared), *filter(None, map(signatures.get, compared))])


def _comparison_table(metric: str, comparison: SystemComparison) -> Table:
    baseline = comparison.baseline
    rows = [(baseline, fixed(comparison.means[baseline]), "", "", "")]
    for found in comparison.differences:
        mean, difference = fixed(comparison.means[found.system]), signed(found.difference)
        p_value = "" if found.p_value_holm is None else f"{found.p_value_holm:.2g}"
        rows.append((found.system, mean, difference, _ends(found.interval), p_value))
    language = "" if comparison.rows == ALL else f", {comparison.rows}"
    counts = counted(comparison.n_rows, "row")
    if comparison.resampled_by != "row":
        counts += f", {counted(comparison.n_images, 'photo')}"
    headings = ("system", "mean", "difference", "interval", "p")
    best = max(comparison.means.values())
    bold = [index for index, row in enumerate(rows) if comparison.means[row[0]] == best]
    marked = frozenset((index, 1) for index in bold if len(bold) == 1)
    return Table(headings, rows, f"{metric}{language} ({counts})", bold=marked)


def _remarks(compared: Mapping[str, Sequence[SystemComparison]]) -> Iterator[str]:
    parts = [part for comparisons in compared.values() for part in comparisons]
    first = next((part for part in parts if part.differences), parts[0])
    interval = next((found.interval for found in first.differences if found.interval), None)
    if interval is not None:
        unit = "photos" if first.resampled_by == "image" else "rows"
        yield (
            f"Differences are system minus {first.baseline}, with {level_text(interval.confidence)} "
            f"intervals; {first.n_samples:,} draws of {unit}, seed {first.seed}."
        )
        if len(first.differences) > 1:
            yield (
                f"p-values are corrected for the {len(first.differences)} comparisons with {first.baseline} "
                "(Holm), not for several metrics or languages."
            )
    notes: dict[str, str] = {}
    for part in parts:
        for note in part.notes:
            notes.setdefault(note, "" if part.rows == ALL else f"{part.rows}: ")
    yield from (f"note: {language}{note}" for note, language in notes.items())


def verdict(metric: str, comparisons: Sequence[SystemComparison]) -> str:
    """One sentence about all rows: which systems score higher or lower than the baseline."""
    whole = comparisons[0]
    found = []
    for part in whole.differences:
        pair = f"{part.system} and {whole.baseline}"
        if part.interval is None or part.p_value_holm is None:
            found.append(f"too few photos to tell {pair} apart")
        elif part.p_value_holm < 1 - part.interval.confidence:
            more = "higher" if part.difference > 0 else "lower"
            numbers = f"{fixed(abs(part.difference))} ({_ends(part.interval)}), p {part.p_value_holm:.2g}"
            found.append(f"{part.system} scores {more} than {whole.baseline} by {numbers}")
        else:
            found.append(f"no difference between {pair} is shown, p {part.p_value_holm:.2g}")
    return f"{metric}: {'; '.join(found)}."


def _ends(interval: Interval | None) -> str:
    return f"{signed(interval.low)} to {signed(interval.high)}" if interval else ""


# ---- systems on a benchmark, in several languages ----


def systems_report(run: SystemsRun) -> Report:
    """For each metric: means per language, then each language's differences to the first system."""
    tables = []
    for metric, parts in run.metrics.items():
        tables.append(_means(run, metric))
        if len(run.systems) > 1:
            tables += [_comparison_table(metric, part) for part in parts.values()]
    compared = {metric: [*parts.values()] for metric, parts in run.metrics.items()}
    remarks = [*_remarks(compared), *(f"note: {note}" for note in run.notes), *run.signatures.values()]
    return Report(f"{run.benchmark} ({run.split}): {', '.join(run.systems)}", [*tables, *remarks])


def _means(run: SystemsRun, metric: str) -> Table:
    """A row per language: the mean of every system, the best in bold."""
    rows: list[list[str]] = []
    bold = set()
    for language, part in run.metrics[metric].items():
        if len(part.means) > 1:
            best, names = max(part.means.values()), enumerate(run.systems, start=2)
            bold |= {(len(rows), column) for column, name in names if part.means[name] == best}
        rows.append([language, f"{part.n_rows:,}", *map(fixed, part.means.values())])
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
    places = [list(document["percents"]).index(percent) for percent in _PERCENTS]
    rows = []
    for entry in document["metrics"]:
        for kind, found in entry["languages"].get(language, {}).items():
            values = [fixed(found["values"][place], 3) for place in places]
            name = _metric_with_references(entry) if kind == "right" else ""
            rows.append((name, kind, f"{found['n']:,}", *values))
    return Table(("metric", "captions", "n", *(f"{percent} %" for percent in _PERCENTS)), rows, left=2)


def _metric_with_references(entry: Mapping[str, Any]) -> str:
    count = int(parse_signature(entry["signature"])[1].get("refs", "0"))
    return f"{entry['metric']}, {counted(count, 'reference')}" if count else str(entry["metric"])


def calibration_counts(document: Mapping[str, Any]) -> str:
    """The set, its counts and the date, in one sentence."""
    captions = document["set"]
    languages = ", ".join(f"{code} {count:,}" for code, count in captions["languages"].items())
    return (
        f"{captions['name']}: {captions['captions']:,} captions of {captions['photos']:,} photos "
        f"({languages}), measured on {document['made']} with capscore {document['version']}; up to "
        f"{document['shuffled_per_caption']} captions of other photos for each."
    )
