"""Means of systems on the same rows: differences, intervals, p-values, corrected."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.errors import InputError
from capscore.options import Sampling
from capscore.statistics import bootstrap
from capscore.statistics.bootstrap import holm, multiplicities
from capscore.statistics.systems import compare_by_language, compare_figures

PHOTOS = ["1", "1", "2", "3", "4", "5", "6"]
SMALL = [0.50, 0.54, 0.61, 0.40, 0.58, 0.52, 0.49]
LARGE = [0.55, 0.59, 0.65, 0.48, 0.56, 0.57, 0.50]


def test_means_and_differences_by_hand():
    found = compare_figures({"small": SMALL, "large": LARGE}, images=PHOTOS)
    # differences per photo .10 .04 .08 −.02 .05 .01: 6 of the 64 ways to swap are as far from 0
    assert found.differences[0].difference == pytest.approx(0.26 / 7, abs=1e-12)
    assert found.differences[0].p_value == 6 / 64
    assert found.figures["small"] == pytest.approx(3.64 / 7, abs=1e-12)
    assert (found.n_rows, found.n_images, found.resampled_by) == (7, 6, "image")
    assert "6 images are few for a bootstrap" in found.notes[-1]


def test_photos_are_drawn_with_their_rows():
    rng = np.random.default_rng(8)
    first = rng.normal(0.5, 0.2, 80)
    second = first + rng.normal(0.03, 0.1, 80)
    many = Sampling(5_000, seed=1)
    (b,) = compare_figures({"a": first, "b": second}, images=range(80), sampling=many).differences
    how = {"permutation_type": "samples", "n_resamples": 5_000, "rng": np.random.default_rng(3)}
    swapped = scipy.stats.permutation_test((second, first), lambda x, y: np.mean(x - y), **how)
    assert b.p_value == pytest.approx(swapped.pvalue, abs=0.01)
    # every row three times over changes nothing by photo, and makes intervals too narrow by row
    thrice = {"a": np.repeat(first, 3), "b": np.repeat(second, 3)}
    (by_photo,) = compare_figures(thrice, images=np.repeat(range(80), 3), sampling=many).differences
    by_row = compare_figures(thrice, sampling=Sampling(500))
    narrow = by_row.differences[0].interval
    assert by_photo.interval.low == pytest.approx(b.interval.low, abs=1e-12) and by_photo.p_value == b.p_value
    assert narrow.high - narrow.low < 0.8 * (b.interval.high - b.interval.low)
    assert by_row.resampled_by == "row" and "resampled by row" in by_row.notes[-1]


def test_photos_with_many_rows_weigh_more_in_a_sample():
    photos = np.array([0, 0, 0, 0, 1, 2, 2, 3, 4, 5])
    first, second = np.random.default_rng(9).random((2, 10))
    systems = {"a": first, "b": second}
    (found,) = compare_figures(systems, images=photos, sampling=Sampling(200, seed=3)).differences
    means = []
    for times in multiplicities(np.random.default_rng(3), 6, 200).T:
        rows = np.repeat(np.arange(10), times[photos])
        means.append(np.mean(second[rows]) - np.mean(first[rows]))
    ends = tuple(np.quantile(means, [0.025, 0.975]))
    assert (found.interval.low, found.interval.high) == pytest.approx(ends, abs=1e-9)
    assert found.p_value in (np.arange(65) / 64).tolist(), "6 photos are swapped in all 64 ways"


scored_row = st.tuples(st.sampled_from("abcdefgh"), st.floats(-5, 5), st.floats(-5, 5))


@settings(max_examples=15)
@given(st.lists(scored_row, max_size=28), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter_and_equal_systems_do_not_differ(rows, random):
    rows = [("a", 0.5, 1.0), ("b", -1.0, 2.5), *rows]

    def compared(rows):
        photos, first, second = map(list, zip(*rows, strict=True))
        systems = {"a": first, "b": second, "a again": first}
        return compare_figures(systems, images=photos, sampling=Sampling(100)).differences

    (one, same), (other, _) = compared(rows), compared(random.sample(rows, len(rows)))
    assert one.difference == pytest.approx(other.difference, abs=1e-9)
    highest = [part.interval and part.interval.high for part in (one, other)]
    assert highest[0] == pytest.approx(highest[1], abs=1e-9)
    assert (same.difference, same.p_value) == (0.0, 1.0)
    assert same.interval.low == same.interval.high == 0.0


def test_several_systems_are_corrected_for_and_blocks_of_samples_change_nothing(monkeypatch):
    rng = np.random.default_rng(4)
    base = rng.random(50)
    systems = {"base": base, **{f"s{k}": base + rng.normal(0.01 * k, 0.1, 50) for k in range(4)}}
    found = compare_figures(systems, images=range(50), sampling=Sampling(999), baseline="s2").differences
    monkeypatch.setattr(bootstrap, "_BLOCK", 1)
    again = compare_figures(systems, images=range(50), sampling=Sampling(999), baseline="s2").differences
    assert [part.p_value for part in again] == [part.p_value for part in found]
    assert [part.p_value_holm for part in found] == pytest.approx(holm([part.p_value for part in found]))
    assert [part.system for part in found] == ["base", "s0", "s1", "s3"]


def test_without_samples_or_with_one_system_there_are_means_alone():
    (b,) = compare_figures({"a": SMALL, "b": LARGE}, images=PHOTOS, sampling=Sampling(0)).differences
    assert b.difference == pytest.approx(0.26 / 7) and b.interval is b.p_value is None
    assert compare_figures({"a": SMALL}).differences == ()
    one_photo = compare_figures({"a": SMALL, "b": LARGE}, images=["1"] * 7)
    assert one_photo.differences[0].interval is None and "nothing to resample" in one_photo.notes[0]


def test_each_language_is_compared_by_itself():
    languages, systems = ["de", "en"] * 4, {"a": [0.0] * 8, "b": [1.0, 3.0] * 4}
    parts = compare_by_language(systems, languages, images=[0, 0, 1, 1, 2, 2, 3, 3], sampling=Sampling(50))
    assert [part.rows for part in parts] == ["all", "de", "en"]
    assert [part.differences[0].difference for part in parts] == [2.0, 1.0, 3.0]
    (alone,) = compare_by_language(systems, ["de"] * 8, sampling=Sampling(50))
    assert alone.rows == "all"


def test_a_missing_score_stops_or_leaves_the_row_out():
    systems = {"a": [1.0, 2.0, None, 4.0], "b": [2.0, 3.0, 3.0, math.nan]}
    with pytest.raises(InputError, match="row 2, a: "):
        compare_figures(systems)
    found = compare_figures(systems, missing="skip", sampling=Sampling(50))
    assert (found.n_rows, found.n_left_out, found.figures) == (2, 2, {"a": 1.5, "b": 2.5})
    languages = ["de", "en", "de", "fr"]
    whole, *rest = compare_by_language(systems, languages, missing="skip", sampling=Sampling(50))
    assert [part.rows for part in rest] == ["de", "en"] and whole.n_left_out == 2


@pytest.mark.parametrize(
    ("systems", "options"),
    [
        ({"a": [1.0], "b": [1.0, 2.0]}, {}),
        ({"a": [], "b": []}, {}),
        ({"a": [1.0], "b": [1.0]}, {"baseline": "c"}),
        ({"a": [1.0], "b": ["x"]}, {}),
        ({"a": [1.0, 2], "b": [1.0, 2]}, {"images": ["x"]}),
    ],
)
def test_wrong_arguments_are_refused(systems, options):
    with pytest.raises(InputError):
        compare_figures(systems, **options)
