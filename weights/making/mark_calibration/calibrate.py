"""Held-out captions → probabilities and thresholds of a network.

In: a network with trained word logits, features, photos of the split "calibrate". Out: curves. The small
layers for words in captions are trained on the way: captions of photos that the training has seen are too
easy. They are trained twice, each time on half of the photos, and the curves come from the other half.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.errors import CapscoreError
from capscore.infometic.mark_calibration import (
    MARKED_CLASSES,
    RATES,
    SHARED,
    MarkCalibration,
    MarkCurve,
    MarkNetwork,
)
from capscore.infometic.marks import MarkedRow, PhotoFeatures, row_features
from capscore.infometic.words import CaptionWord, caption_words
from weights.making.mark_calibration.draws import SUPPORTED, PhotoWords, WordDraws, padded, seen_photos
from weights.making.mark_calibration.features import MarkFeatures

# Number of logits that those of other languages count for in the quantiles of one language.
PRIOR = 300
# Logits of each side that a language, or a class of its words, needs for a curve of its own.
LEAST = 100
# Captions of each photo: as they are, with a wrong word, and of another photo.
CAPTIONS = 6
# What is planted in each caption, each time in the caption as it was: a noun of any kind, a noun that is
# among those most like the right one, a thing that captions hardly ever mention, and a word of another class.
PLANTED = ("noun", "alike", "rare", "other")
_TOO_FEW = f"fewer than {LEAST} nouns or captions to calibrate on: more photos are needed"
_PHOTOS = 64
_STEPS = 600
_RIGHT, _WRONG, _UNKNOWN = 1, 0, -1

Embed = Callable[[Sequence[str]], np.ndarray]


@dataclass(frozen=True, eq=False)
class CaptionCase:
    photo: int
    row: MarkedRow  # what the network reads
    kind: str  # "right", "planted" (one word is wrong) or "other" (of another photo)
    labels: np.ndarray  # int8, for each of the row's words 1 (right), 0 (wrong) or -1 (unknown)


def calibrate(
    network: MarkNetwork, features: MarkFeatures, photos: Sequence[int], embed: Embed, seed: int
) -> tuple[Mapping[str, MarkCurve], dict[str, dict[str, MarkCurve]], dict[str, MarkCurve]]:
    """Curves of words alone, of words in captions, and of captions, from photos of the split "calibrate".

    The layers of the network, in eval mode, for words in captions are trained. `embed` maps texts to rows of
    unit length (m, d). Raises CapscoreError if there are too few captions.
    """
    draws = WordDraws(features, photos, len(photos), captions=8, rare=2, seed=seed)
    alone = curves_of_words_alone(network, features, draws, seed)
    cases = make_cases(features, draws, embed, seed)
    curve = next(iter(alone.values()))
    loaded = MarkCalibration(network, alone, {SHARED: {}}, {SHARED: curve}, curve)
    found = row_features(loaded, [case.row for case in cases], embed)
    language, kind = (np.array(part) for part in zip(*((c.row.language, c.kind) for c in cases), strict=True))

    sizes = [len(item.numbers) for item in found]
    labels = np.concatenate([case.labels[item.numbers] for case, item in zip(cases, found, strict=True)])
    classes = np.concatenate([item.classes for item in found])
    halves = np.random.default_rng([seed, 3]).permutation(len(features.files)) % 2
    half = np.repeat(halves[[case.photo for case in cases]], sizes)
    of_words = torch.from_numpy(np.concatenate([item.words for item in found]))
    logits = crossed(network.in_caption, network.in_caption_logits, of_words, labels, half)
    words: dict[str, dict[str, MarkCurve]] = {SHARED: {}}
    for number, name in enumerate(MARKED_CLASSES):
        here = classes == number
        spoken = np.repeat(language, sizes)[here]
        for code, own in _curves(
            spoken, logits[here], labels[here] == _RIGHT, labels[here] == _WRONG
        ).items():
            words.setdefault(code, {})[name] = own
    # captions with a wrong word must be judged word by word: only captions of other photos do not fit
    fits = np.array([float(item.logits[1]) for item in found])
    captions = _curves(language, fits, kind == "right", kind == "other")
    if "noun" not in words[SHARED] or SHARED not in captions:
        raise CapscoreError(_TOO_FEW)
    return alone, words, captions


def _curves(
    language: np.ndarray, logits: np.ndarray, right: np.ndarray, wrong: np.ndarray
) -> dict[str, MarkCurve]:
    """Language or `SHARED` → curve of logits (n,) of what is right and what is wrong, bool (n,)."""
    found = {}
    for code in (*np.unique(language).tolist(), SHARED):
        here = (language == code) | (code == SHARED)
        prior = None if code == SHARED else logits[right]
        curve = _curve(logits[here & right], logits[here & wrong], prior)
        if curve is not None:
            found[code] = curve
    return found


def curves_of_words_alone(
    network: MarkNetwork, features: MarkFeatures, draws: WordDraws, seed: int
) -> dict[str, MarkCurve]:
    """Class → curve of its words alone, in all languages."""
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    chance = np.random.default_rng(seed)
    for start in range(0, len(draws.photos), _PHOTOS):
        rows = draws.draw(draws.photos[start : start + _PHOTOS], chance)
        for row, own in zip(rows, logits_of(network, features, rows), strict=True):
            found.append((row.classes, row.right, own))
    kinds, right, logits = map(np.concatenate, zip(*found, strict=True)) if found else np.zeros((3, 0))
    curves = {}
    for number, name in enumerate(MARKED_CLASSES):
        of_class = logits[(kinds == number) & (right > 0)], logits[(kinds == number) & (right == 0)]
        if (curve := _curve(*of_class)) is not None:
            curves[name] = curve
    if "noun" not in curves:
        raise CapscoreError(_TOO_FEW)
    return curves


def logits_of(network: MarkNetwork, features: MarkFeatures, rows: Sequence[PhotoWords]) -> list[np.ndarray]:
    words, classes, _, there = padded(rows)
    embeddings = torch.from_numpy(features.embeddings[words.numpy()].astype(np.float32))
    with torch.inference_mode():
        logits = network.word_logits(seen_photos(features, [row.photo for row in rows]), embeddings, classes)
    return [own[mask].numpy() for own, mask in zip(logits, there, strict=True)]


def make_cases(features: MarkFeatures, draws: WordDraws, embed: Embed, seed: int) -> list[CaptionCase]:
    """Captions of each photo as they are, with a wrong word, and captions of other photos."""
    chance = np.random.default_rng([seed, 1])
    captions = np.concatenate(
        [
            chance.choice(draws.own[photo], min(CAPTIONS, len(draws.own[photo])), replace=False)
            for photo in draws.photos.tolist()
        ]
    )
    others = np.empty_like(captions)
    for code in np.unique(features.language[captions]).tolist():
        own = np.flatnonzero(features.language[captions] == code)
        others[own] = other_captions(features, features.photo[captions[own]], captions[own], chance)
    tagged = _tagged(features, np.concatenate([captions, others]))
    cases: list[tuple[int, str, str, list[CaptionWord], np.ndarray, str]] = []
    for caption, other in zip(captions.tolist(), others.tolist(), strict=True):
        photo, language = int(features.photo[caption]), str(features.language[caption])
        words = tagged[caption]
        right = _labels(words, _RIGHT)
        cases.append((photo, features.captions[caption], language, words, right, "right"))
        for drawn in PLANTED:
            planted = _planted(features, draws, photo, caption, drawn, words, chance)
            if planted is not None:
                cases.append((photo, *planted, "planted"))
        if features.photo[other] != photo:
            words, text = tagged[other], features.captions[other]
            # the words of a caption that does not fit are not judged one by one
            cases.append((photo, text, language, words, _labels(words, _UNKNOWN), "other"))
    texts = list(dict.fromkeys(text for _, text, *_ in cases))
    vectors = dict(zip(texts, np.asarray(embed(texts), np.float32), strict=True))
    seen = {
        photo: PhotoFeatures(
            np.array(features.cells[photo]), np.array(features.windows[photo][features.there[photo]])
        )
        for photo in draws.photos.tolist()
    }
    none = np.zeros((0, features.whole.shape[1]), np.float32), np.zeros((0, 4))
    found = []
    for photo, text, language, words, labels, kind in cases:
        whole = features.whole[photo].astype(np.float32)
        row = MarkedRow(seen[photo], whole, vectors[text], text, words, language, *none)
        found.append(CaptionCase(photo, row, kind, labels))
    return found


def _tagged(features: MarkFeatures, captions: np.ndarray) -> dict[int, list[CaptionWord]]:
    found: dict[int, list[CaptionWord]] = {}
    for code in np.unique(features.language[captions]).tolist():
        own = sorted({caption for caption in captions.tolist() if features.language[caption] == code})
        words = caption_words([features.captions[caption] for caption in own], code)
        found.update(zip(own, words, strict=True))
    return found


def _labels(words: Sequence[CaptionWord], label: int) -> np.ndarray:
    return np.array([label if word.word_class in MARKED_CLASSES else _UNKNOWN for word in words], np.int8)


def _planted(
    features: MarkFeatures,
    draws: WordDraws,
    photo: int,
    caption: int,
    drawn: str,
    words: Sequence[CaptionWord],
    chance: np.random.Generator,
) -> tuple[str, str, list[CaptionWord], np.ndarray] | None:
    """The caption with one of its words exchanged for one of its class that the photo does not support."""
    choices = [
        number
        for number, word in enumerate(words)
        if word.word_class in MARKED_CLASSES and (word.word_class == "noun") == (drawn != "other")
    ]
    if not choices:
        return None
    language, number = str(features.language[caption]), int(chance.choice(choices))
    old = words[number]
    if drawn == "alike":
        like = draws.alike[features.place_of[language, old.text.lower()]]
        candidates = like[like >= 0]
    elif drawn == "rare":
        candidates = draws.rare.get(language, np.zeros(0, np.int64))
    else:
        candidates = features.by_class[language, MARKED_CLASSES.index(old.word_class)]
    for _ in range(10 if len(candidates) else 0):
        new = int(chance.choice(candidates))
        if features.support[new, photo] < SUPPORTED * 255:
            text, whole = features.words[new][1], features.captions[caption]
            shift = len(text) - (old.end - old.start)
            planted = CaptionWord(text, old.start, old.start + len(text), True, old.word_class)
            after = (
                word._replace(start=word.start + shift, end=word.end + shift) for word in words[number + 1 :]
            )
            changed = [*words[:number], planted, *after]
            labels = _labels(changed, _RIGHT)
            labels[number] = _WRONG
            return whole[: old.start] + text + whole[old.end :], language, changed, labels
    return None


def other_captions(
    features: MarkFeatures, photos: np.ndarray, captions: np.ndarray, chance: np.random.Generator
) -> np.ndarray:
    """For each photo, one of these captions, of a photo that shares less than half of its words with it."""

    def clashes(photo: int, caption: int) -> bool:
        words = features.word[features.words_of(caption)]
        shared = (features.support[words, photo] > SUPPORTED * 255).mean()
        return features.photo[caption] == photo or shared >= 0.5

    chosen = chance.permutation(captions)
    for _ in range(20):
        pairs = zip(photos.tolist(), chosen.tolist(), strict=True)
        clash = np.array([clashes(*pair) for pair in pairs])
        if not clash.any():
            break
        chosen[clash] = chance.choice(captions, int(clash.sum()))
    return chosen


def crossed(
    layers: nn.Module,
    logits_of: Callable[[Tensor], Tensor],
    inputs: Tensor,
    labels: np.ndarray,
    half: np.ndarray,
) -> np.ndarray:
    """Logits of each half of the photos by layers trained on the other; then train them on both, in place.

    `logits_of` maps inputs (n, features) to logits with the layers; labels (n,) are 1 right, 0 wrong, −1
    unknown, which trains nothing; half (n,) is 0 or 1.
    """
    start = {name: tensor.clone() for name, tensor in layers.state_dict().items()}
    found = np.zeros(len(labels), np.float64)
    truth = torch.from_numpy(labels.astype(np.float32))
    for own in (0, 1):
        layers.load_state_dict(start)
        train = torch.from_numpy((half != own) & (labels != _UNKNOWN))
        fit_layers(layers, logits_of, inputs[train], truth[train])
        with torch.inference_mode():
            found[half == own] = logits_of(inputs[torch.from_numpy(half == own)]).double().numpy()
    layers.load_state_dict(start)
    known = torch.from_numpy(labels != _UNKNOWN)
    fit_layers(layers, logits_of, inputs[known], truth[known])
    return found


def fit_layers(
    layers: nn.Module, logits_of: Callable[[Tensor], Tensor], inputs: Tensor, labels: Tensor
) -> None:
    """Fit small layers to all rows at once, right and wrong ones with half of the weight each."""
    inputs, labels = inputs.clone(), labels.clone()
    weight = torch.where(labels > 0, 0.5 / labels.sum().clamp(min=1), 0.5 / (1 - labels).sum().clamp(min=1))
    optimiser = torch.optim.AdamW(layers.parameters(), lr=2e-2, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, _STEPS)
    with torch.enable_grad():
        for parameter in layers.parameters():
            parameter.requires_grad_(True)
        for _ in range(_STEPS):
            each = F.binary_cross_entropy_with_logits(logits_of(inputs), labels, reduction="none")
            optimiser.zero_grad()
            (each @ weight).backward()
            optimiser.step()
            schedule.step()


def _curve(right: np.ndarray, wrong: np.ndarray, prior: np.ndarray | None = None) -> MarkCurve | None:
    return None if min(len(right), len(wrong)) < LEAST else fit_curve(right, wrong, prior)


def fit_curve(right: np.ndarray, wrong: np.ndarray, prior: np.ndarray | None = None) -> MarkCurve:
    """Calibrate logits of what is right and of what is wrong, at least 2 each, with half of the weight each.

    Platt's method (Platt 1999) without his smoothing, by Newton's method. `prior` are logits of what is
    right in other languages, which count as `PRIOR` further ones for the quantiles: the lowest few per cent
    of a few hundred logits are a matter of chance.
    """
    if min(len(right), len(wrong)) < 2:
        raise CapscoreError(f"{len(right)} right and {len(wrong)} wrong logits: expected at least 2 of each")
    x = np.concatenate([right, wrong]).astype(np.float64)
    if not np.isfinite(x).all():
        raise CapscoreError("logits to calibrate hold NaN or infinity")
    y = np.repeat([1.0, 0.0], [len(right), len(wrong)])
    weight = np.repeat([0.5 / len(right), 0.5 / len(wrong)], [len(right), len(wrong)])
    inputs = np.stack([x, np.ones_like(x)], axis=1)
    theta = np.zeros(2)
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-np.clip(inputs @ theta, -50.0, 50.0)))
        # a little weight decay keeps it finite where the two do not overlap
        slope = inputs.T @ (weight * (p - y)) + 1e-4 * theta
        bend = (inputs * (weight * p * (1.0 - p))[:, None]).T @ inputs + 1e-4 * np.eye(2)
        step = np.linalg.solve(bend, slope)
        theta -= step
        if np.abs(step).max() < 1e-9:
            break
    curve = MarkCurve(float(theta[0]), float(theta[1]), (0.0,) * len(RATES), 0.0)
    p_right, p_wrong = curve.probabilities(right), curve.probabilities(wrong)
    quantiles = _quantiles(p_right, None if prior is None else curve.probabilities(prior))
    found = float((p_wrong < np.interp(0.05, RATES, quantiles)).mean())
    return MarkCurve(curve.scale, curve.bias, tuple(quantiles.tolist()), found)


def _quantiles(values: np.ndarray, prior: np.ndarray | None) -> np.ndarray:
    """Quantiles at `RATES` of values and of others that count as `PRIOR` together."""
    if prior is None or not len(prior):
        return np.quantile(values, RATES)
    joined = np.concatenate([values, prior])
    weights = np.concatenate([np.ones(len(values)), np.full(len(prior), PRIOR / len(prior))])
    order = np.argsort(joined, kind="stable")
    # the share below the middle of each value's own weight
    shares = (np.cumsum(weights[order]) - weights[order] / 2.0) / weights.sum()
    return np.interp(RATES, shares, joined[order])
