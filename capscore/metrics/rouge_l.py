"""ROUGE-L (Lin 2004): the longest sequence of words that a candidate shares with a reference.

In: captions, each with a list of references. Out: one score per row in [0, 1], and their mean.
"""

from __future__ import annotations

import numpy as np

from .reference_scorer import Compared, ReferenceScorer, Texts


class ROUGEL(ReferenceScorer):
    """ROUGE-L with β = 1.2, as image captioning has used it since the COCO evaluation server."""

    metric = "rouge_l"
    title = "ROUGE-L"
    citation = ("lin-2004-rouge",)
    score_range = (0, 1)

    @property
    def compares_rows(self) -> bool:
        return False

    def compare(self, texts: Texts) -> Compared:
        from .formulas.rouge_l import BETA, rouge_l

        scores = rouge_l(texts.whole_tokens, beta=BETA) if texts.candidates else np.zeros(0)
        return Compared(scores, {"segmenter": texts.segmenters, "beta": BETA})
