"""What both stages of the image tower minimise, and how they train and write a tower.

Photos are contrasted with captions, and captions with photos of this and the last steps. Part of the target
is spread over all captions by their similarity to those of the photo: a hard target alone pushes a photo away
from captions that fit it as well, and agrees less with people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.backbones.embedded.image_tower import ImageTower
from training.data.batches import ShuffledBatches
from training.engine.loop import Loss, RunResult, run
from training.engine.loop_settings import require
from training.engine.model_card import ModelCard, write_card
from training.engine.processes import Gather
from training.engine.recipe import write_settings
from training.engine.saved_towers import save_image_tower
from weights.making.image_tower.data import CaptionDraws
from weights.making.settings import TowerSettings

# Settings that do not change the weights, or that the digest of the data covers.
NO_IDENTITY = ("data", "photos", "texts", "name", "license")
# Photos that the scale of cosines is measured on.
_SCALE_PHOTOS = 1000
# Smallest and largest side of a random region, as a share of the photo's.
_SIDES = (0.35, 0.95)


class Learner(nn.Module):
    """The tower, and the photos of the last steps, which checkpoints hold with it."""

    recent: Tensor  # (recent, dim), embeddings of photos, the last first
    recent_rows: Tensor  # (recent,) int64, their numbers; −1 where there is none yet

    def __init__(self, tower: ImageTower, recent: int):
        super().__init__()
        self.tower = tower
        self.register_buffer("recent", torch.zeros(recent, tower.config.dim))
        self.register_buffer("recent_rows", torch.full((recent,), -1, dtype=torch.int64))


class Drawn(NamedTuple):
    """Captions of a step."""

    places: Tensor  # (m, dim)
    owner: Tensor  # int64 (m,), number of the photo of each
    asked: Tensor  # int64 (k,), those that are contrasted with photos
    like: Tensor  # (k, dim), by whose similarity to the photos' mean captions their targets are spread


class Contrast:
    """The losses that both stages have; `means` (photos, dim) are the means of the photos' captions."""

    def __init__(self, settings: TowerSettings, means: Tensor):
        self.settings, self.means = settings, means

    def contrasts(
        self, learner: Learner, gather: Gather, own: Tensor, seen: Tensor, drawn: Drawn, wrong: Tensor
    ) -> dict[str, Tensor]:
        """Losses of the batch's photos, whose numbers are `own` (n,).

        `seen` (n, 2, dim) are embeddings of each photo and of a region of it; photos are contrasted with
        `wrong` captions (w, dim) as well.
        """
        scale, (photos, regions) = self.settings.logit_scale, seen.unbind(dim=1)
        hard = (drawn.owner == own[:, None]).float()
        target = self._target(hard / hard.sum(dim=1, keepdim=True), self.means[own] @ drawn.places.T)
        logits = scale * photos @ drawn.places.T
        known, batch, numbers = learner.recent_rows >= 0, gather(photos), gather(own)
        rows = torch.cat([numbers, learner.recent_rows[known]])
        # a photo seen some steps ago is no negative of its own caption, whose right place is the newest
        same = rows == drawn.owner[drawn.asked][:, None]
        first = F.one_hot(same.int().argmax(dim=1), len(rows)).bool()
        twice = same & ~first
        wanted = self._target(first, (drawn.like @ self.means[rows].T).masked_fill(twice, -torch.inf))
        of_captions = scale * drawn.places[drawn.asked] @ torch.cat([batch, learner.recent[known]]).T
        kept = len(learner.recent)
        learner.recent.copy_(torch.cat([batch.detach(), learner.recent])[:kept])
        learner.recent_rows.copy_(torch.cat([numbers, learner.recent_rows])[:kept])
        # the contrast of one photo's captions does not change when all its logits grow; that of all pairs
        # compares photos
        of_pairs = logits.logsumexp(dim=(0, 1)) - math.log(len(logits))
        with_wrong = torch.cat([logits, scale * photos @ wrong.T], dim=1)
        return {
            "photo": cross_entropy(with_wrong, F.pad(target, (0, len(wrong)))),
            "caption": cross_entropy(of_captions.masked_fill(twice, -1e4), wanted),
            "region": cross_entropy(scale * regions @ drawn.places.T, target),
            "pair": of_pairs - (target * logits).sum(dim=-1).mean(),
        }

    def _target(self, hard: Tensor, cosines: Tensor) -> Tensor:
        settings = self.settings
        near = (settings.logit_scale * settings.softness * cosines).softmax(dim=-1)
        return (1.0 - settings.soft_share) * hard + settings.soft_share * near


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return -(target * logits.log_softmax(dim=-1)).sum(dim=-1).mean()


