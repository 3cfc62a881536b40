"""Rows, features and embeddings of captions → a trained eye.

A photo is contrasted with one caption of each photo in the batch, in a language of its own, and a caption
with another one of the same photo, so that the adapter of the text side learns from photos without pixels
too. The trunk's frozen half is read from disk; its other half, the head and the adapter are trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.backbones.base import PUBLISHED_W
from capscore.backbones.eye import Eye
from capscore.errors import CapscoreError, Setting
from training.data.batches import ShuffledBatches
from training.embedded.eye.caption_embeddings import CaptionEmbeddings
from training.embedded.eye.data import EyeData
from training.embedded.eye.settings import EyeSettings
from training.embedded.eye.trunk_halves import TrainedHalf
from training.engine.loop import RunResult, run
from training.engine.model_card import Result
from training.engine.processes import Gather
from training.engine.recipe import own_settings
from training.engine.weight_average import WeightAverage

# Settings that do not change the weights, or that the digest of the data covers.
_NO_IDENTITY = (
    "data",
    "photos",
    "texts",
    "coco",
    "features",
    "features_batch",
    "name",
    "license",
    "data_license",
)
# Photos that the scale of cosines is measured on.
_SCALE_PHOTOS = 1000


@dataclass(frozen=True)
class Fitted:
    """A trained eye.

    Attributes:
        run: How far the run has come.
        eye: The network, with the average of its weights.
        w: Factor on cosines of photos and captions; the published one where the run is not finished.
        results: Numbers for the card.
    """

    run: RunResult
    eye: Eye
    w: float
    results: Sequence[Result] = field(default_factory=tuple)


def fit(settings: EyeSettings, data: EyeData, out: Path) -> Fitted:
    """Train the eye of `data` in place, from the newest checkpoint in `out` or from the start.

    Args:
        settings: Settings of the run.
        data: What to train on.
        out: Folder of the run.

    Raises:
        CapscoreError: as in `training.engine.loop.run`; a loss that is not finite names the batch. After a
            finished run, photos are no nearer to their captions than chance.
    """
    frozen = nn.ModuleList([data.eye.trunk.stem, data.eye.trunk.blocks[: data.frozen_blocks]])
    frozen.requires_grad_(False)
    half = TrainedHalf(data.eye.trunk, data.frozen_blocks)
    average = WeightAverage(data.eye, settings.average_decay).train()
    captioned = [number for number, row in enumerate(data.rows.photos) if row.captions]
    result = run(
        average,
        ShuffledBatches(captioned, settings.batch_size, settings.seed),
        EyeLoss(data, half, settings),
        replace(settings, out=str(out)),
        parameters=[
            {"params": list(half.parameters())},
            {
                "params": [*data.eye.head.parameters(), *data.eye.text.parameters()],
                "lr": settings.head_learning_rate,
            },
        ],
        identity={**own_settings(settings, _NO_IDENTITY), "data_digest": data.digest},
        after_step=WeightAverage.update,
    )
    average.keep()
    data.eye.eval()
    if not result.finished:
        return Fitted(result, data.eye, PUBLISHED_W)
    measured = captioned[:: max(1, len(captioned) // _SCALE_PHOTOS)]
    return Fitted(result, data.eye, measured_w(data, half, measured))


class EyeLoss:
    """The loss of a batch of photos, given by their numbers.

    Args:
        data: What to train on.
        half: The trunk's trained half, with the layers of the eye.
        settings: Settings of the run.
    """

    def __init__(self, data: EyeData, half: TrainedHalf, settings: EyeSettings):
        self.data, self.half, self.settings = data, half, settings
        self.of_photos = _Members(data.captions)
        self.of_texts = _Members(data.texts)
        self.groups = np.flatnonzero(self.of_texts.counts > 1)

    def __call__(self, average: nn.Module, rows: Sequence[int], gather: Gather) -> Mapping[str, Tensor]:
        settings, eye = self.settings, average.model
        place = next(eye.parameters()).device
        chance = _chance()
        views = chance.integers(len(self.data.views), size=len(rows))
        features = np.stack([self.data.views[view][row] for view, row in zip(views, rows, strict=True)])
        # rows of float16 are read as they are, and computed with in the precision of the loop
        photos = eye.embed(self.half(torch.from_numpy(features).to(place).float()))
        pairs = [self.of_photos.two(np.asarray(rows), chance)]
        if settings.text_weight and len(self.groups):
            more = self.groups[chance.integers(len(self.groups), size=len(rows))]
            pairs.append(self.of_texts.two(more, chance))
        # (photos' captions, others') of the first and of the second caption of each pair
        first, second = (
            [gather(_placed(eye, captions.to(place))) for captions in column]
            for column in zip(*pairs, strict=True)
        )
        contrast = self._contrast(gather(photos), first[0])
        if not settings.text_weight:
            return {"loss": contrast, "photo": contrast}
        text = self._contrast(torch.cat(first), torch.cat(second))
        return {"loss": contrast + settings.text_weight * text, "photo": contrast, "text": text}

    def _contrast(self, one: Tensor, other: Tensor) -> Tensor:
        """Symmetric contrast of rows (n, dim) with rows of the same places."""
        logits = self.settings.logit_scale * one.float() @ other.float().T
        own = torch.arange(len(logits), device=logits.device)
        smoothing = self.settings.label_smoothing
        return (
            F.cross_entropy(logits, own, label_smoothing=smoothing)
            + F.cross_entropy(logits.T, own, label_smoothing=smoothing)
        ) / 2


class _Members:
    """The captions of each row in all languages, drawn by language first."""

    def __init__(self, embeddings: CaptionEmbeddings):
        self.matrix = embeddings.matrix
        # (languages, rows + 1)
        offsets = list(embeddings.offsets.values())
        self.offsets = np.stack(offsets) if offsets else np.zeros((0, 1), dtype=np.int64)
        self.counts = np.diff(self.offsets).sum(axis=0)

    def two(self, rows: np.ndarray, chance: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Two captions per row, different ones where it has two: float32 (n, dim) each."""
        places = np.array([self._two(row, chance) for row in rows])
        first, second = (torch.from_numpy(self.matrix[column].astype(np.float32)) for column in places.T)
        return first, second

    def _two(self, row: int, chance: np.random.Generator) -> tuple[int, int]:
        starts, stops = self.offsets[:, row], self.offsets[:, row + 1]
        has = np.flatnonzero(stops > starts)
        first = self._one(starts, stops, has, chance)
        second = first
        while second == first and (stops - starts).sum() > 1:
            second = self._one(starts, stops, has, chance)
        return first, second

    @staticmethod
    def _one(starts: np.ndarray, stops: np.ndarray, has: np.ndarray, chance: np.random.Generator) -> int:
        language = chance.choice(has)
        return int(chance.integers(starts[language], stops[language]))


