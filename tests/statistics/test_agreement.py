"""Agreement with people: values, counts, intervals by image, paired tests, systems."""

from __future__ import annotations

import inspect
import json
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from capscore.errors import InputError
from capscore.statistics.agreement import agreement, compare
from capscore.statistics.bootstrap import coin_flips, multiplicities
from capscore.statistics.correlation import STATISTICS

NAN = math.nan


def made_up(n_images=12, seed=0, n_raters=3):
    """Scores of two metrics, ratings and image ids, 2 or 3 items an image, in the order of the images."""
    rng = np.random.default_rng(seed)
    images = np.repeat([f"photo{number:02d}.jpg" for number in range(n_images)], rng.integers(2, 4, n_images))
    quality = rng.normal(size=len(images))
    ratings = np.clip(np.round(quality[:, None] + 0.7 * rng.normal(size=(len(images), n_raters)) + 2), 1, 4)
    good, poor = (np.round(quality + noise * rng.normal(size=len(images)), 1) for noise in (0.5, 2.0))
    return good, poor, ratings, images


# ------------------------------------------------------------------ values and counts


def test_flattened_and_mean_ratings_are_different_numbers():
    scores, ratings = [0.9, 0.4, 0.7, 0.1], [[4, 4, 3], [2, 3, 1], [2, 4, 4], [1, 1, 1]]
    flat = agreement(scores, ratings, raters="flatten", statistics=("tau_b", "tau_c"))
    first, second = np.repeat(scores, 3), np.ravel(ratings)
    assert flat.values["tau_b"] == pytest.approx(stats.kendalltau(first, second).statistic, abs=1e-12)
    assert flat.values["tau_c"] == pytest.approx(
        stats.kendalltau(first, second, variant="c").statistic, abs=1e-12
    )
    mean = agreement(scores, ratings, raters="mean", statistics="tau_b")
    assert mean.values == {"tau_b": 1.0}  # means 11/3, 2, 10/3, 1: in the order of the scores
    assert (flat.n_items, flat.n_rows, flat.n_ratings) == (4, 12, 12)
    assert (mean.n_items, mean.n_rows, mean.n_ratings) == (4, 4, 12)


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 3)),
        min_size=2,
        max_size=25,
    ),
    st.sampled_from(["flatten", "mean"]),
    st.data(),
)
def test_any_order_of_items_and_raters_gives_the_same(items, raters, data):
    order = data.draw(st.permutations(range(len(items))))

    def run(items):
        scores, ratings, images = zip(*items, strict=True)
        several = len(set(images)) > 1
        return agreement(scores, ratings, raters=raters, images=images, bootstrap=5 if several else 0)

    straight = run(items)
    shuffled = run([(items[row][0], items[row][1][::-1], items[row][2]) for row in order])
    assert shuffled.n_ratings == straight.n_ratings
    for name in STATISTICS:
        assert shuffled.values[name] == pytest.approx(straight.values[name], abs=1e-12)
        ends = [
            None if interval is None else (interval.low, interval.high, interval.n_undefined)
            for interval in (some.intervals.get(name) for some in (shuffled, straight))
        ]
        assert ends[0] == pytest.approx(ends[1], abs=1e-12)


def test_constant_scores_or_ratings_are_undefined_in_words():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat = agreement([0.5, 0.5, 0.5], [1, 2, 3], bootstrap=50)
        assert flat.values == dict.fromkeys(STATISTICS)
        assert flat.intervals == dict.fromkeys(STATISTICS)
        equal = compare([1, 2, 3], [5, 5, 5], [1, 2, 3], n=50)
    assert (equal.first, equal.second, equal.difference, equal.p_value, equal.interval) == (1.0, *[None] * 4)
    assert equal.n_samples == 0


def test_what_is_missing_is_left_out_and_said():
    with pytest.raises(InputError, match="row 1, scores: "):
        agreement([0.1, NAN, 0.3, 0.4], [1, 2, 3, NAN])
    found = agreement([0.1, NAN, 0.3, 0.4, 0.2], [1, 2, 3, NAN, 3], missing="skip")
    assert found.values["tau_b"] == pytest.approx(
        stats.kendalltau([0.1, 0.3, 0.2], [1, 3, 3]).statistic, abs=1e-12
    )
    assert found.n_items == 3
    assert found.notes == (
        "1 of 5 items left out: scores missing",
        "1 of 5 items left out: ratings missing",
    )


def test_results_are_ready_for_json():
    good, poor, ratings, images = made_up()
    found = agreement(good, ratings, raters="flatten", images=images, bootstrap=50)
    tested = compare(good, poor, ratings, raters="mean", images=images, n=50)
    swapped = compare(good, poor, ratings, raters="mean", n=50, method="randomisation")
    for result in (found, tested, swapped):
        plain = result.to_dict()
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
        public = {name for name in vars(result) if not name.startswith("_")}
        assert set(plain) == public
    assert found.to_dict()["intervals"]["tau_c"]["n_samples"] == 50


