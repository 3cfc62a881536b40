"""Curves fitted to logits, and the calibration error."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from capscore.errors import CapscoreError
from capscore.infometic.mark_calibration import RATES
from weights.making.mark_calibration.calibrate import fit_curve
from weights.measuring.believable_marks import expected_calibration_error


def _logits():
    chance = np.random.default_rng(3)
    return chance.normal(1.5, 1.2, 900), chance.normal(-0.5, 0.8, 300)


def test_a_curve_minimises_the_cross_entropy():
    right, wrong = _logits()
    curve = fit_curve(right, wrong)

    def loss(theta):
        positive, negative = theta[0] * right + theta[1], theta[0] * wrong + theta[1]
        entropy = np.logaddexp(0, -positive).mean() / 2 + np.logaddexp(0, negative).mean() / 2
        return entropy + 5e-5 * (theta**2).sum()

    best = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-9}).x
    assert [curve.scale, curve.bias] == pytest.approx(best.tolist(), abs=1e-4)


def test_quantiles_and_what_is_found():
    right, wrong = _logits()
    curve = fit_curve(right, wrong)
    p = 1 / (1 + np.exp(-(curve.scale * right + curve.bias)))
    assert curve.quantiles == pytest.approx(np.quantile(p, RATES).tolist(), abs=1e-12)
    share = (p < curve.quantiles[10]).mean()
    assert share == pytest.approx(0.05, abs=2e-3)
    others = 1 / (1 + np.exp(-(curve.scale * wrong + curve.bias)))
    assert curve.found == pytest.approx((others < curve.quantiles[10]).mean(), abs=1e-12)


def test_logits_that_do_not_overlap():
    curve = fit_curve(np.array([5.0, 6.0]), np.array([-5.0, -6.0]))
    assert np.isfinite([curve.scale, curve.bias]).all() and curve.found == 1.0


@pytest.mark.parametrize("right", [[1.0], [1.0, float("nan")]])
def test_bad_logits(right):
    with pytest.raises(CapscoreError, match=r"expected at least 2|NaN"):
        fit_curve(np.array(right), np.array([0.0, 1.0]))


def test_the_calibration_error():
    """By hand: two of three right ones and one of two wrong ones have .95, the others .25."""
    p, right = [0.95, 0.95, 0.95, 0.25, 0.25], [True, True, False, True, False]
    top = 1 / 6 * 2 * 0.05 - 1 / 4 * 0.95
    low = 1 / 6 * 0.75 - 1 / 4 * 0.25
    assert expected_calibration_error(p, right) == pytest.approx(abs(top) + abs(low), abs=1e-12)


def test_a_calibration_needs_both():
    with pytest.raises(CapscoreError, match="right and what is wrong"):
        expected_calibration_error([0.5], [True])
