"""Fine-tune a backbone on people's ratings of captions (Gomes et al. 2025, "How far can we get with CLIP",
§3).

    python -m training.human_ratings --config training/configs/ratings_both.yaml --base embedded \
        --data captions.jsonl --ratings rated.jsonl --out runs/rated

In: a backbone, images with captions in many languages (`data`, for the contrast), and rated captions
(`ratings`, for Pearson's correlation). Each step takes one batch of each, never mixed, and sums their
gradients. Out: a folder that `capscore.load_backbone` and `capscore.load(…, backbone=folder)` take, with a
card, the log and the checkpoints of the run. The same command continues an interrupted run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch
from scipy.stats import rankdata

from capscore import load_backbone
from capscore.backbones import tuned
from capscore.backbones.base import Backbone
from capscore.backbones.checkpoint import folder_kind
from capscore.backbones.embedded.backbone import EmbeddedBackbone, save_image_tower
from capscore.benchmarks.protocols.results import counted
from capscore.errors import CapscoreError, Setting
from training.data.batches import AlternatingBatches
from training.data.pictures import Fixed, Pictures
from training.data.rated_batches import ContrastiveBatches, PearsonBatches
from training.data.rated_rows import RatedRows, Role, check_rated
from training.data.rows import CAPTIONS, RATED
from training.data.source import BENCHMARK, Source
from training.data.split import Split
from training.engine.config import main as run_as_command
from training.engine.early_stopping import EarlyStopping
from training.engine.loop import run
from training.engine.loop_settings import require
from training.engine.processes import device, is_main_process, say
from training.engine.ratings_check import HeldOutRatings, RatingsCheck, as_percent, valse_numbers
from training.engine.ratings_loss import RatingsLoss
from training.engine.recipe import (
    NOT_IN_WEIGHTS,
    RecipeSettings,
    Trained,
    file_digests,
    finite,
    own_settings,
    run_recipe,
    write_run,
)
from training.engine.texts import TextSide
from training.engine.trainable_parts import LoraOptions, TowerChoice, TrainedPart

RECIPE = "human_ratings"
# Settings that do not make a run what it is.
_NO_IDENTITY = NOT_IN_WEIGHTS | {
    *("ratings", "validation", "valse", "valse_images", "patience"),
}
# Training captions on which the scale of an eye's cosines is measured.
_SCALE_ROWS = 2000


@dataclass
class Settings(RecipeSettings):
    """Settings of a run, besides those of every recipe.

    Defaults are those of the paper where it states them (Gomes et al. 2025, §3): both losses, one batch of
    each per update. It does not state the others here.

    Attributes:
        data: Files of images with captions (`training.data.rows.file_rows`), or benchmarks such as
            "benchmark:xm3600:test", for the contrast. Not needed if `contrastive_weight` is 0.
        ratings: Files of rated captions. Not needed if `pearson_weight` is 0, but for evaluation.
        validation: Files of rated captions to measure on; [] for the ratings of a share of the images.
        rating_column: Name of the column of ratings, where it is unfamiliar.
        contrastive_weight, pearson_weight: Weights of the two losses; 0 for none.
        ratings_batch_size: Rated captions per step, over all processes; None for `batch_size`, which is the
            number of images per step.
        rank_ratings: Whether each rating gives way to its rank in its file, equal ones to their mean rank;
            not in the paper. Where nearly all ratings are the lowest, the few highest decide r, and ranks do
            not.
        logit_scale: Factor of the cosines in the contrast; None for that of the base.
        towers: Towers to train: "both", "image" or "text".
        layers: Patterns of names of the parameters to train, such as "*.resblocks.11.*", or of linear layers
            with LoRA; [] for all of the towers.
        lora_rank: Rank of LoRA, which is added to the layers in the end; None for training the layers
            themselves.
        lora_alpha, lora_dropout: LoRA's other settings.
        gradient_checkpointing: Whether activations are computed twice instead of kept.
        dropout: Whether the towers' dropout is active in training. Batch norms keep their statistics.
        valse, valse_images: Folders of VALSE's files and photos, to measure its accuracy too; None for not.
        stop_by: Number of the evaluation that chooses the weights to keep, and ends the run with `patience`.
        patience: Number of evaluations without a better one after which the run ends; None never ends it, and
            keeps the last weights.
    """

    needs_data: ClassVar[bool] = False

    epochs: int = 5
    learning_rate: float = 1e-5
    ratings: list[str] = field(default_factory=list)
    validation: list[str] = field(default_factory=list)
    rating_column: str = "rating"
    contrastive_weight: float = 1.0
    pearson_weight: float = 1.0
    ratings_batch_size: int | None = None
    rank_ratings: bool = False
    logit_scale: float | None = None
    towers: TowerChoice = "both"
    layers: list[str] = field(default_factory=list)
    lora_rank: int | None = None
    lora_alpha: float = 16.0
    lora_dropout: float = 0.0
    gradient_checkpointing: bool = False
    dropout: bool = True
    valse: str | None = None
    valse_images: str | None = None
    stop_by: str = "tau_c"
    patience: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("contrastive_weight", "pearson_weight"):
            value = getattr(self, name)
            require(0 <= value < float("inf"), name, value, "a weight of at least 0")
        if not (self.contrastive_weight or self.pearson_weight):
            raise CapscoreError("both losses have weight 0: there is nothing to train for")
        if self.contrastive_weight and not self.data:
            raise CapscoreError(
                "data is missing: images with captions, such as ",
                Setting("data", ["captions.jsonl"]),
                "; or ",
                Setting("contrastive_weight", 0.0),
            )
        if self.pearson_weight and not self.ratings:
            raise CapscoreError(
                "ratings are missing: rated captions, such as ",
                Setting("ratings", ["rated.jsonl"]),
                "; or ",
                Setting("pearson_weight", 0.0),
            )
        size, rank, scale = self.ratings_batch_size, self.lora_rank, self.logit_scale
        require(size is None or size >= 2, "ratings_batch_size", size, "at least 2, or nothing (null)")
        least = 2 if self.ratings_batch_size is None and self.pearson_weight else 1
        require(self.batch_size >= least, "batch_size", self.batch_size, f"at least {least}")
        require(rank is None or rank >= 1, "lora_rank", rank, "at least 1, or nothing (null)")
        require(0 < self.lora_alpha < float("inf"), "lora_alpha", self.lora_alpha, "a number above 0")
        require(0 <= self.lora_dropout < 1, "lora_dropout", self.lora_dropout, "a share from 0 to below 1")
        require(
            scale is None or 0 < scale < float("inf"), "logit_scale", scale, "a number above 0, or nothing"
        )
        patience = self.patience
        require(patience is None or patience >= 1, "patience", patience, "at least 1, or nothing (null)")
        if self.accumulation_steps != 1:
            raise CapscoreError(
                Setting("accumulation_steps", self.accumulation_steps),
                ": a correlation and a contrast need their whole batch; to save memory, ",
                Setting("gradient_checkpointing", True),
            )
        if self.valse_images is not None and self.valse is None:
            raise CapscoreError(Setting("valse_images"), " goes with ", Setting("valse"))

    @property
    def lora(self) -> LoraOptions | None:
        """LoRA's settings; None without LoRA."""
        rank = self.lora_rank
        return None if rank is None else LoraOptions(rank, self.lora_alpha, self.lora_dropout)

    @property
    def sources(self) -> dict[Role, list[Source]]:
        """The files and benchmarks by what they are for."""
        data = [Source(spec, self, CAPTIONS) for spec in (self.data if self.contrastive_weight else [])]
        rated = partial(Source, settings=self, cells=RATED, rating_column=self.rating_column)
        return {
            "data": data,
            "ratings": [rated(spec) for spec in self.ratings],
            "validation": [rated(spec) for spec in self.validation],
        }


