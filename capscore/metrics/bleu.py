"""BLEU (Papineni et al. 2002): the share of a candidate's 1- to 4-grams that its references have too.

In: captions, each with a list of references. Out: BLEU-4 per row in [0, 1], and of all rows together.
"""

from __future__ import annotations

import math

import numpy as np

from .reference_scorer import Compared, ReferenceScorer, Texts

ORDERS = (1, 2, 3, 4)


class BLEU(ReferenceScorer):
    """BLEU-4 of each row. Components: "bleu_1" to "bleu_4".

    Papers report the BLEU of a corpus, which is not the mean over rows. `Scores.corpus` and the summary hold
    it as "corpus_bleu_1" to "corpus_bleu_4".
    """

    metric = "bleu"
    title = "BLEU"
    citation = ("papineni-etal-2002-bleu",)
    score_range = (0, 1)
    component_names = tuple(f"bleu_{order}" for order in ORDERS)
    corpus_names = tuple(f"corpus_bleu_{order}" for order in ORDERS)

    def compare(self, texts: Texts) -> Compared:
        from .formulas.bleu import bleu, corpus_bleu

        if texts.candidates:
            rows, corpus = bleu(texts.tokens), corpus_bleu(texts.tokens).tolist()
        else:
            rows, corpus = np.zeros((0, 4)), [math.nan] * 4
        return Compared(
            scores=rows[:, 3],
            components=dict(zip(self.component_names, rows.T, strict=True)),
            settings={"segmenter": texts.segmenters},
            corpus=dict(zip(self.corpus_names, corpus, strict=True)),
        )
