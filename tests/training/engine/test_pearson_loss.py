"""The Pearson loss: against scipy, its gradient against finite differences, equal ratings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr

from capscore.errors import InputError
from training.engine.ratings_loss import pearson_loss


@pytest.mark.parametrize("n", [2, 3, 17, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_one_minus_pearsons_r(n, dtype):
    chance = np.random.default_rng(n)
    for scale, offset in ((1.0, 0.0), (0.05, 0.3), (40.0, -7.0)):
        scores = scale * chance.normal(size=n) + offset
        ratings = chance.integers(1, 5, size=n).astype(float)
        ratings[0], ratings[-1] = 1.0, 4.0
        given = torch.tensor(scores, dtype=dtype)
        expected = 1 - pearsonr(given.double().numpy(), ratings).statistic
        found = pearson_loss(given, torch.tensor(ratings)).item()
        assert found == pytest.approx(expected, abs=2e-6 if dtype == torch.float32 else 1e-12)


def test_a_known_value():
    # r of (1, 2, 3, 5) and (2, 1, 4, 4): covariance 6.75, √(8.75 · 6.75)
    found = pearson_loss(torch.tensor([1.0, 2, 3, 5]), torch.tensor([2.0, 1, 4, 4]))
    assert found.item() == pytest.approx(1 - 5.75 / (8.75 * 6.75) ** 0.5, abs=1e-6)


def test_its_gradient_is_that_of_finite_differences():
    chance = torch.Generator().manual_seed(1)
    scores = torch.randn(9, dtype=torch.float64, generator=chance, requires_grad=True)
    ratings = torch.tensor([1.0, 4, 2, 2, 3, 1, 4, 3, 2], dtype=torch.float64)
    pearson_loss(scores, ratings).backward()
    step = 1e-6
    for row in range(len(scores)):
        moved = torch.zeros(9, dtype=torch.float64)
        moved[row] = step
        with torch.no_grad():
            ends = [pearson_loss(scores + sign * moved, ratings).item() for sign in (1, -1)]
        assert scores.grad[row].item() == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-8)
    assert torch.autograd.gradcheck(lambda given: pearson_loss(given, ratings), scores)


def test_equal_scores_have_no_correlation_and_a_finite_gradient():
    scores = torch.full((4,), 0.3, requires_grad=True)
    loss = pearson_loss(scores, torch.tensor([1.0, 2, 3, 4]))
    loss.backward()
    assert loss.item() == 1
    assert torch.isfinite(scores.grad).all() and scores.grad[0] > 0 > scores.grad[3]


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        ([2.0, 2.0, 2.0], "all 3 ratings are 2; nothing correlates with a constant"),
        ([1.0, float("nan"), 2.0], "a rating is NaN or infinite"),
        ([1.0, 2.0], r"scores of shape \(3,\) and ratings of shape \(2,\)"),
    ],
)
def test_ratings_that_say_nothing_are_an_error(ratings, message):
    with pytest.raises(InputError, match=message):
        pearson_loss(torch.tensor([0.1, 0.2, 0.3]), torch.tensor(ratings))


def test_one_row_is_an_error():
    with pytest.raises(InputError, match="at least 2 rows"):
        pearson_loss(torch.tensor([0.1]), torch.tensor([1.0]))