def train(settings: Settings, *, command: str = "") -> Trained:
    """Run the recipe: read, split, train, measure, save.

    Args:
        settings: Settings of the run.
        command: Command on the card that trains the weights again; "" for one with the run's own settings
            file.

    Returns:
        The outcome; its numbers are those of `RatingsCheck`, compared with the base.

    Raises:
        CapscoreError, InputError: malformed data or settings; a loss that is not finite names its batch.
        BackboneUnavailable: the base is not available.
        MissingExtraError: LoRA without peft.
    """
    out = Path(settings.out).expanduser()
    if (out / tuned.WEIGHTS).is_file() and folder_kind(out) not in ("tuned", "embedded"):
        raise CapscoreError(f"{out} has the weights of another model: give another folder as out")
    backbone = load_backbone(settings.base, device=device(), dtype="float32")
    origin = f"{backbone.name}@{backbone.revision}"
    sources = settings.sources
    for source in sources["data"]:  # a bad row ends a run in its first seconds
        for _ in source.rows():
            pass
    for source in (*sources["ratings"], *sources["validation"]):
        check_rated(source)
    part = TrainedPart(
        backbone, towers=settings.towers, layers=settings.layers, lora=settings.lora, seed=settings.seed
    )
    if settings.gradient_checkpointing:
        part.checkpoint_gradients(backbone.name)
    pictures = Pictures(backbone, _fixed(part), out if out.is_dir() else None)
    rows = RatedRows(sources, pictures)
    split = rows.given_split() if sources["validation"] else settings.split(rows)
    texts = TextSide(backbone)
    check = _check(settings, rows, split, pictures, texts)

    def with_valse(numbers: dict[str, float]) -> dict[str, float]:
        files, photos = settings.valse, settings.valse_images
        return numbers if files is None else {**numbers, **valse_numbers(backbone, files, photos)}

    base = {} if check is None else with_valse(check.base_numbers)
    n_measured = check.n if check else 0
    replaced = f", {pictures.n_stand_ins:,} of them replaced by texts" if pictures.n_stand_ins else ""
    images = counted(len(pictures.keys), "image") + replaced
    say(f"{split.described(n_measured)}; {images}; {part.n_trained:,} trained numbers")

    part.train(settings.dropout or settings.gradient_checkpointing)
    scale = backbone.logit_scale if settings.logit_scale is None else settings.logit_scale
    weights = {name: getattr(settings, name) for name in ("contrastive_weight", "pearson_weight")}
    cosine = _mean_cosine(texts, pictures, rows, split)
    result = run(
        part.network,
        _batches(settings, rows, split),
        RatingsLoss(pictures, texts, logit_scale=scale, **weights),
        settings,
        evaluate=None if check is None else lambda model, step: with_valse(check()),
        identity={
            **own_settings(settings, _NO_IDENTITY),
            "base_fingerprint": backbone.fingerprint,
            "training_data": rows.digest(split.training),
        },
        early_stopping=None
        if settings.patience is None
        else EarlyStopping(settings.stop_by, settings.patience),
    )
    part.network.eval()
    trained = Trained(out, result, result.evaluation, base, len(split.training), len(split.validation))
    if result.finished and is_main_process():
        if check is not None:
            say(f"before: {as_percent(base)}; after: {as_percent(result.evaluation)}")
        part.merge()
        now = _mean_cosine(texts, pictures, rows, split)
        w = (backbone.w or 1.0) * (cosine / now if cosine > 0 and now > 0 else 1.0)
        _save(settings, trained, backbone, part, origin, w)
        _write(settings, trained, sources, rows, split, pictures, scale, n_measured, command)
    return trained


