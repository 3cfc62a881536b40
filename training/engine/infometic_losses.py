"""Scores of images and captions in, losses out: what InfoMetIC minimises (Hu et al. 2023, §3.2).

Each loss is a pure function of scores that the model gave, differentiable in them. f^R is the vision recall
of a pair, f^P its text precision, α the share that a region or a word has of the attention.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F


def coarse_nce(
    recall: torch.Tensor, precision: torch.Tensor, *, counted: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """l_r and l_p: which caption is an image's, and which image a caption's, in a batch (eqs. 5–7).

    Args:
        recall: (b, b), f^R of image i (row) with caption j (column), temperature included; i belongs to i.
        precision: (b, b), f^P likewise.
        counted: bool (b, b), False where a pair is no negative: another caption of the same image, a text
            that occurs twice, or a pair that was not computed, whatever stands in its place. The diagonal
            always counts. None where all are.

    Returns:
        Two scalars of at least 0, each the mean of both directions: ln b where nothing is told apart.

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
    """l_r^h = −log e^own / (e^own + e^hard), mean over captions that have a hard negative (eq. 8).

    Args:
        own: (b,), f^R of the pairs.
        hard: (b,), f^R of the same images with captions of them that say less.
        there: bool (b,), False where a caption has no hard negative; None where all have one.

    Returns:
        A scalar; 0 where none has one.

    >>> round(hard_negative_loss(torch.tensor([1.0]), torch.tensor([0.0])).item(), 4)      # ln(1 + e^-1)
    0.3133
    """
    losses = F.softplus(hard - own)
    if there is None:
        return losses.mean()
    # where, not a product: what stands in an empty place must not count, whatever it is
    return torch.where(there, losses, torch.zeros_like(losses)).sum() / there.sum().clamp(min=1)


def token_loss(alpha: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """l^token = −(1/n) Σ Y log α of each row (eqs. 9 and 10).

    Args:
        alpha: (b, k), shares of words, or of regions, the null one among them.
        labels: (b, k), 1 for what is right or mentioned, 0 for what is not.
        mask: bool (b, k), True for what n counts: semantic words, or regions. What is not counted adds
            nothing, whatever stands in its place; a null region may be labelled without being counted.

    Returns:
        (b,), at least 0; 0 for a row of which nothing is labelled 1.

    >>> alpha = torch.tensor([[0.5, 0.25, 0.25]])
    >>> labels, mask = torch.tensor([[1.0, 0.0, 1.0]]), torch.tensor([[True, True, True]])
    >>> round(token_loss(alpha, labels, mask).item(), 4)      # (ln 2 + ln 4) / 3
    0.6931
    """
    # a share of 0 in float32 still has a gradient that says which way
    logs = alpha.clamp(min=torch.finfo(alpha.dtype).tiny).log()
    kept = torch.where(labels > 0, labels * logs, torch.zeros_like(logs))
    return -kept.sum(dim=-1) / mask.sum(dim=-1).clamp(min=1)


def word_shares(alpha: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """Shares of pieces → shares of words: a word has those of its pieces.

    Args:
        alpha: (b, l), of the pieces.
        shares: (b, l, w), which part of a piece lies in which word, from 0 to 1.

    Returns:
        (b, w).

    >>> word_shares(torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[[1.0, 0], [1, 0], [0, 1]]]))
    tensor([[0.7500, 0.2500]])
    """
    return torch.einsum("bl,blw->bw", alpha, shares.to(alpha.dtype))
