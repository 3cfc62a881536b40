"""Held-out captions → probabilities and thresholds of a network.

In: a network with trained word logits, features, photos of the split "calibrate". Out: curves. The small
layers for words in captions are trained on the way: captions of photos that the training has seen are too
easy. They are trained twice, each time on half of the photos, and the curves come from the other half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.embedding.background import SHARED, Curve
from capscore.errors import CapscoreError
from capscore.infometic.mark_calibration import MARKED_CLASSES, RATES, MarkCalibration, MarkCurve, MarkNetwork
from capscore.infometic.marks import Embed, MarkedRow, PhotoFeatures, row_features
from capscore.infometic.words import CaptionWord, words_by_language
from training.data.word_pollution import replaced
from weights.making.mark_calibration.draws import SUPPORTED, WordDraws, judged
from weights.making.mark_calibration.features import MarkFeatures
from weights.making.settings import MarkCalibrationSettings

# Number of logits that those of other languages count for in the quantiles of one language.
PRIOR = 300
# Logits of each side that a language, or a class of its words, needs for a curve of its own.
LEAST = 100
# Captions of each photo: as they are, with a wrong word, and of another photo.
CAPTIONS = 6
# What is planted in each caption, each time in the caption as it was: a noun of any kind, a noun that is
# among those most like the right one, a thing that captions hardly ever mention, and a word of another class.
PLANTED = ("noun", "alike", "rare", "other")
_PHOTOS, _STEPS = 64, 600
_RIGHT, _WRONG, _UNKNOWN = 1, 0, -1
Logits = Callable[[Tensor], Tensor]


class Case(NamedTuple):
    """A caption beside a photo."""

    photo: int
    text: str
    language: str
    words: Sequence[CaptionWord]
    labels: np.ndarray  # int8, for each of the words 1 (right), 0 (wrong) or -1 (unknown)
    kind: str  # "right", "planted" (one word is wrong) or "other" (of another photo)


def calibrate(
    network: MarkNetwork, features: MarkFeatures, embed: Embed, settings: MarkCalibrationSettings
) -> tuple[dict[str, MarkCurve], dict[str, dict[str, MarkCurve]], dict[str, MarkCurve]]:
    """Curves of words alone, of words in captions, and of captions, from photos of the split "calibrate".

    The layers of the network, in eval mode, for words in captions are trained. Raises CapscoreError if there
    are too few captions.
    """
    seed, drawn = settings.seed, replace(settings, captions=8, others=1, rare=2, languages=[])
    draws = WordDraws(features, features.of_split("calibrate"), drawn)
    alone = _curves_of_words_alone(network, draws, seed)
    cases = make_cases(draws, seed)
    in_part = MarkCalibration(network, alone, {}, {}, None)  # what `row_features` reads of one
    found = row_features(in_part, _marked_rows(features, cases, embed), embed)
    language, kind = (np.array([getattr(case, name) for case in cases]) for name in ("language", "kind"))

    sizes = [len(item.numbers) for item in found]
    labels = np.concatenate([case.labels[item.numbers] for case, item in zip(cases, found, strict=True)])
    classes = np.concatenate([item.classes for item in found])
    halves = np.random.default_rng([seed, 3]).permutation(len(features.files)) % 2
    half = np.repeat(halves[[case.photo for case in cases]], sizes)
    of_words = torch.from_numpy(np.concatenate([item.words for item in found]))
    logits = crossed(network.in_caption, network.in_caption_logits, of_words, labels, half)
    spoken = np.repeat(language, sizes)
    words: dict[str, dict[str, MarkCurve]] = {SHARED: {}}
    for number, name in enumerate(MARKED_CLASSES):
        right, wrong = ((labels == label) & (classes == number) for label in (_RIGHT, _WRONG))
        for code, curve in _curves(spoken, logits, right, wrong).items():
            words.setdefault(code, {})[name] = curve
    # captions with a wrong word must be judged word by word: only captions of other photos do not fit
    fits = np.array([float(item.logits[1]) for item in found])
    captions = _curves(language, fits, kind == "right", kind == "other")
    if not ("noun" in alone and "noun" in words[SHARED] and SHARED in captions):
        raise CapscoreError(f"fewer than {LEAST} nouns or captions to calibrate on: more photos are needed")
    return alone, words, captions


def _curves(
    language: np.ndarray, logits: np.ndarray, right: np.ndarray, wrong: np.ndarray
) -> dict[str, MarkCurve]:
    """Language or `SHARED` → curve of logits (n,) of what is right and what is wrong, bool (n,)."""
    found = {}
    for code in (*np.unique(language).tolist(), SHARED):
        here = (language == code) | (code == SHARED)
        prior = logits[right] if code != SHARED else None
        if curve := fit_curve(logits[here & right], logits[here & wrong], prior):
            found[code] = curve
    return found


def _curves_of_words_alone(network: MarkNetwork, draws: WordDraws, seed: int) -> dict[str, MarkCurve]:
    """Class → curve of its words alone, in all languages."""
    chance, found = np.random.default_rng(seed), [np.zeros((3, 0))]
    for start in range(0, len(draws.photos), _PHOTOS):
        rows = draws.draw(draws.photos[start : start + _PHOTOS], chance)
        with torch.inference_mode():
            _, logits, classes, right, there = judged(network, draws.features, rows)
        found.append(torch.stack([classes, right, logits])[:, there].numpy())
    kinds, right, logits = np.concatenate(found, axis=1)
    curves = {}
    for number, name in enumerate(MARKED_CLASSES):
        own = kinds == number
        if curve := fit_curve(logits[own & (right > 0)], logits[own & (right == 0)]):
            curves[name] = curve
    return curves


def make_cases(draws: WordDraws, seed: int) -> list[Case]:
    """Captions of each photo as they are, with a wrong word, and captions of other photos."""
    features, chance = draws.features, np.random.default_rng([seed, 1])
    picked = [chance.choice(own, min(CAPTIONS, len(own)), replace=False) for own in draws.own.values()]
    captions = np.concatenate(picked)
    others = np.empty_like(captions)
    spoken = features.language[captions]
    for code in np.unique(spoken).tolist():
        others[spoken == code] = other_captions(features, captions[spoken == code], chance)
    distinct = np.unique(np.concatenate([captions, others])).tolist()
    texts = [features.captions[place] for place in distinct]
    listed = words_by_language(texts, features.language[distinct].tolist())
    words_of = dict(zip(distinct, listed, strict=True))
    cases = []
    for caption, other in zip(captions.tolist(), others.tolist(), strict=True):
        photo, language, words = int(features.photo[caption]), features.language[caption], words_of[caption]
        marked = [_RIGHT if word.word_class in MARKED_CLASSES else _UNKNOWN for word in words]
        right = Case(photo, features.captions[caption], language, words, np.array(marked, np.int8), "right")
        cases += [right, *_planted(draws, right, chance)]
        if features.photo[other] != photo:
            # the words of a caption that does not fit are not judged one by one
            unknown = np.full(len(words_of[other]), _UNKNOWN, np.int8)
            cases.append(Case(photo, features.captions[other], language, words_of[other], unknown, "other"))
    return cases


def _marked_rows(features: MarkFeatures, cases: Sequence[Case], embed: Embed) -> list[MarkedRow]:
    """The cases as the network reads them."""
    texts = list(dict.fromkeys(case.text for case in cases))
    vectors = dict(zip(texts, np.asarray(embed(texts), np.float32), strict=True))
    seen = {}
    for photo in {case.photo for case in cases}:
        windows = features.windows[photo][features.there[photo]]
        seen[photo] = PhotoFeatures(features.cells[photo], windows)
    nothing = np.zeros((0, features.whole.shape[1]), np.float32), np.zeros((0, 4))
    rows = []
    for photo, text, language, words, *_ in cases:
        whole = features.whole[photo].astype(np.float32)
        rows.append(MarkedRow(seen[photo], whole, vectors[text], text, words, language, *nothing))
    return rows


def _planted(draws: WordDraws, right: Case, chance: np.random.Generator) -> Iterator[Case]:
    """A right caption with a word exchanged for one of its class that the photo does not support."""
    features, language = draws.features, right.language
    is_noun = np.array([word.word_class == "noun" for word in right.words], bool)
    for drawn in PLANTED:
        choices = np.flatnonzero((right.labels == _RIGHT) & (is_noun == (drawn != "other")))
        if not len(choices):
            continue
        number = int(chance.choice(choices))
        old = right.words[number]
        if drawn == "alike":
            like = draws.alike[features.place_of[language, old.text.lower()]]
            candidates = like[like >= 0]
        elif drawn == "rare":
            candidates = draws.rare.get(language, ())
        else:
            candidates = features.by_class[language, MARKED_CLASSES.index(old.word_class)]
        for _ in range(10 if len(candidates) else 0):
            new = int(chance.choice(candidates))
            if features.support[new, right.photo] < SUPPORTED * 255:
                changed = replaced(right.text, right.words, number, features.words[new][1])
                labels = right.labels.copy()
                labels[number] = _WRONG
                yield right._replace(text=changed.caption, words=changed.words, labels=labels, kind="planted")
                break


def other_captions(features: MarkFeatures, captions: np.ndarray, chance: np.random.Generator) -> np.ndarray:
    """For each caption's photo, another of them, less than half of whose words the photo supports."""
    photos, chosen = features.photo[captions], chance.permutation(captions)
    for _ in range(20):
        clash = np.zeros(len(chosen), bool)
        for place, (photo, caption) in enumerate(zip(photos.tolist(), chosen.tolist(), strict=True)):
            words = features.word[features.words_of(caption)]
            shared = (features.support[words, photo] > SUPPORTED * 255).mean()
            clash[place] = features.photo[caption] == photo or shared >= 0.5
        if not clash.any():
            break
        chosen[clash] = chance.choice(captions, int(clash.sum()))
    return chosen


