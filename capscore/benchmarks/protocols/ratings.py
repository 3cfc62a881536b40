"""Scores and human ratings → τ_b, τ_c, ρ and r.

In: a score and one or several ratings per item. Out: the result of `capscore.statistics.agreement.agreement`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...statistics.agreement import Agreement, agreement
from ...statistics.correlation import STATISTICS


def rating_correlation(
    scores: Any,
    ratings: Any,
    *,
    raters: str | None,
    images: Any = None,
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
    statistics: str | Sequence[str] = STATISTICS,
    missing: str = "raise",
) -> Agreement:
    """`capscore.statistics.agreement.agreement`, with `raters` required.

    Published tables (Gomes et al. 2025, §4.2; Hu et al. 2023, §4.2.2; Kim et al. 2023, §5.5) use:

    - Flickr8k-Expert: τ_c, three ratings per item, "flatten"; 5,664 items, 16,992 ratings.
    - Flickr8k-CF: τ_b with the share of yes, one number per item; 47,830 items.
    - Composite: τ_c with correctness. Polaris, Nebula: τ_c. CapEval1k: τ_c and Pearson's r.
    - VICR: τ_b, τ_c and ρ; the source does not say whether ratings are flattened or averaged.

    Args:
        scores: n finite numbers; NaN or None where a row failed.
        ratings: n ratings, or n lists with one rating per rater.
        raters: "flatten", "mean", or None if every item has one rating.
        images, bootstrap, confidence, seed, statistics, missing: As in `agreement`.

    Raises:
        InputError: as `agreement`.

    >>> found = rating_correlation([0.9, 0.4, 0.7, 0.1], [[4, 4], [2, 3], [2, 4], [1, 1]], raters="flatten")
    >>> round(found.values["tau_c"], 3)
    0.792
    """
    return agreement(
        scores,
        ratings,
        raters=raters,
        images=images,
        bootstrap=bootstrap,
        confidence=confidence,
        seed=seed,
        statistics=statistics,
        missing=missing,
    )
