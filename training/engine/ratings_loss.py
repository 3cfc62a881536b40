"""Scores and people's ratings → the losses of training on ratings (Gomes et al. 2025, §3).

L_P = 1 − r, Pearson's correlation as a loss, a pure function; L_C, the contrast, is that of PR-MCS.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.data.pictures import TrainedPictures
from training.data.rated_batches import PearsonRow, ShownRow
from training.engine.pr_mcs_losses import contrastive_loss
from training.engine.processes import Gather
from training.engine.texts import TextSide, text_numbers

# Scores whose deviations from their mean are together shorter than this count as equal, with r = 0.
_SHORTEST = 1e-8


def pearson_loss(scores: torch.Tensor, ratings: torch.Tensor) -> torch.Tensor:
    """1 − r, in [0, 2], differentiable in the scores.

    r does not depend on the scale of either side: cosines need no factor, and ratings on any scale serve.
    Equal scores have r = 0, not NaN; their gradient, towards the ratings, is large but finite.

    Args:
        scores: (n,), at least two, of any float type.
        ratings: (n,), finite and not all equal: nothing correlates with a constant.

    >>> ratings = torch.tensor([1.0, 2.0, 3.0])
    >>> round(pearson_loss(torch.tensor([0.1, 0.2, 0.3]), ratings).item(), 4)
    0.0
    >>> round(pearson_loss(torch.tensor([0.2, 0.1, 0.3]), ratings).item(), 4)
    0.5
    >>> pearson_loss(torch.tensor([0.2, 0.2, 0.2]), ratings).item()
    1.0
    """
    deviations = [
        F.normalize(side - side.mean(), dim=0, eps=_SHORTEST)
        for side in (scores if scores.dtype == torch.float64 else scores.float(), ratings.to(torch.float64))
    ]
    return 1 - (deviations[0] * deviations[1].to(deviations[0])).sum()


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
        pictures: TrainedPictures,
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
        own_images, own_texts = self.pictures.embed(pictures), self.texts(captions)
        at = own_texts.device
        with torch.autocast(at.type, enabled=False):
            images, texts = gather(own_images.float()), gather(own_texts.float())
            rated = [row.rating for row in rows if isinstance(row, PearsonRow)]
            if rated:
                ratings = gather(torch.tensor(rated, dtype=torch.float64, device=at))
                loss = pearson_loss((images * texts).sum(dim=1), ratings)
                return {"loss": self.pearson_weight * loss, "pearson": loss}
            # captions that two images share are not each other's negatives
            groups = gather(text_numbers(captions, at))
            loss = contrastive_loss(images, texts, logit_scale=self.logit_scale, caption_groups=groups)
            return {"loss": self.contrastive_weight * loss, "contrastive": loss}
