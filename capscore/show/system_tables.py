"""Captioning systems, and calibrations → tables: means, differences with their tests, percentiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..benchmarks.protocols.results import counted
from ..benchmarks.systems.run import ALL, SystemsMetric, SystemsRun
from ..benchmarks.systems.side_by_side import PublishedAgreement, published_citation
from ..metrics.signature import parse_signature
from ..statistics.bootstrap import Interval
from ..statistics.system_means import SystemComparison
from .benchmark_tables import NAMES
from .tables import Report, Table, fixed, level_text, signed

_CORRELATIONS = ("pearson", "spearman", "tau_b")
_REFERENCES = {"xm600": "XM600", "xm3600": "XM3600", "coco_dev_translated": "COCO-dev"}
_PERCENTS = (5, 25, 50, 75, 95)


# ---- scored files ----


@dataclass(frozen=True)
class ComparedMetric:
    """A metric's comparisons of systems.

    Attributes:
        metric: Name of the metric, or of the column.
        comparisons: Comparison over all rows, then one for each language.
        signature: Signature of the scores; "" if it is not known.
        corpus: System → numbers of all rows together, which are no means of rows.
    """

    metric: str
    comparisons: Sequence[SystemComparison]
    signature: str = ""
    corpus: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def comparison_report(compared: Sequence[ComparedMetric]) -> Report:
    """A table per metric and language: mean of each system, difference to the baseline, and its tests."""
    headings = ("system", "mean", "difference", "interval", "p bootstrap", "p randomisation")
    tables = []
    for metric in compared:
        for comparison in metric.comparisons:
            baseline = comparison.baseline
            rows = [(baseline, fixed(comparison.means[baseline]), "", "", "", "")]
            for found in comparison.differences:
                mean, difference = fixed(comparison.means[found.system]), signed(found.difference)
                p_values = (_p(found.p_bootstrap_holm), _p(found.p_randomisation_holm))
                rows.append((found.system, mean, difference, _ends(found.interval), *p_values))
            language = "" if comparison.rows == ALL else f", {comparison.rows}"
            counts = counted(comparison.n_rows, "row")
            if comparison.resampled_by != "row":
                counts += f", {counted(comparison.n_images, 'photo')}"
            tables.append(Table(headings, rows, f"{metric.metric}{language} ({counts})"))
    return Report("", [*tables, *_comparison_remarks(compared)])


def difference_sentences(compared: ComparedMetric) -> Iterator[str]:
    """A sentence per system and language: its difference to the baseline, interval and p-value.

    >>> from capscore.statistics.system_means import compare_means
    >>> both = compare_means({"a": [1, 2], "b": [3, 4]}, images=["x", "y"], n=8)
    >>> list(difference_sentences(ComparedMetric("mcs", [both])))
    ['b − a: +2.0000 (95% interval +2.0000 to +2.0000), p = 0.5 by randomisation.']
    """
    for comparison in compared.comparisons:
        language = "" if comparison.rows == ALL else f"{comparison.rows}: "
        for found in comparison.differences:
            text = f"{language}{found.system} − {comparison.baseline}: {signed(found.difference)}"
            if found.interval is not None:
                text += f" ({level_text(found.interval.confidence)} interval {_ends(found.interval)})"
            if found.p_randomisation_holm is not None:
                text += f", p = {_p(found.p_randomisation_holm)} by randomisation"
            yield f"{text}."


def _comparison_remarks(compared: Sequence[ComparedMetric]) -> Iterator[str]:
    first = compared[0].comparisons[0]
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
    for metric in compared:
        for comparison in metric.comparisons:
            for note in comparison.notes:
                notes.setdefault(note, "" if comparison.rows == ALL else f"{comparison.rows}: ")
    yield from (f"note: {language}{note}" for note, language in notes.items())
    for metric in compared:
        numbers = [
            f"{system} {name} {value:.4f}"
            for system, corpus in metric.corpus.items()
            for name, value in corpus.items()
        ]
        if numbers:
            yield (
                f"note: {metric.metric}: the tests compare means of rows. The numbers of all rows together "
                f"are no means, so they are not tested ({', '.join(numbers)})"
            )
    yield from (metric.signature for metric in compared if metric.signature)


def _ends(interval: Interval | None) -> str:
    return f"{signed(interval.low)} to {signed(interval.high)}" if interval else ""


def _p(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"


# ---- systems on a benchmark, in several languages ----


def systems_report(run: SystemsRun) -> Report:
    """For each metric: means and differences per language, and agreement with people's ratings."""
    tables = []
    for metric in run.metrics:
        tables.append(_means(run, metric))
        if run.pairs:
            tables.append(_differences(run, metric))
        if metric.agreement:
            tables.append(_agreement(metric))
    title = f"{run.benchmark} ({run.split}): {', '.join(run.systems)}"
    return Report(title, [*tables, *_systems_remarks(run)])


