"""Rows, features and embeddings of captions → a trained image tower.

The trunk's frozen half is read from disk. First the adapter of the text side is learned from captions alone;
then the trunk's other half and the head are trained with it fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import xxhash
from torch import Tensor, nn

from capscore.backbones.base import PUBLISHED_W
from capscore.backbones.embedded.image_tower import ImageTower
from capscore.backbones.embedded.text_encoder import LANGUAGES
from capscore.errors import CapscoreError, Setting
from capscore.files.write import whole_file
from training.data.batches import ShuffledBatches
from training.engine.loop import RunResult, run
from training.engine.processes import main_process_first, say
from training.engine.recipe import own_settings
from training.engine.weight_average import WeightAverage
from weights.making.image_tower.captions import CaptionDraws, learned_adapter
from weights.making.image_tower.contrast import ContrastLoss, Learner
from weights.making.image_tower.data import TrainingData
from weights.making.image_tower.settings import ImageTowerSettings
from weights.making.image_tower.trunk_halves import TrainedHalf

# Settings that do not change the weights, or that the digest of the data covers.
_NO_IDENTITY = (
    "data",
    "photos",
    "texts",
    "coco",
    "labelled",
    "features",
    "features_batch",
    "name",
    "license",
    "data_license",
)
# Photos that the scale of cosines is measured on.
_SCALE_PHOTOS = 1000
_AT_ONCE = 64


@dataclass(frozen=True)
class Fitted:
    """A trained image tower."""

    run: RunResult  # how far the run has come
    tower: ImageTower  # with the average of its weights
    w: float  # factor on cosines of photos and captions; the published one where the run is not finished


def fit(settings: ImageTowerSettings, data: TrainingData, out: Path) -> Fitted:
    """Train the image tower of `data` in place, from the newest checkpoint in `out` or from the start."""
    tower = data.tower
    frozen = nn.ModuleList([tower.trunk.stem, tower.trunk.blocks[: data.frozen_blocks], tower.text])
    frozen.requires_grad_(False)
    half = TrainedHalf(tower.trunk, data.frozen_blocks, train_depthwise=settings.train_depthwise).to(
        memory_format=torch.channels_last
    )
    draws = CaptionDraws(data.captions, LANGUAGES, settings.english_share)
    with main_process_first():  # the others find the files
        adapter = _adapter(settings, data, out)
        shares = _shares(settings, data, half, out) if settings.names_weight else None
    with torch.no_grad():
        tower.text.adapter.weight.copy_(adapter)
        tower.head.names.copy_(tower.text.adapted(tower.head.names))
    tower.head.dropout = settings.dropout
    loss = ContrastLoss(data, half, draws, settings, shares)
    average = WeightAverage(Learner(tower, settings.recent), settings.average_decay).train()
    result = run(
        average,
        ShuffledBatches(loss.captioned.tolist(), settings.batch_size, settings.seed),
        loss,
        replace(settings, out=str(out)),
        parameters=[
            {"params": [item for item in half.parameters() if item.requires_grad]},
            {"params": list(tower.head.parameters()), "lr": settings.head_learning_rate},
        ],
        identity={**own_settings(settings, _NO_IDENTITY), "data_digest": data.digest},
        after_step=WeightAverage.update,
    )
    average.keep()
    tower.eval()
    if not result.finished:
        return Fitted(result, tower, PUBLISHED_W)
    measured = loss.captioned[:: max(1, len(loss.captioned) // _SCALE_PHOTOS)]
    return Fitted(result, tower, measured_w(data, half, draws, measured))


def _adapter(settings: ImageTowerSettings, data: TrainingData, out: Path) -> Tensor:
    """The text adapter; read from `out` where a run that is continued has learned it."""
    key = xxhash.xxh3_64_hexdigest(f"{data.digest} {settings.adapter_share} {settings.seed}".encode())
    path = out / f"adapter-{key}.npy"
    if not path.exists():
        # as much English as any other language, because the adapter is for all of them
        even = [CaptionDraws(found, LANGUAGES) for found in (data.captions, data.texts)]
        say("learning the text adapter")
        found = learned_adapter(even, data.tower.config.dim, settings.adapter_share, seed=settings.seed)
        with whole_file(path, "text adapter", make_folders=True) as stream:
            np.save(stream, found.numpy())
    return torch.from_numpy(np.load(path))


def _shares(settings: ImageTowerSettings, data: TrainingData, half: TrainedHalf, out: Path) -> np.ndarray:
    """Shares of ImageNet's classes in each whole photo, float16 (photos, classes), by the trunk as published.

    Learned from captions alone, the image tower forgets what no caption mentions; these shares keep it.
    """
    path = out / f"shares-{xxhash.xxh3_64_hexdigest(data.digest.encode())}.npy"
    if not path.exists():
        say("the classes of the photos, by the trunk as published")
        found = []
        device = next(data.tower.parameters()).device
        for start in range(0, len(data.views[0]), _AT_ONCE):
            rows = torch.from_numpy(np.array(data.views[0][start : start + _AT_ONCE])).to(device).float()
            with (
                torch.inference_mode(),
                torch.autocast(device.type, torch.bfloat16, enabled=settings.half_precision_steps),
            ):
                maps = half(rows.contiguous(memory_format=torch.channels_last)).float()
                logits = data.tower.head.classes(maps.mean(dim=(2, 3))).float()
            found.append(logits.softmax(dim=-1).cpu().numpy().astype(np.float16))
        with whole_file(path, "classes of the photos", make_folders=True) as stream:
            np.save(stream, np.concatenate(found))
    return np.load(path)


def measured_w(data: TrainingData, half: TrainedHalf, draws: CaptionDraws, photos: np.ndarray) -> float:
    """The factor that brings cosines of photos and captions to the scale of two captions of one photo.

    RefCLIPScore takes the harmonic mean of w · cos(photo, caption) and cos(reference, caption). Measured on
    whole photos that were trained on; an error if they are no nearer to their captions than chance.
    """
    tower, chance = data.tower, np.random.default_rng(0)
    device = next(tower.parameters()).device
    with torch.inference_mode():
        first, second = (tower.text.adapted(rows.to(device)) for rows in draws.two(photos, chance))
        cosines = []
        for start in range(0, len(photos), 32):
            features = np.stack([data.views[0][row] for row in photos[start : start + 32]])
            found = tower.embed(half(torch.from_numpy(features).to(device).float()))
            cosines.append((found * first[start : start + 32]).sum(dim=1))
        texts = (first * second).sum(dim=1).mean().item()
        images = torch.cat(cosines).mean().item()
    if images <= 0:
        said = (
            f"the mean cosine of {len(photos)} photos and their captions is {images:.3f}, no more than chance"
        )
        raise CapscoreError(said, ": train longer, or with another ", Setting("learning_rate"))
    return texts / images
