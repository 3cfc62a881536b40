"""The judge: a photo's feature map and words alone → whether each word is right, in absolute terms.

In: maps and embeddings of the backbone that it was trained with. Out: logits of words, captions and regions,
and boxes of things. InfoMetIC's own word scores share a sum of one, so they only say which word is the worst
of its caption; the judge reads each word without its caption, so a right word stays right beside a wrong one.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import CapscoreError, Setting

# Classes of words that are judged, in the order of their embeddings.
JUDGED = ("noun", "verb", "adjective", "adverb", "number")
# What is known of a caption, and of a region beside a caption: see `Judge.fit_features` and
# `Judge.mention_features`.
FIT_FEATURES, MENTION_FEATURES = 8, 10
# What is known of a word in its caption: see `Judge.word_features`.
WORD_FEATURES = 11 + len(JUDGED)
# Cosines are small; this brings them to the size of the other inputs.
_COSINE = 5.0
_LONGER = 20.0
_MOST = 8192


@dataclass(frozen=True)
class JudgeConfig:
    """Sizes of the judge.

    Attributes:
        dim: Length of the backbone's embeddings.
        features: Channels of its feature map.
        reduced: Channels of the map that are kept.
        hidden: Width of queries, keys and values.
        inner: Width of the layers behind them.
        small: Width of the hidden layers for captions and regions.
        things: Channels of the convolution that finds things.
        named: Width of words and regions where the judge tells which word names which region.
        background: Number of photos that a caption's fit is compared with.

    Raises:
        CapscoreError: a size that is not a whole number in its range.
    """

    dim: int = 512
    features: int = 1280
    reduced: int = 384
    hidden: int = 192
    inner: int = 320
    small: int = 16
    things: int = 96
    named: int = 96
    background: int = 128

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
                raise CapscoreError(Setting(name, value), f": expected a whole number from 1 to {_MOST:,}")

    def to_dict(self) -> dict[str, int]:
        """The sizes, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Any) -> JudgeConfig:
        """The sizes out of JSON.

        Raises:
            CapscoreError: a size is missing, unknown or out of range.
        """
        names = {one.name for one in fields(cls)}
        if not isinstance(given, dict) or set(given) != names:
            raise CapscoreError(
                f"the sizes of a judge are {given!r:.200}: expected {', '.join(sorted(names))}"
            )
        return cls(**given)


@dataclass(frozen=True, eq=False)
class SeenPhotos:
    """What the judge sees of n photos.

    Attributes:
        cells: (n, h · w, reduced), from `Judge.reduce`.
        whole: (n, d), embeddings of the whole photos, of unit length.
        windows: (n, k, d), embeddings of their windows (`capscore.infometic.windows.windows`), of unit
            length.
        there: bool (n, k), True for windows, False for padding.
    """

    cells: Tensor
    whole: Tensor
    windows: Tensor
    there: Tensor

    def take(self, index: Tensor) -> SeenPhotos:
        """The photos at these places."""
        return SeenPhotos(self.cells[index], self.whole[index], self.windows[index], self.there[index])


