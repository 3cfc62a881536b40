"""Intervals of τ_b and τ_c by image: capscore against scipy on every sample written out.

In: rows of the shape of Flickr8k-Expert's, made here. Out: seconds, their ratio, how far the numbers differ.
"""

from __future__ import annotations

import numpy as np

from capscore.options import Sampling
from capscore.statistics.agreement import agreement
from capscore.statistics.bootstrap import multiplicities, percentile_interval

from .figures import Figure, repeat

SAMPLES = 1000
STATISTICS = ("tau_b", "tau_c")


def measure(quick: bool) -> list[Figure]:
    """5,664 items of 1,000 images with 3 ratings each, flattened: 16,992 rows.

    Resampling with scipy is timed on 10 samples (`quick`: 3) and scaled to all.
    """
    scores, ratings, images = expert_rows()
    timed = 3 if quick else 10

    def ours() -> None:
        how = {"images": images, "statistics": STATISTICS, "sampling": Sampling(SAMPLES)}
        agreement(scores, ratings, raters="flatten", **how)

    def written_out() -> None:
        _scipys_samples(scores, ratings, images, timed)

    timings = repeat({"capscore": ours, "scipy": written_out}, 2 if quick else 5)
    scaled = timings["scipy"].best * SAMPLES / timed
    rows = f"{ratings.size:,} rows, τ_b and τ_c of {SAMPLES:,} samples"
    return [
        Figure(
            f"{rows}, capscore",
            timings["capscore"].best,
            "{:.2f} s",
            10,
            True,
            **timings["capscore"].spread(),
        ),
        Figure(
            f"scipy, sample by sample ({timed} timed, scaled to all)",
            scaled,
            "{:.1f} s",
            **timings["scipy"].spread(),
        ),
        Figure("scipy ÷ capscore", scaled / timings["capscore"].best, "{:.0f}×", 5),
        Figure(
            f"largest difference between intervals of {timed} samples",
            _largest_difference(scores, ratings, images, timed),
            "{:.0e}",
            1e-12,
            at_most=True,
        ),
    ]


def expert_rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows shaped like Flickr8k-Expert's, with invented ratings.

    Returns:
        Scores (5664,), all different; ratings (5664, 3) of 1 to 4, most of them 1; image ids (5664,), 5 or 6
        items an image.
    """
    rng = np.random.default_rng(seed)
    images = np.sort(np.arange(5664) % 1000)
    quality = rng.normal(size=5664)
    opinions = quality[:, None] + 0.6 * rng.normal(size=(5664, 3))
    # shares of 1, 2, 3 and 4 about as in the real ratings: 58, 29, 10 and 3 percent
    ratings = 1 + np.searchsorted(np.quantile(opinions, [0.58, 0.87, 0.97]), opinions)
    return quality + rng.normal(size=5664), ratings, images


def _scipys_samples(scores: np.ndarray, ratings: np.ndarray, images: np.ndarray, count: int) -> np.ndarray:
    """τ_b and τ_c of the first samples, each written out in rows: (2, count)."""
    from scipy.stats import kendalltau

    found = []
    for times in multiplicities(np.random.default_rng(0), images.max() + 1, count).T:
        items = np.repeat(np.arange(len(scores)), times[images])
        x, y = np.repeat(scores[items], ratings.shape[1]), ratings[items].ravel()
        found.append([kendalltau(x, y, variant=variant).statistic for variant in "bc"])
    return np.array(found).T


def _largest_difference(scores: np.ndarray, ratings: np.ndarray, images: np.ndarray, count: int) -> float:
    found = agreement(
        scores, ratings, raters="flatten", images=images, statistics=STATISTICS, sampling=Sampling(count)
    )
    differences = []
    for name, samples in zip(STATISTICS, _scipys_samples(scores, ratings, images, count), strict=True):
        expected, got = percentile_interval(samples, 0.95), found.intervals[name]
        differences += [abs(expected.low - got.low), abs(expected.high - got.high)]
    return max(differences)
