"""Scores of captions rated for precision, recall and in total → Pearson's r, as on THumB 1.0.

In: the score of each caption, its three ratings and the system that wrote it. Out: correlations with and
without the captions that people wrote, and the means of every system.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...statistics.bootstrap import Interval, coarseness, multiplicities, percentile_interval, resample
from ...statistics.correlation import Correlations
from ...statistics.ratings import means_by
from .accuracy import Sampling, single_units
from .inputs import group_codes, present_rows, rating_column, score_column
from .pairwise_accuracy import drawn_notes
from .results import ProtocolResult, Statistic, counted, ends

RATINGS = ("precision", "recall", "total")


@dataclass(frozen=True)
class RatingCorrelations:
    """Pearson's r of n captions' scores with each rating.

    Attributes:
        n: Number of captions.
        precision, recall, total: r in [-1, 1]; None if a side is constant.
        intervals: Rating → bootstrap interval, None if r is undefined; empty if none was asked for.
    """

    n: int
    precision: float | None
    recall: float | None
    total: float | None
    intervals: dict[str, Interval | None]


@dataclass(frozen=True)
class SystemMeans:
    """Mean score and mean ratings of one system's n captions."""

    n: int
    score: float
    precision: float
    recall: float
    total: float


@dataclass(frozen=True)
class ThumbCorrelation(ProtocolResult):
    """Agreement of a metric with THumB 1.0.

    Attributes:
        without_human: Correlations over the machines' captions ("w/o Human", Hu et al. 2023, Table 3).
        with_human: Correlations over all captions.
        systems: Name of the system → its means.
        n_missing: Number of captions left out because the score is missing.
        notes: Remarks that a reader needs.
    """

    protocol: ClassVar[str] = "thumb"
    without_human: RatingCorrelations
    with_human: RatingCorrelations
    systems: dict[str, SystemMeans]
    n_missing: int
    notes: tuple[str, ...]

    def statistics(self) -> list[Statistic]:
        """Named "pearson_<rating>_without_human", then "pearson_<rating>_with_human"."""
        return [
            Statistic(
                f"pearson_{rating}_{words}", getattr(part, rating), ends(part.intervals.get(rating)), part.n
            )
            for words, part in (("without_human", self.without_human), ("with_human", self.with_human))
            for rating in RATINGS
        ]

    def counts(self) -> dict[str, int]:
        """Numbers of captions, of human captions, of systems, and of captions left out."""
        return {
            "captions": self.with_human.n,
            "human captions": self.with_human.n - self.without_human.n,
            "systems": len(self.systems),
            "left out": self.n_missing,
        }


def thumb(
    scores: Any,
    precision: Any,
    recall: Any,
    total: Any,
    systems: Any,
    *,
    human: str = "Human",
    images: Any = None,
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
    missing: str = "raise",
) -> ThumbCorrelation:
    """Pearson's r of scores with THumB's ratings (Kasai et al. 2022; Hu et al. 2023, §4.2, Table 3).

    THumB 1.0 has 500 images, each with one human caption and those of four systems: 2,500 captions, 2,000
    without the human ones.

    Args:
        scores: Scores (n,), overall or for precision or recall alone.
        precision: Ratings 1 to 5, `P` in the files.
        recall: Ratings 1 to 5, `R` in the files.
        total: Ratings, `human_score` in the files.
        systems: Name of the system that wrote each caption, `SYS` in the files.
        human: Name of the system for human captions.
        images: Image id of each caption; the bootstrap draws the captions of one image together. None draws
            single captions.
        bootstrap: Number of samples for the intervals; 0 makes none.
        confidence: Share of samples inside an interval.
        seed: Seed for the samples.
        missing: "raise" stops at a missing score (NaN); "skip" leaves the caption out and counts it.

    Raises:
        InputError: different lengths, a missing rating, a missing score.

    >>> result = thumb(
    ...     scores=[0.1, 0.2, 0.4, 0.9],
    ...     precision=[3, 4, 5, 5],
    ...     recall=[2, 3, 3, 4],
    ...     total=[2, 3, 4, 5],
    ...     systems=["Up-Down", "Up-Down", "VinVL", "Human"],
    ... )
    >>> result.without_human.n, round(result.without_human.total, 3), round(result.with_human.total, 3)
    (3, 0.982, 0.943)
    >>> result.systems["Up-Down"]
    SystemMeans(n=2, score=0.15..., precision=3.5, recall=2.5, total=2.5)
    """
    sampling = Sampling(bootstrap, confidence, seed)
    values = score_column(scores, "scores")
    n = len(values)
    ratings = {
        name: rating_column(given, name, n)
        for name, given in zip(RATINGS, (precision, recall, total), strict=True)
    }
    codes, names = group_codes(systems, "systems", n)
    present = present_rows(missing, scores=values)
    machine = codes != names.index(human) if human in names else np.full(n, True)

    notes = []
    if not present.all():
        notes.append(
            f"{int((~present).sum()):,} of {counted(n, 'caption')} left out: the score is missing "
            f"(first such row: {int((~present).argmax())})"
        )
    if machine.all():
        notes.append(
            f"no caption is by the system {human!r}: the correlations with and without it are the same"
        )

    if images is None:
        units = single_units(*ratings.values(), values, codes)
    else:
        units = group_codes(images, "images", n)[0]
    found, correlation_notes = _correlations(
        values[present],
        {name: column[present] for name, column in ratings.items()},
        {"without": machine[present], "with": np.full(int(present.sum()), True)},
        np.unique(units[present], return_inverse=True)[1],
        sampling,
    )
    means = _system_means({"score": values, **ratings}, codes, names, present)
    silent = [str(name) for name in names if str(name) not in means]
    if silent:
        notes.append(f"no caption of {', '.join(silent)} has a score: no means")
    return ThumbCorrelation(
        without_human=found["without"],
        with_human=found["with"],
        systems=means,
        n_missing=int((~present).sum()),
        notes=(*notes, *correlation_notes, *drawn_notes(images, sampling)),
    )


