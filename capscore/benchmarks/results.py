"""Results of benchmarks: measured numbers beside published ones, as tables, rows of pandas and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from .. import __version__
from ..errors import CapscoreError
from ..files.shipped import benchmark_card
from ..registry import METRICS
from ..statistics.columns import plain
from ..tables import Report, Result, Table, counted, fixed, level_text, percent, signed
from .protocols import ProtocolResult, Statistic
from .published import Published, find
from .result_file import numbers_of, runs_of, stamped
from .tasks import KeyedRows, TaskOptions

_NAMES = {"tau_b": "τ_b", "tau_c": "τ_c", "spearman": "ρ", "pearson": "r"}
_NAMES |= {"one_minus_r2": "1 − R²", "sample_tau": "sample τ"}
_REPRODUCED = (
    "Reproduced: the measured number is within half a unit of the published one's last digit; if not, by how "
    "much it is higher (+) or lower (−)."
)


class MetricRefusal(CapscoreError):
    """A metric and a benchmark do not go together, whatever the backbone."""


@dataclass(frozen=True)
class MetricResult:
    """What a benchmark says about one metric."""

    metric: str
    backbone: str
    signature: str
    outcome: ProtocolResult
    n_rows: int
    n_queries: int
    seconds: float
    warnings: tuple[str, ...] = ()
    published: dict[str, list[Published]] = field(default_factory=dict)
    rows: KeyedRows = field(default=(), repr=False)
    scores: np.ndarray | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        named = not self.backbone or "@" in self.metric
        return self.metric if named else f"{self.metric} ({self.backbone})"

    @property
    def statistics(self) -> dict[str, Statistic]:
        """The measured numbers by name."""
        return {statistic.name: statistic for statistic in self.outcome.statistics}

    def value(self, name: str) -> float | None:
        """The value of a statistic; None if it is undefined or was not measured."""
        return self.statistics[name].value if name in self.statistics else None

    def to_dict(self) -> dict[str, object]:
        statistics = []
        for name, value, interval, n in self.outcome.statistics:
            figures = [figure.beside(value) for figure in self.published.get(name, [])]
            ends = plain(interval)
            statistics.append(
                {"name": name, "measured": value, "interval": ends, "n": n, "published": figures}
            )
        return {
            "metric": self.metric,
            "backbone": self.backbone or None,
            "signature": self.signature,
            "statistics": statistics,
            "counts": self.outcome.counts,
            "notes": list(self.outcome.notes),
            "warnings": list(self.warnings),
            "n_rows": self.n_rows,
            "n_queries": self.n_queries,
            "seconds": round(self.seconds, 3),
            "details": plain(self.outcome.details),
        }


@dataclass(frozen=True)
class BenchmarkRun:
    """What a benchmark's configuration says about every metric.

    Attributes:
        skipped: Metric → why it was not run; a `MetricRefusal` if the benchmark and the kind of metric do not
            go together, whatever the backbone.
        comparisons: Paired tests of the first metric against the others, with "p_value_holm", corrected for
            their number.
        unlike: Difference between its rows and those that published figures are of; "" for none.
    """

    benchmark: str
    config: str
    split: str
    version: str
    files: dict[str, str]
    n_rows: int
    options: TaskOptions
    results: list[MetricResult] = field(default_factory=list)
    skipped: dict[str, CapscoreError] = field(default_factory=dict)
    comparisons: list[dict[str, Any]] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    unlike: str = ""

    @property
    def name(self) -> str:
        """Benchmark and configuration in words: "xvnli · fr"."""
        return config_title(self.benchmark, self.config)

    def to_dict(self) -> dict[str, object]:
        return {
            "benchmark": self.benchmark,
            "config": self.config,
            "split": self.split,
            "script_version": self.version,
            "capscore_version": __version__,
            "files": self.files,
            "n_rows": self.n_rows,
            "options": self.options.to_dict(),
            "results": [result.to_dict() for result in self.results],
            "comparisons": self.comparisons,
            "skipped": {metric: str(why) for metric, why in self.skipped.items()},
            "notes": list(self.notes),
        }

    def report(self) -> Report:
        """Every statistic of every metric, beside published ones; then counts, signatures and notes."""
        sources: list[str] = []
        rows: list[list[str]] = []
        for result in self.results:
            name = result.name
            for statistic in result.outcome.statistics:
                figures = result.published.get(statistic.name, [])
                rows += _rows_of(name, statistic, figures, sources)
                name = ""
        parts: list[Table | str] = []
        if rows:
            interval = f"{level_text(self.options.sampling.confidence)} interval"
            headings = ("metric", "statistic", "measured", interval, "published", "reproduced", "n")
            legend = ["Numbers are times 100."]
            if any(row[5] for row in rows):
                legend.append(_REPRODUCED)
            if draws := self.options.sampling.bootstrap:
                legend.append(f"Intervals: {draws:,} bootstrap draws of photos.")
            parts += [Table(headings, rows, left=2), " ".join(legend)]
        for result in self.results:
            parts += _not_comparable(result, sources)
        parts += [f"[{number}] {source}" for number, source in enumerate(sources, start=1)]
        parts += self._remarks()
        return Report(f"{self.name} ({self.split}, {counted(self.n_rows, 'row')})", parts)

    def _remarks(self) -> Iterator[str]:
        for note in self.notes:
            yield f"note: {note}"
        for result in self.results:
            counts = ", ".join(f"{number:,} {what}" for what, number in result.outcome.counts.items())
            part = ""
            if result.n_rows < self.n_rows:
                part = f" ({result.n_rows:,} of {self.n_rows:,} rows)"
            yield f"{result.name}: {counts}{part}; {result.seconds:.1f} s"
            yield f"  {result.signature}"
            for note in (*result.outcome.notes, *result.warnings):
                yield f"  note: {note}"
            yield from _figures_of_kin(self, result)
        n_tests = sum(test["p_value"] is not None for test in self.comparisons)
        for test in self.comparisons:
            yield _comparison(test, n_tests)
        for metric, reason in self.skipped.items():
            yield f"{metric}: not run. {reason}"


@dataclass(frozen=True)
class BenchmarkResults(Result):
    """What `capscore.benchmark` found; it prints as tables.

    Attributes:
        skipped: Benchmark and configuration of a suite → why it was not run.
        failed: Benchmark and configuration of a suite → what is wrong with its files.
        suite: Name of the suite; "" if benchmarks were named.
    """

    runs: list[BenchmarkRun] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    suite: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Everything unrounded, as `capscore benchmark --output` writes it."""
        runs = [run.to_dict() for run in self.runs]
        document: dict[str, Any] = {"runs": runs}
        if self.suite:
            document = {"suite": self.suite, **document, "skipped": self.skipped, "failed": self.failed}
        elif len(runs) == 1:
            document = runs[0]
        return stamped(document)

    def to_pandas(self) -> Any:
        """A row per number: where it was measured, its value, and the published value to compare with."""
        import pyarrow as pa

        rows = []
        for run in runs_of(self.to_dict()):
            for number in numbers_of("", run):
                row = {**number._asdict(), "published": number.published, "source": number.source}
                del row["figures"], row["file"]
                rows.append(row)
        return pa.Table.from_pylist(rows).to_pandas()

    def report(self) -> Report:
        """The tables of every run, and what was not run."""
        parts: list[Report] = [run.report() for run in self.runs]
        for title, left_out in (("Not run", self.skipped), ("Damaged", self.failed)):
            if left_out:
                parts.append(Report(title, [f"{name}: {reason}" for name, reason in left_out.items()]))
        return Report("", parts)

    def not_run(self) -> list[str]:
        """Metrics that were not run, and why; of a suite, without those that do not fit a benchmark."""
        lines = []
        for run in self.runs:
            for name, why in run.skipped.items():
                if not (self.suite and isinstance(why, MetricRefusal)):
                    lines.append(f"{run.name}: {name} was not run. {why}")
        return lines


