"""What scores tokens on a backbone: trained weights of InfoMetIC, or InfoCLIP, which has none."""

from __future__ import annotations

import os
from pathlib import Path

from ..backbones.base import Backbone
from ..errors import CapscoreError
from .alignment import Aligner

INFO_CLIP = "info_clip"
# backbone's name → the folder with weights for it that ships with capscore, beside this file
SHIPPED = {"embedded": "infometic_embedded"}
# CLIP's; what cosines of a backbone count that was trained without a factor
CLIP_SCALE = 100.0


def cosine_scale(backbone: Backbone) -> float:
    """What a backbone's cosines of image and caption are multiplied by: its logit scale, or CLIP's 100.

    A logit scale of 1 is that of a backbone which was trained without one.
    """
    return CLIP_SCALE if backbone.logit_scale == 1.0 else float(backbone.logit_scale)


def load_aligner(
    weights: str | os.PathLike[str] | Aligner | None, backbone: Backbone, *, revision: str | None = None
) -> tuple[Aligner, str]:
    """What scores tokens on a backbone, in eval mode on its device, and its name for signatures.

    Args:
        weights: a folder that `InfoMetIC.save_pretrained` wrote or a Hub id; "info_clip" for the baseline
            without weights; an aligner; None for the weights that ship for this backbone, or the baseline
            where none do.
        backbone: whose embeddings it is to read.
        revision: of a Hub id.

    Raises:
        CapscoreError: the weights were made for another backbone.
        BackboneUnavailable: they cannot be had.

    >>> from capscore import load_backbone
    >>> load_aligner("info_clip", load_backbone("embedded", device="cpu"))[1]
    'info_clip'
    """
    from .info_clip import InfoCLIP
    from .model import InfoMetIC

    if isinstance(weights, Aligner):
        config = getattr(weights, "config", None)
        if config is not None:
            config.check_backbone(backbone)
        name = INFO_CLIP if isinstance(weights, InfoCLIP) else _name(weights)
        return weights.to(backbone.device).eval(), name
    if weights is None and backbone.name in SHIPPED:
        weights = Path(__file__).with_name(SHIPPED[backbone.name])
    if weights is None or str(weights) == INFO_CLIP:
        if revision is not None:
            raise CapscoreError(f"revision={revision!r} is of weights, and InfoCLIP has none")
        return InfoCLIP(scale=cosine_scale(backbone)).to(backbone.device).eval(), INFO_CLIP
    model = InfoMetIC.from_pretrained(weights, revision=revision)
    model.config.check_backbone(backbone)
    return model.to(backbone.device).eval(), _name(model)


def _name(model: Aligner) -> str:
    name, revision = getattr(model, "name", ""), getattr(model, "revision", "")
    return f"{name or 'unsaved'}@{revision}" if revision else name or "unsaved"
