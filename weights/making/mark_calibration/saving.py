"""A mark calibration → a folder that `capscore.infometic.mark_calibration.load_mark_calibration` reads."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from capscore.backbones.checkpoint import write_network
from capscore.infometic.mark_calibration import CURVES, FORMAT, MODEL_TYPE, MarkCalibration, MarkCurve


def save_mark_calibration(calibration: MarkCalibration, folder: str | os.PathLike[str]) -> None:
    """Write a mark calibration, its weights in float16; errors as in `write_network`."""
    record = {
        "model_type": MODEL_TYPE,
        "format": FORMAT,
        "sizes": asdict(calibration.network.config),
        "calibration": {name: _curves_as_json(getattr(calibration, name)) for name in CURVES},
        **{name: getattr(calibration, name) for name in ("backbone", "backbone_revision", "nouns", "notes")},
    }
    write_network(folder, calibration.network, record, "float16")


def _curves_as_json(curves: Any) -> dict[str, Any]:
    """A curve, or a mapping of curves, ready for JSON."""
    if isinstance(curves, MarkCurve):
        numbers = {name: round(getattr(curves, name), 5) for name in ("scale", "bias", "found")}
        return {**numbers, "quantiles": [round(value, 5) for value in curves.quantiles]}
    return {name: _curves_as_json(inner) for name, inner in curves.items()}
