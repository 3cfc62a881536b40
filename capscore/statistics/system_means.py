"""Compares the mean scores of captioning systems on the same rows.

In: scores of n rows per system, and the image that each row shows. Out: means, differences to one system,
intervals and p-values. Images are resampled, not rows, as captions of one image are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError, Setting
from .bootstrap import (
    Interval,
    check_sampling,
    coarseness,
    coin_flips,
    holm,
    multiplicities,
    percentile_interval,
    resample,
    two_sided_p,
)
from .plain_values import plain
from .ratings import NumberColumns, numbers_of, units_of

ALL = "all"
UNSTATED = "unstated"


@dataclass(frozen=True, kw_only=True)
class SystemDifference:
    """A system against the baseline.

    Attributes:
        system: Name of the system.
        difference: Mean of the system − mean of the baseline.
        interval: Bootstrap interval of the difference; None with fewer than 2 images.
        p_bootstrap: Two-sided p-value of the paired bootstrap, in (0, 1]; None with fewer than 2 images.
        p_randomisation: Two-sided p-value of approximate randomisation, likewise.
        p_bootstrap_holm, p_randomisation_holm: The same, corrected for the number of systems.
    """

    system: str
    difference: float
    interval: Interval | None
    p_bootstrap: float | None
    p_randomisation: float | None
    p_bootstrap_holm: float | None
    p_randomisation_holm: float | None


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
        resampled_by: What was drawn and flipped, "image" or "row".
        n_samples: Number of samples of the bootstrap, and of the randomisation unless it is exact.
        exact: Whether the randomisation's p-values count all 2^n_images ways to flip signs.
        seed: Seed for the samples.
        n_left_out: Number of rows left out because a score is missing.
        notes: Remarks that a reader needs.
    """

    rows: str
    baseline: str
    means: dict[str, float]
    differences: tuple[SystemDifference, ...]
    n_rows: int
    n_images: int
    resampled_by: str
    n_samples: int
    exact: bool
    seed: int
    n_left_out: int
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {name: plain(value) for name, value in vars(self).items()}


def compare_means(
    systems: Mapping[str, Any],
    *,
    images: Any = None,
    baseline: str | None = None,
    n: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
    missing: str = "raise",
    rows: str = ALL,
) -> SystemComparison:
    """Compare the mean scores of systems on the same rows.

    The bootstrap draws images with replacement, the same ones for all systems. The interval holds the middle
    of the differences; the p-value counts how often a difference lies as far from the mean of all of them as
    the observed one lies from 0 (Efron and Tibshirani 1993, chapter 16; Koehn 2004). Approximate
    randomisation swaps the scores of two systems on an image with chance 1/2, which flips the sign of the
    image's difference, and counts how often the difference is then as large as the observed one (Noreen 1989;
    Riezler and Maxwell 2005). Where there are no more ways to flip than `n`, all are counted and the p-value
    is exact; otherwise it is (1 + count) / (1 + n), as for the bootstrap. Both are two-sided. With several
    systems, Holm's correction goes over all of them.

    Args:
        systems: Name → n scores on the same rows in the same order; at least 2 systems.
        images: n image ids; without them rows count as independent, which a note says.
        baseline: System that the others are compared with; None for the first.
        n: Number of samples.
        confidence: Share of samples inside an interval.
        seed: Seed for the samples.
        missing: "raise" stops at a missing score (NaN or None); "skip" leaves the row out for all systems.
        rows: Name for the rows, for the result.

    Raises:
        InputError: fewer than 2 systems, lists of different lengths, no rows, a value that is not a finite
            number, an unknown baseline.

    >>> found = compare_means({"a": [0.1, 0.2, 0.3], "b": [0.4, 0.4, 0.6]}, images=["1", "2", "3"])
    >>> round(found.differences[0].difference, 6), found.differences[0].p_randomisation, found.exact
    (0.266667, 0.25, True)
    """
    check_sampling(n, confidence, seed, field="n", least=1)
    first = check_systems(list(systems), baseline)
    columns = NumberColumns.of(dict(systems), missing, "rows")
    n_rows = int(columns.kept.sum())
    if not n_rows:
        raise InputError(f"there are 0 rows{columns.remainder}")
    units, n_units = units_of(images, columns.kept)
    unit = "row" if images is None else "image"
    others = [name for name in systems if name != first]
    shares = np.array(
        [
            np.bincount(units, columns.complete[name] - columns.complete[first], minlength=n_units)
            for name in others
        ]
    )
    observed = shares.sum(axis=1) / n_rows
    notes = [*columns.notes]
    intervals: list[Interval | None] = [None] * len(others)
    boot: list[float] | None = None
    flip: list[float] | None = None
    exact = 2 ** min(n_units, 62) <= n
    if n_units < 2:
        notes.append(f"1 {unit}: there is nothing to resample, so no intervals and no p-values")
    else:
        sizes = np.bincount(units, minlength=n_units)
        samples = _samples(_drawn_means(shares, sizes), multiplicities, n_units, n, seed, "bootstrap")
        intervals = [percentile_interval(some, confidence) for some in samples]
        boot = [two_sided_p(s - s.mean(), x) for s, x in zip(samples, observed, strict=True)]
        if exact:
            flip = _exact_p(shares / n_rows, observed)
        else:
            flipped = _samples(_flipped(shares / n_rows), coin_flips, n_units, n, seed, "randomisation")
            flip = [two_sided_p(s, x) for s, x in zip(flipped, observed, strict=True)]
        notes += _notes(n, confidence, unit, n_units, exact)
    return SystemComparison(
        rows=rows,
        baseline=first,
        means={name: float(columns.complete[name].mean()) for name in systems},
        differences=_differences(others, observed, intervals, boot, flip),
        n_rows=n_rows,
        n_images=n_units,
        resampled_by=unit,
        n_samples=n,
        exact=exact and n_units > 1,
        seed=seed,
        n_left_out=int((~columns.kept).sum()),
        notes=tuple(notes),
    )


