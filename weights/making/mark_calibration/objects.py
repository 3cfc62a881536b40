"""Objects that a detector finds in photos → which word names which region, and what a caption mentions.

A detector says what a box shows, and captions say what the photo shows. A noun that is like the name of the
box's thing, in the space of the backbone, names the box, and its caption mentions it; one that is unlike it
does not. What lies in between teaches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch.nn import functional as F

from capscore.backbones.base import Backbone
from capscore.embedding.photos import in_batches
from capscore.errors import CapscoreError, InputError
from capscore.files.text_files import json_document
from capscore.images.boxes import overlaps
from capscore.infometic.mark_calibration import CaptionBatch, MarkCurve, MarkNetwork
from capscore.infometic.network import padded
from weights.making.mark_calibration.calibrate import fit_curve, fit_layers
from weights.making.mark_calibration.draws import NOUN
from weights.making.mark_calibration.features import MarkFeatures, feature_maps, rows_at
from weights.making.mark_calibration.rows import COCO_THINGS

# Most boxes of a photo, the most confident first.
MOST = 10
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
# Overlap with a box from which a window shows its thing.
_SHOWN = 0.5
# Captions of each photo, one of which is another photo's.
_CAPTIONS = 3
# Of the photos with things, this share teaches which words name them; the rest, what a caption mentions.
_NAMING = 0.8
# Of the latter photos, this share is for the curve.
_CURVE = 0.25


class Things:
    """What boxes show, the `MOST` most confident of each photo, and the words that are like it.

    Attributes:
        boxes: Those of `read_boxes`.
        shown: Place of each photo that has boxes, in ascending order → the most confident of them (k, 6).
        rows: Place of such a photo → float16 (k, d), embeddings of unit length of these boxes.
        like: float32 (v, 80), of `like_things`, of the distinct words.
    """

    def __init__(self, features: MarkFeatures, boxes: Mapping[int, np.ndarray], backbone: Backbone):
        self.features, self.boxes = features, boxes
        self.shown = {photo: own[:MOST] for photo, own in sorted(boxes.items()) if len(own)}
        listed, rows = [own[:, :4] for own in self.shown.values()], []
        for part, maps, _ in feature_maps([features.files[photo] for photo in self.shown], backbone):
            rows.append(backbone.encode_map_regions(maps, listed[part]).astype(np.float16))
        of_photos = np.split(np.concatenate(rows), np.cumsum([len(own) for own in listed])[:-1])
        self.rows = dict(zip(self.shown, of_photos, strict=True))
        self.like = like_things(features.embeddings, backbone)

    def photos(self, seed: int) -> tuple[list[int], list[int]]:
        """The photos with things that teach which words name them, and the others."""
        photos = np.array([*self.shown])
        kept = np.random.default_rng([seed, 5]).random(len(photos)) < _NAMING
        return photos[kept].tolist(), photos[~kept].tolist()


def like_things(words: np.ndarray, backbone: Backbone) -> np.ndarray:
    """Words (v, d) → the highest cosine of each with a name of each of `COCO_THINGS`, float32 (v, 80)."""
    names = np.asarray(backbone.encode_texts([*COCO_THINGS, *_PEOPLE]), np.float32)
    things = [*range(len(COCO_THINGS)), *[0] * len(_PEOPLE)]
    found = np.full((len(words), len(COCO_THINGS)), -1.0, np.float32)
    for start in range(0, len(words), 4096):
        cosines = np.asarray(words[start : start + 4096], np.float32) @ names.T
        np.maximum.at(found[start : start + 4096].T, things, cosines.T)
    return found


def train_naming(network: MarkNetwork, things: Things, seed: int) -> None:
    """Train the layers that tell which word names which region, in place."""
    nouns, chance = nouns_of_photos(things.features), np.random.default_rng([seed, 4])
    photos = np.array([photo for photo in things.photos(seed)[0] if len(nouns[photo])], np.int64)
    layers = [network.named_word.weight, network.named_region.weight, network.named_cosine]
    for parameter in layers:
        parameter.requires_grad_(True)
    optimiser = torch.optim.AdamW(layers, lr=2e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=_STEPS)
    network.train()
    network.dropout = _DROPOUT
    for _ in range(_STEPS if len(photos) else 0):
        drawn = chance.choice(photos, min(_AT_ONCE, len(photos)), replace=False)
        words, labels, regions = _batch(things, nouns, drawn, chance)
        right, wrong = (torch.from_numpy(labels == value).float() for value in (1, 0))
        if not (right.any() and wrong.any()):
            continue
        logits = network.naming_logits(words, regions, rows_at(things.features.whole, drawn))
        weight = 0.5 * right / right.sum() + 0.5 * wrong / wrong.sum()
        loss = (F.binary_cross_entropy_with_logits(logits, right, reduction="none") * weight).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    network.eval()


def nouns_of_photos(features: MarkFeatures) -> list[np.ndarray]:
    """For each photo the distinct nouns of its captions, int64 (m,)."""
    of_word = np.repeat(features.photo, np.diff(features.start))
    is_noun = features.word_class == NOUN
    pairs = np.unique(np.stack([of_word[is_noun], features.word[is_noun]], axis=1), axis=0)
    return np.split(pairs[:, 1], np.searchsorted(pairs[:, 0], np.arange(1, len(features.files))))


def _batch(
    things: Things, nouns: Sequence[np.ndarray], photos: np.ndarray, chance: np.random.Generator
) -> tuple[torch.Tensor, np.ndarray, torch.Tensor]:
    """Words (n, m, d), labels (n, m, k): 1, 0, or -1 for unknown, and regions (n, k, d)."""
    features = things.features
    regions, _ = padded([things.rows[photo] for photo in photos.tolist()], "cpu")
    words = np.zeros((len(photos), _OWN + _STRANGE), np.int64)
    labels = np.full((*words.shape, regions.shape[1]), -1, np.int8)
    strange = [nouns[other] for other in chance.permutation(photos).tolist()]
    for place, photo in enumerate(photos.tolist()):
        own = chance.permutation(nouns[photo])[:_OWN]
        rest = strange[place][features.support[strange[place], photo] < _UNLIKE * 255]
        joined = np.concatenate([own, chance.permutation(rest)[:_STRANGE]])
        like = things.like[joined][:, things.shown[photo][:, 4].astype(int)]
        # a noun of another photo names nothing here
        is_named = (like >= NAMED) & (np.arange(len(joined)) < len(own))[:, None]
        words[place, : len(joined)] = joined
        labels[place, : len(joined), : like.shape[1]] = np.where(is_named, 1, np.where(like <= OTHER, 0, -1))
    return rows_at(features.embeddings, words), labels, regions


def mention_curve(network: MarkNetwork, things: Things, seed: int) -> MarkCurve:
    """Train the layer that tells what is mentioned, and calibrate it, on the photos that naming leaves.

    The network is in eval mode, with trained layers for naming.
    """
    features = things.features
    chance, photos = np.random.default_rng([seed, 2]), things.photos(seed)[1]
    pairs: list[tuple[int, int]] = []
    for photo in photos:
        own = features.captions_of[photo]
        picked = chance.choice(own, min(_CAPTIONS - 1, len(own)), replace=False).tolist()
        pairs += [(photo, caption) for caption in (*picked, int(chance.choice(len(features.captions))))]
    parts = [_mentions(network, things, part) for part in in_batches(pairs, 256)]
    inputs, labels, of_photo = map(torch.cat, zip(*parts, strict=True))
    for_curve = chance.choice(photos, max(1, int(_CURVE * len(photos))), replace=False)
    held = torch.isin(of_photo, torch.from_numpy(for_curve))
    fit_layers(network.mention, network.mention_logits, inputs[~held], labels[~held])
    with torch.inference_mode():
        logits = network.mention_logits(inputs[held])
    curve = fit_curve(logits[labels[held] > 0].numpy(), logits[labels[held] == 0].numpy())
    if curve is None:
        raise CapscoreError("too few boxes of things that captions mention, or do not: give more boxes")
    return curve


def _mentions(
    network: MarkNetwork, things: Things, pairs: Sequence[tuple[int, int]]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of pairs of photo and caption, for each region of which it is known: inputs, label, photo."""
    features = things.features
    words, classes, shown, shares, labels = [], [], [], [], []
    for photo, caption in pairs:
        spoken, there = features.words_of(caption), features.there[photo]
        own = things.shown[photo][:, :4].astype(np.float32)
        words.append(features.word[spoken])
        classes.append(features.word_class[spoken])
        shown.append(np.concatenate([features.windows[photo][there], things.rows[photo]]))
        shares.append(np.concatenate([features.boxes[photo][there], own]))
        like = things.like[words[-1][classes[-1] == NOUN]].max(axis=0, initial=-1.0)
        labels.append(window_labels(shares[-1], things.boxes[photo], like).astype(np.float32))
    photos, captions = map(list, zip(*pairs, strict=True))
    (index, judged), (kinds, _), (regions, present), (boxes, _), (label, _) = (
        padded(column, "cpu") for column in (words, classes, shown, shares, labels)
    )
    vectors, whole = rows_at(features.embeddings, index.numpy()), rows_at(features.whole, photos)
    batch = CaptionBatch(rows_at(features.texts, captions), vectors, judged, kinds, torch.zeros(0))
    with torch.no_grad():
        naming = network.naming_logits(vectors, regions, whole)
        inputs = network.mention_features(regions, boxes, whole, batch, naming)
    known = present & (label >= 0)
    return inputs[known], label[known], torch.tensor(photos)[:, None].expand_as(label)[known]


