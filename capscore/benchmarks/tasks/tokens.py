"""CapTokenEval: words that are right or wrong, and regions that are mentioned or not."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ..protocols.captokeneval_accuracy import captokeneval, scores_of_tokens
from .base import KeyedRows, Measurement, Outcome, Task, TaskOptions

if TYPE_CHECKING:
    from ...metrics.base import Scorer


class TokenTask(Task):
    """Which words of a caption are right, and which regions of its photo it mentions.

    The regions are those of the benchmark. Its words get the scores of the words that the metric finds in the
    same caption (see `scores_of_tokens`).
    """

    takes_scores = False
    asks_for = "asks for scores of words and regions, which a score of captions does not give"

    def refusal(self, slug: str, kind: type[Scorer], component: str) -> str:
        if {"words", "regions"} <= set(kind.detail_names) and not component:
            return ""
        return f"is a score of captions, and {slug} {self.asks_for}"

    def reported(self, kind: type[Scorer]) -> dict[str, str]:
        return {}  # every component has the same words and regions

    def measure(
        self, rows: KeyedRows, scorer: Any, components: Collection[str], options: TaskOptions
    ) -> Measurement:
        queries = self.queries(rows)
        start = time.perf_counter()
        found = scorer.score(
            queries.candidates,
            queries.images,
            language=queries.languages,
            boxes=[row["regions"] for _, row in rows],
        )
        seconds = time.perf_counter() - start
        outcome = token_outcome(rows, found.details, scorer.beta, options)
        return Measurement(dict.fromkeys(components, outcome), found.signature, seconds)


def token_outcome(
    rows: KeyedRows, details: Sequence[Mapping[str, Any]], beta: float, options: TaskOptions
) -> Outcome:
    """Scores of each row's words and regions → the benchmark's numbers.

    Args:
        rows: n rows.
        details: n dictionaries with "words" and "regions", as in `Scores.details`.
        beta: Threshold above which a word counts as right and a region as mentioned.
        options: How scores become numbers.

    Raises:
        InputError: the benchmark's words are not those of its caption; a score that counts is missing.
    """
    words = []
    for number, ((_, row), detail) in enumerate(zip(rows, details, strict=True)):
        try:
            words.append(scores_of_tokens(row["caption"], row["words"], detail["words"]))
        except InputError as error:
            raise error.at(number) from None
    found = captokeneval(
        words,
        [row["word_labels"] for _, row in rows],
        [row["semantic"] for _, row in rows],
        [[region["score"] for region in detail["regions"]] for detail in details],
        [row["region_labels"] for _, row in rows],
        beta=beta,
        missing=options.missing,
    )
    notes = ("no intervals: shares of words and regions have none",) if options.bootstrap else ()
    return Outcome.of(found, notes=notes)
