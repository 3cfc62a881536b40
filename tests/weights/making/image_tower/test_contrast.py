"""The loss of the eye on three photos, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from capscore.backbones.embedded.image_tower import ImageTower
from weights.making.image_tower.data import CaptionDraws
from weights.making.image_tower.features import TrainedHalf
from weights.making.image_tower.fit import ContrastLoss, Learner

from . import test_fit


class Average(nn.Module):
    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model


def made(tmp_path, **changes):
    data = test_fit.data()
    data.tower.requires_grad_(False)
    settings = test_fit.settings(tmp_path, region_weight=0.0, **changes)
    draws = CaptionDraws(data.captions, ("en", "zh"), 0.5)
    half = TrainedHalf(data.tower.trunk, data.frozen_blocks)
    return data, settings, draws, half, ContrastLoss(data, half, draws, settings)


def softmax(rows: np.ndarray) -> np.ndarray:
    rows = np.exp(rows - rows.max(axis=-1, keepdims=True))
    return rows / rows.sum(axis=-1, keepdims=True)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.mark.parametrize("soft_share", [0.0, 0.4])
def test_the_loss_of_two_steps_by_hand(tmp_path, soft_share):
    data, settings, draws, half, loss = made(tmp_path, soft_share=soft_share, softness=0.5, recent=3)
    eye: ImageTower = data.tower.eval()
    learner = Learner(eye, settings.recent).eval()
    captioned = [n for n in range(test_fit.PHOTOS) if n != 5]
    assert loss.captioned.tolist() == captioned
    # mean captions of all photos, on the unit sphere; the adapter is still zero
    means = unit(np.array([draws.means(np.array([n]))[0].numpy() for n in captioned]))
    earlier, places = np.zeros((0, 12)), []
    for seed, rows in ((1, [4, 7]), (2, [7, 20])):
        torch.manual_seed(seed)
        found = loss(Average(learner), rows, lambda tensor: tensor)
        # what the loss drew: views, then one caption of every photo
        torch.manual_seed(seed)
        chance = np.random.default_rng(int(torch.randint(2**31, ())))
        views = chance.integers(3, size=2)
        features = np.stack([data.views[view][row] for view, row in zip(views, rows, strict=True)])
        photos = eye.embed(half(torch.from_numpy(features).float())).double().numpy()
        captions = unit(draws.at(draws.places(np.array(captioned), chance)).double().numpy())
        own = [captioned.index(row) for row in rows]
        # photos → captions of all photos
        target = (1 - soft_share) * np.eye(len(captioned))[own]
        target += soft_share * softmax(5.0 * means[own] @ captions.T)
        expected = -(target * np.log(softmax(10.0 * photos @ captions.T))).sum(axis=1).mean()
        assert found["photo"].item() == pytest.approx(expected, abs=1e-5)
        # captions → photos of this step and of the earlier ones, without those of the caption's own photo
        terms = []
        for number, place in enumerate(own):
            kept = [n for n, other in enumerate(places) if other != place]
            others = np.vstack([photos, earlier[kept]])
            names = own + [places[n] for n in kept]
            near = softmax(5.0 * captions[place] @ means[names].T)
            target = (1 - soft_share) * np.eye(len(names))[number] + soft_share * near
            terms.append(-(target * np.log(softmax(10.0 * captions[place] @ others.T))).sum())
        assert found["caption"].item() == pytest.approx(np.mean(terms), abs=1e-5)
        assert found["loss"].item() == pytest.approx((expected + np.mean(terms)) / 2, abs=1e-5)
        earlier, places = np.vstack([photos, earlier])[:3], (own + places)[:3]
        np.testing.assert_allclose(learner.recent[: len(places)].numpy(), earlier, atol=1e-6)
        assert learner.recent_rows[: len(places)].tolist() == places


def test_pairs_are_compared_across_photos(tmp_path):
    data, _, draws, half, loss = made(tmp_path, soft_share=0.3, softness=0.5, pair_weight=0.5)
    eye: ImageTower = data.tower.eval()
    rows = [4, 7, 20]
    torch.manual_seed(5)
    found = loss(Average(Learner(eye, 4).eval()), rows, lambda tensor: tensor)
    torch.manual_seed(5)
    chance = np.random.default_rng(int(torch.randint(2**31, ())))
    views = chance.integers(3, size=3)
    features = np.stack([data.views[view][row] for view, row in zip(views, rows, strict=True)])
    photos = eye.embed(half(torch.from_numpy(features).float())).double().numpy()
    captioned = loss.captioned
    captions = unit(draws.at(draws.places(captioned, chance)).double().numpy())
    means = unit(np.array([draws.means(np.array([n]))[0].numpy() for n in captioned]))
    own = [captioned.tolist().index(row) for row in rows]
    target = 0.7 * np.eye(len(captioned))[own] + 0.3 * softmax(5.0 * means[own] @ captions.T)
    logits = 10.0 * photos @ captions.T
    expected = np.log(np.exp(logits).sum() / 3) - (target * logits).sum() / 3
    assert found["pair"].item() == pytest.approx(expected, abs=1e-5)
    rest = (found["photo"] + found["caption"]) / 2
    assert found["loss"].item() == pytest.approx(rest.item() + 0.5 * expected, abs=1e-5)
    # photos whose wanted captions stand out by the same cosine cost the least
    assert found["pair"].item() >= found["photo"].item() - 1e-6


def test_the_names_of_classes_are_contrasted_with_given_shares(tmp_path):
    data, settings, draws, half, _ = made(tmp_path, names_weight=0.5, softness=0.5)
    eye: ImageTower = data.tower.eval()
    chance = np.random.default_rng(3)
    shares = chance.dirichlet(np.ones(eye.config.classes), test_fit.PHOTOS)
    loss = ContrastLoss(data, half, draws, settings, shares)
    with torch.no_grad():
        names = unit(eye.head.names.double().numpy())
        eye.head.names.zero_()  # the head's own may change
    rows, found = [2, 9], {}
    for weight in (0.0, 0.5):
        settings.names_weight = weight
        torch.manual_seed(5)
        found[weight] = loss(Average(Learner(eye, 4).eval()), rows, lambda tensor: tensor)
    torch.manual_seed(5)
    views = np.random.default_rng(int(torch.randint(2**31, ()))).integers(3, size=2)
    features = np.stack([data.views[view][row] for view, row in zip(views, rows, strict=True)])
    photos = eye.embed(half(torch.from_numpy(features).float())).double().numpy()
    own = shares[rows]
    sure = 1 - -(own * np.log(own)).sum(axis=1) / np.log(len(names))
    assert (sure > 0).all()
    cross_entropy = -(own * np.log(softmax(5.0 * photos @ names.T))).sum(axis=1)
    expected = (sure * cross_entropy).mean()
    assert found[0.5]["names"].item() == pytest.approx(expected, abs=1e-5)
    assert found[0.5]["loss"].item() == pytest.approx(found[0.0]["loss"].item() + 0.5 * expected, abs=1e-5)


def test_parts_of_views_are_cut_from_them_and_half_are_mirrored(tmp_path):
    data, _, _, _, loss = made(tmp_path, least_part=0.5)
    for view in data.views:  # every cell knows its place
        view[...] = np.arange(16).reshape(4, 4)
    rows, chance = list(range(24)), np.random.default_rng(0)
    shapes, mirrored, corners = set(), 0, set()
    for _ in range(200):
        parts = loss._features(rows, np.zeros(24, dtype=int), chance)[:, 0].astype(int)
        shapes.add(parts.shape[1:])
        # along a column cells differ by a row of the view, whether it is mirrored or not
        assert (np.diff(parts, axis=1) == 4).all()
        across = np.diff(parts, axis=2)
        assert (np.abs(across) == 1).all() and (across == across[:, :1, :1]).all()
        mirrored += int((across[:, 0, 0] < 0).sum())
        corners |= set(parts.min(axis=(1, 2)).tolist())
    assert shapes == {(h, w) for h in (2, 3, 4) for w in (2, 3, 4)}
    assert 2200 < mirrored < 2600  # of 4,800
    assert corners == {0, 1, 2, 4, 5, 6, 8, 9, 10}


@pytest.mark.parametrize("train_depthwise", [False, True])
def test_depthwise_convolutions_stay_unless_they_are_trained(train_depthwise):
    eye = test_fit.data().tower
    half = TrainedHalf(eye.trunk, 0, train_depthwise=train_depthwise)
    with torch.autocast("cpu", torch.bfloat16):
        maps = half(torch.rand(2, test_fit.SMALL.stem, 8, 8))
    maps.float().square().sum().backward()
    for block in half.blocks:
        assert (block.depthwise.weight.grad is not None) == train_depthwise
        assert block.project.weight.grad is not None
    # in full precision both ways of computing a block agree
    with torch.no_grad():
        rows = torch.rand(2, test_fit.SMALL.stem, 8, 8)
        plain = torch.nn.functional.relu6(eye.trunk.last(eye.trunk.blocks(rows)))
        torch.testing.assert_close(half(rows), plain)


def test_a_region_adds_its_own_contrast(tmp_path):
    data, settings, _, _, loss = made(tmp_path)
    learner = Learner(data.tower.eval(), settings.recent).eval()
    losses = []
    for weight in (0.0, 0.5):
        settings.region_weight = weight
        torch.manual_seed(3)
        learner.recent_rows.fill_(-1)
        losses.append(loss(Average(learner), [0, 1, 2], lambda tensor: tensor))
    plain, with_region = losses
    assert set(with_region) - set(plain) == {"region"}
    assert with_region["loss"].item() == pytest.approx(
        plain["loss"].item() + 0.5 * with_region["region"].item(), abs=1e-6
    )
