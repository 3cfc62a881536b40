"""PR-MCS as a scorer: the formula of MCS, a tower of its own, and a word where the tower is another one."""

from __future__ import annotations

import warnings
from importlib.resources import files

import numpy as np
import pytest

import capscore
from capscore.images.load import load_image

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")

CAPTIONS = {
    "en": ("A cat looks into the camera.", "camera the looks cat A into."),
    "de": ("Eine Katze schaut in die Kamera.", "Kamera die in Katze schaut Eine."),
    "fr": ("Un chat regarde vers l'appareil photo.", "photo vers chat regarde Un l'appareil."),
    "es": ("Un gato mira hacia la cámara.", "cámara la gato hacia Un mira."),
    "ja": ("猫がカメラを見ている。", "カメラいる猫てを見。が"),
}


# scikit-image ships it
PHOTO = str(files("skimage.data") / "chelsea.png")


@pytest.fixture(scope="module")
def pr_mcs():
    return capscore.load("pr_mcs", cache=False)


def test_the_weights_that_ship_are_the_default_and_say_their_recipe(pr_mcs, monkeypatch):
    assert pr_mcs.backbone.name == "embedded-pr-mcs" and pr_mcs.backbone.recipe == "pr_mcs"
    # the variable that names the learned eye means its fine-tuned companion here
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    assert capscore.load("pr_mcs", cache=False).backbone.name == "embedded-pr-mcs"


@pytest.mark.parametrize("language", CAPTIONS)
def test_a_jumbled_caption_falls_and_the_original_keeps_its_score(pr_mcs, base_of_pr_mcs, language):
    original, jumbled = CAPTIONS[language]
    mcs = capscore.load("mcs", backbone=base_of_pr_mcs, cache=False)
    plain = mcs.score([original, jumbled], [PHOTO] * 2, language=language).scores
    robust = pr_mcs.score([original, jumbled], [PHOTO] * 2, language=language).scores
    assert robust[0] > 0.8 * plain[0]
    assert robust[1] < 0.2 * robust[0] < plain[1]


def test_the_score_is_the_formula_on_the_towers_cosine(pr_mcs):
    captions = ["A cat.", "[MASK] [MASK]"]
    image = pr_mcs.backbone.encode_images([load_image(PHOTO)])[0]
    cosines = pr_mcs.backbone.encode_texts(captions) @ image
    scores = pr_mcs.score(captions, [PHOTO] * 2)
    np.testing.assert_allclose(scores.scores, pr_mcs.backbone.w * np.maximum(cosines, 0), atol=1e-5)
    tower = pr_mcs.backbone
    assert scores.signature.startswith(f"pr_mcs|backbone:embedded-pr-mcs@{tower.revision}|w:{tower.w:g}|")


def test_a_tower_without_the_training_is_told():
    with pytest.warns(capscore.RecipeWarning, match="'embedded' does not say that it was fine-tuned"):
        plain = capscore.load("pr_mcs", backbone=capscore.load_backbone("embedded"), cache=False)
    mcs = capscore.load("mcs", backbone="embedded", cache=False)
    scores, expected = (scorer.score(["a cat"], [PHOTO]).scores for scorer in (plain, mcs))
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)


def test_the_weights_that_ship_warn_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        capscore.load("pr_mcs", cache=False)
