"""MCS, multilingual CLIPScore (PR-MCS paper, §3.1): CLIPScore's formula with a multilingual text tower.

In: captions in any language the backbone knows, and images. Out: one score a row in [0, 2.5], their mean.
"""

from __future__ import annotations

from .clip_score import CLIPScore


class MCS(CLIPScore):
    """MCS. Its default backbone is LAION's ViT-B/32 with XLM-R base, without a prefix."""

    metric = "mcs"
