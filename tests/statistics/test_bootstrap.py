"""Draws, blocks, intervals and p-values."""

from __future__ import annotations

import numpy as np
import pytest

from capscore.errors import InputError
from capscore.statistics import bootstrap
from capscore.statistics.bootstrap import (
    Interval,
    check_sampling,
    coin_flips,
    multiplicities,
    percentile_interval,
    resample,
    sampling_notes,
    two_sided_p,
)


def test_multiplicities_are_counted_draws():
    drawn = np.random.default_rng(7).integers(0, 6, size=(4, 6))
    expected = [[np.count_nonzero(sample == unit) for sample in drawn] for unit in range(6)]
    assert multiplicities(np.random.default_rng(7), 6, 4).tolist() == expected


def test_each_unit_is_drawn_once_on_average():
    drawn = multiplicities(np.random.default_rng(0), 50, 4000)
    # a unit's count has mean 1 and variance 0.98: the mean of 4,000 is within 0.08 with 5 σ
    assert np.abs(drawn.mean(axis=1) - 1).max() < 0.08
    flips = coin_flips(np.random.default_rng(0), 50, 4000)
    assert set(np.unique(flips)) == {0, 1}
    assert np.abs(flips.mean(axis=1) - 0.5).max() < 0.04


@pytest.mark.parametrize("draw", [multiplicities, coin_flips])
def test_blocks_do_not_change_the_samples(draw, monkeypatch):
    def run():
        widths = []

        def values(drawn):
            widths.append(drawn.shape[1])
            return np.arange(7) @ drawn[None]

        found = resample(values, draw, n_units=7, n_samples=50, seed=3, n_rows=7, label="x")
        return found, widths

    whole, widths = run()
    assert whole.shape == (1, 50) and widths == [50]
    monkeypatch.setattr(bootstrap, "_BLOCK", 1)
    pieces, widths = run()
    assert widths == [8, 8, 8, 8, 8, 8, 2]
    np.testing.assert_allclose(pieces, whole, rtol=0, atol=1e-12)


def test_the_bar_is_only_for_long_work_in_a_terminal(monkeypatch):
    asked = []

    def bar(label, total, *, shown):
        from contextlib import nullcontext

        asked.append((label, total, shown))
        return nullcontext(lambda count: None)

    monkeypatch.setattr(bootstrap, "progress_bar", bar)
    for n_rows in (10, 10**7):
        resample(
            lambda drawn: drawn[:1], multiplicities, n_units=2, n_samples=9, seed=0, n_rows=n_rows, label="a"
        )
    assert asked == [("a", 9, False), ("a", 9, None)]


def test_percentile_interval():
    samples = np.append(np.arange(101.0), [np.nan, np.nan])
    assert percentile_interval(samples, 0.5) == Interval(25.0, 75.0, 0.5, 101, 2)
    assert percentile_interval(np.array([np.nan]), 0.9) is None
    assert Interval(0.1, 0.2, 0.95, 10).to_dict() == {
        "low": 0.1,
        "high": 0.2,
        "confidence": 0.95,
        "n_samples": 10,
        "n_undefined": 0,
    }


def test_p_value_is_never_0_and_counts_both_sides():
    null = np.array([0.1, -0.2, 0.3, -0.4])
    assert two_sided_p(null, 0.5) == 1 / 5
    assert two_sided_p(null, -0.3) == 3 / 5
    assert two_sided_p(null, 0.0) == 1.0
    # 0.1 + 0.2 is not 0.3 to the last digit, and is as far nevertheless
    assert two_sided_p(np.array([0.3]), 0.1 + 0.2) == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 0.95, 0), "bootstrap: bootstrap=-1: expected a whole number of at least 0"),
        ((1.5, 0.95, 0), "bootstrap=1.5: expected a whole number of at least 0"),
        ((True, 0.95, 0), "bootstrap=True: expected a whole number of at least 0"),
        ((10, 95, 0), "confidence: confidence=95: expected a share between 0 and 1"),
        ((10, "high", 0), "confidence='high'"),
        ((10, 0.95, -1), "seed=-1: expected a whole number of at least 0"),
        ((10, 0.95, None), "seed=None: expected a whole number of at least 0"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        check_sampling(*arguments, field="bootstrap", least=0)


def test_too_few_samples_are_named():
    assert sampling_notes("image", 40, 0.95, {}) == []
    (note,) = sampling_notes("image", 39, 0.95, {})
    assert note == "39 samples are too few for a 95% interval: take 40 or more"
    assert "take 200 or more" in sampling_notes("image", 100, 0.99, {})[0]
