"""Text score: the best reference's cosine with the candidate in the backbone's text space; no image.

In: captions and a list of references a row. Out: one score a row in [−1, 1], and their mean.
"""

from __future__ import annotations

import numpy as np

from .backbone_scorer import BackboneScorer


class TextScore(BackboneScorer):
    """The text term of RefCLIPScore by itself, max over references of cos(T(candidate), T(reference)).

    RefCLIPScore cuts it off at 0, for a harmonic mean; here captions below 0 keep their order.
    """

    metric = "text_score"
    needs_images = False
    needs_references = True

    def constants(self) -> dict[str, object]:
        return {}

    def combine(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        return values["text_cosine"], {}
