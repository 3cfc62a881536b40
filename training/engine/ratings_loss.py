"""Rows of contrastive and of Pearson batches → their losses (Gomes et al. 2025, §3)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import xxhash
from torch import Tensor, nn

from capscore.backbones.base import Backbone
from training.data.pictures import Pictures
from training.data.rated_batches import PearsonRow, ShownRow
from training.engine.pearson_loss import pearson_loss
from training.engine.pr_mcs_losses import contrastive_loss
from training.engine.processes import Gather

# Texts that go through the tower at once.
_TEXTS_AT_ONCE = 64


class RatingsLoss:
    """L_C of contrastive rows or L_P of Pearson rows, as `training.engine.loop.run` calls it for one kind.

    Both losses see the rows of all processes. L_P correlates ratings with the plain cosine: MCS scales it by a
    factor, which r does not notice, and cuts it off at 0, where it would have no gradient.

    Args:
        backbone: Backbone that is trained.
        pictures: What the rows show.
        logit_scale: Factor of the cosines in L_C.
        contrastive_weight, pearson_weight: Weights of the two.
    """

    def __init__(
        self,
        backbone: Backbone,
        pictures: Pictures,
        *,
        logit_scale: float,
        contrastive_weight: float = 1.0,
        pearson_weight: float = 1.0,
    ):
        self.backbone, self.pictures, self.logit_scale = backbone, pictures, logit_scale
        self.contrastive_weight, self.pearson_weight = contrastive_weight, pearson_weight

    def __call__(
        self, model: nn.Module, rows: Sequence[ShownRow] | Sequence[PearsonRow], gather: Gather
    ) -> dict[str, Tensor]:
        """The weighted loss of these rows and the loss itself, "contrastive" or "pearson"."""
        own_images = self.pictures.embed([row.picture for row in rows])
        own_texts = embedded_texts(self.backbone, [row.caption for row in rows])
        at = own_texts.device
        with torch.autocast(at.type, enabled=False):
            images, texts = gather(own_images.float()), gather(own_texts.float())
            if isinstance(rows[0], PearsonRow):
                ratings = gather(torch.tensor([row.rating for row in rows], dtype=torch.float64, device=at))
                loss = pearson_loss((images * texts).sum(dim=1), ratings)
                return {"loss": self.pearson_weight * loss, "pearson": loss}
            # captions that two images share are not each other's negatives
            groups = gather(torch.tensor([_number(row.caption) for row in rows], device=at))
            loss = contrastive_loss(images, texts, logit_scale=self.logit_scale, caption_groups=groups)
            return {"loss": self.contrastive_weight * loss, "contrastive": loss}


def embedded_texts(backbone: Backbone, texts: Sequence[str]) -> Tensor:
    """Embeddings (n, d) of texts, with gradients; each distinct one once, in parts of similar length."""
    distinct = list(dict.fromkeys(texts))
    ids = backbone.tokenize([backbone.prefix + text for text in distinct]).ids
    order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
    parts = [
        backbone.embed_tokens([ids[number] for number in order[start : start + _TEXTS_AT_ONCE]])
        for start in range(0, len(order), _TEXTS_AT_ONCE)
    ]
    row = {distinct[number]: place for place, number in enumerate(order)}
    rows = torch.cat(parts)
    return rows[torch.tensor([row[text] for text in texts], device=rows.device)]


def _number(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")) >> 1