def _fixed(part: TrainedPart) -> Fixed:
    """What of an image training does not change."""
    if not part.trains_images:
        return "embedding"
    return "map" if part.behind_map else "pixels"


def _batches(settings: Settings, rows: RatedRows, split: Split) -> AlternatingBatches:
    """A batch of each loss in turn."""
    found: list[ContrastiveBatches | PearsonBatches] = []
    seed, size = settings.seed, settings.batch_size
    if settings.contrastive_weight:
        chosen = split.training[rows.of_role("data")[split.training]].tolist()
        shown = [rows.rows[row] for row in chosen]
        captions, languages = [row.caption for row in shown], [row.language for row in shown]
        images = rows.image[chosen].tolist()
        found.append(ContrastiveBatches(images, captions, languages, batch_size=size, seed=seed))
    if settings.pearson_weight:
        rated = []
        for _, images, own in rows.parts("ratings", split.training):
            ratings = [row.rating for row in own]
            learned = rankdata(ratings).tolist() if settings.rank_ratings else ratings
            rated.append((images, [row.caption for row in own], learned))
        size = settings.ratings_batch_size or size
        found.append(PearsonBatches(rated, batch_size=size, seed=seed))
    return AlternatingBatches(found)


def _check(
    settings: Settings, rows: RatedRows, split: Split, pictures: Pictures, texts: TextSide
) -> RatingsCheck | None:
    """The check of the held-out ratings, in the main process; None without any."""
    held_out = [
        HeldOutRatings(
            Path(spec).stem,
            images,
            [row.caption for row in own],
            [row.language for row in own],
            [row.rating for row in own],
        )
        for role in ("ratings", "validation")
        for spec, images, own in rows.parts(role, split.validation)
    ]
    if any(part.captions for part in held_out):
        return RatingsCheck(held_out, pictures, texts) if is_main_process() else None
    if settings.patience is not None:
        raise CapscoreError(
            Setting("patience", settings.patience),
            " needs ratings to measure on: a validation_share above 0, or files as ",
            Setting("validation"),
        )
    return None


