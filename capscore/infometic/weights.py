"""Loads the aligner of a backbone, InfoMetIC with trained weights or InfoCLIP, and its mark calibration."""

from __future__ import annotations

import os

from ..backbones.base import Backbone, tensors_digest
from ..errors import CapscoreError, Setting
from ..files.shipped import weights_folder
from .alignment import Aligner, InfoCLIP
from .folders import find_folder
from .mark_calibration import MarkCalibration, load_mark_calibration
from .network import InfoMetIC

INFO_CLIP = "info_clip"
LEARNED, PUBLISHED = "learned", "published"
# Backbone's name → folder with its weights in the distribution capscore-weights.
INSTALLED = {"embedded": "infometic"}
# The same for mark calibrations.
INSTALLED_MARKS = {"embedded": "mark_calibration"}
# CLIP's factor on cosines, for backbones that were trained without one.
_CLIP_SCALE = 100.0


def cosine_scale(backbone: Backbone) -> float:
    """Factor on a backbone's cosines of image and caption: its logit scale, or CLIP's 100.

    A logit scale of 1 means that the backbone was trained without one.
    """
    return _CLIP_SCALE if backbone.logit_scale == 1.0 else float(backbone.logit_scale)


def load_aligner(weights: str | os.PathLike[str] | Aligner | None, backbone: Backbone) -> tuple[Aligner, str]:
    """The aligner for a backbone, in eval mode on its device, and the aligner's name for signatures.

    Args:
        weights: Folder from `InfoMetIC.save_pretrained`, or Hub id; "info_clip" for the baseline without
            weights; an aligner; None for the weights for this backbone in capscore-weights, or the
            baseline if it has none.
        backbone: Backbone of the embeddings.

    Raises:
        CapscoreError: the weights are for another backbone.
        BackboneUnavailable: the weights are not available.
        MissingWeightsError: capscore-weights has weights for this backbone, but is not installed.

    >>> from capscore import load_backbone
    >>> load_aligner("info_clip", load_backbone("embedded", device="cpu"))[1]
    'info_clip'
    """
    if weights is None:
        weights = weights_folder(INSTALLED[backbone.name]) if backbone.name in INSTALLED else INFO_CLIP
    if isinstance(weights, Aligner):
        aligner = weights
    elif str(weights) == INFO_CLIP:
        aligner = InfoCLIP(scale=cosine_scale(backbone))
    else:
        aligner = InfoMetIC.from_pretrained(weights)
    config = getattr(aligner, "config", None)
    if config is not None:
        config.check_backbone(backbone)
    return aligner.to(backbone.device).eval(), _name(aligner, backbone)


def load_marks(
    marks: str | os.PathLike[str] | MarkCalibration | None, backbone: Backbone
) -> tuple[MarkCalibration | None, str]:
    """The mark calibration for a backbone, and its name for signatures; None for marks as published.

    Args:
        marks: "learned" for the mark calibration for this backbone in capscore-weights, "published" for marks
            by the scores of the words; a folder with a mark calibration, or its Hub id; a mark calibration;
            None for "learned" where there is one for this backbone, otherwise "published".
        backbone: Backbone of the embeddings.

    Raises:
        CapscoreError: the calibration is for another backbone, or there is none for this one.
        BackboneUnavailable: the calibration is not available, or damaged.
        MissingWeightsError: capscore-weights has one for this backbone, but is not installed.

    >>> from capscore import load_backbone
    >>> load_marks(None, load_backbone("embedded-free", device="cpu"))
    (None, 'published')
    """
    if marks is None:
        marks = LEARNED if backbone.name in INSTALLED_MARKS else PUBLISHED
    if marks == PUBLISHED:
        return None, PUBLISHED
    if isinstance(marks, MarkCalibration):
        calibration = marks
        calibration.check_backbone(backbone)
    elif marks == LEARNED:
        if backbone.name not in INSTALLED_MARKS:
            raise CapscoreError(
                Setting("marks", LEARNED),
                f": there is no mark calibration for the backbone {backbone.name!r}; expected {PUBLISHED!r}, "
                f"the backbone {' or '.join(map(repr, INSTALLED_MARKS))}, a folder or a Hub id",
            )
        folder = weights_folder(INSTALLED_MARKS[backbone.name])
        calibration = load_mark_calibration(folder, backbone=backbone)
    else:
        calibration = load_mark_calibration(find_folder(marks, what="marks")[0], backbone=backbone)
    return calibration, f"{LEARNED}@{calibration.name}"


def _name(aligner: Aligner, backbone: Backbone) -> str:
    """A name that two aligners with different scores do not share."""
    if isinstance(aligner, InfoCLIP):
        usual = {"sharpness": 100.0, "scale": cosine_scale(backbone)}
        changed = [
            f"{name}={getattr(aligner, name):g}"
            for name, value in usual.items()
            if getattr(aligner, name) != value
        ]
        return INFO_CLIP + (f"({','.join(changed)})" if changed else "")
    name, revision = getattr(aligner, "name", ""), getattr(aligner, "revision", "")
    if not isinstance(aligner, InfoMetIC):
        revision = revision or f"w{tensors_digest(aligner.state_dict())[:8]}"
    elif not revision or aligner.fingerprint() != aligner.loaded_fingerprint:  # new, or trained since
        revision = f"w{aligner.fingerprint()[:8]}"
    return f"{name or 'unsaved'}@{revision}"
