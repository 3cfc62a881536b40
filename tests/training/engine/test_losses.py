"""The losses of all recipes against numbers worked out by hand, NumPy, scipy and finite differences."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr

from training.data.rated import FilePart
from training.data.rows import Row
from training.engine.infometic_losses import coarse_nce, hard_negative_loss, token_loss, word_shares
from training.engine.pr_mcs_losses import (
    LossWeights,
    contrastive_loss,
    matching_loss,
    noise_loss,
    pr_mcs_loss,
)
from training.engine.ratings import RatingsCheck, pearson_loss

# unit rows in the plane, whose cosines are easy: 0.6, 0.8, 0.96
EAST, NORTH_EAST, NORTH = [1.0, 0.0], [0.6, 0.8], [0.0, 1.0]
IMAGES = torch.tensor([EAST, NORTH])
CAPTIONS = torch.tensor([NORTH_EAST, NORTH_EAST])


@pytest.mark.parametrize("name", ["pr_mcs_losses", "infometic_losses", "ratings"])
def test_docstring_examples(name):
    module = importlib.import_module(f"training.engine.{name}")
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted >= 3 and not result.failed


def cross_entropy(right, *others):
    return np.log(sum(np.exp(other - right) for other in (right, *others)))


# PR-MCS


def test_each_term_of_pr_mcs_and_their_sum_by_hand():
    # cos(V, T(o)) is 0.6 and 0.8
    assert matching_loss(IMAGES, CAPTIONS).item() == pytest.approx(1 - 0.7)
    perturbed = torch.tensor([[EAST], [EAST]])
    # image: cos 1 and 0, the latter held at the margin
    assert noise_loss(IMAGES, perturbed, margin=0.1).item() == pytest.approx((1 + 0.1) / 2)
    assert noise_loss(IMAGES, perturbed, margin=0.0).item() == pytest.approx(0.5)
    assert noise_loss(CAPTIONS, perturbed, margin=0.1).item() == pytest.approx(0.6)
    # logits [[1.2, 1.2], [1.6, 1.6]]: each image knows neither caption (ln 2); each caption prefers NORTH by
    # 0.4: ln(1 + e^0.4) where EAST is right, ln(1 + e^-0.4) where NORTH is
    expected = (np.log(2) + (np.log1p(np.exp(0.4)) + np.log1p(np.exp(-0.4))) / 2) / 2
    assert expected == pytest.approx(0.7030812, abs=1e-6)
    assert contrastive_loss(IMAGES, CAPTIONS, logit_scale=2.0).item() == pytest.approx(expected, abs=1e-6)
    weights = LossWeights(clip=2.0, lambda_1=0.5, lambda_2=0.25, lambda_3=0.125, keep_close=10.0)
    terms = pr_mcs_loss(IMAGES, CAPTIONS, perturbed, weights=weights, logit_scale=2.0, before=IMAGES)
    assert list(terms) == ["loss", "clip", "l1", "l2", "l3", "keep_close"]
    # 2·0.7030812 + 0.5·0.3 + 0.25·0.55 + 0.125·0.6 + 10·0.3
    assert terms["loss"].item() == pytest.approx(4.7686624, abs=1e-5)


def test_rows_of_one_image_or_text_are_not_negatives_on_request():
    images, captions = torch.tensor([EAST, EAST, NORTH]), torch.tensor([EAST, NORTH_EAST, NORTH])
    groups = torch.tensor([7, 7, 9])
    by_image = [cross_entropy(1, 0), cross_entropy(0.6, 0), cross_entropy(1, 0, 0.8)]
    by_caption = [cross_entropy(1, 0), cross_entropy(0.6, 0.8), cross_entropy(1, 0, 0)]
    expected = (np.mean(by_image) + np.mean(by_caption)) / 2
    for name in ("image_groups", "caption_groups"):
        told = contrastive_loss(images, captions, logit_scale=1.0, **{name: groups})
        assert told.item() == pytest.approx(expected, abs=1e-6)
    plain = contrastive_loss(images, captions, logit_scale=1.0)
    alone = contrastive_loss(images, captions, logit_scale=1.0, caption_groups=torch.arange(3))
    assert alone.item() == pytest.approx(plain.item()) and plain.item() > expected


def test_the_gradient_of_noise_is_that_of_a_hinge():
    # cosines 0.6 (above the margin), 0.1 (at it) and 0 (below)
    perturbed = torch.tensor([[NORTH_EAST], [[0.1, 0.99**0.5]], [NORTH]], requires_grad=True)
    noise_loss(torch.tensor([EAST, EAST, EAST]), perturbed, margin=0.1).backward()
    assert torch.allclose(perturbed.grad, torch.tensor([[[1 / 3, 0.0]], [[0.0, 0.0]], [[0.0, 0.0]]]))


def test_an_empty_place_or_a_term_without_weight_cannot_spoil_the_sum():
    perturbed = torch.tensor([[NORTH_EAST], [[float("nan"), 0.0]]])
    changed = torch.tensor([[True], [False]])
    assert noise_loss(IMAGES, perturbed, margin=0.1, changed=changed).item() == pytest.approx(0.6)
    assert noise_loss(IMAGES, perturbed, margin=0.1, changed=torch.zeros_like(changed)).item() == 0
    broken = torch.full((2, 1, 2), float("nan"))
    for weights, is_finite in ((LossWeights(lambda_2=0.0, lambda_3=0.0), True), (LossWeights(), False)):
        terms = pr_mcs_loss(IMAGES, CAPTIONS, broken, weights=weights, logit_scale=1.0)
        assert bool(torch.isfinite(terms["loss"])) == is_finite and torch.isnan(terms["l2"])


# InfoMetIC


def test_excluded_negatives_do_not_count():
    scores = torch.tensor([[1.0, float("inf"), 0.0], [5.0, 2.0, 1.0], [0.0, 1.0, 3.0]])
    counted = torch.tensor([[False, False, True], [False, False, True], [True, True, False]])
    l_r, l_p = coarse_nce(scores, torch.zeros(3, 3), counted=counted)
    both = np.mean([cross_entropy(1, 0), cross_entropy(2, 1), cross_entropy(3, 0, 1)])
    assert l_r.item() == pytest.approx(both, abs=1e-6)
    assert l_p.item() == pytest.approx((2 * np.log(2) + np.log(3)) / 3, abs=1e-6)


def test_hard_negatives_by_hand():
    own, hard = torch.tensor([1.0, 0.0, 3.0]), torch.tensor([0.0, 2.0, float("nan")])
    # ln(1 + e^-1) = 0.3132617 and ln(1 + e^2) = 2.1269280
    there = torch.tensor([True, True, False])
    assert hard_negative_loss(own, hard, there=there).item() == pytest.approx(1.2200948, abs=1e-6)
    assert hard_negative_loss(own[:2], hard[:2]).item() == pytest.approx(1.2200948, abs=1e-6)
    assert hard_negative_loss(own, hard, there=torch.zeros(3, dtype=torch.bool)).item() == 0


def test_the_loss_of_tokens_by_hand():
    alpha = torch.tensor([[0.4, 0.4, 0.1, 0.1], [0.5, 0.5, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    labels = torch.tensor([[1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, True, False], [True, True, False, False], 4 * [False]])
    # a null region counts above, not below, the line; a row without labels costs nothing
    expected = [-(np.log(0.4) + 2 * np.log(0.1)) / 3, np.log(2) / 2, 0.0]
    assert token_loss(alpha, labels, mask).tolist() == pytest.approx(expected, abs=1e-6)
    logits = torch.tensor([[-80.0, 0.0]], requires_grad=True)  # a share of nothing still has a gradient
    loss = token_loss(logits.softmax(dim=-1), torch.tensor([[1.0, 0.0]]), torch.ones(1, 2, dtype=torch.bool))
    loss.sum().backward()
    assert loss.item() == pytest.approx(40.0) and logits.grad[0, 0].item() == pytest.approx(-0.5, abs=1e-4)


def test_a_word_has_the_shares_of_its_pieces():
    # the second piece lies half in either word, the third in none
    shares = torch.tensor([[[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]])
    assert word_shares(torch.tensor([[0.2, 0.3, 0.5]]), shares)[0].tolist() == pytest.approx([0.35, 0.15])


# ratings


@pytest.mark.parametrize(("n", "dtype", "within"), [(2, "float64", 1e-12), (257, "float32", 2e-6)])
@pytest.mark.parametrize(("scale", "offset"), [(0.05, 0.3), (40.0, -7.0)])
def test_the_loss_of_ratings_is_one_minus_pearsons_r(n, dtype, within, scale, offset):
    chance = np.random.default_rng(n)
    scores = torch.tensor(scale * chance.normal(size=n) + offset, dtype=getattr(torch, dtype))
    ratings = chance.integers(1, 5, size=n).astype(float)
    ratings[0], ratings[-1] = 1.0, 4.0
    expected = 1 - pearsonr(scores.double().numpy(), ratings).statistic
    assert pearson_loss(scores, torch.tensor(ratings)).item() == pytest.approx(expected, abs=within)


def test_the_gradient_of_pearsons_r_is_that_of_finite_differences_and_finite_for_equal_scores():
    scores = torch.randn(9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ratings = torch.tensor([1.0, 4, 2, 2, 3, 1, 4, 3, 2], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda given: pearson_loss(given, ratings), scores.requires_grad_())
    # r of (1, 2, 3, 5) and (2, 1, 4, 4): covariance 5.75, √(8.75 · 6.75)
    found = pearson_loss(torch.tensor([1.0, 2, 3, 5]), torch.tensor([2.0, 1, 4, 4]))
    assert found.item() == pytest.approx(1 - 5.75 / (8.75 * 6.75) ** 0.5, abs=1e-6)
    equal = torch.full((4,), 0.3, requires_grad=True)
    loss = pearson_loss(equal, torch.tensor([1.0, 2, 3, 4]))
    loss.backward()
    assert loss.item() == 1 and torch.isfinite(equal.grad).all() and equal.grad[0] > 0 > equal.grad[3]


def test_a_correlation_that_is_undefined_is_left_out_of_the_mean():
    class Measured(RatingsCheck):
        def _cosines(self, part):
            return np.array([0.1, 0.2, 0.3, 0.1, 0.2])

    rows = [
        Row("a", language, rating=rating) for language, rating in zip("aaabb", [1, 2, 3, 4, 4], strict=True)
    ]
    numbers = Measured([FilePart("rated.jsonl", range(5), range(5), rows)], None, None)()
    assert np.isnan(numbers["tau_b_b"]) and numbers["tau_b"] == numbers["tau_b_a"] == 1.0
