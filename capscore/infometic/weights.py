"""Loads the aligner of a backbone: InfoMetIC with trained weights, or InfoCLIP, which needs none."""

from __future__ import annotations

import os
from pathlib import Path

from ..backbones.base import Backbone
from ..errors import CapscoreError, Setting
from .alignment import Aligner

INFO_CLIP = "info_clip"
# Backbone's name → folder beside this file with its weights, which ship with capscore.
SHIPPED = {"embedded": "infometic_embedded"}
# CLIP's factor on cosines, for backbones that were trained without one.
CLIP_SCALE = 100.0


def cosine_scale(backbone: Backbone) -> float:
    """Factor on a backbone's cosines of image and caption: its logit scale, or CLIP's 100.

    A logit scale of 1 means that the backbone was trained without one.
    """
    return CLIP_SCALE if backbone.logit_scale == 1.0 else float(backbone.logit_scale)


def load_aligner(
    weights: str | os.PathLike[str] | Aligner | None, backbone: Backbone, *, revision: str | None = None
) -> tuple[Aligner, str]:
    """The aligner for a backbone, in eval mode on its device, and the aligner's name for signatures.

    Args:
        weights: Folder from `InfoMetIC.save_pretrained`, or Hub id; "info_clip" for the baseline without
            weights; an aligner; None for the weights that ship with capscore for this backbone, or the
            baseline if there are none.
        backbone: Backbone of the embeddings.
        revision: Commit, branch or tag of a Hub id.

    Raises:
        CapscoreError: the weights are for another backbone.
        BackboneUnavailable: the weights are not available.

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
            raise CapscoreError(Setting("revision", revision), " is for weights, and InfoCLIP has none")
        return InfoCLIP(scale=cosine_scale(backbone)).to(backbone.device).eval(), INFO_CLIP
    model = InfoMetIC.from_pretrained(weights, revision=revision)
    model.config.check_backbone(backbone)
    return model.to(backbone.device).eval(), _name(model)


def _name(model: Aligner) -> str:
    name, revision = getattr(model, "name", ""), getattr(model, "revision", "")
    return f"{name or 'unsaved'}@{revision}" if revision else name or "unsaved"
