"""Drops under perturbations: published lines, unchanged captions, gaps, means that say nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.benchmarks.protocols import PERTURBATIONS, PerturbationDrop, robustness_drop
from capscore.errors import InputError


def test_literal_drops():
    found = robustness_drop(
        [1.0, 0.5],
        {
            "repetition": [1.0, 0.5],
            "removal": [0.5, 0.25],
            "masking": [0.2, 0.1],
            "jumble": [0.0, 0.0],
            "substitution": [1.2, 0.9],
        },
    )
    assert [part.drop for part in found.details["perturbations"].values()] == pytest.approx(
        [0, -0.5, -0.8, -1, 0.4]
    )
    assert list(found.details["perturbations"]) == list(PERTURBATIONS)
    assert found.details["original"] == 0.75
    assert found.details["perturbed"] == pytest.approx((0.75 + 0.375 + 0.15 + 0 + 1.05) / 5)
    assert found.details["average_drop"] == pytest.approx(-0.38)
    assert found.counts == {"captions": 2, "perturbed captions": 10, "unchanged": 0, "left out": 0}


@pytest.mark.parametrize(
    ("original", "perturbed", "percent"),
    # PR-MCS, Table 2: Multi30K en and de, Flickr8k fr, MSCOCO de
    [(1.1008, 0.3041, -72.37), (1.096, 0.3613, -67.03), (1.6681, 0.4275, -74.37), (1.3153, 0.5156, -60.80)],
)
def test_published_lines(original, perturbed, percent):
    found = robustness_drop([original], {kind: [perturbed] for kind in PERTURBATIONS})
    assert round(100 * found.details["average_drop"], 2) == percent


def test_unchanged_captions_are_counted_and_can_be_left_out():
    arguments = ([1.0, 0.6], {"substitution": [1.0, 0.3]})
    unchanged = {"substitution": [True, False]}
    kept = robustness_drop(*arguments, unchanged=unchanged)
    assert kept.details["perturbations"]["substitution"].drop == pytest.approx((0.65 - 0.8) / 0.8)
    left_out = robustness_drop(*arguments, unchanged=unchanged, leave_out_unchanged=True)
    # like is compared with like: the original mean is that of the captions that count
    assert left_out.details["perturbations"]["substitution"] == PerturbationDrop(1, 0.6, 0.3, -0.5, 1, 0)
    assert left_out.details["original"] == 0.8
    with pytest.raises(InputError, match=r"^unchanged: "):
        robustness_drop(*arguments, leave_out_unchanged=True)


def test_all_unchanged_leaves_nothing():
    found = robustness_drop([1.0], {"jumble": [1.0]}, unchanged={"jumble": [True]}, leave_out_unchanged=True)
    assert found.details["perturbations"]["jumble"] == PerturbationDrop(0, None, None, None, 1, 0)
    assert found.details["average_drop"] is None
    assert found.details["perturbed"] is None


@pytest.mark.parametrize(("original", "words"), [([0.5, -0.5], "zero"), ([-0.25, -0.25], "negative (-0.25)")])
def test_a_mean_that_nothing_can_be_relative_to(original, words):
    found = robustness_drop(original, {"jumble": [0.1, 0.1]})
    assert found.details["perturbations"]["jumble"].drop is None
    assert found.details["average_drop"] is None


def test_missing_scores():
    arguments = ([1.0, math.nan, 0.6], {"jumble": [0.5, 0.2, 0.3], "masking": [math.nan, 0.2, 0.3]})
    with pytest.raises(InputError, match=r"^row 1, original: "):
        robustness_drop(*arguments)
    with pytest.raises(InputError, match=r"^row 0, perturbed\['masking'\]: "):
        robustness_drop([1.0, 0.5, 0.6], arguments[1])
    found = robustness_drop(*arguments, missing="skip")
    assert found.details["perturbations"]["jumble"] == PerturbationDrop(2, 0.8, 0.4, -0.5, 0, 1)
    assert found.details["perturbations"]["masking"] == PerturbationDrop(1, 0.6, 0.3, -0.5, 0, 2)
    assert (found.details["original"], found.details["n_scored"]) == (0.8, 2)


@pytest.mark.parametrize(
    ("perturbed", "settings", "message"),
    [
        ({"Jumbel": [0.1, 0.1]}, {}, r"^perturbed: "),
        ({"jumble": [0.1]}, {}, r"^perturbed\['jumble'\]: "),
        ({}, {}, r"^perturbed: "),
        ([0.1, 0.1], {}, r"^perturbed: "),
        ({"jumble": [0.1, 0.1]}, {"unchanged": {"jumble": [True]}}, r"^unchanged\['jumble'\]: "),
        ({"jumble": [0.1, 0.1]}, {"unchanged": {"swap": [True, True]}}, r"^unchanged: "),
    ],
)
def test_what_is_wrong_is_named(perturbed, settings, message):
    with pytest.raises(InputError, match=message):
        robustness_drop([0.5, 0.5], perturbed, **settings)


SCORE = st.floats(0.01, 2)


@given(st.lists(st.tuples(*[SCORE] * 6), min_size=1, max_size=10), st.randoms())
def test_agrees_with_plain_arithmetic_in_any_order(rows, random):
    def run(rows):
        original, *perturbed = zip(*rows, strict=True)
        return robustness_drop(original, dict(zip(PERTURBATIONS, perturbed, strict=True)))

    found = run(rows)
    assert run(random.sample(rows, len(rows))) == found
    n = len(rows)
    original = sum(row[0] for row in rows) / n
    drops = [sum(row[place] for row in rows) / n / original - 1 for place in range(1, 6)]
    assert found.details["average_drop"] == pytest.approx(sum(drops) / 5)
    # all five have the same original mean, so that the published quotient of means is the same number
    assert found.details["average_drop"] == pytest.approx(
        (found.details["perturbed"] - found.details["original"]) / found.details["original"]
    )