class Judge(nn.Module):
    """Network that judges words, captions and regions, and finds things.

    A word, embedded alone, asks the cells of the map and the windows by attention; what they answer, and its
    cosines with the photo and the windows, go through two layers.

    Attributes:
        config: Sizes.
        background: (background, d), embeddings of photos; how well they fit a caption tells how well any
            photo would.

    >>> _ = torch.manual_seed(0)
    >>> sizes = JudgeConfig(dim=8, features=6, reduced=4, hidden=4, inner=6, things=4, background=3)
    >>> judge = Judge(sizes).eval()
    >>> seen = SeenPhotos(
    ...     judge.reduce(torch.randn(2, 6, 3, 3)), torch.eye(8)[:2], torch.eye(8)[None, :5].expand(2, 5, 8),
    ...     torch.ones(2, 5).bool(),
    ... )
    >>> logits = judge.word_logits(seen, torch.eye(8)[None, :3].expand(2, 3, 8), torch.zeros(2, 3).long())
    >>> tuple(logits.shape)
    (2, 3)
    """

    background: Tensor

    def __init__(self, config: JudgeConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or JudgeConfig()
        dim, reduced, hidden, inner = config.dim, config.reduced, config.hidden, config.inner
        self.reducer = nn.Linear(config.features, reduced)
        self.query = nn.Linear(dim, hidden)
        self.word_class = nn.Embedding(len(JUDGED), hidden)
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
        self.fit = nn.Sequential(nn.Linear(FIT_FEATURES, config.small), nn.Tanh(), nn.Linear(config.small, 1))
        self.in_caption = nn.Sequential(
            nn.Linear(WORD_FEATURES, config.small), nn.Tanh(), nn.Linear(config.small, 1)
        )
        self.mention = nn.Sequential(
            nn.Linear(MENTION_FEATURES, config.small), nn.Tanh(), nn.Linear(config.small, 1)
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

    # ------------------------------------------------------------------ words

    def reduce(self, maps: Tensor) -> Tensor:
        """Feature maps (n, features, h, w) → cells (n, h · w, reduced)."""
        return self.reducer(maps.flatten(2).transpose(1, 2))

    def word_logits(self, seen: SeenPhotos, words: Tensor, classes: Tensor) -> Tensor:
        """How right each word is of its photo, before calibration.

        Args:
            seen: n photos.
            words: (n, m, d), embeddings of words alone, of unit length.
            classes: (n, m), places of their classes in `JUDGED`.

        Returns:
            (n, m).
        """
        width = math.sqrt(self.config.hidden)
        cells, told = self._drop(seen.cells), self._drop(words * _LONGER)
        query = self.query(told) + self.word_class(classes)
        at_cells = query @ self.cell_key(cells).transpose(1, 2) / width
        of_cells = at_cells.softmax(dim=2) @ self.cell_value(cells)
        missing = ~seen.there[:, None]
        longer = self._drop(seen.windows * _LONGER)
        at_windows = (query @ self.window_key(longer).transpose(1, 2) / width).masked_fill(missing, -1e4)
        of_windows = at_windows.softmax(dim=2) @ self.window_value(longer)
        cosines = words @ seen.windows.transpose(1, 2)
        best = _highest(cosines.masked_fill(missing, -1.0), 3)
        numbers = torch.stack(
            [
                (words @ seen.whole[:, :, None])[..., 0] * _COSINE,
                best[..., 0] * _COSINE,
                best.mean(dim=2) * _COSINE,
                _mean(cosines.clamp_min(-0.3), seen.there[:, None]) * _COSINE,
                at_cells.logsumexp(dim=2) / 4.0,
                at_windows.logsumexp(dim=2) / 4.0,
            ],
            dim=2,
        )
        rows = torch.cat(
            [
                query * of_cells,
                query * self.cell_mean(cells.mean(dim=1))[:, None],
                query * self.photo(seen.whole * _LONGER)[:, None],
                query * of_windows,
                of_cells,
                of_windows,
                numbers,
            ],
            dim=2,
        )
        rows = F.gelu(self.first(rows) + self.word(told))
        rows = rows + F.gelu(self.second(self._drop(rows)))
        return self.last(self._drop(rows))[..., 0]

    # ------------------------------------------------------------------ captions and regions

    def fit_features(self, seen: SeenPhotos, texts: Tensor, logits: Tensor, judged: Tensor) -> Tensor:
        """What tells whether a caption fits its photo, (n, FIT_FEATURES).

        Args:
            seen: n photos, whose cells are not read.
            texts: (n, d), embeddings of the captions, of unit length.
            logits: (n, m), calibrated logits of the captions' words.
            judged: bool (n, m), False for padding.
        """
        cosine = (texts * seen.whole).sum(dim=1)
        others = texts @ self.background.T
        at_windows = (seen.windows @ texts[:, :, None])[..., 0].masked_fill(~seen.there, -1.0)
        counts = judged.sum(dim=1)
        limited = logits.clamp(-6.0, 6.0)
        lowest = limited.masked_fill(~judged, 6.0)
        lowest = lowest.amin(dim=1) if lowest.shape[1] else counts * 0.0
        some = (counts > 0).to(texts.dtype)
        return torch.stack(
            [
                cosine * _COSINE,
                (cosine - others.mean(dim=1)) / others.std(dim=1).clamp_min(1e-4) / 2.0,
                _highest(at_windows, 1)[:, 0] * _COSINE,
                _mean(limited, judged) / 2.0,
                lowest / 3.0 * some,
                _mean((limited < 0).to(texts.dtype), judged),
                torch.log1p(counts.to(texts.dtype)) / 2.0,
                some,
            ],
            dim=1,
        )

    def fit_logits(self, features: Tensor) -> Tensor:
        """`fit_features` (n, FIT_FEATURES) → (n,), how well each caption fits."""
        return self.fit(features)[:, 0]

    def word_features(
        self,
        seen: SeenPhotos,
        texts: Tensor,
        without: Tensor,
        logits: Tensor,
        judged: Tensor,
        classes: Tensor,
        in_windows: Tensor,
    ) -> Tensor:
        """What tells whether a word is right in its caption, (n, m, WORD_FEATURES).

        A word that is wrong stands out: the caption's other words are right, and without it the caption fits
        better.

        Args:
            seen: n photos, whose cells are not read.
            texts: (n, d), embeddings of the captions, of unit length.
            without: (n, m, d), embeddings of the captions without each word.
            logits: (n, m), calibrated logits of the words alone.
            judged: bool (n, m), False for padding.
            classes: (n, m), places of the words' classes in `JUDGED`.
            in_windows: (n, m), from `seen_in_windows`.
        """
        limited = logits.clamp(-6.0, 6.0) * judged
        others = judged.sum(dim=1, keepdim=True) - judged.to(texts.dtype)
        mean = (limited.sum(dim=1, keepdim=True) - limited) / others.clamp_min(1.0)
        cosine = (texts * seen.whole).sum(dim=1, keepdim=True)
        gain = cosine - (without @ seen.whole[:, :, None])[..., 0]
        gain = gain * judged
        other_gain = (gain.sum(dim=1, keepdim=True) - gain) / others.clamp_min(1.0)
        missing = ~seen.there[:, None]
        best = (texts[:, None] @ seen.windows.transpose(1, 2)).masked_fill(missing, -1.0).amax(dim=2)
        best_without = (without @ seen.windows.transpose(1, 2)).masked_fill(missing, -1.0).amax(dim=2)
        background = texts @ self.background.T
        clear = (cosine - background.mean(dim=1, keepdim=True)) / background.std(
            dim=1, keepdim=True
        ).clamp_min(1e-4)
        lowest = _lowest_other(limited, judged)
        numbers = [
            limited / 2.0,
            mean / 2.0,
            (limited - mean) / 2.0,
            (limited - lowest) / 2.0,
            gain * _LONGER,
            (gain - other_gain) * _LONGER,
            (best - best_without) * judged * _LONGER,
            cosine.expand_as(gain) * _COSINE,
            clear.expand_as(gain) / 2.0,
            torch.log1p(others) / 2.0,
            in_windows.clamp(-6.0, 6.0) / 2.0,
        ]
        kinds = F.one_hot(classes, len(JUDGED)).to(texts.dtype)
        return torch.cat([torch.stack(numbers, dim=2), kinds], dim=2)

    def in_caption_logits(self, features: Tensor) -> Tensor:
        """`word_features` (…, WORD_FEATURES) → how right each word is in its caption, (…)."""
        return features[..., 0] * 2.0 + self.in_caption(features)[..., 0]

    def naming_logits(self, words: Tensor, regions: Tensor, whole: Tensor) -> Tensor:
        """How likely each word names what each region shows, (n, m, k).

        Args:
            words: (n, m, d), embeddings of words alone, of unit length.
            regions: (n, k, d), embeddings of regions, of unit length.
            whole: (n, d), embeddings of the photos.
        """
        apart = torch.cat([regions, regions - whole[:, None]], dim=2)
        shown = self.named_region(self._drop(apart * _LONGER))
        told = self.named_word(self._drop(words * _LONGER))
        weight, bias = self.named_cosine
        learned = told @ shown.transpose(1, 2) / math.sqrt(self.config.named)
        return learned + weight * _COSINE * (words @ regions.transpose(1, 2)) + bias

    def seen_in_windows(self, seen: SeenPhotos, words: Tensor) -> Tensor:
        """Each word's highest `naming_logits` with a window, (n, m); -6 without windows."""
        found = self.naming_logits(words, seen.windows, seen.whole)
        found = found.masked_fill(~seen.there[:, None], -6.0)
        return found.amax(dim=2) if found.shape[2] else found.new_full(found.shape[:2], -6.0)

    def mention_features(
        self,
        regions: Tensor,
        shares: Tensor,
        whole: Tensor,
        text: Tensor,
        words: Tensor,
        judged: Tensor,
        nouns: Tensor,
        naming: Tensor,
    ) -> Tensor:
        """What tells whether captions mention regions, (n, k, MENTION_FEATURES).

        Args:
            regions: (n, k, d), embeddings of regions, of unit length.
            shares: (n, k, 4), their boxes as shares of the photo's sides.
            whole: (n, d), embeddings of the photos.
            text: (n, d), embeddings of the captions.
            words: (n, m, d), embeddings of the captions' words alone.
            judged: bool (n, m), False for padding.
            nouns: bool (n, m), words that are nouns.
            naming: (n, m, k), `naming_logits` of the words and regions.
        """
        cosines = regions @ words.transpose(1, 2)
        usual = (words @ whole[:, :, None])[..., 0]
        of_words = _highest(cosines.masked_fill(~judged[:, None], -1.0), 1)[..., 0]
        of_nouns = _highest(cosines.masked_fill(~(nouns & judged)[:, None], -1.0), 2)
        more = _highest((cosines - usual[:, None]).masked_fill(~(nouns & judged)[:, None], -1.0), 1)[..., 0]
        named = naming.transpose(1, 2).clamp(-6.0, 6.0)
        named_by = _highest(named.masked_fill(~(nouns & judged)[:, None], -6.0), 1, least=-6.0)[..., 0]
        named_by_any = _highest(named.masked_fill(~judged[:, None], -6.0), 1, least=-6.0)[..., 0]
        return torch.stack(
            [
                of_nouns[..., 0] * _COSINE,
                of_nouns[..., 1].clamp_min(-0.3) * _COSINE,
                of_words * _COSINE,
                more * _COSINE,
                (regions @ text[:, :, None])[..., 0] * _COSINE,
                (regions @ whole[:, :, None])[..., 0] * _COSINE,
                (shares[..., 2] - shares[..., 0]) * (shares[..., 3] - shares[..., 1]) * 2.0,
                _mean(cosines.clamp_min(-0.3), judged[:, None]) * _COSINE,
                named_by / 2.0,
                named_by_any / 2.0,
            ],
            dim=2,
        )

    def mention_logits(self, features: Tensor) -> Tensor:
        """`mention_features` (n, k, MENTION_FEATURES) → (n, k), how likely each region is mentioned."""
        return self.mention(features)[..., 0]

    # ------------------------------------------------------------------ things

    def thing_boxes(self, cells: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
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

    def _drop(self, rows: Tensor) -> Tensor:
        return F.dropout(rows, self.dropout, self.training)


def _lowest_other(values: Tensor, there: Tensor) -> Tensor:
    """The lowest of the other values of each row, (n, m); the value itself where it is alone."""
    far = values.masked_fill(~there, float("inf"))
    if far.shape[1] < 2:
        return values
    two = far.topk(2, dim=1, largest=False)
    lowest = torch.where(
        two.indices[:, :1] == torch.arange(values.shape[1], device=values.device),
        two.values[:, 1:],
        two.values[:, :1],
    )
    return torch.where(lowest.isinf(), values, lowest)


def _highest(values: Tensor, number: int, least: float = -1.0) -> Tensor:
    """The highest values of the last axis, highest first, (…, number); `least` where there are too few."""
    missing = number - values.shape[-1]
    if missing > 0:
        values = F.pad(values, (0, missing), value=least)
    return values.topk(number, dim=-1).values


def _mean(values: Tensor, there: Tensor) -> Tensor:
    """Mean of the last axis over entries that are there; 0 if none is."""
    there = there.to(values.dtype).expand_as(values)
    return (values * there).sum(dim=-1) / there.sum(dim=-1).clamp_min(1.0)
