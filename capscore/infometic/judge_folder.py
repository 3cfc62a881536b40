"""Folders of judges: config.json with sizes, calibration and nouns, and model.safetensors."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from ..backbones.base import Backbone, fingerprint_of, tensors_digest
from ..backbones.checkpoint import read_json, read_state_dict, refuse_misfit, refuse_oversized
from ..errors import BackboneUnavailable, CapscoreError
from ..files.whole_file import whole_file, write_text
from .judge import Judge, JudgeConfig
from .verdicts import MarkCalibration

MODEL_TYPE = "capscore_judge"
CONFIG, WEIGHTS = "config.json", "model.safetensors"
_FORMAT = 2


@dataclass(eq=False)
class LoadedJudge:
    """A judge with what belongs to it.

    Attributes:
        judge: Network, in eval mode.
        calibration: Probabilities and thresholds.
        nouns: Language → nouns that regions can be named by, the most frequent first.
        backbone: Name of the backbone that it was trained with.
        backbone_revision: Revision of that backbone.
        name: Name for signatures.
        notes: Anything worth recording.
    """

    judge: Judge
    calibration: MarkCalibration
    nouns: Mapping[str, tuple[str, ...]]
    backbone: str
    backbone_revision: str
    name: str = ""
    notes: dict[str, Any] = field(default_factory=dict)

    def check_backbone(self, backbone: Backbone) -> None:
        """Raise unless the judge is for this backbone.

        Raises:
            CapscoreError: it is for another one.
        """
        if backbone.revision != self.backbone_revision:
            raise CapscoreError(
                f"the judge of marks is for the backbone {self.backbone}@{self.backbone_revision}, not for "
                f"{backbone.name}@{backbone.revision}"
            )


def save_judge(loaded: LoadedJudge, folder: str | os.PathLike[str]) -> None:
    """Write a judge, its weights in float16; the weights first, then config.json with their digest.

    Raises:
        CapscoreError: a weight is not finite in float16.
        ResultWriteError: the folder cannot be written.
    """
    folder = Path(folder).expanduser()
    state = {
        name: tensor.detach().cpu().half().contiguous() for name, tensor in loaded.judge.state_dict().items()
    }
    bad = [name for name, tensor in state.items() if not torch.isfinite(tensor).all()]
    if bad:
        raise CapscoreError(f"the weights {bad[0]!r} are not finite in float16")
    record = {
        "model_type": MODEL_TYPE,
        "format": _FORMAT,
        "sizes": loaded.judge.config.to_dict(),
        "backbone": loaded.backbone,
        "backbone_revision": loaded.backbone_revision,
        "weights": tensors_digest(state),
        "calibration": loaded.calibration.to_dict(),
        "nouns": {language: list(nouns) for language, nouns in loaded.nouns.items()},
        "notes": loaded.notes,
    }
    text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
    with whole_file(folder / WEIGHTS, "the judge", make_folders=True) as file:
        file.write(save(state))
    write_text(folder / CONFIG, text, "the judge")


def load_judge(folder: str | os.PathLike[str], *, backbone: Backbone | None = None) -> LoadedJudge:
    """Read a judge from a folder of `save_judge`, in float32 and eval mode, on the backbone's device.

    Args:
        folder: Folder to read.
        backbone: Backbone that it must belong to; None for no check.

    Raises:
        BackboneUnavailable: the folder is missing, damaged, or holds another model.
        CapscoreError: the judge is for another backbone.
    """
    folder = Path(folder).expanduser()
    record = read_json(folder / CONFIG)
    if record.get("model_type") != MODEL_TYPE:
        raise BackboneUnavailable(
            f"{folder} has no judge of marks: its {CONFIG} has no model_type {MODEL_TYPE!r}"
        )
    try:
        if record["format"] != _FORMAT:
            raise BackboneUnavailable(
                f"{folder / CONFIG} has the format {record['format']!r}: expected {_FORMAT}"
            )
        config = JudgeConfig.from_dict(record["sizes"])
        calibration = MarkCalibration.from_dict(record["calibration"])
        nouns = {str(language): tuple(map(str, own)) for language, own in record["nouns"].items()}
        name, revision, digest = record["backbone"], record["backbone_revision"], record["weights"]
        notes = dict(record["notes"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BackboneUnavailable(f"{folder / CONFIG} is not that of a judge of marks: {error}") from None
    state = read_state_dict(folder)
    if tensors_digest(state) != digest:
        raise BackboneUnavailable(f"{folder}: {WEIGHTS} does not belong to {CONFIG}; was saving interrupted?")
    stored = sum(tensor.nbytes for tensor in state.values())
    refuse_oversized(folder, config.to_dict(), stored, lambda: Judge(config))
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they were
        judge = Judge(config)
    expected = judge.state_dict()
    refuse_misfit(
        folder,
        missing=(one for one in expected if one not in state),
        unexpected=(one for one in state if one not in expected),
        mismatched=(one for one in state if one in expected and state[one].shape != expected[one].shape),
    )
    judge.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    marks = fingerprint_of(digest, json.dumps(record["calibration"], sort_keys=True))
    loaded = LoadedJudge(judge.eval(), calibration, nouns, str(name), str(revision), f"w{marks[:8]}", notes)
    if backbone is not None:
        loaded.check_backbone(backbone)
        judge.to(backbone.device)
    return loaded