def compare_means_by_language(
    systems: Mapping[str, Any], languages: Any, *, images: Any = None, **options: Any
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
    whole = [compare_means(systems, images=images, **options)]
    if languages is None:
        return whole
    spoken = np.array([language or UNSTATED for language in languages], dtype=object)
    scores = {name: numbers_of(values, name) for name, values in systems.items()}
    n_rows = len(next(iter(scores.values())))
    if len(spoken) != n_rows:
        raise InputError(
            f"{len(spoken)} languages for {n_rows} rows: expected one per row", field="languages"
        )
    ids = None if images is None else list(images)
    complete = ~np.isnan(list(scores.values())).any(axis=0)
    names = sorted(set(spoken[complete]))
    for language in names if len(names) > 1 else ():
        places = np.flatnonzero(complete & (spoken == language))
        found = compare_means(
            {name: numbers[places] for name, numbers in scores.items()},
            images=None if ids is None else [ids[place] for place in places],
            **{**options, "rows": language},
        )
        whole.append(found)
    return whole


def check_systems(names: Sequence[str], baseline: str | None) -> str:
    """The baseline's name.

    Raises:
        InputError: there are fewer than 2 systems, or none of the baseline's name.
    """
    if len(names) < 2:
        raise InputError(
            f"{len(names)} system{'' if len(names) == 1 else 's'}: expected at least 2 to compare"
        )
    if baseline is not None and baseline not in names:
        raise InputError(Setting("baseline", baseline), f": expected one of {', '.join(names)}")
    return names[0] if baseline is None else baseline


def _samples(
    values: Callable[[np.ndarray], np.ndarray],
    draw: Callable[[np.random.Generator, int, int], np.ndarray],
    n_units: int,
    n: int,
    seed: int,
    label: str,
) -> np.ndarray:
    return resample(values, draw, n_units=n_units, n_samples=n, seed=seed, n_rows=n_units, label=label)


def _drawn_means(shares: np.ndarray, sizes: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Drawn images (units, b) → mean differences over their rows, (systems, b)."""
    together = np.vstack([shares, sizes])

    def means(drawn: np.ndarray) -> np.ndarray:
        sums = together @ drawn.astype(np.float64)
        return sums[:-1] / sums[-1]

    return means


def _flipped(shares: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Coin flips of the images (units, b) → differences with flipped signs, (systems, b)."""
    return lambda flips: shares @ (1.0 - 2.0 * flips)


def _exact_p(shares: np.ndarray, observed: np.ndarray) -> list[float]:
    """p-values over all ways to flip the signs of the images' shares, (systems, units), of a difference."""
    n_units = shares.shape[1]
    flips = (np.arange(2**n_units)[None] >> np.arange(n_units)[:, None]) & 1
    found = np.abs(_flipped(shares)(flips))
    # sums in another order differ in the last digits; such a way counts as equally far
    return (found >= np.abs(observed)[:, None] - 1e-12).mean(axis=1).tolist()


def _differences(
    others: Sequence[str],
    observed: np.ndarray,
    intervals: Sequence[Interval | None],
    boot: list[float] | None,
    flip: list[float] | None,
) -> tuple[SystemDifference, ...]:
    none: list[Any] = [None] * len(others)
    columns = (boot or none, flip or none, holm(boot) if boot else none, holm(flip) if flip else none)
    return tuple(
        SystemDifference(
            system=name,
            difference=float(difference),
            interval=interval,
            p_bootstrap=one,
            p_randomisation=two,
            p_bootstrap_holm=three,
            p_randomisation_holm=four,
        )
        for name, difference, interval, one, two, three, four in zip(
            others, observed, intervals, *columns, strict=True
        )
    )


def _notes(n: int, confidence: float, unit: str, n_units: int, exact: bool) -> list[str]:
    notes = []
    if unit == "row":
        notes.append(
            "no image ids: resampled by row; several rows of one image are not independent, and intervals "
            "and p-values are then too small"
        )
    coarse = coarseness(n, confidence)
    if coarse:
        notes.append(coarse)
    if exact:
        notes.append(
            f"{n_units} {unit}s: the p-values of the randomisation count all {2**n_units} ways to swap them "
            f"and are exact; none can be below {2 / 2**n_units:.2g}"
        )
    if n_units < 10:
        notes.append(
            f"{n_units} {unit}s are few for a bootstrap: its interval is too narrow; trust the randomisation"
        )
    return notes
