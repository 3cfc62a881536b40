"""The loss of the eye on three photos, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from capscore.backbones.eye import Eye
from training.embedded.eye.caption_draws import CaptionDraws
from training.embedded.eye.contrast import EyeLoss, Learner
from training.embedded.eye.trunk_halves import TrainedHalf

from . import test_fit


class Average(nn.Module):
    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model


def made(tmp_path, **changes):
    data = test_fit.data()
    data.eye.requires_grad_(False)
    settings = test_fit.settings(tmp_path, region_weight=0.0, **changes)
    draws = CaptionDraws(data.captions, ("en", "zh"), 0.5)
    half = TrainedHalf(data.eye.trunk, data.frozen_blocks)
    return data, settings, draws, half, EyeLoss(data, half, draws, settings)


def softmax(rows: np.ndarray) -> np.ndarray:
    rows = np.exp(rows - rows.max(axis=-1, keepdims=True))
    return rows / rows.sum(axis=-1, keepdims=True)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.mark.parametrize("soft_share", [0.0, 0.4])
def test_the_loss_of_two_steps_by_hand(tmp_path, soft_share):
    data, settings, draws, half, loss = made(tmp_path, soft_share=soft_share, softness=0.5, recent=3)
    eye: Eye = data.eye.eval()
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


def test_a_region_adds_its_own_contrast(tmp_path):
    data, settings, _, _, loss = made(tmp_path)
    learner = Learner(data.eye.eval(), settings.recent).eval()
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
