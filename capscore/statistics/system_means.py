"""Compares the mean scores of captioning systems on the same rows.

In: scores of n rows per system, and the image that each row shows. Out: means, differences to one system,
intervals and p-values. Images are resampled, not rows, as captions of one image are not independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError, Setting
from ..options import Sampling
from .bootstrap import Interval, holm, intervals_of, resample
from .columns import Column, as_list, left_out, number_column, plain, present_rows, units_of

ALL = "all"
TEN_THOUSAND = Sampling(bootstrap=10_000)
_BLOCK = 256  # ways to swap images at once


@dataclass(frozen=True)
class SystemDifference:
    """A system against the baseline.

    Attributes:
        system: Name of the system.
        difference: Mean of the system − mean of the baseline.
        interval: Bootstrap interval of the difference; None with fewer than 2 images.
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
    """Means of systems on the same rows, and their differences to one of them.

    Attributes:
        rows: Rows that were compared: "all", or a language.
        baseline: System that the others are compared with.
        means: System → mean score.
        differences: The other systems against the baseline, in the given order.
        n_rows: Number of rows.
        n_images: Number of images, or of rows if no image ids were given.
        resampled_by: What was drawn, "image" or "row".
        n_samples: Number of samples, of the bootstrap and of the randomisation.
        seed: Seed for the samples.
        n_left_out: Number of rows left out because a score is missing.
        notes: Remarks that a reader needs.
        higher_is_better: Whether a higher mean is better.
    """

    rows: str
    baseline: str
    means: dict[str, float]
    differences: tuple[SystemDifference, ...]
    n_rows: int
    n_images: int
    resampled_by: str
    n_samples: int
    seed: int
    n_left_out: int
    notes: tuple[str, ...]
    higher_is_better: bool = True

    @property
    def best(self) -> list[str]:
        """The systems with the best mean."""
        choose = max if self.higher_is_better else min
        best = choose(self.means.values())
        return [system for system, mean in self.means.items() if mean == best]

    def to_dict(self) -> dict[str, object]:
        """Everything, ready for JSON."""
        return {name: plain(value) for name, value in vars(self).items()}


def compare_means(
    systems: Mapping[str, Column],
    *,
    images: Column | None = None,
    baseline: str | None = None,
    sampling: Sampling = TEN_THOUSAND,
    missing: str = "raise",
    rows: str = ALL,
    higher_is_better: bool = True,
) -> SystemComparison:
    """Compare the mean scores of systems on the same rows.

    The interval holds the middle of the differences of a paired bootstrap, which draws images with
    replacement, the same ones for all systems (Koehn 2004). The p-value is two-sided, by approximate
    randomisation: the scores of two systems on an image are swapped with chance 1/2, and the differences
    counted that are then as large as the observed one (Noreen 1989; Riezler and Maxwell 2005). Where
    there are no more ways to swap than samples, all are counted and the p-value is exact, else it is (1 +
    count) / (1 + number of samples). With several systems, Holm's correction goes over all of them.

    Args:
        systems: Name → n scores on the same rows in the same order.
        images: n image ids; without them rows count as independent, which a note says.
        baseline: System that the others are compared with; None for the first.
        sampling: Number of samples, 0 for no intervals and no p-values; confidence and seed.
        missing: "raise" stops at a missing score (NaN or None); "skip" leaves the row out for all systems.
        rows: Name for the rows, for the result.
        higher_is_better: Whether a higher score is better, for the result.

    Raises:
        InputError: lists of different lengths, no rows, a value that is not a finite number, an unknown
            baseline.

    >>> found = compare_means({"a": [0.1, 0.2, 0.3], "b": [0.4, 0.4, 0.6]}, images=["1", "2", "3"])
    >>> round(found.differences[0].difference, 6), found.differences[0].p_value
    (0.266667, 0.25)
    """
    if baseline is not None and baseline not in systems:
        raise InputError(Setting("baseline", baseline), f": expected one of {', '.join(systems)}")
    first = next(iter(systems)) if baseline is None else baseline
    columns = _scores(systems)
    present = present_rows(missing, columns)
    n_rows = int(present.sum())
    if not n_rows:
        raise InputError("there are 0 rows that all systems have scored")
    units, unit = units_of(images, present, "row", np.arange(len(present)))
    n_units = int(units.max()) + 1
    kept = {name: column[present] for name, column in columns.items()}
    others = [name for name in systems if name != first]
    sums = np.array([np.bincount(units, kept[name] - kept[first], minlength=n_units) for name in others])
    notes = left_out(present, "rows")
    differences = []
    for name, row in zip(others, sums, strict=True):
        differences.append(SystemDifference(name, float(row.sum()) / n_rows, None, None, None))
    if n_units < 2:
        notes.append(f"1 {unit}: there is nothing to resample, so no intervals and no p-values")
    elif others and sampling.bootstrap:
        together = np.vstack([sums, np.bincount(units, minlength=n_units)])
        totals = resample(
            lambda drawn: together @ drawn.astype(np.float64), sampling, n_units=n_units, n_rows=n_units
        )
        intervals, more = intervals_of(others, totals[:-1] / totals[-1], unit, sampling)
        p_values = _randomisation(sums, sampling.bootstrap, sampling.seed)
        tested = zip(differences, p_values, holm(p_values), strict=True)
        differences = [
            replace(part, interval=intervals[part.system], p_value=p, p_value_holm=corrected)
            for part, p, corrected in tested
        ]
        notes += more
        if n_units < 10:
            notes.append(f"{n_units} {unit}s are few for a bootstrap: its intervals are too narrow")
    return SystemComparison(
        rows=rows,
        baseline=first,
        means={name: float(column.mean()) for name, column in kept.items()},
        differences=tuple(differences),
        n_rows=n_rows,
        n_images=n_units,
        resampled_by=unit,
        n_samples=sampling.bootstrap,
        seed=sampling.seed,
        n_left_out=len(present) - n_rows,
        notes=tuple(notes),
        higher_is_better=higher_is_better,
    )


