"""CLIP+CIDEr (Qiu et al. 2023): the average of CIDEr and RefCLIPScore."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..backbones.base import PUBLISHED_PREFIX
from ..errors import InputError, Setting
from .cider import PHOTO_IDS, Consensus, DocumentFrequencies
from .clip_score import clip_score
from .ref_clip_score import ref_clip_score
from .rows import PreparedRows
from .scores import Scores
from .with_backbone import BackboneScorer
from .with_references import splitting_settings

if TYPE_CHECKING:
    from ..embedding.embedder import Embedder


class CLIPCIDEr(BackboneScorer):
    """CLIP+CIDEr (Qiu et al. 2023): the plain average of CIDEr and RefCLIPScore (or CLIPScore).

    Components: "clip_term" (RefCLIPScore or CLIPScore) and "cider".

    The text of its paper averages CIDEr with RefCLIPScore; the caption of its table says CLIPScore. CIDEr
    goes up to 10 and RefCLIPScore to 1.43, so CIDEr dominates unless it is near 0.

    Args:
        document_frequencies: Document frequencies, or the file that holds them; None counts them in the
            references of the scored rows.
        clip: Score that is averaged with CIDEr: "ref_clip_score" (as published), or "clip_score", which
            compares captions with images only.
    """

    metric = "clip_cider"
    title = "CLIP+CIDEr"
    citation = ("hessel-etal-2021-clipscore", "vedantam-etal-2015-cider")
    score_range = (0, None)
    default_backbone = "ViT-B-32-quickgelu/openai"
    published_prefix = PUBLISHED_PREFIX
    component_names = ("clip_term", "cider")
    needs_references = True
    splits_texts = True
    waits = True
    extra_columns = (PHOTO_IDS,)

    def __init__(
        self,
        embedder: Embedder,
        *,
        document_frequencies: str | Path | DocumentFrequencies | None = None,
        clip: Literal["ref_clip_score", "clip_score"] = "ref_clip_score",
        **common: Any,
    ):
        super().__init__(embedder, **common)
        if clip not in ("ref_clip_score", "clip_score"):
            raise InputError(Setting("clip", clip), ": expected 'ref_clip_score' or 'clip_score'")
        self.clip = clip
        self.consensus = Consensus(document_frequencies)

    @property
    def compares_texts(self) -> bool:
        return self.clip == "ref_clip_score"

    def constants(self) -> dict[str, object]:
        return {"clip": self.clip, "w": self.backbone.w}

    @property
    def compares_rows(self) -> bool:
        return self.consensus.given is None

    def language_problem(self, code: str) -> str:
        return self.consensus.language_problem(code)

    def language_settings(self, code: str) -> dict[str, str]:
        return splitting_settings(code)

    def combine(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        image, cider, w = values["image_cosine"], values["cider"], self.backbone.w
        if self.compares_texts:
            term = ref_clip_score(image, values["text_cosine"], w)
        else:
            term = clip_score(image, w)
        return (term + cider) / 2, {"clip_term": term, "cider": cider}

    def finish(self, rows: PreparedRows) -> Scores:
        scores, settings = self.consensus.finish(rows)
        return self.finish_with(rows, {"cider": scores}, settings)
