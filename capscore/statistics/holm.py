"""Corrects p-values for the number of tests, after Holm (1979)."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values of a family of tests → p-values with the same meaning for the whole family.

    The smallest of m is multiplied by m, the next by m − 1, and so on; none becomes smaller than one before
    it, or larger than 1. The chance of any false finding in the family then stays below the level of a
    single test (Holm 1979, Scandinavian Journal of Statistics 6, 65-70).

    Args:
        p_values: p-values in (0, 1], in any order.

    Returns:
        The corrected p-values, in the same order.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected = [0.0] * len(p_values)
    least = 0.0
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for before, place in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - before) * p_values[place]))
        corrected[place] = least
    return corrected
