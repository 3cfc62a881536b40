"""Captions with a wrong word → whether a metric finds the word, and tells such captions from right ones.

In: scores of n captions, which of them are foils, and for each caption how much each of its words is doubted,
with labels. Out: localisation accuracy, average precision of captions, average precision and AUC of words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...errors import InputError
from ...statistics.bootstrap import Interval, coarseness, multiplicities, percentile_interval, resample
from .accuracy import Sampling, single_units
from .inputs import as_list, flag_column, group_codes, present_rows, score_column
from .pairwise_accuracy import drawn_notes
from .results import ProtocolResult, Statistic, counted, ends

#: statistics in the order of the result
STATISTICS = (
    "localisation_accuracy",
    "average_precision_right",
    "average_precision_foil",
    "word_average_precision",
    "word_auc",
)


@dataclass(frozen=True)
class Localisation(ProtocolResult):
    """How well a metric finds foils and their wrong words.

    Attributes:
        values: Statistic, one of `STATISTICS` → share or area in [0, 1]; None where the rows cannot give it.
        intervals: Statistic → bootstrap interval; None if none was asked for, or it is undefined.
        n_foils: Number of foils.
        n_right: Number of right captions.
        n_found: Number of foils whose most doubted word is wrong; None without words.
        n_words: Number of words that were judged, in all captions; None without words.
        n_wrong_words: Number of those that are wrong; None without words.
        n_missing: Number of captions left out because their score is missing.
        notes: Remarks that a reader needs.
    """

    protocol: ClassVar[str] = "localisation"
    values: dict[str, float | None]
    intervals: dict[str, Interval | None]
    n_foils: int
    n_right: int
    n_found: int | None
    n_words: int | None
    n_wrong_words: int | None
    n_missing: int
    notes: tuple[str, ...]

    def statistics(self) -> list[Statistic]:
        """Named as in `STATISTICS`; those of words only where words were judged."""
        captions = self.n_foils + self.n_right
        n = (self.n_foils, captions, captions, self.n_words, self.n_words)
        return [
            Statistic(name, self.values[name], ends(self.intervals[name]), number)
            for name, number in zip(STATISTICS, n, strict=True)
            if number is not None and (self.n_words is not None or name.startswith("average"))
        ]

    def counts(self) -> dict[str, int]:
        """Numbers of foils, right captions, judged words, wrong words, and captions left out."""
        words = {"judged words": self.n_words, "wrong words": self.n_wrong_words}
        return {
            "foils": self.n_foils,
            "right captions": self.n_right,
            **{what: number for what, number in words.items() if number is not None},
            "left out": self.n_missing,
        }


def localisation(
    caption_scores: Any,
    foils: Any,
    word_doubts: Any = None,
    word_labels: Any = None,
    *,
    images: Any = None,
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
    missing: str = "raise",
) -> Localisation:
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
        images: Image id of each caption; the bootstrap draws the captions of one image together. None draws
            single captions.
        bootstrap: Number of samples for the intervals; 0 makes none.
        confidence: Share of samples inside an interval.
        seed: Seed for the samples.
        missing: "raise" stops at a missing caption score (NaN); "skip" leaves the caption out and counts it.

    Raises:
        InputError: different lengths, a missing score, a right caption with a wrong word.

    >>> found = localisation(
    ...     [0.9, 0.3, 0.5], [False, True, True],
    ...     [[0.1, 0.2], [0.9, 0.4], [0.2, None, 0.6]], [[0, 0], [1, 0], [1, 0, 0]],
    ... )
    >>> found.table()
    [('localisation accuracy', 0.5, 2), ('average precision right', 1.0, 3),
     ('average precision foil', 1.0, 3), ('word average precision', 0.7, 6), ('word auc', 0.6875, 6)]
    """
    sampling = Sampling(bootstrap, confidence, seed)
    scores = score_column(caption_scores, "caption_scores")
    n = len(scores)
    wrong = flag_column(foils, "foils", n)
    words = None if word_doubts is None else _Words.of(word_doubts, word_labels, wrong)
    if images is None:
        units, drawn = single_units(scores, wrong.astype(float)), "captions"
    else:
        units, drawn = group_codes(images, "images", n)[0], "images"
    kept = present_rows(missing, caption_scores=scores)

    mine, owner, whose = wrong[kept], units[kept], units[kept & wrong]
    numbers: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "average_precision_right": _Ranking.of(scores[kept], ~mine, owner).average_precision,
        "average_precision_foil": _Ranking.of(-scores[kept], mine, owner).average_precision,
    }
    notes = [] if kept.all() else [f"{counted(int((~kept).sum()), 'caption')} left out: a score is missing"]
    tally: dict[str, int] = {}
    if words is None:
        notes.append("no localisation accuracy: it needs scores of words, and here a caption has one score")
    else:
        hits, said = words.hits(kept & wrong)
        notes.extend(said)
        judged = words.judged & kept[words.caption]
        labels = words.labels[judged]
        ranking = _Ranking.of(words.doubts[judged], labels, units[words.caption[judged]])
        numbers |= {
            "localisation_accuracy": lambda weights: (hits @ weights[whose]) / weights[whose].sum(axis=0),
            "word_average_precision": ranking.average_precision,
            "word_auc": ranking.auc,
        }
        tally = {"n_found": int(hits.sum()), "n_words": len(labels), "n_wrong_words": int(labels.sum())}
    for number, what in ((int(mine.sum()), "foil"), (int((~mine).sum()), "right caption")):
        if not number:
            notes.append(f"no {what}: no average precision")
            numbers = {name: one for name, one in numbers.items() if not name.startswith("average")}

    def values(weights: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):  # NaN where a sample has nothing to look for
            return np.vstack([number(weights) for number in numbers.values()])

    point = values(np.ones((int(units.max()) + 1, 1)))[:, 0].tolist() if numbers else []
    defined = {name: value for name, value in zip(numbers, point, strict=True) if value == value}
    n_rows = max(n, tally.get("n_words", 0))
    intervals, sampled = _intervals(values, sampling, units, drawn, n_rows) if numbers else ([], [])
    known = {name: one for name, one in zip(numbers, intervals, strict=False) if name in defined}
    return Localisation(
        values={name: defined.get(name) for name in STATISTICS},
        intervals={name: known.get(name) for name in STATISTICS},
        n_foils=int(mine.sum()),
        n_right=int((~mine).sum()),
        n_found=tally.get("n_found"),
        n_words=tally.get("n_words"),
        n_wrong_words=tally.get("n_wrong_words"),
        n_missing=int((~kept).sum()),
        notes=(*notes, *sampled, *drawn_notes(images, sampling)),
    )


