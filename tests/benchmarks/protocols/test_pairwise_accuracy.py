"""Pairs of captions: literal accuracies, ties, gaps, intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.benchmarks.protocols import PASCAL50S_CATEGORIES, pairwise_by_category
from capscore.errors import InputError

from .shares import counted, interval

# first, second, preferred, category: HC won, lost; HI tied, won; HM won; MM lost
FIRST = [0.9, 0.2, 0.5, 0.1, 0.8, 0.7]
SECOND = [0.1, 0.7, 0.5, 0.3, 0.2, 0.9]
LABELS = [0, 0, 1, 1, 0, 0]
CATEGORIES = ["HC", "HC", "HI", "HI", "HM", "MM"]


def test_accuracy_per_category_and_plain_mean():
    found = pairwise_by_category(FIRST, SECOND, LABELS, CATEGORIES)
    assert found.table() == [
        ("accuracy hc", 0.5, 2),
        ("accuracy hi", 0.5, 2),
        ("accuracy hm", 1.0, 1),
        ("accuracy mm", 0.0, 1),
        ("accuracy mean", 0.5, 6),
    ]
    assert {name: ties for name, (_, _, ties) in counted(found).items()} == {
        "hc": 0,
        "hi": 1,
        "hm": 0,
        "mm": 0,
    }
    assert found.counts == {"pairs": 6, "ties": 1, "left out": 0}
    assert interval(found, "accuracy_mean") is None


def test_the_mean_counts_categories_not_pairs():
    found = pairwise_by_category([1, 1, 1, 0], [0, 0, 0, 1], [0] * 4, ["A", "A", "A", "B"], known=("A", "B"))
    assert found.value("accuracy_mean") == 0.5


def test_a_constant_metric_wins_nothing():
    found = pairwise_by_category([0.5] * 6, [0.5] * 6, LABELS, CATEGORIES)
    assert found.value("accuracy_mean") == 0.0
    assert found.counts["ties"] == 6


def test_an_empty_category_has_no_accuracy_and_there_is_no_mean():
    found = pairwise_by_category([0.9], [0.1], [0], ["HM"])
    assert [value for _, value, _ in found.table()] == [None, None, 1.0, None, None]


def test_missing_scores_stop_or_are_left_out_and_told():
    second = [*SECOND[:-1], math.nan]
    with pytest.raises(InputError, match=r"^row 5, second: "):
        pairwise_by_category(FIRST, second, LABELS, CATEGORIES)
    found = pairwise_by_category([None, *FIRST[1:]], second, LABELS, CATEGORIES, missing="skip")
    assert [row.n for row in found.statistics[:4]] == [1, 2, 1, 0]
    assert found.counts["left out"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"second": SECOND[:5]}, r"^second: "),
        ({"labels": LABELS[:4]}, r"^labels: "),
        ({"labels": [0, 0, 1, 2, 0, 0]}, r"^row 3, labels: "),
        ({"categories": ["HC", "hc", "HI", "HI", "HM", "MM"]}, r"^row 1, categories: "),
        ({"categories": "HC"}, r"^categories: "),
        ({"first": [0.1, 0.2, "0.3", 0.1, 0.2, 0.3]}, r"^row 2, first: "),
        ({"first": [0.1, math.inf, 0.1, 0.1, 0.1, 0.1]}, r"^row 1, first: "),
        ({"first": []}, r"^first: "),
        ({"missing": "ignore"}, r"^missing: "),
        ({"bootstrap": -1}, r"^bootstrap: "),
        ({"bootstrap": 10, "confidence": 95}, r"^confidence: "),
        ({"bootstrap": 10, "images": ["a"] * 5}, r"^images: "),
    ],
)
def test_what_is_wrong_is_named(change, message):
    given_rows = {"first": FIRST, "second": SECOND, "labels": LABELS, "categories": CATEGORIES}
    with pytest.raises(InputError, match=message):
        pairwise_by_category(**{**given_rows, **change})


def brute_force(rows):
    """Category → (pairs, wins, ties), one row at a time."""
    counts = {name: [0, 0, 0] for name in PASCAL50S_CATEGORIES}
    for first, second, label, category, *_ in rows:
        preferred, other = (first, second) if label == 0 else (second, first)
        counts[category][0] += 1
        if preferred > other:
            counts[category][1] += 1
        elif preferred == other:
            counts[category][2] += 1
    return {name.lower(): tuple(count) for name, count in counts.items()}


ROWS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        st.sampled_from([0, 1]),
        st.sampled_from(PASCAL50S_CATEGORIES),
        st.sampled_from(["a.jpg", "b.jpg", "c.jpg"]),
    ),
    min_size=1,
    max_size=20,
)


@given(ROWS, st.randoms())
def test_agrees_with_one_row_at_a_time_in_any_order(rows, random):
    def run(rows, **settings):
        first, second, labels, categories, images = zip(*rows, strict=True)
        return pairwise_by_category(first, second, labels, categories, **settings), images

    shuffled = random.sample(rows, len(rows))
    found, images = run(rows)
    assert counted(found) == brute_force(rows)
    assert run(shuffled)[0] == found
    for ids, other_ids in ((images, [row[4] for row in shuffled]), (None, None)):
        drawn = run(rows, images=ids, bootstrap=20, confidence=0.5)[0]
        assert run(shuffled, images=other_ids, bootstrap=20, confidence=0.5)[0] == drawn


def test_intervals_by_image_are_wider_than_by_pair():
    # every image's ten pairs are all won or all lost, so ten pairs tell no more than one
    rng = np.random.default_rng(0)
    won = np.repeat(rng.random(40) < 0.5, 10).astype(float)
    images = np.repeat(np.arange(40), 10)
    arguments = (won, 1 - won, [0] * 400, ["A"] * 400)
    by_image, by_pair = (
        pairwise_by_category(*arguments, known=("A",), images=ids, bootstrap=2000).statistics[0].interval
        for ids in (images, None)
    )
    p = won.mean()
    for ends, n in ((by_image, 40), (by_pair, 400)):
        half = 1.96 * math.sqrt(p * (1 - p) / n)  # of a binomial share
        assert ends == pytest.approx((p - half, p + half), abs=0.03)
    assert np.ptp(by_pair) < 0.4 * np.ptp(by_image)


def test_an_interval_covers_every_sample_that_can_be_drawn():
    # two images, one won and one lost: samples give 0, 1/2 or 1
    found = pairwise_by_category(
        [1, 0], [0, 1], [0, 0], ["A", "A"], known=("A",), images=["x", "y"], bootstrap=400, confidence=0.9
    )
    assert found.statistics[0] == ("accuracy_a", 0.5, (0.0, 1.0), 2)
    assert interval(found, "accuracy_mean") == (0.0, 1.0)


def test_samples_without_a_category_are_left_out_and_told():
    found = pairwise_by_category(
        [1, 0], [0, 1], [0, 0], ["A", "B"], known=("A", "B"), images=["x", "y"], bootstrap=100
    )
    for name, value in (("A", 1.0), ("B", 0.0)):
        assert interval(found, f"accuracy_{name.lower()}") == (value, value)
        (note,) = (note for note in found.notes if note.startswith(f"interval of {name}: "))
        assert 10 < int(note.split()[3]) < 40  # a quarter of the samples, by chance


def test_what_no_bootstrap_can_be_made_of_is_told():
    one_image = pairwise_by_category(FIRST, SECOND, LABELS, CATEGORIES, images=["a"] * 6, bootstrap=100)
    assert interval(one_image, "accuracy_hc") is None
    pairwise_by_category(FIRST, SECOND, LABELS, CATEGORIES, bootstrap=100)
