"""CLIPScore (Hessel et al. 2021): w · max(cos(candidate, image), 0).

In: captions and images. Out: one score per row in [0, w], and their mean. As published, w = 2.5; a backbone
with cosines on another scale has a w of its own, which the signature names.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..backbones.base import PUBLISHED_W
from .backbone_scorer import BackboneScorer

W = PUBLISHED_W


def clip_score(image_cosines: np.ndarray, w: float = W) -> np.ndarray:
    """The formula on arrays: cosines in [−1, 1] → scores in [0, w].

    >>> clip_score(np.array([0.4, 0.0, -0.2])).tolist()
    [1.0, 0.0, 0.0]
    """
    return w * np.maximum(np.asarray(image_cosines, dtype=np.float64), 0.0)


class CLIPScore(BackboneScorer):
    """CLIPScore. Its default backbone is OpenAI's ViT-B/32, as published, with its English prefix."""

    metric = "clip_score"
    title = "CLIPScore"
    citation: ClassVar[tuple[str, ...]] = ("hessel-etal-2021-clipscore",)
    score_range = (0, None)
    default_backbone = "ViT-B-32-quickgelu/openai"

    def constants(self) -> dict[str, object]:
        return {"w": self.backbone.w}

    def combine(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        return clip_score(values["image_cosine"], self.backbone.w), {}
