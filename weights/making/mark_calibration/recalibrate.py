"""A mark calibration → the same network with another background and other curves.

    python -m weights.making.mark_calibration.recalibrate --start runs/mark_calibration --rows rows.jsonl \
        --features features --out runs/recalibrated

In: the folder of a mark calibration, and rows as the recipe takes them. Out: a folder in which nothing is
trained anew: the background is of photos of the split "train", and the curves of captions and of words in
captions are measured on the split "calibrate".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from capscore import load_backbone
from capscore.infometic.mark_calibration import (
    MarkCalibration,
    MarkNetwork,
    MarkNetworkConfig,
    load_mark_calibration,
)
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.processes import device, say
from weights.making.jsonl import require_settings
from weights.making.mark_calibration.__main__ import background_of
from weights.making.mark_calibration.calibrate import calibrate, shares_found
from weights.making.mark_calibration.features import embed_texts, prepare
from weights.making.mark_calibration.saving import save_mark_calibration


@dataclass
class Settings:
    """Settings of the command.

    Attributes:
        start: Folder of the mark calibration.
        rows: File of `weights.making.mark_calibration.rows`.
        features: Folder for the features of the rows.
        out: Folder to write.
        base: Backbone that the network is for.
        background: Number of photos of the background.
        seed: Seed of what is drawn.
    """

    start: str = ""
    rows: str = ""
    features: str = ""
    out: str = ""
    base: str = "embedded"
    background: int = MarkNetworkConfig.background
    seed: int = 0

    def __post_init__(self) -> None:
        require_settings(self, "start", "rows", "features", "out")


def recalibrate(settings: Settings) -> MarkCalibration:
    """Run the command; returns what it wrote."""
    backbone = load_backbone(settings.base, device=device(), dtype="float32")
    start = load_mark_calibration(settings.start, backbone=backbone)
    config = replace(start.network.config, background=settings.background)
    features = prepare(Path(settings.rows), backbone, config.reduced, Path(settings.features), say)
    network = MarkNetwork(config).eval()
    state = {
        **start.network.state_dict(),
        "background": background_of(features, config.background, settings.seed),
    }
    network.load_state_dict(state)
    held = features.of_split("calibrate")
    embed = partial(embed_texts, backbone)
    _, words, fits = calibrate(network, features, held, embed, settings.seed, alone=start.alone)
    notes = {**start.notes, "recalibrated": len(held), **shares_found(words, fits)}
    made = replace(start, network=network, words=words, fits=fits, notes=notes)
    save_mark_calibration(made, settings.out)
    return made


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    settings = parse(Settings, argv, "Measure the curves of a mark calibration anew.")
    recalibrate(settings)
    say(f"saved to {settings.out}")


if __name__ == "__main__":
    run_as_command(main)
