"""CLIPScore (Hessel et al. 2021): a caption's cosine with its image, times w."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ..backbones.base import PUBLISHED_PREFIX, PUBLISHED_W
from ..errors import InputError, Setting
from .with_backbone import BackboneScorer

if TYPE_CHECKING:
    from ..embedding.embedder import Embedder


def clip_score(image_cosines: np.ndarray, w: float = PUBLISHED_W) -> np.ndarray:
    """w · max(cos, 0) on arrays: cosines in [−1, 1] → scores in [0, w].

    >>> clip_score(np.array([0.4, 0.0, -0.2])).tolist()
    [1.0, 0.0, 0.0]
    """
    return w * np.maximum(np.asarray(image_cosines, dtype=np.float64), 0.0)


class CLIPScore(BackboneScorer):
    """CLIPScore: w · max(cos(candidate, image), 0), in [0, w].

    Its default backbone is OpenAI's ViT-B/32, as published, with its English prefix. As published, w = 2.5;
    a backbone with cosines on another scale has its own w, which the signature names.

    Args:
        pairs: Kind of pairs other than a caption and its photo: "images", where the candidate is a photo too,
            or "texts", the candidate and its best reference. The formula and w are the same.
    """

    metric = "clip_score"
    title = "CLIPScore"
    citation: ClassVar[tuple[str, ...]] = ("hessel-etal-2021-clipscore",)
    score_range = (0, None)
    default_backbone = "ViT-B-32-quickgelu/openai"
    published_prefix = PUBLISHED_PREFIX

    def __init__(self, embedder: Embedder, *, pairs: Literal["images", "texts"] | None = None, **common: Any):
        super().__init__(embedder, **common)
        self.check({"pairs": pairs})
        self.pairs = pairs
        images, references = self.needs({"pairs": pairs})
        self.set_own(needs_images=images, needs_references=references, compares_photos=pairs == "images")
        if self.compares_photos:  # no text is read
            self.prefix, self.long = "", "cut"

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options.get("pairs") not in (None, "images", "texts"):
            raise InputError(Setting("pairs", options["pairs"]), ": expected 'images' or 'texts'")

    @classmethod
    def needs(cls, options: Mapping[str, Any]) -> tuple[bool, bool]:
        return options.get("pairs") != "texts", options.get("pairs") == "texts"

    def constants(self) -> dict[str, object]:
        return {"w": self.embedder.backbone.w, **({"pairs": self.pairs} if self.pairs else {})}

    @property
    def limits(self) -> tuple[float | None, float | None]:
        return 0.0, self.embedder.backbone.w

    def combine(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        cosines = values["text_cosine" if self.pairs == "texts" else "image_cosine"]
        return clip_score(cosines, self.embedder.backbone.w), {}
