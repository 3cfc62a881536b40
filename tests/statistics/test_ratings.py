"""What people hand over as scores, ratings and image ids; what is left out is counted and named."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pandas
import pyarrow
import pytest
import torch
from capscore.statistics.ratings import RatedScores, RatingSummary, coded, means_by, numbers_of
from hypothesis import given
from hypothesis import strategies as st

from capscore.errors import InputError

NAN = math.nan


def rows_of(scores, ratings, raters=None, images=None, missing="raise"):
    return RatedScores.of({"scores": scores}, ratings, raters, images, missing)


@pytest.mark.parametrize(
    "given_",
    [
        [1, 2.5, None],
        (1, Decimal("2.5"), NAN),
        np.array([1, 2.5, NAN], np.float32),
        np.array([1, 2.5, None], object),
        np.ma.masked_array([1, 2.5, 9], [False, False, True]),
        pandas.Series([1, 2.5, None], index=[5, 6, 7]),
        pandas.Series([1, 2.5, None], dtype="Float64"),
        pyarrow.array([1, 2.5, None]),
        torch.tensor([1, 2.5, NAN]),
        (value for value in [np.float32(1), 2.5, np.float64("nan")]),
    ],
)
def test_lists_of_numbers(given_):
    np.testing.assert_array_equal(numbers_of(given_, "scores"), [1.0, 2.5, NAN])


def test_truth_values_are_numbers():
    assert numbers_of([True, np.bool_(False)], "ratings").tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ([1, "2"], r"row 1, scores: '2' \(str\): expected a number"),
        ([1, [2]], r"row 1, scores: \[2\] \(list\): expected a number"),
        ([1, 2, -math.inf], "row 2, scores: -inf: expected a finite number"),
        ([10**400], "row 0, scores: inf: expected a finite number"),
        (np.array([1 + 2j]), "row 0, scores: .* expected a number"),
        (np.ones((2, 3)), r"scores: an array \(2, 3\): expected one number per item"),
        ("0.5", r"scores: '0.5' \(str\): expected a list of numbers"),
        ({0.5: 1}, "scores: .*dict.*expected a list of numbers"),
        ({0.5}, "scores: .*set.*expected a list of numbers"),
        (0.5, r"scores: 0.5 \(float\): expected a list of numbers"),
        (np.array(0.5), "scores: .*expected a list of numbers"),
        (None, "scores: None: expected a list of numbers"),
        (torch.ones(2, requires_grad=True), "scores: Tensor: .*requires grad"),
    ],
)
def test_what_is_no_list_of_numbers(given_, message):
    with pytest.raises(InputError, match=message):
        numbers_of(given_, "scores")


@pytest.mark.parametrize(
    "ratings",
    [
        [[1, 2], [3, 4], [4, 4]],
        ((1, 2), (3, 4), (4, 4)),
        np.array([[1, 2], [3, 4], [4, 4]]),
        [np.array([1, 2]), np.array([3, 4]), np.array([4, 4])],
        pandas.DataFrame({"first": [1, 3, 4], "second": [2, 4, 4]}),
        pandas.Series([[1, 2], [3, 4], [4, 4]]),
        pyarrow.array([[1, 2], [3, 4], [4, 4]]),
    ],
)
def test_several_ratings_an_item(ratings):
    flat = rows_of([0.1, 0.2, 0.3], ratings, "flatten")
    assert flat.scores["scores"].tolist() == [0.1, 0.1, 0.2, 0.2, 0.3, 0.3]
    assert flat.ratings.tolist() == [1, 2, 3, 4, 4, 4]
    assert flat.units.tolist() == [0, 0, 1, 1, 2, 2]
    assert (flat.raters, flat.n_items, flat.n_units, flat.unit) == ("flatten", 3, 3, "item")
    assert flat.summary == RatingSummary(6, 4, 1.0, 4.0, 3.0, {1.0: 1, 2.0: 1, 3.0: 1, 4.0: 3})
    mean = rows_of([0.1, 0.2, 0.3], ratings, "mean")
    assert mean.ratings.tolist() == [1.5, 3.5, 4.0]
    assert mean.scores["scores"].tolist() == [0.1, 0.2, 0.3]
    assert (mean.raters, mean.summary) == ("mean", flat.summary)


def test_without_a_choice_both_are_named():
    with pytest.raises(InputError, match=r"ratings: up to 3 .*raters='flatten'.*raters='mean'"):
        rows_of([1, 2], [[1], [2, 3, 3]])
    with pytest.raises(InputError, match=r"raters='median': expected 'flatten' or 'mean'"):
        rows_of([1, 2], [1, 2], "median")


@pytest.mark.parametrize("raters", [None, "flatten", "mean"])
def test_one_rating_an_item_needs_no_choice(raters):
    for ratings in ([3, 1], [[3], [1]], np.array([[3], [1]])):
        rows = rows_of([0.5, 0.6], ratings, raters)
        assert (rows.ratings.tolist(), rows.raters) == ([3, 1], "single")


def test_too_much_is_refused():
    with pytest.raises(InputError, match=r"ratings: an array \(2, 2, 2\)"):
        rows_of([1, 2], np.ones((2, 2, 2)), "mean")
    with pytest.raises(InputError, match=r"row 1, ratings: \[2\] \(list\): expected a number"):
        rows_of([1, 2], [[1], [[2]]], "mean")
    with pytest.raises(InputError, match="row 1, ratings: inf: expected a finite number"):
        rows_of([1, 2], [[1, 2], [3, math.inf]], "flatten")
    with pytest.raises(InputError, match="row 1, ratings: the sum of the ratings is too large"):
        rows_of([1, 2], [[1, 2], [1e308, 1e308]], "mean")


def test_lengths_are_named():
    with pytest.raises(InputError, match="3 scores, 2 ratings: expected equally many"):
        rows_of([1, 2, 3], [1, 2])
    with pytest.raises(InputError, match="2 first scores, 3 second scores, 2 ratings"):
        RatedScores.of({"first_scores": [1, 2], "second_scores": [1, 2, 3]}, [1, 2], None, None, "raise")
    with pytest.raises(InputError, match="2 items, 1 images"):
        rows_of([1, 2], [1, 2], images=["a"])


def test_missing_stops_at_the_first_row():
    with pytest.raises(InputError) as caught:
        rows_of([1, 2, NAN, None, 5], [1, NAN, 3, 4, 5])
    assert (caught.value.row, caught.value.field) == (1, "ratings")
    assert "3 of 5 items lack something" in str(caught.value) and "missing='skip'" in str(caught.value)
    with pytest.raises(InputError, match="row 0, scores: missing"):
        rows_of([NAN, 2, 3], [NAN, 2, 3])
    for ratings in ([[1, 2], [3, None]], [[1, 2], []]):
        with pytest.raises(InputError, match="row 1, ratings: missing"):
            rows_of([1, 2], ratings, "flatten")
    with pytest.raises(InputError, match="missing='drop': expected 'raise' or 'skip'"):
        rows_of([1, 2], [1, 2], missing="drop")


def test_what_is_skipped_is_counted_and_named():
    scores = [0.1, NAN, 0.3, 0.4, 0.5, NAN]
    ratings = [[1, 2, 3], [2, 2, 2], [None, 4, 4], [], [None, None, 2], [None]]
    rows = rows_of(scores, ratings, "flatten", ["a", "b", "a", "c", "d", "e"], "skip")
    assert rows.scores["scores"].tolist() == [0.1, 0.1, 0.1, 0.3, 0.3, 0.5]
    assert rows.ratings.tolist() == [1, 2, 3, 4, 4, 2]
    assert rows.units.tolist() == [0, 0, 0, 0, 0, 1]
    assert (rows.n_items, rows.n_units, rows.n_ratings_left_out) == (3, 2, 3)
    assert rows.left_out == {"scores missing": 2, "ratings missing": 1}
    assert rows.notes == [
        "2 of 6 items left out: scores missing (rows 1, 5)",
        "1 of 6 items left out: ratings missing (row 3)",
        "3 missing ratings left out of items that have others (rows 2, 4)",
    ]
    means = rows_of(scores, ratings, "mean", None, "skip")
    assert means.ratings.tolist() == [2.0, 4.0, 2.0]
    assert (means.units.tolist(), means.unit) == ([0, 1, 2], "item")


def test_long_lists_of_rows_are_cut():
    rows = rows_of([NAN] * 8 + [1, 2], range(10), missing="skip")
    assert rows.notes == ["8 of 10 items left out: scores missing (rows 0, 1, 2, 3, 4 and 3 more)"]


@pytest.mark.parametrize("scores", [[], [1], [1, NAN, NAN]])
def test_too_few_items(scores):
    with pytest.raises(InputError, match=r"agreement needs at least 2 items, and there is [01]"):
        rows_of(scores, list(scores), missing="skip")
    with pytest.raises(InputError, match="there is 1, of 3 given; 2 lack something"):
        rows_of([1, NAN, NAN], [1, 2, 3], missing="skip")


def test_ids_are_numbered_in_their_own_order():
    kept = np.ones(4, dtype=bool)
    assert coded(["b", "a", "c", "a"], kept, "images")[0] == ["a", "b", "c"]
    assert coded(np.array([7, 3, 7, 1]), kept, "images")[1].tolist() == [2, 1, 2, 0]
    assert coded([1, "1", 1, "x"], kept, "images")[1].tolist() == [0, 1, 0, 2]
    names, codes = coded(["z", "a", None, "a"], np.array([True, True, False, True]), "images")
    assert (names, codes.tolist()) == (["a", "z"], [1, 0, 0])  # nobody asks for the id of a row left out


@pytest.mark.parametrize("wrong", [None, NAN, np.float32("nan"), pandas.NA, "", [1], {"path": "a.jpg"}])
def test_ids_that_are_none(wrong):
    with pytest.raises(InputError, match=r"row 1, images: .*expected an id"):
        rows_of([1, 2, 3], [1, 2, 3], images=["a", wrong, "b"])
    with pytest.raises(InputError, match=r"images: 'a.jpg'.*expected a list of ids"):
        rows_of([1, 2], [1, 2], images="a.jpg")


@given(
    st.lists(st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.7]), min_size=1, max_size=5), min_size=2), st.data()
)
def test_the_order_of_raters_does_not_break_ties(ratings, data):
    shuffled = [data.draw(st.permutations(some)) for some in ratings]
    scores = range(len(ratings))
    one, other = (rows_of(scores, some, "mean") for some in (ratings, shuffled))
    assert one.ratings.tolist() == other.ratings.tolist()
    np.testing.assert_allclose(one.ratings, [math.fsum(some) / len(some) for some in ratings], rtol=1e-15)


def test_means_by_group():
    assert means_by(np.array([4.0, 1.0, 2.0]), np.array([1, 0, 1])).tolist() == [1.0, 3.0]


def test_many_distinct_ratings_are_summed_up():
    summary = RatingSummary.of(np.arange(101) / 100)
    assert (summary.n_distinct, summary.lowest, summary.highest, summary.counts) == (101, 0.0, 1.0, {})
    assert summary.mean == pytest.approx(0.5)
    assert len(RatingSummary.of(np.arange(100.0)).counts) == 100
