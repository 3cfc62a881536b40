"""Objects that a detector finds in photos → which word names which region, and what a caption mentions.

A detector says what a box shows, and captions say what the photo shows. A noun that is like the name of the
box's thing, in the space of the backbone, names the box, and its caption mentions it; one that is unlike it
does not. What lies in between teaches nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from capscore.backbones.base import Backbone
from capscore.errors import CapscoreError, InputError
from capscore.images.boxes import overlaps
from capscore.infometic.mark_calibration import MENTION_FEATURES, CaptionBatch, MarkCurve, MarkNetwork
from capscore.infometic.network import padded as padded_arrays
from weights.making.mark_calibration.calibrate import fit_curve, fit_layers
from weights.making.mark_calibration.draws import NOUN, padded, words_of_caption
from weights.making.mark_calibration.features import MarkFeatures, feature_maps
from weights.making.mark_calibration.rows import COCO_THINGS

# Most boxes of a photo, the most confident first.
MOST = 10
_PHOTOS = 16
# Cosine of a noun with the name of a thing from which it names the thing, and up to which it names another.
NAMED, OTHER = 0.62, 0.5
# A person is a man, a woman or a child in captions.
_PEOPLE = ("man", "woman", "child", "boy", "girl", "people")
_STEPS, _AT_ONCE = 800, 96
# Most nouns of a photo's own captions, and nouns of other photos, which mostly do not name what it shows.
_OWN, _STRANGE = 24, 24
# What a photo's captions say, or nearly say, is no noun of another photo.
_UNLIKE = 0.5
_DROPOUT = 0.2
# Examples that training needs, of words or captions and regions that fit and of such that do not.
_LEAST = 100
_TOO_FEW = "too few boxes of things that captions mention, or do not mention: give more boxes"
# Overlap with a box from which a window shows its thing.
_SHOWN = 0.5
# Captions of each photo, one of which is another photo's.
_CAPTIONS = 3
# Of the photos with things, this share teaches which words name them; the rest, what a caption mentions.
_NAMING = 0.8
# Of the latter photos, this share is for the curve.
_CURVE = 0.25


@dataclass(frozen=True, eq=False)
class ObjectRegions:
    """Regions of t things."""

    rows: np.ndarray  # float16 (t, d), embeddings of unit length
    photo: np.ndarray  # int64 (t,), places of the photos, in ascending order
    shares: np.ndarray  # float32 (t, 4), the boxes as shares of the photo's sides
    thing: np.ndarray  # int64 (t,), places in `COCO_THINGS`

    def of_photo(self, photo: int) -> slice:
        first, after = np.searchsorted(self.photo, [photo, photo + 1]).tolist()
        return slice(first, after)


def object_regions(
    features: MarkFeatures, boxes: Mapping[int, np.ndarray], backbone: Backbone, say: Callable[[str], None]
) -> ObjectRegions:
    kept = {
        photo: own[np.argsort(-own[:, 5], kind="stable")[:MOST]]
        for photo, own in sorted(boxes.items())
        if len(own)
    }
    photos, rows = list(kept), []
    for start in range(0, len(photos), _PHOTOS):
        part = photos[start : start + _PHOTOS]
        maps, _ = feature_maps([features.files[photo] for photo in part], backbone)
        rows.append(backbone.encode_map_regions(maps, [kept[photo][:, :4] for photo in part]))
        if start % (_PHOTOS * 64) == 0:
            say(f"things in {start + len(part):,} of {len(photos):,} photos")
    joined = np.concatenate([*kept.values(), np.zeros((0, 6))])
    return ObjectRegions(
        np.concatenate([*rows, np.zeros((0, backbone.dim))]).astype(np.float16),
        np.repeat(np.array(photos, np.int64), [len(own) for own in kept.values()]),
        joined[:, :4].astype(np.float32),
        joined[:, 4].astype(np.int64),
    )


def names_of_objects(backbone: Backbone) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings of the names (n, d), and the thing that each names, int64 (n,)."""
    rows = backbone.encode_texts([*COCO_THINGS, *_PEOPLE])
    return np.asarray(rows, np.float32), np.array([*range(len(COCO_THINGS)), *[0] * len(_PEOPLE)])


