"""Measures agreement with ratings on benchmarks without photos: a reference stands for each photo.

In: metrics, and the towers that embed the references. Out: a `BenchmarkRun` like any other, whose notes and
signatures name the stand-ins. With photos, use `capscore.benchmarks.run_benchmark`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import CapscoreError
from ...metrics.signature import format_signature
from ..run import BenchmarkRun, MetricResult, heard, open_benchmark, start_run
from ..tasks import TaskOptions, task_of
from .run import against_stand_ins

if TYPE_CHECKING:
    from ...embedding.embedder import Embedder
    from ...metrics.backbone_scorer import BackboneScorer


def stand_in_agreement(
    slug: str,
    config: str | None,
    scorers: Mapping[str, BackboneScorer],
    plain_embedders: Mapping[str, Embedder],
    *,
    data_dir: str | Path | None = None,
    options: TaskOptions | None = None,
) -> BenchmarkRun:
    """Measure how metrics agree with ratings, with the first reference of each photo in its place.

    Args:
        slug, config, data_dir: As in `capscore.load_benchmark`.
        scorers: Name → metric that looks at photos alone.
        plain_embedders: Name → embedder of the references.
        options: How scores become numbers.

    Raises:
        CapscoreError: the benchmark cannot be loaded, or has no references.
    """
    options = options or TaskOptions()
    builder, split = open_benchmark(slug, config, data_dir=data_dir, images=False)
    task = task_of(slug, builder.config.name)
    run, rows = start_run(
        builder,
        split,
        options,
        "no photo was opened: its first reference, embedded by the plain tower, stands for it",
    )
    queries = task.queries(rows)
    if not task.takes_scores or queries.without_references:
        raise CapscoreError(
            f"{run.name}: {queries.without_references:,} of {len(queries):,} captions have no reference "
            "to stand for the photo"
            if task.takes_scores
            else f"{run.name} has no ratings to agree with"
        )
    stand_ins = [texts[0] for texts in queries.references]
    for name, scorer in scorers.items():
        start = time.perf_counter()
        with heard() as told:
            scores, settings = against_stand_ins(
                scorer, queries.candidates, stand_ins, queries.named_languages, plain_embedders[name]
            )
            outcome = task.outcome(rows, scores, options)
        run.results.append(
            MetricResult(
                metric=name,
                backbone=scorer.backbone.name,
                signature=format_signature(scorer.metric, settings),
                outcome=outcome,
                published={each.name: [] for each in outcome.statistics},
                n_rows=len(rows),
                n_queries=len(queries),
                seconds=time.perf_counter() - start,
                warnings=tuple(told),
                rows=rows,
                scores=scores,
            )
        )
    return run
