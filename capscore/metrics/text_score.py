"""Text score: cosine of the candidate and its best reference in the backbone's text space; no images.

In: captions, each with a list of references. Out: one score per row in [−1, 1], and their mean.
"""

from __future__ import annotations

import numpy as np

from .backbone_scorer import BackboneScorer


class TextScore(BackboneScorer):
    """The text term of RefCLIPScore alone: the candidate's highest cosine with one of its references.

    RefCLIPScore cuts it off at 0 for its harmonic mean; here it may be negative.
    """

    metric = "text_score"
    title = "Text score"
    citation = ("hessel-etal-2021-clipscore",)
    score_range = (-1, 1)
    default_backbone = "xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k"
    needs_images = False
    needs_references = True

    def constants(self) -> dict[str, object]:
        return {}

    def combine(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        return values["text_cosine"], {}