def chance_of_step() -> np.random.Generator:
    """A generator that follows torch's, which the loop seeds at each step."""
    return np.random.default_rng(int(torch.randint(2**31, ())))


def random_boxes(n: int, chance: np.random.Generator) -> Tensor:
    """The whole photo and one box in it, (n, 2, 4), left, top, right, bottom as shares of its sides."""
    sides = chance.uniform(*_SIDES, size=(n, 2))
    corner = chance.uniform(size=(n, 2)) * (1.0 - sides)
    whole = np.tile([0.0, 0.0, 1.0, 1.0], (n, 1))
    return torch.from_numpy(np.stack([whole, np.hstack([corner, corner + sides])], axis=1).astype(np.float32))


def device_of(network: nn.Module) -> torch.device:
    return next(network.parameters()).device


class WeightAverage(nn.Module):
    """A model with the exponential moving average of those of its weights that require gradients.

    Pass it to `training.engine.loop.run` in the model's place, with `after_step=WeightAverage.update`. The
    average is in buffers, which checkpoints hold, and of trained weights alone. `decay` is its share that
    stays in a step; in the first ones less, (1 + n) / (10 + n) after n, so that the start is soon forgotten.
    """

    steps: Tensor

    def __init__(self, model: nn.Module, decay: float):
        super().__init__()
        require(0 <= decay < 1, "average_decay", decay, "a number from 0 to below 1")
        self.model, self.decay = model, decay
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        numbered = enumerate(model.parameters())
        self._trained = {f"average_{number}": item for number, item in numbered if item.requires_grad}
        for name, parameter in self._trained.items():
            self.register_buffer(name, parameter.detach().clone())

    @torch.no_grad()
    def update(self) -> None:
        n = int(self.steps)
        decay = min(self.decay, (1 + n) / (10 + n))
        for name, parameter in self._trained.items():
            self.get_buffer(name).lerp_(parameter, 1 - decay)
        self.steps += 1

    @torch.no_grad()
    def keep(self) -> nn.Module:
        """Give the model its averaged weights for good; returns the model."""
        for name, parameter in self._trained.items():
            parameter.copy_(self.get_buffer(name))
        return self.model


def train_tower(
    settings: TowerSettings, tower: ImageTower, loss: Loss, photos: int, identity: Mapping[str, Any]
) -> RunResult:
    """Train what is not frozen of the trunk, and the head, on so many photos, by `run`.

    The tower gets the average of its weights.
    """
    tower.head.dropout = settings.dropout
    average = WeightAverage(Learner(tower, settings.recent), settings.average_decay).train()
    result = run(
        average,
        ShuffledBatches(range(photos), settings.batch_size, settings.seed),
        loss,
        settings,
        parameters=[
            {"params": [item for item in tower.trunk.parameters() if item.requires_grad]},
            {"params": list(tower.head.parameters()), "lr": settings.head_learning_rate},
        ],
        identity=identity,
        after_step=WeightAverage.update,
    )
    average.keep()
    tower.eval()
    return result


def measured_w(
    tower: ImageTower, maps_of: Callable[[np.ndarray], Tensor], draws: CaptionDraws, photos: np.ndarray
) -> float:
    """The factor that brings cosines of photos and captions to the scale of two captions of one photo.

    RefCLIPScore takes the harmonic mean of w · cos(photo, caption) and cos(reference, caption). Measured on
    about 1,000 of the whole photos that were trained on, whose feature maps `maps_of` gives.
    """
    photos, chance = photos[:: max(1, len(photos) // _SCALE_PHOTOS)], np.random.default_rng(0)
    with torch.inference_mode():
        first, second = (tower.text.adapted(rows.to(device_of(tower))) for rows in draws.two(photos, chance))
        starts = range(0, len(photos), 32)
        found = torch.cat([tower.embed(maps_of(photos[start : start + 32])) for start in starts])
        images, texts = ((first * rows).sum(dim=1).mean().item() for rows in (found, second))
    return texts / images


def save(settings: TowerSettings, tower: ImageTower, step: int, card: ModelCard, w: float) -> None:
    out = Path(settings.out).expanduser()
    # the captions of one photo agree in every language of the encoder
    notes = {"recipe": "image_tower", "steps": step}
    save_image_tower(tower, out, w=w, logit_scale=settings.logit_scale, languages=None, notes=notes)
    write_settings(out, settings)
    write_card(out, card)
