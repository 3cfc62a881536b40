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
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

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
from training.data.rows import ALIGNED
from training.data.source import Source, rows_of
from training.engine import recipe
from training.engine.alignment_check import AlignmentCheck, set_sharpness
from training.engine.config import main as run_as_command
from training.engine.infometic_losses import AlignmentLoss, AlignmentLossSettings
from training.engine.loop import run
from training.engine.loop_settings import ABOVE_ZERO, require, require_range
from training.engine.processes import device, is_main_process, main_process_first, say

RECIPE = "infometic"
FEATURES = "features"
# Settings with which a CPU takes seconds per step, and training captions below which it does anyway.
FOR_A_CPU = "--negatives 4 --batch_size 16 --width 256 --heads 4 --intra_layers 1 --inter_layers 1"
_SMALL = 16
# Settings that do not make a run what it is; the features have a digest of their own.
_NO_IDENTITY = recipe.NOT_IN_WEIGHTS | {"features", "evaluate_pairs", "beta", "false_alarms", "pairs_at_once"}


@dataclass
class Settings(AlignmentLossSettings, FeatureOptions):
    """Settings of a run, besides those of every recipe and of the losses.

    Defaults are those of the paper where it states them (Hu et al. 2023, §3, §4.1). It does not state the
    weights of the losses, weight decay, schedule, clipping, and when a detected region counts as the box of a
    phrase.

    Attributes:
        features: Folder of the features; None for one in `out`.
        untouched: Share of the rows of a text batch that keep their caption, all of whose words are right;
            not in the paper.
        tasks: Tasks of the steps, in turn: "coarse", "text" or "vision".
        width, heads, intra_layers, inter_layers, global_in_fusion, context_width: The network, as in
            `capscore.infometic.network.InfoMetICConfig`, whose others are the paper's.
        evaluate_pairs: Maximum number of validation pairs to measure.
        beta: Score above which a word counts as right and a region as mentioned, in evaluations.
        false_alarms: Largest share of the right words of validation captions that score β or below: the
            network's `sharpness` is set to it after training. None leaves it. Not in the paper.
    """

    validation_share: float = 0.05
    max_steps: int | None = 32_000
    batch_size: int = 32
    learning_rate: float = 1e-4
    features: str | None = None
    untouched: float = 0.0
    tasks: list[str] = field(default_factory=lambda: [*3 * ["coarse"], "text", *3 * ["coarse"], "vision"])
    width: int | None = None
    heads: int = 16
    intra_layers: int = 4
    inter_layers: int = 2
    global_in_fusion: bool = True
    context_width: int | None = None
    evaluate_pairs: int = 2000
    beta: float = 0.1
    false_alarms: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        FeatureOptions.__post_init__(self)
        right = bool(self.tasks) and all(task in TASKS for task in self.tasks)
        require(right, "tasks", self.tasks, f"a list of {', '.join(TASKS)}")
        require_range(self, ["evaluate_pairs"], 1, math.inf, "at least 1")
        require_range(self, ["beta"], 0, 1, "a score from 0 to below 1")
        require_range(self, ["untouched"], 0, 1, "a share from 0 to below 1")
        require_range(self, ["false_alarms"], ABOVE_ZERO, 1, "a share between 0 and 1")
        if self.false_alarms is not None and not self.validation_share:
            raise CapscoreError("false_alarms is set on validation captions, but validation_share is 0")
        if "text" in self.tasks and not self.pollutions:
            raise CapscoreError(
                Setting("pollutions", 0), ", but tasks has 'text', which needs polluted captions"
            )
        if not any(self.weights_of(task) for task in self.tasks):
            raise CapscoreError("every term of the loss has weight 0: there is nothing to train for")
        for task in self.tasks:
            if not self.weights_of(task):
                raise CapscoreError(f"tasks has {task!r}, all of whose losses have weight 0: leave it out")
        _ = self.network(512)

    def network(self, dim: int) -> InfoMetICConfig:
        """The network for embeddings of length `dim`."""
        same = {known.name for known in fields(InfoMetICConfig)} & {known.name for known in fields(self)}
        return InfoMetICConfig(dim=dim, **{name: getattr(self, name) for name in same})


