"""Regions of things and captions → the network's layers that tell which word names which region.

A detector says what a box shows, and captions say what the photo shows. A noun that is like the name of the
box's thing, in the space of the backbone, names the box; a noun that is unlike it does not. Nouns in between
teach nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch.nn import functional as F

from capscore.backbones.base import Backbone
from capscore.errors import CapscoreError
from capscore.infometic.mark_calibration import MARKED_CLASSES, MarkNetwork
from weights.making.mark_calibration.features import MarkFeatures
from weights.making.mark_calibration.objects import NAMED, OTHER, ObjectRegions, alike_objects

_STEPS, _PHOTOS = 800, 96
# Most nouns of a photo's own captions, and nouns of other photos, which mostly do not name what it shows.
_OWN, _STRANGE = 24, 24
# What a photo's captions say, or nearly say, is no noun of another photo.
_UNLIKE = 0.5
# Of pairs of words and regions that fit, and that do not, training needs this many.
_LEAST = 100
_DROPOUT = 0.2


def train_naming(
    network: MarkNetwork,
    features: MarkFeatures,
    things: ObjectRegions,
    photos: Sequence[int],
    backbone: Backbone,
    seed: int,
) -> float:
    """Train the layers in place; returns the mean loss of the last tenth of the steps."""
    like = alike_objects(features, backbone)
    nouns = nouns_of_photos(features)
    with_both = np.array([photo for photo in photos if len(nouns[photo])], np.int64)
    chance = np.random.default_rng([seed, 4])
    layers = [network.named_word.weight, network.named_region.weight, network.named_cosine]
    for parameter in layers:
        parameter.requires_grad_(True)
    optimiser = torch.optim.AdamW(layers, lr=2e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=_STEPS)
    losses, counted = [], np.zeros(2)
    network.train()
    before, network.dropout = network.dropout, _DROPOUT
    try:
        for _ in range(_STEPS if len(with_both) else 0):
            drawn = chance.choice(with_both, min(_PHOTOS, len(with_both)), replace=False)
            words, labels, regions = _batch(features, things, nouns, like, drawn, chance)
            counted += [(labels == 1).sum(), (labels == 0).sum()]
            right, wrong = (torch.from_numpy(labels == value).float() for value in (1, 0))
            if not (right.any() and wrong.any()):
                continue
            whole = torch.from_numpy(features.whole[drawn].astype(np.float32))
            logits = network.naming_logits(words, regions, whole)
            weight = 0.5 * right / right.sum() + 0.5 * wrong / wrong.sum()
            loss = (F.binary_cross_entropy_with_logits(logits, right, reduction="none") * weight).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            losses.append(loss.item())
    finally:
        network.dropout = before
        network.eval()
    if counted.min() < _LEAST:
        raise CapscoreError(
            "too few boxes of things that captions mention, or do not mention: give more boxes"
        )
    return float(np.mean(losses[-max(1, len(losses) // 10) :]))


def nouns_of_photos(features: MarkFeatures) -> list[np.ndarray]:
    """For each photo the distinct nouns of its captions, int64 (m,)."""
    of_word = np.repeat(features.photo, np.diff(features.start))
    is_noun = features.word_class == MARKED_CLASSES.index("noun")
    pairs = np.unique(np.stack([of_word[is_noun], features.word[is_noun]], axis=1), axis=0)
    ends = np.searchsorted(pairs[:, 0], np.arange(len(features.photos) + 1))
    return [pairs[start:stop, 1] for start, stop in pairwise(ends.tolist())]


def _batch(
    features: MarkFeatures,
    things: ObjectRegions,
    nouns: Sequence[np.ndarray],
    like: np.ndarray,
    photos: np.ndarray,
    chance: np.random.Generator,
) -> tuple[torch.Tensor, np.ndarray, torch.Tensor]:
    """Words (n, m, d), labels (n, m, k): 1, 0, or -1 for unknown, and regions (n, k, d)."""
    dim = features.whole.shape[1]
    parts = [things.of_photo(photo) for photo in photos.tolist()]
    most = max(part.stop - part.start for part in parts)
    words = np.zeros((len(photos), _OWN + _STRANGE), np.int64)
    labels = np.full((len(photos), _OWN + _STRANGE, most), -1, np.int8)
    regions = np.zeros((len(photos), most, dim), np.float32)
    strange = [nouns[other] for other in chance.permutation(photos).tolist()]
    for place, (photo, part) in enumerate(zip(photos.tolist(), parts, strict=True)):
        regions[place, : part.stop - part.start] = things.rows[part]
        own = chance.permutation(nouns[photo])[:_OWN]
        rest = strange[place][features.support[strange[place], photo] < _UNLIKE * 255]
        rest = chance.permutation(rest)[:_STRANGE]
        value = like[np.concatenate([own, rest])][:, things.thing[part]]
        known = np.full(value.shape, -1, np.int8)
        known[value >= NAMED] = 1
        known[value <= OTHER] = 0
        # a noun of another photo names nothing here
        known[len(own) :][known[len(own) :] == 1] = -1
        words[place, : len(value)] = np.concatenate([own, rest])
        labels[place, : len(value), : part.stop - part.start] = known
    rows = torch.from_numpy(features.embeddings[words].astype(np.float32))
    return rows, labels, torch.from_numpy(regions)