def crossed(
    layers: nn.Module, logits_of: Logits, inputs: Tensor, labels: np.ndarray, half: np.ndarray
) -> np.ndarray:
    """Logits of each half of the photos by layers trained on the other; then train them on both, in place.

    `logits_of` maps inputs (n, features) to logits with the layers; labels (n,) are 1 right, 0 wrong, −1
    unknown, which trains nothing; half (n,) is 0 or 1.
    """
    start = {name: tensor.clone() for name, tensor in layers.state_dict().items()}
    found = np.zeros(len(labels), np.float64)
    truth = torch.from_numpy(labels.astype(np.float32))
    for own in (0, 1, 2):  # no photo is in half 2
        layers.load_state_dict(start)
        train = torch.from_numpy((half != own) & (labels != _UNKNOWN))
        fit_layers(layers, logits_of, inputs[train], truth[train])
        with torch.inference_mode():
            found[half == own] = logits_of(inputs[torch.from_numpy(half == own)]).double().numpy()
    return found


def fit_layers(layers: nn.Module, logits_of: Logits, inputs: Tensor, labels: Tensor) -> None:
    """Fit small layers to all rows at once, right and wrong ones with half of the weight each."""
    weight = torch.where(labels > 0, 0.5 / labels.sum().clamp(min=1), 0.5 / (1 - labels).sum().clamp(min=1))
    optimiser = torch.optim.AdamW(layers.requires_grad_(True).parameters(), lr=2e-2, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, _STEPS)
    for _ in range(_STEPS):
        each = F.binary_cross_entropy_with_logits(logits_of(inputs), labels, reduction="none")
        optimiser.zero_grad()
        (each @ weight).backward()
        optimiser.step()
        schedule.step()