# ---- names for people ----


def config_title(slug: str, config: str | None) -> str:
    """Benchmark and configuration in words.

    >>> config_title("xvnli", "fr"), config_title("thumb", "default")
    ('xvnli · fr', 'thumb')
    """
    return slug if config in ("default", "", None) else f"{slug} · {config}"


@cache
def benchmark_title(slug: str, config: str | None = None) -> str:
    """The name of a benchmark, as its card has it, and a configuration."""
    pretty_name = re.search(r"^pretty_name: (.+)$", benchmark_card(slug), re.MULTILINE)
    if pretty_name:
        slug = pretty_name[1]
    return config_title(slug, config)


def statistic_name(name: str) -> str:
    """The name of a statistic as papers write it.

    >>> [statistic_name(name) for name in ("tau_c", "accuracy_hc", "pearson_recall_with_human")]
    ['τ_c', 'accuracy HC', 'r recall + human']
    >>> statistic_name("text_to_image_r@1")
    'text to image R@1'
    """
    if name in _NAMES:
        return _NAMES[name]
    head, _, tail = name.partition("_")
    if head == "accuracy" and len(tail) == 2:
        tail = tail.upper()
    words = f"{_NAMES.get(head, head)} {tail}".replace("_without_human", "").replace(
        "_with_human", " + human"
    )
    return words.strip().replace("_", " ").replace(" r@", " R@")