def doubts_of(details: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[float | None]]:
    """How much a metric doubts each word of each caption: its details → `word_doubts` of `localisation`.

    A word's doubt is 1 − p_correct where the metric says how likely its words are right, otherwise the
    negated score. Words that are not semantic, and words that were cut off, are not judged.

    Args:
        details: The list "words" of each caption, as in `Scores.details`.

    >>> word = {"text": "dog", "semantic": True, "score": 0.25, "start": 2, "end": 5}
    >>> doubts_of([[word, {**word, "semantic": False}]]), doubts_of([[{**word, "p_correct": 0.75}]])
    ([[-0.25, None]], [[0.25]])
    """
    known = any(word.get("p_correct") is not None for words in details for word in words)

    def doubt(word: Mapping[str, Any]) -> float | None:
        if not word["semantic"]:
            return None
        if known:
            return None if word.get("p_correct") is None else 1 - word["p_correct"]
        return None if word["score"] is None else -word["score"]

    return [[doubt(word) for word in words] for words in details]


def places_of(caption: str, word: str) -> list[tuple[int, int]]:
    """Places of a word in a caption, whatever its case: starts and ends in characters; [] if it is not there.

    Whole words are looked for first; a word that is only there as a part of others, such as "skirt" in
    "skirts", is found in them.

    >>> places_of("A skirt, and a Skirt.", "skirt"), places_of("two teddy  bears", "teddy bear")
    ([(2, 7), (15, 20)], [(4, 15)])
    """
    pattern = r"\s+".join(map(re.escape, word.split()))
    if not pattern:
        return []
    whole = re.finditer(rf"(?<!\w){pattern}(?!\w)", caption, re.IGNORECASE)
    return [found.span() for found in whole] or [
        found.span() for found in re.finditer(pattern, caption, re.IGNORECASE)
    ]


def labels_at(words: Sequence[Mapping[str, Any]], places: Sequence[tuple[int, int]]) -> list[int]:
    """1 for each word that shares a character with one of the places, else 0.

    >>> labels_at([{"start": 0, "end": 3}, {"start": 4, "end": 9}], [(3, 5)])
    [0, 1]
    """
    return [int(any(word["start"] < end and start < word["end"] for start, end in places)) for word in words]


