"""MarkCurves, thresholds and verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from capscore.errors import CapscoreError
from capscore.infometic.mark_calibration import (
    RATES,
    SHARED,
    MarkCurve,
    MarkCurves,
    expected_calibration_error,
    fit_curve,
    word_rate,
    word_verdict,
)

EVEN = tuple(np.linspace(0.0, 1.0, 101).tolist())


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


def test_a_threshold_is_at_most_a_half():
    curve = MarkCurve(1.0, 0.0, (0.9,) * 101, 1.0)
    assert curve.threshold(0.05) == 0.5


@pytest.mark.parametrize(
    ("p", "found", "expected"),
    [
        (0.6, 0.9, True),
        (0.5, 0.9, True),
        (0.49, 0.9, None),
        (0.11, 0.9, None),
        (0.09, 0.9, False),
        # a class whose wrong words are hardly found is never judged
        (0.9, 0.1, None),
        (0.01, 0.1, None),
    ],
)
def test_three_verdicts(p, found, expected):
    assert word_verdict(p, MarkCurve(1.0, 0.0, EVEN, found), 0.05) is expected


def test_a_higher_rate_marks_no_fewer_words():
    curve = MarkCurve(1.0, 0.0, EVEN, 0.9)
    marked = [word_verdict(0.2, curve, rate) is False for rate in (0.05, 0.1, 0.15, 0.3)]
    assert marked == sorted(marked) == [False, False, True, True]


def test_long_captions_have_a_lower_rate_per_word():
    rates = [word_rate(0.06, n, "noun") for n in (0, 1, 3, 6, 12)]
    assert rates == pytest.approx([0.06, 0.06, 0.06, 0.03, 0.015])
    assert word_rate(0.06, 6, "verb") == pytest.approx(0.003)


def test_the_calibration_error():
    """By hand: two of three right ones and one of two wrong ones have .95, the others .25."""
    p, right = [0.95, 0.95, 0.95, 0.25, 0.25], [True, True, False, True, False]
    top = 1 / 6 * 2 * 0.05 - 1 / 4 * 0.95
    low = 1 / 6 * 0.75 - 1 / 4 * 0.25
    assert expected_calibration_error(p, right) == pytest.approx(abs(top) + abs(low), abs=1e-12)


def test_a_calibration_needs_both():
    with pytest.raises(CapscoreError, match="right and what is wrong"):
        expected_calibration_error([0.5], [True])


def test_languages_share_curves():
    noun, english = MarkCurve(1.0, 0.0, EVEN, 0.9), MarkCurve(2.0, 0.0, EVEN, 0.9)
    calibration = MarkCurves(
        {"noun": noun}, {SHARED: {"noun": noun}, "en": {"noun": english}}, {SHARED: noun}, noun
    )
    assert calibration.of_word("en", "noun") is english
    assert calibration.of_word("sw", "noun") is noun
    assert calibration.of_word("en", "number") is None
    assert calibration.of_caption("en") is noun
    assert MarkCurves.from_dict(calibration.to_dict()).to_dict() == calibration.to_dict()


def test_shared_curves_are_needed():
    noun = MarkCurve(1.0, 0.0, EVEN, 0.9)
    with pytest.raises(CapscoreError, match="lacks 'shared'"):
        MarkCurves({"noun": noun}, {"en": {"noun": noun}}, {SHARED: noun}, noun)


@pytest.mark.parametrize(
    "given",
    [None, {}, {"scale": 1, "bias": 0, "quantiles": [0.1], "found": 0}, {"scale": "x"}],
)
def test_a_damaged_curve(given):
    with pytest.raises(CapscoreError, match="calibration"):
        MarkCurve.from_dict(given)