# ------------------------------------------------------------------ intervals


def test_intervals_are_those_of_images_drawn_and_written_out():
    good, _, ratings, images = made_up()
    found = agreement(good, ratings, raters="flatten", images=images, bootstrap=60, seed=4, confidence=0.9)
    names = sorted(set(images))
    drawn = multiplicities(np.random.default_rng(4), len(names), 60)
    samples = {name: [] for name in STATISTICS}
    for times in drawn.T:
        rows = [
            row
            for name, count in zip(names, times, strict=True)
            for row in count * list(np.flatnonzero(images == name))
        ]
        x, y = np.repeat(good[rows], 3), ratings[rows].ravel()
        samples["tau_b"].append(stats.kendalltau(x, y).statistic)
        samples["tau_c"].append(stats.kendalltau(x, y, variant="c").statistic)
        samples["spearman"].append(stats.spearmanr(x, y).statistic)
        samples["pearson"].append(stats.pearsonr(x, y).statistic)
    for name in STATISTICS:
        low, high = np.percentile(samples[name], [5, 95])
        assert found.intervals[name].low == pytest.approx(low, abs=1e-12)
        assert found.intervals[name].high == pytest.approx(high, abs=1e-12)
        assert (found.intervals[name].confidence, found.intervals[name].n_samples) == (0.9, 60)
    assert found.n_images == 12


def test_the_default_seed_is_part_of_published_intervals():
    for function in (agreement, compare):
        assert inspect.signature(function).parameters["seed"].default == 0


def test_same_seed_same_interval():
    good, _, ratings, images = made_up()
    runs = [
        agreement(good, ratings, raters="mean", images=images, bootstrap=50, seed=seed, statistics="tau_b")
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1]
    assert runs[0].intervals != runs[2].intervals


def test_items_that_share_an_image_make_intervals_wider():
    # every item three times over, under one image: by item the interval is too narrow by about √3
    rng = np.random.default_rng(0)
    scores = np.repeat(rng.random(60), 3)
    ratings = np.repeat(rng.integers(1, 5, 60), 3)
    options = {"bootstrap": 300, "statistics": "spearman"}
    by_image = agreement(scores, ratings, images=np.repeat(np.arange(60), 3), **options)
    by_item = agreement(scores, ratings, **options)
    width = [some.intervals["spearman"].high - some.intervals["spearman"].low for some in (by_image, by_item)]
    assert 1.4 < width[0] / width[1] < 2.1
    assert by_item.n_images is None and "resampled by item" in by_item.notes[-1]


def test_undefined_samples_are_left_out_and_counted():
    # Two images: half of the samples are one image twice, in which the ratings are constant.
    found = agreement([1, 2, 3, 4], [1, 1, 2, 2], images=["a", "a", "b", "b"], bootstrap=400)
    drawn = multiplicities(np.random.default_rng(0), 2, 400)
    n_undefined = int((drawn == 2).any(axis=0).sum())
    assert 150 < n_undefined < 250
    interval = found.intervals["tau_b"]
    assert (interval.n_samples, interval.n_undefined) == (400 - n_undefined, n_undefined)
    assert interval.low == interval.high == pytest.approx(found.values["tau_b"])


def test_what_no_interval_can_be_made_of():
    with pytest.raises(InputError, match="at least 2 images"):
        agreement([1, 2, 3], [1, 2, 3], images=["a", "a", "a"], bootstrap=10)
    with pytest.raises(InputError, match="at least 2 images"):
        compare([1, 2], [2, 1], [1, 2], images=["a", "a"], method="randomisation")
    with pytest.raises(InputError, match="bootstrap=-5: expected a whole number of at least 0"):
        agreement([1, 2], [1, 2], bootstrap=-5)
    assert agreement([1, 2, 3], [1, 2, 3]).intervals == {}


# ------------------------------------------------------------------ two metrics