def measured_w(data: EyeData, half: TrainedHalf, photos: Sequence[int]) -> float:
    """The factor that gives a photo and its caption, on average, the score of two captions of one photo.

    Measured on whole photos that were trained on; two captions count 2.5 · cosine, CLIPScore's weight.

    Raises:
        CapscoreError: photos are on average no nearer to their captions than chance.
    """
    of_photos, chance = _Members(data.captions), np.random.default_rng(0)
    eye, place = data.eye, next(data.eye.parameters()).device
    with torch.inference_mode():
        first, second = (rows.to(place) for rows in of_photos.two(np.asarray(photos), chance))
        placed = _placed(eye, first), _placed(eye, second)
        cosines = []
        for start in range(0, len(photos), 32):
            features = np.stack([data.views[0][row] for row in photos[start : start + 32]])
            found = eye.embed(half(torch.from_numpy(features).to(place).float()))
            cosines.append((found * placed[0][start : start + 32]).sum(dim=1))
        texts = (placed[0] * placed[1]).sum(dim=1).mean().item()
        images = torch.cat(cosines).mean().item()
    if images <= 0:
        raise CapscoreError(
            f"the mean cosine of {len(photos)} photos and their captions is {images:.3f}, no more than "
            "chance: train longer, or with another ",
            Setting("learning_rate"),
        )
    return PUBLISHED_W * texts / images


def _placed(eye: Eye, rows: Tensor) -> Tensor:
    """Centred rows of captions → their places among the photos."""
    return F.normalize(rows + eye.text.adapter(rows), dim=-1)


def _chance() -> np.random.Generator:
    """A generator that follows torch's, which the loop seeds at each step."""
    return np.random.default_rng(int(torch.randint(2**31, ())))
