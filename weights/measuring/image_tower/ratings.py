"""Agreement with people: `capscore benchmark`'s own numbers of a backbone on sets whose photos are there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capscore.benchmarks.published import find
from capscore.benchmarks.run import BenchmarkRun, MetricResult, run_benchmark
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError
from capscore.metrics.base import Scorer
from capscore.registry import METRICS

from ..intervals import share_of_sums
from .figures import Figure, PublishedFigure, Report, of_share

OPENAI = "ViT-B-32-quickgelu/openai"
# metric → metrics whose printed values stand beside its own
BESIDE = {"mcs": ("clip_score", "infometic", "infometic_plus"), "ref_clip_score": ("ref_clip_score",)}
LABELS = {
    "mcs": "MCS",
    "ref_clip_score": "RefCLIPScore",
    "text_score": "references alone",
    "clip_score": "CLIPScore",
    "infometic": "InfoMetIC",
    "infometic_plus": "InfoMetIC+",
}
# (metric of the term, key, title); the terms of RefCLIPScore's harmonic mean
TERMS = (("mcs", "photo_term", "photo term, mean"), ("text_score", "text_term", "reference term, mean"))


@dataclass(frozen=True)
class RatedSet:
    """A benchmark, and what is measured on it.

    Attributes:
        group: Name of the group of its figures.
        slug, config: Benchmark and configuration.
        home: Folder of its files, under the folder of all official files.
        photos: Folder of its photos, under the folder of all photos.
        statistics: Meaning of several ratings per caption ("flatten" or "mean", as in `TaskOptions`) →
            statistic → its name in the tables.
        metrics: Metrics that are measured.
        split: Split that is measured; None for the benchmark's usual one.
        sample: Whether the public files are a sample, so that published values are of other rows.
        terms: Whether the means of RefCLIPScore's two terms are shown too.
    """

    group: str
    slug: str
    config: str | None
    home: str
    photos: str
    statistics: Mapping[str, Mapping[str, str]]
    metrics: tuple[str, ...]
    split: str | None = None
    sample: bool = False
    terms: bool = False


SETS = {
    found.group: found
    for found in (
        RatedSet(
            "expert",
            "flickr8k_human",
            "expert",
            "flickr8k",
            "flickr8k",
            {"flatten": {"tau_c": "τ_c"}},
            ("mcs", "ref_clip_score", "text_score"),
            terms=True,
        ),
        RatedSet(
            "crowdflower",
            "flickr8k_human",
            "crowdflower",
            "flickr8k",
            "flickr8k",
            {"flatten": {"tau_b": "τ_b"}},
            ("mcs", "ref_clip_score", "text_score"),
            terms=True,
        ),
        RatedSet(
            "pascal50s",
            "pascal50s",
            "default",
            "pascal50s",
            "voc_animals",
            {
                "flatten": {
                    "accuracy_hc": "HC",
                    "accuracy_hi": "HI",
                    "accuracy_hm": "HM",
                    "accuracy_mm": "MM",
                    "accuracy_mean": "mean",
                }
            },
            ("mcs", "ref_clip_score"),
        ),
        RatedSet(
            "vicr",
            "vicr",
            "default",
            "vicr",
            "coco_val2014",
            {
                "mean": {"tau_b": "τ_b, mean ratings", "spearman": "ρ, mean ratings"},
                "flatten": {"tau_b": "τ_b, single ratings"},
            },
            ("mcs",),
            split="all",
            sample=True,
        ),
    )
}


def measure_ratings(
    report: Report, embedder: Embedder, rated: RatedSet, data: Path, photos: Path, options: TaskOptions
) -> None:
    """Add a rated set's figures to a report. Metrics without photos are measured where photos are missing."""
    results: dict[str, MetricResult] = {}
    for metrics in _by_inputs(rated.metrics):
        for raters in rated.statistics:
            try:
                run = run_benchmark(
                    rated.slug,
                    rated.config,
                    data_dir=data / rated.home,
                    image_dir=photos / rated.photos,
                    split=rated.split,
                    metrics={metric: _maker(metric, embedder) for metric in metrics},
                    options=dataclasses.replace(options, raters=raters),
                    partial=True,
                    keep_going=True,
                )
            except CapscoreError as error:
                report.figures += [_missing(rated, raters, metric, str(error)) for metric in metrics]
                continue
            report.figures += [
                _missing(rated, raters, metric, str(why)) for metric, why in run.skipped.items()
            ]
            for result in run.results:
                results[result.metric] = result
                report.figures += _figures(rated, raters, run, result)
    if rated.terms:
        report.figures += _terms(rated, results, options)


