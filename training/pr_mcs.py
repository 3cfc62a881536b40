"""Fine-tune a text tower so that captions with lexical noise score lower: PR-MCS (Kim et al. 2023, §3.4).

    python -m training.pr_mcs --config training/configs/pr_mcs.yaml --base embedded --data captions.jsonl \
        --out runs/pr_mcs

In: a backbone, and captions with their images. Out: a folder that `capscore.load("pr_mcs", backbone=folder)`
takes, with a card, the log and the checkpoints of the run. Only the text tower is trained. The same command
continues an interrupted run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import xxhash

from capscore import load_backbone
from capscore.backbones import tuned
from capscore.backbones.base import Backbone
from capscore.backbones.checkpoint import folder_kind
from capscore.benchmarks.protocols.results import counted
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError
from capscore.perturbations import KINDS, P
from training.data.caption_source import BENCHMARK, CaptionSource
from training.data.captions import Captions, check_captions, embed_captions
from training.data.split import Split
from training.data.triples import Noise, TripleBatches
from training.engine.config import main as run_as_command
from training.engine.loop import run
from training.engine.loop_settings import require
from training.engine.pr_mcs_losses import LossWeights
from training.engine.processes import device, is_main_process, main_process_first, say
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
from training.engine.robustness_check import RobustnessCheck
from training.engine.triple_loss import TripleLoss

# Settings that do not make a run what it is.
_NO_IDENTITY = NOT_IN_WEIGHTS | {"data_dir", "evaluate_captions"}


@dataclass
class Settings(RecipeSettings):
    """Settings of a run, besides those of every recipe.

    Defaults are those of the paper where it states them (Kim et al. 2023, §3.4, App. B). It does not state
    batch size, weight decay, schedule, clipping and the scale of the logits.

    Attributes:
        data: Files of captions (`training.data.caption_rows.file_rows`), or benchmarks such as
            "benchmark:multi30k/de:train". If a file of the same name with .sources.json behind it lists the
            origins of the captions, the card cites them.
        data_dir: Folder of the benchmarks' files, or of folders named as the benchmarks.
        image_column, candidate_column, language_column: Names of columns, where they are unfamiliar.
        few_shot: Number of captions to train on, with all others for validation; None to split by
            `validation_share`.
        lambda_1, lambda_2, lambda_3, margin: Weights and margin of the loss
            (`training.engine.pr_mcs_losses`).
        clip_weight: Weight of the contrastive loss.
        keep_close: Weight of a term that holds captions where the base has them; not in the paper.
        logit_scale: Factor of the cosines in the contrastive loss; None for that of the base.
        shared_negatives: Whether rows that share an image or a text are each other's negatives, as published.
        kinds: Perturbations to draw from.
        kind_shares: Relative frequency of each of the kinds; empty for equal frequencies, as published.
        draws: "one" perturbation per caption and step, or "all".
        p, shared_draws, removal, order: Options of the perturbations.
        dropout: Whether the text tower's dropout is active in training.
        evaluate_captions: Largest number of validation captions to measure.
    """

    epochs: int = 5
    learning_rate: float = 5e-5
    data_dir: str | None = None
    image_column: str | None = None
    candidate_column: str | None = None
    language_column: str | None = None
    few_shot: int | None = None
    lambda_1: float = 0.1
    lambda_2: float = 0.05
    lambda_3: float = 0.05
    margin: float = 0.1
    clip_weight: float = 1.0
    keep_close: float = 0.0
    logit_scale: float | None = None
    shared_negatives: bool = True
    kinds: list[str] = field(default_factory=lambda: list(KINDS))
    kind_shares: list[float] = field(default_factory=list)
    draws: Literal["one", "all"] = "one"
    p: float = P
    shared_draws: bool = True
    removal: Literal["keep", "drop"] = "keep"
    order: Literal["published", "every"] = "published"
    dropout: bool = True
    evaluate_captions: int = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("lambda_1", "lambda_2", "lambda_3", "clip_weight", "keep_close"):
            value = getattr(self, name)
            require(0 <= value < float("inf"), name, value, "a weight of at least 0")
        if not any((self.lambda_1, self.lambda_2, self.lambda_3, self.clip_weight)):
            raise CapscoreError("every term of the loss has weight 0: there is nothing to train for")
        require(-1 <= self.margin < 1, "margin", self.margin, "a cosine from -1 to below 1")
        scale = self.logit_scale
        require(
            scale is None or 0 < scale < float("inf"), "logit_scale", scale, "a number above 0, or nothing"
        )
        require(self.evaluate_captions >= 1, "evaluate_captions", self.evaluate_captions, "at least 1")
        _ = self.noise

    def source(self, spec: str) -> CaptionSource:
        """A file or a benchmark of the data."""
        return CaptionSource(
            spec,
            license=self.data_license,
            language=self.language,
            image_dir=self.image_dir,
            data_dir=self.data_dir,
            image_column=self.image_column,
            candidate_column=self.candidate_column,
            language_column=self.language_column,
        )

    @property
    def noise(self) -> Noise:
        """How captions are perturbed."""
        return Noise(
            tuple(self.kinds),
            self.draws,
            self.p,
            self.shared_draws,
            self.removal,
            tuple(self.kind_shares),
            self.order,
        )

    @property
    def weights(self) -> LossWeights:
        """Weights of the loss."""
        lambdas = (self.lambda_1, self.lambda_2, self.lambda_3)
        return LossWeights(self.clip_weight, *lambdas, margin=self.margin, keep_close=self.keep_close)


def train(settings: Settings, *, command: str = "") -> Trained:
    """Run the recipe: read, split, train, measure, save.

    Args:
        settings: Settings of the run.
        command: Command on the card that trains the tower again; "" for one with the run's own settings file.

    Returns:
        The outcome; its numbers are those of `RobustnessCheck`, compared with the base.

    Raises:
        CapscoreError, InputError: malformed data or settings; a loss that is not finite names its batch.
        BackboneUnavailable: the base is not available.
    """
    out = Path(settings.out).expanduser()
    if (out / tuned.WEIGHTS).is_file() and folder_kind(out) != "tuned":
        raise CapscoreError(f"{out} has the weights of another model: give another folder as out")
    backbone = load_backbone(settings.base, device=device(), dtype="float32")
    with main_process_first():  # the others find the embeddings in the cache
        embedder = Embedder(backbone, cache=EmbeddingCache(None))
        sources = [settings.source(spec) for spec in settings.data]
        check_captions(
            (row for source in sources for row in source.rows()), nouns="substitution" in settings.kinds
        )
        rows = (row for source in sources for row in source.rows())
        captions = embed_captions(rows, embedder, folder=out if out.is_dir() else None)
        split = settings.split(captions, settings.few_shot)
        before = embedder.texts(captions.texts, prefix=backbone.prefix) if settings.keep_close else None
    batches = TripleBatches(
        captions,
        split.training,
        batch_size=settings.batch_size,
        noise=settings.noise,
        seed=settings.seed,
    )
    check = None
    if len(split.validation) and is_main_process():
        check = RobustnessCheck(
            captions,
            split.validation,
            settings.noise,
            backbone,
            most=settings.evaluate_captions,
            seed=settings.seed,
        )
    say(_described(captions, split, check))

    network = backbone.text_network()
    network.requires_grad_(True)
    network.train(settings.dropout)
    scale = backbone.logit_scale if settings.logit_scale is None else settings.logit_scale
    loss = TripleLoss(
        backbone,
        captions,
        settings.weights,
        logit_scale=scale,
        shared_negatives=settings.shared_negatives,
        before=before,
    )
    result = run(
        network,
        batches,
        loss,
        settings,
        evaluate=None if check is None else lambda model, step: check(backbone),
        identity=_identity(settings, backbone, captions, split, batches),
    )
    network.eval()

    evaluation = result.evaluation
    trained = Trained(
        folder=out,
        run=result,
        evaluation=evaluation,
        base={} if check is None else check.base_numbers,
        n_training=len(split.training),
        n_validation=len(split.validation),
    )
    if not (result.finished and is_main_process()):
        return trained

    languages = sorted({captions.languages[row] for row in split.training.tolist()})
    numbers = finite({"this": evaluation, "base": trained.base})
    weights, noise = asdict(settings.weights), asdict(settings.noise)
    tuned.save_tuned(
        backbone,
        out,
        base=load_backbone(settings.base, device="cpu", dtype="float32"),
        base_spec=settings.base,
        recipe="pr_mcs",
        languages=languages,
        notes={"loss": weights, "noise": noise, "validation": numbers},
        dtype=settings.stored_dtype,
    )
    write_run(
        settings,
        trained,
        recipe="pr_mcs",
        command=command,
        languages=languages,
        shown={**asdict(settings), "logit_scale": scale, "nouns": batches.noun_finders},
        sources=sources,
        split=split,
        images="images",
        n_measured=check.n if check else 0,
        missing="drop_average",
        no_shares=("original",),
        limitations=_limitations(settings, captions),
        summary={"data": data_digests(settings), **numbers},
    )
    return trained


def _limitations(settings: Settings, captions: Captions) -> list[str]:
    found = []
    if captions.n_stand_ins:
        found.append(
            f"{captions.n_stand_ins:,} of the {len(captions.keys):,} images were not available: another "
            "caption of the photo stood in for each, through the base's own text tower."
        )
    if settings.order == "every" and "substitution" in settings.kinds:
        found.append(
            "A substitution moved every object of its caption, in training and in the results above. As "
            "published, some of three or more may stay, which is harder to notice."
        )
    return found


def data_digests(settings: Settings) -> dict[str, str]:
    """Digest of each file of the data; benchmarks and folders have none.

    Raises:
        InputError: a file cannot be read.
    """
    return file_digests([spec for spec in settings.data if not spec.startswith(BENCHMARK)])


def _identity(
    settings: Settings, backbone: Backbone, captions: Captions, split: Split, batches: TripleBatches
) -> dict[str, Any]:
    """What makes a run what it is besides the loop's settings."""
    digest = xxhash.xxh3_128()
    for row in split.training.tolist():
        key = captions.keys[captions.image[row]]
        digest.update(
            repr((key, captions.texts[row], captions.languages[row], captions.objects[row])).encode()
        )
    return {
        **own_settings(settings, _NO_IDENTITY),
        "base_fingerprint": backbone.fingerprint,
        "training_data": digest.hexdigest(),
        "nouns": batches.noun_finders,
    }


def _described(captions: Captions, split: Split, check: RobustnessCheck | None) -> str:
    parts = [
        f"{counted(len(split.training), 'caption')} to train on",
        f"{len(split.validation):,} for validation" + (f", {check.n:,} of them measured" if check else ""),
        counted(len(captions.keys), "image")
        + (f", {captions.n_stand_ins:,} of them replaced by texts" if captions.n_stand_ins else ""),
    ]
    if split.n_held_out:
        parts.append(f"{split.n_held_out:,} held out by the list")
    if split.n_left_out:
        parts.append(f"{split.n_left_out:,} left out: they share an image with few-shot training")
    return "; ".join(parts)


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    run_recipe("training.pr_mcs", Settings, train, argv, "Fine-tune a text tower for PR-MCS.")


if __name__ == "__main__":
    run_as_command(main)