def train(settings: Settings) -> recipe.Trained:
    """Run the recipe: read, compute features, split, train, measure, save.

    Returns:
        The outcome; its numbers are those of `AlignmentCheck`, compared with InfoCLIP, the baseline without
        parameters, on the same backbone.

    Raises:
        CapscoreError, InputError: malformed data or settings; a loss that is not finite names its batch.
        BackboneUnavailable: the backbone is not available.
    """
    out = recipe.run_folder(settings)
    backbone = load_backbone(settings.base, device=device(), dtype="float32")
    sources = [Source(spec, settings, ALIGNED) for spec in settings.data]
    with main_process_first():  # the others find the features
        data = _features(settings, out, sources, Embedder(backbone, cache=EmbeddingCache(None)))
    split = settings.split(data.photos)
    batches = AlignmentBatches(
        data,
        split.training,
        tasks=settings.tasks,
        batch_size=settings.batch_size,
        hard_negatives=settings.hard_negatives,
        untouched=settings.untouched,
        seed=settings.seed,
    )
    check = None
    if len(split.validation) and is_main_process():
        most, seed = settings.evaluate_pairs, settings.seed
        check = AlignmentCheck(data, split.validation, beta=settings.beta, most=most, seed=seed)
        check.base_numbers = check(load_aligner(INFO_CLIP, backbone)[0])
    n_regions = counted(len(data.regions.flat), "region")
    if device() == "cpu" and settings.negatives is None and split.training.size > _SMALL:
        say(f"on a CPU, a step with the paper's settings takes minutes; seconds with {FOR_A_CPU}")
    recipe.say_data(split, check, f"{recipe.images_in_words(len(data.image_vector), 0)} with {n_regions}")

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = InfoMetIC(settings.network(backbone.dim).on(backbone)).train()
    identity = {
        **recipe.own_settings(settings, _NO_IDENTITY),
        "base_fingerprint": backbone.fingerprint,
        "features_digest": data.digest,
        "training_pairs": xxhash.xxh3_128_hexdigest(np.ascontiguousarray(split.training).tobytes()),
    }
    evaluate = recipe.evaluation_by(check, model)
    loss = AlignmentLoss(data, settings)
    result = run(model, batches, loss, settings, evaluate=evaluate, identity=identity)
    model.eval()
    evaluation = result.evaluation
    if settings.false_alarms is not None and check is not None and result.finished:
        set_sharpness(model, check, settings.false_alarms)
        evaluation = check(model)
    trained = recipe.outcome(out, result, split, check, evaluation)
    if result.finished and is_main_process():
        _save(settings, trained, model, data, sources)
    return trained


def _features(settings: Settings, out: Path, sources: Sequence[Source], embedder: Embedder) -> AlignmentData:
    """The features of all rows, computed once."""
    rows = list(rows_of(sources))
    # which captions can be polluted, and which regions are found, is known only afterwards
    mentions = any(row.mentioned is not None and (row.boxes or row.region_texts) for row in rows)
    if "vision" in settings.tasks and not mentions:
        raise InputError(WITHOUT["vision"], field="tasks")
    folder = Path(settings.features or out / FEATURES).expanduser()
    return prepare(rows, embedder, settings, folder, word_context=settings.context_width is not None)


def _save(
    settings: Settings,
    trained: recipe.Trained,
    model: InfoMetIC,
    data: AlignmentData,
    sources: Sequence[Source],
) -> None:
    """Write the weights, the card and the result."""
    languages = sorted(set(data.pair_language[trained.split.training].tolist()))
    notes = {
        "recipe": RECIPE,
        "languages": languages,
        "regions": settings.regions,
        "steps": trained.run.step,
        "validation": trained.numbers,
    }
    model.save_pretrained(trained.folder, dtype=settings.stored_dtype, notes=notes)
    recipe.write_run(
        settings,
        trained,
        RECIPE,
        languages=languages,
        sources=sources,
        more={"features": data.digest},
    )


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    recipe.run_recipe(Settings, train, argv, "Train InfoMetIC's network.")


if __name__ == "__main__":
    # Gradients of words that are almost surely right become so small that a CPU takes many times as long.
    # This is a state of the process, so `main` leaves it alone.
    torch.set_flush_denormal(True)
    run_as_command(main, Settings)
