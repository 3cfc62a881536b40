"""The first stage: official caption files and a folder of photos → an image tower of `embedded`.

In: the official files of Flickr8k, Multi30k and xFlickr&CO and of every set that is held out, the texts of
`weights.making.package_texts`, and photos. Out: the weights, a card, the settings, and the log and
checkpoints of the run. Rows are checked before anything is computed: a photo that is measured on is never
trained on, in whatever data set or language it turns up. The same command continues a run that was killed.

The trunk's frozen half is read from disk. First the adapter of the text side is learned from captions alone;
then the trunk's other half and the head are trained with it fixed, by contrast (`contrast`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import xxhash
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.backbones.base import PUBLISHED_W
from capscore.backbones.embedded.backbone import centred, load_classes, load_efficientnet
from capscore.backbones.embedded.image_tower import ImageTower
from training.engine.config import main as run_as_command
from training.engine.loop import RunResult
from training.engine.processes import Gather, is_main_process, main_process_first, say
from training.engine.recipe import compute_of, own_settings, run_recipe
from weights.making.cards import image_tower_card
from weights.making.image_tower import contrast
from weights.making.image_tower.data import CaptionDraws, CaptionEmbeddings, embeddings_of, learned_adapter
from weights.making.image_tower.features import TrainedHalf, folded, frozen_half, photo_features, stored
from weights.making.image_tower.rows import rows_of
from weights.making.settings import ImageTowerSettings

_AT_ONCE = 64


class FirstStageData(NamedTuple):
    """What the tower learns from."""

    views: Sequence[np.ndarray]  # the photos' features, and their digest, as `photo_features` gives them
    digest: str
    captions: CaptionEmbeddings  # of the photos
    texts: CaptionEmbeddings  # of rows without pixels


def train(settings: ImageTowerSettings) -> RunResult:
    """Run the recipe: read rows, compute features, train, save."""
    rows, held = rows_of(settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        tower = ImageTower()
    published = load_efficientnet()
    tower.trunk = folded(published)
    tower.head.classes.load_state_dict(published.classifier.state_dict())
    centre, names = centred(load_classes())
    tower.text.centre.copy_(centre)
    tower.head.names.data.copy_(names)
    folder, frozen = settings.features_folder, frozen_half(tower.trunk, settings.frozen_blocks)
    with main_process_first():  # the others find the files
        say(f"features of {len(rows.photos):,} photos, {settings.views} views each, in {folder}")
        views = photo_features(settings, rows.photos, frozen)
    captions = embeddings_of(settings, rows.photos, rows.texts)
    result, w = fit(settings, tower, FirstStageData(*views, *captions))
    if result.finished and is_main_process():
        compute = f"{compute_of(result, 0)}, features not counted"
        card = image_tower_card(settings, rows, held, w=w, compute=compute)
        contrast.save(settings, tower, result.step, card, w)
    return result


def fit(settings: ImageTowerSettings, tower: ImageTower, data: FirstStageData) -> tuple[RunResult, float]:
    """Train the image tower in place, from the newest checkpoint or from the start.

    Returns how far the run has come, and w, the factor on cosines of photos and captions.
    """
    say("learning the text adapter")
    # as much English as any other language, because the adapter is for all of them
    even = [CaptionDraws(found) for found in (data.captions, data.texts)]
    adapter = learned_adapter(even, tower.config.dim, settings.adapter_share, seed=settings.seed)
    with torch.no_grad():
        tower.text.adapter.weight.copy_(adapter)
        tower.head.names.copy_(tower.text.adapted(tower.head.names))
    loss = FirstStageLoss(settings, tower, data)
    identity = {**own_settings(settings, contrast.NO_IDENTITY), "data_digest": loss.digest}
    result = contrast.train_tower(settings, tower, loss, len(loss.photos), identity)
    if not result.finished:
        return result, PUBLISHED_W
    return result, contrast.measured_w(tower, maps_of(loss.half, data.views[0]), loss.draws, loss.photos)


def maps_of(half: TrainedHalf, view: np.ndarray) -> Callable[[np.ndarray], Tensor]:
    return lambda rows: half(torch.from_numpy(view[rows]).to(contrast.device_of(half)).float())


class FirstStageLoss(contrast.Contrast):
    """The loss of a batch of photos, given by their numbers; the text adapter of `tower` is fixed.

    Learned from captions alone, the image tower forgets what no caption mentions. `shares`, float16
    (photos, classes), keep it: those of ImageNet's classes in each whole photo, by the trunk as published.
    """

    settings: ImageTowerSettings

    def __init__(self, settings: ImageTowerSettings, tower: ImageTower, data: FirstStageData):
        # depthwise convolutions stay as published: their gradients take a CPU long
        self.half = TrainedHalf(tower, settings.frozen_blocks, train_depthwise=False)
        self.half.to(memory_format=torch.channels_last)
        self.views, self.draws = data.views, CaptionDraws(data.captions, settings.english_share)
        made = f"{data.digest} {settings.views} {data.captions.digest} {data.texts.digest}"
        self.digest = xxhash.xxh3_128_hexdigest(made.encode())
        file = Path(settings.out).expanduser() / f"shares-{self.digest}.npy"
        with main_process_first():  # the others find the file
            self.shares = stored(file, partial(self._shares, tower, settings.half_precision))
        self.photos = np.arange(len(self.shares))
        with torch.no_grad():
            text, device, draws = tower.text, contrast.device_of(tower), self.draws
            means = draws.means(self.photos).to(device)
            super().__init__(settings, text.adapted(F.normalize(means, dim=-1)))
            # the head's own names are trained, and these stay
            self.names = F.normalize(tower.head.names.detach().clone(), dim=-1)
            # the adapter is fixed, so every caption has its place before the first step
            self.captions = text.adapted(draws.at(np.arange(len(draws.matrix))).to(device))

    def __call__(self, average: nn.Module, rows: Sequence[int], gather: Gather) -> Mapping[str, Tensor]:
        settings, learner, numbers = self.settings, average.model, np.asarray(rows)
        tower, chance = learner.tower, contrast.chance_of_step()
        device = contrast.device_of(tower)
        views = chance.integers(len(self.views), size=len(rows))
        # rows of float16 are read as they are, and computed with in the precision of the loop
        read = torch.from_numpy(self._features(rows, views, chance)).to(device).float()
        drawn = torch.from_numpy(self.draws.places(self.photos, chance)).to(device)
        boxes = contrast.random_boxes(len(rows), chance).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=settings.half_precision):
            maps = self.half(read.contiguous(memory_format=torch.channels_last))
            seen = tower.head(maps, boxes).float()
        # cosines are compared in full precision
        own = torch.from_numpy(numbers).to(device)
        captions = self.captions[drawn]
        of_photos = contrast.Drawn(captions, torch.arange(len(captions), device=device), own, captions[own])
        losses = self.contrasts(learner, gather, own, seen, of_photos, captions[:0])
        shares = torch.from_numpy(self.shares[numbers].astype(np.float32)).to(device)
        near = settings.logit_scale * settings.softness * seen[:, 0] @ self.names.T
        # what the trunk is sure of counts: of people, say, ImageNet has no class
        sure = 1.0 + (shares * (shares + 1e-9).log()).sum(dim=-1) / math.log(shares.shape[1])
        losses["names"] = (sure * -(shares * near.log_softmax(dim=-1)).sum(dim=-1)).mean()
        loss = (losses["photo"] + losses["caption"]) / 2 + settings.names_weight * losses["names"]
        loss = loss + settings.region_weight * losses["region"] + settings.pair_weight * losses["pair"]
        return {"loss": loss, **losses}

    def _shares(self, tower: ImageTower, half_precision: bool) -> np.ndarray:
        say("the classes of the photos, by the trunk as published")
        found, device, view = [], contrast.device_of(tower), self.views[0]
        in_half = torch.autocast(device.type, torch.bfloat16, enabled=half_precision)
        for start in range(0, len(view), _AT_ONCE):
            rows = torch.from_numpy(np.array(view[start : start + _AT_ONCE])).to(device).float()
            with torch.inference_mode(), in_half:
                maps = self.half(rows.contiguous(memory_format=torch.channels_last)).float()
                logits = tower.head.classes(maps.mean(dim=(2, 3))).float()
            found.append(logits.softmax(dim=-1).cpu().numpy().astype(np.float16))
        return np.concatenate(found)

    def _features(self, rows: Sequence[int], views: np.ndarray, chance: np.random.Generator) -> np.ndarray:
        """Features of views (n, channels, h, w): a random part of each, as often as not mirrored.

        A part of the map is nearly the map of a part of the photo, and costs no pass through the frozen half.
        """
        whole = [self.views[view][row] for view, row in zip(views, rows, strict=True)]
        _, height, width = whole[0].shape
        # the parts of one batch have one size, so that they are computed together
        h, w = (round(side * chance.uniform(self.settings.least_part, 1.0)) for side in (height, width))
        tops = chance.integers(height - h + 1, size=len(rows))
        lefts = chance.integers(width - w + 1, size=len(rows))
        steps = np.where(chance.random(len(rows)) < 0.5, -1, 1)
        places = zip(whole, tops, lefts, steps, strict=True)
        return np.stack([item[:, y : y + h, x : x + w][:, :, ::step] for item, y, x, step in places])


def main(argv: Sequence[str] | None = None) -> None:
    run_recipe(ImageTowerSettings, train, argv, "Train the image side of the backbone `embedded`.")


if __name__ == "__main__":
    run_as_command(main)
