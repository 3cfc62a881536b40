"""The judge: a photo's feature map and words alone → whether each word is right, in absolute terms.

In: maps and embeddings of the backbone that it was trained with. Out: logits of words, captions and regions,
and boxes of things. InfoMetIC's own word scores share a sum of one, so they only say which word is the worst
of its caption; the judge reads each word without its caption, so a right word stays right beside a wrong one.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional as F

from ..backbones.base import Backbone, fingerprint_of, tensors_digest
from ..backbones.checkpoint import read_json, read_state_dict, refuse_misfit, refuse_oversized
from ..errors import BackboneUnavailable, CapscoreError, Setting
from ..files.whole_file import whole_file, write_text

# Classes of words that are judged, in the order of their embeddings.
MARKED_CLASSES = ("noun", "verb", "adjective", "adverb", "number")
# What is known of a caption, and of a region beside a caption: see `MarkNetwork.fit_features` and
# `MarkNetwork.mention_features`.
FIT_FEATURES, MENTION_FEATURES = 8, 10
# What is known of a word in its caption: see `MarkNetwork.word_features`.
WORD_FEATURES = 11 + len(MARKED_CLASSES)
# Cosines are small; this brings them to the size of the other inputs.
_COSINE = 5.0
_LONGER = 20.0
_MAX_SIZE = 8192


@dataclass(frozen=True)
class MarkNetworkConfig:
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
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MAX_SIZE:
                raise CapscoreError(
                    Setting(name, value), f": expected a whole number from 1 to {_MAX_SIZE:,}"
                )

    def to_dict(self) -> dict[str, int]:
        """The sizes, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Any) -> MarkNetworkConfig:
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
class PhotoBatch:
    """What the judge sees of n photos.

    Attributes:
        cells: (n, h · w, reduced), from `MarkNetwork.reduce`.
        whole: (n, d), embeddings of the whole photos, of unit length.
        windows: (n, k, d), embeddings of their windows (`capscore.infometic.regions.windows`), of unit
            length.
        there: bool (n, k), True for windows, False for padding.
    """

    cells: Tensor
    whole: Tensor
    windows: Tensor
    there: Tensor

    def take(self, index: Tensor) -> PhotoBatch:
        """The photos at these places."""
        return PhotoBatch(self.cells[index], self.whole[index], self.windows[index], self.there[index])


class MarkNetwork(nn.Module):
    """Network that judges words, captions and regions, and finds things.

    A word, embedded alone, asks the cells of the map and the windows by attention; what they answer, and its
    cosines with the photo and the windows, go through two layers.

    Attributes:
        config: Sizes.
        background: (background, d), embeddings of photos; how well they fit a caption tells how well any
            photo would.

    >>> _ = torch.manual_seed(0)
    >>> sizes = MarkNetworkConfig(dim=8, features=6, reduced=4, hidden=4, inner=6, things=4, background=3)
    >>> judge = MarkNetwork(sizes).eval()
    >>> seen = PhotoBatch(
    ...     judge.reduce(torch.randn(2, 6, 3, 3)), torch.eye(8)[:2], torch.eye(8)[None, :5].expand(2, 5, 8),
    ...     torch.ones(2, 5).bool(),
    ... )
    >>> logits = judge.word_logits(seen, torch.eye(8)[None, :3].expand(2, 3, 8), torch.zeros(2, 3).long())
    >>> tuple(logits.shape)
    (2, 3)
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

    def word_logits(self, seen: PhotoBatch, words: Tensor, classes: Tensor) -> Tensor:
        """How right each word is of its photo, before calibration.

        Args:
            seen: n photos.
            words: (n, m, d), embeddings of words alone, of unit length.
            classes: (n, m), places of their classes in `MARKED_CLASSES`.

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

    def fit_features(self, seen: PhotoBatch, texts: Tensor, logits: Tensor, judged: Tensor) -> Tensor:
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
        seen: PhotoBatch,
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
            classes: (n, m), places of the words' classes in `MARKED_CLASSES`.
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
        kinds = F.one_hot(classes, len(MARKED_CLASSES)).to(texts.dtype)
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

    def seen_in_windows(self, seen: PhotoBatch, words: Tensor) -> Tensor:
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


MODEL_TYPE = "capscore_mark_calibration"
CONFIG, WEIGHTS = "config.json", "model.safetensors"
_FORMAT = 2