def _by_inputs(metrics: Sequence[str]) -> list[list[str]]:
    """The metrics that open images, and the others."""
    parts = [[m for m in metrics if METRICS.get(m).needs_images is opens] for opens in (True, False)]
    return [part for part in parts if part]


def _maker(metric: str, embedder: Embedder) -> Callable[[], Scorer]:
    assert METRICS.get(metric).takes_backbone
    kind: Callable[[Embedder], Scorer] = METRICS.get(metric)  # type: ignore[assignment]
    return lambda: kind(embedder)


def _missing(rated: RatedSet, raters: str, metric: str, why: str) -> Figure:
    titles = ", ".join(rated.statistics[raters].values())
    return Figure(f"{rated.group}/{metric}/{raters}", f"{LABELS[metric]} {titles}", missing=why)


def _figures(rated: RatedSet, raters: str, run: BenchmarkRun, result: MetricResult) -> list[Figure]:
    measured = {statistic.name: statistic for statistic in result.outcome.statistics}
    notes = [f"{result.n_rows:,} of {run.n_rows:,} rows"] if result.n_rows < run.n_rows else []
    counted = "pairs" if "pairs" in result.outcome.counts else "captions" if raters == "mean" else "ratings"
    figures = []
    for name, title in rated.statistics[raters].items():
        statistic = measured[name]
        ends = statistic.interval
        figures.append(
            Figure(
                f"{rated.group}/{result.metric}/{name}" + ("/mean_ratings" if raters == "mean" else ""),
                f"{LABELS[result.metric]} {title}",
                None if statistic.value is None else 100 * statistic.value,
                None if ends is None else (100 * ends[0], 100 * ends[1]),
                n=statistic.n,
                n_of=counted,
                resampled="" if ends is None else "photos",
                signature=result.signature,
                published=() if rated.sample else _published(rated, result.metric, name),
                note="; ".join([*notes, *result.outcome.notes]),
            )
        )
    return figures


def _published(rated: RatedSet, metric: str, statistic: str) -> tuple[PublishedFigure, ...]:
    """Printed values of OpenAI's ViT-B/32, each value of a metric once."""
    found: dict[tuple[str, float], PublishedFigure] = {}
    for other in BESIDE.get(metric, ()):
        for entry in find(rated.slug, rated.config, other, backbone=OPENAI, language="en"):
            if entry.statistic == statistic and not entry.setting and entry.metric == other:
                value = round(100 * entry.measured_unit, 6)
                shown = PublishedFigure(LABELS[other], OPENAI, value, entry.citation)
                found.setdefault((other, value), shown)
    return tuple(found.values())


def _terms(rated: RatedSet, results: Mapping[str, MetricResult], options: TaskOptions) -> list[Figure]:
    """Means of the two terms of RefCLIPScore's harmonic mean, over all rows: their scales."""
    figures = []
    for metric, key, title in TERMS:
        result = results.get(metric)
        if result is None or result.scores is None:
            continue
        scores = np.maximum(result.scores, 0.0)
        _, unit = np.unique([row["image_id"] for _, row in result.rows], return_inverse=True)
        share = share_of_sums(np.bincount(unit, weights=scores), np.bincount(unit).astype(float), options)
        figures.append(
            of_share(
                f"{rated.group}/{key}",
                title,
                share,
                times=1.0,
                n=len(scores),
                n_of="captions",
                unit="score",
                signature=result.signature,
            )
        )
    return figures
