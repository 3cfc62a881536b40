"""Captions → their embeddings, in files named by a digest; draws of them; the adapter of the text side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import xxhash
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.backbones import load_backbone
from capscore.backbones.base import Backbone
from capscore.backbones.embedded.text_encoder import LANGUAGES
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from training.engine.processes import device, main_process_first
from weights.making.image_tower.features import stored
from weights.making.image_tower.rows import PhotoRow
from weights.making.settings import TowerSettings

# Backbone whose text encoder embeds the captions, and whose centre the image tower has.
ENCODER = "embedded-free"
_STEPS, _BATCH = 500, 768
_SCALE, _DROPOUT, _RATE, _PENALTY = 20.0, 0.1, 3e-4, 5e-4


@dataclass(frozen=True)
class CaptionEmbeddings:
    """Embeddings of the captions of n rows, languages one after another."""

    matrix: np.ndarray  # float16 (captions, dim), rows of unit length, memory-mapped
    # language → int64 (n + 1,): row i's captions are at offsets[i] to offsets[i + 1] of `matrix`
    offsets: dict[str, np.ndarray]
    digest: str  # of the captions and the encoder


def caption_embeddings(rows: Sequence[PhotoRow], encoder: Backbone, folder: Path) -> CaptionEmbeddings:
    """The embeddings of all captions."""
    languages = sorted({language for row in rows for language in row.captions})
    offsets, texts = {}, []
    for language in languages:
        own = [row.captions.get(language, ()) for row in rows]
        offsets[language] = len(texts) + np.cumsum([0, *map(len, own)], dtype=np.int64)
        texts += [text for captions in own for text in captions]
    described = json.dumps([encoder.fingerprint, languages, texts], ensure_ascii=False)
    digest = xxhash.xxh3_128_hexdigest(described.encode())

    def computed() -> np.ndarray:
        found = Embedder(encoder, cache=EmbeddingCache(None)).texts(texts)
        return found.matrix[found.index].astype(np.float16)

    return CaptionEmbeddings(stored(folder / f"captions-{digest}.npy", computed), offsets, digest)


def embeddings_of(settings: TowerSettings, *parts: Sequence[PhotoRow]) -> list[CaptionEmbeddings]:
    """The embeddings of the captions of each part, computed once, in the folder of features."""
    encoder = load_backbone(ENCODER, device=device(), dtype="float32")
    with main_process_first():  # the others find the files
        return [caption_embeddings(part, encoder, settings.features_folder) for part in parts]


class CaptionDraws:
    """The captions of n rows in the languages of the text encoder.

    `english` is the chance that a row's English is drawn where it has other languages too; those share the
    rest. None for the same chance as any other language.
    """

    def __init__(self, embeddings: CaptionEmbeddings, english: float | None = None):
        self.matrix = embeddings.matrix
        languages = [language for language in embeddings.offsets if language in LANGUAGES]
        offsets = [embeddings.offsets[language] for language in languages]
        self.offsets = np.array(offsets)  # (languages, n + 1)
        counts = np.diff(self.offsets)
        self.counts = counts.sum(axis=0)  # captions of each row
        # (languages, n): odds of each language, at first the same for all
        odds = (counts > 0).astype(np.float64)
        if "en" in languages and english is not None:
            row = languages.index("en")
            others = odds.sum(axis=0) - odds[row]
            odds[row] *= np.where(others > 0, others * english / (1.0 - english), 1.0)
        self._bounds = odds.cumsum(axis=0)

    def places(self, rows: np.ndarray, chance: np.random.Generator) -> np.ndarray:
        """One caption of each of the given rows (k,) that have one: its row in `matrix`, int64 (k,)."""
        bounds = self._bounds[:, rows]
        language = (chance.random(len(rows)) * bounds[-1] >= bounds).sum(axis=0)
        starts, stops = self.offsets[language, rows], self.offsets[language, rows + 1]
        return starts + (chance.random(len(rows)) * (stops - starts)).astype(np.int64)

    def two(self, rows: np.ndarray, chance: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Embeddings of two different captions of each row that has two, float32 (k, dim) each."""
        first = self.places(rows, chance)
        second = self.places(rows, chance)
        while (again := np.flatnonzero((first == second) & (self.counts[rows] > 1))).size:
            second[again] = self.places(rows[again], chance)
        return self.at(first), self.at(second)

    def means(self, rows: np.ndarray) -> Tensor:
        """Mean embedding of all captions of each row, float32 (k, dim)."""
        found = []
        for row in rows:
            own = [self.matrix[starts[row] : starts[row + 1]] for starts in self.offsets]
            found.append(np.concatenate(own).astype(np.float64).mean(axis=0))
        return torch.from_numpy(np.array(found, dtype=np.float32))

    def at(self, places: np.ndarray) -> Tensor:
        return torch.from_numpy(self.matrix[places].astype(np.float32))


def learned_adapter(draws: Sequence[CaptionDraws], dim: int, share: float, *, seed: int = 0) -> Tensor:
    """The matrix A (dim, dim) for `TextPlace.adapter`, which brings captions of one photo together.

    Learned by contrast of two captions of one photo, with a penalty on its size. Then a share of it is kept:
    with all of it, English gains the most, but languages with few captions lose.
    """
    rows = [np.flatnonzero(own.counts > 1) for own in draws]
    ends = np.cumsum([len(own) for own in rows])
    if ends[-1] < 2:
        return torch.zeros(dim, dim)
    adapter = nn.Linear(dim, dim, bias=False)
    nn.init.zeros_(adapter.weight)
    optimizer = torch.optim.AdamW(adapter.parameters(), lr=_RATE, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=_STEPS)
    chance = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(_STEPS):
            # each photo once, so that no caption is contrasted with one of its own photo
            drawn = np.unique(chance.integers(ends[-1], size=_BATCH))
            pairs = []
            for own, photos, end in zip(draws, rows, ends, strict=True):
                part = drawn[(drawn < end) & (drawn >= end - len(photos))] - (end - len(photos))
                pairs.append(own.two(photos[part], chance))
            item, other = (torch.cat(column) for column in zip(*pairs, strict=True))
            logits = _SCALE * _placed(adapter, item) @ _placed(adapter, other).T
            own_place = torch.arange(len(logits))
            contrast = F.cross_entropy(logits, own_place) + F.cross_entropy(logits.T, own_place)
            loss = contrast / 2 + _PENALTY * adapter.weight.pow(2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return share * adapter.weight.detach()


def _placed(adapter: nn.Module, rows: Tensor) -> Tensor:
    return F.normalize(F.dropout(rows, _DROPOUT) + adapter(F.dropout(rows, _DROPOUT)), dim=-1)
