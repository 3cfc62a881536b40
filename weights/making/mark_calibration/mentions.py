"""Boxes of a detector and captions → which regions a caption mentions, for the network's layer that tells it.

A box's thing has a name. A caption mentions it if one of its nouns, in any language, is like that name in the
space of the backbone; it does not if none comes near. Boxes in between teach nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from capscore.backbones.base import Backbone
from capscore.errors import CapscoreError
from capscore.images.boxes import overlaps
from capscore.infometic.mark_calibration import MARKED_CLASSES, MarkCurve, MarkNetwork
from weights.making.mark_calibration.calibrate import fit_layers
from weights.making.mark_calibration.curves import fit_curve
from weights.making.mark_calibration.draws import PhotoWords
from weights.making.mark_calibration.features import MarkFeatures
from weights.making.mark_calibration.loss import padded
from weights.making.mark_calibration.objects import (
    MOST,
    NAMED,
    OTHER,
    ObjectRegions,
    likeness,
    names_of_objects,
)

# Overlap with a box from which a window shows its thing.
SHOWN = 0.5
# Captions of each photo, one of which is another photo's.
_CAPTIONS = 3
# Regions that are mentioned, and regions that are not, which the layer needs.
_LEAST = 100
# Of the photos with things, this share teaches which words name them; the rest, what a caption mentions.
_NAMING = 0.8
# Of the latter photos, this share is for the curve.
_CURVE = 0.25


def mention_curve(
    network: MarkNetwork,
    features: MarkFeatures,
    boxes: Mapping[int, np.ndarray],
    things: ObjectRegions,
    backbone: Backbone,
    seed: int,
) -> MarkCurve:
    """Train the layer that tells what is mentioned, and calibrate it, on photos that `naming_photos` leaves.

    The network is in eval mode, with trained layers for naming. `boxes` maps a photo to its boxes (k, 6):
    left, top, right, bottom as shares, thing, confidence. Raises CapscoreError if there are too few.
    """
    chance = np.random.default_rng([seed, 2])
    names = names_of_objects(backbone)
    chosen = sorted(set(_with_boxes(boxes)) - set(naming_photos(boxes, seed)))
    noun = MARKED_CLASSES.index("noun")
    order = np.argsort(features.photo, kind="stable")
    ends = np.searchsorted(features.photo[order], np.arange(len(features.photos) + 1))
    photos: list[int] = []
    captions: list[int] = []
    captioned = np.flatnonzero(~features.labelled[features.photo])
    for photo in chosen:
        own = order[ends[photo] : ends[photo + 1]]
        picked = chance.choice(own, min(_CAPTIONS - 1, len(own)), replace=False).tolist()
        picked.append(int(chance.choice(captioned)))
        photos += [photo] * len(picked)
        captions += picked
    inputs, labels, of_photo = [], [], []
    for start in range(0, len(photos), 256):
        part = slice(start, start + 256)
        rows = [
            _row(features, photo, caption)
            for photo, caption in zip(photos[part], captions[part], strict=True)
        ]
        index, classes, _, there = padded(rows)
        words = torch.from_numpy(features.embeddings[index.numpy()].astype(np.float32))
        texts = torch.from_numpy(features.texts[captions[part]].astype(np.float32))
        regions, shares, known = _regions(features, things, photos[part])
        whole = torch.from_numpy(features.whole[photos[part]].astype(np.float32))
        with torch.inference_mode():
            shown = torch.from_numpy(regions)
            naming = network.naming_logits(words, shown, whole)
            found = network.mention_features(
                shown, torch.from_numpy(shares), whole, texts, words, there, classes == noun, naming
            )
        for place, row in enumerate(rows):
            nouns = features.embeddings[row.words[row.classes == noun]].astype(np.float32)
            label = window_labels(shares[place], boxes[row.photo], likeness(nouns, names))
            label[~known[place]] = -1
            inputs.append(found[place][torch.from_numpy(label >= 0)])
            labels.append(label[label >= 0])
            of_photo.append(np.full(len(labels[-1]), row.photo))
    right = torch.from_numpy(np.concatenate(labels).astype(np.float32)) if labels else torch.zeros(0)
    if min(int(right.sum()), int((1 - right).sum())) < _LEAST:
        raise CapscoreError(
            "too few boxes of things that captions mention, or do not mention: give more boxes"
        )
    rows_of = torch.cat(inputs).clone()
    for_curve = chance.choice(chosen, max(1, int(_CURVE * len(chosen))), replace=False)
    held = torch.from_numpy(np.isin(np.concatenate(of_photo), for_curve))
    fit_layers(network.mention, network.mention_logits, rows_of[~held], right[~held])
    with torch.inference_mode():
        logits = network.mention_logits(rows_of[held])
    return fit_curve(logits[right[held] > 0].numpy(), logits[right[held] == 0].numpy())


def naming_photos(boxes: Mapping[int, np.ndarray], seed: int) -> list[int]:
    """Photos with things that teach which words name them."""
    photos = _with_boxes(boxes)
    kept = np.random.default_rng([seed, 5]).random(len(photos)) < _NAMING
    return [photo for photo, keep in zip(photos, kept.tolist(), strict=True) if keep]


def _with_boxes(boxes: Mapping[int, np.ndarray]) -> list[int]:
    return sorted(photo for photo, own in boxes.items() if len(own))


def _regions(
    features: MarkFeatures, things: ObjectRegions, photos: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Windows and things of photos: embeddings (n, k, d), shares (n, k, 4), and where they are, (n, k)."""
    n, dim = features.windows.shape[1], features.whole.shape[1]
    rows = np.zeros((len(photos), n + MOST, dim), np.float32)
    shares = np.zeros((len(photos), n + MOST, 4), np.float32)
    there = np.zeros((len(photos), n + MOST), bool)
    rows[:, :n], shares[:, :n] = features.windows[list(photos)], features.boxes[list(photos)]
    there[:, :n] = features.there[list(photos)]
    for place, photo in enumerate(photos):
        part = things.of_photo(photo)
        own = slice(n, n + part.stop - part.start)
        rows[place, own], shares[place, own], there[place, own] = things.rows[part], things.shares[part], True
    return rows, shares, there


