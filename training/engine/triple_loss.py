"""Triples → the loss of PR-MCS: texts are embedded, and compared with their images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import xxhash
from torch import Tensor, nn

from capscore.backbones.base import Backbone
from capscore.embedding.embedder import EmbeddedRows
from training.data.captions import Captions
from training.data.triples import Triple
from training.engine.pr_mcs_losses import LossWeights, pr_mcs_loss
from training.engine.processes import Gather

# Texts that go through the tower at once.
_TEXTS_AT_ONCE = 64


class TripleLoss:
    """The loss of PR-MCS on rows of `TripleBatches`, as `training.engine.loop.run` calls it.

    Each distinct text of the rows goes through the tower once.

    Args:
        backbone: Backbone whose text tower is trained.
        captions: The data, with the images' embeddings.
        weights: Weights of the terms.
        logit_scale: Factor of the cosines in the contrastive loss.
        shared_negatives: Whether rows that share an image or a text are each other's negatives, as published.
        before: Embeddings of `captions` in the base, needed if `weights.keep_close` is above 0.
    """

    def __init__(
        self,
        backbone: Backbone,
        captions: Captions,
        weights: LossWeights,
        *,
        logit_scale: float,
        shared_negatives: bool = True,
        before: EmbeddedRows | None = None,
    ):
        self.backbone, self.captions, self.weights = backbone, captions, weights
        self.logit_scale, self.shared_negatives, self.before = logit_scale, shared_negatives, before

    def __call__(self, model: nn.Module, rows: Sequence[Triple], gather: Gather) -> dict[str, Tensor]:
        """Loss and terms over the rows of all processes."""
        n, places = len(rows), len(rows[0].perturbed)
        noisy = [text for row in rows for text in row.perturbed]
        texts: dict[str, int] = {}
        for text in (*(row.caption for row in rows), *(text for text in noisy if text is not None)):
            texts.setdefault(text, len(texts))
        embedded = self._embedded(list(texts))
        at = embedded.device
        # an empty place holds row 0, which `changed` excludes
        indices = torch.tensor([texts.get(text, 0) for text in noisy], device=at)
        own = torch.tensor([texts[row.caption] for row in rows], device=at)
        changed = gather(torch.tensor([text is not None for text in noisy], device=at).reshape(n, places))
        with torch.autocast(at.type, enabled=False):
            terms = pr_mcs_loss(
                gather(self._rows(self.captions.embeddings, [row.image for row in rows], at)),
                gather(embedded[own]),
                gather(embedded[indices].reshape(n, places, -1)),
                weights=self.weights,
                logit_scale=self.logit_scale,
                changed=changed,
                image_groups=None
                if self.shared_negatives
                else gather(torch.tensor([row.image for row in rows], device=at)),
                caption_groups=None
                if self.shared_negatives
                else gather(torch.tensor([_text_number(row.caption) for row in rows], device=at)),
                before=None
                if self.before is None
                else gather(
                    self._rows(self.before.matrix, self.before.index[[row.row for row in rows]].tolist(), at)
                ),
            )
        return terms

    def _embedded(self, texts: Sequence[str]) -> Tensor:
        """Texts → their rows; in parts of similar length, to pad little."""
        prefix = self.backbone.prefix
        ids = self.backbone.tokenize([prefix + text for text in texts]).ids
        order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
        parts = [
            self.backbone.embed_tokens([ids[number] for number in order[start : start + _TEXTS_AT_ONCE]])
            for start in range(0, len(order), _TEXTS_AT_ONCE)
        ]
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order)] = torch.arange(len(order))
        return torch.cat(parts)[back]

    @staticmethod
    def _rows(matrix: np.ndarray, places: Sequence[int], at: torch.device) -> Tensor:
        return torch.from_numpy(np.array(matrix[list(places)], dtype=np.float32)).to(at)


def _text_number(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")) >> 1
