"""Captions beside their photos, and the same captions changed → what the change does to MCS.

In: captions and the photos, or texts that stand for them. Out, as figures: what style (case, final stop,
blanks, openers of `openers.json`) does to the mean, and to which of two captions of a photo wins; how often a
caption scores higher than itself with one wrong word; how often sentences of another photo lower the score of
a paragraph.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from capscore.benchmarks.protocols.recall import COSINE_TIE
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.embedder import EmbeddedRows, Embedder
from capscore.errors import InputError
from capscore.metrics.mcs import MCS
from capscore.metrics.rows import format_signature
from capscore.metrics.with_backbone import row_cosines
from weights.making.jsonl import beside

from .figures import Figure, noting, ratio
from .planting import plant

OPENERS: Mapping[str, list[str]] = beside(__file__, "openers.json")
STYLES: Mapping[str, Callable[[str], str]] = {
    "final stop": lambda text: f"{text}.",
    "capital": lambda text: text[:1].upper() + text[1:],
    "capital and stop": lambda text: f"{text[:1].upper()}{text[1:]}.",
    "ALL CAPS": str.upper,
    "Title Case": string.capwords,
    "doubled blanks": lambda text: text.replace(" ", "  "),
}
KINDS = {"same_kind": "noun of the same kind", "colour": "colour", "number": "number"}
ADDED = (1, 3)


def plain(caption: str, language: str) -> str:
    """A caption as captioners write it: single blanks, no final stop, no capital but of a German noun.

    >>> plain("A dog  runs .", "en"), plain("Hunde rennen.", "de")
    ('a dog runs', 'Hunde rennen')
    """
    text = " ".join(caption.split()).rstrip(" .。")
    return text if language == "de" else text[:1].lower() + text[1:]


def paragraph(captions: Sequence[str]) -> str:
    """Captions as the sentences of one text.

    >>> paragraph(["A dog runs .", "Grass is wet"])
    'A dog runs. Grass is wet.'
    """
    return " ".join(f"{caption.rstrip(' .')}." for caption in captions)


class ChangedCaptions:
    """What changes of captions do to a backbone's MCS; what is measured goes into `figures`."""

    def __init__(self, embedder: Embedder, options: TaskOptions, figures: list[Figure]) -> None:
        self.scorer, self.options, self.figures = MCS(embedder), options, figures
        self.signature = format_signature("mcs", self.scorer.settings)

    def style(self, language: str, title: str, rows: Sequence[tuple[Path | str, str]]) -> None:
        """Change of the mean, and of the order of two captions of a photo of which one is changed.

        In English each style and each opener has its figures; in other languages the openers together have. A
        winner that ties with the other caption afterwards has changed too.
        """
        sides, texts = self._sides([side for side, _ in rows]), [plain(text, language) for _, text in rows]
        before, one = self._scores(texts, sides), sides.index
        left, right = np.nonzero((one[:, None] == one) & ~np.eye(len(one), dtype=bool))
        gaps = before[left] - before[right]
        won = np.abs(gaps) > COSINE_TIE
        opened = {opener: [opener + text for text in texts] for opener in OPENERS[language]}
        changes = {"openers": list(opened.values())}
        if language == "en":
            changes = {name: [list(map(change, texts))] for name, change in STYLES.items()}
            changes |= {f"“{opener}…”": [version] for opener, version in opened.items()}
        for name, versions in changes.items():
            after = [self._scores(version, sides) for version in versions]
            key, said = f"style/{title}/{name}", f"{title}: {name}"
            self._add(f"{key}/change", f"{said}, change", one, sum(after) / len(after) - before)
            flips = [won & (gaps * (scores[left] - before[right]) <= 0) for scores in after]
            if won.any():
                share = np.mean(flips, axis=0)[won]
                self._add(f"{key}/flipped", f"{said}, winners changed", one[left[won]], share)

    def near_right(
        self, language: str, title: str, captions: Mapping[Path, Mapping[str, Sequence[str]]]
    ) -> None:
        """One noun, colour or number is wrong; `captions`: photo → language → captions."""
        for kind, said in KINDS.items():
            key = f"near_right/{language}/{kind}"
            with noting(self.figures, key, f"{title}: {said}"):
                drawn = {
                    photo: plant(texts, language, kind, random.Random(f"{kind} {photo.name}"))
                    for photo, texts in captions.items()
                }
                planted = {photo: found for photo, found in drawn.items() if found}
                sides = self._sides(list(planted))
                right = self._scores([found.original for found in planted.values()], sides)
                wrong = self._scores([found.caption for found in planted.values()], sides)
                self._add(key, f"{title}: {said}", sides.index, right > wrong + COSINE_TIE)

    def paragraphs(self, title: str, sentences: Mapping[Path, Sequence[str]]) -> None:
        """Sentences about a photo as one text, before and after sentences about another photo are added."""
        texts = list(sentences.values())
        others = [*texts[len(texts) // 2 :], *texts[: len(texts) // 2]]
        sides = self._sides(list(sentences))
        right = self._scores([paragraph(text) for text in texts], sides)
        for n in ADDED:
            longer = [paragraph([*text, *other[:n]]) for text, other in zip(texts, others, strict=True)]
            lower = self._scores(longer, sides) < right - COSINE_TIE
            self._add(f"paragraphs/{title}/{n}", f"{title}: {n} added", sides.index, lower)

    def _sides(self, sides: Sequence[Path | str]) -> EmbeddedRows:
        if not sides:
            raise InputError("there is no photo with such captions")
        if isinstance(sides[0], Path):
            return self.scorer.embedder.images(sides)
        return self.scorer.texts([str(side) for side in sides])[0]

    def _scores(self, texts: Sequence[str], sides: EmbeddedRows) -> np.ndarray:
        rows, _ = self.scorer.texts(texts)
        cosines = row_cosines(rows.matrix, rows.index, sides.matrix, sides.index)
        return self.scorer.combine({"image_cosine": cosines})[0]

    def _add(self, key: str, title: str, photos: np.ndarray, values: np.ndarray) -> None:
        """The mean of n values; `photos` (n,) are the numbers of their photos, which intervals draw."""
        sums, counts = np.bincount(photos, values), np.bincount(photos)
        known = counts > 0
        share = ratio([sums[known], counts[known]], self.options)
        self.figures.append(Figure(key, title, *share, len(values), self.signature))
