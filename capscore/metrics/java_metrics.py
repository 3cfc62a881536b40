"""METEOR (Denkowski and Lavie 2014) and SPICE (Anderson et al. 2016), computed by the authors' Java programs.

In: English captions, each with a list of references. Out: one score per row in [0, 1], and their mean.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np

from .formulas import java_programs as java_metrics
from .reference_scorer import Compared, ReferenceScorer, Texts


class JavaScorer(ReferenceScorer):
    """Scores English captions with a Java program, which is looked for when the scorer is made.

    As in coco-caption, the program gets the words that the other metrics count: in lower case, without
    punctuation.

    Raises:
        MissingExtraError: the package that contains the program is not installed.
        CapscoreError: there is no Java, or only an unsuitable one, or models are missing.
    """

    program: ClassVar[str]

    def __init__(self, *, empty: Literal["raise", "score", "skip"] = "raise", per_row: bool = True) -> None:
        super().__init__(empty=empty, per_row=per_row)
        self._run([], [])

    def language_problem(self, code: str) -> str:
        if code not in ("", "en"):
            return f"{self.metric} scores English captions only, but the given language is {code!r}"
        return super().language_problem(code)

    def compare(self, texts: Texts) -> Compared:
        settings: dict[str, object] = {"program": self.program, "segmenter": texts.segmenters}
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
        """Words joined by spaces → scores, (n,)."""


class METEOR(JavaScorer):
    """METEOR 1.5: words match exactly, by stem, by synonym or by paraphrase.

    The METEOR of a corpus, which captioning tables print, is not the mean over its rows.
    """

    metric = "meteor"
    title = "METEOR"
    citation = ("denkowski-lavie-2014-meteor",)
    score_range = (0, 1)
    program = "1.5"

    def _run(self, candidates: list[str], references: list[list[str]]) -> np.ndarray:
        return java_metrics.meteor(candidates, references)


class SPICE(JavaScorer):
    """SPICE 1.0: objects, attributes and relations that candidate and references have in common."""

    metric = "spice"
    title = "SPICE"
    citation = ("anderson-etal-2016-spice",)
    score_range = (0, 1)
    program = "1.0"

    def _run(self, candidates: list[str], references: list[list[str]]) -> np.ndarray:
        return java_metrics.spice(candidates, references)
