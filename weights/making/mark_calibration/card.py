"""What the recipe of the judge knows about its run → the card of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from training.data.origin import DataSource, Origin
from training.engine.model_card import ModelCard, Result
from training.engine.recipe import SETTINGS
from weights.making.mark_calibration.settings import MarkCalibrationSettings

CALIBRATION = "calibration captions"
_COMMAND = f"python -m weights.making.mark_calibration --config {SETTINGS}"
_NOT_ON_CARD = ("out", "name", "license", "rows", "boxes", "features")
_DETECTOR = DataSource(
    "boxes of YOLOX-Nano in the training photos",
    "Apache-2.0",
    url="https://github.com/Megvii-BaseDetection/YOLOX",
    used_for="finding things",
)

_NAMES = DataSource(
    "names of emoji (Unicode CLDR)",
    "Unicode-3.0",
    url="https://cldr.unicode.org",
    used_for="names of rare things in 14 languages",
)


def described(
    settings: MarkCalibrationSettings, notes: Mapping[str, Any], *, command: str, compute: str
) -> ModelCard:
    """The card of a judge.

    Args:
        settings: Settings of its run.
        notes: What `weights.making.mark_calibration` records of it.
        command: Command that trains it again; "" for one with the run's own settings file.
        compute: Machine and time.
    """
    origin = Origin(settings.rows, Path(settings.rows).name, "unknown")
    held_out = [origin.held_out] if origin.held_out else []
    held_out.append(
        f"{notes['photos']['calibrate']:,} of the held-out photos set the thresholds; nothing is measured on "
        "them"
    )
    results = [
        Result(
            CALIBRATION,
            f"{word_class}s_found",
            found,
            _COMMAND,
            f"wrong {word_class}s marked, at 5 % of right ones",
            "share",
            "" if language == "shared" else language,
        )
        for language, classes in notes["found"].items()
        for word_class, found in classes.items()
    ]
    return ModelCard(
        name=settings.name or Path(settings.out).resolve().name,
        recipe="mark_calibration",
        base=settings.base,
        languages=sorted(language for language in notes["found"] if language != "shared"),
        license=settings.license,
        command=command or _COMMAND,
        settings={name: value for name, value in asdict(settings).items() if name not in _NOT_ON_CARD},
        data=[*(source for source in origin.described() if source.rows != 0), _DETECTOR, _NAMES],
        held_out="; ".join(held_out),
        results=results,
        not_measured=[],
        compute=compute,
    )
