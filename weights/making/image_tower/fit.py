"""Rows, features and embeddings of captions → a trained image tower.

The trunk's frozen half is read from disk. First the adapter of the text side is learned from captions alone;
then the trunk's other half and the head are trained with it fixed, by contrast: photos against the captions
of all photos, and captions against recent photos. Part of the target is spread over all captions by their
similarity to those of the photo: a hard target alone pushes a photo away from captions that fit it as well,
and agrees less with people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.backbones.base import PUBLISHED_W
from capscore.backbones.embedded.image_tower import ImageTower
from capscore.backbones.embedded.text_encoder import LANGUAGES
from capscore.errors import CapscoreError, Setting
from training.data.batches import ShuffledBatches
from training.engine.loop import Loss, RunResult, run
from training.engine.model_card import ModelCard, write_card
from training.engine.processes import Gather, main_process_first, say
from training.engine.recipe import own_settings, write_settings
from training.engine.saved_towers import save_image_tower
from weights.making.image_tower.data import CaptionDraws, TrainingData, learned_adapter
from weights.making.image_tower.features import TrainedHalf, stored
from weights.making.image_tower.weight_average import WeightAverage
from weights.making.settings import ImageTowerSettings, TowerSettings

# Settings that do not change the weights, or that the digest of the data covers.
NO_IDENTITY = ("data", "photos", "texts", "name", "license")
# Photos that the scale of cosines is measured on.
_SCALE_PHOTOS = 1000
_AT_ONCE = 64
# Smallest and largest side of a random region, as a share of the photo's.
_SIDES = (0.35, 0.95)


def fit(settings: ImageTowerSettings, data: TrainingData) -> tuple[RunResult, float]:
    """Train the image tower of `data` in place, from the newest checkpoint or from the start.

    Returns how far the run has come, and w, the factor on cosines of photos and captions.
    """
    tower = data.tower
    freeze(tower, data.frozen_blocks)
    half = TrainedHalf(tower.trunk, data.frozen_blocks, train_depthwise=settings.train_depthwise).to(
        memory_format=torch.channels_last
    )
    draws = CaptionDraws(data.captions, LANGUAGES, settings.english_share)
    with main_process_first():  # the others find the file
        shares = _shares(settings, data, half) if settings.names_weight else None
    say("learning the text adapter")
    # as much English as any other language, because the adapter is for all of them
    even = [CaptionDraws(found, LANGUAGES) for found in (data.captions, data.texts)]
    adapter = learned_adapter(even, tower.config.dim, settings.adapter_share, seed=settings.seed)
    with torch.no_grad():
        tower.text.adapter.weight.copy_(adapter)
        tower.head.names.copy_(tower.text.adapted(tower.head.names))
    loss = ContrastLoss(data, half, draws, settings, shares)
    identity = {**own_settings(settings, NO_IDENTITY), "data_digest": data.digest}
    result = train_tower(settings, tower, half, loss, loss.captioned.tolist(), identity)
    if not result.finished:
        return result, PUBLISHED_W
    return result, measured_w(tower, whole_maps(data, half), draws, loss.captioned)


def freeze(tower: ImageTower, blocks: int) -> None:
    """Keep the text place, and the trunk's stem and first blocks, as they are."""
    nn.ModuleList([tower.trunk.stem, tower.trunk.blocks[:blocks], tower.text]).requires_grad_(False)


def train_tower(
    settings: TowerSettings,
    tower: ImageTower,
    half: TrainedHalf,
    loss: Loss,
    photos: Sequence[int],
    identity: Mapping[str, Any],
) -> RunResult:
    """Train half of the trunk, and the head, on photos; the tower gets the average of its weights."""
    tower.head.dropout = settings.dropout
    average = WeightAverage(Learner(tower, settings.recent), settings.average_decay).train()
    result = run(
        average,
        ShuffledBatches(photos, settings.batch_size, settings.seed),
        loss,
        settings,
        parameters=[
            {"params": [item for item in half.parameters() if item.requires_grad]},
            {"params": list(tower.head.parameters()), "lr": settings.head_learning_rate},
        ],
        identity=identity,
        after_step=WeightAverage.update,
    )
    average.keep()
    tower.eval()
    return result


def save(settings: TowerSettings, tower: ImageTower, step: int, card: ModelCard, w: float) -> None:
    out = Path(settings.out).expanduser()
    # the captions of one photo agree in every language of the encoder
    notes = {"recipe": "image_tower", "steps": step}
    save_image_tower(tower, out, w=w, logit_scale=settings.logit_scale, languages=None, notes=notes)
    write_settings(out, settings)
    write_card(out, card)


def whole_maps(data: TrainingData, half: TrainedHalf) -> Callable[[np.ndarray], Tensor]:
    views = data.views[0]
    return lambda rows: half(torch.from_numpy(views[rows]).to(device_of(data.tower)).float())


