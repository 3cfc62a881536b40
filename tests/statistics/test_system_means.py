"""Means of systems on the same rows: differences, intervals, p-values, corrected."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.errors import InputError
from capscore.statistics.bootstrap import holm, multiplicities
from capscore.statistics.system_means import compare_means, compare_means_by_language

PHOTOS = ["1", "1", "2", "3", "4", "5", "6"]
SMALL = [0.50, 0.54, 0.61, 0.40, 0.58, 0.52, 0.49]
LARGE = [0.55, 0.59, 0.65, 0.48, 0.56, 0.57, 0.50]


def enumerated(first, second, photos):
    """The p-value of swapping photos, by hand: every way is tried, row by row."""
    names = sorted(set(photos))
    observed = sum(second) / len(second) - sum(first) / len(first)
    as_far = 0
    for ways in itertools.product((False, True), repeat=len(names)):
        swapped = dict(zip(names, ways, strict=True))
        one = [b if swapped[p] else a for a, b, p in zip(first, second, photos, strict=True)]
        two = [a if swapped[p] else b for a, b, p in zip(first, second, photos, strict=True)]
        as_far += abs(sum(two) / len(two) - sum(one) / len(one)) >= abs(observed) - 1e-12
    return as_far / 2 ** len(names)


def test_few_photos_are_swapped_in_every_way():
    found = compare_means({"small": SMALL, "large": LARGE}, images=PHOTOS)
    (large,) = found.differences
    # differences per photo .10 .04 .08 −.02 .05 .01, summed over 7 rows
    assert large.difference == pytest.approx(0.26 / 7, abs=1e-12)
    assert found.means["small"] == pytest.approx(3.64 / 7, abs=1e-12)
    # as far as .26 are the observed signs, those with photo 6 (.24, no) …: signs whose sum is at least .26
    # in size: all as observed; with photo 4 positive .30; with photo 4 positive and 6 negative .28; and
    # the three mirrored ones: 6 of 64
    assert found.exact and large.p_randomisation == pytest.approx(6 / 64, abs=1e-12)
    assert large.p_randomisation == pytest.approx(enumerated(SMALL, LARGE, PHOTOS), abs=1e-12)
    assert (found.n_rows, found.n_images, found.resampled_by) == (7, 6, "image")


def test_the_exact_p_value_is_that_of_scipy():
    rng = np.random.default_rng(5)
    first, second = rng.random(9), rng.random(9) + 0.15
    found = compare_means({"a": first, "b": second}, images=range(9), n=600)
    expected = scipy.stats.permutation_test(
        (second, first), lambda x, y: np.mean(x) - np.mean(y), permutation_type="samples", n_resamples=np.inf
    )
    assert found.exact
    assert found.differences[0].p_randomisation == pytest.approx(expected.pvalue, abs=1e-12)


def test_many_photos_are_sampled_and_agree_with_scipy():
    rng = np.random.default_rng(8)
    first = rng.normal(0.5, 0.2, 80)
    second = first + rng.normal(0.03, 0.1, 80)
    found = compare_means({"a": first, "b": second}, images=range(80), n=20_000, seed=1)
    (b,) = found.differences
    assert not found.exact
    expected = scipy.stats.bootstrap(
        (second - first,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2)
    )
    # an end of the interval varies by about .0003 between seeds
    assert b.interval.low == pytest.approx(expected.confidence_interval.low, abs=0.002)
    assert b.interval.high == pytest.approx(expected.confidence_interval.high, abs=0.002)
    swapped = scipy.stats.permutation_test(
        (second, first),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        rng=np.random.default_rng(3),
    )
    assert b.p_randomisation == pytest.approx(swapped.pvalue, abs=0.005)
    # a mean of 80 draws is nearly normal, with this standard error
    error = np.std(second - first) / math.sqrt(80)
    assert b.p_bootstrap == pytest.approx(2 * scipy.stats.norm.sf(abs(b.difference) / error), abs=0.01)


def test_photos_are_drawn_and_not_rows():
    rng = np.random.default_rng(2)
    first, second = rng.random(60), rng.random(60) + 0.1
    once = compare_means({"a": first, "b": second}, images=range(60), n=500)
    thrice = compare_means(
        {"a": np.repeat(first, 3), "b": np.repeat(second, 3)}, images=np.repeat(range(60), 3), n=500
    )
    for one, three in zip(once.differences, thrice.differences, strict=True):
        assert three.difference == pytest.approx(one.difference, abs=1e-12)
        assert three.interval.low == pytest.approx(one.interval.low, abs=1e-12)
        assert (three.p_bootstrap, three.p_randomisation) == (one.p_bootstrap, one.p_randomisation)
    by_row = compare_means({"a": np.repeat(first, 3), "b": np.repeat(second, 3)}, n=500)
    ends = by_row.differences[0].interval
    assert ends.high - ends.low < 0.8 * (once.differences[0].interval.high - once.differences[0].interval.low)


def test_photos_with_many_rows_weigh_more_in_a_sample():
    photos = np.array([0, 0, 0, 0, 1, 2, 2, 3, 4, 5])
    first, second = np.random.default_rng(9).random((2, 10))
    found = compare_means({"a": first, "b": second}, images=photos, n=200, seed=3).differences[0]
    # the same draws of photos, with their rows written out
    means = []
    for times in multiplicities(np.random.default_rng(3), 6, 200).T:
        rows = [
            row for photo, count in enumerate(times) for row in [*np.flatnonzero(photos == photo)] * count
        ]
        means.append(np.mean(second[rows]) - np.mean(first[rows]))
    low, high = np.quantile(means, [0.025, 0.975])
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), abs=1e-9)
    observed = np.mean(second) - np.mean(first)
    as_far = sum(abs(mean - np.mean(means)) >= abs(observed) - 1e-12 for mean in means)
    assert found.p_bootstrap == pytest.approx((1 + as_far) / 201, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefgh"), st.floats(-5, 5), st.floats(-5, 5)), min_size=2, max_size=30
    ).filter(lambda rows: len({row[0] for row in rows}) > 1),
    st.randoms(use_true_random=False),
)
def test_the_order_of_rows_does_not_matter_and_equal_systems_do_not_differ(rows, random):
    def compared(rows):
        photos, first, second = map(list, zip(*rows, strict=True))
        return compare_means({"a": first, "b": second, "a again": first}, images=photos, n=100)

    one, again = compared(rows), compared(random.sample(rows, len(rows)))
    for left, right in zip(one.differences, again.differences, strict=True):
        assert left.difference == pytest.approx(right.difference, abs=1e-9)
        assert left.interval.high == pytest.approx(right.interval.high, abs=1e-9)
    same = one.differences[1]
    assert (same.difference, same.p_bootstrap, same.p_randomisation) == (0.0, 1.0, 1.0)
    assert same.interval.low == same.interval.high == 0.0


def test_wrong_findings_are_as_rare_as_promised():
    rng = np.random.default_rng(11)
    p_values = []
    for trial in range(200):
        first, second = rng.random((2, 40))
        (b,) = compare_means({"a": first, "b": second}, images=range(40), n=200, seed=trial).differences
        p_values.append((b.p_bootstrap, b.p_randomisation))
    shares = (np.array(p_values) < 0.05).mean(axis=0)
    # 5 % of 200, within 4 standard errors of 1.5 %
    assert (shares < 0.115).all() and (shares > 0).all()


def test_holm_multiplies_the_smallest_most():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_several_systems_are_corrected_for():
    rng = np.random.default_rng(4)
    base = rng.random(50)
    systems = {"base": base, **{f"s{k}": base + rng.normal(0.01 * k, 0.1, 50) for k in range(4)}}
    found = compare_means(systems, images=range(50), n=999)
    raw = [one.p_randomisation for one in found.differences]
    assert [one.p_randomisation_holm for one in found.differences] == pytest.approx(holm(raw))
    assert min(one.p_bootstrap_holm for one in found.differences) == pytest.approx(
        4 * min(one.p_bootstrap for one in found.differences)
    )
    other = compare_means(systems, images=range(50), n=999, baseline="s2")
    assert [one.system for one in other.differences] == ["base", "s0", "s1", "s3"]
    assert other.differences[0].difference == pytest.approx(-found.differences[2].difference)


def test_without_samples_or_with_one_system_there_are_means_alone():
    found = compare_means({"a": SMALL, "b": LARGE}, images=PHOTOS, n=0)
    (b,) = found.differences
    assert (
        b.difference == pytest.approx(0.26 / 7) and b.interval is b.p_bootstrap is b.p_randomisation is None
    )
    assert compare_means({"a": SMALL}).differences == ()


def test_each_language_is_compared_by_itself():
    languages = ["de", "en"] * 4
    first, second = [0.0] * 8, [1.0, 3.0] * 4
    whole, german, english = compare_means_by_language(
        {"a": first, "b": second}, languages, images=[0, 0, 1, 1, 2, 2, 3, 3], n=50
    )
    assert [one.rows for one in (whole, german, english)] == ["all", "de", "en"]
    assert [one.differences[0].difference for one in (whole, german, english)] == [2.0, 1.0, 3.0]
    # four photos with the same sign: 2 of 16 ways
    assert german.differences[0].p_randomisation == 2 / 16
    (alone,) = compare_means_by_language({"a": first, "b": second}, ["de"] * 8, n=50)
    assert alone.rows == "all"


def test_a_missing_score_stops_or_leaves_the_row_out():
    systems = {"a": [1.0, 2.0, None, 4.0], "b": [2.0, 3.0, 3.0, math.nan]}
    with pytest.raises(InputError, match="row 2, a: "):
        compare_means(systems)
    found = compare_means(systems, missing="skip", n=50)
    assert (found.n_rows, found.n_left_out, found.means) == (2, 2, {"a": 1.5, "b": 2.5})
    whole, *rest = compare_means_by_language(systems, ["de", "en", "de", "fr"], missing="skip", n=50)
    assert [one.rows for one in rest] == ["de", "en"] and whole.n_left_out == 2


@pytest.mark.parametrize(
    ("systems", "options", "message"),
    [
        ({"a": [1.0], "b": [1.0, 2.0]}, {}, "1 a, 2 b: expected equally many"),
        ({"a": [], "b": []}, {}, "there are 0 rows"),
        ({"a": [1.0], "b": [1.0]}, {"baseline": "c"}, "baseline='c': expected one of a, b"),
        ({"a": [1.0], "b": ["x"]}, {}, "row 0, b: "),
        ({"a": [1.0], "b": [1.0]}, {"n": -1}, "at least 0"),
        ({"a": [1.0, 2], "b": [1.0, 2]}, {"images": ["x"]}, "2 items, 1 images"),
    ],
)
def test_wrong_arguments_are_named(systems, options, message):
    with pytest.raises(InputError):
        compare_means(systems, **options)
