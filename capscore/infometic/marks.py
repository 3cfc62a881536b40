"""The answers of a mark calibration on rows: probabilities and verdicts of words, captions and regions.

In: features of each photo, the words and embeddings of each caption. Out: a `RowMarks` per row, and names for
regions. All captions of a photo are judged in one pass, and each distinct word is embedded once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from ..text.languages import language_code
from .alignment import padded
from .mark_calibration import MARKED_CLASSES, MarkCalibration, PhotoBatch, word_rate
from .words import CaptionWord, without_word

# Photos whose words are judged at once, rows whose regions are, and photos whose regions are named.
_PHOTOS, _ROWS, _NAMED_PHOTOS = 16, 256, 32
# Of right captions, this share of the rate of false alarms may be said not to fit.
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
        photo, caption: float32 (d,), embeddings of the photo and of the caption.
        text, words, language: The caption, its words, and its language ("" for English).
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


class RowMarks(NamedTuple):
    """Marks of a row.

    Attributes:
        fits, p_fits: Whether the caption as a whole fits the photo, and how likely; None as published.
        p_correct: For each word a probability; None for a word that is not judged, and as published.
        correct: For each word True (right), False (likely wrong), None (cannot tell, or not judged).
        region: For each word the region most like it; None for a word that is likely wrong or not judged.
        p_mentioned, mentioned: For each region how likely the caption mentions it (None as published), and
            whether it does.
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
    columns = list(zip(words, scores, nearest, strict=True))
    return RowMarks(
        fits=None,
        p_fits=None,
        p_correct=[None] * len(words),
        correct=[None if score is None or not word.semantic else score > beta for word, score, _ in columns],
        region=[None if score is None else region for _, score, region in columns],
        p_mentioned=[None] * len(region_scores),
        mentioned=[score > beta for score in region_scores],
    )


@dataclass(eq=False)
class RowFeatures:
    """What is known of a row; the network's small layers are trained on these numbers.

    Attributes:
        row: The row.
        numbers, classes: Indices of the m judged words among the row's words, and int64 (m,), their classes.
        texts, rests: int64 (m,), numbers of the words, and of the caption without each of them, among the
            embedded texts.
        alone, in_windows: float32 (m,), calibrated logits of the words alone, NaN for a class without a
            curve; and the words' highest logits of naming a window.
        words, fit, mention: float32 (m, …), (…) and (k, …), from `MarkNetwork.word_features`, `fit_features`
            and `mention_features`.
        nearest: int64 (m,), the region most like each word; 0 without regions.
    """

    row: MarkedRow
    numbers: list[int]
    classes: np.ndarray
    texts: np.ndarray
    rests: np.ndarray
    alone: np.ndarray = field(init=False)
    in_windows: np.ndarray = field(init=False)
    words: np.ndarray = field(init=False)
    fit: np.ndarray = field(init=False)
    mention: np.ndarray = field(init=False)
    nearest: np.ndarray = field(init=False)


def mark_rows(
    calibration: MarkCalibration, rows: Sequence[MarkedRow], embed: Embed, false_alarms: float
) -> list[RowMarks]:
    """Judge rows.

    `embed` gives the unit embeddings (m, d) of m distinct texts. `false_alarms` is the rate of right nouns
    that may be called wrong; other words, long captions and captions as a whole have a lower one.
    """
    features = row_features(calibration, rows, embed)
    if not features:
        return []
    network = calibration.network

    def logits(layer: Callable[[torch.Tensor], torch.Tensor], parts: list[np.ndarray]) -> list[np.ndarray]:
        joined = torch.from_numpy(np.concatenate(parts)).to(network.background.device)
        with torch.inference_mode():
            values = layer(joined).double().cpu().numpy()
        return np.split(values, np.cumsum([len(part) for part in parts])[:-1])

    fits = logits(network.fit_logits, [row.fit[None] for row in features])
    words = logits(network.in_caption_logits, [row.words for row in features])
    mentions = logits(network.mention_logits, [row.mention for row in features])
    columns = zip(features, fits, words, mentions, strict=True)
    return [_row_marks(calibration, false_alarms, *parts) for parts in columns]


