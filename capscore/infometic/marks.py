"""The judge's answers on rows: probabilities and verdicts of words, captions and regions.

In: what the judge sees of each photo, the words and embeddings of each caption. Out: a `RowMarks` per row.
All captions of a photo are judged in one pass, and each distinct word is embedded once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..text.languages import language_code
from .mark_calibration import FIT_SHARE, MARKED_CLASSES, MarkCalibration, PhotoBatch, word_rate, word_verdict
from .words import without_word

if TYPE_CHECKING:
    import torch

    from .words import CaptionWord


# Photos whose words are judged at once, and rows whose regions are.
_PHOTOS, _ROWS = 16, 256


@dataclass(frozen=True, eq=False)
class MarkedRow:
    """A row to judge.

    Attributes:
        sight: What the judge sees of the photo; rows of one photo share the object.
        photo: float32 (d,), embedding of the photo, of unit length.
        caption: float32 (d,), embedding of the caption, of unit length.
        text: The caption.
        words: Words of the caption.
        language: Its language; "" for English.
        regions: float32 (m, d), embeddings of the regions, of unit length.
        shares: (m, 4), their boxes as shares of the photo's sides.
        read: Number of the caption's characters that are read; words that end after them are not judged.
    """

    sight: PhotoFeatures
    photo: np.ndarray
    caption: np.ndarray
    text: str
    words: Sequence[CaptionWord]
    language: str
    regions: np.ndarray
    shares: np.ndarray
    read: float = math.inf


@dataclass(frozen=True, eq=False)
class RowMarks:
    """What the judge says of a row.

    Attributes:
        fits, p_fits: Whether the caption as a whole fits the photo, and how likely.
        p_correct: For each word a probability; None for a word that is not judged.
        correct: For each word True (right), False (likely wrong), None (cannot tell, or not judged).
        region: For each word the region most like it; None for a word that is likely wrong or not judged.
        p_mentioned: float (m,), for each region how likely the caption mentions it.
        mentioned: bool (m,).
    """

    fits: bool
    p_fits: float
    p_correct: list[float | None]
    correct: list[bool | None]
    region: list[int | None]
    p_mentioned: np.ndarray
    mentioned: np.ndarray


@dataclass(frozen=True, eq=False)
class RowFeatures:
    """What is known of a row.

    Attributes:
        numbers: Places of the m judged words among the row's words.
        classes: int64 (m,), their classes.
        alone: float32 (m,), calibrated logits of the words alone; NaN for a class without a curve.
        words: float32 (m, WORD_FEATURES), `MarkNetwork.word_features`.
        fit: float32 (FIT_FEATURES,), `MarkNetwork.fit_features`.
        mention: float32 (k, MENTION_FEATURES), `mention_features` of the k regions.
        nearest: int64 (m,), the region most like each word; 0 without regions.
    """

    numbers: list[int]
    classes: np.ndarray
    alone: np.ndarray
    words: np.ndarray
    fit: np.ndarray
    mention: np.ndarray
    nearest: np.ndarray


def mark_rows(
    loaded: MarkCalibration,
    rows: Sequence[MarkedRow],
    embed: Callable[[Sequence[str]], np.ndarray],
    false_alarms: float,
) -> list[RowMarks]:
    """MarkNetwork rows.

    Args:
        loaded: Mark calibration.
        rows: Rows to judge.
        embed: Function from m distinct texts to their embeddings (m, d), rows of unit length.
        false_alarms: Rate of right nouns that may be called wrong; for other words, and for right captions
            that may be said not to fit, see `NO_NOUN_SHARE` and `FIT_SHARE` of `verdicts`.
    """
    import torch

    found = row_features(loaded, rows, embed)
    if not found:
        return []

    def on_device(parts: list[np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.concatenate(parts)).to(loaded.judge.background.device)

    with torch.inference_mode():
        judge = loaded.judge
        fit = judge.fit_logits(on_device([one.fit[None] for one in found])).double().cpu().numpy()
        words = judge.in_caption_logits(on_device([one.words for one in found])).double().cpu().numpy()
        mention = judge.mention_logits(on_device([one.mention for one in found])).double().cpu().numpy()
    of_words = np.split(words, np.cumsum([len(one.words) for one in found])[:-1])
    of_regions = np.split(mention, np.cumsum([len(one.mention) for one in found])[:-1])
    return [
        _row_marks(loaded, row, one, float(own_fit), own_words, own_regions, false_alarms)
        for row, one, own_fit, own_words, own_regions in zip(
            rows, found, fit, of_words, of_regions, strict=True
        )
    ]


def row_features(
    loaded: MarkCalibration, rows: Sequence[MarkedRow], embed: Callable[[Sequence[str]], np.ndarray]
) -> list[RowFeatures]:
    """What is known of rows; arguments as for `mark_rows`.

    The judge's small layers are trained on these numbers.
    """
    place: dict[str, int] = {}
    judged = [
        [
            number
            for number, word in enumerate(row.words)
            if word.semantic and word.word_class in MARKED_CLASSES and word.end <= row.read
        ]
        for row in rows
    ]
    of_words, classes, of_rest = [], [], []
    for row, own in zip(rows, judged, strict=True):
        words = [row.words[number] for number in own]
        of_words.append(
            np.array([place.setdefault(word.text.lower(), len(place)) for word in words], np.int64)
        )
        classes.append(np.array([MARKED_CLASSES.index(word.word_class) for word in words], np.int64))
        rest = [without_word(row.text, word.start, word.end) for word in words]
        of_rest.append(np.array([place.setdefault(text, len(place)) for text in rest], np.int64))
    vectors = np.asarray(embed(list(place)), np.float32) if place else np.zeros((1, 0), np.float32)
    logits, in_windows = _judged_alone(loaded, rows, of_words, classes, vectors)
    alone = [_alone(loaded, own, kinds) for own, kinds in zip(logits, classes, strict=True)]
    # rows of like length share a batch
    order = sorted(range(len(rows)), key=lambda number: (len(judged[number]), len(rows[number].regions)))
    by_row: dict[int, RowFeatures] = {}
    for start in range(0, len(order), _ROWS):
        part = order[start : start + _ROWS]
        batch = _features(
            loaded,
            [rows[number] for number in part],
            [of_words[number] for number in part],
            [of_rest[number] for number in part],
            [classes[number] for number in part],
            [alone[number] for number in part],
            [in_windows[number] for number in part],
            vectors,
        )
        for number, one in zip(part, batch, strict=True):
            by_row[number] = RowFeatures(judged[number], classes[number], alone[number], *one)
    return [by_row[number] for number in range(len(rows))]


def _alone(loaded: MarkCalibration, logits: np.ndarray, classes: np.ndarray) -> np.ndarray:
    curves = [loaded.calibration.alone.get(name) for name in MARKED_CLASSES]
    table = np.array([(one.scale, one.bias) if one else (np.nan, np.nan) for one in curves], np.float32)
    return table[classes, 0] * logits + table[classes, 1]


def _judged_alone(
    loaded: MarkCalibration,
    rows: Sequence[MarkedRow],
    of_words: Sequence[np.ndarray],
    classes: Sequence[np.ndarray],
    vectors: np.ndarray,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """`MarkNetwork.word_logits` and `MarkNetwork.seen_in_windows` of each row's words.

    Each distinct word of a photo is judged once.
    """
    import torch

    by_photo: dict[int, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        if len(of_words[number]):
            by_photo[id(row.sight)].append(number)
    logits, in_windows = ([np.zeros(len(own), np.float32) for own in of_words] for _ in range(2))
    # photos with like numbers of words share a batch
    asked = []
    for own in by_photo.values():
        pairs = np.concatenate([of_words[number] * len(MARKED_CLASSES) + classes[number] for number in own])
        distinct, back = np.unique(pairs, return_inverse=True)
        asked.append((own, distinct, back))
    asked.sort(key=lambda one: len(one[1]))
    for start in range(0, len(asked), _PHOTOS):
        part = asked[start : start + _PHOTOS]
        most = max(len(distinct) for _, distinct, _ in part)
        words, kinds = np.zeros((2, len(part), most), np.int64)
        for number, (_, distinct, _) in enumerate(part):
            words[number, : len(distinct)], kinds[number, : len(distinct)] = np.divmod(
                distinct, len(MARKED_CLASSES)
            )
        seen = _seen(loaded, [rows[own[0]] for own, _, _ in part], with_cells=True)
        device = seen.cells.device
        with torch.inference_mode():
            told = torch.from_numpy(vectors[words]).to(device)
            found = loaded.judge.word_logits(seen, told, torch.from_numpy(kinds).to(device))
            highest = loaded.judge.seen_in_windows(seen, told)
        for values, into in ((found, logits), (highest, in_windows)):
            for of_photo, (own, _, back) in zip(values.float().cpu().numpy(), part, strict=True):
                ends = np.cumsum([len(of_words[number]) for number in own])[:-1]
                for number, here in zip(own, np.split(of_photo[back], ends), strict=True):
                    into[number] = here
    return logits, in_windows


def _seen(loaded: MarkCalibration, rows: Sequence[MarkedRow], *, with_cells: bool = False) -> PhotoBatch:
    import torch

    device = loaded.judge.background.device
    most = max(len(row.sight.windows) for row in rows)
    windows = np.zeros((len(rows), max(most, 1), len(rows[0].photo)), np.float32)
    there = np.zeros(windows.shape[:2], bool)
    for number, row in enumerate(rows):
        windows[number, : len(row.sight.windows)] = row.sight.windows
        there[number, : len(row.sight.windows)] = True
    cells = np.zeros((len(rows), 0, rows[0].sight.cells.shape[1]), np.float32)
    if with_cells:
        cells = np.stack([row.sight.cells for row in rows]).astype(np.float32)
    return PhotoBatch(
        torch.from_numpy(cells).to(device),
        torch.from_numpy(np.stack([row.photo for row in rows])).to(device),
        torch.from_numpy(windows).to(device),
        torch.from_numpy(there).to(device),
    )


def _code(language: str) -> str:
    return language_code(language) if language else "en"


def _features(
    loaded: MarkCalibration,
    rows: Sequence[MarkedRow],
    of_words: Sequence[np.ndarray],
    of_rest: Sequence[np.ndarray],
    classes: Sequence[np.ndarray],
    alone: Sequence[np.ndarray],
    in_windows: Sequence[np.ndarray],
    vectors: np.ndarray,
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """For each row of a batch: features of its words, caption and regions; each word's nearest region."""
    import torch

    dim, device = len(rows[0].photo), loaded.judge.background.device
    n_words = max(map(len, of_words))
    n_regions = max(len(row.regions) for row in rows)
    words, rest = np.zeros((2, len(rows), n_words, dim), np.float32)
    there = np.zeros((len(rows), n_words), bool)
    kinds = np.zeros((len(rows), n_words), np.int64)
    scored, highest = np.zeros((2, len(rows), n_words), np.float32)
    regions = np.zeros((len(rows), n_regions, dim), np.float32)
    shares = np.zeros((len(rows), n_regions, 4), np.float32)
    known = np.zeros((len(rows), n_regions), bool)
    for place, row in enumerate(rows):
        part = slice(0, len(of_words[place]))
        if len(of_words[place]):
            words[place, part], rest[place, part] = vectors[of_words[place]], vectors[of_rest[place]]
        there[place, part], kinds[place, part] = True, classes[place]
        scored[place, part], highest[place, part] = np.nan_to_num(alone[place]), in_windows[place]
        own = slice(0, len(row.regions))
        regions[place, own], shares[place, own], known[place, own] = row.regions, row.shares, True

    def on_device(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(device)

    seen, texts = _seen(loaded, rows), on_device(np.stack([row.caption for row in rows]))
    judge, judged, of_kind = loaded.judge, on_device(there), on_device(kinds)
    with torch.inference_mode():
        told, logits = on_device(words), on_device(scored)
        of_caption = judge.fit_features(seen, texts, logits, judged)
        in_caption = judge.word_features(
            seen, texts, on_device(rest), logits, judged, of_kind, on_device(highest)
        )
        nouns = judged & (of_kind == MARKED_CLASSES.index("noun"))
        shown = on_device(regions)
        naming = judge.naming_logits(told, shown, seen.whole)
        mention = judge.mention_features(
            shown, on_device(shares), seen.whole, texts, told, judged, nouns, naming
        )
        naming = naming.masked_fill(~on_device(known)[:, None], -torch.inf)
        nearest = naming.argmax(dim=2) if n_regions else torch.zeros(naming.shape[:2]).long()
    parts = [one.cpu().numpy() for one in (in_caption, of_caption, mention, nearest)]
    return [
        (
            parts[0][place, : len(of_words[place])],
            parts[1][place],
            parts[2][place, : len(row.regions)],
            parts[3][place, : len(of_words[place])],
        )
        for place, row in enumerate(rows)
    ]


def _row_marks(
    loaded: MarkCalibration,
    row: MarkedRow,
    known: RowFeatures,
    fit: float,
    logits: np.ndarray,
    mention: np.ndarray,
    false_alarms: float,
) -> RowMarks:
    calibration, code = loaded.calibration, _code(row.language)
    curve = calibration.of_caption(code)
    p_fits = float(curve.probabilities(np.array(fit)))
    fits = p_fits >= curve.threshold(false_alarms * FIT_SHARE)
    p_correct: list[float | None] = [None] * len(row.words)
    correct: list[bool | None] = [None] * len(row.words)
    region: list[int | None] = [None] * len(row.words)
    for place, number in enumerate(known.numbers):
        word_class = row.words[number].word_class
        of_word = calibration.of_word(code, word_class)
        if of_word is None or np.isnan(known.alone[place]):
            continue
        p = float(of_word.probabilities(logits[place]))
        p_correct[number] = p
        if fits:
            rate = word_rate(false_alarms, len(known.numbers), word_class)
            correct[number] = word_verdict(p, of_word, rate)
            if len(row.regions) and correct[number] is not False:
                region[number] = int(known.nearest[place])
    p_mentioned = calibration.mentions.probabilities(mention)
    return RowMarks(
        fits=fits,
        p_fits=p_fits,
        p_correct=p_correct,
        correct=correct,
        region=region,
        p_mentioned=p_mentioned,
        mentioned=(p_mentioned >= 0.5) & fits,
    )


# Of each of the two only so much counts: a logit, and standard deviations among other photos.
MAX_LOGIT, MAX_CLEAR = 4.0, 6.0
# Weight of the second beside the first.
CLEAR_WEIGHT = 0.5
# Logit, and sum of the two, that a name must have.
MIN_LOGIT, MIN_SUM = 1.0, 3.5
# Photos at once.
_NAMED_PHOTOS = 32
# Languages that write nouns with a capital; the judge reads them without.
_CAPITALS = frozenset({"de", "lb"})


class RegionNames:
    """Names regions by the nouns of a judge.

    Args:
        loaded: MarkNetwork with nouns and background photos.
        embed: Function from m texts to their embeddings (m, d), rows of unit length.
    """

    def __init__(self, loaded: MarkCalibration, embed: Callable[[Sequence[str]], np.ndarray]):
        self.loaded, self.embed = loaded, embed
        self._known: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def names(self, photos: Sequence[tuple[np.ndarray, np.ndarray]], language: str) -> list[list[str]]:
        """Nouns for the regions of photos, "" for those that have none, and in a language without nouns.

        Args:
            photos: For each photo its embedding, float32 (d,), and those of its m regions, float32 (m, d);
                all of unit length.
            language: Code of the language.
        """
        if not self.loaded.nouns.get(language):
            return [[""] * len(regions) for _, regions in photos]
        named: list[list[str]] = []
        for start in range(0, len(photos), _NAMED_PHOTOS):
            named += self._named(photos[start : start + _NAMED_PHOTOS], language)
        return named

    def _named(self, photos: Sequence[tuple[np.ndarray, np.ndarray]], language: str) -> list[list[str]]:
        import torch

        nouns, judge = self.loaded.nouns[language], self.loaded.judge
        if language not in self._known:
            rows = np.asarray(self.embed(list(nouns)), np.float32)
            others = rows @ judge.background.cpu().numpy().T
            self._known[language] = rows, others.mean(axis=1), np.maximum(others.std(axis=1), 0.02)
        rows, mean, deviation = self._known[language]
        most = max(len(regions) for _, regions in photos)
        shown = np.zeros((len(photos), most, rows.shape[1]), np.float32)
        for place, (_, regions) in enumerate(photos):
            shown[place, : len(regions)] = regions
        whole = np.stack([one for one, _ in photos]).astype(np.float32)
        device = judge.background.device
        with torch.inference_mode():
            found = judge.naming_logits(
                *(torch.from_numpy(one).to(device) for one in (rows[None], shown, whole))
            )
        logits = found.float().cpu().numpy().transpose(0, 2, 1)
        clear = (shown @ rows.T - mean) / deviation
        sums = np.minimum(logits, MAX_LOGIT) + CLEAR_WEIGHT * np.minimum(clear, MAX_CLEAR)
        sums[logits < MIN_LOGIT] = -np.inf
        best, highest = sums.argmax(axis=2), sums.max(axis=2)
        written = [noun[:1].upper() + noun[1:] for noun in nouns] if language in _CAPITALS else nouns
        return [
            [
                written[best[place, region]] if highest[place, region] >= MIN_SUM else ""
                for region in range(len(regions))
            ]
            for place, (_, regions) in enumerate(photos)
        ]


@dataclass(frozen=True, eq=False)
class PhotoFeatures:
    """What the judge sees of a photo.

    Attributes:
        cells: float16 (c, reduced), the reduced cells of the feature map.
        windows: float16 (k, d), embeddings of the photo's windows.
    """

    cells: np.ndarray
    windows: np.ndarray
