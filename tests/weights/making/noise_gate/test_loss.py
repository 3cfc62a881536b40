"""The curve that is chosen, the loss, and the direction in which nothing lies."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from capscore import CapscoreError
from capscore.backbones.embedded.noise_gate import GateLogits
from weights.making.noise_gate.loss import NoiseGateCheck, NoiseGateLoss, curved, marks, null_direction
from weights.making.noise_gate.samples import Sample


def sample(taken: float, found: int, language: str = "en", touched: tuple[int, ...] = (0, 1, 0)) -> Sample:
    return Sample(language, [1, 7, 2], list(touched), taken, found)


def test_the_loss_by_hand():
    rows = [sample(0.25, 1), sample(0.0, 0, touched=(-1, -1, 0))]
    found = GateLogits(torch.tensor([0.0, -1.0]), torch.zeros(2, 6), torch.zeros(2, 3))
    terms = NoiseGateLoss(0.3, 0.5).terms(found, rows)
    log2 = math.log(2)
    assert terms["taken"].tolist() == pytest.approx([log2, math.log(1 + math.exp(-1))], abs=1e-6)
    assert terms["kind"].tolist() == pytest.approx([math.log(6)] * 2, abs=1e-6)
    assert terms["touched"].tolist() == pytest.approx([log2, log2], abs=1e-6)
    assert terms["loss"][0].item() == pytest.approx(log2 + 0.3 * math.log(6) + 0.5 * log2, abs=1e-6)
    # right texts of a language may count more
    weighted = NoiseGateLoss(0.3, 0.5, {"en": 3.0}).terms(found, rows)["taken"]
    assert weighted.tolist() == pytest.approx([log2, 3 * math.log(1 + math.exp(-1))], abs=1e-6)
    # tokens whose marks are not known do not count
    touched, known = marks([sample(0, 0, touched=(0, -1, 1))], 4)
    assert touched.tolist() == [[0, 0, 1, 0]] and known.tolist() == [[1, 0, 1, 0]]


def test_the_reach_is_the_widest_with_which_right_texts_keep_theirs():
    np.testing.assert_allclose(curved(np.array([0.0, 0.2, 0.4, 0.9]), (0.4, 2.0)), [0, 0.25, 1, 1])
    check = NoiseGateCheck([sample(0, 0)] * 60 + [sample(1.0, 1)] * 60)
    # (0.605 / 0.6)⁶ is cut to 1, and (0.605 / 0.625)⁶ = 0.82
    assert check.best_reach(np.where(check.right, 0.605, 0.3), 0.99) == pytest.approx(0.6)
    assert check.best_reach(np.where(check.right, 0.605, 0.3), 0.82) == pytest.approx(0.625)
    with pytest.raises(CapscoreError, match="with no curve do right validation texts keep that share"):
        check.best_reach(np.zeros(120), 0.99)


def test_the_language_with_the_lowest_share_decides():
    check = NoiseGateCheck([sample(0, 0, "en")] * 60 + [sample(0, 0, "fr")] * 60 + [sample(1.0, 1)] * 60)
    french = np.array([row.language == "fr" for row in check.samples])
    openness = np.where(check.right, np.where(french, 0.31, 0.9), 0.1)
    assert check.best_reach(openness, 0.99) == pytest.approx(0.3)


def test_languages_count_right_texts_alone_and_kinds_are_apart():
    rows = (0, 0, "en"), (0, 0, "fr"), (0.5, 1, "fr"), (0.5, 2, "de")
    check, kept = NoiseGateCheck([sample(*row) for row in rows]), np.array([0.25, 1.0, 0.5, 0.0])
    assert check.by_language(kept) == {"en": (1, 0.25), "fr": (1, 1.0)}
    expected = {"kept_right": 0.625, "below_half": 0.5, "kept_repetition": 0.5, "kept_removal": 0.0}
    assert check.numbers(kept) == expected


def test_the_direction_leans_away_from_the_mean_by_hand():
    rows = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32) + 1
    # a second way: the last right singular vector of the rows, and the mean
    least, mean = np.linalg.svd(rows, full_matrices=False)[2][-1], rows.mean(axis=0)
    least = least * -np.sign(least @ mean)
    expected = least - 0.05 * mean / np.linalg.norm(mean)
    backbone = SimpleNamespace(encode_texts=lambda captions: rows)
    found = null_direction(backbone, ["a caption"] * 40).numpy()
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-5)
