"""CLIP+CIDEr (Qiu et al. 2023; 004 Table 2): the plain average of RefCLIPScore, or CLIPScore, and CIDEr.

In: captions, images, and a list of references a row. Out: one score a row, and their mean.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .backbone_scorer import BackboneScorer
from .base import PreparedRows, Scores
from .cider import Consensus
from .clip_score import W, clip_score
from .options import OPTIONS
from .ref_clip_score import ref_clip_score
from .reference_scorer import Texts

if TYPE_CHECKING:
    from ..embedding.embedder import Embedder
    from .formulas.cider import DocumentFrequencies


class CLIPCIDEr(BackboneScorer):
    """CLIP+CIDEr. Components: "clip_term" (RefCLIPScore or CLIPScore) and "cider".

    004 averages CIDEr with RefCLIPScore, as its prose says; the caption of its table says CLIPScore. CIDEr
    reaches to 10, RefCLIPScore to 1.43: where CIDEr is not near 0, it decides.

    Args:
        embedder: what turns rows into embeddings; holds the backbone.
        prefix: text before candidates and references; None takes the backbone's own. CIDEr sees none.
        document_frequencies: as of `CIDEr`.
        clip: "ref_clip_score" (as published) or "clip_score", whose caption is compared with the image only.
    """

    metric = "clip_cider"
    component_names = ("clip_term", "cider")
    needs_references = True
    splits_texts = True
    waits = True

    def __init__(
        self,
        embedder: Embedder,
        *,
        prefix: str | None = None,
        document_frequencies: str | Path | DocumentFrequencies | None = None,
        clip: str = "ref_clip_score",
    ):
        super().__init__(embedder, prefix=prefix)
        self.clip = OPTIONS["clip"].check(clip)
        self.consensus = Consensus(document_frequencies)

    @property
    def compares_texts(self) -> bool:
        return self.clip == "ref_clip_score"

    def constants(self) -> dict[str, object]:
        return {"clip": self.clip, "w": W}

    def language_problem(self, code: str) -> str:
        return self.consensus.language_problem(code)

    def combine(self, values: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        image, cider = values["image_cosine"], values["cider"]
        term = ref_clip_score(image, values["text_cosine"]) if self.compares_texts else clip_score(image)
        return (term + cider) / 2, {"clip_term": term, "cider": cider}

    def finish(self, rows: PreparedRows) -> Scores:
        texts = Texts.of(rows)
        return self._combined(rows, {"cider": self.consensus.score(texts)}, self.consensus.settings(texts))
