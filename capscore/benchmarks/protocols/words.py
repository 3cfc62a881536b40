"""Scores of words: how often they agree with people's labels, and whether they find the wrong words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ...errors import InputError
from ...options import Sampling
from ...statistics.bootstrap import NO_INTERVALS
from ...statistics.columns import (
    MISSING,
    Column,
    check_missing,
    flag_column,
    left_out,
    number_column,
    present_rows,
    ragged,
    units_of,
)
from ...tables import counted
from .results import ProtocolResult, Statistic, estimates

# weights of the units, (units, b) → a number for each weighting, (b,)
_OfWeights = Callable[[np.ndarray], np.ndarray]


def captokeneval(
    word_scores: Sequence[Column],
    word_labels: Column,
    semantic: Column,
    region_scores: Column,
    region_labels: Column,
    *,
    beta: float = 0.1,
    missing: str = "raise",
) -> ProtocolResult:
    """Token-level accuracy (Hu et al. 2023, §4.4, Table 5).

    Only semantic words count: nouns, verbs, adjectives and numbers. The paper does not say whether its
    accuracy counts every word once or every pair once; `value` counts words, `mean_over_pairs` pairs. With 20
    regions per pair, the two are the same for vision.

    Args:
        word_scores: List of word scores of each image-caption pair.
        word_labels: List of labels of each pair, 1 for a word that is right about the photo, 0 for a wrong
            one.
        semantic: List of flags of each pair, True for a semantic word.
        region_scores: List of region scores of each pair.
        region_labels: List of labels of each pair, 1 for a region that the caption mentions.
        beta: Threshold **above** which a word counts as right and a region as mentioned.
        missing: See `capscore.benchmarks.protocols`; words that are not semantic need no score.

    Returns:
        "accuracy_vision" (regions) and "accuracy_text" (semantic words). Details: "text" and "vision" ("n",
        "right", "value", "mean_over_pairs", "n_pairs" with at least one).

    >>> result = captokeneval(
    ...     [[0.3, 0.0, 0.05], [0.2]], [[1, 1, 1], [0]], [[1, 0, 1], [1]], [[0.4, 0.1], [0.0]], [[1, 1], [0]]
    ... )
    >>> result.table(), result.details["text"]["mean_over_pairs"]
    ([('accuracy vision', 0.666..., 3), ('accuracy text', 0.333..., 3)], 0.25)
    """
    check_missing(missing)
    threshold = float(number_column([beta], "beta", complete=True)[0])
    flags = {"word_labels": word_labels, "semantic": semantic}
    (scores, labels, counts), owners = ragged(None, {"word_scores": word_scores}, flags)
    n = len(word_scores)
    (boxes, mentioned), box_owners = ragged(
        n, {"region_scores": region_scores}, {"region_labels": region_labels}
    )
    every = np.full(len(boxes), True)
    text, text_missing = _token_accuracy(
        "word_scores", scores, (scores > threshold) == labels, counts, owners, missing
    )
    vision, vision_missing = _token_accuracy(
        "region_scores", boxes, (boxes > threshold) == mentioned, every, box_owners, missing
    )
    notes = []
    for part, lost, what in ((text, text_missing, "semantic word"), (vision, vision_missing, "region")):
        if lost:
            notes.append(f"{counted(lost, what)} without a score left out")
        if part["n_pairs"] < n:
            notes.append(f"{n - part['n_pairs']:,} of {counted(n, 'pair')} have no {what}")
    counts_of = {"semantic words": text["n"], "other words": int((~counts).sum()), "regions": vision["n"]}
    parts = {"vision": vision, "text": text}
    return ProtocolResult(
        tuple(Statistic(f"accuracy_{name}", part["value"], None, part["n"]) for name, part in parts.items()),
        {**counts_of, "left out": text_missing + vision_missing},
        tuple(notes),
        parts,
    )


def _token_accuracy(
    field: str, scores: np.ndarray, is_right: np.ndarray, counts: np.ndarray, owners: np.ndarray, missing: str
) -> tuple[dict[str, Any], int]:
    """Share of words or regions that are right, of those that count; and how many have no score."""
    gaps = counts & np.isnan(scores)
    if missing == "raise" and gaps.any():
        raise InputError(*MISSING, row=int(owners[gaps.argmax()]), field=field)
    kept = counts & ~gaps
    n = np.bincount(owners[kept])
    right = np.bincount(owners[kept], weights=is_right[kept])
    shares = right[n > 0] / n[n > 0]
    total, total_right = int(n.sum()), int(right.sum())
    accuracy = {
        "n": total,
        "right": total_right,
        "value": total_right / total if total else None,
        "mean_over_pairs": math.fsum(shares) / len(shares) if total else None,
        "n_pairs": len(shares),
    }
    return accuracy, int(gaps.sum())


def scores_of_tokens(
    caption: str, tokens: Sequence[str], words: Sequence[Mapping[str, Any]]
) -> list[float | None]:
    """Scores of a metric's words → scores of a benchmark's tokens of the same caption.

    The score of a token is the sum of the scores of all words that share a character with it: a token that
    spans several words gets the score that it would have as one word, and a word passes its score to every
    token in it.

    Returns:
        One score per token; None if no word shares a character with it, or if such a word has no score.

    >>> words = [{"start": 2, "end": 5, "score": 0.25}, {"start": 6, "end": 11, "score": 0.5}]
    >>> scores_of_tokens("a ice-cream.", ["a", "ice-cream", "."], words)
    [None, 0.75, None]
    """
    scores: list[float | None] = []
    end = 0
    for number, token in enumerate(tokens):
        same = re.compile(re.escape(token), re.IGNORECASE)
        start = end
        while (found := same.match(caption, start)) is None:
            if start >= len(caption) or caption[start].isalnum():
                raise InputError(
                    f"word {number} is {token!r}, but the caption {caption!r:.120} continues with "
                    f"{caption[start:]!r:.40}",
                    field="words",
                )
            start += 1
        end = found.end()
        parts = [word["score"] for word in words if word["start"] < end and start < word["end"]]
        scores.append(None if not parts or None in parts else math.fsum(parts))
    return scores


# ---- localisation of wrong words ----

STATISTICS = (
    "localisation_accuracy",
    "average_precision_right",
    "average_precision_foil",
    "word_average_precision",
    "word_auc",
)


def localisation(
    caption_scores: Column,
    foils: Column,
    word_doubts: Column | None = None,
    word_labels: Column | None = None,
    *,
    images: Column | None = None,
    sampling: Sampling = NO_INTERVALS,
    missing: str = "raise",
) -> ProtocolResult:
    """Localisation accuracy and average precision (Petryk et al. 2024).

    - **localisation accuracy (LA)**: share of foils whose most doubted word is wrong. If several words are
      equally doubted, all of them have to be wrong. A foil of which no wrong word was judged is not found.
    - **average precision** of captions, Σ (R_k − R_{k−1}) P_k over the distinct scores: `right` looks for
      right captions from the highest score, `foil` for foils from the lowest.
    - **average precision and AUC of words**: looks for wrong words from the most doubted, among the judged
      words of all captions together.

    Args:
        caption_scores: Scores of the captions, (n,); higher is better.
        foils: True for each caption with a wrong word, (n,).
        word_doubts: For each caption a list with one number per word, higher for a word that is more likely
            wrong; None for a word that the metric does not judge. None if the metric has no scores of words.
        word_labels: For each caption a list of the same length, 1 for a wrong word and 0 for a right one.
        images, sampling, missing: See `capscore.benchmarks.protocols`.

    Returns:
        "localisation_accuracy", "average_precision_right", "average_precision_foil",
        "word_average_precision", "word_auc"; those of words only where words were judged.

    >>> found = localisation(
    ...     [0.9, 0.3, 0.5], [False, True, True],
    ...     [[0.1, 0.2], [0.9, 0.4], [0.2, None, 0.6]], [[0, 0], [1, 0], [1, 0, 0]],
    ... )
    >>> found.table()
    [('localisation accuracy', 0.5, 2), ('average precision right', 1.0, 3),
     ('average precision foil', 1.0, 3), ('word average precision', 0.7, 6), ('word auc', 0.6875, 6)]
    """
    scores = number_column(caption_scores, "caption_scores")
    n = len(scores)
    wrong = flag_column(foils, "foils", n)
    words = None if word_doubts is None else _words(word_doubts, word_labels, wrong)
    keys = [scores, wrong.astype(float)]
    if words is not None and images is None:
        keys.insert(0, _caption_numbers(words, n))
    units, unit = units_of(images, np.full(n, True), "caption", *keys)
    kept = present_rows(missing, {"caption_scores": scores})
    n_foils, n_right = int((kept & wrong).sum()), int((kept & ~wrong).sum())
    notes = left_out(kept, "captions")
    counts = {"foils": n_foils, "right captions": n_right}
    n_of = {name: n_foils + n_right for name in STATISTICS[1:3]}
    numbers: dict[str, _OfWeights] = {}
    if n_foils and n_right:
        ranked, is_foil = scores[kept], wrong[kept]
        numbers["average_precision_right"] = _average_precision(ranked, ~is_foil, units[kept])
        numbers["average_precision_foil"] = _average_precision(-ranked, is_foil, units[kept])
    else:
        notes.append("no average precision: it needs foils and right captions")
    if words is None:
        notes.append("no localisation accuracy: it needs scores of words, and here a caption has one score")
    else:
        of_words, n_words, n_wrong, word_notes = _word_numbers(words, kept, wrong, units)
        numbers |= of_words
        counts |= {"judged words": n_words, "wrong words": n_wrong}
        n_of |= {"localisation_accuracy": n_foils, **dict.fromkeys(STATISTICS[3:], n_words)}
        notes += word_notes

    def values(weights: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):  # NaN where a sample has nothing to look for
            return np.vstack([number(weights) for number in numbers.values()])

    size = {"n_units": int(units.max()) + 1, "n_rows": max(n, counts.get("judged words", 0))}
    found, sampled = estimates(values, list(numbers), unit=unit, sampling=sampling, **size)
    return ProtocolResult(
        tuple(
            Statistic(name, *found.get(name, (None, None)), n_of[name]) for name in STATISTICS if name in n_of
        ),
        {**counts, "left out": int((~kept).sum())},
        (*notes, *sampled),
    )


# doubt of each word (NaN: not judged), whether it is wrong, and its caption: (words,) each
_Words = tuple[np.ndarray, np.ndarray, np.ndarray]


def _words(doubts: Any, labels: Any, foils: np.ndarray) -> _Words:
    (numbers, marks), captions = ragged(len(foils), {"word_doubts": doubts}, {"word_labels": labels})
    misplaced = marks & ~foils[captions]
    if misplaced.any():
        row = int(captions[misplaced.argmax()])
        raise InputError(
            "a word is labelled wrong, but the caption is not a foil", row=row, field="word_labels"
        )
    return numbers, marks, captions


def _caption_numbers(words: _Words, n: int) -> np.ndarray:
    """A number for each of n captions, the same for those whose words are alike, whatever their order."""
    of_caption: list[list[tuple[float, bool]]] = [[] for _ in range(n)]
    for doubt, label, caption in zip(*(part.tolist() for part in words), strict=True):
        of_caption[caption].append((doubt, label))
    return np.unique([f"{items}" for items in of_caption], return_inverse=True)[1]


def _word_numbers(
    words: _Words, kept: np.ndarray, wrong: np.ndarray, units: np.ndarray
) -> tuple[dict[str, _OfWeights], int, int, list[str]]:
    """The statistics of words as functions of weights of the units; numbers of words, wrong ones; notes."""
    judged = ~np.isnan(words[0])
    doubts, labels, captions = (part[judged] for part in words)
    n, counts = len(kept), kept & wrong
    highest = np.full(n, -np.inf)
    np.maximum.at(highest, captions, doubts)
    top = doubts == highest[captions]
    top_wrong = np.bincount(captions[top & labels], minlength=n) > 0
    top_right = np.bincount(captions[top & ~labels], minlength=n) > 0
    notes = []
    if unjudged := int((counts & (np.bincount(captions[labels], minlength=n) == 0)).sum()):
        notes.append(f"{counted(unjudged, 'foil')} not found: no wrong word of it was judged")
    if ties := int((counts & top_wrong & top_right).sum()):
        notes.append(f"{counted(ties, 'foil')} not found: a right word is as doubted as the wrong one")
    hits = (top_wrong & ~top_right)[counts].astype(np.float64)
    inside = kept[captions]
    ranked = doubts[inside], labels[inside], units[captions[inside]]

    def localisation_accuracy(weights: np.ndarray) -> np.ndarray:
        return (hits @ weights[units[counts]]) / weights[units[counts]].sum(axis=0)

    numbers = {
        "localisation_accuracy": localisation_accuracy,
        "word_average_precision": _average_precision(*ranked),
        "word_auc": _auc(*ranked),
    }
    return numbers, int(inside.sum()), int(labels[inside].sum()), notes


def _cumulated(
    numbers: np.ndarray, wanted: np.ndarray, units: np.ndarray
) -> Callable[[np.ndarray], list[np.ndarray]]:
    """A function from weights of the units, (units, b), to the weights of what is wanted, and of the others,
    down to each distinct number from the highest: (k + 1, b) each, 0 first."""
    order = np.argsort(-numbers, kind="stable")
    ordered = numbers[order]
    last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) if len(order) else order

    def cumulated(weights: np.ndarray) -> list[np.ndarray]:
        own = weights[units[order]].astype(np.float64)
        parts = (own * part[order][:, None] for part in (wanted, ~wanted))
        return [np.vstack([np.zeros((1, own.shape[1])), np.cumsum(part, axis=0)[last]]) for part in parts]

    return cumulated


def _average_precision(numbers: np.ndarray, wanted: np.ndarray, units: np.ndarray) -> _OfWeights:
    """NaN where nothing wanted has a weight."""
    cumulated = _cumulated(numbers, wanted, units)

    def average_precision(weights: np.ndarray) -> np.ndarray:
        found, others = cumulated(weights)
        both = found[1:] + others[1:]
        precision = np.divide(found[1:], both, out=np.zeros_like(both), where=both > 0)
        return (np.diff(found, axis=0) * precision).sum(axis=0) / found[-1]

    return average_precision


def _auc(numbers: np.ndarray, wanted: np.ndarray, units: np.ndarray) -> _OfWeights:
    """Share of pairs of a wanted and another one in which the wanted is higher, ties as halves."""
    cumulated = _cumulated(numbers, wanted, units)

    def auc(weights: np.ndarray) -> np.ndarray:
        found, others = cumulated(weights)
        areas = np.diff(others, axis=0) * (found[1:] + found[:-1]) / 2
        return areas.sum(axis=0) / (found[-1] * others[-1])

    return auc


def doubts_of(details: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[float | None]]:
    """How much a metric doubts each word of each caption: "words" of `Scores.details` → `word_doubts`."""
    known = any(word.get("p_correct") is not None for word in chain.from_iterable(details))
    doubts: list[list[float | None]] = []
    for words in details:
        doubts.append([])
        for word in words:
            doubt = None
            if known and word.get("p_correct") is not None:
                doubt = 1 - word["p_correct"]
            elif not known and word["score"] is not None:
                doubt = -word["score"]
            doubts[-1].append(doubt if word["semantic"] else None)
    return doubts


def places_of(caption: str, word: str) -> list[tuple[int, int]]:
    """Starts and ends of a word in a caption, whatever its case, in characters; [] if it is not there.

    >>> places_of("A skirt, and a Skirt.", "skirt"), places_of("two teddy  bears", "teddy bear")
    ([(2, 7), (15, 20)], [(4, 15)])
    """
    pattern = r"\s+".join(map(re.escape, word.split()))
    if not pattern:
        return []
    for wanted in (rf"(?<!\w){pattern}(?!\w)", pattern):
        places = [found.span() for found in re.finditer(wanted, caption, re.IGNORECASE)]
        if places:
            return places
    return []


def labels_at(words: Sequence[Mapping[str, Any]], places: Sequence[tuple[int, int]]) -> list[int]:
    """1 for each word that shares a character with one of the places, else 0."""
    labels = []
    for word in words:
        shares = any(word["start"] < end and start < word["end"] for start, end in places)
        labels.append(int(shares))
    return labels
