"""RefCLIPScore (Hessel et al. 2021): harmonic mean of CLIPScore and the best reference's cosine."""

from __future__ import annotations

import numpy as np

from ..backbones.base import PUBLISHED_PREFIX, PUBLISHED_W
from .clip_score import clip_score
from .with_backbone import BackboneScorer


def ref_clip_score(image_cosines: np.ndarray, text_cosines: np.ndarray, w: float = PUBLISHED_W) -> np.ndarray:
    """Harmonic mean of w · max(cos, 0) and max(best reference's cosine, 0), on arrays.

    The text term is not multiplied by w. A row scores 0 if either term is 0, the limit of the formula (the
    authors' code divides 0 by 0). Range [0, 2w / (w + 1)]: 1.4286 for w = 2.5.

    >>> ref_clip_score(np.array([0.4, 0.4, -0.1]), np.array([1.0, -0.2, 0.9])).tolist()
    [1.0, 0.0, 0.0]
    """
    image_term = clip_score(image_cosines, w)
    text_term = np.maximum(np.asarray(text_cosines, dtype=np.float64), 0.0)
    total = image_term + text_term
    # if one term is 0, so is the product; only 0 / 0 needs another divisor
    return 2.0 * image_term * text_term / np.where(total > 0.0, total, 1.0)


class RefCLIPScore(BackboneScorer):
    """RefCLIPScore. Components: "clip_score", w · max(cos, 0); "text_score", best reference, at least 0."""

    metric = "ref_clip_score"
    title = "RefCLIPScore"
    citation = ("hessel-etal-2021-clipscore",)
    score_range = (0, None)
    default_backbone = "ViT-B-32-quickgelu/openai"
    published_prefix = PUBLISHED_PREFIX
    component_names = ("clip_score", "text_score")
    needs_references = True

    def constants(self) -> dict[str, object]:
        return {"w": self.backbone.w}

    @property
    def limits(self) -> tuple[float | None, float | None]:
        return 0.0, 2 * self.backbone.w / (self.backbone.w + 1)

    def combine(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        image, text, w = values["image_cosine"], values["text_cosine"], self.backbone.w
        return ref_clip_score(image, text, w), {
            "clip_score": clip_score(image, w),
            "text_score": np.maximum(text, 0.0),
        }
