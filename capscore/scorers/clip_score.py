"""CLIPScore (Hessel et al. 2021): w · max(cos(candidate, image), 0), w = 2.5.

In: captions and images. Out: one score per row in [0, 2.5], and their mean.
"""

from __future__ import annotations

import numpy as np

from .backbone_scorer import BackboneScorer

W = 2.5


def clip_score(image_cosines: np.ndarray, w: float = W) -> np.ndarray:
    """The formula on arrays: cosines in [−1, 1] → scores in [0, w].

    >>> clip_score(np.array([0.4, 0.0, -0.2])).tolist()
    [1.0, 0.0, 0.0]
    """
    return w * np.maximum(np.asarray(image_cosines, dtype=np.float64), 0.0)


class CLIPScore(BackboneScorer):
    """CLIPScore. Its default backbone is OpenAI's ViT-B/32, as published, with its English prefix."""

    metric = "clip_score"

    def constants(self) -> dict[str, object]:
        return {"w": W}

    def combine(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        return clip_score(values["image_cosine"]), {}