def _means(run: SystemsRun, metric: SystemsMetric) -> Table:
    """A row per language: the mean of every system, the best in bold, and the best published model."""
    model = _published_model(metric)
    rows: list[list[str]] = []
    bold = set()
    for part in metric.languages:
        scores = [part.means.get(name) for name in run.systems]
        if len(part.means) > 1:
            best = max(part.means.values())
            bold |= {(len(rows), 2 + index) for index, score in enumerate(scores) if score == best}
        published = fixed(part.published.get(model), 3, "")
        rows.append([part.language, f"{part.n_photos:,}", *map(fixed, scores), published])
    if len(metric.languages) > 1:
        rows.append(["mean", "", *(fixed(metric.means.get(name)) for name in run.systems), ""])
    headings = ("language", "photos", *run.systems, "published")
    return Table(headings, rows, f"{metric.metric}: means", bold=frozenset(bold))


def _differences(run: SystemsRun, metric: SystemsMetric) -> Table:
    """A row per language: the difference of every two systems, with its interval where there are two."""
    rows: list[list[str]] = []
    for part in metric.languages:
        found = {(pair.first, pair.second): pair for pair in part.differences}
        cells = [part.language]
        for names in run.pairs:
            pair = found.get(names)
            cells.append("–" if pair is None else signed(pair.difference) + ("*" if pair.is_clear else " "))
        only = found.get(run.pairs[0]) if len(run.pairs) == 1 else None
        rows.append([*cells, _ends(only.interval) if only else ""])
    if len(metric.languages) > 1:
        cells = ["mean"]
        for first, second in run.pairs:
            known = {first, second} <= metric.means.keys()
            cells.append(signed(metric.means[second] - metric.means[first]) + " " if known else "–")
        rows.append([*cells, ""])
    headings = [f"{second} − {first}" for first, second in run.pairs]
    interval = f"{level_text(run.options.confidence)} interval"
    return Table(("language", *headings, interval), rows, f"{metric.metric}: differences")


def _agreement(metric: SystemsMetric) -> Table:
    """Correlations of differences with people's gains."""
    levels = sorted(metric.agreement.items(), key=lambda item: (item[0] != ALL, item[0]))
    rows = [
        (name, str(level.n_evaluations), *(fixed(level.values[key], 3, "undefined") for key in _CORRELATIONS))
        for name, level in levels
    ]
    headings = ("language", "pairs", *(NAMES[key] for key in _CORRELATIONS))
    return Table(headings, rows, f"{metric.metric}: agreement with side-by-side ratings")


def _systems_remarks(run: SystemsRun) -> Iterator[str]:
    if len(run.systems) > 1 and run.options.bootstrap:
        yield (
            f"* marks a difference whose {level_text(run.options.confidence)} interval leaves out 0 "
            f"({run.options.bootstrap:,} bootstrap draws of photos, seed {run.options.seed}); intervals are "
            "not corrected for the number of languages or of pairs."
        )
    elif len(run.systems) > 1:
        yield "No intervals: no bootstrap draws."
    for model in dict.fromkeys(filter(None, map(_published_model, run.metrics))):
        yield (
            f"published: {model}, the best model of {published_citation()}; its captions and the references "
            "were split into words in another way."
        )
    if any(metric.agreement for metric in run.metrics):
        yield (
            "Agreement: correlation of differences with side-by-side gains; each evaluation counts twice, "
            "with signs flipped (Thapliyal et al. 2022, §3.3)."
        )
    yield from (f"note: {note}" for note in run.notes)
    for metric in run.metrics:
        yield (
            f"{metric.metric}: {counted(len(metric.languages), 'language')}, "
            f"{counted(sum(part.n_photos for part in metric.languages), 'captioned photo')} per system, "
            f"{counted(sum(part.n_references for part in metric.languages), 'reference')}; "
            f"{sum(part.seconds for part in metric.languages):.1f} s"
        )
        yield f"  {metric.signature}"
        for name, level in metric.agreement.items():
            yield from (f"  note: agreement, {name}: {note}" for note in level.notes)
        for warning in dict.fromkeys(text for part in metric.languages for text in part.warnings):
            yield f"  note: {warning}"


def _published_model(metric: SystemsMetric) -> str:
    """The published model that is best over these languages; "" where none is published."""
    totals: Counter[str] = Counter()
    for part in metric.languages:
        totals.update(part.published)
    return max(totals, key=lambda model: totals[model]) if totals else ""


def published_report(lines: Sequence[PublishedAgreement]) -> Report:
    """Thapliyal et al. 2022, Table 6: computed from its Tables 5 and 7, beside what it prints."""
    rows = [
        (
            line.languages,
            _REFERENCES[line.references],
            str(line.level.n_points),
            *(f"{fixed(line.level.values[key], 3)} ({fixed(line.printed[key], 2)})" for key in _CORRELATIONS),
        )
        for line in lines
    ]
    headings = ("languages", "references", "N", *(NAMES[key] for key in _CORRELATIONS))
    title = "CIDEr differences against people's side-by-side gains, recomputed (printed)"
    source = f"{published_citation()}; inputs are rounded as printed."
    return Report("", [Table(headings, rows, title, left=2), source])


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
