"""Train InfoMetIC's network on the embeddings of a frozen backbone (Hu et al. 2023, §3.2).

    python -m training.infometic --config training/configs/infometic.yaml --base embedded \
        --data entities:flickr30k_entities:train --image_dir flickr30k_images --out runs/infometic

In: a backbone, and captions with their images, or with texts that stand in for images. Out: a folder that
`capscore.load("infometic", weights=folder)` takes, with a card, the log and the checkpoints of the run, and
the features, which are computed once. The same command continues an interrupted run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash

from capscore import load_backbone
from capscore.backbones.base import Backbone
from capscore.benchmarks.protocols.results import counted
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, InputError, Setting
from capscore.infometic.folders import CONFIG, WEIGHTS
from capscore.infometic.network import INFO_CLIP, MODEL_TYPE, InfoMetIC, InfoMetICConfig, load_aligner
from training.data.aligned_rows import AlignedRow, coco_rows, entity_rows, file_rows
from training.data.alignment_batches import TASKS, WITHOUT, AlignmentBatches
from training.data.alignment_data import AlignmentData
from training.data.alignment_features import FeatureOptions, prepare
from training.data.origin import Origin
from training.data.split import Split
from training.engine.alignment_check import AlignmentCheck, set_sharpness
from training.engine.alignment_loss import AlignmentLoss, AlignmentLossSettings
from training.engine.config import main as run_as_command
from training.engine.loop import run
from training.engine.loop_settings import require
from training.engine.processes import device, is_main_process, main_process_first, say
from training.engine.recipe import NOT_IN_WEIGHTS, Trained, finite, own_settings, run_recipe, write_run

FEATURES = "features"
_COCO, _ENTITIES = "coco:", "entities:"
# Settings that do not make a run what it is; the features have a digest of their own.
_NO_IDENTITY = NOT_IN_WEIGHTS | {"features", "evaluate_pairs", "beta", "false_alarms", "pairs_at_once"}
_COUNTS = {
    "n_texts_cut": "texts with more pieces than the network reads, cut",
    "n_not_polluted": "captions without a word that could be polluted",
    "n_regions_cut": "region texts beyond n_regions, left out",
    "n_images_without_region": "images in which no region was found",
    "n_without_found_region": "captions that mention only what no region shows, not used for vision",
}


@dataclass
class Settings(AlignmentLossSettings):
    """Settings of a run, besides those of every recipe and of the losses.

    Defaults are those of the paper where it states them (Hu et al. 2023, §3, §4.1). It does not state the
    weights of the losses, weight decay, schedule, clipping, and when a detected region counts as the box of a
    phrase.

    Attributes:
        data: Files of captions (`training.data.aligned_rows.file_rows`), "coco:FILE" for a file in COCO's
            format, "entities:FOLDER" or "entities:FOLDER:train" for Flickr30k Entities. If a file of the same
            name with .sources.json behind it lists the origins of the captions, the card cites them.
        features: Folder of the features; None for one in `out`.
        regions: Finder of regions: "windows" or "given" for the boxes of the rows.
        region_revision: Commit of a detector on the Hub.
        n_regions: Most regions of an image.
        overlap: Overlap (intersection over union) from which a found region counts as mentioned.
        pollutions: Number of polluted captions per pair.
        frequent: Number of words of a class from which a replacement is drawn.
        alike: Share of the polluted captions whose wrong word is among the words most like the right one,
            according to the backbone; not in the paper.
        untouched: Share of the rows of a text batch that keep their caption, all of whose words are right;
            not in the paper.
        tasks: Tasks of the steps, in turn: "coarse", "text" or "vision".
        width, heads, intra_layers, inter_layers, shared_norm, mask_padding, text_positions, box_positions,
            global_box, global_in_fusion, input_scale, context_width, max_tokens: Options of the network, as
            in `capscore.infometic.network.InfoMetICConfig`.
        evaluate_pairs: Most validation pairs to measure.
        beta: Score above which a word counts as right and a region as mentioned, in evaluations.
        false_alarms: Largest share of the right words of validation captions that score β or below: the
            network's `sharpness` is set to it after training. None leaves it. Not in the paper.
    """

    validation_share: float = 0.05
    max_steps: int | None = 32_000
    batch_size: int = 32
    learning_rate: float = 1e-4
    features: str | None = None
    regions: str = "windows"
    region_revision: str | None = None
    n_regions: int = 20
    overlap: float = 0.5
    pollutions: int = 1
    frequent: int = 300
    alike: float = 0.0
    untouched: float = 0.0
    tasks: list[str] = field(default_factory=lambda: [*3 * ["coarse"], "text", *3 * ["coarse"], "vision"])
    width: int | None = None
    heads: int = 16
    intra_layers: int = 4
    inter_layers: int = 2
    shared_norm: bool = False
    mask_padding: bool = True
    text_positions: bool = True
    box_positions: bool = True
    global_box: bool = False
    global_in_fusion: bool = True
    input_scale: float = 10.0
    context_width: int | None = None
    max_tokens: int = 32
    evaluate_pairs: int = 2000
    beta: float = 0.1
    false_alarms: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        right = bool(self.tasks) and all(task in TASKS for task in self.tasks)
        require(right, "tasks", self.tasks, f"a list of {', '.join(TASKS)}")
        require(self.evaluate_pairs >= 1, "evaluate_pairs", self.evaluate_pairs, "at least 1")
        require(0 <= self.beta < 1, "beta", self.beta, "a score from 0 to below 1")
        require(0 <= self.untouched < 1, "untouched", self.untouched, "a share from 0 to below 1")
        if self.false_alarms is not None:
            right = 0 < self.false_alarms < 1
            require(right, "false_alarms", self.false_alarms, "a share between 0 and 1")
            if not self.validation_share:
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
        _ = self.options
        _ = self.network(512)

    @property
    def options(self) -> FeatureOptions:
        """How rows become features."""
        same = {known.name for known in fields(FeatureOptions)} & {known.name for known in fields(self)}
        return FeatureOptions(
            **{name: getattr(self, name) for name in same},
            word_context=self.context_width is not None,
        )

    def network(self, dim: int) -> InfoMetICConfig:
        """The network for embeddings of length `dim`."""
        same = {known.name for known in fields(InfoMetICConfig)} & {known.name for known in fields(self)}
        return InfoMetICConfig(dim=dim, **{name: getattr(self, name) for name in same})


def train(settings: Settings, *, command: str = "") -> Trained:
    """Run the recipe: read, compute features, split, train, measure, save.

    Args:
        settings: Settings of the run.
        command: Command on the card that trains the network again; "" for one with the run's own settings
            file.

    Returns:
        The outcome; its numbers are those of `AlignmentCheck`, compared with InfoCLIP, the baseline without
        parameters, on the same backbone.

    Raises:
        CapscoreError, InputError: malformed data or settings; a loss that is not finite names its batch.
        BackboneUnavailable: the backbone or a detector is not available.
    """
    out = Path(settings.out).expanduser()
    _refuse_other_model(out)
    folder = Path(settings.features).expanduser() if settings.features else out / FEATURES
    backbone = load_backbone(settings.base, device=device(), dtype="float32")
    sources = [_Source(spec, settings) for spec in settings.data]
    rows = [row for source in sources for row in source.rows()]
    _check_tasks(settings.tasks, rows)
    with main_process_first():  # the others find the features
        embedder = Embedder(backbone, cache=EmbeddingCache(None))
        data = prepare(rows, embedder, settings.options, folder, say=say)
    del rows
    split = settings.split(data.photo_captions())
    batches = AlignmentBatches(
        data,
        split.training,
        tasks=settings.tasks,
        batch_size=settings.batch_size,
        hard_negatives=settings.hard_negatives,
        untouched=settings.untouched,
        seed=settings.seed,
    )
    check, base = None, {}
    if len(split.validation) and is_main_process():
        check = AlignmentCheck(
            data, split.validation, beta=settings.beta, most=settings.evaluate_pairs, seed=settings.seed
        )
        base = check(load_aligner(INFO_CLIP, backbone)[0])
    say(_described(data, split, check))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = InfoMetIC(settings.network(backbone.dim).on(backbone))
    model.train()
    result = run(
        model,
        batches,
        AlignmentLoss(data, settings),
        settings,
        evaluate=None if check is None else lambda model, step: check(model),
        identity=_identity(settings, backbone, data, split),
    )
    model.eval()

    evaluation = result.evaluation
    if settings.false_alarms is not None and check is not None and result.finished:
        set_sharpness(model, check, settings.false_alarms)
        evaluation = check(model)
    trained = Trained(
        folder=out,
        run=result,
        evaluation=evaluation,
        base=base,
        n_training=len(split.training),
        n_validation=len(split.validation),
    )
    if not (result.finished and is_main_process()):
        return trained

    languages = sorted(set(data.pair_language[split.training].tolist()))
    numbers = finite({"this": evaluation, "info_clip": base})
    model.save_pretrained(
        out,
        dtype=settings.stored_dtype,
        notes={
            "recipe": "infometic",
            "languages": languages,
            "regions": settings.regions,
            "steps": result.step,
            "validation": numbers,
        },
    )
    write_run(
        settings,
        trained,
        recipe="infometic",
        command=command,
        languages=languages,
        shown={name: value for name, value in asdict(settings).items() if name != "features"},
        sources=sources,
        split=split,
        images="photos",
        n_measured=check.n if check else 0,
        missing="words_right",
        limitations=[f"{_COUNTS[name]}: {count:,}." for name, count in sorted(data.counts.items()) if count],
        summary={"features": data.digest, "counts": data.counts, **numbers},
    )
    return trained


def _refuse_other_model(out: Path) -> None:
    """Raise before the work starts where the folder has the weights of something else."""
    if not (out / WEIGHTS).is_file():
        return
    try:
        kind = json.loads((out / CONFIG).read_text(encoding="utf-8"))["model_type"]
    except (OSError, ValueError, KeyError, TypeError):
        kind = None
    if kind != MODEL_TYPE:
        raise CapscoreError(f"{out} has the weights of another model: give another folder as out")


def _check_tasks(tasks: Sequence[str], rows: Sequence[AlignedRow]) -> None:
    """Raise before anything is embedded where no row has what the task "vision" needs.

    Which captions can be polluted, and which regions are found, is known only afterwards.
    """
    if "vision" in tasks and not any(
        row.mentioned is not None and (row.boxes or row.region_texts) for row in rows
    ):
        raise InputError(WITHOUT["vision"], field="tasks")


class _Source(Origin):
    """A file or data set of the data."""

    def __init__(self, spec: str, settings: Settings):
        self.spec, self.settings = spec, settings
        self.path, self.split = spec, None
        if spec.startswith(_ENTITIES):
            folder, _, split = spec.removeprefix(_ENTITIES).rpartition(":")
            self.path, self.split = (folder, split) if folder else (split, None)
        elif spec.startswith(_COCO):
            self.path = spec.removeprefix(_COCO)
        super().__init__(self.path, Path(self.path).name, settings.data_license)

    def rows(self) -> Iterator[AlignedRow]:
        settings, path = self.settings, Path(self.path).expanduser()
        images = settings.image_dir
        if self.spec.startswith(_ENTITIES):
            found = entity_rows(path, self._images(), split=self.split)
        elif self.spec.startswith(_COCO):
            found = coco_rows(path, self._images(), language=settings.language or "en")
        else:
            found = file_rows(path, images=images, language=settings.language)
        yield from self.counted(found)

    def _images(self) -> str:
        if self.settings.image_dir is None:
            raise InputError(
                f"{self.spec} names images, but not their folder: give ", Setting("image_dir"), field="data"
            )
        return self.settings.image_dir


def _identity(settings: Settings, backbone: Backbone, data: AlignmentData, split: Split) -> dict[str, Any]:
    """What makes a run what it is besides the loop's settings."""
    return {
        **own_settings(settings, _NO_IDENTITY),
        "base_fingerprint": backbone.fingerprint,
        "features_digest": data.digest,
        "training_pairs": xxhash.xxh3_128_hexdigest(np.ascontiguousarray(split.training).tobytes()),
    }


def _described(data: AlignmentData, split: Split, check: AlignmentCheck | None) -> str:
    parts = [
        f"{counted(len(split.training), 'caption')} to train on",
        f"{len(split.validation):,} for validation" + (f", {check.n:,} of them measured" if check else ""),
        f"{counted(len(data.image_vector), 'image')} with {counted(len(data.region_vector), 'region')}",
    ]
    if split.n_held_out:
        parts.append(f"{split.n_held_out:,} held out by the list")
    parts += [f"{_COUNTS[name]}: {count:,}" for name, count in sorted(data.counts.items()) if count]
    return "; ".join(parts)


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    # Gradients of words that are almost surely right become so small that a CPU takes many times as long.
    torch.set_flush_denormal(True)
    run_recipe("training.infometic", Settings, train, argv, "Train InfoMetIC's network.")


if __name__ == "__main__":
    run_as_command(main)