def alike_objects(words: np.ndarray, names: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Words (v, d) → the highest cosine of each with a name of each of `COCO_THINGS`, float32 (v, 80)."""
    rows, things = names
    found = np.full((len(words), len(COCO_THINGS)), -1.0, np.float32)
    for start in range(0, len(words), 4096):
        cosines = np.asarray(words[start : start + 4096], np.float32) @ rows.T
        np.maximum.at(found[start : start + 4096].T, things, cosines.T)
    return found


def train_naming(
    network: MarkNetwork,
    features: MarkFeatures,
    things: ObjectRegions,
    photos: Sequence[int],
    backbone: Backbone,
    seed: int,
) -> float:
    """Train the layers in place; returns the mean loss of the last tenth of the steps."""
    like = alike_objects(features.embeddings, names_of_objects(backbone))
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
    for _ in range(_STEPS if len(with_both) else 0):
        drawn = chance.choice(with_both, min(_AT_ONCE, len(with_both)), replace=False)
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
    network.dropout = before
    network.eval()
    if counted.min() < _LEAST:
        raise CapscoreError(_TOO_FEW)
    return float(np.mean(losses[-max(1, len(losses) // 10) :]))


def nouns_of_photos(features: MarkFeatures) -> list[np.ndarray]:
    """For each photo the distinct nouns of its captions, int64 (m,)."""
    of_word = np.repeat(features.photo, np.diff(features.start))
    is_noun = features.word_class == NOUN
    pairs = np.unique(np.stack([of_word[is_noun], features.word[is_noun]], axis=1), axis=0)
    ends = np.searchsorted(pairs[:, 0], np.arange(len(features.files) + 1))
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
    parts = [things.of_photo(photo) for photo in photos.tolist()]
    most = max(part.stop - part.start for part in parts)
    words = np.zeros((len(photos), _OWN + _STRANGE), np.int64)
    labels = np.full((len(photos), _OWN + _STRANGE, most), -1, np.int8)
    regions = np.zeros((len(photos), most, features.whole.shape[1]), np.float32)
    strange = [nouns[other] for other in chance.permutation(photos).tolist()]
    for place, (photo, part) in enumerate(zip(photos.tolist(), parts, strict=True)):
        n = part.stop - part.start
        own = chance.permutation(nouns[photo])[:_OWN]
        rest = strange[place][features.support[strange[place], photo] < _UNLIKE * 255]
        joined = np.concatenate([own, chance.permutation(rest)[:_STRANGE]])
        value = like[joined][:, things.thing[part]]
        # a noun of another photo names nothing here
        is_named = (value >= NAMED) & (np.arange(len(joined)) < len(own))[:, None]
        words[place, : len(joined)], regions[place, :n] = joined, things.rows[part]
        labels[place, : len(joined), :n] = np.where(is_named, 1, np.where(value <= OTHER, 0, -1))
    rows = torch.from_numpy(features.embeddings[words].astype(np.float32))
    return rows, labels, torch.from_numpy(regions)


def mention_curve(
    network: MarkNetwork,
    features: MarkFeatures,
    boxes: Mapping[int, np.ndarray],
    things: ObjectRegions,
    backbone: Backbone,
    seed: int,
) -> MarkCurve:
    """Train the layer that tells what is mentioned, and calibrate it, on photos that `naming_photos` leaves.

    The network is in eval mode, with trained layers for naming; boxes are those of `read_boxes`.
    """
    chance, names = np.random.default_rng([seed, 2]), names_of_objects(backbone)
    chosen = sorted(set(_with_boxes(boxes)) - set(naming_photos(boxes, seed)))
    pairs: list[tuple[int, int]] = []
    for photo in chosen:
        own = features.captions_of[photo]
        picked = chance.choice(own, min(_CAPTIONS - 1, len(own)), replace=False).tolist()
        pairs += [(photo, caption) for caption in (*picked, int(chance.choice(len(features.captions))))]
    inputs, labels, of_photo = [torch.zeros(0, MENTION_FEATURES)], [np.zeros(0)], [np.zeros(0)]
    for start in range(0, len(pairs), 256):
        part = pairs[start : start + 256]
        found, shares, known = _mentions(network, features, things, part)
        for place, (photo, caption) in enumerate(part):
            spoken = features.words_of(caption)
            nouns = features.word[spoken][features.word_class[spoken] == NOUN]
            alike = alike_objects(features.embeddings[nouns], names).max(axis=0, initial=-1.0)
            label = window_labels(shares[place], boxes[photo], alike)
            label[~known[place]] = -1
            inputs.append(found[place][torch.from_numpy(label >= 0)])
            labels.append(label[label >= 0])
            of_photo.append(np.full(len(labels[-1]), photo))
    right = torch.from_numpy(np.concatenate(labels).astype(np.float32))
    if min(int(right.sum()), int((1 - right).sum())) < _LEAST:
        raise CapscoreError(_TOO_FEW)
    rows = torch.cat(inputs).clone()
    for_curve = chance.choice(chosen, max(1, int(_CURVE * len(chosen))), replace=False)
    held = torch.from_numpy(np.isin(np.concatenate(of_photo), for_curve))
    fit_layers(network.mention, network.mention_logits, rows[~held], right[~held])
    with torch.inference_mode():
        logits = network.mention_logits(rows[held])
    return fit_curve(logits[right[held] > 0].numpy(), logits[right[held] == 0].numpy())


def _mentions(
    network: MarkNetwork, features: MarkFeatures, things: ObjectRegions, pairs: Sequence[tuple[int, int]]
) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """For pairs of photo and caption the layer's inputs, shares of the regions, and where regions are."""
    photos, captions = map(list, zip(*pairs, strict=True))
    index, classes, _, there_are = padded([words_of_caption(features, *pair) for pair in pairs])
    words = torch.from_numpy(features.embeddings[index.numpy()].astype(np.float32))
    texts = torch.from_numpy(features.texts[captions].astype(np.float32))
    whole = torch.from_numpy(features.whole[photos].astype(np.float32))
    shown, boxes = [], []
    for photo in photos:
        there, part = features.there[photo], things.of_photo(photo)
        shown.append(np.concatenate([features.windows[photo][there], things.rows[part]]).astype(np.float32))
        boxes.append(np.concatenate([features.boxes[photo][there], things.shares[part]]))
    (regions, known), (shares, _) = padded_arrays(shown, "cpu"), padded_arrays(boxes, "cpu")
    spoken = CaptionBatch(texts, words, there_are, classes, torch.zeros(0))
    with torch.inference_mode():
        naming = network.naming_logits(words, regions, whole)
        found = network.mention_features(regions, shares, whole, spoken, naming)
    return found, shares.numpy(), known.numpy()


def naming_photos(boxes: Mapping[int, np.ndarray], seed: int) -> list[int]:
    """Photos with things that teach which words name them."""
    photos = _with_boxes(boxes)
    kept = np.random.default_rng([seed, 5]).random(len(photos)) < _NAMING
    return [photo for photo, keep in zip(photos, kept.tolist(), strict=True) if keep]


def _with_boxes(boxes: Mapping[int, np.ndarray]) -> list[int]:
    return sorted(photo for photo, own in boxes.items() if len(own))


def window_labels(shares: np.ndarray, boxes: np.ndarray, alike: np.ndarray) -> np.ndarray:
    """Whether a caption mentions what each window (k, 4) shows, int8 (k,): 1 yes, 0 no, −1 unknown.

    Boxes are (m, 6), as for `mention_curve`; `alike` (80,) is the highest of `alike_objects` of its nouns.

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
    shown = common.max(axis=1) >= _SHOWN
    value = alike[boxes[nearest, 4].astype(int)]
    labels[shown & (value >= NAMED)] = 1
    labels[shown & (value <= OTHER)] = 0
    return labels


def read_boxes(path: str, files: Sequence[str]) -> dict[int, np.ndarray]:
    """A file of `weights.making.mark_calibration.boxes` → place of a photo → its boxes (k, 6).

    Columns are left, top, right, bottom as shares, thing, confidence.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        return {
            index: np.array(content[file], np.float64).reshape(-1, 6)
            for index, file in enumerate(files)
            if file in content
        }
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path} is not a file of boxes: {error}", field="boxes") from None
