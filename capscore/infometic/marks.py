"""The answers of a mark calibration on rows: probabilities and verdicts of words, captions and regions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress
from typing import NamedTuple

import numpy as np
import torch

from ..text.languages import stated_code
from ..text.letters import lower
from .mark_calibration import MARKED_CLASSES, CaptionBatch, MarkCalibration, PhotoBatch, word_rate
from .network import padded
from .words import CaptionWord, is_collective, without_word

# Photos that are judged at once, with at most so many rows each; photos whose regions are named at once.
_PHOTOS, _ROWS, _NAMED_PHOTOS = 16, 256, 32
# Share of the rate of false alarms at which right captions may be marked as not fitting.
_FIT_SHARE = 0.4
# Names of regions: greatest logit and standard deviations that count, weight of the second, least logit and
# least sum that a name must have.
_MAX_LOGIT, _MAX_CLEAR, _CLEAR_WEIGHT, _MIN_LOGIT, _MIN_SUM = 4.0, 6.0, 0.5, 1.0, 3.5
# Languages that write nouns with a capital; they are embedded without.
_CAPITALS = frozenset({"de", "lb"})

# m texts → their embeddings (m, d), rows of unit length
Embed = Callable[[Sequence[str]], np.ndarray]


class PhotoFeatures(NamedTuple):
    """What the network sees of a photo: float16 (c, reduced) cells, and (k, d) embeddings of its windows."""

    cells: np.ndarray
    windows: np.ndarray


@dataclass(frozen=True, eq=False)
class MarkedRow:
    """A row to judge; all embeddings have unit length.

    Attributes:
        features: Features of the photo; rows of one photo share the object.
        regions, shares: float32 (m, d) and (m, 4), embeddings of the regions, and their boxes as shares of
            the photo's sides.
        read_to: Number of characters that are read; words that end after them are not judged.
    """

    features: PhotoFeatures
    photo: np.ndarray
    caption: np.ndarray
    text: str
    words: Sequence[CaptionWord]
    language: str
    regions: np.ndarray
    shares: np.ndarray
    read_to: float = math.inf

    @cached_property
    def code(self) -> str:
        return stated_code(self.language or None)


class RowMarks(NamedTuple):
    """Marks of a row; probabilities and `fits` are None as published.

    Attributes:
        fits, p_fits: Whether the caption as a whole fits the photo, and how likely.
        p_correct: For each word a probability; None for a word that is not judged, such as "group".
        correct: For each word True (right), False (likely wrong), None (cannot tell, or not judged).
        region: For each word the region most like it; None for a word that is likely wrong or not judged.
        p_mentioned, mentioned: Probability per region that the caption mentions it, and whether it does.
    """

    fits: bool | None
    p_fits: float | None
    p_correct: list[float | None]
    correct: list[bool | None]
    region: list[int | None]
    p_mentioned: list[float | None]
    mentioned: list[bool]


def published_marks(
    words: Sequence[CaptionWord],
    scores: Sequence[float | None],
    region_scores: Sequence[float],
    nearest: Sequence[int | None],
    beta: float,
) -> RowMarks:
    """Marks by scores above beta (Hu et al. 2023, section 4.4), of words with scores, and of regions."""
    n = len(words)
    mentioned = [score > beta for score in region_scores]
    marks = RowMarks(None, None, [None] * n, [None] * n, [None] * n, [None] * len(mentioned), mentioned)
    for index, (word, score) in enumerate(zip(words, scores, strict=True)):
        if score is not None:
            marks.region[index] = nearest[index]
            if word.semantic:
                marks.correct[index] = score > beta
    return marks


class RowFeatures(NamedTuple):
    """What is known of a row; the network's small layers are trained on these numbers.

    Attributes:
        numbers, classes: Indices of the m judged words among the row's words, and int64 (m,), their classes.
        alone: float32 (m,), calibrated logits of the words alone, NaN for a class without a curve.
        words, mention: float32 (m, …) and (k, …), from `MarkNetwork.word_features` and `mention_features`.
        logits: (m,), () and (k,), of the words, the caption and the regions.
        nearest: int64 (m,), the region most like each word; 0 without regions.
    """

    row: MarkedRow
    numbers: list[int]
    classes: np.ndarray
    alone: np.ndarray
    words: np.ndarray
    mention: np.ndarray
    logits: tuple[np.ndarray, np.ndarray, np.ndarray]
    nearest: np.ndarray


def mark_rows(
    calibration: MarkCalibration, rows: Sequence[MarkedRow], embed: Embed, false_alarms: float
) -> list[RowMarks]:
    """Judge rows.

    `embed` gives the unit embeddings (m, d) of m distinct texts. `false_alarms` is the rate of right nouns
    that may be called wrong; other words, long captions and captions as a whole have a lower one.
    """
    return [_row_marks(calibration, false_alarms, row) for row in row_features(calibration, rows, embed)]


def _row_marks(calibration: MarkCalibration, false_alarms: float, features: RowFeatures) -> RowMarks:
    row, (words, fit, mentions) = features.row, features.logits
    curve = calibration.caption_curve(row.code)
    p_fits = float(curve.probabilities(fit))
    fits = p_fits >= curve.threshold(false_alarms * _FIT_SHARE)
    p_mentioned = calibration.mentions.probabilities(mentions)
    mentioned = ((p_mentioned >= 0.5) & fits).tolist()
    n = len(row.words)
    marks = RowMarks(fits, p_fits, [None] * n, [None] * n, [None] * n, p_mentioned.tolist(), mentioned)
    for index, number in enumerate(features.numbers):
        word, word_class = row.words[number].text, row.words[number].word_class
        word_curve = calibration.word_curve(row.code, word_class)
        if word_curve is None or np.isnan(features.alone[index]) or is_collective(word, row.code):
            continue
        p = float(word_curve.probabilities(words[index]))
        marks.p_correct[number] = p
        if not fits:
            continue
        verdict = word_curve.verdict(p, word_rate(false_alarms, len(features.numbers), word_class))
        marks.correct[number] = verdict
        if len(row.regions) and verdict is not False:
            marks.region[number] = int(features.nearest[index])
    return marks


class _Judged(NamedTuple):
    """A row with the indices of its m judged words.

    `keys` (m,) tell words of a photo apart: index of the text · number of classes + class. `rests` (m,) are
    indices of the caption without each word.
    """

    row: MarkedRow
    numbers: list[int]
    keys: np.ndarray
    rests: np.ndarray


def _judged(row: MarkedRow, index: dict[str, int]) -> _Judged:
    """A row's judged words; `index` numbers distinct texts."""
    keys, rests = [], []
    numbers = [number for number, word in enumerate(row.words) if word.semantic and word.end <= row.read_to]
    for number in numbers:
        text = index.setdefault(lower(row.words[number].text, row.code), len(index))
        keys.append(text * len(MARKED_CLASSES) + MARKED_CLASSES.index(row.words[number].word_class))
    for number in numbers:
        rest = without_word(row.text, row.words[number])
        rests.append(index.setdefault(rest, len(index)))
    return _Judged(row, numbers, np.array(keys, np.int64), np.array(rests, np.int64))


