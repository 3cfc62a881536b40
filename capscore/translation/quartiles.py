"""Quality of translations → quartiles, as Gomes et al. (2025, Figure 1) split them: per language."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def quartiles(quality: Sequence[float | None]) -> list[int | None]:
    """The quartile of each translation of one language.

    Args:
        quality: n qualities; None where a row has none.

    Returns:
        1 below the 25th percentile, 4 above the 75th, 2 up to the median and 3 above it in between;
        None where there is no quality.

    >>> quartiles([0.1, 0.2, None, 0.3, 0.4, 0.5])
    [1, 2, None, 2, 3, 4]
    """
    known = np.array([value for value in quality if value is not None], dtype=np.float64)
    if not len(known):
        return [None] * len(quality)
    low, middle, high = np.percentile(known, (25, 50, 75))

    def place(value: float | None) -> int | None:
        if value is None:
            return None
        if value < low:
            return 1
        return 4 if value > high else 2 if value <= middle else 3

    return [place(value) for value in quality]
