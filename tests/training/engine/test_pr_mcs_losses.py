"""The losses of PR-MCS against numbers worked out by hand and against NumPy."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from training.engine import pr_mcs_losses as losses
from training.engine.pr_mcs_losses import (
    LossWeights,
    contrastive_loss,
    keep_close_loss,
    matching_loss,
    noise_loss,
    pr_mcs_loss,
)

# three unit rows in the plane, whose cosines are easy: 0.6, 0.8, 0.96
EAST, NORTH_EAST, NORTH = [1.0, 0.0], [0.6, 0.8], [0.0, 1.0]
IMAGES = torch.tensor([EAST, NORTH])
CAPTIONS = torch.tensor([NORTH_EAST, NORTH_EAST])


def test_docstring_examples():
    result = doctest.testmod(losses, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted >= 5 and not result.failed


def test_weights_are_those_of_the_paper():
    weights = LossWeights()
    assert (weights.lambda_1, weights.lambda_2, weights.lambda_3) == (0.1, 0.05, 0.05)
    assert (weights.margin, weights.clip, weights.keep_close) == (0.1, 1.0, 0.0)


def test_each_term_by_hand():
    # cos(V, T(o)) is 0.6 and 0.8
    assert matching_loss(IMAGES, CAPTIONS).item() == pytest.approx(1 - 0.7)
    perturbed = torch.tensor([[EAST], [EAST]])
    # image: cos 1 and 0, the latter held at the margin
    assert noise_loss(IMAGES, perturbed, margin=0.1).item() == pytest.approx((1 + 0.1) / 2)
    assert noise_loss(IMAGES, perturbed, margin=0.0).item() == pytest.approx(0.5)
    # caption: cos 0.6 twice
    assert noise_loss(CAPTIONS, perturbed, margin=0.1).item() == pytest.approx(0.6)
    assert keep_close_loss(CAPTIONS, IMAGES).item() == pytest.approx(0.3)
    # logits [[1.2, 1.2], [1.6, 1.6]]: each image knows neither caption (ln 2); each caption prefers NORTH by
    # 0.4: ln(1 + e^0.4) where EAST is right, ln(1 + e^-0.4) where NORTH is
    expected = (np.log(2) + (np.log1p(np.exp(0.4)) + np.log1p(np.exp(-0.4))) / 2) / 2
    assert expected == pytest.approx(0.7030812, abs=1e-6)
    assert contrastive_loss(IMAGES, CAPTIONS, logit_scale=2.0).item() == pytest.approx(expected, abs=1e-6)


def test_total_by_hand():
    perturbed = torch.tensor([[EAST], [EAST]])
    weights = LossWeights(clip=2.0, lambda_1=0.5, lambda_2=0.25, lambda_3=0.125, keep_close=10.0)
    terms = pr_mcs_loss(IMAGES, CAPTIONS, perturbed, weights=weights, logit_scale=2.0, before=IMAGES)
    assert list(terms) == ["loss", "clip", "l1", "l2", "l3", "keep_close"]
    # 2·0.7030812 + 0.5·0.3 + 0.25·0.55 + 0.125·0.6 + 10·0.3
    assert terms["loss"].item() == pytest.approx(4.7686624, abs=1e-5)


def test_rows_of_one_image_or_text_are_no_negatives_where_told():
    images = torch.tensor([EAST, EAST, NORTH])
    captions = torch.tensor([EAST, NORTH_EAST, NORTH])
    plain = contrastive_loss(images, captions, logit_scale=1.0).item()
    told = contrastive_loss(images, captions, logit_scale=1.0, image_groups=torch.tensor([7, 7, 9])).item()

    def cross_entropy(right, *others):
        return np.log(sum(np.exp(other - right) for other in (right, *others)))

    by_image = [cross_entropy(1, 0), cross_entropy(0.6, 0), cross_entropy(1, 0, 0.8)]
    by_caption = [cross_entropy(1, 0), cross_entropy(0.6, 0.8), cross_entropy(1, 0, 0)]
    assert told == pytest.approx((np.mean(by_image) + np.mean(by_caption)) / 2, abs=1e-6)
    assert told < plain
    texts = contrastive_loss(images, captions, logit_scale=1.0, caption_groups=torch.tensor([7, 7, 9])).item()
    assert texts == pytest.approx(told)
    alone = contrastive_loss(images, captions, logit_scale=1.0, caption_groups=torch.arange(3)).item()
    assert alone == pytest.approx(plain)


def _unit(generator, *shape):
    rows = generator.normal(size=shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def _in_numpy(images, captions, perturbed, changed, weights, scale):
    """The objective once more, row by row."""
    n = len(images)
    clip = 0.0
    for i in range(n):
        row = [scale * float(images[i] @ captions[j]) for j in range(n)]
        column = [scale * float(images[j] @ captions[i]) for j in range(n)]
        clip -= (row[i] - np.log(np.exp(row).sum()) + column[i] - np.log(np.exp(column).sum())) / (2 * n)
    l1 = np.mean([1 - images[i] @ captions[i] for i in range(n)])
    pairs = [(i, k) for i in range(n) for k in range(perturbed.shape[1]) if changed[i, k]]
    l2 = np.mean([max(weights.margin, images[i] @ perturbed[i, k]) for i, k in pairs]) if pairs else 0
    l3 = np.mean([max(weights.margin, captions[i] @ perturbed[i, k]) for i, k in pairs]) if pairs else 0
    return weights.clip * clip + weights.lambda_1 * l1 + weights.lambda_2 * l2 + weights.lambda_3 * l3


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 5), st.floats(-0.5, 0.9))
def test_the_objective_equals_numpy_and_does_not_depend_on_the_order_of_rows(seed, n, k, margin):
    generator = np.random.default_rng(seed)
    images, captions = _unit(generator, n, 8), _unit(generator, n, 8)
    perturbed, changed = _unit(generator, n, k, 8), generator.random((n, k)) < 0.7
    weights = LossWeights(margin=margin, lambda_1=0.3, lambda_2=0.7, lambda_3=0.2)

    def total(order):
        return pr_mcs_loss(
            *(torch.from_numpy(rows[order]) for rows in (images, captions, perturbed)),
            weights=weights,
            logit_scale=4.0,
            changed=torch.from_numpy(changed[order]),
        )["loss"].item()

    expected = _in_numpy(images, captions, perturbed, changed, weights, 4.0)
    assert total(np.arange(n)) == pytest.approx(expected, abs=1e-9)
    assert total(generator.permutation(n)) == pytest.approx(expected, abs=1e-9)


def test_gradients_are_those_of_a_hinge():
    anchors = torch.tensor([EAST, EAST, EAST])
    # cosines 0.6 (above the margin), 0.1 (at it) and 0 (below)
    perturbed = torch.tensor([[NORTH_EAST], [[0.1, 0.99**0.5]], [NORTH]], requires_grad=True)
    noise_loss(anchors, perturbed, margin=0.1).backward()
    expected = [[[1 / 3, 0.0]], [[0.0, 0.0]], [[0.0, 0.0]]]
    assert torch.allclose(perturbed.grad, torch.tensor(expected))

    hinge = perturbed.detach().clone().requires_grad_()
    ((anchors[:, None] * hinge).sum(-1) - 0.1).clamp(min=0).mean().backward()
    assert torch.allclose(perturbed.grad[[0, 2]], hinge.grad[[0, 2]], rtol=0, atol=1e-6)


def test_an_empty_place_counts_for_nothing_whatever_stands_in_it():
    anchors = torch.tensor([EAST, NORTH])
    perturbed = torch.tensor([[NORTH_EAST], [[float("nan"), 0.0]]], requires_grad=True)
    changed = torch.tensor([[True], [False]])
    loss = noise_loss(anchors, perturbed, margin=0.1, changed=changed)
    assert loss.item() == pytest.approx(0.6)
    nothing = noise_loss(anchors, perturbed, margin=0.1, changed=torch.zeros(2, 1, dtype=torch.bool))
    assert nothing.item() == 0


def test_a_term_without_weight_cannot_spoil_the_sum():
    broken = torch.full((2, 1, 2), float("nan"))
    weights = LossWeights(lambda_2=0.0, lambda_3=0.0)
    terms = pr_mcs_loss(IMAGES, CAPTIONS, broken, weights=weights, logit_scale=1.0)
    assert torch.isfinite(terms["loss"]) and torch.isnan(terms["l2"])
    terms = pr_mcs_loss(IMAGES, CAPTIONS, broken, weights=LossWeights(), logit_scale=1.0)
    assert torch.isnan(terms["loss"])


def test_keeping_close_needs_the_rows_from_before():
    with pytest.raises(ValueError, match="before=None"):
        pr_mcs_loss(IMAGES, CAPTIONS, CAPTIONS[:, None], weights=LossWeights(keep_close=1.0), logit_scale=1.0)