def fit_curve(right: np.ndarray, wrong: np.ndarray, prior: np.ndarray | None = None) -> MarkCurve | None:
    """Calibrate logits of what is right and of what is wrong (`Curve`); None if either are under `LEAST`.

    `prior` are logits of what is right in other languages, which count as `PRIOR` further ones for the
    quantiles: the lowest few per cent of a few hundred logits are a matter of chance.
    """
    if min(len(right), len(wrong)) < LEAST:
        return None
    curve = MarkCurve(*Curve.of(right, wrong), (0.0,) * len(RATES), 0.0)
    p_right, p_wrong = curve.probabilities(right), curve.probabilities(wrong)
    quantiles = np.quantile(p_right, RATES)
    if prior is not None:
        quantiles = _quantiles(p_right, curve.probabilities(prior))
    found = float((p_wrong < np.interp(0.05, RATES, quantiles)).mean())
    return replace(curve, quantiles=tuple(quantiles.tolist()), found=found)


def _quantiles(values: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Quantiles at `RATES` of values and of others that count as `PRIOR` together."""
    joined = np.concatenate([values, prior])
    weights = np.concatenate([np.ones(len(values)), np.full(len(prior), PRIOR / len(prior))])
    order = np.argsort(joined, kind="stable")
    # the share below the middle of each value's own weight
    shares = (np.cumsum(weights[order]) - weights[order] / 2.0) / weights.sum()
    return np.interp(RATES, shares, joined[order])
