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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import xxhash
from scipy.stats import rankdata

from capscore import load_backbone
from capscore.backbones import tuned
from capscore.backbones.base import Backbone
from capscore.backbones.checkpoint import folder_kind
from capscore.backbones.embedded.backbone import EmbeddedBackbone, save_image_tower
from capscore.benchmarks.protocols.results import counted
from capscore.errors import CapscoreError, InputError, Setting
from training.data.batches import AlternatingBatches
from training.data.caption_source import BENCHMARK, CaptionSource
from training.data.origin import Origin
from training.data.pictures import Pictures
from training.data.rated_batches import ContrastiveBatches, PearsonBatches
from training.data.rated_rows import RatedRow, from_captions, rated_file_rows
from training.data.split import Split
from training.engine.config import main as run_as_command
from training.engine.early_stopping import EarlyStopping
from training.engine.loop import run
from training.engine.loop_settings import require
from training.engine.processes import device, is_main_process, say
from training.engine.ratings_check import HeldOutRatings, RatingsCheck, as_percent
from training.engine.ratings_loss import RatingsLoss, TextSide
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
from training.engine.trainable_parts import LoraOptions, TowerChoice, TrainedPart
from training.engine.valse_check import valse_numbers

RECIPE = "human_ratings"
# Settings that do not make a run what it is.
_NO_IDENTITY = NOT_IN_WEIGHTS | {
    "ratings",
    "validation",
    "data_dir",
    "valse",
    "valse_images",
    "patience",
    "shard_layers",
}
# Training captions on which the scale of an eye's cosines is measured.
_SCALE_ROWS = 2000


@dataclass
class Settings(RecipeSettings):
    """Settings of a run, besides those of every recipe.

    Defaults are those of the paper where it states them (Gomes et al. 2025, §3): both losses, one batch of
    each per update. It does not state the others here.

    Attributes:
        data: Files of images with captions (`training.data.caption_rows.file_rows`), or benchmarks such as
            "benchmark:xm3600:test", for the contrast. Not needed if `contrastive_weight` is 0.
        ratings: Files of rated captions (`training.data.rated_rows.rated_file_rows`). Not needed if
            `pearson_weight` is 0, but for evaluation.
        validation: Files of rated captions to measure on; [] for the ratings of a share of the images.
        data_dir: Folder of the benchmarks' files, or of folders named as the benchmarks.
        image_column, candidate_column, language_column, rating_column: Names of columns, where they are
            unfamiliar.
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
        shard_layers: Whether the processes share the layers' weights among them instead of holding all of
            them each (FSDP). `ACCELERATE_USE_FSDP`, which accelerate's launcher sets, says so too.
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
    data_dir: str | None = None
    image_column: str | None = None
    candidate_column: str | None = None
    language_column: str | None = None
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
    shard_layers: bool = False
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
        return (
            None
            if self.lora_rank is None
            else LoraOptions(self.lora_rank, self.lora_alpha, self.lora_dropout)
        )


@dataclass(eq=False)
class _Rows:
    """All captions: those for the contrast, the rated ones, and the rated ones to measure on.

    Attributes:
        rows: The captions, without what they show.
        image: int64 (n,), number of each caption's picture.
        source: int64 (n,), number of each caption's file among `sources`.
        keys: Content key of each picture.
    """

    rows: list[RatedRow]
    image: np.ndarray
    source: np.ndarray
    keys: list[str]

    @property
    def names(self) -> list[tuple[str, ...]]:
        """Names of each caption's image."""
        return [row.names for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, source: int, chosen: np.ndarray) -> tuple[list[int], list[RatedRow]]:
        """Pictures and rows of a file among the chosen captions."""
        kept = chosen[self.source[chosen] == source].tolist()
        return self.image[kept].tolist(), [self.rows[row] for row in kept]


class _Source(Origin):
    """A file of captions, rated or not."""

    def __init__(self, spec: str, settings: Settings, kind: str):
        self.caption_source = None
        if kind == "data":
            self.caption_source = settings_source(spec, settings)
        super().__init__(spec, Path(spec).name, settings.data_license)
        self.spec, self.settings, self.kind = spec, settings, kind

    def rows(self) -> Iterator[RatedRow]:
        settings = self.settings
        if self.caption_source is not None:
            yield from self.counted(from_captions(self.caption_source.rows()))
            return
        yield from self.counted(
            rated_file_rows(
                Path(self.spec).expanduser(),
                images=settings.image_dir,
                language=settings.language,
                image_column=settings.image_column,
                candidate_column=settings.candidate_column,
                language_column=settings.language_column,
                rating_column=settings.rating_column,
            )
        )