def _correlations(
    values: np.ndarray,
    ratings: dict[str, np.ndarray],
    subsets: dict[str, np.ndarray],
    units: np.ndarray,
    sampling: Sampling,
) -> tuple[dict[str, RatingCorrelations], list[str]]:
    """Correlations of each subset ("with" and "without" human captions), and notes.

    Args:
        values: Scores, float64 (n,), none missing.
        ratings: Name → float64 (n,).
        subsets: Name → bool (n,).
        units: Units that the bootstrap draws, int64 (n,), numbered from 0 without gaps.
        sampling: How intervals are made.
    """
    rows = {
        (words, name): Correlations(values[kept], rating[kept], units[kept])
        for words, kept in subsets.items()
        if kept.any()
        for name, rating in ratings.items()
    }
    n_units = int(units.max(initial=-1)) + 1
    found = _pearson(rows, np.ones((n_units, 1)))[:, 0].tolist() if rows else []
    r = {key: None if math.isnan(value) else value for key, value in zip(rows, found, strict=True)}
    notes = []
    for words, kept in subsets.items():
        if not kept.any():
            notes.append(f"no correlation {words} human captions: there are none")
        for name in RATINGS:
            if r.get((words, name), 0) is None:
                side = "the scores" if np.ptp(values[kept]) == 0 else "its ratings"
                notes.append(f"no correlation with {name} {words} human captions: {side} are all the same")

    intervals: dict[tuple[str, str], Interval | None] = {}
    if sampling.bootstrap and n_units < 2:
        notes.append(f"no intervals: a bootstrap needs at least 2 images or captions, and there is {n_units}")
    elif sampling.bootstrap:
        samples = resample(
            lambda weights: _pearson(rows, weights),
            multiplicities,
            n_units=n_units,
            n_samples=sampling.bootstrap,
            seed=sampling.seed,
            n_rows=len(rows) * len(values),
            label="bootstrap",
        )
        for key, some in zip(rows, samples, strict=True):
            intervals[key] = interval = percentile_interval(some, sampling.confidence)
            if interval is not None and interval.n_undefined:
                notes.append(
                    f"interval with {key[1]} {key[0]} human captions: "
                    f"{counted(interval.n_undefined, 'sample')} without a correlation left out"
                )
        if coarse := coarseness(sampling.bootstrap, sampling.confidence):
            notes.append(coarse)
    correlations = {
        words: RatingCorrelations(
            n=int(kept.sum()),
            **{name: r.get((words, name)) for name in RATINGS},
            intervals={name: intervals[words, name] for name in RATINGS if (words, name) in intervals},
        )
        for words, kept in subsets.items()
    }
    return correlations, notes


def _system_means(
    columns: dict[str, np.ndarray], codes: np.ndarray, names: list[Any], present: np.ndarray
) -> dict[str, SystemMeans]:
    """Name → means, for systems that have a caption with a score."""
    if not present.any():
        return {}
    means = {name: means_by(column[present], codes[present]).tolist() for name, column in columns.items()}
    sizes = np.bincount(codes[present], minlength=len(names))
    return {
        str(names[code]): SystemMeans(n=int(sizes[code]), **{name: means[name][row] for name in means})
        for row, code in enumerate(np.flatnonzero(sizes).tolist())
    }


def _pearson(rows: dict[tuple[str, str], Correlations], weights: np.ndarray) -> np.ndarray:
    """Pearson's r under b weightings of the units, (len(rows), b); NaN where a side is constant."""
    return np.array([part.values(["pearson"], weights)["pearson"] for part in rows.values()])