@dataclass(eq=False)
class MarkCalibration:
    """A judge with what belongs to it.

    Attributes:
        judge: Network, in eval mode.
        calibration: Probabilities and thresholds.
        nouns: Language → nouns that regions can be named by, the most frequent first.
        backbone: Name of the backbone that it was trained with.
        backbone_revision: Revision of that backbone.
        name: Name for signatures.
        notes: Anything worth recording.
    """

    judge: MarkNetwork
    calibration: MarkCurves
    nouns: Mapping[str, tuple[str, ...]]
    backbone: str
    backbone_revision: str
    name: str = ""
    notes: dict[str, Any] = field(default_factory=dict)

    def check_backbone(self, backbone: Backbone) -> None:
        """Raise unless the judge is for this backbone.

        Raises:
            CapscoreError: it is for another one.
        """
        if backbone.revision != self.backbone_revision:
            raise CapscoreError(
                f"the judge of marks is for the backbone {self.backbone}@{self.backbone_revision}, not for "
                f"{backbone.name}@{backbone.revision}"
            )


def save_mark_calibration(loaded: MarkCalibration, folder: str | os.PathLike[str]) -> None:
    """Write a judge, its weights in float16; the weights first, then config.json with their digest.

    Raises:
        CapscoreError: a weight is not finite in float16.
        ResultWriteError: the folder cannot be written.
    """
    folder = Path(folder).expanduser()
    state = {
        name: tensor.detach().cpu().half().contiguous() for name, tensor in loaded.judge.state_dict().items()
    }
    bad = [name for name, tensor in state.items() if not torch.isfinite(tensor).all()]
    if bad:
        raise CapscoreError(f"the weights {bad[0]!r} are not finite in float16")
    record = {
        "model_type": MODEL_TYPE,
        "format": _FORMAT,
        "sizes": loaded.judge.config.to_dict(),
        "backbone": loaded.backbone,
        "backbone_revision": loaded.backbone_revision,
        "weights": tensors_digest(state),
        "calibration": loaded.calibration.to_dict(),
        "nouns": {language: list(nouns) for language, nouns in loaded.nouns.items()},
        "notes": loaded.notes,
    }
    text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
    with whole_file(folder / WEIGHTS, "the judge", make_folders=True) as file:
        file.write(save(state))
    write_text(folder / CONFIG, text, "the judge")