def explicit(statistic, first, second, ratings):
    function = {
        "tau_b": lambda x: stats.kendalltau(x, ratings).statistic,
        "tau_c": lambda x: stats.kendalltau(x, ratings, variant="c").statistic,
        "spearman": lambda x: stats.spearmanr(x, ratings).statistic,
        "pearson": lambda x: stats.pearsonr(x, ratings).statistic,
    }[statistic]
    return function(first) - function(second)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_bootstrap_of_a_difference_written_out(statistic):
    good, poor, ratings, images = made_up()
    ratings = ratings[:, 0]
    found = compare(good, poor, ratings, images=images, statistic=statistic, n=60, seed=2)
    observed = explicit(statistic, good, poor, ratings)
    names = sorted(set(images))
    differences = []
    for times in multiplicities(np.random.default_rng(2), len(names), 60).T:
        rows = np.repeat(np.arange(len(good)), times[np.searchsorted(names, images)])
        differences.append(explicit(statistic, good[rows], poor[rows], ratings[rows]))
    assert found.difference == pytest.approx(observed, abs=1e-12)
    low, high = np.percentile(differences, [2.5, 97.5])
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), abs=1e-12)
    as_far = sum(abs(some - np.mean(differences)) >= abs(observed) for some in differences)
    assert found.p_value == pytest.approx((1 + as_far) / 61)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_randomisation_written_out(statistic):
    good, poor, ratings, images = made_up()
    ratings = ratings[:, 0]
    # another scale changes nothing: metrics are brought to a common one
    found = compare(
        1e200 * (100 + 40 * good),
        poor,
        ratings,
        images=images,
        statistic=statistic,
        method="randomisation",
        n=60,
        seed=2,
    )
    scale = stats.zscore if statistic == "pearson" else stats.rankdata
    first, second = scale(good), scale(poor)
    observed = explicit(statistic, good, poor, ratings)
    names = sorted(set(images))
    as_far = 0
    for swapped in coin_flips(np.random.default_rng(2), len(names), 60).T:
        swap = swapped[np.searchsorted(names, images)] == 1
        mixed = np.where(swap, second, first), np.where(swap, first, second)
        as_far += abs(explicit(statistic, *mixed, ratings)) >= abs(observed) - 1e-9
    assert found.p_value == pytest.approx((1 + as_far) / 61)
    assert found.difference == pytest.approx(observed, abs=1e-12)
    assert found.interval is None and found.n_samples == 60
    assert 0 < as_far < 60


@pytest.mark.parametrize("method", ["bootstrap", "randomisation"])
def test_a_metric_is_no_better_than_itself(method):
    good, _, ratings, images = made_up()
    found = compare(good, good, ratings, raters="flatten", images=images, method=method, n=100)
    assert (found.difference, found.p_value) == (0.0, 1.0)
    if method == "bootstrap":
        assert (found.interval.low, found.interval.high) == (0.0, 0.0)


@pytest.mark.parametrize("method", ["bootstrap", "randomisation"])
@pytest.mark.parametrize("statistic", ["tau_c", "pearson"])
def test_a_clearly_better_metric_is_found_and_the_sign_turns(method, statistic):
    good, poor, ratings, images = made_up(n_images=60, seed=1)
    options = {"raters": "flatten", "images": images, "statistic": statistic, "method": method, "n": 300}
    better = compare(good, poor, ratings, **options)
    worse = compare(poor, good, ratings, **options)
    assert better.difference > 0.2 and better.p_value == pytest.approx(1 / 301)
    assert worse.difference == pytest.approx(-better.difference, abs=1e-12)
    assert worse.p_value == pytest.approx(better.p_value)
    assert (better.first, better.second) == (worse.second, worse.first)
    if method == "bootstrap":
        assert better.interval.low > 0
        assert worse.interval.high == pytest.approx(-better.interval.low, abs=1e-12)


def test_few_images_cannot_give_a_small_p_value():
    found = compare(
        [1, 2, 3, 4], [4, 3, 2, 1], [1, 2, 3, 4], images=[0, 0, 1, 1], method="randomisation", n=99
    )
    assert found.p_value > 0.3


def test_comparisons_that_make_no_sense():
    with pytest.raises(InputError, match="method='t-test': expected 'bootstrap' or 'randomisation'"):
        compare([1, 2], [1, 2], [1, 2], method="t-test")
    with pytest.raises(InputError, match="expected some of tau_b"):
        compare([1, 2], [1, 2], [1, 2], statistic="tau")
    with pytest.raises(InputError, match="n=0: expected a whole number of at least 1"):
        compare([1, 2], [1, 2], [1, 2], n=0)
    with pytest.raises(InputError, match="row 1, second_scores: "):
        compare([1, 2], [1, NAN], [1, 2])


def test_an_item_without_either_score_is_out_for_both():
    found = compare(
        [1, NAN, 3, 4, 9], [2, 2, NAN, 1, 7], [1, 2, 3, 4, 5], n=20, missing="skip", statistic="pearson"
    )
    assert found.notes[:2] == (
        "1 of 5 items left out: first scores missing",
        "1 of 5 items left out: second scores missing",
    )
    assert found.n_items == 3
    assert found.first == pytest.approx(stats.pearsonr([1, 4, 9], [1, 4, 5]).statistic, abs=1e-12)
    assert found.second == pytest.approx(stats.pearsonr([2, 1, 7], [1, 4, 5]).statistic, abs=1e-12)
