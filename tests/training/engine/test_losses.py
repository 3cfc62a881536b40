"""The losses of all recipes, besides golden cases and examples in docstrings: sums, borders, gradients."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr

from training.data.rated import FilePart
from training.data.rows import Row
from training.engine.infometic_losses import hard_negative_loss, token_loss
from training.engine.pr_mcs_losses import LossWeights, nce, noise_loss, pr_mcs_loss
from training.engine.ratings import RatingsCheck, pearson_loss

# unit rows in the plane, whose cosines are easy: 0.6, 0.8
EAST, NORTH_EAST, NORTH = [1.0, 0.0], [0.6, 0.8], [0.0, 1.0]
IMAGES, CAPTIONS = torch.tensor([EAST, NORTH]), torch.tensor([NORTH_EAST, NORTH_EAST])


def test_the_gradient_of_noise_is_that_of_a_hinge():
    # cosines 0.6 (above the margin), 0.1 (at it) and 0 (below)
    perturbed = torch.tensor([[NORTH_EAST], [[0.1, 0.99**0.5]], [NORTH]], requires_grad=True)
    noise_loss(torch.tensor([EAST, EAST, EAST]), perturbed, margin=0.1).backward()
    assert torch.allclose(perturbed.grad, torch.tensor([[[1 / 3, 0.0]], [[0.0, 0.0]], [[0.0, 0.0]]]))


def test_an_empty_place_or_a_term_without_weight_cannot_spoil_the_sum():
    perturbed, nothing = torch.tensor([[NORTH_EAST], [[float("nan"), 0.0]]]), torch.tensor([[False], [False]])
    changed = torch.tensor([[True], [False]])
    assert noise_loss(IMAGES, perturbed, margin=0.1, changed=changed).item() == pytest.approx(0.6)
    assert noise_loss(IMAGES, perturbed, margin=0.1, changed=nothing).item() == 0
    broken = torch.full((2, 1, 2), float("nan"))
    for weights, is_finite in ((LossWeights(lambda_2=0.0, lambda_3=0.0), True), (LossWeights(), False)):
        terms = pr_mcs_loss(IMAGES, CAPTIONS, broken, weights=weights, logit_scale=1.0)
        assert bool(torch.isfinite(terms["loss"])) == is_finite and torch.isnan(terms["l2"])
    own, hard, there = (torch.tensor(row) for row in ([1.0, 3.0], [0.0, float("nan")], [True, False]))
    assert hard_negative_loss(own, hard, there=there).item() == pytest.approx(math.log1p(math.exp(-1)))
    assert hard_negative_loss(own, hard, there=~there[[0, 0]]).item() == 0
    scores = torch.tensor([[1.0, float("inf"), 0.0], [5.0, 2.0, 1.0], [0.0, 1.0, 3.0]])
    counted = torch.tensor([[False, False, True], [False, False, True], [True, True, False]])
    # each right score beside those of its row and of its column that count
    rows = [math.log1p(math.exp(-1)), math.log1p(math.exp(-1)), math.log1p(math.exp(-3) + math.exp(-2))]
    assert nce(scores, counted).item() == pytest.approx(sum(rows) / 3, abs=1e-6)


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


@pytest.mark.parametrize(("dtype", "within"), [("float64", 1e-12), ("float32", 2e-6)])
def test_the_loss_of_ratings_is_one_minus_pearsons_r(dtype, within):
    chance = np.random.default_rng(257)
    ratings = chance.integers(1, 5, size=257).astype(float)
    for scale, offset in ((0.05, 0.3), (40.0, -7.0)):
        scores = torch.tensor(scale * chance.normal(size=257) + offset, dtype=getattr(torch, dtype))
        expected = 1 - pearsonr(scores.double().numpy(), ratings).statistic
        assert pearson_loss(scores, torch.tensor(ratings)).item() == pytest.approx(expected, abs=within)


def test_the_gradient_of_pearsons_r_is_that_of_finite_differences_and_finite_for_equal_scores():
    scores = torch.randn(9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ratings = torch.tensor([1.0, 4, 2, 2, 3, 1, 4, 3, 2], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda given: pearson_loss(given, ratings), scores.requires_grad_())
    equal = torch.full((4,), 0.3, requires_grad=True)
    loss = pearson_loss(equal, torch.tensor([1.0, 2, 3, 4]))
    loss.backward()
    assert loss.item() == 1 and torch.isfinite(equal.grad).all() and equal.grad[0] > 0 > equal.grad[3]


def test_a_correlation_that_is_undefined_is_left_out_of_the_mean():
    class Measured(RatingsCheck):
        def _cosines(self, part):
            return np.array([0.1, 0.2, 0.3, 0.1, 0.2])

    rows = [Row("a", code, rating=rating) for code, rating in zip("aaabb", [1, 2, 3, 4, 4], strict=True)]
    parts = [FilePart(f"{name}/rated.jsonl", range(5), range(5), rows) for name in "mn"]
    numbers = Measured(parts[:1], None, None)()
    assert np.isnan(numbers["tau_b_b"]) and numbers["tau_b"] == numbers["tau_b_a"] == 1.0
    both = Measured(parts, None, None)()  # files of one name in two folders
    assert [both[f"rho_{name}_rated_a"] for name in (1, 2)] == [numbers["rho_a"]] * 2
