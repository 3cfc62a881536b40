"""Captions of photos, drawn at random: a language first, then a caption in it, for all rows at once."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import torch
from torch import Tensor

from weights.making.image_tower.caption_embeddings import CaptionEmbeddings


class CaptionDraws:
    """The captions of n rows in some languages.

    Args:
        embeddings: Embeddings of their captions.
        languages: Languages to draw from; captions in others count as missing.
        english: Chance that a row's English is drawn where it has other languages too; those share the rest.
            None for the same chance as any other language.

    Attributes:
        counts: (n,) int64, number of captions of each row.
    """

    def __init__(
        self, embeddings: CaptionEmbeddings, languages: Collection[str], english: float | None = None
    ):
        self.matrix = embeddings.matrix
        self.languages = [language for language in embeddings.offsets if language in languages]
        # (languages, n + 1)
        found = [embeddings.offsets[language] for language in self.languages]
        self.offsets = np.array(found, dtype=np.int64) if found else np.zeros((0, 1), dtype=np.int64)
        counts = np.diff(self.offsets)
        self.counts = counts.sum(axis=0)
        # (languages, n): odds of each language, at first the same for all
        odds = (counts > 0).astype(np.float64)
        if "en" in self.languages and english is not None:
            row = self.languages.index("en")
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
        found = np.zeros((len(rows), self.matrix.shape[1]), dtype=np.float64)
        for own in self.offsets:
            for place, row in enumerate(rows):
                found[place] += self.matrix[own[row] : own[row + 1]].astype(np.float64).sum(axis=0)
        return torch.from_numpy((found / self.counts[rows][:, None]).astype(np.float32))

    def at(self, places: np.ndarray) -> Tensor:
        """Rows of `matrix` in float32."""
        return torch.from_numpy(self.matrix[places].astype(np.float32))
