"""Compares the numbers of captioning systems on the same rows: means, or corpus figures such as BLEU.

In: scores of n rows per system, or what is summed over rows, and the image that each row shows. Out: the
number of each system, differences to one system, intervals and p-values. Images are resampled, not rows, as
captions of one image are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError, Setting
from ..options import Sampling
from .bootstrap import Interval, holm, percentile_interval, resample, sampling_notes
from .columns import Column, as_list, left_out, number_column, plain, present_rows, units_of

ALL = "all"
TEN_THOUSAND = Sampling(bootstrap=10_000)


@dataclass(frozen=True, eq=False)
class RowStatistics:
    """Numbers of n rows whose sums make the number of all rows together.

    Attributes:
        parts: float64 (k, n), what is summed over rows.
        figure: Function from sums, (k, b), to the numbers of b sets of rows, (b,).
        of_corpus: Whether that number is another than the mean of the scores.
    """

    scores: np.ndarray
    parts: np.ndarray
    figure: Callable[[np.ndarray], np.ndarray]
    of_corpus: bool = True

    @classmethod
    def of_mean(cls, scores: np.ndarray) -> RowStatistics:
        """Those of the mean: the scores, and 1."""
        parts = np.stack([scores, np.ones(len(scores))])
        return cls(scores, parts, lambda sums: sums[0] / sums[1], of_corpus=False)

    def only(self, rows: np.ndarray | list[int]) -> RowStatistics:
        """Those of some rows: their indices, or bool (n,)."""
        return replace(self, scores=self.scores[rows], parts=self.parts[:, rows])


@dataclass(frozen=True)
class SystemDifference:
    """A system against the baseline.

    Attributes:
        interval: Bootstrap interval of the difference; None with fewer than 2 images, or where it would say
            another thing than `p_value_holm` of whether there is a difference.
        p_value: Two-sided p-value of approximate randomisation, in (0, 1]; None with fewer than 2 images.
        p_value_holm: The same, corrected for the number of systems.
    """

    system: str
    difference: float
    interval: Interval | None
    p_value: float | None
    p_value_holm: float | None


@dataclass(frozen=True, kw_only=True)
class SystemComparison:
    """Numbers of systems on the same rows, and their differences to one of them.

    Attributes:
        figures: System → number of all rows together: their mean score, or that of the corpus.
        kind: What they are, "mean" or "corpus".
        n_images: Number of images, or of rows if no image ids were given.
        confidence: Share of samples inside an interval; a p-value below the rest shows a difference.
    """

    rows: str
    baseline: str
    figures: dict[str, float]
    kind: str
    differences: tuple[SystemDifference, ...]
    n_rows: int
    n_images: int
    resampled_by: str
    n_samples: int
    seed: int
    n_left_out: int
    notes: tuple[str, ...]
    confidence: float = 0.95
    higher_is_better: bool = True

    @property
    def unit(self) -> str:
        """What was drawn, as people call it: "photo" or "row"."""
        return "row" if self.resampled_by == "row" else "photo"

    @property
    def best(self) -> list[str]:
        choose = max if self.higher_is_better else min
        best = choose(self.figures.values())
        return [system for system, figure in self.figures.items() if figure == best]

    def is_shown(self, other: SystemDifference) -> bool:
        """Whether the test shows a difference, with the correction for several systems."""
        return other.p_value_holm is not None and _is_shown(other.p_value_holm, self.confidence)

    def to_dict(self) -> dict[str, object]:
        return {name: plain(value) for name, value in vars(self).items()}


def _is_shown(p_value: float, confidence: float) -> bool:
    return p_value < 1 - confidence


def compare_figures(
    systems: Mapping[str, Column | RowStatistics],
    *,
    images: Column | None = None,
    baseline: str | None = None,
    sampling: Sampling = TEN_THOUSAND,
    missing: str = "raise",
    rows: str = ALL,
    higher_is_better: bool = True,
) -> SystemComparison:
    """Compare the numbers of systems on the same rows: their means, or corpus figures.

    The interval holds the middle of the differences of a paired bootstrap, which draws images with
    replacement, the same ones for all systems (Koehn 2004). The p-value is two-sided, by approximate
    randomisation: the rows of two systems on an image are swapped with chance 1/2, and the differences
    counted that are then as large as the observed one (Noreen 1989; Riezler and Maxwell 2005). A corpus
    figure is computed anew from the sums over the rows of each sample. Where there are no more ways to swap
    than samples, all are counted and the p-value is exact, else it is (1 + count) / (1 + number of samples).
    With several systems, Holm's correction goes over all of them. The p-value decides: an interval that would
    exclude 0 where no difference is shown, or hold it where one is, is left out with a note.

    Args:
        systems: Name → n scores on the same rows in the same order, or their `RowStatistics`.
        images: n image ids; without them rows count as independent, which a note says.
        baseline: System that the others are compared with; None for the first.
        sampling: Number of samples, 0 for no intervals and no p-values; confidence and seed.
        missing: "raise" stops at a missing score (NaN or None); "skip" leaves the row out for all systems.

    >>> found = compare_figures({"a": [0.1, 0.2, 0.3], "b": [0.4, 0.4, 0.6]}, images=["1", "2", "3"])
    >>> round(found.differences[0].difference, 6), found.differences[0].p_value
    (0.266667, 0.25)
    """
    if baseline is not None and baseline not in systems:
        raise InputError(Setting("baseline", baseline), f": expected one of {', '.join(systems)}")
    first = next(iter(systems)) if baseline is None else baseline
    statistics = _statistics(systems)
    present = present_rows(missing, {name: part.scores for name, part in statistics.items()})
    n_rows = int(present.sum())
    if not n_rows:
        raise InputError("there are 0 rows that all systems have scored")
    units, unit = units_of(images, present, "row", np.arange(len(present)))
    n_units = int(units.max()) + 1
    others = [name for name in systems if name != first]
    tested = _Tested.of([statistics[name].only(present) for name in (first, *others)], units)
    notes = left_out(present, "rows")
    observed = tested.figures(tested.sums.sum(axis=-1, keepdims=True))[:, 0].tolist()
    figures = dict(zip((first, *others), observed, strict=True))
    differences = [
        SystemDifference(name, figures[name] - figures[first], None, None, None) for name in others
    ]
    if n_units < 2:
        notes.append(f"1 {unit}: there is nothing to resample, so no intervals and no p-values")
    elif others and sampling.bootstrap:
        samples = resample(tested.differences, sampling, n_units=n_units, n_rows=n_units)
        p_values = tested.p_values(sampling)
        intervals: dict[str, Interval | None] = {}
        for index, (part, p, corrected) in enumerate(zip(differences, p_values, holm(p_values), strict=True)):
            interval = percentile_interval(samples[index], sampling.confidence)
            is_shown = _is_shown(corrected, sampling.confidence)
            if interval is not None and (interval.low > 0 or interval.high < 0) != is_shown:
                interval = None
                notes.append(
                    f"the interval of {part.system} is left out: the draws and the p-value, which decides, "
                    "disagree on whether there is a difference"
                )
            intervals[part.system] = interval
            differences[index] = replace(part, interval=interval, p_value=p, p_value_holm=corrected)
        notes += sampling_notes(unit, sampling, intervals)
        if n_units < 10:
            notes.append(f"{n_units} {unit}s are few for a bootstrap: its intervals are too narrow")
    return SystemComparison(
        rows=rows,
        baseline=first,
        figures={name: figures[name] for name in systems},
        kind="corpus" if any(part.of_corpus for part in statistics.values()) else "mean",
        differences=tuple(differences),
        n_rows=n_rows,
        n_images=n_units,
        resampled_by=unit,
        n_samples=sampling.bootstrap,
        seed=sampling.seed,
        n_left_out=len(present) - n_rows,
        notes=tuple(notes),
        confidence=sampling.confidence,
        higher_is_better=higher_is_better,
    )


def pair_p_values(
    systems: Mapping[str, Column | RowStatistics],
    pairs: Sequence[tuple[str, str]],
    *,
    images: Column | None = None,
    sampling: Sampling = TEN_THOUSAND,
) -> list[float] | None:
    """Two-sided p-values of pairs of systems, as in `compare_figures`, not corrected for their number.

    Returns:
        One per pair; None with fewer than 2 images, or without samples.

    >>> pair_p_values({"a": [0.1, 0.2, 0.3], "b": [0.4, 0.4, 0.6]}, [("b", "a")], images=["1", "2", "3"])
    [0.25]
    """
    statistics = _statistics(systems)
    present = present_rows("skip", {name: part.scores for name, part in statistics.items()})
    units, _ = units_of(images, present, "row", np.arange(len(present)))
    if not sampling.bootstrap or units.max() < 1:
        return None
    found = []
    for pair in pairs:
        tested = _Tested.of([statistics[name].only(present) for name in pair], units)
        found += tested.p_values(sampling)
    return found


def compare_by_language(
    systems: Mapping[str, Column | RowStatistics],
    languages: Column | None,
    *,
    images: Column | None = None,
    **options: Any,
) -> list[SystemComparison]:
    """`compare_figures` over all rows, and then for each language if there are several.

    Returns:
        All rows first, then the languages in alphabetical order. Holm's correction goes over the systems of
        one language, not over languages.
    """
    found = [compare_figures(systems, images=images, **options)]
    if languages is None:
        return found
    statistics = _statistics(systems)
    complete = ~np.isnan(np.array([part.scores for part in statistics.values()])).any(axis=0)
    rows_of: dict[str, list[int]] = {}
    for row, code in enumerate(as_list(languages, "languages", len(complete))):
        if complete[row]:
            rows_of.setdefault(code or "unstated", []).append(row)
    if len(rows_of) < 2:
        return found
    for language, rows in sorted(rows_of.items()):
        of_language = {name: part.only(rows) for name, part in statistics.items()}
        photos = images
        if images is not None:
            ids = as_list(images, "images")
            photos = [ids[row] for row in rows]
        found.append(compare_figures(of_language, images=photos, **{**options, "rows": language}))
    return found


def _statistics(systems: Mapping[str, Column | RowStatistics]) -> dict[str, RowStatistics]:
    """Those of each system, of as many rows as the first one has."""
    found: dict[str, RowStatistics] = {}
    n = None
    for name, given in systems.items():
        scores = number_column(given.scores if isinstance(given, RowStatistics) else given, name, n)
        n = len(scores)
        found[name] = given if isinstance(given, RowStatistics) else RowStatistics.of_mean(scores)
    return found


@dataclass(frozen=True)
class _Tested:
    """The systems of a test, the baseline first.

    Attributes:
        sums: float64 (systems, k, images), what is summed over the rows of each image.
    """

    sums: np.ndarray
    of_sums: list[Callable[[np.ndarray], np.ndarray]]

    @classmethod
    def of(cls, systems: list[RowStatistics], units: np.ndarray) -> _Tested:
        n_units = int(units.max()) + 1
        sums = []
        for system in systems:
            sums.append([np.bincount(units, part, minlength=n_units) for part in system.parts])
        return cls(np.array(sums), [system.figure for system in systems])

    def figures(self, sums: np.ndarray) -> np.ndarray:
        """Numbers (systems, b) of sums (systems, k, b)."""
        return np.stack([figure(part) for figure, part in zip(self.of_sums, sums, strict=True)])

    def differences(self, drawn: np.ndarray) -> np.ndarray:
        """Differences to the baseline, (systems − 1, b), where images occur `drawn` times, (images, b)."""
        figures = self.figures(_product(self.sums, drawn))
        return np.asarray(figures[1:] - figures[0])

    def p_values(self, sampling: Sampling) -> list[float]:
        """p-values of the differences to the baseline, under swapped images."""
        n_images = self.sums.shape[-1]
        totals, apart = self.sums.sum(axis=-1, keepdims=True), self.sums[1:] - self.sums[:1]

        def as_far(swapped: np.ndarray) -> np.ndarray:
            return self._as_far(totals, _product(apart, swapped))

        if 2 ** min(n_images, 62) <= sampling.bootstrap:
            every_way = (np.arange(2**n_images)[None] >> np.arange(n_images)[:, None]) & 1
            return as_far(every_way).mean(axis=1).tolist()
        are_far = resample(as_far, sampling, n_units=n_images, n_rows=n_images, draw=_swaps)
        return ((1 + are_far.sum(axis=1)) / (1 + sampling.bootstrap)).tolist()

    def _as_far(self, totals: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """Whether differences are as large where swaps move sums `moved`, (systems − 1, b)."""
        are_far = []
        for index, change in enumerate(moved):
            base, other = self.of_sums[0], self.of_sums[1 + index]
            mine, own = base(totals[0]), other(totals[1 + index])
            first, second = base(totals[0] + change), other(totals[1 + index] - change)
            # sums in another order differ in the last digits; such a way counts as equally far
            rounding = 1e-12 * np.maximum(np.abs(mine), np.abs(own))
            are_far.append(~(np.abs(second - first) < np.abs(own - mine) - rounding))
        return np.array(are_far)


def _swaps(rng: np.random.Generator, n_images: int, n_samples: int) -> np.ndarray:
    """Whether each image is swapped, 0 or 1, in each of so many samples; (n_images, n_samples)."""
    return rng.integers(0, 2, (n_samples, n_images)).T


def _product(sums: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Sums (systems, k, images) over images that occur so many times, (images, b) → (systems, k, b)."""
    flat = sums.reshape(-1, sums.shape[-1]) @ times.astype(np.float64)
    return np.asarray(flat.reshape(*sums.shape[:2], -1))
