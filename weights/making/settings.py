"""The settings of the recipes that make the shipped weights, checked; options of the smaller commands."""

from __future__ import annotations

import math
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from capscore.errors import InputError
from training.engine.config import main as run_as_command
from training.engine.loop_settings import ABOVE_ZERO, LoopSettings, require, require_range, require_whole

Number = TypeVar("Number", int, float)
# Settings that count something: there must be at least one.
_COUNTS = ("views", "captions", "reduced", "hidden", "inner", "validation_texts")


def command(**meanings: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command with its arguments as options; each keyword says what one means.

    An option may be left out if its meaning states a "default"; what is a "file" or "folder" is a path, and
    what is "repeatable" a list. Called without words, it reads the command line and runs as recipes do.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        described = function.__globals__["__doc__"]
        parser = ArgumentParser(description=described, formatter_class=RawDescriptionHelpFormatter)
        for name, meaning in meanings.items():
            how: dict[str, Any] = {"type": Path} if meaning.startswith(("file", "folder")) else {}
            if "repeatable" in meaning:
                how = {"action": "append"}
            flag = "--" + name.replace("_", "-")
            parser.add_argument(flag, required="default" not in meaning, help=meaning, **how)

        def main(argv: Sequence[str] | None = None) -> None:
            if argv is None:
                return run_as_command(lambda: function(**vars(parser.parse_args())))
            return function(**vars(parser.parse_args(argv)))

        return main

    return decorate


def named_numbers(entries: Sequence[str], setting: str, kind: Callable[[str], Number]) -> dict[str, Number]:
    """Entries of a setting, of the form name:number → name → number of a kind (int, float), in order."""
    numbers: dict[str, Number] = {}
    for entry in entries:
        name, _, text = entry.partition(":")
        try:
            number = kind(text)
        except ValueError:
            number = kind("-1")
        if not name or not 0 <= number < math.inf:
            raise InputError(f"{entry!r}: expected name:number, such as ja:8000", field=setting)
        if name in numbers:
            raise InputError(f"{name} is named twice", field=setting)
        numbers[name] = number
    return numbers


@dataclass
class MadeSettings(LoopSettings):
    """Settings of all, besides those of the loop.

    Attributes:
        name: Name of the model for its card; "" for the name of the folder `out`.
        license: Licence of the weights, as the Hub writes it.
    """

    name: str = ""
    license: str = "cc-by-nc-4.0"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in vars(self).items():
            if name == "dropout" or name.endswith("_share"):
                require(0 <= value <= 1, name, value, "a share from 0 to 1")
            elif name in _COUNTS:
                require_whole(self, name, 1)
            elif isinstance(value, int | float):
                require(0 <= value < math.inf, name, value, "at least 0")

    def numbers(self, name: str) -> dict[str, float]:
        """The numbers by name of a setting such as `languages`."""
        return named_numbers(getattr(self, name), name, float)

    @property
    def features_folder(self) -> Path:
        return Path(self.out).expanduser() / "features"


@dataclass(kw_only=True)
class TowerSettings(MadeSettings):
    """What the recipes of the image tower have in common.

    Attributes:
        data: Folder of the official files: flickr8k, multi30k, xflickrco, and the sets that are held out.
        photos: Folder of the photos: flickr8k, and COCO's in folders such as coco_train2014.
        texts: Folder of `weights.making.package_texts`.
        frozen_blocks: Number of the trunk's blocks, from the first, that stay as they are, with its stem.
        half_precision: Whether random views are computed, and trunk and head trained, in bfloat16.
        head_learning_rate: Highest learning rate of what is not the trunk; `learning_rate` is the trunk's.
        average_decay: Decay of the moving average of the weights.
        logit_scale: Factor on cosines in the contrast.
        soft_share: Share of the target that is spread over captions by their similarity to the photo's.
        softness: How sharply it is spread, as a share of `logit_scale`; at 1 as sharply as the contrast.
        pair_weight: Weight of the contrast of each photo's own captions with all pairs of the batch.
        recent: Number of photos of the last steps that captions are contrasted with.
        region_weight: Weight of the contrast of a random region of each photo.
        english_share: Chance that a photo's caption is an English one where it has others too, below 1.
        dropout: Dropout in the head.
    """

    recipe_name: ClassVar[str] = "image_tower"
    module: ClassVar[str] = "weights.making.image_tower"

    data: str
    photos: str
    texts: str
    frozen_blocks: int = 11
    half_precision: bool = True
    head_learning_rate: float = 5e-4
    average_decay: float = 0.998
    logit_scale: float = 30.0
    soft_share: float = 0.3
    softness: float = 0.67
    pair_weight: float = 0.0
    recent: int = 1024
    region_weight: float = 0.25
    english_share: float = 0.4
    dropout: float = 0.3


@dataclass(kw_only=True)
class ImageTowerSettings(TowerSettings):
    """Settings of the first stage, besides `TowerSettings`.

    Attributes:
        views: Number of views of a photo: the whole photo and random ones.
        least_part: Smallest side of the random part of a view's features that a step reads, as a share of
            theirs; half of the parts are mirrored.
        names_weight: Weight of the contrast of each photo with the names of ImageNet's classes; its target
            are the shares that the trunk as published gives them, by how sure it is.
        adapter_share: Share of the learned text adapter that is kept.
    """

    views: int = 4
    least_part: float = 0.75
    names_weight: float = 0.0
    adapter_share: float = 0.5


@dataclass(kw_only=True)
class SecondStageSettings(TowerSettings):
    """Settings of the second stage, besides `TowerSettings`.

    Attributes:
        start: Folder of the image tower to start from, with its card.
        text_hidden: Width of the hidden layer of the text place.
        text_steps: Steps of the training of the text place, before the tower's.
        least_area: Smallest share of a photo's area in the random part of it that a step reads.
        damaged_share: Share of the photos that a step reads rescaled and compressed.
        pool: Number of random captions in a step, besides the two of each photo.
        photo_share: Share of the contrast of photos with captions; that of captions with photos has the rest.
        near_weight: Weight of the right caption over one with a wrong word.
        anchors: Most photos without captions whose similarities to captions stay as at the start.
        anchor_weight: Weight of these similarities.
        start_share: Share of the start's weights in the mean of both that is written.
    """

    module: ClassVar[str] = "weights.making.image_tower.second"

    start: str
    text_hidden: int = 768
    text_steps: int = 1500
    least_area: float = 0.35
    damaged_share: float = 0.5
    pool: int = 4096
    photo_share: float = 0.5
    near_weight: float = 0.5
    anchors: int = 1600
    anchor_weight: float = 0.5
    start_share: float = 0.4


@dataclass(kw_only=True)
class MarkCalibrationSettings(MadeSettings):
    """Settings of the network of marks.

    Attributes:
        base: Backbone that the network is for; it must have a feature map.
        rows, boxes: Files of `weights.making.mark_calibration.rows` and `.boxes`.
        languages: How likely a caption of each language is drawn, as language:number; 1 for others.
        captions: Captions of each photo in a batch.
        others: Words of other photos per right word.
        rare: Wrong words per photo that name things which captions hardly ever mention.
        reduced, hidden, inner: Sizes of the network (`MarkNetworkConfig`).
        dropout: Share of the inputs of each layer that is dropped.
        thing_weight: Weight of the loss of the finder of things.
    """

    recipe_name: ClassVar[str] = "mark_calibration"
    module: ClassVar[str] = "weights.making.mark_calibration"

    base: str = "embedded"
    rows: str
    boxes: str
    languages: list[str] = field(default_factory=list)
    captions: int = 3
    others: int = 2
    rare: int = 4
    reduced: int = 384
    hidden: int = 192
    inner: int = 320
    dropout: float = 0.2
    thing_weight: float = 0.5


@dataclass(kw_only=True)
class NoiseGateSettings(MadeSettings):
    """Settings of the noise gate of PR-MCS.

    Attributes:
        base: Backbone that gets the noise gate; its text network is that of the embedded backbones.
        texts: Files of `weights.making.captions`.
        languages: How often each language is drawn, as language:number.
        sources: Weight of each caption of a data set, as name:number; 1 for those not named.
        gate: Width, layers and heads of the noise gate.
        kind_weight, touched_weight: Weights of terms of the loss (`weights.making.noise_gate.loss`).
        right: Weight of right texts of a language in the loss, as name:number; 1 for those not named.
        validation_share: Share of the photos whose captions are kept for validation.
        validation_texts: Number of samples to measure on.
        keep_right: Share of the score that right texts keep on average, in every style; the curve is
            set so that they do.
        stored_dtype: Type of the numbers in the saved weights.
    """

    recipe_name: ClassVar[str] = "noise_gate"
    module: ClassVar[str] = "weights.making.noise_gate"

    base: str = "embedded"
    texts: list[str]
    languages: list[str]
    sources: list[str] = field(default_factory=list)
    gate: list[int] = field(default_factory=lambda: [192, 4, 4])
    kind_weight: float = 0.3
    touched_weight: float = 0.5
    right: list[str] = field(default_factory=list)
    validation_share: float = 0.01
    validation_texts: int = 20_000
    keep_right: float = 0.985
    stored_dtype: Literal["float32", "float16"] = "float16"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("languages", "sources", "right"):
            self.numbers(name)
        require(self.max_steps is not None, "max_steps", None, "the number of steps")
        require_range(self, ["validation_share", "keep_right"], ABOVE_ZERO, 1, "a share between 0 and 1")
        expected = "its width, layers and heads, an even width that the heads divide, such as 192 4 4"
        require(len(self.gate) == 3 and min(self.gate) >= 1, "gate", self.gate, expected)
        require(self.gate[0] % self.gate[2] == self.gate[0] % 2 == 0, "gate", self.gate, expected)