@dataclass(frozen=True)
class _Ranking:
    """Things in the order of a number, from the highest, of which some are wanted.

    Attributes:
        wanted: bool (m,), in that order.
        units: int64 (m,), the unit of each.
        last: int64 (k,), the place of the last one with each distinct number.
    """

    wanted: np.ndarray
    units: np.ndarray
    last: np.ndarray

    @classmethod
    def of(cls, numbers: np.ndarray, wanted: np.ndarray, units: np.ndarray) -> _Ranking:
        order = np.argsort(-numbers, kind="stable")
        ordered = numbers[order]
        last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) if len(order) else order
        return cls(wanted[order], units[order], last)

    def _cumulated(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the wanted and of the others down to each distinct number: (k + 1, b) each, 0 first."""
        own = weights[self.units].astype(np.float64)
        none = np.zeros((1, own.shape[1]))
        sums = (np.cumsum(own * part[:, None], axis=0)[self.last] for part in (self.wanted, ~self.wanted))
        wanted, others = (np.vstack([none, part]) for part in sums)
        return wanted, others

    def average_precision(self, weights: np.ndarray) -> np.ndarray:
        """(b,) for weights of the units, (units, b); NaN where nothing wanted has a weight."""
        wanted, others = self._cumulated(weights)
        both = wanted[1:] + others[1:]
        precision = np.divide(wanted[1:], both, out=np.zeros_like(both), where=both > 0)
        return (np.diff(wanted, axis=0) * precision).sum(axis=0) / wanted[-1]

    def auc(self, weights: np.ndarray) -> np.ndarray:
        """Share of pairs of a wanted and another one in which the wanted is higher, ties as halves: (b,)."""
        wanted, others = self._cumulated(weights)
        areas = np.diff(others, axis=0) * (wanted[1:] + wanted[:-1]) / 2
        return areas.sum(axis=0) / (wanted[-1] * others[-1])


@dataclass(frozen=True)
class _Words:
    """The words of all captions in one array: doubts (NaN: not judged), labels, and the caption of each."""

    doubts: np.ndarray
    labels: np.ndarray
    caption: np.ndarray
    judged: np.ndarray

    @classmethod
    def of(cls, doubts: Any, labels: Any, foils: np.ndarray) -> _Words:
        n = len(foils)
        columns: list[np.ndarray] = []
        flags: list[np.ndarray] = []
        lists = {"word_doubts": as_list(doubts, "word_doubts"), "word_labels": as_list(labels, "word_labels")}
        for field, values in lists.items():
            if len(values) != n:
                raise InputError(f"{counted(len(values), 'caption')} here but {n} in foils", field=field)
        for row, (own, marks) in enumerate(zip(*lists.values(), strict=True)):
            own, marks = as_list(own, "word_doubts"), as_list(marks, "word_labels")
            if len(own) != len(marks):
                raise InputError(
                    f"{len(marks)} values for {len(own)} word_doubts", row=row, field="word_labels"
                )
            try:
                columns.append(score_column(own, "word_doubts") if own else np.zeros(0))
                flags.append(flag_column(marks, "word_labels", len(own)) if own else np.zeros(0, bool))
            except InputError as error:
                where = "" if error.row is None else f" (word {error.row} of the caption)"
                raise InputError(error.message + where, row=row, field=error.field) from None
            if flags[-1].any() and not foils[row]:
                raise InputError(
                    "a word is labelled wrong, and the caption is not a foil", row=row, field="word_labels"
                )
        every = np.concatenate(columns)
        caption = np.repeat(np.arange(n), [len(column) for column in columns])
        return cls(every, np.concatenate(flags), caption, ~np.isnan(every))

    def hits(self, counts: np.ndarray) -> tuple[np.ndarray, list[str]]:
        """For each caption that counts, 1 if its most doubted word is wrong; notes."""
        n = len(counts)
        doubts, labels, caption = (part[self.judged] for part in (self.doubts, self.labels, self.caption))
        highest = np.full(n, -np.inf)
        np.maximum.at(highest, caption, doubts)
        top = doubts == highest[caption]
        wrong = np.bincount(caption[top & labels], minlength=n) > 0
        right = np.bincount(caption[top & ~labels], minlength=n) > 0
        unjudged = counts & (np.bincount(caption[labels], minlength=n) == 0)
        ties = counts & wrong & right
        notes = []
        if unjudged.any():
            notes.append(
                f"{counted(int(unjudged.sum()), 'foil')} not found: no wrong word of it was judged (not a "
                "semantic word, or cut off)"
            )
        if ties.any():
            notes.append(
                f"{counted(int(ties.sum()), 'foil')} not found: a right word is as doubted as the wrong one"
            )
        return (wrong & ~right)[counts].astype(np.float64), notes


def _intervals(
    values: Callable[[np.ndarray], np.ndarray], sampling: Sampling, units: np.ndarray, drawn: str, n_rows: int
) -> tuple[list[Interval | None], list[str]]:
    """Interval of each number that `values` gives, [] where none was asked for; notes."""
    n_units = int(units.max()) + 1
    if not sampling.bootstrap:
        return [], []
    if n_units < 2:
        return [], [f"no intervals: a bootstrap needs at least 2 {drawn}, and there is {n_units}"]
    samples = resample(
        values,
        multiplicities,
        n_units=n_units,
        n_samples=sampling.bootstrap,
        seed=sampling.seed,
        n_rows=n_rows,
        label="bootstrap",
    )
    coarse = coarseness(sampling.bootstrap, sampling.confidence)
    return [percentile_interval(column, sampling.confidence) for column in samples], [
        coarse
    ] if coarse else []
