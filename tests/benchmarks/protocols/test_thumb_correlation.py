"""THumB: Pearson's r against NumPy's, systems' means, intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.benchmarks.protocols import thumb
from capscore.errors import InputError

SCORES = [0.10, 0.30, 0.20, 0.60, 0.50, 0.90]
PRECISION = [3, 4, 5, 5, 4, 5]
RECALL = [2, 2, 3, 5, 3, 5]
TOTAL = [2.5, 3.0, 4.0, 5.0, 3.4, 5.0]
SYSTEMS = ["Up-Down", "VinVL-base", "VinVL-base", "Up-Down", "Human", "Human"]


def test_literal_correlations():
    found = thumb(SCORES, PRECISION, RECALL, TOTAL, SYSTEMS)
    # scores less their mean (.30): -.2, 0, -.1, .3; precision (4.25): -1.25, -.25, .75, .75
    # → .4 / √(.14 · 2.75); recall (3): -1, -1, 0, 2 → .8 / √(.14 · 6); total (3.625): → .6 / √(.14 · 3.6875)
    assert [row.n for row in found.statistics] == [4, 4, 4, 6, 6, 6]
    assert found.value("pearson_precision_without_human") == pytest.approx(0.4 / math.sqrt(0.14 * 2.75))
    assert found.value("pearson_recall_without_human") == pytest.approx(0.8 / math.sqrt(0.14 * 6))
    assert found.value("pearson_total_without_human") == pytest.approx(0.6 / math.sqrt(0.14 * 3.6875))
    for name, rating in (("precision", PRECISION), ("recall", RECALL), ("total", TOTAL)):
        expected = np.corrcoef(SCORES, rating)[0, 1]
        assert found.value(f"pearson_{name}_with_human") == pytest.approx(expected)
    assert [row[0] for row in found.table()] == [
        "pearson precision without human",
        "pearson recall without human",
        "pearson total without human",
        "pearson precision with human",
        "pearson recall with human",
        "pearson total with human",
    ]


def test_means_of_systems():
    found = thumb(SCORES, PRECISION, RECALL, TOTAL, SYSTEMS)
    assert found.details["systems"] == {
        "Human": {"n": 2, "score": 0.7, "precision": 4.5, "recall": 4.0, "total": 4.2},
        "Up-Down": {"n": 2, "score": 0.35, "precision": 4.0, "recall": 3.5, "total": 3.75},
        "VinVL-base": {"n": 2, "score": 0.25, "precision": 4.5, "recall": 2.5, "total": 3.5},
    }
    assert found.counts == {"captions": 6, "human captions": 2, "systems": 3, "left out": 0}


def test_what_is_constant_has_no_correlation():
    found = thumb([0.5] * 4, [5, 5, 5, 5], [1, 2, 3, 4], [1, 2, 3, 4], ["A", "A", "B", "B"], bootstrap=100)
    assert [value for _, value, _ in found.table()] == [None] * 6
    varied = thumb([0.1, 0.2, 0.3, 0.4], [5, 5, 5, 5], [1, 2, 3, 4], [1, 2, 3, 4], ["A", "A", "B", "B"])
    assert varied.value("pearson_recall_with_human") == pytest.approx(1)


def test_one_image_makes_no_interval():
    found = thumb([0.1, 0.2], [4, 5], [4, 5], [4, 5], ["A", "Human"], images=["x", "x"], bootstrap=50)
    assert [row.interval for row in found.statistics] == [None] * 6


def test_only_human_captions():
    found = thumb([0.1, 0.2], [4, 5], [4, 5], [4, 5], ["Human", "Human"])
    assert found.statistics[2] == ("pearson_total_without_human", None, None, 0)
    assert found.value("pearson_total_with_human") == pytest.approx(1)


def test_missing_scores():
    scores = [math.nan, *SCORES[1:]]
    with pytest.raises(InputError, match=r"^row 0, scores: "):
        thumb(scores, PRECISION, RECALL, TOTAL, SYSTEMS)
    found = thumb(scores, PRECISION, RECALL, TOTAL, SYSTEMS, missing="skip")
    assert [row.n for row in found.statistics] == [3, 3, 3, 5, 5, 5]
    assert found.counts["left out"] == 1
    assert found.details["systems"]["Up-Down"] == {
        "n": 1,
        "score": 0.6,
        "precision": 5.0,
        "recall": 5.0,
        "total": 5.0,
    }
    nobody = thumb([None, None], [1, 2], [1, 2], [1, 2], ["A", "B"], missing="skip", bootstrap=10)
    assert nobody.details["systems"] == {}
    assert nobody.value("pearson_total_with_human") is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"precision": [3, 4, None, 5, 4, 5]}, r"^row 2, precision: "),
        ({"recall": RECALL[:5]}, r"^recall: "),
        ({"systems": SYSTEMS[:5]}, r"^systems: "),
        ({"images": ["a"]}, r"^images: "),
    ],
)
def test_what_is_wrong_is_named(change, message):
    columns = {
        "scores": SCORES,
        "precision": PRECISION,
        "recall": RECALL,
        "total": TOTAL,
        "systems": SYSTEMS,
    }
    with pytest.raises(InputError, match=message):
        thumb(**{**columns, **change})


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9),
            st.integers(1, 5),
            st.integers(1, 5),
            st.integers(1, 5),
            st.sampled_from(["Human", "A", "B"]),
            st.sampled_from(["x", "y", "z"]),
        ),
        min_size=1,
        max_size=12,
    ),
    st.randoms(),
)
def test_order_does_not_matter(rows, random):
    def run(rows):
        *columns, images = zip(*rows, strict=True)
        by_image = thumb(*columns, images=images, bootstrap=20)
        by_caption = thumb(*columns, bootstrap=20)
        return by_image, by_caption

    for found, shuffled in zip(run(rows), run(random.sample(rows, len(rows))), strict=True):
        assert shuffled.details["systems"] == found.details["systems"]
        for one, other in zip(found.statistics, shuffled.statistics, strict=True):
            assert one.n == other.n
            assert (one.value is None) == (other.value is None)
            if one.value is not None:
                assert one.value == pytest.approx(other.value)


def test_intervals_by_image():
    rng = np.random.default_rng(1)
    n = 400
    quality = rng.standard_normal(n)
    scores = quality + rng.standard_normal(n)  # r = 1 / √2
    systems = ["A", "Human"] * (n // 2)
    found = thumb(scores, quality, quality, quality, systems, images=np.arange(n) // 2, bootstrap=1000)
    for row in (found.statistics[2], found.statistics[5]):
        # Fisher's z: atanh(r) ± 1.96 / √(n − 3)
        low, high = np.tanh(np.arctanh(row.value) + np.array([-1, 1]) * 1.96 / math.sqrt(row.n - 3))
        assert row.interval == pytest.approx((low, high), abs=0.03)