def settings_source(spec: str, settings: Settings) -> CaptionSource:
    """A file or a benchmark for the contrast."""
    return CaptionSource(
        spec,
        license=settings.data_license,
        language=settings.language,
        image_dir=settings.image_dir,
        data_dir=settings.data_dir,
        image_column=settings.image_column,
        candidate_column=settings.candidate_column,
        language_column=settings.language_column,
    )


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
    sources = _sources(settings)
    for source in sources:  # a bad row ends a run in its first seconds
        for _ in source.rows():
            pass
    part = TrainedPart(
        backbone, towers=settings.towers, layers=settings.layers, lora=settings.lora, seed=settings.seed
    )
    if settings.gradient_checkpointing:
        part.checkpoint_gradients(backbone.name)
    kept = "pixels" if part.trains_images else "embedding"
    if part.trains_images and part.behind_map:
        kept = "map"
    pictures = Pictures(backbone, kept, out if out.is_dir() else None)
    rows = _read(sources, pictures)
    split = _split(settings, rows, sources)
    batches = AlternatingBatches(list(_batches(settings, rows, sources, split).values()))

    check, texts = None, TextSide(backbone)
    held_out = _held_out(rows, sources, split)
    if is_main_process() and any(part.captions for part in held_out):
        check = RatingsCheck(held_out, pictures, texts)
    if settings.patience is not None and not any(part.captions for part in held_out):
        raise CapscoreError(
            Setting("patience", settings.patience),
            " needs ratings to measure on: a validation_share above 0, or files as ",
            Setting("validation"),
        )
    base_numbers = {} if check is None else {**check.base_numbers, **_valse(settings, backbone)}
    say(_described(rows, sources, split, pictures, part, check))

    part.train(settings.dropout or settings.gradient_checkpointing)
    scale = backbone.logit_scale if settings.logit_scale is None else settings.logit_scale
    before = _mean_cosine(texts, pictures, rows, split) if isinstance(backbone, EmbeddedBackbone) else None
    result = run(
        part.network,
        batches,
        RatingsLoss(
            pictures,
            texts,
            logit_scale=scale,
            contrastive_weight=settings.contrastive_weight,
            pearson_weight=settings.pearson_weight,
        ),
        settings,
        evaluate=None if check is None else lambda model, step: {**check(), **_valse(settings, backbone)},
        identity=_identity(settings, backbone, rows, split),
        early_stopping=None
        if settings.patience is None
        else EarlyStopping(settings.stop_by, settings.patience),
        shard_layers=settings.shard_layers,
    )
    part.network.eval()
    trained = Trained(
        folder=out,
        run=result,
        evaluation=result.evaluation,
        base=base_numbers,
        n_training=len(split.training),
        n_validation=len(split.validation),
    )
    if not (result.finished and is_main_process()):
        return trained
    if check is not None:
        say(f"before: {as_percent(base_numbers)}; after: {as_percent(result.evaluation)}")

    part.merge()
    languages = sorted({rows.rows[row].language for row in split.training.tolist()})
    numbers = finite({"this": trained.evaluation, "base": trained.base})
    notes = {"base": settings.base, "best_step": result.best_step, "validation": numbers}
    if isinstance(backbone, EmbeddedBackbone):
        now = _mean_cosine(texts, pictures, rows, split)
        save_image_tower(
            backbone.image,
            out,
            w=backbone.w * before / now if before > 0 and now > 0 else backbone.w,
            logit_scale=backbone.logit_scale,
            languages=backbone.languages,
            recipe=RECIPE,
            rated_from=origin,
            notes=notes,
        )
    else:
        tuned.save_tuned(
            backbone,
            out,
            base=load_backbone(settings.base, device="cpu", dtype="float32"),
            base_spec=settings.base,
            recipe=RECIPE,
            notes=notes,
            dtype=settings.stored_dtype,
            towers=part.saved,
            rated_from=origin,
        )
    write_run(
        settings,
        trained,
        recipe=RECIPE,
        command=command,
        languages=languages,
        shown={**asdict(settings), "logit_scale": scale},
        sources=[source for source in sources if source.kind != "validation"],
        split=split,
        images="images",
        n_measured=check.n if check else 0,
        missing="tau_c",
        limitations=_limitations(pictures),
        not_measured=[] if check else ["Agreement with human ratings."],
        summary={
            "data": file_digests(
                [s.spec for s in sources if not s.spec.startswith(BENCHMARK)],
            ),
            "best_step": result.best_step,
            **numbers,
        },
    )
    return trained


def _sources(settings: Settings) -> list[_Source]:
    listed = [
        *(("data", spec) for spec in (settings.data if settings.contrastive_weight else [])),
        *(("ratings", spec) for spec in settings.ratings),
        *(("validation", spec) for spec in settings.validation),
    ]
    return [_Source(spec, settings, kind) for kind, spec in listed]


def _read(sources: Sequence[_Source], pictures: Pictures) -> _Rows:
    rows: list[RatedRow] = []
    image: list[int] = []
    source_of: list[int] = []
    for number, source in enumerate(sources):
        own = list(source.rows())
        image += pictures.add(own)
        rows += own
        source_of += [number] * len(own)
    pictures.finish()
    return _Rows(rows, np.array(image, dtype=np.int64), np.array(source_of, dtype=np.int64), pictures.keys)


