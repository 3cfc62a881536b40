"""Fine-tune a text tower so that captions with lexical noise score lower: PR-MCS (Kim et al. 2023, §3.4).

    python -m training.pr_mcs --config training/configs/pr_mcs.yaml --base embedded --data captions.jsonl \
        --out runs/pr_mcs

In: a backbone, and captions with their images. Out: a folder that `capscore.load("pr_mcs", backbone=folder)`
takes, with a card, the log and the checkpoints of the run. Only the text tower is trained. The same command
continues an interrupted run.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar, Literal

from capscore import load_backbone
from capscore.backbones.base import Backbone
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import EmbeddedRows, Embedder
from capscore.errors import CapscoreError, InputError
from capscore.perturbations import KINDS, P, noun_finder
from training.data.captions import Captions, embed_captions
from training.data.pictures import Pictures
from training.data.rows import CAPTIONS
from training.data.source import Source, rows_of
from training.data.stored import StoredRows
from training.data.triples import Noise, TripleBatches
from training.engine import recipe
from training.engine.config import main as run_as_command
from training.engine.loop_settings import ABOVE_ZERO, require_range
from training.engine.pr_mcs_losses import LossWeights, TripleLoss
from training.engine.processes import device, is_main_process, main_process_first
from training.engine.robustness_check import RobustnessCheck
from training.engine.saved_towers import save_tuned


@dataclass
class Settings(recipe.RecipeSettings):
    """Settings of a run, besides those of every recipe.

    Defaults are those of the paper where it states them (Kim et al. 2023, §3.4, App. B). It does not state
    batch size, weight decay, schedule, clipping and the scale of the logits.

    Attributes:
        few_shot: Number of captions to train on, with all others for validation; None to split by
            `validation_share`.
        lambda_1, lambda_2, lambda_3, margin: Weights and margin of the loss
            (`training.engine.pr_mcs_losses`).
        clip_weight: Weight of the contrastive loss.
        keep_close: Weight of a term that keeps captions close to their embeddings under the base; not in the
            paper.
        logit_scale: Factor of the cosines in the contrastive loss; None for that of the base.
        kinds, p, order: Perturbations to draw from, and their options.
        evaluate_captions: Largest number of validation captions to measure.
    """

    recipe_name: ClassVar[str] = "pr_mcs"
    module: ClassVar[str] = "training.pr_mcs"
    not_in_weights: ClassVar[frozenset[str]] = recipe.RecipeSettings.not_in_weights | {"evaluate_captions"}

    epochs: int = 5
    learning_rate: float = 5e-5
    few_shot: int | None = None
    lambda_1: float = 0.1
    lambda_2: float = 0.05
    lambda_3: float = 0.05
    margin: float = 0.1
    clip_weight: float = 1.0
    keep_close: float = 0.0
    logit_scale: float | None = None
    kinds: list[str] = field(default_factory=lambda: list(KINDS))
    p: float = P
    order: Literal["published", "every"] = "published"
    evaluate_captions: int = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = ["lambda_1", "lambda_2", "lambda_3", "clip_weight", "keep_close"]
        require_range(self, weights, 0, math.inf, "a weight of at least 0")
        if not any((self.lambda_1, self.lambda_2, self.lambda_3, self.clip_weight)):
            raise CapscoreError("every term of the loss has weight 0: there is nothing to train for")
        require_range(self, ["margin"], -1, 1, "a cosine from -1 to below 1")
        require_range(self, ["logit_scale"], ABOVE_ZERO, math.inf, "a number above 0, or nothing (null)")
        require_range(self, ["evaluate_captions"], 1, math.inf, "at least 1")
        _ = self.noise

    @property
    def noise(self) -> Noise:
        return Noise(tuple(self.kinds), self.p, self.order)

    @property
    def weights(self) -> LossWeights:
        lambdas = (self.lambda_1, self.lambda_2, self.lambda_3)
        return LossWeights(self.clip_weight, *lambdas, margin=self.margin, keep_close=self.keep_close)


def train(settings: Settings) -> recipe.Trained:
    """Run the recipe: read, split, train, measure (`RobustnessCheck`, compared with the base), save."""
    recipe.run_folder(settings)
    backbone = load_backbone(settings.base, device=device(), dtype="float32")
    sources = [Source(spec, settings, CAPTIONS) for spec in settings.data]
    with main_process_first():  # the others find the embeddings in the cache
        captions, before = _read(settings, sources, backbone)
    split, noise = settings.split(captions.photos, few_shot=settings.few_shot), settings.noise
    size, seed, compared = settings.batch_size, settings.seed, settings.clip_weight > 0
    batches = TripleBatches(
        captions, split.training, batch_size=size, noise=noise, seed=seed, compared=compared
    )
    check = None
    if len(split.validation) and is_main_process():
        most = settings.evaluate_captions
        check = RobustnessCheck(captions, split.validation, noise, backbone, most=most, seed=seed)
    recipe.say_data(split, check, captions.images_in_words())

    network = backbone.text_network()
    network.requires_grad_(True)
    network.train()
    scale = settings.logit_scale or backbone.logit_scale
    loss = TripleLoss(backbone, captions, settings.weights, logit_scale=scale, before=before)
    identity = {
        "base_fingerprint": backbone.fingerprint,
        "training_data": captions.digest(split.training),
        "nouns": batches.noun_finders,
    }
    trained = recipe.run_measured(
        settings, network, batches, loss, split=split, check=check, measured=[backbone], identity=identity
    )
    if trained.finished and is_main_process():
        shown = {"logit_scale": scale, "nouns": batches.noun_finders}
        _save(settings, trained, backbone, captions, sources, shown)
    return trained


def _read(
    settings: Settings, sources: Sequence[Source], backbone: Backbone
) -> tuple[Captions, EmbeddedRows | None]:
    """The captions, and their embeddings in the base where the loss needs them."""
    embedder = Embedder(backbone, cache=EmbeddingCache(None))
    # a bad row, or a missing package, ends a run in its first seconds
    for language in {row.language for row in rows_of(sources) if row.objects is None}:
        if "substitution" in settings.kinds:
            with contextlib.suppress(InputError):  # without a finder, other perturbations are used
                noun_finder(language)
    captions = embed_captions(rows_of(sources), Pictures(embedder, StoredRows(backbone.dim)))
    if not settings.keep_close:
        return captions, None
    return captions, embedder.texts(captions.texts, prefix=backbone.prefix)


def _save(
    settings: Settings,
    trained: recipe.Trained,
    backbone: Backbone,
    captions: Captions,
    sources: Sequence[Source],
    shown: dict[str, object],
) -> None:
    languages = captions.languages(trained.split.training)
    weights, noise = asdict(settings.weights), asdict(settings.noise)
    save_tuned(
        backbone,
        trained.folder,
        base=load_backbone(settings.base, device="cpu", dtype="float32"),
        base_spec=settings.base,
        recipe=settings.recipe_name,
        languages=languages,
        notes={"loss": weights, "noise": noise, "validation": trained.numbers},
        dtype=settings.stored_dtype,
    )
    limitations = captions.limitations()
    if settings.order == "every" and "substitution" in settings.kinds:
        limitations.append(
            "A substitution moved every object of its caption, in training and in the results above. As "
            "published, some of three or more may stay, which is harder to notice."
        )
    recipe.write_run(
        settings, trained, languages=languages, sources=sources, shown=shown, limitations=limitations
    )


def main(argv: Sequence[str] | None = None) -> None:
    recipe.run_recipe(Settings, train, argv, "Fine-tune a text tower for PR-MCS.")


if __name__ == "__main__":
    run_as_command(main, Settings)
