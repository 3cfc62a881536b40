"""Agreement with people: values, counts, intervals by image, paired tests."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from capscore.errors import InputError
from capscore.options import Sampling
from capscore.statistics.agreement import agreement, compare
from capscore.statistics.bootstrap import multiplicities
from capscore.statistics.correlation import STATISTICS

from .test_correlation import scipys

NAN = math.nan


def made_up(n_images=12, seed=0):
    """Scores of two metrics, ratings and image ids, 2 or 3 items an image, in the order of the images."""
    rng = np.random.default_rng(seed)
    images = np.repeat([f"photo{number:02d}.jpg" for number in range(n_images)], rng.integers(2, 4, n_images))
    quality = rng.normal(size=len(images))
    ratings = np.clip(np.round(quality[:, None] + 0.7 * rng.normal(size=(len(images), 3)) + 2), 1, 4)
    good, poor = (np.round(quality + noise * rng.normal(size=len(images)), 1) for noise in (0.5, 2.0))
    return good, poor, ratings, images


def rows_drawn(images, seed, n):
    names = sorted(set(images))
    for times in multiplicities(np.random.default_rng(seed), len(names), n).T:
        yield np.repeat(np.arange(len(images)), times[np.searchsorted(names, images)])


def test_flattened_and_mean_ratings_are_different_numbers():
    scores, ratings = [0.9, 0.4, 0.7, 0.1], [[4, 4, 3], [2, 3, 1], [2, 4, 4], [1, 1, 1]]
    flat = agreement(scores, ratings, raters="flatten")
    for name in STATISTICS:
        expected = scipys(name, np.repeat(scores, 3), np.ravel(ratings))
        assert flat.values[name] == pytest.approx(expected, abs=1e-12)
    mean = agreement(scores, ratings, raters="mean", statistics="tau_b")
    assert mean.values == {"tau_b": 1.0}  # means 11/3, 2, 10/3, 1: in the order of the scores
    assert (flat.n_items, flat.n_rows, flat.n_ratings) == (4, 12, 12)
    assert (mean.n_items, mean.n_rows, mean.n_ratings) == (4, 4, 12)
    # the order of raters makes no difference of a tie
    tied = agreement([1, 2, 3], [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [1, 1, 1]], raters="mean")
    assert tied.values["tau_b"] == pytest.approx(2 / math.sqrt(3 * 2), abs=1e-12)
    for raters in (None, "median"):
        with pytest.raises(InputError, match="raters="):
            agreement(scores, ratings, raters=raters)


ratings_of_an_item = st.lists(st.integers(1, 4), min_size=1, max_size=4)
items_of_photos = st.tuples(st.integers(0, 5), ratings_of_an_item, st.integers(0, 3))


@settings(max_examples=20)
@given(st.lists(items_of_photos, min_size=2, max_size=25), st.sampled_from(["flatten", "mean"]), st.data())
def test_any_order_of_items_and_raters_gives_the_same(items, raters, data):
    def run(items):
        scores, ratings, images = zip(*items, strict=True)
        sampling = Sampling(5 * (len(set(images)) > 1))
        found = agreement(scores, ratings, raters=raters, images=images, sampling=sampling)
        ends = [(part.low, part.high, part.n_undefined) for part in found.intervals.values() if part]
        return found.n_ratings, [*found.values.values()], [number for end in ends for number in end]

    shuffled = [(score, given[::-1], image) for score, given, image in data.draw(st.permutations(items))]
    for one, other in zip(run(items), run(shuffled), strict=True):
        assert other == pytest.approx(one, abs=1e-12)


def test_missing_values_stop_or_are_left_out_with_a_note():
    scores, ratings = [0.1, NAN, 0.3, 0.4, 0.2], [[1, 1], [2, 2], [3, NAN], [NAN, NAN], [3, 2]]
    for items, row, field in (
        ((scores, ratings), 1, "scores"),
        ((scores[2:], ratings[2:]), 0, "ratings"),
        (([1, 2], [[1, 2], [1, "x"]]), 1, "ratings"),
    ):
        with pytest.raises(InputError) as caught:
            agreement(*items, raters="mean")
        assert (caught.value.row, caught.value.field) == (row, field)
    found = agreement(scores, ratings, raters="flatten", missing="skip")
    expected = stats.kendalltau([0.1, 0.1, 0.3, 0.2, 0.2], [1, 1, 3, 3, 2]).statistic
    assert found.values["tau_b"] == pytest.approx(expected, abs=1e-12)
    assert (found.n_items, found.n_ratings) == (3, 5)
    scores_out, ratings_out, others = found.notes
    assert scores_out == "1 of 5 items left out: scores missing"
    assert ratings_out == "1 of 5 items left out: ratings missing" and others.startswith("1 missing ratings")
    with pytest.raises(InputError, match="at least 2 items"):
        agreement([1, NAN], [1, 2], missing="skip")


def test_intervals_are_those_of_images_drawn_and_written_out():
    good, _, ratings, images = made_up()
    found = agreement(good, ratings, raters="flatten", images=images, sampling=Sampling(60, 0.9, 4))
    drawn = [*rows_drawn(images, 4, 60)]
    for name in STATISTICS:
        samples = [scipys(name, np.repeat(good[rows], 3), ratings[rows].ravel()) for rows in drawn]
        interval, ends = found.intervals[name], tuple(np.percentile(samples, [5, 95]))
        assert (interval.low, interval.high) == pytest.approx(ends, abs=1e-12)
        assert (interval.confidence, interval.n_samples) == (0.9, 60)
    assert found.n_images == 12


def test_constant_scores_and_undefined_samples_are_left_out_and_counted():
    equal = compare(([1, 2, 3], [5, 5, 5]), [1, 2, 3], sampling=Sampling(50))
    assert (equal.first, equal.second, equal.difference, equal.p_value, equal.interval) == (1.0, *[None] * 4)
    assert equal.n_samples == 0
    # Two images: half of the samples are one image twice, in which the ratings are constant.
    found = agreement([1, 2, 3, 4], [1, 1, 2, 2], images=["a", "a", "b", "b"], sampling=Sampling(400))
    n_undefined = int((multiplicities(np.random.default_rng(0), 2, 400) == 2).any(axis=0).sum())
    interval = found.intervals["tau_b"]
    assert 150 < n_undefined < 250
    assert (interval.n_samples, interval.n_undefined) == (400 - n_undefined, n_undefined)
    assert interval.low == interval.high == pytest.approx(found.values["tau_b"])


@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_paired_bootstrap_written_out(statistic):
    good, poor, ratings, images = made_up()
    options = {"images": images, "statistic": statistic, "sampling": Sampling(60, seed=2)}
    people = ratings[:, 0]

    def difference(first, second, people=people):
        return scipys(statistic, first, people) - scipys(statistic, second, people)

    observed = difference(good, poor)
    found = compare((good, poor), people, **options)
    differences = [difference(good[rows], poor[rows], people[rows]) for rows in rows_drawn(images, 2, 60)]
    ends = tuple(np.percentile(differences, [2.5, 97.5]))
    as_far = sum(abs(some - np.mean(differences)) >= abs(observed) for some in differences)
    assert found.difference == pytest.approx(observed, abs=1e-12)
    assert (found.interval.low, found.interval.high) == pytest.approx(ends, abs=1e-12)
    assert found.p_value == pytest.approx((1 + as_far) / 61)


def test_a_better_metric_is_found_and_none_is_better_than_itself():
    good, poor, ratings, images = made_up(n_images=60, seed=1)
    options = {"raters": "flatten", "images": images, "statistic": "tau_c", "sampling": Sampling(300)}
    pairs = (good, poor), (poor, good), (good, good)
    better, worse, same = (compare(pair, ratings, **options) for pair in pairs)
    assert better.difference > 0.2 and better.p_value == pytest.approx(1 / 301)
    assert worse.difference == pytest.approx(-better.difference, abs=1e-12)
    assert (worse.p_value, worse.first, worse.second) == (better.p_value, better.second, better.first)
    assert worse.interval.high == pytest.approx(-better.interval.low, abs=1e-12)
    assert (same.difference, same.p_value) == (0.0, 1.0)
    assert better.interval.low > 0 == same.interval.low == same.interval.high


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistic": "tau"}, "expected some of tau_b"),
        ({"sampling": Sampling(0)}, "bootstrap=0: expected a whole number of at least 1"),
        ({"scores": ([1, 2], [1, NAN])}, "row 1, second_scores: "),
        ({"images": ["a", "a"]}, "at least 2 images"),
    ],
)
def test_comparisons_that_make_no_sense(options, message):
    with pytest.raises(InputError, match=message):
        compare(**{"scores": ([1, 2], [1, 2]), "ratings": [1, 2], **options})


def test_an_item_without_either_score_is_out_for_both():
    scores = [1, NAN, 3, 4, 9], [2, 2, NAN, 1, 7]
    found = compare(scores, [1, 2, 3, 4, 5], sampling=Sampling(20), missing="skip", statistic="pearson")
    for name in ("first", "second"):
        assert f"1 of 5 items left out: {name} scores missing" in found.notes
    assert found.n_items == 3
    assert found.first == pytest.approx(stats.pearsonr([1, 4, 9], [1, 4, 5]).statistic, abs=1e-12)
    assert found.second == pytest.approx(stats.pearsonr([2, 1, 7], [1, 4, 5]).statistic, abs=1e-12)