def _mean_cosine(texts: TextSide, pictures: Pictures, rows: RatedRows, split: Split) -> float:
    """Mean cosine of some training captions and their pictures; 0 where no factor w depends on it."""
    if not isinstance(pictures.backbone, EmbeddedBackbone):
        return 0.0
    chosen = split.training[:: max(1, len(split.training) // _SCALE_ROWS)].tolist()
    images = pictures.embedded(rows.image[chosen].tolist())
    with torch.no_grad():
        captions = texts([rows.rows[row].caption for row in chosen]).cpu().numpy()
    return float((images * captions).sum(axis=1).mean())


def _save(
    settings: Settings, trained: Trained, backbone: Backbone, part: TrainedPart, origin: str, w: float
) -> None:
    """Write the weights; `w` is the factor of an image tower, with which scores are as large as before."""
    numbers = finite({"this": trained.evaluation, "base": trained.base})
    notes = {"base": settings.base, "best_step": trained.run.best_step, "validation": numbers}
    if isinstance(backbone, EmbeddedBackbone):
        save_image_tower(
            backbone.image,
            trained.folder,
            w=w,
            logit_scale=backbone.logit_scale,
            languages=backbone.languages,
            recipe=RECIPE,
            rated_from=origin,
            notes=notes,
        )
        return
    tuned.save_tuned(
        backbone,
        trained.folder,
        base=load_backbone(settings.base, device="cpu", dtype="float32"),
        base_spec=settings.base,
        recipe=RECIPE,
        notes=notes,
        dtype=settings.stored_dtype,
        towers=part.saved,
        rated_from=origin,
    )


def _write(
    settings: Settings,
    trained: Trained,
    sources: Mapping[Role, Sequence[Source]],
    rows: RatedRows,
    split: Split,
    pictures: Pictures,
    scale: float,
    n_measured: int,
    command: str,
) -> None:
    """Write the card and the result."""
    specs = [source.spec for listed in sources.values() for source in listed]
    limitation = (
        f"{pictures.n_stand_ins:,} of the {len(pictures.keys):,} images were not available: other captions "
        "of the photo stood in for each, by their mean embedding in the base's own text tower."
    )
    write_run(
        settings,
        trained,
        recipe=RECIPE,
        command=command,
        languages=sorted({rows.rows[row].language for row in split.training.tolist()}),
        shown={**asdict(settings), "logit_scale": scale},
        sources=[*sources["data"], *sources["ratings"]],
        split=split,
        images="images",
        n_measured=n_measured,
        missing="tau_c",
        limitations=[limitation] if pictures.n_stand_ins else [],
        not_measured=[] if n_measured else ["Agreement with human ratings."],
        summary={
            "data": file_digests([spec for spec in specs if not spec.startswith(BENCHMARK)]),
            "best_step": trained.run.best_step,
            **finite({"this": trained.evaluation, "base": trained.base}),
        },
    )


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    run_recipe("training.human_ratings", Settings, train, argv, "Fine-tune a backbone on human ratings.")


if __name__ == "__main__":
    run_as_command(main)
