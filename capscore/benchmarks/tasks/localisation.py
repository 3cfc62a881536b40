"""FOIL-it, nocaps-FOIL and HAT: captions with wrong words, and which words they are."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..protocols.foil_localisation import doubts_of, labels_at, localisation, places_of
from .base import KeyedRows, Measurement, Outcome, Queries, Task, TaskOptions
from .foils import FoilTask

if TYPE_CHECKING:
    from ...metrics.base import Scorer

# captions whose regions are held in memory at the same time
_BLOCK = 4000

Places = list[tuple[int, int]]
# for each caption, its words as in `Scores.details`
Words = Sequence[Sequence[Mapping[str, Any]]]


class HallucinationTask(Task):
    """Whether a metric finds the hallucinated words of captions, and tells such captions from the others.

    A metric without scores of words is measured on captions only.
    """

    def marked(self, rows: KeyedRows) -> list[tuple[bool, Places]]:
        """For each query, whether its caption has a wrong word, and the places of its wrong words."""
        found = []
        for _, row in rows:
            places, start = [], 0
            for token, wrong in zip(row["tokens"], row["token_labels"], strict=True):
                places += [(start, start + len(token))] if wrong else []
                start += len(token) + 1
            found.append((bool(places), places))
        return found

    def outcome(self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions) -> Outcome:
        return self.judged(rows, scores, options, None)

    def judged(
        self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions, words: Words | None
    ) -> Outcome:
        """The outcome of (q,) scores of captions and, unless None, of the words of each caption."""
        marked = self.marked(rows)
        doubts = None if words is None else doubts_of(words)
        labels = (
            None
            if words is None
            else [labels_at(own, places) for own, (_, places) in zip(words, marked, strict=True)]
        )
        found = localisation(
            scores,
            [wrong for wrong, _ in marked],
            doubts,
            labels,
            images=[rows[number][1]["image_id"] for number in self.owners(rows)],
            **options.sampling,
        )
        return Outcome.of(found)

    def measure(
        self, rows: KeyedRows, scorer: Scorer, components: Collection[str], options: TaskOptions
    ) -> Measurement:
        if "words" not in scorer.detail_names:
            return super().measure(rows, scorer, components, options)
        queries = self.queries(rows)
        start = time.perf_counter()
        scores, words, signature = _scores_with_words(scorer, queries, components)
        seconds = time.perf_counter() - start
        outcomes = {part: self.judged(rows, column, options, words) for part, column in scores.items()}
        return Measurement(outcomes, signature, seconds, scores)


class LocalisationTask(HallucinationTask):
    """Whether a metric finds the word of a foil that is wrong, and scores the foil lower than its caption."""

    queries_per_row = FoilTask.queries_per_row

    def queries(self, rows: KeyedRows) -> Queries:
        return FoilTask().queries(rows)

    def marked(self, rows: KeyedRows) -> list[tuple[bool, Places]]:
        found: list[tuple[bool, Places]] = []
        for _, row in rows:
            found += [(False, []), (True, places_of(row["foil"], row["foil_word"]))]
        return found

    def judged(
        self, rows: KeyedRows, scores: np.ndarray, options: TaskOptions, words: Words | None
    ) -> Outcome:
        pairs = FoilTask().outcome(rows, scores, options)
        found = super().judged(rows, scores, options, words)
        return Outcome(
            (*pairs.statistics, *found.statistics),
            {**pairs.counts, **found.counts},
            (*pairs.notes, *(note for note in found.notes if note not in pairs.notes)),
            {"foils": pairs.details, "localisation": found.details},
        )


def _scores_with_words(
    scorer: Scorer, queries: Queries, components: Collection[str]
) -> tuple[dict[str, np.ndarray], Words, str]:
    """Component → (q,) scores; the words of each caption; the signature.

    Rows are scored a block at a time, and regions are forgotten: those of all captions would fill the memory.
    """
    columns: dict[str, list[np.ndarray]] = {part: [] for part in components}
    words: list[Sequence[Mapping[str, Any]]] = []
    signature = ""
    for start in range(0, len(queries), _BLOCK):
        block = slice(start, start + _BLOCK)
        found = scorer.score(
            queries.candidates[block],
            queries.images[block] if scorer.needs_images else None,
            references=queries.references[block] if scorer.needs_references else None,
            language=queries.languages[block],
        )
        for part, parts in columns.items():
            parts.append(found.components[part] if part else found.scores)
        words += [detail["words"] if detail is not None else [] for detail in found.details or ()]
        signature = signature or found.signature
    return {part: np.concatenate(parts) for part, parts in columns.items()}, words, signature