# ---- cells and remarks ----


def _rows_of(
    name: str, statistic: Statistic, figures: list[Published], sources: list[str]
) -> list[list[str]]:
    """The row of a statistic with its published value, and one more if that was recomputed as well."""
    cells = []
    for recomputed in (False, True):
        same = [one for one in figures if not one.unlike and (one.kind == "recomputed") == recomputed]
        cells += [_published(statistic, figure, sources) for figure in same[:1]]
    first, *others = cells or [("", "")]
    measured = fixed(percent(statistic.value), 2, "undefined")
    n = f"{statistic.n:,}" if statistic.n else ""
    label = statistic_name(statistic.name)
    rows = [[name, label, measured, _range(statistic.interval), *first, n]]
    return rows + [["", "", "", "", *other, ""] for other in others]


def _published(statistic: Statistic, figure: Published, sources: list[str]) -> tuple[str, str]:
    """The cells of a published value and of whether it is reproduced; its source joins the list."""
    told = figure.beside(statistic.value)
    off = signed(percent(told["difference"]), 2, "")
    standings = {"reproduced": "yes", "not reproduced": f"no, {off}"}
    return f"{figure.printed} {_number(figure, sources)}", standings.get(told["standing"], "")


def _number(figure: Published, sources: list[str]) -> str:
    """The number of a figure's source, in brackets; the source joins the list."""
    source = figure.citation
    if figure.kind == "quoted":
        source += ", quoted"
    if figure.note:
        source += f": {figure.note}"
    if source not in sources:
        sources.append(source)
    return f"[{sources.index(source) + 1}]"


def _not_comparable(result: MetricResult, sources: list[str]) -> Iterator[str]:
    """The first published figure of each statistic that has none to compare with, by reason and source."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, figures in result.published.items():
        if figures and figures[0].unlike:
            key = figures[0].unlike, _number(figures[0], sources)
            found.setdefault(key, []).append(f"{statistic_name(name)} {figures[0].printed}")
    for (reason, number), listed in found.items():
        told = f"published, but not comparable ({reason})"
        yield f"{result.name}: {told}: {', '.join(listed)} {number}"


def _figures_of_kin(run: BenchmarkRun, result: MetricResult) -> Iterator[str]:
    """Published figures of metrics that work like this one: of a judge, with one model and one question."""
    scorer = METRICS.find(result.metric.partition("@")[0])
    if scorer is None:
        return
    for name in result.statistics:
        listed = []
        for key, title in scorer.kin.items():
            for figure in find(run.benchmark, run.config, key):
                if figure.statistic == name and figure.kind != "recomputed" and not figure.setting:
                    quoted = ", quoted" if figure.kind == "quoted" else ""
                    listed.append(f"{title} {figure.value:g} ({figure.citation}{quoted})")
        if listed:
            yield f"published judges (other models), {statistic_name(name)}: {'; '.join(listed)}"


def _range(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return ""
    low, high = (fixed(percent(end), 1) for end in interval)
    return f"{low} to {high}"


def _comparison(test: Mapping[str, Any], n_tests: int) -> str:
    pair = f"{' against '.join(test['metrics'])} (bootstrap)"
    if test["p_value"] is None:
        return f"{pair}: undefined"
    difference = signed(percent(test["difference"]), 2)
    if test["interval"]:
        difference += f" ({_range((test['interval']['low'], test['interval']['high']))})"
    p_value, corrected = test["p_value"], ""
    if n_tests > 1:
        p_value, corrected = test["p_value_holm"], " (Holm)"
    return f"{pair}: {statistic_name(test['statistic'])} {difference}, p = {p_value:.2g}{corrected}"
