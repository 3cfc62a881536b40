"""Regions → nouns of a language for what they show, where the judge and the backbone's space can name it.

In: embeddings of photos and of their regions. Out: one noun per region, "" where nothing is clear. Every
noun of a language is embedded once. Two things speak for a noun: that the judge learned to name such regions
so (`Judge.naming_logits`), and that the region is closer to it than other photos are, since some nouns are
close to every photo.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .judge_folder import LoadedJudge

# Of each of the two only so much counts: a logit, and standard deviations among other photos.
MOST_LOGIT, MOST_CLEAR = 4.0, 6.0
# Weight of the second beside the first.
CLEAR_WEIGHT = 0.5
# Logit, and sum of the two, that a name must have.
LEAST_LOGIT, LEAST = 1.0, 3.5
# Photos at once.
_PHOTOS = 32
# Languages that write nouns with a capital; the judge reads them without.
_CAPITALS = frozenset({"de", "lb"})


class RegionNames:
    """Names regions by the nouns of a judge.

    Args:
        loaded: Judge with nouns and background photos.
        embed: Function from m texts to their embeddings (m, d), rows of unit length.
    """

    def __init__(self, loaded: LoadedJudge, embed: Callable[[Sequence[str]], np.ndarray]):
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
        for start in range(0, len(photos), _PHOTOS):
            named += self._named(photos[start : start + _PHOTOS], language)
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
        sums = np.minimum(logits, MOST_LOGIT) + CLEAR_WEIGHT * np.minimum(clear, MOST_CLEAR)
        sums[logits < LEAST_LOGIT] = -np.inf
        best, highest = sums.argmax(axis=2), sums.max(axis=2)
        written = [noun[:1].upper() + noun[1:] for noun in nouns] if language in _CAPITALS else nouns
        return [
            [
                written[best[place, region]] if highest[place, region] >= LEAST else ""
                for region in range(len(regions))
            ]
            for place, (_, regions) in enumerate(photos)
        ]
