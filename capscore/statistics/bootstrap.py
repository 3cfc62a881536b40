"""Intervals and p-values by drawing images anew.

In: a function from how often each unit (an image, as a rule) counts to numbers, for many samples at once.
Out: the numbers of every sample, percentile intervals, two-sided p-values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..files.progress import progress_bar

# Rows times samples at once: 2 MB an array, so that the handful in use stay near the processor.
_BLOCK = 2**18
# Rows times samples that take long enough, seconds, for somebody to want to see how far it is.
_LONG = 3 * 10**7

Draw = Callable[[np.random.Generator, int, int], np.ndarray]


@dataclass(frozen=True)
class Interval:
    """Percentile interval of a bootstrap.

    Attributes:
        low, high: its ends, in the unit of the statistic.
        confidence: the share of samples between them.
        n_samples: samples it is made of.
        n_undefined: samples left out of it, because the statistic was undefined in them.
    """

    low: float
    high: float
    confidence: float
    n_samples: int
    n_undefined: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The attributes, ready for JSON."""
        return asdict(self)


def multiplicities(rng: np.random.Generator, n_units: int, n_samples: int) -> np.ndarray:
    """How often each unit comes in each of n_samples samples of n_units draws with replacement.

    Returns:
        int (n_units, n_samples), whose columns sum to n_units.

    >>> drawn = multiplicities(np.random.default_rng(0), 5, 3)
    >>> drawn.shape, drawn.sum(axis=0).tolist()
    ((5, 3), [5, 5, 5])
    """
    drawn = rng.integers(0, n_units, size=(n_samples, n_units))
    drawn += n_units * np.arange(n_samples)[:, None]
    return np.bincount(drawn.ravel(), minlength=drawn.size).reshape(n_samples, n_units).T


def coin_flips(rng: np.random.Generator, n_units: int, n_samples: int) -> np.ndarray:
    """1 for each unit whose two metrics are swapped, else 0: int (n_units, n_samples)."""
    return rng.integers(0, 2, size=(n_samples, n_units)).T


def resample(
    values: Callable[[np.ndarray], np.ndarray],
    draw: Draw,
    *,
    n_units: int,
    n_samples: int,
    seed: int,
    n_rows: int,
    label: str,
) -> np.ndarray:
    """Numbers of many samples, a bounded block of samples at a time; a bar in a terminal where it takes long.

    Args:
        values: what `draw` gave, (n_units, b) → (k, b) numbers.
        draw: `multiplicities` or `coin_flips`.
        n_units: units to draw from.
        n_samples: samples.
        seed: same seed, same samples, however many are computed at once.
        n_rows: what the work for one sample is proportional to.
        label: what the bar says.

    Returns:
        float64 (k, n_samples).

    >>> means = resample(lambda drawn: drawn[:1] / 2.0, multiplicities, n_units=2, n_samples=4, seed=0,
    ...                  n_rows=2, label="means")
    >>> means.shape
    (1, 4)
    """
    rng = np.random.default_rng(seed)
    width = max(8, _BLOCK // max(n_rows, n_units))
    parts = []
    shown = None if n_rows * n_samples > _LONG else False
    with progress_bar(label, n_samples, shown=shown) as advance:
        for start in range(0, n_samples, width):
            count = min(width, n_samples - start)
            parts.append(values(draw(rng, n_units, count)))
            advance(count)
    return np.concatenate(parts, axis=1)


def percentile_interval(samples: np.ndarray, confidence: float) -> Interval | None:
    """The middle `confidence` of the samples, those that are NaN left out and counted; None if all are.

    >>> percentile_interval(np.array([0.0, 0.25, 0.5, np.nan]), 0.5)
    Interval(low=0.125, high=0.375, confidence=0.5, n_samples=3, n_undefined=1)
    """
    defined = samples[~np.isnan(samples)]
    if not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high), confidence, len(defined), len(samples) - len(defined))


def two_sided_p(null: np.ndarray, observed: float) -> float:
    """(1 + samples at least as far from 0 as what was observed) / (1 + samples); never 0.

    The observed value counts as one sample of its own null hypothesis (Davison and Hinkley 1997, chapter 4).

    Args:
        null: samples under the null hypothesis, without NaN.
        observed: what was observed.

    >>> two_sided_p(np.array([0.1, -0.3, 0.2]), -0.2)
    0.75
    """
    # Sums in another order differ in the last digits; such a sample is as far as what was observed.
    as_far = int(np.count_nonzero(np.abs(null) >= abs(observed) - 1e-12))
    return (1 + as_far) / (1 + len(null))


def check_sampling(n_samples: int, confidence: float, seed: int, *, field: str, least: int) -> None:
    """Refuse what no interval can be made with.

    Raises:
        InputError: samples that are not a whole number from `least`, a confidence outside (0, 1), a seed that
            is not a whole number from 0.

    >>> check_sampling(1000, 0.95, 0, field="bootstrap", least=0)
    """
    for name, number, smallest in ((field, n_samples, least), ("seed", seed, 0)):
        whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
        if not whole or number < smallest:
            raise InputError(f"{name}={number!r}: expected a whole number from {smallest}", field=name)
    if not isinstance(confidence, (int, float, np.floating)) or not 0 < confidence < 1:
        raise InputError(
            f"confidence={confidence!r}: expected a share between 0 and 1, such as 0.95", field="confidence"
        )


def coarseness(n_samples: int, confidence: float) -> str | None:
    """A note in words where samples are too few for the ends of an interval; else None.

    >>> coarseness(10, 0.95)
    '10 samples are too few for a 95% interval: its ends are single samples; take 40 or more'
    """
    needed = math.ceil(round(2 / (1 - confidence), 6))
    if n_samples >= needed:
        return None
    return (
        f"{n_samples} samples are too few for a {100 * confidence:.4g}% interval: its ends are single "
        f"samples; take {needed} or more"
    )
