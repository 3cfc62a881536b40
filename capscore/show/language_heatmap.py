"""Runs of one benchmark in several languages → a figure of how a metric's scores correlate between them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..benchmarks.protocols import CrossLanguageCorrelation, cross_language
from ..benchmarks.run import BenchmarkRun, MetricResult
from ..errors import CapscoreError


def between_languages(runs: Sequence[BenchmarkRun]) -> list[tuple[str, CrossLanguageCorrelation]]:
    """Correlations between languages of every metric that was run in all of them.

    Args:
        runs: Runs of one benchmark, one per language; item i is the same photo in all of them.

    Returns:
        Pairs of a metric and its correlations.

    Raises:
        CapscoreError: fewer than two runs, several benchmarks, or items that do not correspond.
    """
    if len(runs) < 2 or len({run.benchmark for run in runs}) > 1:
        raise CapscoreError("a comparison of languages needs one benchmark in at least two languages")
    missing = runs[0].options.missing
    found = []
    for result in runs[0].results:
        same = [next((part for part in run.results if part.metric == result.metric), None) for run in runs]
        if any(part is None or part.scores is None for part in same):
            continue
        photos = [_photos(part) for part in same if part is not None]
        if any(names != photos[0] for names in photos):
            raise CapscoreError(
                f"{', '.join(run.name for run in runs)} don't have the same photos in the same order, so "
                "their scores cannot be compared"
            )
        scores = {run.config: part.scores for run, part in zip(runs, same, strict=True) if part is not None}
        found.append((result.metric, cross_language(scores, missing=missing)))
    if not found:
        raise CapscoreError("no metric has scores in all of these languages")
    return found


def _photos(result: MetricResult) -> list[str]:
    return [row.get("image_id", "") for _, row in result.rows]


def write_heatmap(runs: Sequence[BenchmarkRun], path: str | Path) -> Path:
    """Draw the first metric below the diagonal and the second, if there is one, above it.

    Args:
        runs: As in `between_languages`.
        path: File that ends in .png, .svg or .pdf.

    Raises:
        CapscoreError: as in `between_languages`; or another suffix, or matplotlib is not installed.
    """
    (name, lower), *others = between_languages(runs)
    title = f"{runs[0].benchmark}: Pearson's r of scores between languages"
    if not others:
        return lower.figure(path, title=title, label=name)
    return lower.figure(path, title=title, label=name, other=others[0][1], other_label=others[0][0])
