"""Shares and ratios over photos, with the draws of the bootstrap made a second time."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from capscore.benchmarks.tasks import TaskOptions
from weights.measuring import figures
from weights.measuring.figures import Share, ratio_of_shares, share_of_sums

FOUND = np.array([2.0, 0.0, 5.0, 1.0, 3.0])
ALL = np.array([5.0, 5.0, 5.0, 1.0, 4.0])
OTHER = np.array([1.0, 2.0, 4.0, 1.0, 2.0])


def draws(n_units, n_samples=1000, seed=0):
    """The photos of every sample, as numbers."""
    return np.random.default_rng(seed).integers(0, n_units, size=(n_samples, n_units))


def middle(samples, confidence=0.95):
    """The ends between which the middle share of the samples lies, from their order alone."""
    ordered = sorted(samples)
    ends = []
    for share in ((1 - confidence) / 2, (1 + confidence) / 2):
        place = share * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        ends.append(ordered[below] + (place - below) * (ordered[above] - ordered[below]))
    return tuple(ends)


def test_docstrings():
    result = doctest.testmod(figures)
    assert result.attempted and not result.failed


def test_a_share_is_of_all_captions_and_its_interval_draws_whole_photos():
    found = share_of_sums(FOUND, ALL, TaskOptions())
    assert found.value == pytest.approx(11 / 20)
    samples = [sum(FOUND[row] for row in drawn) / sum(ALL[row] for row in drawn) for drawn in draws(5)]
    assert found.interval == pytest.approx(middle(samples))


def test_a_ratio_uses_the_same_photos_above_and_below():
    found = ratio_of_shares((OTHER, ALL), (FOUND, ALL), TaskOptions(bootstrap=200, seed=3, confidence=0.8))
    assert found.value == pytest.approx(10 / 11)
    samples = [sum(OTHER[drawn]) / sum(FOUND[drawn]) for drawn in draws(5, 200, 3) if sum(FOUND[drawn])]
    assert found.interval == pytest.approx(middle(samples, 0.8))


def test_what_is_undefined_has_no_number():
    nothing = np.zeros(3)
    assert share_of_sums(nothing, nothing, TaskOptions()) == Share(None)
    assert ratio_of_shares((FOUND, ALL), (0 * FOUND, ALL), TaskOptions()) == Share(None)
    assert Share(None).in_percent == "–"


def test_without_draws_there_is_no_interval():
    assert share_of_sums(FOUND, ALL, TaskOptions(bootstrap=0)) == Share(pytest.approx(0.55))
    assert Share(0.55).in_percent == "55.0"
