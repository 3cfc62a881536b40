"""Makes intervals and p-values by resampling images."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..files.console import progress_bar
from ..options import Sampling

NO_INTERVALS = Sampling(bootstrap=0)
"""What statistics take where a caller asks for no intervals."""

# rows times samples at once: 2 MB per array, small enough for the processor's cache
_BLOCK = 2**18


@dataclass(frozen=True)
class Interval:
    """Percentile interval of a bootstrap.

    Attributes:
        low, high: Ends, in the unit of the statistic.
        n_samples: Number of samples behind it.
        n_undefined: Number of samples left out because the statistic was undefined in them.
    """

    low: float
    high: float
    confidence: float
    n_samples: int
    n_undefined: int = 0


def multiplicities(rng: np.random.Generator, n_units: int, n_samples: int) -> np.ndarray:
    """How often each unit occurs in each of n_samples samples of n_units draws with replacement.

    Returns:
        int (n_units, n_samples); each column sums to n_units.
    """
    drawn = rng.integers(0, n_units, size=(n_samples, n_units))
    drawn += n_units * np.arange(n_samples)[:, None]
    return np.bincount(drawn.ravel(), minlength=drawn.size).reshape(n_samples, n_units).T


def resample(
    values: Callable[[np.ndarray], np.ndarray],
    sampling: Sampling,
    *,
    n_units: int,
    n_rows: int,
    draw: Callable[[np.random.Generator, int, int], np.ndarray] = multiplicities,
) -> np.ndarray:
    """Compute the numbers of many samples, a bounded block at a time, with a progress bar for long work.

    Args:
        values: Function from multiplicities, (n_units, b), to numbers (k, b).
        sampling: Number of samples, and their seed; they don't depend on how many are computed at once.

    Returns:
        float64 (k, number of samples).
    """
    n_samples, rng = sampling.bootstrap, np.random.default_rng(sampling.seed)
    width = max(8, _BLOCK // max(n_rows, n_units))
    parts = []
    with progress_bar("resampling", n_samples) as advance:
        for start in range(0, n_samples, width):
            count = min(width, n_samples - start)
            parts.append(values(draw(rng, n_units, count)))
            advance(count)
    return np.concatenate(parts, axis=1)


def percentile_interval(samples: np.ndarray, confidence: float) -> Interval | None:
    """The middle share of the samples, with NaN left out and counted; None if all are NaN."""
    defined = samples[~np.isnan(samples)]
    if not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high), confidence, len(defined), len(samples) - len(defined))


def two_sided_p(null: np.ndarray, observed: float) -> float:
    """(1 + number of samples at least as far from 0 as the observed value) / (1 + samples); never 0.

    The observed value counts as one sample of its own null hypothesis (Davison and Hinkley 1997, chapter 4);
    `null` has the samples under it, without NaN.

    >>> two_sided_p(np.array([0.1, -0.3, 0.2]), -0.2)
    0.75
    """
    # sums in another order differ in the last digits; such a sample counts as equally far
    as_far = int(np.count_nonzero(np.abs(null) >= abs(observed) - 1e-12))
    return (1 + as_far) / (1 + len(null))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values of a family of tests → p-values with the same meaning for the whole family.

    The smallest of m is multiplied by m, the next by m − 1, and so on; none becomes smaller than one before
    it, or larger than 1. The chance of any false finding in the family then stays below the level of a
    single test (Holm 1979, Scandinavian Journal of Statistics 6, 65-70).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(np.maximum.accumulate(factors * np.asarray(p_values)[order]), 1.0)
    return corrected.tolist()


def bootstrap_intervals(
    values: Callable[[np.ndarray], np.ndarray],
    names: Sequence[str],
    *,
    n_units: int,
    unit: str,
    n_rows: int,
    sampling: Sampling,
) -> tuple[dict[str, Interval | None], list[str]]:
    """Intervals of the k numbers that a function gives for weights of the units.

    Args:
        values: Function from weights, (n_units, b), to numbers, (k, b).

    Returns:
        Name → interval, None where the number is undefined; {} where no intervals are requested or can be
        made. Notes.
    """
    if not sampling.bootstrap or not names:
        return {}, []
    if n_units < 2:
        return {}, [f"no intervals: a bootstrap needs at least 2 {unit}s, and there is {n_units}"]
    samples = resample(values, sampling, n_units=n_units, n_rows=n_rows)
    return intervals_of(names, samples, unit, sampling)


def intervals_of(
    names: Sequence[str], samples: np.ndarray, unit: str, sampling: Sampling
) -> tuple[dict[str, Interval | None], list[str]]:
    """Name → interval of its samples, from samples (k, b) of k numbers; what a reader has to know of them."""
    found = {}
    for name, row in zip(names, samples, strict=True):
        found[name] = percentile_interval(row, sampling.confidence)
    return found, sampling_notes(unit, sampling, found)


def sampling_notes(unit: str, sampling: Sampling, intervals: Mapping[str, Interval | None]) -> list[str]:
    notes, needed = [], math.ceil(round(2 / (1 - sampling.confidence), 6))
    n_samples = sampling.bootstrap
    if n_samples < needed:
        level = f"{100 * sampling.confidence:.4g}%"
        notes.append(f"{n_samples} samples are too few for a {level} interval: take {needed} or more")
    if unit not in ("image", "group"):
        notes.append(f"no image ids: resampled by {unit}; intervals are too narrow if images recur")
    return notes + [
        f"interval of {name}: {interval.n_undefined:,} of {n_samples:,} samples left out: undefined"
        for name, interval in intervals.items()
        if interval is not None and interval.n_undefined
    ]
