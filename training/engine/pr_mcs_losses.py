"""Embeddings of unit length → the losses of PR-MCS fine-tuning (Kim et al. 2023, §3.4).

    L = L_CLIP + λ1·L1 + λ2·L2 + λ3·L3

V(I) is the embedding of an image, T(o) of its caption, T(p) of the perturbed caption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.backbones.base import Backbone
from capscore.embedding.embedder import EmbeddedRows
from training.data.captions import Captions
from training.data.triples import Triple
from training.engine.processes import Gather
from training.engine.texts import TextSide


@dataclass(frozen=True)
class LossWeights:
    """Weights of the terms, by default as published (Kim et al. 2023, §3.4 and App. B.2).

    L2 and L3 have no gradient below the margin, a cosine; it is 0 in the first version of the paper.
    `keep_close` weighs how far captions have moved from the base, 1 − cos(T(o), T0(o)); not published.
    """

    clip: float = 1.0
    lambda_1: float = 0.1
    lambda_2: float = 0.05
    lambda_3: float = 0.05
    margin: float = 0.1
    keep_close: float = 0.0


def nce(scores: Tensor, counted: Tensor | None = None) -> Tensor:
    """Cross-entropy of matching rows and columns of a table of scores (n, n), the mean of both directions.

    The diagonal matches. `counted` (n, n) is False where a pair is no negative; None if all count. The loss
    is ln n if all scores are equal.
    """
    matching = torch.arange(len(scores), device=scores.device)
    if counted is not None:
        kept = counted | torch.eye(len(scores), dtype=torch.bool, device=scores.device)
        scores = scores.masked_fill(~kept, float("-inf"))
    return (F.cross_entropy(scores, matching) + F.cross_entropy(scores.T, matching)) / 2


def masked_mean(values: Tensor, mask: Tensor | None) -> Tensor:
    """Mean of the values where a mask of the same shape is True, 0 where it never is; None for all."""
    if mask is None:
        return values.mean()
    # where, not a product: a value that does not count may be NaN
    return torch.where(mask, values, torch.zeros_like(values)).sum() / mask.sum().clamp(min=1)


def contrastive_loss(
    images: Tensor,
    captions: Tensor,
    *,
    logit_scale: float | Tensor,
    caption_groups: Tensor | None = None,
) -> Tensor:
    """L_CLIP: cross-entropy of matching the images and captions of a batch, unit rows (n, d).

    As published, every other row is a negative. With `caption_groups` (n,), equal for equal texts, these are
    not each other's negatives.

    >>> eye = torch.eye(2)
    >>> round(contrastive_loss(eye, eye, logit_scale=1.0).item(), 4)      # ln(1 + e^-1)
    0.3133
    """
    logits = logit_scale * images @ captions.T
    if caption_groups is None:
        return nce(logits)
    return nce(logits, caption_groups[:, None] != caption_groups[None, :])


def matching_loss(images: Tensor, captions: Tensor) -> Tensor:
    """L1 = 1 − cos(V(I), T(o)), mean over rows (eq. 1).

    >>> round(matching_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.6, 0.8]])).item(), 4)
    0.4
    """
    return (1 - (images * captions).sum(dim=-1)).mean()


def noise_loss(anchors: Tensor, perturbed: Tensor, *, margin: float, changed: Tensor | None = None) -> Tensor:
    """max(m, cos(anchor, T(p))), mean over perturbed captions: L2 for images, L3 for captions (eqs. 2, 3).

    The gradient is that of a hinge: none at or below the margin. Anchors are unit rows (n, d), perturbed
    captions (n, k, d), of which those count that `changed` (n, k) has; 0 without any.

    >>> anchors, perturbed = torch.tensor([[1.0, 0.0]]), torch.tensor([[[0.6, 0.8], [0.0, 1.0]]])
    >>> round(noise_loss(anchors, perturbed, margin=0.1).item(), 4)      # (0.6 + 0.1) / 2
    0.35
    """
    cosines = (anchors[:, None] * perturbed).sum(dim=-1)
    return masked_mean(margin + F.relu(cosines - margin), changed)


def pr_mcs_loss(
    images: Tensor,
    captions: Tensor,
    perturbed: Tensor,
    *,
    weights: LossWeights,
    logit_scale: float | Tensor,
    changed: Tensor | None = None,
    before: Tensor | None = None,
) -> dict[str, Tensor]:
    """The whole objective and its terms, of unit rows (n, d), and (n, k, d) of perturbed captions.

    `before` are the captions in the base's text tower, needed for `weights.keep_close`; other arguments are
    those of the terms. Returns "loss", the weighted sum, and the terms without their weights: "clip", "l1",
    "l2", "l3", and "keep_close" where it counts.

    >>> eye = torch.eye(2)
    >>> terms = pr_mcs_loss(eye, eye, eye[:, None], weights=LossWeights(), logit_scale=1.0)
    >>> {name: round(value.item(), 4) for name, value in terms.items()}
    {'loss': 0.4133, 'clip': 0.3133, 'l1': 0.0, 'l2': 1.0, 'l3': 1.0}
    """
    terms = {
        "clip": (weights.clip, contrastive_loss(images, captions, logit_scale=logit_scale)),
        "l1": (weights.lambda_1, matching_loss(images, captions)),
        "l2": (weights.lambda_2, noise_loss(images, perturbed, margin=weights.margin, changed=changed)),
        "l3": (weights.lambda_3, noise_loss(captions, perturbed, margin=weights.margin, changed=changed)),
    }
    if weights.keep_close:
        assert before is not None, "keep_close needs the base's rows of the captions"
        terms["keep_close"] = (weights.keep_close, matching_loss(before, captions))
    # a term that does not count is not added: 0 times what is not a number is none either
    counted = [factor * term for factor, term in terms.values() if factor]
    loss = sum(counted, images.new_zeros(()))
    return {"loss": loss, **{name: term for name, (_, term) in terms.items()}}


class TripleLoss:
    """The loss of PR-MCS on rows of `TripleBatches`, as `training.engine.loop.run` calls it.

    `before` are the captions' embeddings in the base, needed if `weights.keep_close` is above 0.
    """

    def __init__(
        self,
        backbone: Backbone,
        captions: Captions,
        weights: LossWeights,
        *,
        logit_scale: float,
        before: EmbeddedRows | None = None,
    ):
        self.texts, self.captions, self.weights = TextSide(backbone, keep_rows=False), captions, weights
        self.logit_scale, self.before = logit_scale, before

    def __call__(self, model: nn.Module, rows: Sequence[Triple], gather: Gather) -> dict[str, Tensor]:
        n, texts = len(rows), [row.caption for row in rows]
        # an empty place holds a caption, which `changed` excludes
        noisy = [texts[0] if row.perturbed is None else row.perturbed for row in rows]
        embedded = self.texts(texts + noisy)
        at = embedded.device
        numbers = [row.image for row in rows]
        images = torch.from_numpy(self.captions.embeddings[numbers]).to(at, torch.float32)
        changed = torch.tensor([[row.perturbed is not None] for row in rows], device=at)
        before = None
        if self.before is not None:
            index = self.before.index[[row.row for row in rows]]
            before = gather(torch.from_numpy(self.before.matrix[index]).to(at, torch.float32))
        with torch.autocast(at.type, enabled=False):
            return pr_mcs_loss(
                gather(images),
                gather(embedded[:n]),
                gather(embedded[n:].reshape(n, -1, embedded.shape[1])),
                weights=self.weights,
                logit_scale=self.logit_scale,
                changed=gather(changed),
                before=before,
            )