def row_features(calibration: MarkCalibration, rows: Sequence[MarkedRow], embed: Embed) -> list[RowFeatures]:
    """What is known of rows; arguments as for `mark_rows`. Each distinct word of a photo is judged once."""
    index: dict[str, int] = {}
    items = [_judged(row, index) for row in rows]
    vectors = np.zeros((0, calibration.network.config.dim), np.float32)
    if index:
        vectors = np.asarray(embed(list(index)), np.float32)
    by_photo: defaultdict[int, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        by_photo[id(row.features)].append(number)
    photos: list[list[int]] = []
    for own in by_photo.values():
        photos += [own[start : start + _ROWS] for start in range(0, len(own), _ROWS)]
    # photos with like numbers of words share a batch
    photos.sort(key=lambda own: sum(len(items[number].keys) for number in own))
    found: dict[int, RowFeatures] = {}
    for start in range(0, len(photos), _PHOTOS):
        part = photos[start : start + _PHOTOS]
        numbers = [*chain.from_iterable(part)]
        of_photo = np.repeat(np.arange(len(part)), [len(own) for own in part])
        batch = _features(calibration, [items[number] for number in numbers], of_photo, vectors)
        found.update(zip(numbers, batch, strict=True))
    return [found[number] for number in range(len(items))]


def _features(
    calibration: MarkCalibration, items: list[_Judged], of_photo: np.ndarray, vectors: np.ndarray
) -> list[RowFeatures]:
    """The features of rows of some photos; `of_photo` (n,) numbers the photos in order."""
    network, device = calibration.network, calibration.network.background.device
    rows = [item.row for item in items]
    firsts = [rows[row] for row in np.unique(of_photo, return_index=True)[1]]
    cells, _ = padded([row.features.cells for row in firsts], device)
    windows, mask = padded([row.features.windows for row in firsts], device, min_length=1)
    whole = torch.from_numpy(np.stack([row.photo for row in firsts])).to(device)
    photos = PhotoBatch(cells, whole, windows, mask)

    # each distinct word of a photo once, then those of each row
    keys = [item.keys for item in items]
    distinct = [np.unique(np.concatenate([*compress(keys, of_photo == n)])) for n in range(len(firsts))]
    texts, _ = padded([vectors[own // len(MARKED_CLASSES)] for own in distinct], device)
    kinds, _ = padded([own % len(MARKED_CLASSES) for own in distinct], device)
    at, judged = padded(
        [np.searchsorted(distinct[n], own) for n, own in zip(of_photo, keys, strict=True)], device
    )
    own = torch.from_numpy(of_photo).to(device)

    captions = torch.from_numpy(np.stack([row.caption for row in rows])).to(device)
    rests, _ = padded([vectors[item.rests] for item in items], device)
    regions, present = padded([row.regions for row in rows], device)
    shares, _ = padded([row.shares for row in rows], device)
    with torch.inference_mode():
        of_photos = (
            calibration.alone_logits(network.word_logits(photos, texts, kinds), kinds),
            network.best_window_logits(photos, texts),
            network.ahead(photos, texts),
            texts,
            kinds,
        )
        alone, in_windows, ahead, words, kinds = (part[own[:, None], at] for part in of_photos)
        batch = CaptionBatch(captions, words, judged, kinds, alone.nan_to_num())
        beside = PhotoBatch(cells[:0], whole[own], windows[own], mask[own])
        of_words = network.word_features(beside, batch, rests, in_windows, ahead)
        naming = network.naming_logits(words, regions, whole[own])
        mention = network.mention_features(regions, shares, whole[own], batch, naming)
        nearest = torch.zeros_like(kinds)
        if len(present[0]):
            nearest = naming.masked_fill(~present[:, None], -torch.inf).argmax(dim=2)
        logits = network.in_caption_logits(of_words), network.fit_logits(beside, captions)
        columns = (kinds, alone, of_words, mention, *logits, network.mention_logits(mention), nearest)
    found = []
    for item, *parts in zip(items, *(column.cpu().numpy() for column in columns), strict=True):
        n, k = len(item.numbers), len(item.row.regions)
        classes, single, word, region, right, fits, mentioned, near = parts
        judged_words, of_all = (classes[:n], single[:n], word[:n]), (right[:n], fits, mentioned[:k])
        found.append(RowFeatures(item.row, item.numbers, *judged_words, region[:k], of_all, near[:n]))
    return found


class RegionNames:
    """Names regions by the nouns of a mark calibration; each noun of a language is embedded once.

    Two things count for a noun: that the network learned to name such regions so, and that the region is
    closer to it than other photos are, since some nouns are close to every photo.
    """

    def __init__(self, calibration: MarkCalibration, embed: Embed):
        self.calibration, self.embed = calibration, embed
        self._embedded: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def names(self, rows: Sequence[MarkedRow]) -> list[list[str]]:
        """Nouns for the regions of each row's photo; "" for regions and languages without one."""
        found: dict[tuple[int, str], list[str]] = {}
        for code in dict.fromkeys(row.code for row in rows):
            shown = [*{id(row.regions): row for row in rows if row.code == code}.values()]
            for start in range(0, len(shown), _NAMED_PHOTOS):
                part = shown[start : start + _NAMED_PHOTOS]
                keys = [(id(row.regions), code) for row in part]
                found.update(zip(keys, self._names(part, code), strict=True))
        return [found[id(row.regions), row.code] for row in rows]

    def _names(self, photos: Sequence[MarkedRow], language: str) -> list[list[str]]:
        nouns, network = self.calibration.nouns.get(language, ()), self.calibration.network
        if not nouns:
            return [[""] * len(row.regions) for row in photos]
        device = network.background.device
        if language not in self._embedded:
            rows = np.asarray(self.embed(list(nouns)), np.float32)
            others = rows @ network.background.cpu().numpy().T
            self._embedded[language] = rows, others.mean(axis=1), np.maximum(others.std(axis=1), 0.02)
        rows, mean, deviation = self._embedded[language]
        regions, _ = padded([row.regions for row in photos], device)
        whole = torch.from_numpy(np.stack([row.photo for row in photos])).to(device)
        with torch.inference_mode():
            logits = network.naming_logits(torch.from_numpy(rows[None]).to(device), regions, whole)
        logits = logits.float().cpu().numpy().transpose(0, 2, 1)
        clear = (regions.cpu().numpy() @ rows.T - mean) / deviation
        sums = np.minimum(logits, _MAX_LOGIT) + _CLEAR_WEIGHT * np.minimum(clear, _MAX_CLEAR)
        sums[logits < _MIN_LOGIT] = -np.inf
        if language in _CAPITALS:
            nouns = tuple(noun[:1].upper() + noun[1:] for noun in nouns)
        names = np.where(sums.max(axis=2) >= _MIN_SUM, np.array(nouns, object)[sums.argmax(axis=2)], "")
        return [named[: len(row.regions)].tolist() for named, row in zip(names, photos, strict=True)]
