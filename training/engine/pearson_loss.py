"""Scores and people's ratings → L_P = 1 − r, Pearson's correlation as a loss (Gomes et al. 2025, §3)."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from capscore.errors import InputError

# Scores whose deviations from their mean are together shorter than this count as equal, with r = 0.
_SHORTEST = 1e-8


def pearson_loss(scores: torch.Tensor, ratings: torch.Tensor) -> torch.Tensor:
    """1 − r, in [0, 2], differentiable in the scores.

    r does not depend on the scale of either side: cosines need no factor, and ratings on any scale serve.
    Equal scores have r = 0, not NaN; their gradient, towards the ratings, is large but finite.

    Args:
        scores: (n,), at least two, of any float type.
        ratings: (n,), finite and not all equal: nothing correlates with a constant.

    Raises:
        InputError: other shapes, fewer than two rows, a rating that is not finite, or equal ratings.

    >>> ratings = torch.tensor([1.0, 2.0, 3.0])
    >>> round(pearson_loss(torch.tensor([0.1, 0.2, 0.3]), ratings).item(), 4)
    0.0
    >>> round(pearson_loss(torch.tensor([0.2, 0.1, 0.3]), ratings).item(), 4)
    0.5
    >>> pearson_loss(torch.tensor([0.2, 0.2, 0.2]), ratings).item()
    1.0
    """
    if scores.ndim != 1 or scores.shape != ratings.shape or len(scores) < 2:
        raise InputError(
            f"Pearson's r of scores of shape {tuple(scores.shape)} and ratings of shape "
            f"{tuple(ratings.shape)}: expected one number of each for at least 2 rows",
            field="ratings",
        )
    if not torch.isfinite(ratings).all():
        raise InputError("Pearson's r: a rating is NaN or infinite", field="ratings")
    if (ratings == ratings[0]).all():
        raise InputError(
            f"Pearson's r: all {len(ratings)} ratings are {ratings[0].item():g}; nothing correlates with a "
            "constant",
            field="ratings",
        )
    deviations = [
        F.normalize(side - side.mean(), dim=0, eps=_SHORTEST)
        for side in (scores if scores.dtype == torch.float64 else scores.float(), ratings.to(torch.float64))
    ]
    return 1 - (deviations[0] * deviations[1].to(deviations[0])).sum()
