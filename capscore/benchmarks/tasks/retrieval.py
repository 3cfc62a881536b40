"""Sets of captioned photos: which caption belongs to which photo."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from ...metrics.signature import format_signature
from ..protocols.retrieval_recall import retrieval
from .base import KeyedRows, Measurement, Outcome, Queries, Task, TaskOptions

if TYPE_CHECKING:
    from ...metrics.base import Scorer


@runtime_checkable
class ScoresPairs(Protocol):
    """A scorer that ranks pairs of images and captions by something other than their cosine."""

    def score_matrix(
        self, candidates: Sequence[str], images: Any, language: str | Sequence[str] | None = None
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Scores (images, candidates), and components of the same shape."""


class RetrievalTask(Task):
    """Every caption against every photo: how often the right one is among the best 1, 5 and 10.

    The captions are the references of the rows. If a photo has several, all are ranked.
    """

    takes_scores = False
    asks_for = "compares every photo with every caption: scores of rows are not enough"

    def refusal(self, slug: str, kind: type[Scorer], component: str) -> str:
        if kind.needs_images and not kind.needs_references:
            return ""
        return f"compares captions with references, and {slug} asks which photo belongs to which caption"

    def queries(self, rows: KeyedRows) -> Queries:
        queries = Queries()
        for key, row in rows:
            for number, caption in enumerate(row["references"]):
                queries.add(
                    f"{key}|{number}", caption, row["image_id"], row["image"], language=row["language"]
                )
        return queries

    def owners(self, rows: KeyedRows) -> list[int]:
        return [number for number, (_, row) in enumerate(rows) for _ in row["references"]]

    def measure(
        self, rows: KeyedRows, scorer: Any, components: Collection[str], options: TaskOptions
    ) -> Measurement:
        queries, photos = self.queries(rows), [row["image"] for _, row in rows]
        right: dict[str, Any] = {"text_to_image": self.owners(rows), "missing": options.missing}
        start = time.perf_counter()
        if isinstance(scorer, ScoresPairs):
            scores, parts = scorer.score_matrix(queries.candidates, photos, queries.languages)
            found = {part: retrieval(parts[part] if part else scores, **right) for part in components}
        else:
            images = scorer.embedder.images(photos)
            texts = scorer.embedder.texts(queries.candidates, prefix=scorer.prefix)
            cosines = retrieval(
                image_embeddings=images.matrix[images.index],
                text_embeddings=texts.matrix[texts.index],
                **right,
            )
            found = dict.fromkeys(components, cosines)
        seconds = time.perf_counter() - start
        # a photo drawn twice would be a second right answer to its own captions
        notes = ("no intervals: photos cannot be resampled here",) if options.bootstrap else ()
        signature = format_signature(scorer.metric, {**scorer.settings, "lang": queries.named_languages})
        return Measurement(
            {part: Outcome.of(one, notes=notes) for part, one in found.items()}, signature, seconds
        )