def _row_marks(
    calibration: MarkCalibration,
    false_alarms: float,
    features: RowFeatures,
    fit: np.ndarray,
    words: np.ndarray,
    mentions: np.ndarray,
) -> RowMarks:
    row = features.row
    code = language_code(row.language) if row.language else "en"
    curve = calibration.caption_curve(code)
    p_fits = float(curve.probabilities(fit)[0])
    fits = p_fits >= curve.threshold(false_alarms * _FIT_SHARE)
    p_mentioned = calibration.mentions.probabilities(mentions)
    p_correct: list[float | None] = [None] * len(row.words)
    correct: list[bool | None] = [None] * len(row.words)
    region: list[int | None] = [None] * len(row.words)
    for index, number in enumerate(features.numbers):
        word_class = row.words[number].word_class
        word_curve = calibration.word_curve(code, word_class)
        if word_curve is None or np.isnan(features.alone[index]):
            continue
        p = p_correct[number] = float(word_curve.probabilities(words[index]))
        if fits:
            rate = word_rate(false_alarms, len(features.numbers), word_class)
            correct[number] = word_curve.verdict(p, rate)
            if len(row.regions) and correct[number] is not False:
                region[number] = int(features.nearest[index])
    mentioned = ((p_mentioned >= 0.5) & fits).tolist()
    return RowMarks(fits, p_fits, p_correct, correct, region, p_mentioned.tolist(), mentioned)


def row_features(calibration: MarkCalibration, rows: Sequence[MarkedRow], embed: Embed) -> list[RowFeatures]:
    """What is known of rows; arguments as for `mark_rows`."""
    index: dict[str, int] = {}

    def numbers_of(texts: list[str]) -> np.ndarray:
        return np.array([index.setdefault(text, len(index)) for text in texts], np.int64)

    features = []
    for row in rows:
        judged = [
            (number, word)
            for number, word in enumerate(row.words)
            if word.semantic and word.word_class in MARKED_CLASSES and word.end <= row.read_to
        ]
        features.append(
            RowFeatures(
                row,
                [number for number, _ in judged],
                np.array([MARKED_CLASSES.index(word.word_class) for _, word in judged], np.int64),
                numbers_of([word.text.lower() for _, word in judged]),
                numbers_of([without_word(row.text, word.start, word.end) for _, word in judged]),
            )
        )
    vectors = np.zeros((0, len(rows[0].photo) if rows else 0), np.float32)
    if index:
        vectors = np.asarray(embed(list(index)), np.float32)
    _judge_alone(calibration, features, vectors)
    # rows of like length share a batch
    order = sorted(features, key=lambda found: (len(found.numbers), len(found.row.regions)))
    for start in range(0, len(order), _ROWS):
        _add_features(calibration, order[start : start + _ROWS], vectors)
    return features


