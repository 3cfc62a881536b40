"""Features → the words of each step, those of a photo's captions and such that it does not support; the loss.

A wrong word comes from a caption of another photo of the batch, it is one of the words most like a right one
("dog" → "cat"), or it names a thing that captions hardly ever mention ("accordion"). It counts as wrong only
if no word of the photo's own captions, in any language, is like it.

    L = L_words + a · (L_confidence + L_boxes)

L_words is the cross-entropy of right and wrong words, half of the weight for each. A cell of the map is
responsible for the smallest box of a thing that its centre lies in (Tian et al. 2019, FCOS); L_confidence is
the cross-entropy of whether there is one, L_boxes 1 − the overlap with it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.images.boxes import areas
from capscore.infometic.mark_calibration import MARKED_CLASSES, MarkNetwork, PhotoBatch
from capscore.infometic.network import padded
from training.engine.processes import Gather
from weights.making.mark_calibration.features import MarkFeatures, rows_at
from weights.making.settings import MarkCalibrationSettings

# Cosine with a word of the photo's captions above which a word may be right: "man" and "person" have 0.7,
# "dog" and "cat" 0.54.
SUPPORTED = 0.58
# Words that are candidates for a replacement of the same kind, and how often they must occur at least.
_NEIGHBOURS, _FREQUENT = 24, 3
# Above this cosine a replacement may mean the same as the word.
_SAME = 0.6
# Most nouns per language to name regions by, and how often such a noun occurs in captions.
MOST_NOUNS, NOUN_COUNT = 1500, 5
# Of the vocabulary of things, those are rare whose English name occurs less often in captions. They count as
# wrong below this cosine, which is lower since captions say little of such things.
_RARE, _UNLIKE = 40, 0.5
NOUN = MARKED_CLASSES.index("noun")


class PhotoWords(NamedTuple):
    photo: int
    words: np.ndarray  # int64, places among the distinct words
    classes: np.ndarray  # int64
    right: np.ndarray  # float32, 1 for a right word


class WordDraws:
    """Batches of photos with words; a pure function of seed, epoch and step."""

    def __init__(self, features: MarkFeatures, photos: Sequence[int], settings: MarkCalibrationSettings):
        self.features, self.settings = features, settings
        self.rare, self.alike = rare_things(features), like_words(features)
        weights = settings.numbers("languages")
        has_words = np.diff(features.start) > 0
        self.own: dict[int, np.ndarray] = {}
        self.chances: dict[int, np.ndarray] = {}
        for photo in photos:
            own = features.captions_of[photo]
            own = own[has_words[own]]
            if len(own):
                chance = np.array([weights.get(code, 1.0) for code in features.language[own].tolist()])
                self.own[photo], self.chances[photo] = own, chance / chance.sum()
        self.photos = np.array(sorted(self.own))
        self.steps_per_epoch = max(1, len(self.photos) // settings.batch_size)

    def batch(self, epoch: int, step: int) -> list[PhotoWords]:
        seed = self.settings.seed
        order = np.random.default_rng([seed, epoch]).permutation(self.photos)
        start, stop = (len(order) * place // self.steps_per_epoch for place in (step, step + 1))
        return self.draw(order[start:stop], np.random.default_rng([seed, epoch, step]))

    def draw(self, photos: np.ndarray, chance: np.random.Generator) -> list[PhotoWords]:
        features, settings, listed = self.features, self.settings, photos.tolist()
        drawn = [chance.choice(self.own[photo], settings.captions, p=self.chances[photo]) for photo in listed]
        parts = [features.words_of(caption) for caption in np.concatenate(drawn).tolist()]
        right = np.concatenate([features.word[part] for part in parts])
        classes = np.concatenate([features.word_class[part] for part in parts]).astype(np.int64)
        sizes = [part.stop - part.start for part in parts]
        at = np.repeat(np.repeat(np.arange(len(photos)), settings.captions), sizes)
        # words, classes, places of the photos, and the support from which a word is left out
        found = [(right, classes, at, math.inf)]
        for _ in range(settings.others if len(photos) > 1 else 0):
            others = (at + chance.integers(1, len(photos), len(at))) % len(photos)
            found.append((right, classes, others, SUPPORTED))
        for number, captions in enumerate(drawn):
            known = [code for code in features.language[captions].tolist() if code in self.rare]
            for code in chance.choice(known, settings.rare).tolist() if known else ():
                found.append(([chance.choice(self.rare[code])], [NOUN], [number], _UNLIKE))
        alike = self.alike[right, chance.integers(0, _NEIGHBOURS, len(right))]
        there = (alike >= 0) & (classes == NOUN)
        found.append((alike[there], classes[there], at[there], SUPPORTED))
        *columns, limits = zip(*found, strict=True)
        words, kinds, places = map(np.concatenate, columns)
        limit = np.repeat(limits, list(map(len, columns[0])))
        kept = features.support[words, photos[places]] < limit * 255
        rows = []
        for number, photo in enumerate(listed):
            own = kept & (places == number)
            rows.append(PhotoWords(photo, words[own], kinds[own], np.isinf(limit[own]).astype(np.float32)))
        return rows


def rare_things(features: MarkFeatures) -> dict[str, np.ndarray]:
    """Language → places of the names of things that captions hardly ever mention."""
    counts = np.bincount(features.word, minlength=len(features.words))
    found: dict[str, list[int]] = defaultdict(list)
    for names in features.vocabulary:
        for language, place in names.items() if counts[names["en"]] < _RARE else ():
            found[language].append(place)
    return {language: np.unique(own) for language, own in found.items()}


def like_words(features: MarkFeatures) -> np.ndarray:
    """For each word, the nouns of its language most like it of another meaning, int64 (v, n), or −1."""
    language = np.array([item for item, _ in features.words])
    nouns = np.bincount(features.word[features.word_class == NOUN], minlength=len(language))
    alike = np.full((len(language), _NEIGHBOURS), -1, np.int64)
    embeddings = torch.from_numpy(np.array(features.embeddings)).float()
    for code in np.unique(language).tolist():
        candidates = np.flatnonzero((language == code) & (nouns >= _FREQUENT))
        own = np.flatnonzero(language == code)
        for part in np.array_split(own, len(own) // 2000 + 1) if len(candidates) > _NEIGHBOURS else ():
            cosines = embeddings[part] @ embeddings[candidates].T
            cosines[cosines > _SAME] = -1.0
            alike[part] = candidates[cosines.topk(_NEIGHBOURS, dim=1).indices.numpy()]
    return alike


def common_nouns(features: MarkFeatures, photos: Sequence[int]) -> dict[str, tuple[str, ...]]:
    """Language → the nouns of captions of these photos to name regions by, the most frequent first."""
    of_word = np.repeat(np.isin(features.photo, np.asarray(photos)), np.diff(features.start))
    nouns = features.word[of_word & (features.word_class == NOUN)]
    listed: dict[str, list[str]] = defaultdict(list)
    for place, n in Counter(nouns.tolist()).most_common():
        language, text = features.words[place]
        if n >= NOUN_COUNT and (len(text) > 1 or language in ("zh", "ja")):
            listed[language].append(text)
    return {language: tuple(own[:MOST_NOUNS]) for language, own in sorted(listed.items())}


class MarkLoss:
    """The loss on photos, as `training.engine.loop.run` calls it; `thing_weight` is a.

    `boxes` are those of `read_boxes`; photos without an entry teach none.
    """

    def __init__(self, features: MarkFeatures, boxes: Mapping[int, np.ndarray], thing_weight: float):
        self.features, self.boxes, self.thing_weight = features, boxes, thing_weight

    def __call__(self, model: nn.Module, rows: Sequence[PhotoWords], gather: Gather) -> dict[str, Tensor]:
        assert isinstance(model, MarkNetwork)
        seen, logits, _, right, there = judged(model, self.features, rows)
        each = F.binary_cross_entropy_with_logits(logits.float(), right, reduction="none")
        is_right, is_wrong = there & (right > 0), there & (right == 0)
        weight = is_right / gather(is_right.sum(dim=1)).sum().clamp(min=1)
        weight = weight + is_wrong / gather(is_wrong.sum(dim=1)).sum().clamp(min=1)
        words = gather((each * weight).sum(dim=1)).sum() / 2.0

        height, width = self.features.side.tolist()
        logits, found = model.object_boxes(seen.cells, height, width)
        boxes = [self.boxes.get(row.photo, np.zeros((0, 4))) for row in rows]
        targets, has = zip(*(cell_boxes(own[:, :4], height, width) for own in boxes), strict=True)
        wanted, has = torch.from_numpy(np.stack(targets)), torch.from_numpy(np.stack(has))
        sure = F.binary_cross_entropy_with_logits(logits.float(), has.float(), reduction="none").mean(dim=1)
        apart = (1.0 - overlaps_of(found.float(), wanted)) * has
        apart = apart.sum(dim=1) / has.sum(dim=1).clamp(min=1)
        # a photo without an entry teaches nothing of boxes
        known = torch.tensor([float(row.photo in self.boxes) for row in rows])
        n_known = gather(known).sum().clamp(min=1)
        confidence, overlap = (gather(part * known).sum() / n_known for part in (sure, apart))
        loss = words + self.thing_weight * (confidence + overlap)
        return {"loss": loss, "words": words, "confidence": confidence, "boxes": overlap}


def judged(
    model: MarkNetwork, features: MarkFeatures, rows: Sequence[PhotoWords]
) -> tuple[PhotoBatch, Tensor, Tensor, Tensor, Tensor]:
    """The photos; logits, classes, right (all (n, m)) and where words are, bool (n, m)."""
    photos, *columns = zip(*rows, strict=True)
    (words, there), (classes, _), (right, _) = (padded(column, "cpu") for column in columns)
    seen = features.seen(list(photos))
    logits = model.word_logits(seen, rows_at(features.embeddings, words.numpy()), classes)
    return seen, logits, classes, right, there


def cell_boxes(boxes: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The smallest box around each cell's centre, float32 (h · w, 4), and whether there is one, (h · w,)."""
    row, column = np.mgrid[:height, :width]
    x, y = ((column + 0.5) / width).ravel()[:, None], ((row + 0.5) / height).ravel()[:, None]
    wanted, there = np.zeros((height * width, 4), np.float32), np.zeros(height * width, bool)
    if len(boxes):
        inside = (x > boxes[:, 0]) & (x < boxes[:, 2]) & (y > boxes[:, 1]) & (y < boxes[:, 3])
        there = inside.any(axis=1)
        wanted[there] = boxes[np.where(inside, areas(boxes), np.inf).argmin(axis=1)][there]
    return wanted, there


def overlaps_of(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union of boxes (…, 4) with those at the same place, (…)."""
    corner = torch.maximum(first[..., :2], second[..., :2])
    other = torch.minimum(first[..., 2:], second[..., 2:])
    common = (other - corner).clamp(min=0).prod(dim=-1)
    sizes = [(boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(dim=-1) for boxes in (first, second)]
    return common / (sizes[0] + sizes[1] - common).clamp(min=1e-8)
