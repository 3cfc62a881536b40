"""Agreement with people on sets whose photos are there → figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from capscore.benchmarks.published import find
from capscore.benchmarks.run import BenchmarkRun, MetricResult, run_benchmark
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError
from capscore.registry import METRICS

from .report import Figure, PublishedFigure, Report

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


@dataclass(frozen=True)
class RatedSet:
    """A benchmark, and what is measured on it."""

    slug: str  # also the folder of its files, without `home`
    config: str
    photos: str  # folder of its photos
    # meaning of several ratings per caption, as in `TaskOptions` → statistic → its name in the table
    statistics: Mapping[str, Mapping[str, str]]
    metrics: tuple[str, ...]
    home: str | None = None
    split: str | None = None
    sample: bool = False  # whether the public files are a sample, so that published values are of other rows


_FLICKR8K = ("mcs", "ref_clip_score", "text_score")
_PAIRS = {f"accuracy_{name}": name.upper() for name in ("hc", "hi", "hm", "mm")}
SETS = {
    "expert": RatedSet(
        "flickr8k_human", "expert", "flickr8k", {"flatten": {"tau_c": "τ_c"}}, _FLICKR8K, home="flickr8k"
    ),
    "crowdflower": RatedSet(
        "flickr8k_human", "crowdflower", "flickr8k", {"flatten": {"tau_b": "τ_b"}}, _FLICKR8K, home="flickr8k"
    ),
    "pascal50s": RatedSet(
        "pascal50s",
        "default",
        "voc_animals",
        {"flatten": {**_PAIRS, "accuracy_mean": "mean"}},
        ("mcs", "ref_clip_score"),
    ),
    "vicr": RatedSet(
        "vicr",
        "default",
        "coco_val2014",
        {
            "mean": {"tau_b": "τ_b, mean ratings", "spearman": "ρ, mean ratings"},
            "flatten": {"tau_b": "τ_b, single ratings"},
        },
        ("mcs",),
        split="all",
        sample=True,
    ),
}


def measure_ratings(
    report: Report, embedder: Embedder, group: str, data: Path, photos: Path, options: TaskOptions
) -> None:
    """Add a rated set's figures to a report. Metrics without photos are measured where photos are missing."""
    rated = SETS[group]
    for opens_images in (True, False):
        metrics = [name for name in rated.metrics if METRICS.get(name).needs_images is opens_images]
        for raters, titles in rated.statistics.items() if metrics else ():
            try:
                run = run_benchmark(
                    rated.slug,
                    rated.config,
                    data_dir=data / (rated.home or rated.slug),
                    image_dir=photos / rated.photos,
                    split=rated.split,
                    metrics={metric: partial(METRICS.get(metric), embedder) for metric in metrics},
                    options=dataclasses.replace(options, raters=raters),
                    partial=True,
                    keep_going=True,
                )
                missing = {metric: str(why) for metric, why in run.skipped.items()}
            except CapscoreError as error:
                run, missing = None, dict.fromkeys(metrics, str(error))
            for metric, why in missing.items():
                title = f"{LABELS[metric]} {', '.join(titles.values())}"
                report.figures.append(Figure(f"{group}/{metric}/{raters}", title, missing=why))
            for result in run.results if run else ():
                report.figures += _figures(group, raters, run, result)


def _figures(group: str, raters: str, run: BenchmarkRun, result: MetricResult) -> list[Figure]:
    rated = SETS[group]
    measured = {statistic.name: statistic for statistic in result.outcome.statistics}
    notes = [f"{result.n_rows:,} of {run.n_rows:,} rows"] if result.n_rows < run.n_rows else []
    counted = "pairs" if "pairs" in result.outcome.counts else "captions" if raters == "mean" else "ratings"
    figures = []
    for name, title in rated.statistics[raters].items():
        value, ends = measured[name].value, measured[name].interval
        figures.append(
            Figure(
                f"{group}/{result.metric}/{name}" + ("/mean_ratings" if raters == "mean" else ""),
                f"{LABELS[result.metric]} {title}",
                None if value is None else 100 * value,
                None if ends is None else (100 * ends[0], 100 * ends[1]),
                n=measured[name].n,
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
    shown: dict[tuple[str, float], PublishedFigure] = {}
    for other in BESIDE.get(metric, ()):
        for entry in find(rated.slug, rated.config, other, backbone=OPENAI, language="en"):
            if entry.statistic == statistic and not entry.setting and entry.metric == other:
                value = round(100 * entry.measured_unit, 6)
                figure = PublishedFigure(LABELS[other], OPENAI, value, entry.citation)
                shown.setdefault((other, value), figure)
    return tuple(shown.values())
