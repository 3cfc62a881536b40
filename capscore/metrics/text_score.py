"""The text term of RefCLIPScore (Hessel et al. 2021): the best reference's cosine with a caption."""

from __future__ import annotations

import numpy as np

from .with_backbone import BackboneScorer


class TextScore(BackboneScorer):
    """The text term of RefCLIPScore alone: the candidate's highest cosine with one of its references.

    RefCLIPScore clips it at 0 for its harmonic mean; here it may be negative.
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