def compare_means_by_language(
    systems: Mapping[str, Column], languages: Column | None, *, images: Column | None = None, **options: Any
) -> list[SystemComparison]:
    """`compare_means` over all rows, and then for each language if there are several.

    Args:
        systems, images: As in `compare_means`.
        languages: n language codes, "" or None where the language is not stated; None for no languages.
        **options: Further arguments of `compare_means`.

    Returns:
        All rows first, then the languages in alphabetical order. Holm's correction goes over the systems of
        one language, not over languages.
    """
    found = [compare_means(systems, images=images, **options)]
    if languages is None:
        return found
    scores = _scores(systems)
    complete = ~np.isnan(np.array(list(scores.values()))).any(axis=0)
    rows_of: dict[str, list[int]] = {}
    for row, code in enumerate(as_list(languages, "languages", len(complete))):
        if complete[row]:
            rows_of.setdefault(code or "unstated", []).append(row)
    if len(rows_of) < 2:
        return found
    for language, rows in sorted(rows_of.items()):
        of_language: dict[str, Column] = {name: column[rows] for name, column in scores.items()}
        photos = images
        if images is not None:
            ids = as_list(images, "images")
            photos = [ids[row] for row in rows]
        found.append(compare_means(of_language, images=photos, **{**options, "rows": language}))
    return found


def _scores(systems: Mapping[str, Column]) -> dict[str, np.ndarray]:
    """The scores of each system, as many as the first one has."""
    columns: dict[str, np.ndarray] = {}
    n = None
    for name, values in systems.items():
        columns[name] = number_column(values, name, n)
        n = len(columns[name])
    return columns


def _randomisation(sums: np.ndarray, n: int, seed: int) -> list[float]:
    """p-values of the differences of systems, summed per image, (systems, images), under swapped images."""
    n_images = sums.shape[1]
    # sums in another order differ in the last digits; such a way counts as equally far
    observed = (np.abs(sums.sum(axis=1)) - 1e-12 * np.abs(sums).sum(axis=1))[:, None]
    if 2 ** min(n_images, 62) <= n:
        swapped = (np.arange(2**n_images)[None] >> np.arange(n_images)[:, None]) & 1
        return (np.abs(sums @ (1.0 - 2 * swapped)) >= observed).mean(axis=1).tolist()
    rng, as_far = np.random.default_rng(seed), np.ones(len(sums))
    for start in range(0, n, _BLOCK):
        swapped = rng.integers(0, 2, (n_images, min(_BLOCK, n - start)))
        as_far += (np.abs(sums @ (1.0 - 2 * swapped)) >= observed).sum(axis=1)
    return (as_far / (1 + n)).tolist()