def load_mark_calibration(
    folder: str | os.PathLike[str], *, backbone: Backbone | None = None
) -> MarkCalibration:
    """Read a mark calibration from a folder, in float32 and eval mode, on the backbone's device.

    Args:
        folder: Folder to read.
        backbone: Backbone that it must belong to; None for no check.

    Raises:
        BackboneUnavailable: the folder is missing, damaged, or holds another model.
        CapscoreError: the judge is for another backbone.
    """
    folder = Path(folder).expanduser()
    record = read_json(folder / CONFIG)
    if record.get("model_type") != MODEL_TYPE:
        raise BackboneUnavailable(
            f"{folder} has no judge of marks: its {CONFIG} has no model_type {MODEL_TYPE!r}"
        )
    try:
        if record["format"] != _FORMAT:
            raise BackboneUnavailable(
                f"{folder / CONFIG} has the format {record['format']!r}: expected {_FORMAT}"
            )
        config = MarkNetworkConfig.from_dict(record["sizes"])
        calibration = MarkCurves.from_dict(record["calibration"])
        nouns = {str(language): tuple(map(str, own)) for language, own in record["nouns"].items()}
        name, revision, digest = record["backbone"], record["backbone_revision"], record["weights"]
        notes = dict(record["notes"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BackboneUnavailable(f"{folder / CONFIG} is not that of a judge of marks: {error}") from None
    state = read_state_dict(folder)
    if tensors_digest(state) != digest:
        raise BackboneUnavailable(f"{folder}: {WEIGHTS} does not belong to {CONFIG}; was saving interrupted?")
    stored = sum(tensor.nbytes for tensor in state.values())
    refuse_oversized(folder, config.to_dict(), stored, lambda: MarkNetwork(config))
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they were
        judge = MarkNetwork(config)
    expected = judge.state_dict()
    refuse_misfit(
        folder,
        missing=(one for one in expected if one not in state),
        unexpected=(one for one in state if one not in expected),
        mismatched=(one for one in state if one in expected and state[one].shape != expected[one].shape),
    )
    judge.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    marks = fingerprint_of(digest, json.dumps(record["calibration"], sort_keys=True))
    loaded = MarkCalibration(
        judge.eval(), calibration, nouns, str(name), str(revision), f"w{marks[:8]}", notes
    )
    if backbone is not None:
        loaded.check_backbone(backbone)
        judge.to(backbone.device)
    return loaded


# Name of the thresholds for languages without their own.
SHARED = "shared"
# Rates of false alarms that `MarkCurve.quantiles` are for: 0 %, 0.5 %, … 50 %.
RATES = np.linspace(0.0, 0.5, 101)
# A class is judged only if at 5 % false alarms at least this share of its wrong words is found: otherwise a
# mark would say more about chance than about the photo.
LEAST_FOUND = 0.2
# Captions with more judged words than this have a lower rate per word: a long right caption would almost
# always carry a mark otherwise, and people stop believing marks.
WORDS_AT_FULL_RATE = 3
# Words of other classes have this share of the rate of nouns: photos, above all of another kind than those of
# the calibration, tell little of verbs and colours, and a wrong mark costs more than a missed one.
NO_NOUN_SHARE = 0.1
# Number of logits that those of other languages count for in the quantiles of one language.
PRIOR = 300
# Of right captions, this share of the rate may be said not to fit.
FIT_SHARE = 0.4


@dataclass(frozen=True)
class MarkCurve:
    """Calibration of one kind of logit.

    Attributes:
        scale, bias: p = 1 / (1 + exp(−(scale · logit + bias))): the probability of being right where as many
            are right as wrong.
        quantiles: p below which each of `RATES` of what is right lies.
        found: Share of what is wrong below the quantile of 5 %.

    >>> curve = MarkCurve(2.0, 0.0, tuple(np.linspace(0.0, 1.0, 101)), 0.9)
    >>> [round(value, 2) for value in curve.probabilities(np.array([0.0, 1.0])).tolist()]
    [0.5, 0.88]
    >>> round(curve.threshold(0.05), 2)
    0.1
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
        """p below which this rate of what is right lies; at most 0.5."""
        return min(0.5, float(np.interp(rate, RATES, self.quantiles)))

    def to_dict(self) -> dict[str, Any]:
        """The numbers, rounded, ready for JSON."""
        return {
            "scale": round(self.scale, 5),
            "bias": round(self.bias, 5),
            "quantiles": [round(value, 5) for value in self.quantiles],
            "found": round(self.found, 4),
        }

    @classmethod
    def from_dict(cls, given: Any) -> MarkCurve:
        """The curve out of JSON.

        Raises:
            CapscoreError: it is not one.
        """
        try:
            curve = cls(
                float(given["scale"]),
                float(given["bias"]),
                tuple(map(float, given["quantiles"])),
                float(given["found"]),
            )
        except (KeyError, TypeError, ValueError):
            raise CapscoreError(
                f"a calibration is {given!r:.100}: expected scale, bias, quantiles, found"
            ) from None
        values = np.array([curve.scale, curve.bias, *curve.quantiles, curve.found])
        if len(curve.quantiles) != len(RATES) or not np.isfinite(values).all():
            raise CapscoreError(
                f"a calibration has {len(curve.quantiles)} quantiles: expected {len(RATES)} numbers"
            )
        return curve


def fit_curve(right: np.ndarray, wrong: np.ndarray, prior: np.ndarray | None = None) -> MarkCurve:
    """Calibrate logits of what is right and of what is wrong, each with half of the weight.

    Platt's method (Platt 1999) without his smoothing, by Newton's method.

    Args:
        right: (n,) logits, at least 2.
        wrong: (m,) logits, at least 2.
        prior: Logits of what is right in other languages, which count as `PRIOR` further ones for the
            quantiles: the lowest few per cent of a few hundred logits are a matter of chance.

    Raises:
        CapscoreError: there are too few, or a logit is not finite.

    >>> chance = np.random.default_rng(0)
    >>> curve = fit_curve(chance.normal(1, 1, 4000), chance.normal(-1, 1, 4000))
    >>> round(curve.scale), round(curve.bias)
    (2, 0)
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


@dataclass(frozen=True)
class MarkCurves:
    """Curves by language.

    Attributes:
        alone: Class of words → curve of words alone, which what is known of a word in its caption begins
            with.
        words: Language or `SHARED` → class of words → curve of words in captions.
        fits: Language or `SHARED` → curve of captions.
        mentions: Curve of regions.

    Raises:
        CapscoreError: the curves that all languages share are missing.
    """

    alone: Mapping[str, MarkCurve]
    words: Mapping[str, Mapping[str, MarkCurve]]
    fits: Mapping[str, MarkCurve]
    mentions: MarkCurve

    def __post_init__(self) -> None:
        if SHARED not in self.words or SHARED not in self.fits:
            raise CapscoreError(f"a calibration of a judge lacks {SHARED!r}")

    def of_word(self, language: str, word_class: str) -> MarkCurve | None:
        """Curve of a class of words in a language; None for a class that is never judged."""
        return self.words.get(language, {}).get(word_class) or self.words[SHARED].get(word_class)

    def of_caption(self, language: str) -> MarkCurve:
        """Curve of captions in a language."""
        return self.fits.get(language) or self.fits[SHARED]

    def to_dict(self) -> dict[str, Any]:
        """All numbers, ready for JSON."""
        return {
            "alone": {name: curve.to_dict() for name, curve in self.alone.items()},
            "words": {
                language: {name: curve.to_dict() for name, curve in curves.items()}
                for language, curves in self.words.items()
            },
            "fits": {language: curve.to_dict() for language, curve in self.fits.items()},
            "mentions": self.mentions.to_dict(),
        }

    @classmethod
    def from_dict(cls, given: Any) -> MarkCurves:
        """The calibration out of JSON.

        Raises:
            CapscoreError: it is not one.
        """
        try:
            return cls(
                {name: MarkCurve.from_dict(one) for name, one in given["alone"].items()},
                {
                    language: {name: MarkCurve.from_dict(one) for name, one in curves.items()}
                    for language, curves in given["words"].items()
                },
                {language: MarkCurve.from_dict(one) for language, one in given["fits"].items()},
                MarkCurve.from_dict(given["mentions"]),
            )
        except (KeyError, TypeError, AttributeError):
            raise CapscoreError(f"{given!r:.100}: expected alone, words, fits and mentions") from None


def word_rate(rate: float, n_words: int, word_class: str) -> float:
    """Rate of false alarms per word of a caption with n judged words.

    >>> word_rate(0.05, 3, "noun"), word_rate(0.05, 6, "noun")
    (0.05, 0.025)
    """
    share = 1.0 if word_class == "noun" else NO_NOUN_SHARE
    return rate * share * min(1.0, WORDS_AT_FULL_RATE / max(n_words, 1))


def word_verdict(p: float, curve: MarkCurve, rate: float) -> bool | None:
    """True (right), False (likely wrong) or None (cannot tell).

    Args:
        p: Calibrated probability.
        curve: Curve of the word's class and language.
        rate: Rate of right words that may be called wrong.

    >>> curve = MarkCurve(1.0, 0.0, tuple(np.linspace(0.0, 1.0, 101)), 0.9)
    >>> [word_verdict(p, curve, 0.05) for p in (0.7, 0.3, 0.05)]
    [True, None, False]
    """
    if curve.found < LEAST_FOUND:
        return None
    if p < curve.threshold(rate):
        return False
    return True if p >= 0.5 else None


def expected_calibration_error(p: Sequence[float] | np.ndarray, right: Sequence[bool] | np.ndarray) -> float:
    """Expected calibration error with 10 bins of equal width (Naeini et al. 2015): mean |share right − mean
    p|.

    What is right and what is wrong count half each.

    >>> round(expected_calibration_error([0.9, 0.9, 0.1, 0.1], [True, True, False, False]), 3)
    0.1
    """
    values, truth = np.asarray(p, np.float64), np.asarray(right, bool)
    if truth.all() or not truth.any():
        raise CapscoreError("a calibration error needs what is right and what is wrong")
    weight = np.where(truth, 0.5 / truth.sum(), 0.5 / (~truth).sum())
    bins = np.minimum((values * 10).astype(int), 9)
    gap = np.bincount(bins, weights=weight * (truth - values), minlength=10)
    return float(np.abs(gap).sum())
