"""Pairs of captions of which people prefer one → how often the preferred caption scores higher.

In: scores of both captions, (n,) each, the preferred one, and the pair's category. Out: accuracy per category
and their mean, as for Pascal-50S.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...errors import InputError, Setting
from ...statistics.bootstrap import Interval
from .accuracy import Accuracy, Sampling, Tally, single_units
from .inputs import group_codes, label_codes, present_rows, score_column
from .results import ProtocolResult, Statistic, counted, ends

# two correct human captions; two human captions, one of another photo; human and machine; two machines
PASCAL50S_CATEGORIES = ("HC", "HI", "HM", "MM")


@dataclass(frozen=True)
class PairwiseAccuracy(ProtocolResult):
    """Accuracy of a metric on pairs of captions.

    Attributes:
        categories: Category → accuracy; ties are counted apart and are not wins.
        mean: Plain mean of the categories' accuracies; None if one has no pair.
        mean_interval: Bootstrap interval of the mean; None if none was asked for.
        n_missing: Number of pairs left out because a score is missing.
        notes: Remarks that a reader needs.
    """

    protocol: ClassVar[str] = "pairwise_by_category"
    categories: dict[str, Accuracy]
    mean: float | None
    mean_interval: Interval | None
    n_missing: int
    notes: tuple[str, ...]

    def statistics(self) -> list[Statistic]:
        """One "accuracy_<category>" per category, then "accuracy_mean"."""
        parts = [part.statistic(f"accuracy_{name.lower()}") for name, part in self.categories.items()]
        n = sum(part.n for part in self.categories.values())
        return [*parts, Statistic("accuracy_mean", self.mean, ends(self.mean_interval), n)]

    def counts(self) -> dict[str, int]:
        """Numbers of pairs, of ties, and of pairs left out."""
        parts = self.categories.values()
        return {
            "pairs": sum(part.n for part in parts),
            "ties": sum(part.ties for part in parts),
            "left out": self.n_missing,
        }


def pairwise_by_category(
    first: Any,
    second: Any,
    labels: Any,
    categories: Any,
    *,
    known: Sequence[str] = PASCAL50S_CATEGORIES,
    images: Any = None,
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
    missing: str = "raise",
) -> PairwiseAccuracy:
    """How often the preferred caption scores strictly higher, per category (Hu et al. 2023, §4.2, Table 1).

    Published tables break ties of the human votes at random, so labels must be frozen to be comparable. The
    published figures also depend on the choice of five references for metrics that use references.

    Args:
        first: Scores of the first captions, (n,).
        second: Scores of the second captions, (n,).
        labels: 0 where people prefer the first, 1 where they prefer the second.
        categories: Category of each pair, one of `known`.
        known: All categories, in the order of the result; the default is Pascal-50S's.
        images: Image id of each pair; the bootstrap draws the pairs of one image together. None draws single
            pairs.
        bootstrap: Number of samples for the intervals; 0 makes none.
        confidence: Share of samples inside an interval.
        seed: Seed for the samples.
        missing: "raise" stops at a missing score (NaN); "skip" leaves the pair out and counts it.

    Raises:
        InputError: different lengths, an unknown label or category, a missing score.

    >>> result = pairwise_by_category(
    ...     [0.9, 0.2, 0.5], [0.1, 0.7, 0.5], [0, 0, 1], ["HC", "HC", "MM"], known=("HC", "MM")
    ... )
    >>> result.table()
    [('accuracy hc', 0.5, 2), ('accuracy mm', 0.0, 1), ('accuracy mean', 0.25, 3)]
    >>> result.notes
    ('1 tie of two scores in MM, not counted as a win',)
    """
    sampling = Sampling(bootstrap, confidence, seed)
    one = score_column(first, "first")
    other = score_column(second, "second", len(one))
    label = label_codes(labels, "labels", len(one), (0, 1))
    names = category_names(known)
    codes = label_codes(categories, "categories", len(one), names)
    kept = present_rows(missing, first=one, second=other)
    better, worse = np.where(label == 0, (one, other), (other, one))
    units, drawn = pair_units(images, sampling, better, worse, codes)

    tally = Tally.of(better[kept], worse[kept], codes[kept], len(names), units[kept])
    parts, mean_interval, notes = tally.accuracies(names, sampling, units=drawn, n_mean=len(names))
    found = dict(zip(names, parts, strict=True))
    return PairwiseAccuracy(
        categories=found,
        mean=mean_value(parts),
        mean_interval=mean_interval,
        n_missing=int((~kept).sum()),
        notes=(*pair_notes(kept, found), *drawn_notes(images, sampling), *notes),
    )


def category_names(known: Sequence[str]) -> tuple[str, ...]:
    """Names of categories or pieces, each once.

    Raises:
        InputError: no name, or a name twice.
    """
    names = () if isinstance(known, str) else tuple(known)
    if not names or len(set(names)) < len(names):
        raise InputError(Setting("known", known), ": expected a list of names, each once", field="known")
    return names


def pair_units(
    images: Any, sampling: Sampling, better: np.ndarray, worse: np.ndarray, codes: np.ndarray
) -> tuple[np.ndarray, str]:
    """The unit of each pair that the bootstrap draws, int64 (n,), and its noun in the plural."""
    if images is not None:
        return group_codes(images, "images", len(codes))[0], "images"
    if sampling.bootstrap:
        return single_units(worse, better, codes), "pairs"
    return np.zeros(len(codes), dtype=np.int64), "pairs"


def mean_value(parts: Sequence[Accuracy]) -> float | None:
    """Plain mean of the accuracies; None if one of them has nothing to compare."""
    values = [part.value for part in parts]
    return None if None in values else float(np.mean(values))  # type: ignore[arg-type]


def pair_notes(kept: np.ndarray, categories: dict[str, Accuracy]) -> list[str]:
    """Notes on pairs left out, empty categories and ties."""
    notes = []
    if not kept.all():
        notes.append(
            f"{int((~kept).sum()):,} of {counted(len(kept), 'pair')} left out: a score is missing "
            f"(first such row: {int((~kept).argmax())})"
        )
    empty = [name for name, part in categories.items() if not part.n]
    if empty:
        notes.append(f"no pair of {', '.join(empty)}: no accuracy, and no mean over all")
    for name, part in categories.items():
        if part.ties:
            notes.append(f"{counted(part.ties, 'tie')} of two scores in {name}, not counted as a win")
    return notes


def drawn_notes(images: Any, sampling: Sampling) -> list[str]:
    """A note if the bootstrap has no images to draw."""
    if images is None and sampling.bootstrap:
        return ["no image ids: the bootstrap drew single rows, and intervals are too narrow if images recur"]
    return []
