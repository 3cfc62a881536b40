"""MCS (Kim et al. 2023): CLIPScore with a multilingual text tower."""

from __future__ import annotations

from .clip_score import CLIPScore


class MCS(CLIPScore):
    """MCS (Kim et al. 2023, section 3.1): CLIPScore with a multilingual text tower.

    Its default backbone is LAION's ViT-B/32 with XLM-R base, without a prefix.
    """

    metric = "mcs"
    published_prefix = ""
    title = "MCS"
    citation = ("kim-etal-2023-pr-mcs", "hessel-etal-2021-clipscore")
    default_backbone = "xlm-roberta-base-ViT-B-32/laion5b_s13b_b90k"