def _judge_alone(calibration: MarkCalibration, features: Sequence[RowFeatures], vectors: np.ndarray) -> None:
    """Fill in `alone` and `in_windows`; each distinct word of a photo is judged once."""
    by_photo: dict[int, list[RowFeatures]] = defaultdict(list)
    for found in features:
        found.alone = found.in_windows = np.zeros(len(found.numbers), np.float32)
        if found.numbers:
            by_photo[id(found.row.features)].append(found)
    n_classes = len(MARKED_CLASSES)
    photos = []
    for group in by_photo.values():
        pairs = np.concatenate([found.texts * n_classes + found.classes for found in group])
        photos.append((group, *np.unique(pairs, return_inverse=True)))
    photos.sort(key=lambda photo: len(photo[1]))  # those with like numbers of words share a batch
    network = calibration.network
    curves = [calibration.alone.get(name) for name in MARKED_CLASSES]
    table = np.array([(curve.scale, curve.bias) if curve else (np.nan,) * 2 for curve in curves], np.float32)
    for start in range(0, len(photos), _PHOTOS):
        batch = photos[start : start + _PHOTOS]
        seen = _photo_batch(calibration, [group[0].row for group, _, _ in batch], with_cells=True)
        texts, _ = padded([vectors[pairs // n_classes] for _, pairs, _ in batch], seen.whole.device)
        kinds, _ = padded([pairs % n_classes for _, pairs, _ in batch], seen.whole.device)
        with torch.inference_mode():
            both = network.word_logits(seen, texts, kinds), network.best_window_logits(seen, texts)
        columns = [values.float().cpu().numpy() for values in both]
        for (group, _, back), alone, in_windows in zip(batch, *columns, strict=True):
            ends = np.cumsum([len(found.numbers) for found in group])[:-1]
            for found, indices in zip(group, np.split(back, ends), strict=True):
                scale, bias = table[found.classes].T
                found.alone, found.in_windows = scale * alone[indices] + bias, in_windows[indices]


def _photo_batch(
    calibration: MarkCalibration, rows: Sequence[MarkedRow], *, with_cells: bool = False
) -> PhotoBatch:
    device = calibration.network.background.device
    windows, mask = padded([row.features.windows for row in rows], device, min_length=1)
    cells, _ = padded([row.features.cells[: None if with_cells else 0] for row in rows], device)
    whole = torch.from_numpy(np.stack([row.photo for row in rows])).to(device)
    return PhotoBatch(cells, whole, windows, mask)


def _add_features(calibration: MarkCalibration, batch: Sequence[RowFeatures], vectors: np.ndarray) -> None:
    """Fill in what is left of the features of a batch of rows."""
    network, rows = calibration.network, [found.row for found in batch]
    photos = _photo_batch(calibration, rows)
    device = photos.whole.device
    captions = torch.from_numpy(np.stack([row.caption for row in rows])).to(device)
    texts, mask = padded([vectors[found.texts] for found in batch], device)
    regions, present = padded([row.regions for row in rows], device)
    rests, kinds, logits, in_windows, shares = (
        padded(parts, device)[0]
        for parts in (
            [vectors[found.rests] for found in batch],
            [found.classes for found in batch],
            [np.nan_to_num(found.alone) for found in batch],
            [found.in_windows for found in batch],
            [row.shares for row in rows],
        )
    )
    nouns = mask & (kinds == MARKED_CLASSES.index("noun"))
    with torch.inference_mode():
        fit = network.fit_features(photos, captions, logits, mask)
        in_caption = network.word_features(photos, captions, rests, logits, mask, kinds, in_windows)
        naming = network.naming_logits(texts, regions, photos.whole)
        mention = network.mention_features(
            regions, shares, photos.whole, captions, texts, mask, nouns, naming
        )
        naming = naming.masked_fill(~present[:, None], -torch.inf)
        nearest = naming.argmax(dim=2) if naming.shape[2] else torch.zeros(naming.shape[:2]).long()
    columns = zip(*(part.cpu().numpy() for part in (in_caption, fit, mention, nearest)), strict=True)
    for found, (words, fits, mentions, near) in zip(batch, columns, strict=True):
        n_words, n_regions = len(found.numbers), len(found.row.regions)
        found.words, found.fit, found.mention = words[:n_words], fits, mentions[:n_regions]
        found.nearest = near[:n_words]


class RegionNames:
    """Names regions by the nouns of a mark calibration; each noun of a language is embedded once.

    Two things speak for a noun: that the network learned to name such regions so, and that the region is
    closer to it than other photos are, since some nouns are close to every photo.
    """

    def __init__(self, calibration: MarkCalibration, embed: Embed):
        self.calibration, self.embed = calibration, embed
        self._embedded: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def names(self, photos: Sequence[tuple[np.ndarray, np.ndarray]], language: str) -> list[list[str]]:
        """Nouns for the regions of photos, "" for those that have none, and in a language without nouns.

        `photos` has the embeddings of each photo (d,) and of its regions (m, d), float32 of unit length.
        """
        if not self.calibration.nouns.get(language):
            return [[""] * len(regions) for _, regions in photos]
        parts = [photos[start : start + _NAMED_PHOTOS] for start in range(0, len(photos), _NAMED_PHOTOS)]
        return [names for part in parts for names in self._names(part, language)]

    def _names(self, photos: Sequence[tuple[np.ndarray, np.ndarray]], language: str) -> list[list[str]]:
        nouns, network = self.calibration.nouns[language], self.calibration.network
        device = network.background.device
        if language not in self._embedded:
            rows = np.asarray(self.embed(list(nouns)), np.float32)
            others = rows @ network.background.cpu().numpy().T
            self._embedded[language] = rows, others.mean(axis=1), np.maximum(others.std(axis=1), 0.02)
        rows, mean, deviation = self._embedded[language]
        regions, _ = padded([regions for _, regions in photos], device)
        whole = torch.from_numpy(np.stack([photo for photo, _ in photos]).astype(np.float32)).to(device)
        with torch.inference_mode():
            logits = network.naming_logits(torch.from_numpy(rows[None]).to(device), regions, whole)
        logits = logits.float().cpu().numpy().transpose(0, 2, 1)
        clear = (regions.cpu().numpy() @ rows.T - mean) / deviation
        sums = np.minimum(logits, _MAX_LOGIT) + _CLEAR_WEIGHT * np.minimum(clear, _MAX_CLEAR)
        sums[logits < _MIN_LOGIT] = -np.inf
        best, highest = sums.argmax(axis=2), sums.max(axis=2)
        written = [noun[:1].upper() + noun[1:] for noun in nouns] if language in _CAPITALS else nouns
        return [
            [written[noun] if value >= _MIN_SUM else "" for noun, value in zip(*row, strict=True)][: len(own)]
            for (_, own), *row in zip(photos, best, highest, strict=True)
        ]
