"""Mark calibration: a photo's feature map and words alone → how likely each word is right, in absolute terms.

In: maps and embeddings of the backbone that it was trained with. Out: logits of words, captions and regions,
boxes of objects, and the curves that turn logits into probabilities. It is not in the paper: InfoMetIC's word
scores share a sum of one, so they only say which word is the worst of its caption. This network reads each
word without its caption first, so that a right word stays right beside a wrong one.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..backbones.base import Backbone, fingerprint_of
from ..backbones.checkpoint import CONFIG, built, find_folder, read_network
from ..embedding.background import SHARED, Background, Curve, usual_cosines
from ..errors import BackboneUnavailable, CapscoreError, Setting
from ..files.shipped import weights_folder

MODEL_TYPE = "capscore_mark_calibration"
LEARNED, PUBLISHED = "learned", "published"
# Backbone's name → folder with its mark calibration in the distribution capscore-weights.
INSTALLED_MARKS = {"embedded": "mark_calibration"}
FORMAT = 3
# Classes of words that are marked, in the order of their embeddings.
MARKED_CLASSES = ("noun", "verb", "adjective", "adverb", "number")
# Numbers of features of a region beside a caption, and of a word in its caption; the layers do not read the
# last of a word.
MENTION_FEATURES, WORD_FEATURES = 10, 12 + len(MARKED_CLASSES)
# Cosines and unit rows are small; these bring them to the size of the other inputs.
_COSINE, _LONGER = 5.0, 20.0
# The weight of how much nearer a word is to its photo than is usual, beside what the network says, which
# knows fewer kinds of photos.
_AHEAD = 8.0
# Rates of false alarms that `MarkCurve.quantiles` are for: 0 %, 0.5 %, … 50 %.
RATES = np.linspace(0.0, 0.5, 101)
# A class is judged only if at 5 % false alarms at least this share of its wrong words is found.
_MIN_FOUND = 0.2
# Captions with more judged words than this have a lower rate per word: a long right caption would almost
# always carry a mark otherwise.
_WORDS_AT_FULL_RATE = 3
# Words of other classes have this share of the rate of nouns: photos tell little of verbs and colours.
_NO_NOUN_SHARE = 0.1


@dataclass(frozen=True)
class MarkNetworkConfig:
    """Sizes of the network.

    Attributes:
        hidden, inner, small: Width of queries, keys and values; of the layers behind them; of the hidden
            layers for captions and regions.
        things: Channels of the convolution that finds objects.
        named: Width of words and regions where the network predicts which word names which region.
        background: Number of photos beside which a text is compared with its own.
    """

    dim: int = 512
    features: int = 1280
    reduced: int = 384
    hidden: int = 192
    inner: int = 320
    small: int = 16
    things: int = 96
    named: int = 96
    background: int = 1536


class PhotoBatch(NamedTuple):
    """What the network sees of n photos; embeddings have unit length."""

    cells: Tensor  # (n, h · w, reduced), from `MarkNetwork.reduce`
    whole: Tensor  # (n, d), of the whole photos
    windows: Tensor  # (n, k, d), of their windows (`capscore.infometic.regions.windows`)
    mask: Tensor  # bool (n, k), True for windows, False for padding


class CaptionBatch(NamedTuple):
    """n captions of m words, each beside a photo; embeddings have unit length."""

    texts: Tensor  # (n, d), of the captions
    words: Tensor  # (n, m, d), of the words alone
    judged: Tensor  # bool (n, m), False for padding
    classes: Tensor  # int64 (n, m), indices in `MARKED_CLASSES`
    logits: Tensor  # (n, m), calibrated, of the words alone

    @property
    def nouns(self) -> Tensor:
        """Which words are nouns, bool (n, m)."""
        return self.judged & (self.classes == MARKED_CLASSES.index("noun"))


class MarkNetwork(nn.Module):
    """Network that judges words, captions and regions, and finds objects.

    A word queries the cells of the photo's feature map and its windows by attention. What they answer, and
    its cosines with the photo and the windows, go through two layers.

    Attributes:
        background: (background, d), embeddings of photos; how near they are to a text shows how near any
            photo would be.
    """

    background: Tensor

    def __init__(self, config: MarkNetworkConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or MarkNetworkConfig()
        dim, reduced, hidden, inner = config.dim, config.reduced, config.hidden, config.inner
        self.reducer = nn.Linear(config.features, reduced)
        self.query = nn.Linear(dim, hidden)
        self.word_class = nn.Embedding(len(MARKED_CLASSES), hidden)
        self.cell_key, self.cell_value, self.cell_mean = (
            nn.Linear(reduced, hidden, bias=False) for _ in range(3)
        )
        self.window_key, self.window_value, self.photo = (
            nn.Linear(dim, hidden, bias=False) for _ in range(3)
        )
        self.word = nn.Linear(dim, inner)
        self.first = nn.Linear(6 * hidden + 6, inner)
        self.second = nn.Linear(inner, inner)
        self.last = nn.Linear(inner, 1)
        self.in_caption, self.mention = (
            nn.Sequential(nn.Linear(size, config.small), nn.Tanh(), nn.Linear(config.small, 1))
            for size in (WORD_FEATURES - 1, MENTION_FEATURES)
        )
        self.named_word = nn.Linear(dim, config.named, bias=False)
        self.named_region = nn.Linear(2 * dim, config.named, bias=False)
        # weight of the cosine, and bias
        self.named_cosine = nn.Parameter(torch.tensor([1.0, 0.0]))
        self.thing_hidden = nn.Conv2d(reduced, config.things, 3, padding=1)
        # confidence, and the distances of the box's edges from the cell's centre, as logarithms
        self.thing = nn.Conv2d(config.things, 5, 3, padding=1)
        self.dropout = 0.0
        self.register_buffer("background", torch.zeros(config.background, dim))

    def reduce(self, maps: Tensor) -> Tensor:
        """Feature maps (n, features, h, w) → cells (n, h · w, reduced)."""
        return self.reducer(maps.flatten(2).transpose(1, 2))

    def word_logits(self, photos: PhotoBatch, words: Tensor, classes: Tensor) -> Tensor:
        """How right each word (n, m, d) of a class (n, m) is of its photo, before calibration: (n, m)."""
        width = math.sqrt(self.config.hidden)
        cells, longer_words = self._drop(photos.cells), self._drop(words * _LONGER)
        query = self.query(longer_words) + self.word_class(classes)
        at_cells = query @ self.cell_key(cells).transpose(1, 2) / width
        of_cells = at_cells.softmax(dim=2) @ self.cell_value(cells)
        padding, longer = ~photos.mask[:, None], self._drop(photos.windows * _LONGER)
        at_windows = (query @ self.window_key(longer).transpose(1, 2) / width).masked_fill(padding, -1e4)
        of_windows = at_windows.softmax(dim=2) @ self.window_value(longer)
        cosines = words @ photos.windows.transpose(1, 2)
        best = _highest(cosines.masked_fill(padding, -1.0), 3)
        numbers = torch.stack(
            [
                (words @ photos.whole[:, :, None])[..., 0] * _COSINE,
                best[..., 0] * _COSINE,
                best.mean(dim=2) * _COSINE,
                _mean(cosines.clamp_min(-0.3), photos.mask[:, None]) * _COSINE,
                at_cells.logsumexp(dim=2) / 4.0,
                at_windows.logsumexp(dim=2) / 4.0,
            ],
            dim=2,
        )
        rows = torch.cat(
            [
                query * of_cells,
                query * self.cell_mean(cells.mean(dim=1))[:, None],
                query * self.photo(photos.whole * _LONGER)[:, None],
                query * of_windows,
                of_cells,
                of_windows,
                numbers,
            ],
            dim=2,
        )
        rows = F.gelu(self.first(rows) + self.word(longer_words))
        rows = rows + F.gelu(self.second(self._drop(rows)))
        return self.last(self._drop(rows))[..., 0]

    def fit_logits(self, photos: PhotoBatch, texts: Tensor) -> Tensor:
        """How well each caption (n, d) fits its photo, before calibration, (n,); cells are not read."""
        return _COSINE * ((texts * photos.whole).sum(dim=1) - self.usual(texts))

    def usual(self, texts: Tensor) -> Tensor:
        """`usual_cosines` of texts (…, d) with the photos of the background, (…)."""
        return usual_cosines(texts, self.background)

    def ahead(self, photos: PhotoBatch, words: Tensor) -> Tensor:
        """How much nearer words (n, m, d) are to the photo and its best window than is usual, (n, m)."""
        with_whole = (words @ photos.whole[:, :, None])[..., 0]
        with_windows = (words @ photos.windows.transpose(1, 2)).masked_fill(~photos.mask[:, None], -1.0)
        best = torch.cat([with_whole[..., None], with_windows], dim=2).amax(dim=2)
        return with_whole + best - self.usual(words)

    def word_features(
        self, photos: PhotoBatch, captions: CaptionBatch, without: Tensor, in_windows: Tensor, ahead: Tensor
    ) -> Tensor:
        """Features of whether a word is right in its caption, (n, m, WORD_FEATURES).

        `without` (n, m, d) has the embeddings of the captions without each word; `in_windows` (n, m) comes
        from `best_window_logits`, and `ahead` (n, m) from the method of that name.
        """
        texts, _, judged, classes, logits = captions
        limited = logits.clamp(-6.0, 6.0) * judged
        others = judged.sum(dim=1, keepdim=True) - judged.to(texts.dtype)
        mean = (limited.sum(dim=1, keepdim=True) - limited) / others.clamp_min(1.0)
        cosine, clear = (part[:, None] for part in self._clear(photos, texts))
        gain = (cosine - (without @ photos.whole[:, :, None])[..., 0]) * judged
        other_gain = (gain.sum(dim=1, keepdim=True) - gain) / others.clamp_min(1.0)
        padding = ~photos.mask[:, None]
        windows = photos.windows.transpose(1, 2)
        best = (texts[:, None] @ windows).masked_fill(padding, -1.0).amax(dim=2)
        best_without = (without @ windows).masked_fill(padding, -1.0).amax(dim=2)
        numbers = [
            limited / 2.0,
            mean / 2.0,
            (limited - mean) / 2.0,
            (limited - _lowest_other(limited, judged)) / 2.0,
            gain * _LONGER,
            (gain - other_gain) * _LONGER,
            (best - best_without) * judged * _LONGER,
            cosine.expand_as(gain) * _COSINE,
            clear.expand_as(gain),
            torch.log1p(others) / 2.0,
            in_windows.clamp(-6.0, 6.0) / 2.0,
        ]
        kinds = F.one_hot(classes, len(MARKED_CLASSES)).to(texts.dtype)
        last = (ahead * judged * _AHEAD)[..., None]
        return torch.cat([torch.stack(numbers, dim=2), kinds, last], dim=2)

    def in_caption_logits(self, features: Tensor) -> Tensor:
        """`word_features` (…, WORD_FEATURES) → how right each word is in its caption, (…)."""
        return features[..., 0] * 2.0 + features[..., -1] + self.in_caption(features[..., :-1])[..., 0]

    def mention_logits(self, features: Tensor) -> Tensor:
        """`mention_features` (…, MENTION_FEATURES) → how likely each region is mentioned, (…)."""
        return self.mention(features)[..., 0]

    def naming_logits(self, words: Tensor, regions: Tensor, whole: Tensor) -> Tensor:
        """How likely each word names what each region shows, (n, m, k)."""
        apart = torch.cat([regions, regions - whole[:, None]], dim=2)
        of_regions = self.named_region(self._drop(apart * _LONGER))
        of_words = self.named_word(self._drop(words * _LONGER))
        weight, bias = self.named_cosine
        learned = of_words @ of_regions.transpose(1, 2) / math.sqrt(self.config.named)
        return learned + weight * _COSINE * (words @ regions.transpose(1, 2)) + bias

    def best_window_logits(self, photos: PhotoBatch, words: Tensor) -> Tensor:
        """Each word's highest `naming_logits` with a window, (n, m); -6 without windows."""
        logits = self.naming_logits(words, photos.windows, photos.whole)
        logits = logits.masked_fill(~photos.mask[:, None], -6.0)
        return logits.amax(dim=2) if logits.shape[2] else logits.new_full(logits.shape[:2], -6.0)

    def mention_features(
        self, regions: Tensor, shares: Tensor, whole: Tensor, captions: CaptionBatch, naming: Tensor
    ) -> Tensor:
        """Features of whether captions mention regions, (n, k, MENTION_FEATURES).

        `regions` (n, k, d) and `whole` (n, d) are embeddings of regions and photos, `shares` (n, k, 4) the
        boxes as shares of the photo's sides, `naming` (n, m, k) the `naming_logits` of words and regions.
        """
        texts, words, judged, *_ = captions
        cosines = regions @ words.transpose(1, 2)
        usual = (words @ whole[:, :, None])[..., 0]
        no_word, no_noun = ~judged[:, None], ~captions.nouns[:, None]
        of_nouns = _highest(cosines.masked_fill(no_noun, -1.0), 2)
        named = naming.transpose(1, 2).clamp(-6.0, 6.0)
        return torch.stack(
            [
                of_nouns[..., 0] * _COSINE,
                of_nouns[..., 1].clamp_min(-0.3) * _COSINE,
                _highest(cosines.masked_fill(no_word, -1.0), 1)[..., 0] * _COSINE,
                _highest((cosines - usual[:, None]).masked_fill(no_noun, -1.0), 1)[..., 0] * _COSINE,
                (regions @ texts[:, :, None])[..., 0] * _COSINE,
                (regions @ whole[:, :, None])[..., 0] * _COSINE,
                (shares[..., 2] - shares[..., 0]) * (shares[..., 3] - shares[..., 1]) * 2.0,
                _mean(cosines.clamp_min(-0.3), judged[:, None]) * _COSINE,
                _highest(named.masked_fill(no_noun, -6.0), 1, least=-6.0)[..., 0] / 2.0,
                _highest(named.masked_fill(no_word, -6.0), 1, least=-6.0)[..., 0] / 2.0,
            ],
            dim=2,
        )

    def object_boxes(self, cells: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
        """Cells (n, h · w, reduced) → logits of confidence (n, h · w), and boxes (n, h · w, 4) as shares.

        A box is left, top, right, bottom; its cell's centre lies within it. It may reach beyond the photo.
        """
        grid = cells.transpose(1, 2).unflatten(2, (height, width))
        found = self.thing(F.gelu(self.thing_hidden(grid))).flatten(2)
        row, column = torch.meshgrid(
            torch.arange(height, device=cells.device), torch.arange(width, device=cells.device), indexing="ij"
        )
        centres = torch.stack([(column + 0.5) / width, (row + 0.5) / height], dim=2).flatten(0, 1)
        reach = found[:, 1:].clamp(-8.0, 2.0).exp().transpose(1, 2)
        return found[:, 0], torch.cat([centres - reach[..., :2], centres + reach[..., 2:]], dim=2)

    def _clear(self, photos: PhotoBatch, texts: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine of each caption with its photo, and how far it is above those with other photos, (n,)."""
        cosine, others = (texts * photos.whole).sum(dim=1), texts @ self.background.T
        return cosine, (cosine - others.mean(dim=1)) / others.std(dim=1).clamp_min(1e-4) / 2.0

    def _drop(self, rows: Tensor) -> Tensor:
        return F.dropout(rows, self.dropout, self.training)


def _lowest_other(values: Tensor, mask: Tensor) -> Tensor:
    """The lowest of the other values of each row, (n, m); the value itself where it is alone."""
    if values.shape[1] < 2:
        return values
    two = values.masked_fill(~mask, math.inf).topk(2, dim=1, largest=False)
    is_lowest = two.indices[:, :1] == torch.arange(values.shape[1], device=values.device)
    lowest = torch.where(is_lowest, two.values[:, 1:], two.values[:, :1])
    return torch.where(lowest.isinf(), values, lowest)


def _highest(values: Tensor, number: int, least: float = -1.0) -> Tensor:
    """The highest values of the last axis, highest first, (…, number); `least` where there are too few."""
    values = F.pad(values, (0, max(0, number - values.shape[-1])), value=least)
    return values.topk(number, dim=-1).values


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of the last axis over entries where the mask is True; 0 if there is none."""
    weights = mask.to(values.dtype).expand_as(values)
    return (values * weights).sum(dim=-1) / weights.sum(dim=-1).clamp_min(1.0)


@dataclass(frozen=True)
class MarkCurve:
    """Calibration of one kind of logit.

    Attributes:
        scale, bias: p = 1 / (1 + exp(−(scale · logit + bias))): the probability of being right where as many
            are right as wrong.
        quantiles: p below which each of `RATES` of the right items lie.
        found: Share of what is wrong below the quantile of 5 %.

    >>> curve = MarkCurve(2.0, 0.0, tuple(np.linspace(0.0, 1.0, 101)), 0.9)
    >>> curve.probabilities(np.array([0.0, 1.0])).round(2).tolist(), round(curve.threshold(0.05), 2)
    ([0.5, 0.88], 0.1)
    >>> [curve.verdict(p, 0.05) for p in (0.7, 0.3, 0.05)]
    [True, None, False]
    """

    scale: float
    bias: float
    quantiles: tuple[float, ...]
    found: float

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """p, float64, of logits of any shape."""
        values = np.clip(self.scale * np.asarray(logits, np.float64) + self.bias, -50.0, 50.0)
        return 1.0 / (1.0 + np.exp(-values))

    def threshold(self, rate: float) -> float:
        """p below which this rate of the right items lie; at most 0.5."""
        return min(0.5, float(np.interp(rate, RATES, self.quantiles)))

    def verdict(self, p: float, rate: float) -> bool | None:
        """True (right), False (likely wrong, at this rate of false alarms) or None (cannot tell)."""
        if self.found < _MIN_FOUND:
            return None
        if p < self.threshold(rate):
            return False
        return True if p >= 0.5 else None


def word_rate(rate: float, n_words: int, word_class: str) -> float:
    """Rate of false alarms per word of a caption with n judged words."""
    share = 1.0 if word_class == "noun" else _NO_NOUN_SHARE
    return rate * share * min(1.0, _WORDS_AT_FULL_RATE / max(n_words, 1))


@dataclass(eq=False)
class MarkCalibration:
    """A network for marks, in eval mode, with its curves and nouns.

    Each language with enough captions in the calibration has its own curves; the others use `SHARED`.

    Attributes:
        words: Language or `SHARED` → class of words → curve of words in captions.
        fits: Language or `SHARED` → curve of captions.
        nouns: Language → nouns that regions can be named by, the most frequent first.
        with_references: Curve of captions with references; None if there is none.
    """

    network: MarkNetwork
    alone: Mapping[str, MarkCurve]
    words: Mapping[str, Mapping[str, MarkCurve]]
    fits: Mapping[str, MarkCurve]
    mentions: MarkCurve
    nouns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    backbone: str = ""
    backbone_revision: str = ""
    name: str = ""
    notes: dict[str, object] = field(default_factory=dict)
    with_references: Curve | None = None

    def alone_logits(self, logits: Tensor, classes: Tensor) -> Tensor:
        """Calibrated logits of words alone, (n, m), by their classes; NaN for a class without a curve."""
        curves = [self.alone.get(name) for name in MARKED_CLASSES]
        scales = [(curve.scale, curve.bias) if curve else (math.nan, math.nan) for curve in curves]
        scale, bias = torch.tensor(scales).to(logits.device)[classes].unbind(dim=2)
        return scale * logits + bias

    def word_curve(self, language: str, word_class: str) -> MarkCurve | None:
        """Curve of a class of words in a language; None for a class that is never judged."""
        return self.words.get(language, {}).get(word_class) or self.words[SHARED].get(word_class)

    def caption_curve(self, language: str) -> MarkCurve:
        return self.fits.get(language) or self.fits[SHARED]

    def background(self) -> Background:
        """The photos beside which captions are compared with their own, and the curves of captions."""
        curves = {code: Curve(_COSINE * curve.scale, curve.bias) for code, curve in self.fits.items()}
        photos = self.network.background.cpu().numpy()
        made_for = f"{self.backbone}@{self.backbone_revision}"
        return Background(photos, made_for, curves, self.with_references)

    def check_backbone(self, backbone: Backbone) -> None:
        if backbone.revision != self.backbone_revision:
            made_for = f"{self.backbone}@{self.backbone_revision}"
            now = f"{backbone.name}@{backbone.revision}"
            raise CapscoreError(f"the mark calibration is for the backbone {made_for}, not for {now}")


CURVES = ("alone", "words", "fits", "mentions")


def _read_curves(values: Any) -> Any:
    """Curves from JSON; any of four errors for anything but curves."""
    if "quantiles" not in values:
        return {name: _read_curves(inner) for name, inner in values.items()}
    curve = MarkCurve(**{**values, "quantiles": tuple(map(float, values["quantiles"]))})
    numbers = np.array([curve.scale, curve.bias, curve.found, *curve.quantiles], np.float64)
    if len(curve.quantiles) != len(RATES) or not np.isfinite(numbers).all():
        raise ValueError(f"a curve has {len(RATES)} quantiles, and finite numbers")
    return curve


def load_mark_calibration(
    folder: str | os.PathLike[str], *, backbone: Backbone | None = None
) -> MarkCalibration:
    """Read a mark calibration from a folder, in float32 and eval mode, on the backbone's device.

    Raises BackboneUnavailable if the folder is missing, damaged, or holds another model, and CapscoreError if
    the calibration is not for `backbone`, which None does not check.
    """
    folder = Path(folder).expanduser()
    content, state = read_network(folder, MODEL_TYPE, FORMAT)
    try:
        config, curves = MarkNetworkConfig(**content["sizes"]), content["calibration"]
        with_references = content.get("with_references")
        if with_references is not None:
            with_references = Curve(*map(float, with_references))
        calibration = MarkCalibration(
            network=built(folder, state, asdict(config), lambda: MarkNetwork(config)),
            **{name: _read_curves(curves[name]) for name in CURVES},
            nouns={language: tuple(map(str, nouns)) for language, nouns in content["nouns"].items()},
            backbone=str(content["backbone"]),
            backbone_revision=str(content["backbone_revision"]),
            name="w" + fingerprint_of(content["weights"], json.dumps(curves, sort_keys=True))[:8],
            notes=content["notes"],
            with_references=with_references,
        )
        _ = calibration.words[SHARED], calibration.fits[SHARED]  # a KeyError if one is missing
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        said = f"{folder / CONFIG} is not that of a mark calibration: {error!r:.200}"
        raise BackboneUnavailable(said) from None
    if backbone is not None:
        calibration.check_backbone(backbone)
        calibration.network.to(backbone.device)
    return calibration


def load_marks(
    marks: str | os.PathLike[str] | MarkCalibration | None, backbone: Backbone
) -> tuple[MarkCalibration | None, str]:
    """The mark calibration for a backbone, and its name for signatures; None for marks as published.

    `marks` is "learned" (from capscore-weights), "published" (by the scores of the words), a calibration, its
    folder or Hub id; None for "learned" where there is one for this backbone, otherwise "published".
    """
    if marks is None:
        marks = LEARNED if backbone.name in INSTALLED_MARKS else PUBLISHED
    if marks == PUBLISHED:
        return None, PUBLISHED
    if isinstance(marks, MarkCalibration):
        marks.check_backbone(backbone)
        return marks, f"{LEARNED}@{marks.name}"
    if marks != LEARNED:
        folder = find_folder(marks, what="marks")[0]
    elif backbone.name in INSTALLED_MARKS:
        folder = weights_folder(INSTALLED_MARKS[backbone.name])
    else:
        raise CapscoreError(
            Setting("marks", LEARNED),
            f": there is no mark calibration for the backbone {backbone.name!r}; expected {PUBLISHED!r}, the "
            f"backbone {' or '.join(map(repr, INSTALLED_MARKS))}, a folder or a Hub id",
        )
    calibration = load_mark_calibration(folder, backbone=backbone)
    return calibration, f"{LEARNED}@{calibration.name}"
