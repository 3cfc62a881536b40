"""Rows of contrastive and of Pearson batches → their losses (Gomes et al. 2025, §3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import xxhash
from torch import Tensor, nn

from capscore.backbones.base import Backbone
from capscore.backbones.embedded.backbone import EmbeddedBackbone
from training.data.pictures import Pictures
from training.data.rated_batches import PearsonRow, ShownRow
from training.engine.pearson_loss import pearson_loss
from training.engine.pr_mcs_losses import contrastive_loss
from training.engine.processes import Gather, most_of_all
from training.engine.sharded_layers import has_sharded_layers

# Texts that go through the tower at once.
_TEXTS_AT_ONCE = 64


class RatingsLoss:
    """L_C of contrastive rows or L_P of Pearson rows, as `training.engine.loop.run` calls it for one kind.

    Both losses see the rows of all processes. L_P correlates ratings with the plain cosine: MCS scales it by
    a factor, which r does not notice, and cuts it off at 0, where it would have no gradient.

    Args:
        pictures: What the rows show.
        texts: Text side of the backbone.
        logit_scale: Factor of the cosines in L_C.
        contrastive_weight, pearson_weight: Weights of the two.
    """

    def __init__(
        self,
        pictures: Pictures,
        texts: TextSide,
        *,
        logit_scale: float,
        contrastive_weight: float = 1.0,
        pearson_weight: float = 1.0,
    ):
        self.pictures, self.texts, self.logit_scale = pictures, texts, logit_scale
        self.contrastive_weight, self.pearson_weight = contrastive_weight, pearson_weight

    def __call__(
        self, model: nn.Module, rows: Sequence[ShownRow] | Sequence[PearsonRow], gather: Gather
    ) -> dict[str, Tensor]:
        """The weighted loss of these rows and the loss itself, "contrastive" or "pearson"."""
        pictures, captions = [row.picture for row in rows], [row.caption for row in rows]
        shown = parts = 0
        if has_sharded_layers(model):  # the processes compute them equally often
            shown, parts = most_of_all([self.pictures.n_calls(pictures), self.texts.n_calls(captions)])
        own_images = self.pictures.embed(pictures, calls=shown)
        own_texts = self.texts(captions, calls=parts)
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


class TextSide:
    """Texts → embeddings, with gradients, each distinct one once, in parts of similar length.

    The text encoder of an eye is never trained, only the adapter behind it: its rows are kept.

    Args:
        backbone: Backbone that is trained.
    """

    def __init__(self, backbone: Backbone):
        self.backbone = backbone
        self._kept: dict[str, Tensor] | None = {} if isinstance(backbone, EmbeddedBackbone) else None

    def n_calls(self, texts: Sequence[str]) -> int:
        """How often the tower computes for these texts."""
        return 0 if self._kept is not None else -(-len(set(texts)) // _TEXTS_AT_ONCE)

    def __call__(self, texts: Sequence[str], *, calls: int = 0) -> Tensor:
        """Embeddings (n, d) of texts as the backbone is now.

        Args:
            texts: Texts, at least one.
            calls: Least number of times that the tower computes; what goes beyond `n_calls` is dropped.
        """
        distinct = list(dict.fromkeys(texts))
        if self._kept is None:
            rows = self._encoded(distinct, self.backbone.embed_tokens, calls)
        else:
            new = [text for text in distinct if text not in self._kept]
            if new:
                with torch.no_grad():
                    self._kept |= zip(new, self._encoded(new, self.backbone.encoder_rows), strict=True)
            rows = self.backbone.placed(torch.stack([self._kept[text] for text in distinct]))
        place = {text: number for number, text in enumerate(distinct)}
        return rows[torch.tensor([place[text] for text in texts], device=rows.device)]

    def _encoded(
        self, distinct: Sequence[str], embed: Callable[[list[list[int]]], Tensor], calls: int = 0
    ) -> Tensor:
        ids = self.backbone.tokenize([self.backbone.prefix + text for text in distinct]).ids
        order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
        parts = [
            embed([ids[number] for number in order[start : start + _TEXTS_AT_ONCE]])
            for start in range(0, len(order), _TEXTS_AT_ONCE)
        ]
        parts += [embed(ids[:1])[:0] for _ in range(calls - len(parts))]
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order, dtype=torch.long)] = torch.arange(len(order))
        return torch.cat(parts)[back]


def _number(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")) >> 1