def window_labels(shares: np.ndarray, boxes: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Whether a caption mentions what each window (k, 4) shows, int8 (k,): 1 yes, 0 no, −1 unknown.

    Boxes are (m, 6), as of `read_boxes`; `like` (80,) is the highest of `like_things` of its nouns.

    >>> like = np.full(80, 0.1); like[16] = 0.9
    >>> boxes = np.array([[0.0, 0.0, 0.5, 0.5, 16, 0.9], [0.5, 0.5, 1.0, 1.0, 2, 0.9]])
    >>> window_labels(np.array([[0, 0, 0.5, 0.4], [0.5, 0.5, 1, 1], [0, 0.5, 0.5, 1]]), boxes, like).tolist()
    [1, 0, -1]
    """
    common = overlaps(shares, boxes[:, :4])
    value = np.where(common.max(axis=1) >= _SHOWN, like[boxes[common.argmax(axis=1), 4].astype(int)], np.nan)
    return np.where(value >= NAMED, 1, np.where(value <= OTHER, 0, -1)).astype(np.int8)


def read_boxes(path: str, files: Sequence[str]) -> dict[int, np.ndarray]:
    """A file of `weights.making.mark_calibration.boxes` → place of a photo → its boxes (k, 6).

    Columns are left, top, right, bottom as shares, thing, confidence.
    """
    content = json_document(path, "boxes")
    try:
        known = [(place, content[file]) for place, file in enumerate(files) if file in content]
        return {place: np.array(boxes, np.float64).reshape(-1, 6) for place, boxes in known}
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} is not a file of boxes: {error}", field="boxes") from None
