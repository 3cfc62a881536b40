"""Train InfoMetIC's network on the embeddings of a frozen backbone (Hu et al. 2023, §3.2).

    python -m training.infometic --config training/configs/infometic.yaml --base embedded \
        --data benchmark:flickr30k_entities:train --data_dir flickr30k_entities --image_dir flickr30k_images \
        --out runs/infometic

In: a backbone, and captions with their images, or with texts that stand in for images. Out: a folder that
`capscore.load("infometic", weights=folder)` takes, with a card, the log and the checkpoints of the run, and
the features, which are computed once. The same command continues an interrupted run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
import torch
import xxhash

from capscore import load_backbone
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, InputError, Setting
from capscore.infometic.network import INFO_CLIP, InfoMetIC, InfoMetICConfig, load_aligner
from capscore.tables import counted
from training.data.alignment_batches import TASKS, WITHOUT, AlignmentBatches
from training.data.alignment_data import AlignmentData
from training.data.alignment_features import FeatureOptions, prepare
from training.data.rows import ALIGNED, Row
from training.data.source import Source, rows_of
from training.engine import recipe
from training.engine.alignment_check import AlignmentCheck
from training.engine.config import main as run_as_command
from training.engine.infometic_losses import AlignmentLoss
from training.engine.loop_settings import require, require_range
from training.engine.processes import device, is_main_process, main_process_first, say

FEATURES = "features"
# Settings with which a CPU takes seconds per step, and training captions below which it does anyway.
FOR_A_CPU = "--negatives 4 --batch_size 16 --width 256 --heads 4 --intra_layers 1 --inter_layers 1"
_SMALL = 16
# What changes a trained network by the check of its validation pairs.
Finish = Callable[[InfoMetIC, AlignmentCheck], None]


@dataclass
class Settings(recipe.RecipeSettings):
    """Settings of a run, besides those of every recipe.

    Defaults are those of the paper where it states them (Hu et al. 2023, §3, §4.1). It does not state the
    weights of the losses, which are all 1 here, weight decay, schedule, clipping, and when a detected region
    counts as the box of a phrase.

    Attributes:
        tasks: Tasks of the steps, in turn: "coarse", "text" or "vision".
        negatives: Number of other captions in a batch that an image is compared with, and of other images
            for a caption; None for all, as published. Fewer take less time.
        hard_negatives: Whether captions that say less about an image are hard negatives in coarse steps.
        regions: Finder of regions, as `capscore.infometic.regions.load_finder` takes it: "windows"; "given"
            for the boxes of the rows.
        n_regions: Maximum number of regions per image.
        max_tokens: Maximum number of pieces per text.
        pollutions: Number of polluted captions per pair.
        width, heads, intra_layers, inter_layers: The network, as in
            `capscore.infometic.network.InfoMetICConfig`, whose others are the paper's.
    """

    recipe_name: ClassVar[str] = "infometic"
    module: ClassVar[str] = "training.infometic"

    validation_share: float = 0.05
    max_steps: int | None = 32_000
    batch_size: int = 32
    learning_rate: float = 1e-4
    tasks: list[str] = field(default_factory=lambda: [*3 * ["coarse"], "text", *3 * ["coarse"], "vision"])
    negatives: int | None = None
    hard_negatives: bool = True
    regions: str = "windows"
    n_regions: int = 20
    max_tokens: int = 32
    pollutions: int = 1
    width: int | None = None
    heads: int = 16
    intra_layers: int = 4
    inter_layers: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        right = bool(self.tasks) and all(task in TASKS for task in self.tasks)
        require(right, "tasks", self.tasks, f"a list of {', '.join(TASKS)}")
        require_range(self, ["negatives"], 1, math.inf, "at least 1, or nothing (null) for all")
        if "text" in self.tasks and not self.pollutions:
            raise CapscoreError(
                Setting("pollutions", 0), ", but tasks has 'text', which needs polluted captions"
            )
        _ = self.network(512), self.features

    def network(self, dim: int) -> InfoMetICConfig:
        return InfoMetICConfig(dim=dim, **shared_with(self, InfoMetICConfig))

    @property
    def features(self) -> FeatureOptions:
        return FeatureOptions(**shared_with(self, FeatureOptions))


def shared_with(settings: Settings, others: type) -> dict[str, Any]:
    """The settings that another dataclass has too."""
    names = {known.name for known in fields(others)} & {known.name for known in fields(settings)}
    return {name: getattr(settings, name) for name in names}


def train(
    settings: Settings,
    *,
    prepare: Callable[..., AlignmentData] = prepare,
    batches: Callable[..., AlignmentBatches] = AlignmentBatches,
    loss: Callable[..., AlignmentLoss] = AlignmentLoss,
    finish: Finish | None = None,
) -> recipe.Trained:
    """Run the recipe: read, compute features, split, train, measure, save.

    It is measured by `AlignmentCheck`, as is InfoCLIP, the baseline without parameters. `prepare`, `batches`
    and `loss` stand in place of the paper's; `finish` changes the network before it is measured.
    """
    out = recipe.run_folder(settings)
    backbone = load_backbone(settings.base, device=device(), dtype="float32")
    sources = [Source(spec, settings, ALIGNED) for spec in settings.data]
    with main_process_first():  # the others find the features
        embedder = Embedder(backbone, cache=EmbeddingCache(None))
        data = prepare(_rows(settings, sources), embedder, settings.features, out / FEATURES)
    split = settings.split(data.photos)
    drawn = batches(
        data,
        split.training,
        tasks=settings.tasks,
        batch_size=settings.batch_size,
        hard_negatives=settings.hard_negatives,
        seed=settings.seed,
    )
    check = None
    if len(split.validation) and is_main_process():
        check = AlignmentCheck(data, split.validation, seed=settings.seed)
        check.base_numbers = check(load_aligner(INFO_CLIP, backbone)[0])
    images, regions = counted(len(data.image_vector), "image"), counted(len(data.regions.flat), "region")
    if device() == "cpu" and settings.negatives is None and split.training.size > _SMALL:
        say(f"on a CPU, a step with the paper's settings takes minutes; seconds with {FOR_A_CPU}")
    recipe.say_data(split, check, f"{images} with {regions}")

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = InfoMetIC(settings.network(backbone.dim).on(backbone)).train()
    identity = {
        "base_fingerprint": backbone.fingerprint,
        "features_digest": data.digest,
        "training_pairs": xxhash.xxh3_128_hexdigest(np.ascontiguousarray(split.training).tobytes()),
    }
    minimised = loss(data, negatives=settings.negatives, hard_negatives=settings.hard_negatives)
    trained = recipe.run_measured(
        settings, model, drawn, minimised, split=split, check=check, measured=[model], identity=identity
    )
    if trained.finished and is_main_process():
        if finish is not None and check is not None:
            finish(model, check)
            trained = replace(trained, evaluation=check(model))
        _save(settings, trained, model, data, sources)
    return trained


def _rows(settings: Settings, sources: Sequence[Source]) -> list[Row]:
    """The rows of all sources, if the tasks can be trained on them."""
    rows = list(rows_of(sources))
    # which captions can be polluted, and which regions are found, is known only afterwards
    mentions = any(row.mentioned is not None and (row.boxes or row.region_texts) for row in rows)
    if "vision" in settings.tasks and not mentions:
        raise InputError(WITHOUT["vision"], field="tasks")
    return rows


def _save(
    settings: Settings,
    trained: recipe.Trained,
    model: InfoMetIC,
    data: AlignmentData,
    sources: Sequence[Source],
) -> None:
    languages = sorted(set(data.pair_language[trained.split.training].tolist()))
    notes = {
        "recipe": settings.recipe_name,
        "languages": languages,
        "regions": settings.regions,
        "steps": trained.run.step,
        "validation": trained.numbers,
    }
    model.save_pretrained(trained.folder, dtype=settings.stored_dtype, notes=notes)
    more = {"features": data.digest}
    recipe.write_run(settings, trained, languages=languages, sources=sources, more=more)


def main(argv: Sequence[str] | None = None) -> None:
    recipe.run_recipe(Settings, train, argv, "Train InfoMetIC's network.")


if __name__ == "__main__":
    # Gradients of words that are almost surely right become so small that a CPU takes many times as long.
    # This is a state of the process, so `main` leaves it alone.
    torch.set_flush_denormal(True)
    run_as_command(main, Settings)