def _shares(settings: ImageTowerSettings, data: TrainingData, half: TrainedHalf) -> np.ndarray:
    """Shares of ImageNet's classes in each whole photo, float16 (photos, classes), by the trunk as published.

    Learned from captions alone, the image tower forgets what no caption mentions; these shares keep it.
    """

    def computed() -> np.ndarray:
        say("the classes of the photos, by the trunk as published")
        found, device = [], device_of(data.tower)
        for start in range(0, len(data.views[0]), _AT_ONCE):
            rows = torch.from_numpy(np.array(data.views[0][start : start + _AT_ONCE])).to(device).float()
            with (
                torch.inference_mode(),
                torch.autocast(device.type, torch.bfloat16, enabled=settings.half_precision),
            ):
                maps = half(rows.contiguous(memory_format=torch.channels_last)).float()
                logits = data.tower.head.classes(maps.mean(dim=(2, 3))).float()
            found.append(logits.softmax(dim=-1).cpu().numpy().astype(np.float16))
        return np.concatenate(found)

    digest = xxhash.xxh3_64_hexdigest(data.digest.encode())
    return stored(Path(settings.out).expanduser() / f"shares-{digest}.npy", computed)


def measured_w(
    tower: ImageTower, maps_of: Callable[[np.ndarray], Tensor], draws: CaptionDraws, photos: np.ndarray
) -> float:
    """The factor that brings cosines of photos and captions to the scale of two captions of one photo.

    RefCLIPScore takes the harmonic mean of w · cos(photo, caption) and cos(reference, caption). Measured on
    about 1,000 of the whole photos that were trained on, whose feature maps `maps_of` gives; an error if they
    are no nearer to their captions than chance.
    """
    photos, chance = photos[:: max(1, len(photos) // _SCALE_PHOTOS)], np.random.default_rng(0)
    with torch.inference_mode():
        first, second = (tower.text.adapted(rows.to(device_of(tower))) for rows in draws.two(photos, chance))
        cosines = []
        for start in range(0, len(photos), 32):
            found = tower.embed(maps_of(photos[start : start + 32]))
            cosines.append((found * first[start : start + 32]).sum(dim=1))
        texts = (first * second).sum(dim=1).mean().item()
        images = torch.cat(cosines).mean().item()
    if images <= 0:
        said = f"the mean cosine of {len(photos)} photos and their captions is {images:.3f}"
        raise CapscoreError(
            said, ", no more than chance: train longer, or with another ", Setting("learning_rate")
        )
    return texts / images


class Learner(nn.Module):
    """The tower, and the photos of the last steps, which checkpoints hold with it."""

    recent: Tensor  # (recent, dim), embeddings of photos, the last first
    recent_rows: Tensor  # (recent,) int64, their numbers; −1 where there is none yet

    def __init__(self, tower: ImageTower, recent: int):
        super().__init__()
        self.tower = tower
        self.register_buffer("recent", torch.zeros(recent, tower.config.dim))
        self.register_buffer("recent_rows", torch.full((recent,), -1, dtype=torch.int64))

    @torch.no_grad()
    def remember(self, photos: Tensor, rows: Tensor) -> None:
        kept = len(self.recent)
        self.recent.copy_(torch.cat([photos.detach(), self.recent])[:kept])
        self.recent_rows.copy_(torch.cat([rows, self.recent_rows])[:kept])


class ContrastLoss:
    """The loss of a batch of photos, given by their numbers; the text adapter of `data.tower` is fixed.

    `shares` (n, classes) are those of ImageNet's classes in each photo, needed with `names_weight`;
    `captioned` (n,) are the numbers of the photos with a caption, those to train on.
    """

    def __init__(
        self,
        data: TrainingData,
        half: TrainedHalf,
        draws: CaptionDraws,
        settings: ImageTowerSettings,
        shares: np.ndarray | None = None,
    ):
        self.data, self.half, self.draws, self.settings, self.shares = data, half, draws, settings, shares
        self.captioned = np.flatnonzero(draws.counts > 0)
        # number of a photo → its place among the captioned
        self.place_of = np.full(len(draws.counts), -1, dtype=np.int64)
        self.place_of[self.captioned] = np.arange(len(self.captioned))
        with torch.no_grad():
            device = device_of(data.tower)
            means = draws.means(self.captioned).to(device)
            self.means = data.tower.text.adapted(F.normalize(means, dim=-1))
            # the head's own names are trained, and these stay
            self.names = F.normalize(data.tower.head.names.detach().clone(), dim=-1)
            # the adapter is fixed, so every caption has its place before the first step
            self.captions = data.tower.text.adapted(draws.at(np.arange(len(draws.matrix))).to(device))

    def __call__(self, average: nn.Module, rows: Sequence[int], gather: Gather) -> Mapping[str, Tensor]:
        settings, learner, numbers = self.settings, average.model, np.asarray(rows)
        tower, chance = learner.tower, chance_of_step()
        device = device_of(tower)
        views = chance.integers(len(self.data.views), size=len(rows))
        # rows of float16 are read as they are, and computed with in the precision of the loop
        read = torch.from_numpy(self._features(rows, views, chance)).to(device).float()
        drawn = torch.from_numpy(self.draws.places(self.captioned, chance)).to(device)
        captions = self.captions[drawn]
        boxes = random_boxes(len(rows), chance).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=settings.half_precision):
            maps = self.half(read.contiguous(memory_format=torch.channels_last))
            photos = tower.embed(maps).float()
            regions = tower.head(maps, boxes).squeeze(1).float()
        # cosines are compared in full precision
        own = torch.from_numpy(self.place_of[numbers]).to(device)
        near = settings.logit_scale * captions @ self.means[own].T * settings.softness
        target = soft_target(settings, F.one_hot(own, len(captions)), near.T)
        logits = settings.logit_scale * photos @ captions.T
        losses = {
            "photo": cross_entropy(logits, target),
            "caption": caption_contrast(
                settings, learner, self.means, gather(photos), gather(own), own, captions[own], captions[own]
            ),
            "region": cross_entropy(settings.logit_scale * regions @ captions.T, target),
            "pair": of_pairs(logits, target),
        }
        loss = (losses["photo"] + losses["caption"]) / 2 + settings.region_weight * losses["region"]
        if self.shares is not None:
            shares = torch.from_numpy(self.shares[numbers].astype(np.float32)).to(device)
            near = settings.logit_scale * settings.softness * photos @ self.names.T
            # what the trunk is sure of counts: of people, say, ImageNet has no class
            sure = 1.0 + (shares * (shares + 1e-9).log()).sum(dim=-1) / math.log(shares.shape[1])
            losses["names"] = (sure * -(shares * near.log_softmax(dim=-1)).sum(dim=-1)).mean()
            loss = loss + settings.names_weight * losses["names"]
        return {"loss": loss + settings.pair_weight * losses["pair"], **losses}

    def _features(self, rows: Sequence[int], views: np.ndarray, chance: np.random.Generator) -> np.ndarray:
        """Features of views (n, channels, h, w): a random part of each, as often as not mirrored.

        A part of the map is nearly the map of a part of the photo, and costs no pass through the frozen half.
        """
        whole = [self.data.views[view][row] for view, row in zip(views, rows, strict=True)]
        if self.settings.least_part >= 1:
            return np.stack(whole)
        _, height, width = whole[0].shape
        # the parts of one batch have one size, so that they are computed together
        h, w = (round(side * chance.uniform(self.settings.least_part, 1.0)) for side in (height, width))
        tops = chance.integers(height - h + 1, size=len(rows))
        lefts = chance.integers(width - w + 1, size=len(rows))
        steps = np.where(chance.random(len(rows)) < 0.5, -1, 1)
        places = zip(whole, tops, lefts, steps, strict=True)
        return np.stack([item[:, y : y + h, x : x + w][:, :, ::step] for item, y, x, step in places])


def caption_contrast(
    settings: TowerSettings,
    learner: Learner,
    means: Tensor,
    photos: Tensor,
    numbers: Tensor,
    own: Tensor,
    captions: Tensor,
    like: Tensor,
) -> Tensor:
    """Captions (k, dim) against the batch's photos and those of the last steps, which the batch then joins.

    `means` (all photos, dim) are the means of their captions; `numbers` are those of the batch's `photos`,
    `own` (k,) those of the captions' photos; the soft target follows the similarity of `like` (k, dim) to
    the means.
    """
    known = learner.recent_rows >= 0
    others = torch.cat([photos, learner.recent[known]])
    rows = torch.cat([numbers, learner.recent_rows[known]])
    # a photo that was seen some steps ago is no negative of its own caption, whose right place is the newest
    same = rows == own[:, None]
    first = F.one_hot(same.int().argmax(dim=1), len(rows)).bool()
    twice = same & ~first
    near = settings.logit_scale * settings.softness * like @ means[rows].T
    target = soft_target(settings, first, near.masked_fill(twice, -torch.inf))
    logits = settings.logit_scale * captions @ others.T
    learner.remember(photos, numbers)
    return cross_entropy(logits.masked_fill(twice, -1e4), target)


def soft_target(settings: TowerSettings, hard: Tensor, near: Tensor) -> Tensor:
    return (1.0 - settings.soft_share) * hard + settings.soft_share * near.softmax(dim=-1)


def of_pairs(logits: Tensor, target: Tensor) -> Tensor:
    """Contrast of the wanted pairs (n, captions) with all of them at once.

    The contrast of one photo's captions does not change when all its logits grow; this one compares photos.
    """
    wanted = (target * logits).sum(dim=-1).mean()
    return logits.logsumexp(dim=(0, 1)) - math.log(len(logits)) - wanted


def chance_of_step() -> np.random.Generator:
    """A generator that follows torch's, which the loop seeds at each step."""
    return np.random.default_rng(int(torch.randint(2**31, ())))


def random_boxes(n: int, chance: np.random.Generator) -> Tensor:
    """One box per photo, (n, 1, 4), left, top, right, bottom as shares of its sides."""
    sides = chance.uniform(*_SIDES, size=(n, 2))
    corner = chance.uniform(size=(n, 2)) * (1.0 - sides)
    return torch.from_numpy(np.hstack([corner, corner + sides]).astype(np.float32)).unsqueeze(1)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return -(target * logits.log_softmax(dim=-1)).sum(dim=-1).mean()


def device_of(tower: ImageTower) -> torch.device:
    return next(tower.parameters()).device
