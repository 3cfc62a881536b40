"""Fine-tune a backbone on people's ratings of captions (Gomes et al. 2025, §3).

    python -m training.human_ratings --config training/configs/ratings_both.yaml --base embedded \
        --data captions.jsonl --ratings rated.jsonl --out runs/rated

In: a backbone, images with captions in many languages (`data`, for the contrast), and rated captions
(`ratings`, for Pearson's correlation). Each step takes one batch of each, never mixed, and sums their
gradients. Out: a folder that `capscore.load_backbone` and `capscore.load(…, backbone=folder)` take, with a
card, the log and the checkpoints of the run. The same command continues an interrupted run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch

from capscore import load_backbone
from capscore.backbones.embedded.backbone import EmbeddedBackbone
from capscore.errors import CapscoreError
from training.data.batches import AlternatingBatches
from training.data.pictures import TrainedPictures
from training.data.rated import ContrastiveBatches, PearsonBatches, RatedRows, Role
from training.data.rows import CAPTIONS, RATED
from training.data.source import Source, rows_of
from training.data.split import Split
from training.engine import recipe
from training.engine.config import main as run_as_command
from training.engine.early_stopping import EarlyStopping
from training.engine.loop_settings import ABOVE_ZERO, require, require_range
from training.engine.processes import device, is_main_process
from training.engine.ratings import RatingsCheck, RatingsLoss
from training.engine.texts import TextSide
from training.engine.trainable_parts import PartSettings, TrainedPart

_SCALE_ROWS = 2000  # training captions on which the scale of an image tower's cosines is measured


@dataclass
class Settings(PartSettings, recipe.RecipeSettings):
    """Settings of a run, besides those of every recipe and of the part that is trained.

    Defaults are those of the paper where it states them (Gomes et al. 2025, §3): both losses, one batch of
    each per update. It does not state the others here.

    Attributes:
        data: Files of images with captions, or benchmarks; not needed if `contrastive_weight` is 0.
        ratings: Files of rated captions. Not needed if `pearson_weight` is 0, but for evaluation.
        validation: Files of rated captions to measure on; [] for the ratings of a share of the images.
        contrastive_weight, pearson_weight: Weights of the two losses; 0 for none.
        logit_scale: Factor of the cosines in the contrast; None for that of the base.
        stop_by: Number of the evaluation that chooses the weights to keep, and ends the run with `patience`.
        patience: Number of evaluations without a better one after which the run ends; None never ends it, and
            keeps the last weights.
    """

    recipe_name: ClassVar[str] = "human_ratings"
    module: ClassVar[str] = "training.human_ratings"
    not_in_weights: ClassVar[frozenset[str]] = recipe.RecipeSettings.not_in_weights | {
        *("ratings", "validation", "patience")
    }
    needs_data: ClassVar[bool] = False

    epochs: int = 5
    learning_rate: float = 1e-5
    ratings: list[str] = field(default_factory=list)
    validation: list[str] = field(default_factory=list)
    contrastive_weight: float = 1.0
    pearson_weight: float = 1.0
    logit_scale: float | None = None
    stop_by: str = "tau_c"
    patience: int | None = None

    def __post_init__(self) -> None:
        recipe.RecipeSettings.__post_init__(self)
        PartSettings.__post_init__(self)
        weights = ["contrastive_weight", "pearson_weight"]
        require_range(self, weights, 0, math.inf, "a weight of at least 0")
        if self.pearson_weight:
            require_range(self, ["batch_size"], 2, math.inf, "at least 2")
        require_range(self, ["logit_scale"], ABOVE_ZERO, math.inf, "a number above 0, or nothing (null)")
        require_range(self, ["patience"], 1, math.inf, "at least 1, or nothing (null)")
        if not (self.contrastive_weight or self.pearson_weight):
            raise CapscoreError("both losses have weight 0: there is nothing to train for")
        data, ratings = bool(self.data), bool(self.ratings)
        require(data or not self.contrastive_weight, "data", [], "images with captions to contrast")
        require(ratings or not self.pearson_weight, "ratings", [], "rated captions")


def train(settings: Settings) -> recipe.Trained:
    """Run the recipe: read, split, train, measure (`RatingsCheck`, compared with the base), save."""
    out = recipe.run_folder(settings)
    backbone = load_backbone(settings.base, device=device(), dtype="float32")
    sources = _sources(settings)
    part = TrainedPart(backbone, settings, seed=settings.seed)
    pictures, texts = TrainedPictures(backbone, part.fixed), TextSide(backbone)
    rows = RatedRows(sources, pictures)
    measured = rows.of("validation") if settings.validation else None
    split = settings.split(rows.captions.photos, measured=measured)
    if not settings.pearson_weight:  # then ratings are measured, but not trained on
        split = replace(split, training=split.training[rows.of("data")[split.training]])
    rows.check(split)
    check = _check(settings, rows, split, pictures, texts)
    images = rows.captions.images_in_words()
    recipe.say_data(split, check, images, f"{part.n_trained:,} trained numbers")

    part.train()
    cosine = _mean_cosine(texts, pictures, rows, split)
    batches = _batches(settings, rows, split)
    scale = settings.logit_scale or backbone.logit_scale
    loss = RatingsLoss(pictures, texts, scale, settings.contrastive_weight, settings.pearson_weight)
    stopping = None if settings.patience is None else EarlyStopping(settings.stop_by, settings.patience)
    digest = rows.captions.digest(split.training, rows.file)
    trained = recipe.run_measured(
        settings,
        part.network,
        batches,
        loss,
        split=split,
        check=check,
        identity={"base_fingerprint": backbone.fingerprint, "training_data": digest},
        early_stopping=stopping,
    )
    if trained.finished and is_main_process():
        part.merge()
        now = _mean_cosine(texts, pictures, rows, split)
        notes = {"base": settings.base, "best_step": trained.run.best_step, "validation": trained.numbers}
        w = cosine / now if cosine > 0 and now > 0 else 1.0  # scores stay as large as they were
        dtype = settings.stored_dtype
        part.save(out, settings.base, recipe=settings.recipe_name, notes=notes, dtype=dtype, w=w)
        recipe.write_run(
            settings,
            trained,
            languages=rows.captions.languages(split.training),
            sources=[*sources["data"], *(sources["ratings"] if settings.pearson_weight else [])],
            shown={"logit_scale": scale},
            limitations=rows.captions.limitations(),
            not_measured=() if trained.n_measured else ["Agreement with human ratings."],
        )
    return trained


def _sources(settings: Settings) -> dict[Role, list[Source]]:
    """The files and benchmarks by what they are for, each read once: a bad row ends a run early."""
    sources: dict[Role, list[Source]] = {
        "data": [Source(spec, settings, CAPTIONS) for spec in settings.data if settings.contrastive_weight],
        "ratings": [Source(spec, settings, RATED) for spec in settings.ratings],
        "validation": [Source(spec, settings, RATED) for spec in settings.validation],
    }
    for listed in sources.values():
        for _ in rows_of(listed):
            pass
    return sources


def _batches(settings: Settings, rows: RatedRows, split: Split) -> AlternatingBatches:
    found: list[ContrastiveBatches | PearsonBatches] = []
    seed, size = settings.seed, settings.batch_size
    if settings.contrastive_weight:
        shown = ContrastiveBatches([*rows.parts("data", split.training)], batch_size=size, seed=seed)
        found.append(shown)
    if settings.pearson_weight:
        rated = list(rows.parts("ratings", split.training))
        found.append(PearsonBatches(rated, batch_size=size, seed=seed))
    return AlternatingBatches(found)


def _check(
    settings: Settings, rows: RatedRows, split: Split, pictures: TrainedPictures, texts: TextSide
) -> RatingsCheck | None:
    """The check of the held-out ratings, in the main process; None without any."""
    held_out = [*rows.parts("ratings", split.validation), *rows.parts("validation", split.validation)]
    if not any(part.rows for part in held_out):
        needed = "ratings to measure on, by validation_share or validation"
        require(settings.patience is None, "patience", settings.patience, needed)
        return None
    return RatingsCheck(held_out, pictures, texts) if is_main_process() else None


def _mean_cosine(texts: TextSide, pictures: TrainedPictures, rows: RatedRows, split: Split) -> float:
    """Mean cosine of some training captions and their pictures; 0 where no factor w depends on it."""
    if not isinstance(pictures.backbone, EmbeddedBackbone):
        return 0.0
    chosen = split.training[:: max(1, len(split.training) // _SCALE_ROWS)].tolist()
    images = pictures.embedded(rows.captions.image[chosen].tolist())
    with torch.no_grad():
        captions = texts([rows.captions.rows[row].caption for row in chosen]).cpu().numpy()
    return float((images * captions).sum(axis=1).mean())


def main(argv: Sequence[str] | None = None) -> None:
    recipe.run_recipe(Settings, train, argv, "Fine-tune a backbone on human ratings.")


if __name__ == "__main__":
    run_as_command(main, Settings)
