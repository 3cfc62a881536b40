"""Correlation between languages: against NumPy, subsets and by quality."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.benchmarks.protocols import cross_language, quality_subset
from capscore.errors import InputError

SCORES = {"en": [1, 2, 3, 4], "de": [1, 3, 3, 2], "ja": [4, 3, 2, 1]}


def test_literal_correlations():
    found = cross_language(SCORES)
    # en: -1.5, -.5, .5, 1.5; de less 2.25: -1.25, .75, .75, -.25 → 1.5 / √(5 · 2.75)
    r = 1.5 / math.sqrt(5 * 2.75)
    np.testing.assert_allclose(found.details["matrix"], [[1, r, -1], [r, 1, -r], [-1, -r, 1]])
    assert found.details["counts_of"] == [[4] * 3] * 3
    assert found.details["mean"] == pytest.approx(-1 / 3)
    assert [(name, n) for name, _, n in found.table()] == [
        ("pearson en de", 4),
        ("pearson en ja", 4),
        ("pearson de ja", 4),
        ("pearson mean", 3),
    ]
    assert found.counts == {"languages": 3, "pairs": 3, "left out": 0}


def test_two_languages_are_compared_on_what_both_count():
    found = cross_language(SCORES, subset={"de": [True, True, True, False], "ja": [False, True, True, True]})
    assert found.details["counts_of"] == [[4, 3, 3], [3, 3, 2], [3, 2, 3]]
    assert found.details["matrix"][0][1] == pytest.approx(np.corrcoef([1, 2, 3], [1, 3, 3])[0, 1])
    assert math.isnan(found.details["matrix"][1][2])  # two items, on which de is constant
    assert found.details["mean"] is None
    assert found.to_dict()["matrix"][1][2] is None
    cross_language(SCORES, subset={"en": [1, 1, 0, 0], "de": [0, 0, 1, 1]})


def test_missing_scores():
    scores = {**SCORES, "de": [1, None, 3, 2]}
    with pytest.raises(InputError, match=r"^row 1, scores\['de'\]: "):
        cross_language(scores)
    found = cross_language(scores, missing="skip")
    assert found.details["counts_of"] == [[4, 3, 4], [3, 3, 3], [4, 3, 4]]
    # a gap that does not count is nobody's business
    assert cross_language(scores, subset={"de": [1, 0, 1, 1]}).details["n_missing"] == 0


def test_quality_subsets():
    quality = {"de": [0.5, 0.1, 0.4, 0.3, 0.2], "fr": [0.9, 0.9, 0.9, 0.9, 0.1]}
    # the 25th and 75th percentile of de are 0.2 and 0.4
    low, high = quality_subset(quality, below=25), quality_subset(quality, above=75)
    assert low["de"].tolist() == [False, True, False, False, False]
    assert high["de"].tolist() == [True, False, False, False, False]
    assert low["fr"].tolist() == [False, False, False, False, True]
    assert high["fr"].tolist() == [False] * 5
    for settings in ({}, {"below": 25, "above": 75}, {"below": 101}):
        with pytest.raises(InputError, match="expected"):
            quality_subset(quality, **settings)
    with pytest.raises(InputError, match=r"^row 1, quality\['de'\]: "):
        quality_subset({"de": [0.1, None]}, below=25)


@pytest.mark.parametrize(
    ("scores", "settings", "message"),
    [
        ({"en": [1, 2]}, {}, r"^scores: "),
        ([[1, 2], [2, 3]], {}, r"^scores: "),
        ({"en": [1, 2], "de": [1]}, {}, r"^scores\['de'\]: "),
        (
            {"en": [1, 2], "de": [1, 2]},
            {"subset": {"fr": [1, 1]}},
            r"^subset: ",
        ),
        ({"en": [1, 2], "de": [1, 2]}, {"subset": {"de": [1]}}, r"^subset\['de'\]: "),
    ],
)
def test_what_is_wrong_is_named(scores, settings, message):
    with pytest.raises(InputError, match=message):
        cross_language(scores, **settings)


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=2, max_size=12), st.randoms())
def test_agrees_with_numpy_in_any_order(rows, random):
    def run(rows):
        return cross_language(dict(zip(("en", "de", "ja"), zip(*rows, strict=True), strict=True)))

    found, shuffled = run(rows), run(random.sample(rows, len(rows)))
    np.testing.assert_allclose(shuffled.details["matrix"], found.details["matrix"])
    columns = np.array(rows, dtype=float).T
    for a, b in itertools.combinations(range(3), 2):
        if np.ptp(columns[a]) and np.ptp(columns[b]):
            assert found.details["matrix"][a][b] == pytest.approx(
                np.corrcoef(columns[a], columns[b])[0, 1], abs=1e-12
            )
        else:
            assert math.isnan(found.details["matrix"][a][b])


def test_protocols_import_nothing_heavy():
    heavy = ("matplotlib", "scipy", "torch", "pandas", "PIL", "datasets")
    names = f"[name for name in {heavy!r} if name in sys.modules]"
    code = f"import sys, capscore.benchmarks.protocols; print({names})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
