"""The settings of the recipes of the image tower."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from capscore.errors import CapscoreError
from training.engine.loop_settings import LoopSettings, require
from weights.making.image_tower.rows import SOURCES

# What is expected → settings of which it is, and the test.
_RANGES: dict[str, tuple[str, Callable[[float], bool]]] = {
    "at least 1": ("views frozen_stages recent text_hidden text_steps", lambda value: value >= 1),
    "at least 0": (
        "region_weight pair_weight names_weight near_weight anchor_weight pool anchors frozen_blocks",
        lambda value: value >= 0,
    ),
    "a number above 0": ("head_learning_rate logit_scale softness", lambda value: value > 0),
    "a number from 0 to below 1": (
        "average_decay dropout english_share start_share",
        lambda value: 0 <= value < 1,
    ),
    "a number from 0 to 1": (
        "soft_share adapter_share damaged_share photo_share",
        lambda value: 0 <= value <= 1,
    ),
    "a number above 0, at most 1": ("least_part least_area", lambda value: 0 < value <= 1),
}


@dataclass
class TowerSettings(LoopSettings):
    """What the recipes of the image tower have in common, besides the settings of the loop.

    Attributes:
        data: Folder of the official files: flickr8k, multi30k, xflickrco, and the sets that are held out.
        photos: Folder of the photos: flickr8k, and COCO's in folders such as coco_train2014.
        texts: Folder of `weights.making.package_texts`.
        coco: Files of captions of COCO's photos: COCO's own annotations, or JSONL rows of photo, caption and
            language.
        sources: Official sources of captions.
        features: Folder of the features; None for one in `out`. Several runs may share it.
        half_precision: Whether random views are computed, and the trunk and the head trained, in bfloat16.
            CPUs that have it take half the time.
        text_encoder: Backbone whose text encoder embeds the captions.
        head_learning_rate: Highest learning rate of what is not the trunk; `learning_rate` is the trunk's.
        average_decay: Decay of the moving average of the weights.
        logit_scale: Factor on cosines in the contrast.
        soft_share: Share of the target that is spread over captions by their similarity to the photo's, from
            0 to 1.
        softness: How sharply it is spread, as a share of `logit_scale`; at 1 as sharply as the contrast.
        pair_weight: Weight of the contrast of each photo's own captions with all pairs of the batch's photos
            and a caption; 0 for none.
        recent: Number of photos of the last steps that captions are contrasted with.
        region_weight: Weight of the contrast of a random region of each photo; 0 for none.
        english_share: Chance that a photo's caption is an English one where it has others too.
        dropout: Dropout in the head, from 0 to below 1.
        name: Name of the model for its card; "" for the name of the folder `out`.
        license: Licence of the weights, as the Hub writes it.
    """

    recipe_name: ClassVar[str] = "image_tower"
    module: ClassVar[str] = "weights.making.image_tower"

    out: str = ""
    data: str = ""
    photos: str = ""
    texts: str = ""
    coco: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=lambda: list(SOURCES))
    features: str | None = None
    half_precision: bool = True
    text_encoder: str = "embedded-free"
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
    name: str = ""
    license: str = "cc-by-nc-4.0"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("data", "photos", "texts", *(["start"] if hasattr(self, "start") else [])):
            if not getattr(self, name).strip():
                raise CapscoreError(f"{name} is missing: give --{name}, a folder; see --help")
        for expected, (names, fits) in _RANGES.items():
            for name in names.split():
                value = getattr(self, name, None)
                require(value is None or fits(value), name, value, expected)
        right = bool(self.sources) and set(self.sources) <= set(SOURCES)
        require(right, "sources", self.sources, f"a list of {', '.join(SOURCES)}")

    @property
    def features_folder(self) -> Path:
        return Path(self.features or Path(self.out) / "features").expanduser()


@dataclass
class ImageTowerSettings(TowerSettings):
    """Settings of the first stage, besides `TowerSettings`.

    Attributes:
        views: Number of views of a photo: the whole photo and random ones.
        least_part: Smallest side of the random part of a view's features that a step reads, as a share of
            theirs; half of the parts are mirrored. 1 for the features as they are.
        train_depthwise: Whether the trunk's depthwise convolutions are trained too. Their gradients take a
            third of a step on a CPU.
        frozen_stages: Number of the trunk's stages, from the first, that are not trained.
        names_weight: Weight of the contrast of each photo with the names of ImageNet's classes, with the
            shares that the trunk as published gives them as the target, by how sure it is; 0 for none.
        adapter_share: Share of the learned text adapter that is kept, from 0 to 1.
    """

    views: int = 4
    least_part: float = 1.0
    train_depthwise: bool = False
    frozen_stages: int = 4
    names_weight: float = 0.0
    adapter_share: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.frozen_stages <= 7, "frozen_stages", self.frozen_stages, "at most 7, all of them")


@dataclass
class SecondStageSettings(TowerSettings):
    """Settings of the second stage, besides `TowerSettings`.

    Attributes:
        start: Folder of the image tower to start from, with its card.
        text_hidden: Width of the hidden layer of the text place.
        text_steps: Steps of the training of the text place, before the tower's.
        frozen_blocks: Number of the trunk's blocks, from the first, that stay as they are, with its stem.
        least_area: Smallest share of a photo's area in the random part of it that a step reads.
        damaged_share: Share of the photos that a step reads rescaled and compressed.
        pool: Number of random captions in a step, besides the two of each photo.
        photo_share: Share of the contrast of photos with captions; that of captions with photos has the rest.
        near_weight: Weight of the right caption over one with a wrong word.
        anchors: Most photos without captions whose similarities to captions stay as at the start.
        anchor_weight: Weight of these similarities; 0 for none.
        start_share: Share of the start's weights in the mean of both that is written.
    """

    module: ClassVar[str] = "weights.making.image_tower.second"

    start: str = ""
    text_hidden: int = 768
    text_steps: int = 1500
    frozen_blocks: int = 2
    least_area: float = 0.35
    damaged_share: float = 0.5
    pool: int = 4096
    photo_share: float = 0.5
    near_weight: float = 0.5
    anchors: int = 1600
    anchor_weight: float = 0.5
    start_share: float = 0.4
