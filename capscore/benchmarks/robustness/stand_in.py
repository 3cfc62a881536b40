"""Scores captions against their photos, or against texts that stand for these.

A text that stands for a photo is embedded by the plain backbone, from which the metric's own was fine-tuned:
scores of a tuned tower and of its base are comparable only if both look at the same thing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ...backbones import find
from ...backbones.checkpoint import cached_snapshot, read_json
from ...errors import CapscoreError, InputError, MissingExtraError
from ...metrics.backbone_scorer import row_cosines
from ...metrics.signature import format_signature
from ..run import BenchmarkRun, MetricResult, heard, open_benchmark, start_run
from ..tasks import TaskOptions, task_of
from .captions import CaptionSet

if TYPE_CHECKING:
    from ...embedding.embedder import Embedder
    from ...metrics.backbone_scorer import BackboneScorer

T = TypeVar("T")


def plain_backbone(spec: str) -> str:
    """The backbone at the start of a chain of fine-tuning; the backbone itself if it was not fine-tuned.

    Args:
        spec: Backbone as in `capscore.load_backbone`; one from the Hub must have been loaded before.

    Raises:
        BackboneUnavailable: the folder of a fine-tuned backbone is damaged.

    >>> plain_backbone("embedded-pr-mcs"), plain_backbone("embedded")
    ('embedded', 'embedded')
    """
    seen: set[str] = set()
    while spec not in seen:
        seen.add(spec)
        spec = _base(spec) or spec
    return spec


def _base(spec: str) -> str:
    """The backbone that a backbone was fine-tuned from, or ""."""
    from ...backbones.tuned import MARKER, resolved

    known = find(spec)
    if known is not None:
        return known.base
    folder: Path | None = Path(spec).expanduser()
    if folder is not None and not folder.is_dir():
        repository, _, revision = spec.partition("@")
        folder = cached_snapshot(repository, revision)
    if folder is None or not (folder / MARKER).is_file():
        return ""
    return resolved(str(read_json(folder / MARKER)["base"]), folder)


def score_texts(
    scorer: BackboneScorer,
    captions: CaptionSet,
    texts: Sequence[str],
    rows: Sequence[int],
    embedder: Embedder | None,
) -> tuple[np.ndarray, dict[str, object]]:
    """Scores (m,) of m texts against the photos of the given rows or what stands for them; their settings."""
    if captions.stand_ins is not None:
        assert embedder is not None
        stand_ins = [captions.stand_ins[row] for row in rows]
        return against_stand_ins(scorer, texts, stand_ins, captions.language, embedder)
    if not texts:
        return np.zeros(0), {}
    images = [captions.images[row] for row in rows]
    found = scorer.score(list(texts), images, language=captions.language)
    return found.scores, {**found.settings, "images": "photos"}


def against_stand_ins(
    scorer: BackboneScorer, texts: Sequence[str], stand_ins: Sequence[str], language: str, embedder: Embedder
) -> tuple[np.ndarray, dict[str, object]]:
    """A metric's scores (n,) with cosines to n texts in place of those to the photos; the settings."""
    if not texts:
        return np.zeros(0), {}
    scorer.warn_about_languages([language])
    embedded = scorer.embedder.texts(texts, prefix=scorer.prefix)
    scorer.warn_about_truncation(embedded.truncated[embedded.index])
    tower = embedder.backbone
    photos = embedder.texts(stand_ins, prefix=tower.prefix)
    if tower.dim != scorer.backbone.dim:
        raise CapscoreError(
            f"{scorer.backbone.name} has embeddings of {scorer.backbone.dim} numbers, and {tower.name}, "
            f"which embeds the texts that stand for photos, has embeddings of {tower.dim}"
        )
    cosines = row_cosines(embedded.matrix, embedded.index, photos.matrix, photos.index)
    scores, _ = scorer.combine({"image_cosine": cosines})
    first = {**scorer.first_settings, "refs": 0, "lang": language}
    last = {key: value for key, value in scorer.last_settings.items() if key != "exif"}
    return scores, {**first, **last, "images": f"stand-in,{tower.name}@{tower.revision}"}


def made_or_skipped(names: Iterable[str], make: Callable[[str], T]) -> tuple[dict[str, T], dict[str, str]]:
    """What is made for each name; and name → why the captions' language does not allow it."""
    made: dict[str, T] = {}
    skipped: dict[str, str] = {}
    for name in names:
        try:
            made[name] = make(name)
        except (MissingExtraError, InputError) as error:
            if getattr(error, "row", None) is not None:  # the fault is in a caption, not in the language
                raise
            skipped[name] = error.message if isinstance(error, InputError) else str(error)
    return made, skipped


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

    `slug`, `config` and `data_dir` are as in `capscore.load_benchmark`; `scorers` look at photos alone, and
    `plain_embedders` embed the references.

    Raises:
        CapscoreError: the benchmark cannot be loaded, or has no references.
    """
    options = options or TaskOptions()
    builder, split = open_benchmark(slug, config, data_dir=data_dir, images=False)
    task = task_of(slug, builder.config.name)
    note = "no photo was opened: its first reference, embedded by the plain tower, stands for it"
    run, rows = start_run(builder, split, options, note)
    queries = task.queries(rows)
    if not task.takes_scores:
        raise CapscoreError(f"{run.name} has no ratings to agree with")
    if queries.references.count([]):
        raise CapscoreError(
            f"{run.name}: {queries.references.count([]):,} of {len(queries):,} captions have no reference "
            "to stand for the photo"
        )
    stand_ins = [texts[0] for texts in queries.references]
    for name, scorer in scorers.items():
        start = time.perf_counter()
        with heard() as said:
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
                published={statistic.name: [] for statistic in outcome.statistics},
                n_rows=len(rows),
                n_queries=len(queries),
                seconds=time.perf_counter() - start,
                warnings=tuple(said),
                rows=rows,
                scores=scores,
            )
        )
    return run
