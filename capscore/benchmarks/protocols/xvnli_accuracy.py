"""Captions that a photo entails, leaves open or contradicts → how often their scores are in this order.

In: the score, label and image of each caption. Out: the three XVNLI experiments, each the share of pairs or
triples of one image that are strictly in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .accuracy import Accuracy, Sampling, Tally
from .inputs import group_codes, label_codes, present_rows, score_column
from .results import ProtocolResult, Statistic, counted

XVNLI_LABELS = ("entailment", "neutral", "contradiction")
# the label in SNLI and its descendants where annotators did not agree
UNLABELLED = "-"
_ENTAILMENT, _NEUTRAL, _CONTRADICTION, _UNLABELLED = range(4)


@dataclass(frozen=True)
class XvnliAccuracy(ProtocolResult):
    """Accuracy of a metric on XVNLI, in one language.

    Attributes:
        experiment_1: Accuracy on pairs of an entailed and a contradicted caption; won if entailment scores
            higher.
        experiment_2: Accuracy on all pairs of different labels; won if entailment > neutral > contradiction
            holds.
        experiment_3: Accuracy on triples with one caption per label; won if both orders hold, tied if only
            equal scores prevent it.
        n_rows: Number of captions, unlabelled ones included.
        n_unlabelled: Number of captions with the label "-", which take no part.
        n_groups: Number of images (or premises) that have captions of at least two labels.
        n_missing: Number of pairs or triples left out because a score is missing, per experiment.
        compared_within: "image" or "premise".
        notes: Remarks that a reader needs.
    """

    protocol: ClassVar[str] = "xvnli"
    experiment_1: Accuracy
    experiment_2: Accuracy
    experiment_3: Accuracy
    n_rows: int
    n_unlabelled: int
    n_groups: int
    n_missing: tuple[int, int, int]
    compared_within: str
    notes: tuple[str, ...]

    def statistics(self) -> list[Statistic]:
        """Named "accuracy_1", "accuracy_2" and "accuracy_3", as in the published table."""
        parts = (self.experiment_1, self.experiment_2, self.experiment_3)
        return [part.statistic(f"accuracy_{number}") for number, part in enumerate(parts, 1)]

    def counts(self) -> dict[str, int]:
        """Numbers of captions, groups, comparisons, and comparisons left out."""
        return {
            "captions": self.n_rows,
            "without label": self.n_unlabelled,
            f"{self.compared_within}s": self.n_groups,
            "comparisons": self.experiment_1.n + self.experiment_2.n + self.experiment_3.n,
            "left out": sum(self.n_missing),
        }


def xvnli(
    scores: Any,
    labels: Any,
    image_ids: Any,
    *,
    premise_ids: Any = None,
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
    missing: str = "raise",
) -> XvnliAccuracy:
    """The three XVNLI experiments (Gomes et al. 2025, §4.3.3, App. E.1, Table 5).

    The paper compares captions "with the same image": 442 pairs, 1,259 pairs and 511 triples per language.
    The digits of its table fit another unit: captions written for the same premise, one of an image's five
    Flickr30k captions (`captionID` in the files), which gives 377, 1,057 and 304. Of all numbers of pairs
    below 623, only 377 gives every figure of Accuracy 1 to its digit, and of all numbers of triples below
    608, only 304 does so for Accuracy 3. To compare with the table, pass `premise_ids` too. Random scores win
    half of the pairs and a sixth of the triples.

    Args:
        scores: Score of each caption (`sentence2` in the files) with its image, (n,).
        labels: Label of each caption: "entailment", "neutral", "contradiction", or "-" where annotators did
            not agree.
        image_ids: Image id of each caption (`Flikr30kID` in the files).
        premise_ids: Premise id of each caption (`captionID` in the files); only captions with the same
            premise and image are then compared.
        bootstrap: Number of samples of images for the intervals; 0 makes none.
        confidence: Share of samples inside an interval.
        seed: Seed for the samples.
        missing: "raise" stops at a missing score (NaN) of a labelled caption; "skip" leaves out every pair
            and triple that needs it and counts them.

    Raises:
        InputError: different lengths, an unknown label, a missing score.

    >>> result = xvnli(
    ...     [0.9, 0.5, 0.5, 0.1],
    ...     ["entailment", "neutral", "contradiction", "contradiction"],
    ...     ["a", "a", "a", "a"],
    ... )
    >>> result.table()
    [('accuracy 1', 1.0, 2), ('accuracy 2', 0.8, 5), ('accuracy 3', 0.5, 2)]
    >>> result.experiment_3.ties
    1
    """
    sampling = Sampling(bootstrap, confidence, seed)
    values = score_column(scores, "scores")
    n = len(values)
    label = label_codes(labels, "labels", n, (*XVNLI_LABELS, UNLABELLED))
    image = group_codes(image_ids, "image_ids", n)[0]
    group = image
    if premise_ids is not None:
        premise = group_codes(premise_ids, "premise_ids", n)[0]
        _, group = np.unique(image * n + premise, return_inverse=True)
    labelled = label != _UNLABELLED
    present = present_rows(missing, scores=np.where(labelled, values, 0))
    kept = labelled & present

    label_counts = np.bincount(group[labelled] * 3 + label[labelled], minlength=3 * (int(group.max()) + 1))
    e, u, c = label_counts.reshape(-1, 3).T
    n_all = (int((e * c).sum()), int((e * c + e * u + u * c).sum()), int((e * u * c).sum()))
    tally = _experiments(values[kept], label[kept], group[kept], image[kept])
    names = [f"experiment {number}" for number in (1, 2, 3)]
    found, _, sampling_notes = tally.accuracies(names, sampling, units="images")
    first, second, third = (total - part.n for total, part in zip(n_all, found, strict=True))

    notes = []
    if not labelled.all():
        notes.append(
            f"{counted(int((~labelled).sum()), 'caption')} without a label ({UNLABELLED!r}) left out"
        )
    if not present.all():
        notes.append(
            f"{counted(int((~present).sum()), 'caption')} without a score (first such row: "
            f"{int((~present).argmax())}): {first:,}, {second:,} and {third:,} comparisons of experiments "
            "1, 2 and 3 left out"
        )
    for name, part in zip(names, found, strict=True):
        if not part.n:
            notes.append(f"{name} has nothing to compare: no accuracy")
        if part.ties:
            notes.append(f"{counted(part.ties, 'tie')} of scores in {name}, not counted as a win")
    return XvnliAccuracy(
        *(found[0], found[1], found[2]),
        n_rows=n,
        n_unlabelled=int((~labelled).sum()),
        n_groups=int(((label_counts.reshape(-1, 3) > 0).sum(axis=1) > 1).sum()),
        n_missing=(first, second, third),
        compared_within="image" if premise_ids is None else "premise",
        notes=(*notes, *sampling_notes),
    )


def _experiments(values: np.ndarray, label: np.ndarray, group: np.ndarray, image: np.ndarray) -> Tally:
    """Comparisons within groups, counted by image and experiment."""
    entailed, neutral, contradicted = (
        np.flatnonzero(label == code) for code in (_ENTAILMENT, _NEUTRAL, _CONTRADICTION)
    )
    upper = _pairs(entailed, neutral, group)
    lower = _pairs(neutral, contradicted, group)
    outer = _pairs(entailed, contradicted, group)
    n_images = int(image.max(initial=-1)) + 1

    def by_image(holds: _Relation) -> np.ndarray:
        """Numbers of comparisons per image where the relation holds between better and worse, (images, 3)."""
        pairs = [
            np.bincount(image[left], weights=holds(values[left], values[right]), minlength=n_images)
            for left, right in (outer, upper, lower)
        ]
        # a triple in order is a neutral caption with an entailed one above and a contradicted one below
        above = np.bincount(upper[1], weights=holds(*values[list(upper)]), minlength=len(values))
        below = np.bincount(lower[0], weights=holds(*values[list(lower)]), minlength=len(values))
        triples = np.bincount(image, weights=above * below, minlength=n_images)
        return np.stack([pairs[0], sum(pairs), triples], axis=1).astype(np.int64)

    wins = by_image(np.greater)
    return Tally(n=by_image(_always), wins=wins, ties=by_image(np.greater_equal) - wins)


_Relation = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _always(better: np.ndarray, worse: np.ndarray) -> np.ndarray:
    return np.ones(len(better), dtype=bool)


def _pairs(left: np.ndarray, right: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of a left and a right row of the same group."""
    left = left[np.argsort(group[left], kind="stable")]
    right = right[np.argsort(group[right], kind="stable")]
    start = np.searchsorted(group[right], group[left], side="left")
    partners = np.searchsorted(group[right], group[left], side="right") - start
    offset = np.cumsum(partners) - partners
    within = np.arange(partners.sum()) - np.repeat(offset, partners)
    return np.repeat(left, partners), right[np.repeat(start, partners) + within]
