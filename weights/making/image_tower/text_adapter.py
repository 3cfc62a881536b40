"""Captions of the same photos → the adapter that brings captions of one photo together, in every language.

In: embeddings of captions, with pixels or without. Out: the matrix A of `TextPlace`. It is learned before the
eye, by contrast of two captions of one photo in different languages where there are any, with a penalty on
its size, and then made smaller: of the whole step, English alone gains the most, but languages with few
captions in the training lose; half of it helps nearly all of them (docs/training.md has the numbers).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weights.making.image_tower.caption_draws import CaptionDraws

_STEPS, _BATCH = 500, 768
_SCALE, _DROPOUT, _RATE, _PENALTY = 20.0, 0.1, 3e-4, 5e-4


def learned_adapter(draws: Sequence[CaptionDraws], dim: int, share: float, *, seed: int = 0) -> Tensor:
    """The matrix A (dim, dim) for `TextPlace.adapter`.

    Args:
        draws: Captions; rows with two or more take part.
        dim: Length of an embedding.
        share: Share of the learned matrix that is kept; 0 for none, and nothing is learned.
        seed: Seed of the batches.
    """
    rows = [np.flatnonzero(own.counts > 1) for own in draws]
    ends = np.cumsum([len(own) for own in rows])
    if not share or not len(ends) or ends[-1] < 2:
        return torch.zeros(dim, dim)
    adapter = nn.Linear(dim, dim, bias=False)
    nn.init.zeros_(adapter.weight)
    optimizer = torch.optim.AdamW(adapter.parameters(), lr=_RATE, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=_STEPS)
    chance = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(_STEPS):
            # each photo once, so that no caption is contrasted with one of its own photo
            drawn = np.unique(chance.integers(ends[-1], size=_BATCH))
            pairs = []
            for own, photos, end in zip(draws, rows, ends, strict=True):
                part = drawn[(drawn < end) & (drawn >= end - len(photos))] - (end - len(photos))
                pairs.append(own.two(photos[part], chance))
            one, other = (torch.cat(column) for column in zip(*pairs, strict=True))
            logits = _SCALE * _placed(adapter, one) @ _placed(adapter, other).T
            own_place = torch.arange(len(logits))
            contrast = F.cross_entropy(logits, own_place) + F.cross_entropy(logits.T, own_place)
            loss = contrast / 2 + _PENALTY * adapter.weight.pow(2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return share * adapter.weight.detach()


def _placed(adapter: nn.Module, rows: Tensor) -> Tensor:
    return F.normalize(F.dropout(rows, _DROPOUT) + adapter(F.dropout(rows, _DROPOUT)), dim=-1)
