"""Regions → nouns of a language for what they show, where the backbone's space can name it.

In: embeddings of regions. Out: one noun per region, "" where nothing is clear. Every noun of a language is
embedded once. Some nouns are close to every photo; what counts is how much closer a region is than other
photos are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .judge_folder import LoadedJudge

# How far a noun must stand out, in standard deviations of its cosines with other photos.
CLEAR = 2.5
# Cosine that a noun must have anyway.
LEAST = 0.15


class RegionNames:
    """Names regions by the nouns of a judge.

    Args:
        loaded: Judge with nouns and background photos.
        embed: Function from m texts to their embeddings (m, d), rows of unit length.
    """

    def __init__(self, loaded: LoadedJudge, embed: Callable[[Sequence[str]], np.ndarray]):
        self.loaded, self.embed = loaded, embed
        self._known: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def names(self, regions: np.ndarray, language: str) -> list[str]:
        """Nouns for regions (m, d), rows of unit length; "" in a language without nouns."""
        nouns = self.loaded.nouns.get(language, ())
        if not nouns or not len(regions):
            return [""] * len(regions)
        if language not in self._known:
            rows = np.asarray(self.embed(list(nouns)), np.float32)
            others = rows @ self.loaded.judge.background.cpu().numpy().T
            self._known[language] = rows, others.mean(axis=1), np.maximum(others.std(axis=1), 0.02)
        rows, mean, deviation = self._known[language]
        cosines = np.asarray(regions, np.float32) @ rows.T
        clear = (cosines - mean) / deviation
        # the clearest noun among those that are nearly as close as the closest
        near = cosines >= cosines.max(axis=1, keepdims=True) - 0.05
        best = np.where(near, clear, -np.inf).argmax(axis=1)
        rows_of = np.arange(len(cosines))
        named = (clear[rows_of, best] >= CLEAR) & (cosines[rows_of, best] >= LEAST)
        return [
            nouns[place] if sure else "" for place, sure in zip(best.tolist(), named.tolist(), strict=True)
        ]
