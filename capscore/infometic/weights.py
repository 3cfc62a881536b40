"""Loads the aligner of a backbone: InfoMetIC with trained weights, or InfoCLIP, which needs none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..backbones.base import Backbone, tensors_digest
from ..errors import CapscoreError, Setting
from ..files.installed_weights import weights_folder
from .alignment import Aligner, InfoCLIP
from .network import InfoMetIC, find_weights

if TYPE_CHECKING:
    from .mark_calibration import MarkCalibration

INFO_CLIP = "info_clip"
# Backbone's name → folder with its weights in the distribution capscore-weights.
INSTALLED = {"embedded": "infometic"}
# The same for judges of marks.
INSTALLED_MARKS = {"embedded": "mark_calibration"}
# How words are marked.
LEARNED, PUBLISHED = "learned", "published"
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
            weights; an aligner; None for the weights for this backbone in capscore-weights, or the
            baseline if it has none.
        backbone: Backbone of the embeddings.
        revision: Commit, branch or tag of a Hub id.

    Raises:
        CapscoreError: the weights are for another backbone.
        BackboneUnavailable: the weights are not available.
        MissingWeightsError: capscore-weights has weights for this backbone, but is not installed.

    >>> from capscore import load_backbone
    >>> load_aligner("info_clip", load_backbone("embedded", device="cpu"))[1]
    'info_clip'
    """
    if isinstance(weights, Aligner):
        config = getattr(weights, "config", None)
        if config is not None:
            config.check_backbone(backbone)
        return weights.to(backbone.device).eval(), _name(weights, backbone)
    if weights is None and backbone.name in INSTALLED:
        weights = weights_folder(INSTALLED[backbone.name])
    if weights is None or str(weights) == INFO_CLIP:
        if revision is not None:
            raise CapscoreError(Setting("revision", revision), " is for weights, and InfoCLIP has none")
        return InfoCLIP(scale=cosine_scale(backbone)).to(backbone.device).eval(), INFO_CLIP
    model = InfoMetIC.from_pretrained(weights, revision=revision)
    model.config.check_backbone(backbone)
    return model.to(backbone.device).eval(), _name(model, backbone)


def load_marks(
    marks: str | os.PathLike[str] | MarkCalibration | None, backbone: Backbone
) -> tuple[MarkCalibration | None, str]:
    """The judge of marks for a backbone, and its name for signatures; None for marks as published.

    Args:
        marks: "learned" for the judge for this backbone in capscore-weights, "published" for marks by the
            scores of the words; a folder of `weights.making.judge`, or its Hub id; a judge; None for
            "learned" where there is a judge for this backbone, otherwise "published".
        backbone: Backbone of the embeddings.

    Raises:
        CapscoreError: the judge is for another backbone, or there is none for this one.
        BackboneUnavailable: the judge is not available, or damaged.
        MissingWeightsError: capscore-weights has a judge for this backbone, but is not installed.

    >>> from capscore import load_backbone
    >>> load_marks(None, load_backbone("embedded-free", device="cpu"))
    (None, 'published')
    """
    from .mark_calibration import MarkCalibration, load_mark_calibration

    if isinstance(marks, MarkCalibration):
        marks.check_backbone(backbone)
        return marks, f"{LEARNED}@{marks.name}"
    if marks == PUBLISHED or (marks is None and backbone.name not in INSTALLED_MARKS):
        return None, PUBLISHED
    if marks is None or marks == LEARNED:
        if backbone.name not in INSTALLED_MARKS:
            raise CapscoreError(
                Setting("marks", LEARNED),
                f": there is no mark calibration for the backbone {backbone.name!r}; expected {PUBLISHED!r}, "
                f"the backbone {' or '.join(map(repr, INSTALLED_MARKS))}, a folder or a Hub id",
            )
        marks = weights_folder(INSTALLED_MARKS[backbone.name])
    elif not isinstance(marks, os.PathLike):
        marks = find_weights(marks, what="marks")[0]
    loaded = load_mark_calibration(marks, backbone=backbone)
    return loaded, f"{LEARNED}@{loaded.name}"


def _name(aligner: Aligner, backbone: Backbone) -> str:
    """A name that two aligners with different scores do not share."""
    if isinstance(aligner, InfoCLIP):
        settings = {"sharpness": aligner.sharpness, "scale": aligner.scale}
        usual = {"sharpness": InfoCLIP().sharpness, "scale": cosine_scale(backbone)}
        changed = [f"{name}={value:g}" for name, value in settings.items() if value != usual[name]]
        return INFO_CLIP + (f"({','.join(changed)})" if changed else "")
    name, revision = getattr(aligner, "name", ""), getattr(aligner, "revision", "")
    if not isinstance(aligner, InfoMetIC):
        revision = revision or f"w{tensors_digest(aligner.state_dict())[:8]}"
    elif not revision or aligner.fingerprint() != aligner.loaded_fingerprint:  # new, or trained since
        revision = f"w{aligner.fingerprint()[:8]}"
    return f"{name or 'unsaved'}@{revision}"
