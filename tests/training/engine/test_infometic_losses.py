"""The losses of InfoMetIC against numbers worked out by hand and against NumPy."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from training.engine import infometic_losses
from training.engine.infometic_losses import coarse_nce, hard_negative_loss, token_loss, word_shares


def test_docstring_examples():
    result = doctest.testmod(infometic_losses, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted >= 5 and not result.failed


def test_coarse_losses_by_hand():
    recall = torch.tensor([[2.0, 1.0], [0.0, 1.0]])
    # rows: ln(1 + e^-1) twice; columns: ln(1 + e^-2) and ln 2
    l_r, l_p = coarse_nce(recall, torch.zeros(2, 2))
    assert l_r.item() == pytest.approx((0.3132617 + (0.1269280 + 0.6931472) / 2) / 2, abs=1e-6)
    assert l_p.item() == pytest.approx(0.6931472, abs=1e-6)


def test_what_is_no_negative_does_not_count_whatever_stands_in_its_place():
    scores = torch.tensor([[1.0, float("inf"), 0.0], [5.0, 2.0, 1.0], [0.0, 1.0, 3.0]])
    counted = torch.tensor([[False, False, True], [False, False, True], [True, True, False]])
    l_r, _ = coarse_nce(scores, torch.zeros(3, 3), counted=counted)

    def cross_entropy(right, *others):
        return np.log(sum(np.exp(other - right) for other in (right, *others)))

    rows = [cross_entropy(1, 0), cross_entropy(2, 1), cross_entropy(3, 0, 1)]
    columns = [cross_entropy(1, 0), cross_entropy(2, 1), cross_entropy(3, 0, 1)]
    assert l_r.item() == pytest.approx((np.mean(rows) + np.mean(columns)) / 2, abs=1e-6)


def test_hard_negatives_by_hand():
    own, hard = torch.tensor([1.0, 0.0, 3.0]), torch.tensor([0.0, 2.0, float("nan")])
    there = torch.tensor([True, True, False])
    # ln(1 + e^-1) = 0.3132617 and ln(1 + e^2) = 2.1269280
    assert hard_negative_loss(own, hard, there=there).item() == pytest.approx(1.2200948, abs=1e-6)
    assert hard_negative_loss(own[:2], hard[:2]).item() == pytest.approx(1.2200948, abs=1e-6)
    assert hard_negative_loss(own, hard, there=torch.zeros(3, dtype=torch.bool)).item() == 0


def test_token_loss_by_hand():
    alpha = torch.tensor([[0.4, 0.4, 0.1, 0.1], [0.5, 0.5, 0.0, 0.0]])
    labels = torch.tensor([[1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, True, False], [True, True, False, False]])
    # the first row: −(ln 0.4 + ln 0.1 + ln 0.1) / 3: a null region counts above, not below, the line
    expected = [-(np.log(0.4) + 2 * np.log(0.1)) / 3, np.log(2) / 2]
    assert token_loss(alpha, labels, mask).tolist() == pytest.approx(expected, abs=1e-6)


def test_a_row_without_labels_costs_nothing_and_a_share_of_nothing_still_has_a_gradient():
    alpha = torch.tensor([[0.0, 1.0]])
    nothing = token_loss(alpha, torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.bool))
    assert nothing.tolist() == [0.0]
    logits = torch.tensor([[-80.0, 0.0]], requires_grad=True)
    loss = token_loss(logits.softmax(dim=-1), torch.tensor([[1.0, 0.0]]), torch.ones(1, 2, dtype=torch.bool))
    loss.sum().backward()
    assert loss.item() == pytest.approx(40.0) and logits.grad[0, 0].item() == pytest.approx(-0.5, abs=1e-4)


def test_a_word_has_the_shares_of_its_pieces():
    alpha = torch.tensor([[0.2, 0.3, 0.5]])
    # the second piece lies half in either word, the third in none
    shares = torch.tensor([[[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]])
    assert word_shares(alpha, shares)[0].tolist() == pytest.approx([0.35, 0.15])


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_coarse_losses_equal_numpy_in_any_order(seed, n):
    generator = np.random.default_rng(seed)
    scores, counted = generator.normal(0, 3, (n, n)), generator.random((n, n)) < 0.7
    counted |= counted.T
    expected = 0.0
    for i in range(n):
        kept = [j for j in range(n) if j == i or counted[i, j]]
        row, column = np.exp(scores[i, kept]).sum(), np.exp(scores[kept, i]).sum()
        expected += (np.log(row) + np.log(column) - 2 * scores[i, i]) / (2 * n)
    order = generator.permutation(n)
    shuffled = torch.from_numpy(scores[np.ix_(order, order)])
    mask = torch.from_numpy(counted[np.ix_(order, order)])
    for loss in coarse_nce(shuffled, shuffled, counted=mask):
        assert loss.item() == pytest.approx(expected, abs=1e-9)