def _split(settings: Settings, rows: _Rows, sources: Sequence[_Source]) -> Split:
    """Captions to train on and to measure on; no picture is on both sides."""
    given = np.array([source.kind == "validation" for source in sources], dtype=bool)
    if not given.any():
        return settings.split(rows)
    held = given[rows.source]
    shared = set(rows.image[held].tolist()) & set(rows.image[~held].tolist())
    if shared:
        row = next(n for n in np.flatnonzero(~held).tolist() if int(rows.image[n]) in shared)
        raise InputError(
            f"{rows.rows[row].place}: its picture is one of the {len(shared):,} that are measured on too, by "
            f"{rows.rows[int(np.flatnonzero(held & (rows.image == rows.image[row]))[0])].place}. "
            "Remove it from one of the two",
            field="validation",
        )
    return Split(np.flatnonzero(~held), np.flatnonzero(held), 0, 0)


def _batches(
    settings: Settings, rows: _Rows, sources: Sequence[_Source], split: Split
) -> Mapping[str, ContrastiveBatches | PearsonBatches]:
    found: dict[str, ContrastiveBatches | PearsonBatches] = {}
    if settings.contrastive_weight:
        parts = [rows.of(n, split.training) for n, source in enumerate(sources) if source.kind == "data"]
        shown = [
            (picture, row) for pictures, own in parts for picture, row in zip(pictures, own, strict=True)
        ]
        found["contrastive"] = ContrastiveBatches(
            [picture for picture, _ in shown],
            [row.caption for _, row in shown],
            [row.language for _, row in shown],
            batch_size=settings.batch_size,
            seed=settings.seed,
        )
    if settings.pearson_weight:
        rated = [
            (pictures, [row.caption for row in own], _learned_ratings(own, settings.rank_ratings))
            for n, source in enumerate(sources)
            if source.kind == "ratings"
            for pictures, own in [rows.of(n, split.training)]
        ]
        size = settings.ratings_batch_size or settings.batch_size
        found["pearson"] = PearsonBatches(rated, batch_size=size, seed=settings.seed)
    return found


def _learned_ratings(rows: Sequence[RatedRow], ranked: bool) -> list[float]:
    """Ratings of one file as r sees them: themselves, or their ranks."""
    ratings = [row.rating for row in rows]
    return rankdata(ratings).tolist() if ranked and ratings else ratings


def _held_out(rows: _Rows, sources: Sequence[_Source], split: Split) -> list[HeldOutRatings]:
    parts = []
    for number, source in enumerate(sources):
        if source.kind == "data":
            continue
        pictures, own = rows.of(number, split.validation)
        parts.append(
            HeldOutRatings(
                Path(source.spec).stem,
                pictures,
                [row.caption for row in own],
                [row.language for row in own],
                [row.rating for row in own],
            )
        )
    return parts


def _valse(settings: Settings, backbone: Backbone) -> dict[str, float]:
    return {} if settings.valse is None else valse_numbers(backbone, settings.valse, settings.valse_images)


def _mean_cosine(texts: TextSide, pictures: Pictures, rows: _Rows, split: Split) -> float:
    """Mean cosine of training captions and their pictures: captions for the contrast, if there are any."""
    chosen = split.training[:: max(1, len(split.training) // _SCALE_ROWS)].tolist()
    images = pictures.embedded(rows.image[chosen].tolist())
    with torch.no_grad():
        captions = texts([rows.rows[row].caption for row in chosen]).cpu().numpy()
    return float((images * captions).sum(axis=1).mean())


def _identity(settings: Settings, backbone: Backbone, rows: _Rows, split: Split) -> dict[str, Any]:
    """What makes a run what it is besides the loop's settings."""
    digest = xxhash.xxh3_128()
    for row in split.training.tolist():
        item = rows.rows[row]
        part = (rows.keys[rows.image[row]], item.caption, item.language, item.rating, int(rows.source[row]))
        digest.update(repr(part).encode())
    return {
        **own_settings(settings, _NO_IDENTITY),
        "base_fingerprint": backbone.fingerprint,
        "training_data": digest.hexdigest(),
    }


def _limitations(pictures: Pictures) -> list[str]:
    if not pictures.n_stand_ins:
        return []
    return [
        f"{pictures.n_stand_ins:,} of the {len(pictures.keys):,} images were not available: other captions "
        "of the photo stood in for each, by their mean embedding in the base's own text tower."
    ]


def _described(
    rows: _Rows,
    sources: Sequence[_Source],
    split: Split,
    pictures: Pictures,
    part: TrainedPart,
    check: RatingsCheck | None,
) -> str:
    rated = np.array([source.kind != "data" for source in sources], dtype=bool)[rows.source]
    parts = [
        f"{counted(int((~rated[split.training]).sum()), 'caption')} and {int(rated[split.training].sum()):,} "
        "ratings to train on",
        f"{check.n if check else 0:,} ratings to measure on",
        counted(len(pictures.keys), "image")
        + (f", {pictures.n_stand_ins:,} of them replaced by texts" if pictures.n_stand_ins else ""),
        f"{part.n_trained:,} trained numbers",
    ]
    if split.n_held_out:
        parts.append(f"{split.n_held_out:,} held out by the list")
    return "; ".join(parts)


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    run_recipe("training.human_ratings", Settings, train, argv, "Fine-tune a backbone on human ratings.")


if __name__ == "__main__":
    run_as_command(main)
