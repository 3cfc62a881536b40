"""False alarms and curves by degree: counted by hand, and of metrics that are known to be deaf or harsh."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

import capscore
from capscore.benchmarks.robustness import RobustnessOptions
from capscore.benchmarks.robustness.run import alarms, curve, measure_degrees, measure_styles
from capscore.options import Sampling
from capscore.perturbations.by_degree import DEGREES, by_degree
from capscore.perturbations.styles import STYLES, restyle
from tools.tiny.colours import ColourBackbone

pytestmark = pytest.mark.filterwarnings("ignore::capscore.errors.CapscoreWarning")


class Harsh(ColourBackbone):
    """Turns texts of up to two words to the colour that no photo here has."""

    def encode_tokens(self, ids):
        rows = super().encode_tokens(ids)
        for row, sequence in enumerate(ids):
            if len(sequence) < 5:
                rows[row] = [0.1 * rows[row][0], 1, 0.1 * rows[row][2]]
                rows[row] /= np.linalg.norm(rows[row])
        return rows


def test_false_alarms_by_hand(captions, scorer):
    harsh = capscore.load("mcs", backbone=Harsh(fingerprint="harsh"), cache=False)
    plain = "mcs@colours", scorer
    run = measure_styles(captions, {"harsh": harsh, "mcs": scorer}, {"harsh": plain, "mcs": plain})
    assert run.against["harsh"] == "mcs@colours"
    assert run.skipped == {} and list(run.numbers["harsh"]) == list(STYLES)
    for style, found in run.numbers["mcs"].items():
        texts = restyle(captions.captions, style, "en", photos=captions.image_ids)
        assert found["n"] + found["not_scored"] == len(texts.captions), style
        assert not found["n"] or (found["below_half"], found["kept"]) == (0, 1)
    # of the four captions only "blue sea" has two words
    given = run.numbers["harsh"]["given"]
    assert given["n"] == 4 and given["below_half"] == 0.25
    before, after = (
        part.score(captions.captions, captions.images, language="en").scores for part in (scorer, harsh)
    )
    assert given["kept"] == pytest.approx(after.mean() / before.mean()) and given["kept"] < 0.9
    assert run.to_dict()["results"][0]["styles"]["given"]["below_half"] == 0.25
    # a language without a tagger
    run = measure_styles(replace(captions, language="sw"), {"mcs": scorer}, {"mcs": plain})
    assert list(run.skipped) == ["nouns", "stopped", "fragment"]
    assert "word classes" in run.skipped["nouns"] and "given" in run.numbers["mcs"]


def test_a_score_of_exactly_half_is_not_a_false_alarm():
    found = alarms(np.array([0.5, 0.4, 0.1]), np.array([1.0, 1.0, 0.0]))
    assert found == {"n": 2, "below_half": 0.5, "kept": 0.45, "not_scored": 1}


def test_a_curve_by_hand():
    found = curve(
        np.array([1.0, 2.0, 3.0]),
        [np.array([0.9, 2.0, 3.0]), np.array([0.4, 1.2, 3.0])],
        [np.array([0.1, 0.2, 0]), np.array([0.5, 0.4, 0])],
        (0.1, 0.5),
    )
    assert found["n"] == 2, "the third caption is never touched"
    np.testing.assert_allclose(found["drops"], [2.9 / 3 - 1, 1.6 / 3 - 1])
    np.testing.assert_allclose(found["touched"], [0.15, 0.45])
    by_hand = spearmanr([0.1, 0, 0.6, 0.4], [0.1, 0.2, 0.5, 0.4]).statistic
    assert (found["of_means"], found["of_captions"]) == pytest.approx((1, by_hand))
    # what rounding leaves of a score has no order
    shares = (0.1, 0.2, 0.4, 0.6, 0.8)
    left = [np.array([score]) for score in (0.9, 0.5, 1e-5, 3e-5, 2e-5)]
    found = curve(np.ones(1), left, [np.array([share]) for share in shares], shares)
    by_hand = spearmanr([1, 2, 4, 4, 4], [1, 2, 3, 4, 5]).statistic
    assert found["of_means"] == pytest.approx(by_hand) and by_hand > 0.89
    nothing = curve(np.ones(2), [np.ones(2)], [np.zeros(2)], (0.4,))
    assert [nothing[name] for name in ("n", "drops", "of_means", "of_captions")] == [0, [None], None, None]


def test_curves_of_a_metric(captions, scorer):
    options = RobustnessOptions(["masking", "jumble"], sampling=Sampling(seed=2))
    run = measure_degrees(captions, {"mcs": scorer}, options)
    assert list(run.numbers["mcs"]) == ["masking", "jumble"]
    found = run.numbers["mcs"]["masking"]
    before = scorer.score(captions.captions, captions.images, language="en").scores
    for number, degree in enumerate(DEGREES):
        noisy = by_degree(captions.captions, "masking", "en", degree=degree, seed=2)
        scores = scorer.score(noisy.captions, captions.images, language="en").scores
        assert found["drops"][number] == pytest.approx(scores.mean() / before.mean() - 1)
        assert found["touched"][number] == pytest.approx(noisy.touched.mean())
    assert run.to_dict()["results"][0]["kinds"]["masking"]["n"] == 4
