"""The curve that is chosen, the loss, and the direction in which nothing lies."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from capscore import CapscoreError, load_backbone
from capscore.backbones.embedded.noise_gate import GateLogits
from weights.making.caption_grammar import generate
from weights.making.noise_gate.loss import NoiseGateCheck, NoiseGateLoss, curved, marks, null_direction
from weights.making.noise_gate.samples import Sample

from .marked_texts import CAPTIONS


def sample(taken: float, found: int, language: str = "en", touched: tuple[int, ...] = (0, 1, 0)) -> Sample:
    return Sample("a text", language, [1, 7, 2], list(touched), taken, found, "whole, lower")


def test_the_curve_by_hand():
    np.testing.assert_allclose(curved(np.array([0.0, 0.2, 0.4, 0.9]), (0.4, 2.0)), [0, 0.25, 1, 1])


def test_the_best_curve_takes_most_while_right_texts_keep_theirs():
    rows = [sample(0, 0)] * 60 + [sample(1.0, 1)] * 60
    check = NoiseGateCheck(rows)
    openness = np.where(check.right, 0.6, 0.3)
    reach, power = check.best_curve(openness, 0.99)
    kept = curved(openness, (reach, power))
    assert kept[check.right].mean() >= 0.99
    # the strongest curve that leaves 0.6 alone: reach 0.6, power 6, or nearly so
    assert power == 6 and 0.575 <= reach <= 0.601
    with pytest.raises(CapscoreError, match="with no curve do right validation texts keep that share"):
        check.best_curve(np.zeros(120), 0.99)


def test_the_language_that_keeps_least_counts():
    rows = [sample(0, 0, "en")] * 60 + [sample(0, 0, "fr")] * 60 + [sample(1.0, 1)] * 60
    check = NoiseGateCheck(rows)
    french = np.array([row.language == "fr" for row in check.samples])
    openness = np.where(check.right, np.where(french, 0.3, 0.9), 0.1)
    reach, power = check.best_curve(openness, 0.99)
    assert curved(openness, (reach, power))[check.right & french].mean() >= 0.99


def test_groups_count_right_texts_alone():
    check = NoiseGateCheck([sample(0, 0, "en"), sample(0, 0, "fr"), sample(0.5, 1, "fr")])
    kept = np.where(check.right, [0.25, 1.0, 0.0], 0.0)
    kept[[row.language == "en" for row in check.samples].index(True)] = 0.25
    groups = check.by_group(kept, "language")
    assert groups["en"] == (1, 0.25, 1.0) and groups["fr"][0] == 1


def test_the_loss_by_hand():
    rows = [sample(0.25, 1), sample(0.0, 0, touched=(0, -1, 0))]
    found = GateLogits(torch.tensor([0.0, -1.0]), torch.zeros(2, 6), torch.zeros(2, 3))
    terms = NoiseGateLoss(0.3, 0.5).terms(found, rows)
    log2 = math.log(2)
    assert terms["taken"].tolist() == pytest.approx([log2, math.log(1 + math.exp(-1))], abs=1e-6)
    assert terms["kind"].tolist() == pytest.approx([math.log(6)] * 2, abs=1e-6)
    assert terms["touched"].tolist() == pytest.approx([log2, log2], abs=1e-6)
    expected = log2 + 0.3 * math.log(6) + 0.5 * log2
    assert terms["loss"][0].item() == pytest.approx(expected, abs=1e-6)


def test_tokens_whose_marks_are_not_known_do_not_count():
    touched, known = marks([sample(0, 0, touched=(0, -1, 1))], 4)
    assert touched.tolist() == [[0, 0, 1, 0]] and known.tolist() == [[1, 0, 1, 0]]


@pytest.mark.usefixtures("embedded_is_read_once")
def test_captions_hardly_differ_in_the_null_direction():
    backbone = load_backbone("embedded", device="cpu")
    captions = [caption for of_language in CAPTIONS.values() for caption in of_language]
    direction = null_direction(backbone, captions * 2).numpy()
    direction /= np.linalg.norm(direction)
    spread = (backbone.encode_texts(captions) @ direction).std()
    rows = backbone.encode_texts(captions)
    usual = np.median(rows.std(axis=0))
    assert spread < usual / 3


@pytest.mark.parametrize("rows", [[sample(0, 0)] * 3, [sample(1.0, 1)] * 3, [sample(0, 0), sample(0.5, 1)]])
def test_a_curve_needs_right_texts_and_strong_noise(rows):
    with pytest.raises(CapscoreError, match="expected right samples and some with strong noise"):
        NoiseGateCheck(rows).best_curve(np.full(len(rows), 0.5), 0.1)


@pytest.mark.usefixtures("embedded_is_read_once")
def test_the_direction_leans_away_from_the_mean_by_hand():
    backbone = load_backbone("embedded", device="cpu")
    captions = [scene["en"].text for scene in generate(560, ["en"])]
    rows = backbone.encode_texts(captions).astype(np.float64)
    # a second way: the last right singular vector of the rows, and the mean
    least = np.linalg.svd(rows, full_matrices=False)[2][-1]
    mean = rows.mean(axis=0)
    least *= -np.sign(least @ mean) or 1.0
    expected = least - 0.25 * mean / np.linalg.norm(mean)
    found = null_direction(backbone, captions, lean=0.25).numpy()
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-4)
    assert found @ mean < 0
