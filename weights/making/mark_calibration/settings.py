"""The settings of the network's recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from capscore.errors import CapscoreError
from training.engine.loop_settings import LoopSettings, require
from weights.making.named_numbers import named_numbers


@dataclass
class MarkCalibrationSettings(LoopSettings):
    """Settings of a run, besides those of the loop.

    Attributes:
        base: Backbone that the network is for; it must have a feature map.
        rows, boxes: Files of `weights.making.mark_calibration.rows` and `.boxes`.
        features: Folder for the features of the rows; "" for one in `out`.
        languages: How likely a caption of each language is drawn, as language:number; 1 for others.
        captions: Captions of each photo in a batch.
        others: Words of other photos per right word.
        rare: Wrong words per photo that name things which captions hardly ever mention.
        reduced, hidden, inner: Sizes of the network (`MarkNetworkConfig`).
        dropout: Share of the inputs of each layer that is dropped.
        thing_weight: Weight of the loss of the finder of things.
        name, license: For the card.
    """

    recipe_name: ClassVar[str] = "mark_calibration"
    module: ClassVar[str] = "weights.making.mark_calibration"

    base: str = "embedded"
    rows: str = ""
    boxes: str = ""
    features: str = ""
    languages: list[str] = field(default_factory=list)
    captions: int = 3
    others: int = 2
    rare: int = 4
    reduced: int = 384
    hidden: int = 192
    inner: int = 320
    dropout: float = 0.2
    thing_weight: float = 0.5
    name: str = ""
    license: str = "unknown"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.rows:
            raise CapscoreError("rows is missing: a file of weights.making.mark_calibration.rows")
        _ = self.weights
        require(self.rare >= 0, "rare", self.rare, "at least 0")
        for name in ("captions", "others", "reduced", "hidden", "inner"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        require(0 <= self.dropout < 1, "dropout", self.dropout, "a share below 1")
        require(0 <= self.thing_weight < float("inf"), "thing_weight", self.thing_weight, "at least 0")

    @property
    def weights(self) -> dict[str, float]:
        return named_numbers(self.languages, "languages", float)
