"""METEOR (Denkowski and Lavie 2014) and SPICE (Anderson et al. 2016), by their authors' Java programs.

In: English captions and a list of references a row. Out: one score a row in [0, 1], and their mean.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from .formulas import java_programs as java_metrics
from .reference_scorer import Compared, ReferenceScorer, Texts


class JavaScorer(ReferenceScorer):
    """English only. Whether Java and the program are here is known when the scorer is made.

    As in coco-caption, the program is given the words that the other metrics count: in small letters,
    without punctuation.

    Raises:
        MissingExtraError: the package that carries the program is not installed.
        CapscoreError: there is no Java, or none that will do, or models are missing.
    """

    program: ClassVar[str]

    def __init__(self) -> None:
        self._run([], [])

    def language_problem(self, code: str) -> str:
        if code not in ("", "en"):
            return f"{self.metric} scores English captions only, and these are said to be in {code!r}"
        return super().language_problem(code)

    def _compare(self, texts: Texts) -> Compared:
        settings = {"program": self.program, "segmenter": texts.segmenters}
        if not texts.candidates:
            return Compared(np.zeros(0), settings)
        rows = texts.tokens
        words = [" ".join(tokens) for tokens in rows.tokens]
        references = [words[text] for text in rows.references]
        lists = [
            references[start:end] for start, end in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)
        ]
        return Compared(self._run([words[text] for text in rows.candidates], lists), settings)

    @abstractmethod
    def _run(self, candidates: list[str], references: list[list[str]]) -> np.ndarray:
        """Words joined by blanks → scores, (n,)."""


class METEOR(JavaScorer):
    """METEOR 1.5: words match as they are, by stem, by synonym or by paraphrase.

    The METEOR of a corpus, as captioning tables print it, is not the mean of its rows.
    """

    metric = "meteor"
    program = "1.5"

    def _run(self, candidates: list[str], references: list[list[str]]) -> np.ndarray:
        return java_metrics.meteor(candidates, references)


class SPICE(JavaScorer):
    """SPICE 1.0: objects, attributes and relations that candidate and references have in common."""

    metric = "spice"
    program = "1.0"

    def _run(self, candidates: list[str], references: list[list[str]]) -> np.ndarray:
        return java_metrics.spice(candidates, references)
