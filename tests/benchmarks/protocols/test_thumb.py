"""THumB: Pearson's r against NumPy's."""

import math

import numpy as np
import pytest

from capscore.benchmarks.protocols import thumb

SCORES = [0.10, 0.30, 0.20, 0.60, 0.50, 0.90]


def rated(*ratings):
    return dict(zip(("precision", "recall", "total"), ratings, strict=True))


RATINGS = rated([3, 4, 5, 5, 4, 5], [2, 2, 3, 5, 3, 5], [2.5, 3.0, 4.0, 5.0, 3.4, 5.0])
SYSTEMS = ["Up-Down", "VinVL-base", "VinVL-base", "Up-Down", "Human", "Human"]


def test_literal_correlations():
    found = thumb(SCORES, RATINGS, SYSTEMS)
    # scores less their mean (.30): -.2, 0, -.1, .3; precision (4.25): -1.25, -.25, .75, .75
    # → .4 / √(.14 · 2.75); recall (3): -1, -1, 0, 2 → .8 / √(.14 · 6); total (3.625): → .6 / √(.14 · 3.6875)
    expected = [0.4 / math.sqrt(0.14 * 2.75), 0.8 / math.sqrt(0.14 * 6), 0.6 / math.sqrt(0.14 * 3.6875)]
    expected += [np.corrcoef(SCORES, rating)[0, 1] for rating in RATINGS.values()]
    subsets = ("without human", "with human")
    names = [f"pearson {name} {subset}" for subset in subsets for name in RATINGS]
    assert [row[0] for row in found.table()] == names
    assert [row.value for row in found.statistics] == pytest.approx(expected)
    assert [row.n for row in found.statistics] == [4, 4, 4, 6, 6, 6]
    assert found.counts == {"captions": 6, "human captions": 2, "systems": 3, "left out": 0}


def test_without_captions_of_systems_or_of_people_there_is_no_correlation():
    human = thumb([0.1, 0.2], rated([4, 5], [4, 5], [4, 5]), ["Human", "Human"])
    assert human.statistics[2] == ("pearson_total_without_human", None, None, 0)
    assert human.value("pearson_total_with_human") == pytest.approx(1)
    nobody = thumb([None, None], rated([1, 2], [1, 2], [1, 2]), ["A", "B"], missing="skip")
    assert nobody.counts["systems"] == 0 and nobody.value("pearson_total_with_human") is None
    assert any("no caption is by the system 'Human'" in note for note in nobody.notes)
