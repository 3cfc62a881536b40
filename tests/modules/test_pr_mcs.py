"""PR-MCS on the weights that ship: what `evaluate.load` gives without any setting."""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest

import capscore
from capscore.errors import RecipeWarning
from capscore.perturbations import KINDS, perturb

from ..toy import GREEN, RED, ColourBackbone, JudgingColours

CAPTIONS = {
    "en": ("A tabby cat with green eyes and long white whiskers looks to the side.",
           ["cat", "eyes", "whiskers"]),
    "de": ("Eine getigerte Katze mit grünen Augen und weißen Schnurrhaaren blickt zur Seite.",
           ["Katze", "Augen", "Schnurrhaaren"]),
    "fr": ("Un chat tigré aux yeux verts et aux longues moustaches regarde sur le côté.",
           ["chat", "yeux", "moustaches"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def cat():
    return importlib.import_module("skimage.data").chelsea()


def test_the_weights_that_ship_are_the_default(load, base_of_pr_mcs, embedded_pr_mcs, monkeypatch):
    monkeypatch.setattr("capscore.backbones.tuned.load_folder", lambda folder, options: embedded_pr_mcs)
    module = load("pr_mcs", backbone=None)
    assert module.scorer.backbone is embedded_pr_mcs
    result = module.compute(predictions=["Rot"], images=[RED], language="de")
    assert result["signature"].startswith(
        f"pr_mcs|backbone:embedded-pr-mcs@{embedded_pr_mcs.revision}|w:{embedded_pr_mcs.w:g}|"
    )
    assert embedded_pr_mcs.revision != base_of_pr_mcs.revision
    # the demo's setting chooses its companion
    monkeypatch.setenv("CAPSCORE_BACKBONE", "embedded")
    assert load("pr_mcs", backbone=None).scorer.backbone is embedded_pr_mcs


@pytest.mark.parametrize("language", CAPTIONS)
def test_perturbed_captions_lose_their_score_and_others_keep_it(
    load, base_of_pr_mcs, embedded_pr_mcs, cat, language
):
    caption, objects = CAPTIONS[language]
    texts = [caption]
    for kind in KINDS:
        for seed in range(4):
            given = [objects] if kind == "substitution" else None
            texts += perturb([caption], kind, language, seed=seed, objects=given).captions
    scores = {}
    for slug, backbone in (("mcs", base_of_pr_mcs), ("pr_mcs", embedded_pr_mcs)):
        result = load(slug, backbone=backbone).compute(predictions=texts, images=[cat] * len(texts))
        scores[slug] = np.array(result["scores"])
    left = {
        slug: (values[1:] / values[0]).reshape(len(KINDS), -1).mean(axis=1) for slug, values in scores.items()
    }
    assert scores["pr_mcs"][0] == pytest.approx(scores["mcs"][0], rel=0.2)
    assert left["pr_mcs"].mean() < 0.6 * left["mcs"].mean()
    # repetition, masking and jumble are plain to see
    assert (left["pr_mcs"][[0, 2, 3]] < 0.5 * left["mcs"][[0, 2, 3]]).all()


def test_captions_of_another_photo_score_low(load, embedded_pr_mcs, cat):
    right, wrong = load("pr_mcs", backbone=embedded_pr_mcs).compute(
        predictions=["Eine Katze schaut in die Kamera.", "Zwei Männer spielen Fußball."], images=[cat] * 2
    )["scores"]
    assert right > 3 * wrong


def test_a_backbone_without_the_training_is_told(load):
    with pytest.warns(RecipeWarning, match="'colours' does not say that it was fine-tuned"):
        module = load("pr_mcs", backbone=ColourBackbone())
    assert module.compute(predictions=["red"], images=[RED])["scores"] == [2.5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load("pr_mcs")


def test_the_formula_is_that_of_mcs(load, embedded_pr_mcs, cat):
    texts = ["a cat", "a dog", "cat cat cat"]
    result = load("pr_mcs", backbone=embedded_pr_mcs).compute(predictions=texts, images=[cat] * 3)
    image = embedded_pr_mcs.encode_images([capscore.load_image(cat)])[0].astype(np.float64)
    cosines = embedded_pr_mcs.encode_texts(texts).astype(np.float64) @ image
    np.testing.assert_allclose(result["scores"], embedded_pr_mcs.w * np.maximum(cosines, 0), atol=1e-5)


def test_details_come_with_the_scores(load, tmp_path):
    module = load("pr_mcs", backbone=JudgingColours())
    module.add(prediction="red red red", image=RED)
    module.add_batch(predictions=["red green", "red"], images=[GREEN, tmp_path / "none.png"], on_error="skip")
    result = module.compute()
    assert result["kept"] == [pytest.approx(0.6), 1.0, None]
    assert result["lost"] == [pytest.approx(0.4), 0.0, None]
    assert result["kind"] == ["none", "none", None]
    assert result["p_kind"] == [pytest.approx(0.6), 1.0, None]
    assert "kept" not in module.compute(predictions=["red"], images=[RED], per_row=False)


def test_a_backbone_without_a_gate_has_no_details(load):
    result = load("pr_mcs").compute(predictions=["red", "red red"], images=[RED, RED])
    assert [result[name] for name in ("kept", "lost", "kind", "p_kind")] == [[None, None]] * 4


def test_the_gate_says_what_it_found(load, embedded_pr_mcs, cat):
    captions = ["a dog runs on the beach", "a a a dog dog runs runs runs on on the the"]
    result = load("pr_mcs", backbone=embedded_pr_mcs).compute(predictions=captions, images=[cat] * 2)
    assert result["kept"][0] > 0.9 and result["kept"][1] < 0.3
    assert result["kind"] == ["none", "repetition"] and min(result["p_kind"]) > 0.5
