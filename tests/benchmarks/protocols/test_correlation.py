"""Statistics of ratings: those of THumB against NumPy, those of DetailCaps against SciPy."""

import math

import numpy as np
import pytest
from scipy import stats

from capscore.benchmarks.protocols import detailcaps, thumb

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
    names = [f"pearson {name} {subset}" for subset in ("without human", "with human") for name in RATINGS]
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


OF_CAPTIONS = [0.2, 0.5, 0.9, 0.4, 0.1, 0.3, 0.7, 0.7, 0.6]
GRADES = [1, 3, 5, 2, 2, 4, 3, 3, 3]
PHOTOS = ["a", "a", "a", "b", "b", "b", "c", "c", "c"]


def test_literal_statistics():
    found = detailcaps(OF_CAPTIONS, GRADES, PHOTOS)
    assert [row[0] for row in found.table()] == ["pearson", "one minus r2", "tau b", "sample tau"]
    # grades / 5; differences 0, -.1, -.1, 0, -.3, -.5, .1, .1, 0 → .38; Σs² − (Σs)² / 9 = 2.7 − 4.4² / 9
    residual, spread = 0.38, 2.7 - 4.4**2 / 9
    scipy = stats.pearsonr(OF_CAPTIONS, GRADES)[0], stats.kendalltau(OF_CAPTIONS, GRADES)[0]
    # photo a agrees in all three pairs; b: .4 > .1 tied, .4 > .3 against, .1 < .3 with → 0; c has one grade
    expected = [scipy[0], residual / spread, scipy[1], 0.5]
    assert [row.value for row in found.statistics] == pytest.approx(expected, abs=1e-12)
    assert [row.n for row in found.statistics] == [9, 9, 9, 2]
    assert found.counts == {"captions": 9, "photos": 3, "left out": 0}
    assert found.notes == ("no τ within 1 photo: all scores or all grades of it are equal",)


def test_sample_tau_is_the_mean_of_scipys_tau_b_of_photos_of_any_size():
    chance = np.random.default_rng(5)
    photos, scores, grades = chance.integers(0, 9, 60), chance.integers(0, 4, 60), chance.integers(0, 4, 60)
    with np.errstate(invalid="ignore"):
        taus = [stats.kendalltau(scores[photos == photo], grades[photos == photo])[0] for photo in range(9)]
    found = detailcaps(scores / 4, grades, photos)
    assert found.value("sample_tau") == pytest.approx(np.nanmean(taus), abs=1e-12)
    unexplained = ((scores / 4 - grades / 3) ** 2).mean() / (scores / 4).var()
    assert found.value("one_minus_r2") == pytest.approx(unexplained, abs=1e-12)


def test_what_has_no_spread_is_undefined_and_what_has_no_score_is_left_out():
    assert detailcaps([0.1, 0.2], [0, 0], ["a", "a"]).statistics[1].value == pytest.approx(0.05 / 0.005)
    apart = detailcaps([0.1, 0.2, 0.3], [1, 2, 3], ["a", "b", "c"])
    assert [row.value for row in apart.statistics[2:]] == [pytest.approx(1), None]
    nobody = detailcaps([None, None], [1, 2], ["a", "b"], missing="skip")
    assert [row.value for row in nobody.statistics] == [None] * 4 and nobody.counts["left out"] == 2