def window_labels(shares: np.ndarray, boxes: np.ndarray, alike: np.ndarray) -> np.ndarray:
    """Whether a caption mentions what each window (k, 4) shows, int8 (k,): 1 yes, 0 no, −1 unknown.

    Boxes are (m, 6), as for `mention_curve`; `alike` is the `likeness` of the caption's nouns.

    >>> alike = np.full(80, 0.1); alike[16] = 0.9
    >>> boxes = np.array([[0.0, 0.0, 0.5, 0.5, 16, 0.9], [0.5, 0.5, 1.0, 1.0, 2, 0.9]])
    >>> window_labels(np.array([[0, 0, 0.5, 0.4], [0.5, 0.5, 1, 1], [0, 0.5, 0.5, 1]]), boxes, alike).tolist()
    [1, 0, -1]
    """
    labels = np.full(len(shares), -1, np.int8)
    if not len(boxes):
        return labels
    common = overlaps(shares, boxes[:, :4])
    nearest = common.argmax(axis=1)
    shown = common.max(axis=1) >= SHOWN
    value = alike[boxes[nearest, 4].astype(int)]
    labels[shown & (value >= NAMED)] = 1
    labels[shown & (value <= OTHER)] = 0
    return labels


def _row(features: MarkFeatures, photo: int, caption: int) -> PhotoWords:
    part = features.words_of(caption)
    kinds = features.word_class[part].astype(np.int64)
    return PhotoWords(photo, features.word[part], kinds, np.ones(len(kinds), np.float32))


def read_boxes(
    content: Mapping[str, Sequence[Sequence[float]]], files: Sequence[str]
) -> dict[int, np.ndarray]:
    """A file of `weights.making.mark_calibration.boxes` → place of a photo → its boxes (k, 6)."""
    return {
        index: np.array(content[file], np.float64).reshape(-1, 6)
        for index, file in enumerate(files)
        if file in content
    }
