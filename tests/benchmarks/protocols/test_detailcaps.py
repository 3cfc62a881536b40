"""DetailCaps' statistics against SciPy, written out."""

import numpy as np
import pytest
from scipy import stats

from capscore.benchmarks.protocols import detailcaps

SCORES = [0.2, 0.5, 0.9, 0.4, 0.1, 0.3, 0.7, 0.7, 0.6]
GRADES = [1, 3, 5, 2, 2, 4, 3, 3, 3]
PHOTOS = ["a", "a", "a", "b", "b", "b", "c", "c", "c"]


def values(*columns, **how):
    return [row.value for row in detailcaps(*columns, **how).statistics]


def test_literal_statistics():
    found = detailcaps(SCORES, GRADES, PHOTOS)
    assert [row[0] for row in found.table()] == ["pearson", "one minus r2", "tau b", "sample tau"]
    # grades / 5; differences 0, -.1, -.1, 0, -.3, -.5, .1, .1, 0 → .38; Σs² − (Σs)² / 9 = 2.7 − 4.4² / 9
    residual, spread = 0.38, 2.7 - 4.4**2 / 9
    scipy = stats.pearsonr(SCORES, GRADES)[0], stats.kendalltau(SCORES, GRADES)[0]
    # photo a agrees in all three pairs; b: .4 > .1 tied, .4 > .3 against, .1 < .3 with → 0; c has one grade
    assert [row.value for row in found.statistics] == pytest.approx(
        [scipy[0], residual / spread, scipy[1], 0.5], abs=1e-12
    )
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
    assert found.value("one_minus_r2") == pytest.approx(
        ((scores / 4 - grades / 3) ** 2).sum() / ((scores / 4 - scores.mean() / 4) ** 2).sum(), abs=1e-12
    )


def test_what_has_no_spread_is_undefined_and_what_has_no_score_is_left_out():
    assert values([0.1, 0.2], [0, 0], ["a", "a"])[1] == pytest.approx(0.05 / 0.005)
    assert values([0.1, 0.2, 0.3], [1, 2, 3], ["a", "b", "c"])[2:] == [pytest.approx(1), None]
    nobody = detailcaps([None, None], [1, 2], ["a", "b"], missing="skip")
    assert [row.value for row in nobody.statistics] == [None] * 4 and nobody.counts["left out"] == 2
