"""Scores of images and captions → the losses of InfoMetIC (Hu et al. 2023, §3.2).

Each loss is a pure function of the model's scores, and differentiable. f^R is the vision recall of a pair,
f^P its text precision, and α the share of attention of a region or a word.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F


def coarse_nce(
    recall: torch.Tensor, precision: torch.Tensor, *, counted: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """l_r and l_p: matching the images and captions of a batch (eqs. 5–7).

    Args:
        recall: f^R (b, b) of image i (row) with caption j (column), temperature included; the diagonal
            matches.
        precision: f^P (b, b) likewise.
        counted: bool (b, b), False where a pair is not a negative: another caption of the same image, a
            repeated text, or a pair that was not computed. The diagonal always counts. None if all count.

    Returns:
        Two scalars of at least 0, each the mean of both directions; ln b if all scores are equal.

    >>> scores = torch.eye(2)
    >>> [round(loss.item(), 4) for loss in coarse_nce(scores, torch.zeros(2, 2))]      # ln(1 + e^-1), ln 2
    [0.3133, 0.6931]
    """
    return _nce(recall, counted), _nce(precision, counted)


def _nce(scores: torch.Tensor, counted: torch.Tensor | None) -> torch.Tensor:
    own = torch.arange(len(scores), device=scores.device)
    if counted is not None:
        kept = counted | torch.eye(len(scores), dtype=torch.bool, device=scores.device)
        scores = scores.masked_fill(~kept, float("-inf"))
    return (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2


def hard_negative_loss(
    own: torch.Tensor, hard: torch.Tensor, *, there: torch.Tensor | None = None
) -> torch.Tensor:
    """l_r^h = −log e^own / (e^own + e^hard), the mean over captions with a hard negative (eq. 8).

    Args:
        own: f^R (b,) of the pairs.
        hard: f^R (b,) of the same images with captions that say less about them.
        there: bool (b,), False where a caption has no hard negative; None if all have one.

    Returns:
        A scalar; 0 without any hard negative.

    >>> round(hard_negative_loss(torch.tensor([1.0]), torch.tensor([0.0])).item(), 4)      # ln(1 + e^-1)
    0.3133
    """
    losses = F.softplus(hard - own)
    if there is None:
        return losses.mean()
    # where, not a product: an empty place may hold NaN
    return torch.where(there, losses, torch.zeros_like(losses)).sum() / there.sum().clamp(min=1)


def token_loss(alpha: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """l^token = −(1/n) Σ Y log α of each row (eqs. 9 and 10).

    Args:
        alpha: Shares (b, k) of words, or of regions and the null region.
        labels: (b, k), 1 for right or mentioned, else 0.
        mask: bool (b, k), True for what n counts: semantic words, or regions. A null region may be labelled
            without being counted.

    Returns:
        Losses (b,) of at least 0; 0 for a row without a label 1.

    >>> alpha = torch.tensor([[0.5, 0.25, 0.25]])
    >>> labels, mask = torch.tensor([[1.0, 0.0, 1.0]]), torch.tensor([[True, True, True]])
    >>> round(token_loss(alpha, labels, mask).item(), 4)      # (ln 2 + ln 4) / 3
    0.6931
    """
    # clamped, so that a share of 0 in float32 still has a gradient
    logs = alpha.clamp(min=torch.finfo(alpha.dtype).tiny).log()
    kept = torch.where(labels > 0, labels * logs, torch.zeros_like(logs))
    return -kept.sum(dim=-1) / mask.sum(dim=-1).clamp(min=1)


def word_shares(alpha: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """Shares of pieces → shares of words, each the sum over the word's pieces.

    Args:
        alpha: Shares (b, l) of the pieces.
        shares: (b, l, w), part of each piece that lies in each word, from 0 to 1.

    Returns:
        Shares (b, w) of the words.

    >>> word_shares(torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[[1.0, 0], [1, 0], [0, 1]]]))
    tensor([[0.7500, 0.2500]])
    """
    return torch.einsum("bl,blw->bw", alpha, shares.to(alpha.dtype))
