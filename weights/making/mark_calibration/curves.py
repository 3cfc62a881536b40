"""Logits of what is right and of what is wrong → calibration curves, and the error of probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capscore.errors import CapscoreError
from capscore.infometic.mark_calibration import RATES, MarkCurve

# Number of logits that those of other languages count for in the quantiles of one language.
PRIOR = 300


def fit_curve(right: np.ndarray, wrong: np.ndarray, prior: np.ndarray | None = None) -> MarkCurve:
    """Calibrate logits of what is right and of what is wrong, each with half of the weight.

    Platt's method (Platt 1999) without his smoothing, by Newton's method.

    Args:
        right, wrong: (n,) and (m,) logits, at least 2 of each; CapscoreError if one is not finite.
        prior: Logits of what is right in other languages, which count as `PRIOR` further ones for the
            quantiles: the lowest few per cent of a few hundred logits are a matter of chance.

    >>> chance = np.random.default_rng(0)
    >>> curve = fit_curve(chance.normal(1, 1, 4000), chance.normal(-1, 1, 4000))
    >>> round(curve.scale), round(curve.bias)
    (2, 0)
    """
    if min(len(right), len(wrong)) < 2:
        raise CapscoreError(f"{len(right)} right and {len(wrong)} wrong logits: expected at least 2 of each")
    x = np.concatenate([right, wrong]).astype(np.float64)
    if not np.isfinite(x).all():
        raise CapscoreError("logits to calibrate hold NaN or infinity")
    y = np.repeat([1.0, 0.0], [len(right), len(wrong)])
    weight = np.repeat([0.5 / len(right), 0.5 / len(wrong)], [len(right), len(wrong)])
    inputs = np.stack([x, np.ones_like(x)], axis=1)
    theta = np.zeros(2)
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-np.clip(inputs @ theta, -50.0, 50.0)))
        # a little weight decay keeps it finite where the two do not overlap
        slope = inputs.T @ (weight * (p - y)) + 1e-4 * theta
        bend = (inputs * (weight * p * (1.0 - p))[:, None]).T @ inputs + 1e-4 * np.eye(2)
        step = np.linalg.solve(bend, slope)
        theta -= step
        if np.abs(step).max() < 1e-9:
            break
    curve = MarkCurve(float(theta[0]), float(theta[1]), (0.0,) * len(RATES), 0.0)
    p_right, p_wrong = curve.probabilities(right), curve.probabilities(wrong)
    quantiles = _quantiles(p_right, None if prior is None else curve.probabilities(prior))
    found = float((p_wrong < np.interp(0.05, RATES, quantiles)).mean())
    return MarkCurve(curve.scale, curve.bias, tuple(quantiles.tolist()), found)


def _quantiles(values: np.ndarray, prior: np.ndarray | None) -> np.ndarray:
    """Quantiles at `RATES` of values and of others that count as `PRIOR` together."""
    if prior is None or not len(prior):
        return np.quantile(values, RATES)
    joined = np.concatenate([values, prior])
    weights = np.concatenate([np.ones(len(values)), np.full(len(prior), PRIOR / len(prior))])
    order = np.argsort(joined, kind="stable")
    # the share below the middle of each value's own weight
    shares = (np.cumsum(weights[order]) - weights[order] / 2.0) / weights.sum()
    return np.interp(RATES, shares, joined[order])


def expected_calibration_error(p: Sequence[float] | np.ndarray, right: Sequence[bool] | np.ndarray) -> float:
    """Expected calibration error with 10 bins of equal width (Naeini et al. 2015): mean |share right − mean
    p|.

    What is right and what is wrong count half each.

    >>> round(expected_calibration_error([0.9, 0.9, 0.1, 0.1], [True, True, False, False]), 3)
    0.1
    """
    values, truth = np.asarray(p, np.float64), np.asarray(right, bool)
    if truth.all() or not truth.any():
        raise CapscoreError("a calibration error needs what is right and what is wrong")
    weight = np.where(truth, 0.5 / truth.sum(), 0.5 / (~truth).sum())
    bins = np.minimum((values * 10).astype(int), 9)
    gap = np.bincount(bins, weights=weight * (truth - values), minlength=10)
    return float(np.abs(gap).sum())
