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

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.infometic.mark_calibration import MARKED_CLASSES, MarkNetwork, PhotoBatch
from capscore.infometic.network import padded as padded_arrays
from training.engine.processes import Gather
from weights.making.mark_calibration.features import MarkFeatures

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


def words_of_caption(features: MarkFeatures, photo: int, caption: int) -> PhotoWords:
    """The words of a caption beside a photo, all as right ones."""
    part = features.words_of(caption)
    words = features.word[part]
    return PhotoWords(
        photo, words, features.word_class[part].astype(np.int64), np.ones(len(words), np.float32)
    )


class WordDraws:
    """Batches of photos with words; a pure function of seed, epoch and step.

    `others` are words of other photos per right word, `rare` rare things per photo, `weights` how likely
    captions of a language are drawn; 1 for those not named.
    """

    def __init__(
        self,
        features: MarkFeatures,
        photos: Sequence[int],
        batch_size: int,
        *,
        captions: int,
        others: int = 1,
        rare: int = 0,
        weights: Mapping[str, float] | None = None,
        seed: int,
    ):
        self.features, self.captions, self.others, self.seed = features, captions, others, seed
        self.n_rare, self.rare = rare, rare_things(features)
        self.alike = like_words(features)
        has_words = np.diff(features.start) > 0
        self.own: dict[int, np.ndarray] = {}
        self.chances: dict[int, np.ndarray] = {}
        for photo in photos:
            own = features.captions_of[photo]
            own = own[has_words[own]]
            if len(own):
                likely = weights or {}
                chance = np.array([likely.get(code, 1.0) for code in features.language[own].tolist()])
                self.own[photo], self.chances[photo] = own, chance / chance.sum()
        self.photos = np.array(sorted(self.own))
        self.steps_per_epoch = max(1, len(self.photos) // batch_size)

    def batch(self, epoch: int, step: int) -> list[PhotoWords]:
        order = np.random.default_rng([self.seed, epoch]).permutation(self.photos)
        start, stop = (len(order) * place // self.steps_per_epoch for place in (step, step + 1))
        chance = np.random.default_rng([self.seed, epoch, step])
        return self.draw(order[start:stop], chance)

    def draw(self, photos: np.ndarray, chance: np.random.Generator) -> list[PhotoWords]:
        features = self.features
        drawn = [
            (number, caption)
            for number, photo in enumerate(photos.tolist())
            for caption in chance.choice(self.own[photo], self.captions, p=self.chances[photo]).tolist()
        ]
        parts = [features.words_of(caption) for _, caption in drawn]
        sizes = [part.stop - part.start for part in parts]
        right = np.concatenate([features.word[part] for part in parts])
        classes = np.concatenate([features.word_class[part] for part in parts]).astype(np.int64)
        at = np.repeat([number for number, _ in drawn], sizes)
        found = [(right, classes, at, np.ones(len(right), np.float32))]

        def add(words: np.ndarray, kinds: np.ndarray, at: np.ndarray, supported: float = SUPPORTED) -> None:
            wrong = features.support[words, photos[at]] < supported * 255
            found.append((words[wrong], kinds[wrong], at[wrong], np.zeros(int(wrong.sum()), np.float32)))

        if len(photos) > 1:
            for _ in range(self.others):
                to = (at + chance.integers(1, len(photos), len(at))) % len(photos)
                add(right, classes, to)
        spoken = [(number, str(features.language[caption])) for number, caption in drawn]
        things, of = self._rare(spoken, chance)
        add(things, np.full(len(things), NOUN, np.int64), of, _UNLIKE)
        alike = self.alike[right, chance.integers(0, _NEIGHBOURS, len(right))]
        there = (alike >= 0) & (classes == NOUN)
        add(alike[there], classes[there], at[there])
        words, kinds, places, labels = (np.concatenate(part) for part in zip(*found, strict=True))
        return [
            PhotoWords(photo, words[places == number], kinds[places == number], labels[places == number])
            for number, photo in enumerate(photos.tolist())
        ]

    def _rare(
        self, spoken: Sequence[tuple[int, str]], chance: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rare things in the languages of each photo's captions: words, and places of photos."""
        words, at = [], []
        for number, own in groupby(spoken, key=lambda item: item[0]):
            known = [language for _, language in own if language in self.rare]
            for language in chance.choice(known, self.n_rare).tolist() if known else ():
                words.append(int(chance.choice(self.rare[language])))
                at.append(number)
        return np.array(words, np.int64), np.array(at, np.int64)


def rare_things(features: MarkFeatures) -> dict[str, np.ndarray]:
    """Language → places of the names of things that captions hardly ever mention."""
    counts = np.bincount(features.word, minlength=len(features.words))
    found: dict[str, list[int]] = {}
    for names in features.vocabulary:
        if counts[names["en"]] < _RARE:
            for language, place in names.items():
                found.setdefault(language, []).append(place)
    return {language: np.unique(own) for language, own in found.items()}


def like_words(features: MarkFeatures) -> np.ndarray:
    """For each word, the nouns of its language most like it of another meaning, int64 (v, n), or −1."""
    language = np.array([item for item, _ in features.words])
    nouns = Counter(features.word[features.word_class == NOUN].tolist())
    alike = np.full((len(features.words), _NEIGHBOURS), -1, np.int64)
    embeddings = torch.from_numpy(np.array(features.embeddings)).float()
    for code in sorted(set(language.tolist())):
        candidates = np.array(
            [word for word, n in sorted(nouns.items()) if language[word] == code and n >= _FREQUENT], np.int64
        )
        if len(candidates) <= _NEIGHBOURS:
            continue
        own = np.flatnonzero(language == code)
        for part in np.array_split(own, len(own) // 2000 + 1):
            cosines = embeddings[part] @ embeddings[candidates].T
            cosines[cosines > _SAME] = -1.0
            alike[part] = candidates[cosines.topk(_NEIGHBOURS, dim=1).indices.numpy()]
    return alike


def common_nouns(features: MarkFeatures, photos: Sequence[int]) -> dict[str, tuple[str, ...]]:
    """Language → the nouns of captions of these photos to name regions by, the most frequent first."""
    of_word = np.repeat(np.isin(features.photo, np.asarray(photos)), np.diff(features.start))
    nouns = features.word[of_word & (features.word_class == NOUN)]
    listed: dict[str, list[str]] = {}
    for place, n in Counter(nouns.tolist()).most_common():
        language, text = features.words[place]
        own = listed.setdefault(language, [])
        if n >= NOUN_COUNT and len(own) < MOST_NOUNS and (len(text) > 1 or language in ("zh", "ja")):
            own.append(text)
    return {language: tuple(own) for language, own in sorted(listed.items()) if own}


class MarkLoss:
    """The loss on photos, as `training.engine.loop.run` calls it; `thing_weight` is a.

    `boxes` maps a photo to its boxes (k, 4) as shares; photos without an entry teach none.
    """

    def __init__(self, features: MarkFeatures, boxes: Mapping[int, np.ndarray], thing_weight: float):
        self.features, self.boxes, self.thing_weight = features, boxes, thing_weight
        self.embeddings = torch.from_numpy(np.array(features.embeddings))

    def __call__(self, model: nn.Module, rows: Sequence[PhotoWords], gather: Gather) -> dict[str, Tensor]:
        assert isinstance(model, MarkNetwork)
        seen = seen_photos(self.features, [row.photo for row in rows])
        words, classes, right, there = padded(rows)
        logits = model.word_logits(seen, self.embeddings[words].float(), classes)
        each = F.binary_cross_entropy_with_logits(logits.float(), right, reduction="none")
        is_right, is_wrong = there & (right > 0), there & (right == 0)
        weight = is_right / gather(is_right.sum(dim=1)).sum().clamp(min=1)
        weight = weight + is_wrong / gather(is_wrong.sum(dim=1)).sum().clamp(min=1)
        terms = {"words": gather((each * weight).sum(dim=1)).sum() / 2.0}
        if self.thing_weight and self.boxes:
            confidence, overlap, known = (gather(item) for item in self._things(model, seen, rows))
            n_known = known.sum().clamp(min=1)
            terms["confidence"], terms["boxes"] = confidence.sum() / n_known, overlap.sum() / n_known
        things = terms.get("confidence", 0.0) + terms.get("boxes", 0.0)
        return {"loss": terms["words"] + self.thing_weight * things, **terms}

    def _things(
        self, model: MarkNetwork, seen: PhotoBatch, rows: Sequence[PhotoWords]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Losses of confidence and overlap per photo, 0 without an entry; and 1 for a photo with one."""
        photos = [row.photo for row in rows]
        height, width = self.features.side.tolist()
        logits, found = model.object_boxes(seen.cells, height, width)
        boxes = [self.boxes.get(photo, np.zeros((0, 4))) for photo in photos]
        targets, there = zip(*(cell_boxes(own, height, width) for own in boxes), strict=True)
        wanted, has = torch.from_numpy(np.stack(targets)), torch.from_numpy(np.stack(there))
        confidence = F.binary_cross_entropy_with_logits(logits.float(), has.float(), reduction="none")
        overlap = (1.0 - overlaps_of(found.float(), wanted)) * has
        known = torch.tensor([float(photo in self.boxes) for photo in photos])
        overlap = overlap.sum(dim=1) / has.sum(dim=1).clamp(min=1)
        return confidence.mean(dim=1) * known, overlap * known, known


def seen_photos(features: MarkFeatures, photos: Sequence[int]) -> PhotoBatch:
    arrays = features.cells, features.whole, features.windows
    seen = (torch.from_numpy(part[list(photos)].astype(np.float32)) for part in arrays)
    return PhotoBatch(*seen, torch.from_numpy(features.there[list(photos)]))


def padded(rows: Sequence[PhotoWords]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Words, classes, right (all (n, m)) and where words are, bool (n, m)."""
    words, there = padded_arrays([row.words for row in rows], "cpu")
    classes, _ = padded_arrays([row.classes for row in rows], "cpu")
    right, _ = padded_arrays([row.right for row in rows], "cpu")
    return words, classes, right, there


def cell_boxes(boxes: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The smallest box around each cell's centre, float32 (h · w, 4), and whether there is one, (h · w,)."""
    row, column = np.mgrid[:height, :width]
    x, y = ((column + 0.5) / width).ravel()[:, None], ((row + 0.5) / height).ravel()[:, None]
    wanted, there = np.zeros((height * width, 4), np.float32), np.zeros(height * width, bool)
    if len(boxes):
        inside = (x > boxes[:, 0]) & (x < boxes[:, 2]) & (y > boxes[:, 1]) & (y < boxes[:, 3])
        extents = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        there = inside.any(axis=1)
        wanted[there] = boxes[np.where(inside, extents, np.inf).argmin(axis=1)][there]
    return wanted, there


def overlaps_of(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union of boxes (…, 4) with those at the same place, (…)."""
    corner = torch.maximum(first[..., :2], second[..., :2])
    other = torch.minimum(first[..., 2:], second[..., 2:])
    common = (other - corner).clamp(min=0).prod(dim=-1)
    areas = [(boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(dim=-1) for boxes in (first, second)]
    return common / (areas[0] + areas[1] - common).clamp(min=1e-8)
