"""Scores of captions' words and photos' regions → how often they agree with people's labels.

In: per image-caption pair, word scores with labels and region scores with labels. Out: accuracy over semantic
words and over regions, as on CapTokenEval.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from ...errors import InputError, Setting
from ...statistics.ratings import check_missing
from .inputs import flag_column, score_column
from .results import ProtocolResult, Statistic, counted


@dataclass(frozen=True)
class TokenAccuracy:
    """Share of words or regions on the right side of a threshold.

    Attributes:
        n: Number of words or regions.
        right: Number of those with label 1 and a score above the threshold, or label 0 and one not above it.
        value: right / n; None if n is 0.
        mean_over_pairs: Plain mean of the pairs' own shares, each pair counted once; None if n is 0.
        n_pairs: Number of pairs with at least one.
    """

    n: int
    right: int
    value: float | None
    mean_over_pairs: float | None
    n_pairs: int


@dataclass(frozen=True)
class CapTokenEvalAccuracy(ProtocolResult):
    """Accuracy of a metric's words and regions.

    Attributes:
        text: Accuracy over semantic words, which should be above the threshold if right.
        vision: Accuracy over regions, which should be above the threshold if the caption mentions them.
        beta: Threshold.
        n_not_semantic: Number of other words, which take no part.
        n_missing: Numbers of semantic words and of regions left out because a score is missing.
        notes: Remarks that a reader needs.
    """

    protocol: ClassVar[str] = "captokeneval"
    text: TokenAccuracy
    vision: TokenAccuracy
    beta: float
    n_not_semantic: int
    n_missing: tuple[int, int]
    notes: tuple[str, ...]

    def statistics(self) -> list[Statistic]:
        """Named "accuracy_vision" and "accuracy_text"."""
        return [
            Statistic("accuracy_vision", self.vision.value, None, self.vision.n),
            Statistic("accuracy_text", self.text.value, None, self.text.n),
        ]

    def counts(self) -> dict[str, int]:
        """Numbers of words, of regions, and of both left out."""
        return {
            "semantic words": self.text.n,
            "other words": self.n_not_semantic,
            "regions": self.vision.n,
            "left out": sum(self.n_missing),
        }


def captokeneval(
    word_scores: Any,
    word_labels: Any,
    semantic: Any,
    region_scores: Any,
    region_labels: Any,
    *,
    beta: float = 0.1,
    missing: str = "raise",
) -> CapTokenEvalAccuracy:
    """Token-level accuracy (Hu et al. 2023, §4.4, Table 5).

    Only semantic words count: nouns, verbs, adjectives and numbers. The paper does not say whether its
    accuracy counts every word once or every pair once; `value` counts words, `mean_over_pairs` pairs. With 20
    regions per pair, the two are the same for vision.

    Args:
        word_scores: List of word scores of each pair.
        word_labels: List of labels of each pair, 1 for a word that is right about the photo, 0 for a wrong
            one.
        semantic: List of flags of each pair, True for a semantic word.
        region_scores: List of region scores of each pair.
        region_labels: List of labels of each pair, 1 for a region that the caption mentions.
        beta: Threshold **above** which a word counts as right and a region as mentioned.
        missing: "raise" stops at a missing score (NaN) that counts; "skip" leaves the word or region out.

    Raises:
        InputError: lists of different lengths (the row is the pair's), a label that is not 0 or 1, a missing
            score.

    >>> result = captokeneval(
    ...     [[0.3, 0.0, 0.05], [0.2]], [[1, 1, 1], [0]], [[1, 0, 1], [1]], [[0.4, 0.1], [0.0]], [[1, 1], [0]]
    ... )
    >>> result.table()
    [('accuracy vision', 0.666..., 3), ('accuracy text', 0.333..., 3)]
    >>> result.text.mean_over_pairs, result.n_not_semantic
    (0.25, 1)
    """
    check_missing(missing)
    if isinstance(beta, bool) or not isinstance(beta, Real) or not math.isfinite(beta):
        raise InputError(Setting("beta", beta), ": expected a number", field="beta")
    pairs = _ragged(word_scores, "word_scores", None)
    n = len(pairs)
    labels = _ragged(word_labels, "word_labels", n)
    flags = _ragged(semantic, "semantic", n)
    regions = _ragged(region_scores, "region_scores", n)
    mentions = _ragged(region_labels, "region_labels", n)

    words = _Tokens.of(pairs, "word_scores", {"word_labels": labels, "semantic": flags})
    boxes = _Tokens.of(regions, "region_scores", {"region_labels": mentions})
    is_semantic = words.flags["semantic"]
    text, text_missing = words.accuracy("word_labels", is_semantic, beta, missing)
    vision, vision_missing = boxes.accuracy("region_labels", np.full(len(boxes.scores), True), beta, missing)

    notes = []
    for number, what in ((text_missing, "semantic word"), (vision_missing, "region")):
        if number:
            notes.append(f"{counted(number, what)} without a score left out")
    for part, what in ((text, "semantic word"), (vision, "region")):
        if not part.n:
            notes.append(f"no {what}: no accuracy")
        elif part.n_pairs < n:
            notes.append(f"{n - part.n_pairs:,} of {counted(n, 'pair')} have no {what}")
    return CapTokenEvalAccuracy(
        text=text,
        vision=vision,
        beta=float(beta),
        n_not_semantic=int((~is_semantic).sum()),
        n_missing=(text_missing, vision_missing),
        notes=tuple(notes),
    )


def scores_of_tokens(
    caption: str, tokens: Sequence[str], words: Sequence[Mapping[str, Any]]
) -> list[float | None]:
    """Scores of a metric's words → scores of a benchmark's tokens of the same caption.

    The score of a token is the sum of the scores of all words that share a character with it. A token that
    spans several words thus gets the score that it would have as one word, and a word passes its score to
    every token in it: if T-shirt is one wrong word, the tokens T, - and shirt are all wrong.

    Args:
        caption: Text of the caption.
        tokens: Tokens in their order. Only blanks and punctuation may lie between them; case is ignored.
        words: Words with "start" and "end" (places of characters in the caption) and "score", which may be
            None; the other keys of `Scores.details` may be present.

    Returns:
        One score per token; None if no word shares a character with it (such as punctuation), or if such a
        word has no score.

    Raises:
        InputError: the tokens do not make up the caption; the message names the first that does not fit.

    >>> words = [
    ...     {"text": "ice", "start": 2, "end": 5, "score": 0.25},
    ...     {"text": "cream", "start": 6, "end": 11, "score": 0.5},
    ...     {"text": "man's", "start": 12, "end": 17, "score": 0.125},
    ... ]
    >>> scores_of_tokens("a ice-cream man's.", ["a", "ice-cream", "man", "'s", "."], words)
    [None, 0.75, 0.125, 0.125, None]
    """
    scores: list[float | None] = []
    for start, end in _token_places(caption, tokens):
        own = [word["score"] for word in words if word["start"] < end and start < word["end"]]
        scores.append(None if not own or None in own else math.fsum(own))
    return scores


def _token_places(caption: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    places, place = [], 0
    for number, token in enumerate(tokens):
        same = re.compile(re.escape(token), re.IGNORECASE)
        start = place
        while (found := same.match(caption, start)) is None:
            if start >= len(caption) or caption[start].isalnum():
                raise InputError(
                    f"word {number} is {token!r}, but the caption {caption!r:.120} continues with "
                    f"{caption[start:]!r:.40}",
                    field="words",
                )
            start += 1
        place = found.end()
        places.append((start, place))
    return places


@dataclass(frozen=True)
class _Tokens:
    """The words or regions of all pairs in one array, and the pair that each belongs to."""

    field: str
    scores: np.ndarray
    pair: np.ndarray
    flags: dict[str, np.ndarray]

    @classmethod
    def of(cls, scores: Sequence[Any], field: str, flags: dict[str, Sequence[Any]]) -> _Tokens:
        columns: list[np.ndarray] = []
        parts: dict[str, list[np.ndarray]] = {name: [] for name in flags}
        for row, values in enumerate(scores):
            try:
                columns.append(score_column(values, field, _length(values, field)))
                for name, lists in flags.items():
                    length = _length(lists[row], name)
                    if length != len(columns[-1]):
                        raise InputError(f"{length} values for {len(columns[-1])} {field}", field=name)
                    parts[name].append(flag_column(lists[row], name, length))
            except InputError as error:
                where = "" if error.row is None else f" (item {error.row} of the pair)"
                raise InputError(error.message + where, row=row, field=error.field) from None
        lengths = [len(column) for column in columns]
        return cls(
            field,
            np.concatenate(columns),
            np.repeat(np.arange(len(columns)), lengths),
            {name: np.concatenate(lists) for name, lists in parts.items()},
        )

    def accuracy(
        self, labels: str, counts: np.ndarray, beta: float, missing: str
    ) -> tuple[TokenAccuracy, int]:
        gaps = counts & np.isnan(self.scores)
        if missing == "raise" and gaps.any():
            place = int(gaps.argmax())
            item = place - int(np.searchsorted(self.pair, self.pair[place]))
            raise InputError(
                f"item {item} of the pair has no score (NaN); ",
                Setting("missing", "skip"),
                " leaves it out",
                row=int(self.pair[place]),
                field=self.field,
            )
        kept = counts & ~gaps
        right = (self.scores > beta) == self.flags[labels]
        size = int(self.pair.max(initial=-1)) + 1
        n = np.bincount(self.pair[kept], minlength=size)
        n_right = np.bincount(self.pair[kept], weights=right[kept], minlength=size)
        shares = n_right[n > 0] / n[n > 0]
        total, total_right = int(n.sum()), int(n_right.sum())
        return (
            TokenAccuracy(
                n=total,
                right=total_right,
                value=total_right / total if total else None,
                mean_over_pairs=math.fsum(shares) / len(shares) if total else None,
                n_pairs=len(shares),
            ),
            int(gaps.sum()),
        )


def _ragged(values: Any, field: str, n: int | None) -> Sequence[Any]:
    if (
        isinstance(values, (str, bytes))
        or not hasattr(values, "__len__")
        or not hasattr(values, "__getitem__")
    ):
        raise InputError(f"expected a list with one list per pair, got {values!r:.60}", field=field)
    if n is None and not len(values):
        raise InputError("there are no pairs: the list is empty", field=field)
    if n is not None and len(values) != n:
        raise InputError(f"{counted(len(values), 'pair')} here but {n} in word_scores", field=field)
    return list(values)


def _length(values: Any, field: str) -> int:
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise InputError(f"expected a list, got {values!r:.60}", field=field)
    return len(values)
