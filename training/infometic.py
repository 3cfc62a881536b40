"""Train InfoMetIC's network on the embeddings of a frozen backbone (Hu et al. 2023, §3.2).

    python -m training.infometic --config training/configs/infometic.yaml --base embedded \
        --data entities:flickr30k_entities:train --image_dir flickr30k_images --out runs/infometic

In: a backbone, and captions with their images, or with texts that stand in. Out: a folder that
`capscore.load("infometic", weights=folder)` takes, with its card, the log and the checkpoints of the run, and
the features that were computed once. The same command goes on where a run was broken off.
"""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import xxhash
from torch import Tensor, nn

from capscore import load_backbone
from capscore.backbones.base import Backbone
from capscore.benchmark.protocols.results import counted
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, InputError
from capscore.files.whole_file import write_text
from capscore.infometic.alignment import Aligner, TextStates
from capscore.infometic.config import InfoMetICConfig
from capscore.infometic.model import CONFIG, MODEL_TYPE, WEIGHTS, InfoMetIC
from capscore.infometic.weights import INFO_CLIP, load_aligner
from training.data.aligned_rows import AlignedRow, coco_rows, entity_rows, file_rows
from training.data.caption_rows import read_names
from training.data.captions import Captions
from training.data.infometic_features import AlignmentData, FeatureOptions, prepare
from training.data.split import Split, split_by_image
from training.engine.batches import ShuffledBatches
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.infometic_losses import coarse_nce, hard_negative_loss, token_loss, word_shares
from training.engine.loop import RunResult, run
from training.engine.loop_settings import LoopSettings
from training.engine.model_card import ModelCard, Result, write_card
from training.engine.processes import device, is_main_process, main_process_first, say
from training.engine.run_record import (
    RESULT,
    Origin,
    as_yaml,
    finite,
    held_out,
    machine_and_time,
    own_settings,
    results,
    train_and_say,
)

FEATURES = "features"
TASKS = ("coarse", "text", "vision")
_COCO, _ENTITIES = "coco:", "entities:"
# pairs that are measured at once
_MEASURED = 64
_HALVINGS = 12
# What a card tells and what is measured on the way changes nothing in the weights; features have a digest.
_NO_IDENTITY = frozenset(
    (
        "data",
        "image_dir",
        "hold_out",
        "features",
        "evaluate_pairs",
        "beta",
        "false_alarms",
        "pairs_at_once",
        "name",
        "license",
        "data_license",
        "stored_dtype",
    )
)


@dataclass
class Settings(LoopSettings):
    """Settings of a run: those of the loop, and these.

    Defaults are the paper's where it states them (§3, §4.1). It does not state the weights of the losses,
    weight decay, schedule, clipping, nor when a detected region counts as the box of a phrase.

    Attributes:
        base: the backbone, as `capscore.load_backbone` takes it; it stays as it is.
        data: files of captions (`training.data.aligned_rows.file_rows`), "coco:FILE" for one in COCO's
            format, "entities:FOLDER" or "entities:FOLDER:train" for Flickr30k Entities. Where a file
            named as one of them with
            .sources.json behind it lies beside, the card has from there what they come from.
        image_dir: folder of the images; None for that of the file.
        language: of captions that state none.
        validation_share: share of the images that is measured on.
        hold_out: a list of ids or names of images that are left out of everything, one a line.
        features: folder of the features; None for one in `out`.
        regions: what finds regions: "windows", "detr:ID", …, or "given" for the boxes of the rows.
        region_names: what an open-vocabulary detector looks for.
        region_revision: commit of a detector on the Hub.
        n_regions: most regions of an image.
        overlap: share of overlap from which a found region is one that a caption mentions.
        pollutions: how many polluted captions a pair has.
        frequent: how many words of a class others are replaced by.
        alike: share of the polluted captions whose wrong word is one of those most like the right one, as
            the backbone has them; not in the paper.
        untouched: share of the rows of a text batch that keep their caption, all of whose words are right;
            not in the paper.
        tasks: what the steps train for, in turn, over and over: "coarse", "text" or "vision".
        negatives: how many other captions of a batch an image is compared with, and other images a caption;
            None for all, as published. Fewer take less time.
        shared_negatives: whether rows that share an image or a text are each other's negatives.
        hard_negatives: whether captions that say less about an image are hard negatives in coarse steps.
        pairs_at_once: most pairs that go through the network at once, to save memory; None for all.
        recall_weight, precision_weight, hard_weight, text_weight, vision_weight: of l_r, l_p, l_r^h,
            l_t^token and l_v^token.
        pollution_weight: of a term, not in the paper, by which a caption has a higher precision than it has
            polluted; in text steps.
        width, heads, intra_layers, inter_layers, shared_norm, mask_padding, text_positions, box_positions,
            global_box, global_in_fusion, null_token, input_scale, context_width, max_tokens: of the network,
            as in `capscore.infometic.config.InfoMetICConfig`.
        evaluate_pairs: most validation pairs that are measured on.
        beta: score above which a word counts as right and a region as mentioned, in what is measured.
        false_alarms: share of the right words of validation captions that may fall to β or below: after the
            training the network's `sharpness` is set so; None to leave it. Not in the paper.
        name: of the model, for its card; "" for that of the folder `out`.
        license: of the weights, as the Hub writes it.
        data_license: of the captions.
        stored_dtype: of the weights that are saved.
    """

    out: str = ""
    base: str = ""
    data: list[str] = field(default_factory=list)
    image_dir: str | None = None
    language: str | None = None
    validation_share: float = 0.05
    hold_out: str | None = None
    features: str | None = None
    max_steps: int | None = 32_000
    batch_size: int = 32
    learning_rate: float = 1e-4
    regions: str = "windows"
    region_names: list[str] = field(default_factory=list)
    region_revision: str | None = None
    n_regions: int = 20
    overlap: float = 0.5
    pollutions: int = 1
    frequent: int = 300
    alike: float = 0.0
    untouched: float = 0.0
    tasks: list[str] = field(
        default_factory=lambda: [*3 * ["coarse"], "text", *3 * ["coarse"], "vision"],
    )
    negatives: int | None = None
    shared_negatives: bool = False
    hard_negatives: bool = True
    pairs_at_once: int | None = None
    recall_weight: float = 1.0
    precision_weight: float = 1.0
    hard_weight: float = 1.0
    text_weight: float = 1.0
    vision_weight: float = 1.0
    pollution_weight: float = 0.0
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
    null_token: bool = True
    input_scale: float = 10.0
    context_width: int | None = None
    max_tokens: int = 32
    evaluate_pairs: int = 2000
    beta: float = 0.1
    false_alarms: float | None = None
    name: str = ""
    license: str = "unknown"
    data_license: str = "unknown"
    stored_dtype: Literal["float32", "float16"] = "float32"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.base.strip():
            raise CapscoreError("base is missing: the backbone, such as --base embedded")
        if not self.data:
            raise CapscoreError(
                "data is missing: files of captions, such as --data captions.jsonl, coco:captions.json or "
                "entities:folder:train"
            )
        if not self.tasks or any(task not in TASKS for task in self.tasks):
            raise CapscoreError(f"tasks={self.tasks!r}: expected a list of {', '.join(TASKS)}")
        for name in ("recall", "precision", "hard", "text", "vision", "pollution"):
            value = getattr(self, f"{name}_weight")
            if not 0 <= value < float("inf"):
                raise CapscoreError(f"{name}_weight={value!r}: expected a weight of at least 0")
        for name in ("negatives", "pairs_at_once"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or value < 1):
                raise CapscoreError(f"{name}={value!r}: expected at least 1, or nothing (null) for all")
        if self.evaluate_pairs < 1:
            raise CapscoreError(f"evaluate_pairs={self.evaluate_pairs}: expected at least 1")
        if not 0 <= self.beta < 1:
            raise CapscoreError(f"beta={self.beta!r}: expected a score from 0 to below 1")
        if not 0 <= self.untouched < 1:
            raise CapscoreError(f"untouched={self.untouched!r}: expected a share from 0 to below 1")
        if self.false_alarms is not None and not 0 < self.false_alarms < 1:
            raise CapscoreError(f"false_alarms={self.false_alarms!r}: expected a share between 0 and 1")
        if self.false_alarms is not None and not self.validation_share:
            raise CapscoreError("false_alarms is set on validation captions, but validation_share is 0")
        if "text" in self.tasks and not self.pollutions:
            raise CapscoreError("pollutions=0, but tasks has 'text', which needs polluted captions")
        if not any(self._weights_of(task) for task in self.tasks):
            raise CapscoreError("every term of the loss has the weight 0: there is nothing to train for")
        for task in self.tasks:
            if not self._weights_of(task):
                raise CapscoreError(
                    f"tasks has {task!r}, all of whose losses have the weight 0: leave it out"
                )
        _ = self.options
        _ = self.network(512)

    def _weights_of(self, task: str) -> float:
        if task == "coarse":
            return (
                self.recall_weight + self.precision_weight + (self.hard_weight if self.hard_negatives else 0)
            )
        return self.text_weight + self.pollution_weight if task == "text" else self.vision_weight

    @property
    def options(self) -> FeatureOptions:
        return FeatureOptions(
            regions=self.regions,
            region_names=tuple(self.region_names),
            region_revision=self.region_revision,
            n_regions=self.n_regions,
            overlap=self.overlap,
            max_tokens=self.max_tokens,
            pollutions=self.pollutions,
            frequent=self.frequent,
            alike=self.alike,
            word_context=self.context_width is not None,
            seed=self.seed,
        )

    def network(self, dim: int) -> InfoMetICConfig:
        """The network for embeddings of a length."""
        shared = {known.name for known in fields(InfoMetICConfig)} & {known.name for known in fields(self)}
        return InfoMetICConfig(dim=dim, **{name: getattr(self, name) for name in shared})


@dataclass(frozen=True)
class Trained:
    """What a run came to.

    Attributes:
        folder: with the weights, if the run is finished.
        run: how the run stands.
        evaluation: the last numbers of `AlignmentCheck`; {} without validation captions.
        base: the same of InfoCLIP, the baseline without parameters, on the same backbone.
        n_training, n_validation: pairs trained on, and left for validation.
    """

    folder: Path
    run: RunResult
    evaluation: dict[str, float]
    base: dict[str, float]
    n_training: int
    n_validation: int


# ------------------------------------------------------------------------------ batches


@dataclass(frozen=True)
class AlignmentItem:
    """A row of a batch.

    Attributes:
        task: what the batch trains for.
        position: number of the row in the batch.
        pair: its number in the data.
        image: number of its image.
        text: number of its text; in text batches a polluted one.
        other: in coarse batches the hard negative, in text batches the caption as it was; −1 for none.
        caption: the text, for error messages.
    """

    task: str
    position: int
    pair: int
    image: int
    text: int
    other: int
    caption: str


class AlignmentBatches:
    """Batches of the tasks in turn; each task goes through its own pairs in an order of its own.

    A batch is a pure function of (seed, epoch, step). An epoch is over when every pair of the most frequent
    task was there once.

    Args:
        data: the pairs.
        pairs: numbers of those to train on.
        tasks: what the steps train for, in turn.
        batch_size: most rows a batch, over all processes.
        hard_negatives: whether coarse rows have one, where there is any.
        untouched: share of the rows of text batches that keep their caption.
        seed: of orders and draws.

    Raises:
        InputError: a task for which no pair has what it needs.

    Attributes:
        steps_per_epoch: batches an epoch.
    """

    def __init__(
        self,
        data: AlignmentData,
        pairs: np.ndarray,
        *,
        tasks: Sequence[str],
        batch_size: int,
        hard_negatives: bool = True,
        untouched: float = 0.0,
        seed: int = 0,
    ):
        self.data, self.tasks, self.untouched, self.seed = data, list(tasks), untouched, seed
        usable = {
            "coarse": pairs,
            "text": pairs[data.with_pollution()[pairs]],
            "vision": pairs[data.with_region_labels()[pairs]],
        }
        self.rows = {task: usable[task] for task in TASKS if task in self.tasks}
        for task, rows in self.rows.items():
            if not len(rows):
                raise InputError(_WITHOUT[task], field="tasks")
        self._shuffled = {
            task: ShuffledBatches(rows, batch_size, seed + 1_000_003 * TASKS.index(task))
            for task, rows in self.rows.items()
        }
        leading = max(self.rows, key=self.tasks.count)
        turns = -(-self._shuffled[leading].steps_per_epoch // self.tasks.count(leading))
        self.steps_per_epoch = turns * len(self.tasks)
        self._with_hard_negatives = hard_negatives

    @cached_property
    def _hard_negatives(self) -> list[np.ndarray]:
        return self.data.hard_negatives()

    def batch(self, epoch: int, step: int) -> list[AlignmentItem]:
        """The rows of a step, counted from 0 in each epoch; all of one task."""
        turn, place = divmod(epoch * self.steps_per_epoch + step, len(self.tasks))
        task = self.tasks[place]
        number = turn * self.tasks.count(task) + self.tasks[:place].count(task)
        shuffled = self._shuffled[task]
        own_epoch, own_step = divmod(number, shuffled.steps_per_epoch)
        return [
            self._item(task, position, int(pair), own_epoch)
            for position, pair in enumerate(shuffled.batch(own_epoch, own_step))
        ]

    def _item(self, task: str, position: int, pair: int, epoch: int) -> AlignmentItem:
        data = self.data
        text, other = int(data.pair_text[pair]), -1
        chance = np.random.default_rng((self.seed, epoch, TASKS.index(task), pair))
        if task == "coarse" and self._with_hard_negatives:
            choices = self._hard_negatives[pair]
            other = int(chance.choice(choices)) if len(choices) else -1
        elif task == "text" and chance.random() >= self.untouched:
            text, other = int(chance.choice(data.polluted_texts(pair))), text
        return AlignmentItem(task, position, pair, int(data.pair_image[pair]), text, other, data.texts[text])


_WITHOUT = {
    "coarse": "there are no captions to train on",
    "text": "tasks has 'text', but no caption could be polluted: none has a semantic word with another of "
    "its class",
    "vision": "tasks has 'vision', but no row says which regions its caption mentions: give rows "
    "'mentioned', add Flickr30k Entities, or leave the task out",
}


# --------------------------------------------------------------------------------- loss


class AlignmentLoss:
    """The losses of InfoMetIC on rows of `AlignmentBatches`, as `training.engine.loop.run` calls it.

    Args:
        data: features and labels.
        settings: weights and negatives.
    """

    def __init__(self, data: AlignmentData, settings: Settings):
        self.data, self.settings = data, settings

    def __call__(
        self, model: nn.Module, rows: Sequence[AlignmentItem], gather: Callable[[Tensor], Tensor]
    ) -> dict[str, Tensor]:
        """Loss and terms over the rows of all processes."""
        step = {"coarse": self._coarse, "text": self._text, "vision": self._vision}[rows[0].task]
        return step(model, rows, gather, str(next(model.parameters()).device))

    def _images(self, model: InfoMetIC, rows: Sequence[AlignmentItem], at: str) -> Any:
        batch = self.data.images([row.image for row in rows], at)
        return model.encode_images(batch.global_, batch.regions, batch.boxes, batch.mask)

    def _texts(self, model: InfoMetIC, numbers: Sequence[int], at: str, length: int = 0) -> TextStates:
        batch = self.data.text_batch(numbers, at, length=length)
        return model.encode_texts(batch.global_, batch.tokens, batch.mask, context=batch.context)

    def _coarse(
        self, model: InfoMetIC, rows: Sequence[AlignmentItem], gather: Callable[[Tensor], Tensor], at: str
    ) -> dict[str, Tensor]:
        settings, n = self.settings, len(rows)
        lengths = torch.tensor([self.data.length(row.text) for row in rows], device=at)
        images = self._images(model, rows, at)
        own = self._texts(model, [row.text for row in rows], at, length=int(gather(lengths).max()))
        # each process scores its own images with the texts of all
        parts = {part.name: getattr(own, part.name) for part in fields(TextStates)}
        texts = TextStates(**{name: None if part is None else gather(part) for name, part in parts.items()})
        positions = gather(torch.tensor([row.position for row in rows], device=at))
        places = torch.tensor([row.position for row in rows], device=at) - positions.min()
        recall, precision, scored = self._scores(model, images, texts, places)
        here = torch.arange(n, device=at)
        matching = recall[here, places]

        with_hard = settings.hard_negatives and settings.hard_weight > 0
        # times 0, so that every process has gradients to exchange, whether or not its rows have one
        hard, there = matching * 0, torch.tensor([row.other >= 0 for row in rows], device=at)
        if with_hard and bool(there.any()):
            few = self._texts(model, [row.other for row in rows if row.other >= 0], at)
            found = model.pairs(images, few, here[there], torch.arange(len(few), device=at))
            hard = hard.index_put((here[there],), found.recall.to(hard.dtype))

        negatives = gather(scored)
        if not settings.shared_negatives:
            for name in ("image", "text"):
                numbers = gather(torch.tensor([getattr(row, name) for row in rows], device=at))
                negatives = negatives & (numbers[:, None] != numbers[None, :])
        everywhere = (gather(part.float()) for part in (recall, precision))
        l_r, l_p = coarse_nce(*everywhere, counted=negatives)
        terms = {"recall": l_r, "precision": l_p}
        total = settings.recall_weight * l_r + settings.precision_weight * l_p
        if with_hard:
            terms["hard"] = hard_negative_loss(
                gather(matching.float()), gather(hard.float()), there=gather(there)
            )
            total = total + settings.hard_weight * terms["hard"]
        return {"loss": total, **terms, "scale": model.scale}

    def _scores(
        self, model: InfoMetIC, images: Any, texts: TextStates, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Recall and precision of own images with all texts, and which of them were computed: (own, b)."""
        n, b, most = len(images), len(texts), self.settings.negatives
        if most is None or most >= b - 1:
            recall, precision = model.all_pairs(images, texts, self.settings.pairs_at_once)
            return recall, precision, torch.ones_like(recall, dtype=torch.bool)
        # the next captions of the batch, round and round: so each caption, too, has as many images
        columns = (places[:, None] + torch.arange(most + 1, device=places.device)) % b
        rows = torch.arange(n, device=places.device)[:, None].expand_as(columns)
        found = model.pairs(images, texts, rows.reshape(-1), columns.reshape(-1))
        empty = found.recall.new_zeros((n, b))
        recall, precision = (
            empty.index_put((rows, columns), part.reshape(n, -1)) for part in (found.recall, found.precision)
        )
        scored = torch.zeros_like(empty, dtype=torch.bool).scatter(1, columns, True)
        return recall, precision, scored

    def _text(
        self, model: InfoMetIC, rows: Sequence[AlignmentItem], gather: Callable[[Tensor], Tensor], at: str
    ) -> dict[str, Tensor]:
        settings = self.settings
        images, here = self._images(model, rows, at), torch.arange(len(rows), device=at)
        batch = self.data.text_batch([row.text for row in rows], at)
        texts = model.encode_texts(batch.global_, batch.tokens, batch.mask, context=batch.context)
        found = model.pairs(images, texts, here, here)
        alpha = word_shares(found.token_scores.float(), batch.shares)
        l_t = gather(token_loss(alpha, batch.labels, batch.counted)).mean()
        terms, total = {"text": l_t}, settings.text_weight * l_t
        if settings.pollution_weight:
            there = torch.tensor([row.other >= 0 for row in rows], device=at)
            # a row that kept its caption is compared with itself, and does not count
            before = self._texts(model, [row.other if row.other >= 0 else row.text for row in rows], at)
            right = model.pairs(images, before, here, here).precision
            terms["pollution"] = hard_negative_loss(
                gather(right.float()), gather(found.precision.float()), there=gather(there)
            )
            total = total + settings.pollution_weight * terms["pollution"]
        return {"loss": total, **terms}

    def _vision(
        self, model: InfoMetIC, rows: Sequence[AlignmentItem], gather: Callable[[Tensor], Tensor], at: str
    ) -> dict[str, Tensor]:
        batch = self.data.images([row.image for row in rows], at)
        images = model.encode_images(batch.global_, batch.regions, batch.boxes, batch.mask)
        texts = self._texts(model, [row.text for row in rows], at)
        here = torch.arange(len(rows), device=at)
        alpha = model.pairs(images, texts, here, here).region_scores.float()
        labels = self.data.region_labels([row.pair for row in rows], batch.mask.shape[1], at)
        if not self.settings.null_token:
            labels[:, -1] = 0
        regions = torch.nn.functional.pad(batch.mask, (0, 1), value=False)
        l_v = gather(token_loss(alpha, labels, regions)).mean()
        return {"loss": self.settings.vision_weight * l_v, "vision": l_v}


# ---------------------------------------------------------------------------- measuring


class AlignmentCheck:
    """What a network, or InfoCLIP, makes of validation pairs.

    Called with an `Aligner` in eval mode it gives, where there is something to measure it on:

    - words_right: share of the semantic words of polluted captions that are judged as labelled;
    - planted_found: share of polluted captions whose wrong word has the lowest score of its semantic words;
    - planted_by_chance: the same for a guess;
    - false_alarms: share of the semantic words of captions as they were that are judged wrong;
    - precision_falls: share of polluted captions whose precision is below that of the caption as it was;
    - recall_falls: share of captions that say less whose recall is below that of the caption that says more;
    - regions_right: share of regions that are judged mentioned or not as labelled.

    Args:
        data: the pairs.
        pairs: numbers of those to measure on.
        beta: score above which a word is right and a region mentioned.
        most: so many of the pairs are measured, drawn by the seed.
        seed: of the draw.

    Attributes:
        n: pairs that are measured.
    """

    def __init__(
        self, data: AlignmentData, pairs: np.ndarray, *, beta: float = 0.1, most: int = 2000, seed: int = 0
    ):
        chosen = np.random.default_rng((seed, 4)).permutation(pairs)[:most]
        self.data, self.beta, self.pairs = data, beta, np.sort(chosen)
        self.n = len(self.pairs)
        self._polluted = data.with_pollution()
        self._labelled = data.with_region_labels()
        self._hard = data.hard_negatives()

    def __call__(self, aligner: Aligner) -> dict[str, float]:
        """The numbers, by name."""
        sums: dict[str, list[float]] = {}

        def add(name: str, values: Tensor) -> None:
            total = sums.setdefault(name, [0.0, 0.0])
            total[0] += float(values.double().sum())
            total[1] += values.numel()

        at = _device_of(aligner)
        with torch.no_grad():
            for start in range(0, self.n, _MEASURED):
                self._measure(aligner, self.pairs[start : start + _MEASURED], at, add)
        return {name: total / n for name, (total, n) in sums.items() if n}

    def false_alarms(self, aligner: Aligner) -> float:
        """Of these numbers that one alone; 0 where no word counts."""
        at, n_flagged, n_words = _device_of(aligner), 0, 0
        with torch.no_grad():
            for start in range(0, self.n, _MEASURED):
                pairs = self.pairs[start : start + _MEASURED]
                images = self._images(aligner, pairs, at)[1]
                told, found = self._scored(
                    aligner, images, self.data.pair_text[pairs], np.arange(len(pairs)), at
                )
                alpha = word_shares(found.token_scores.float(), told.shares)
                n_flagged += int((alpha <= self.beta)[told.counted].sum())
                n_words += int(told.counted.sum())
        return n_flagged / max(n_words, 1)

    def _images(self, aligner: Aligner, pairs: np.ndarray, at: str) -> tuple[Any, Any]:
        batch = self.data.images(self.data.pair_image[pairs].tolist(), at)
        return batch, aligner.encode_images(batch.global_, batch.regions, batch.boxes, batch.mask)

    def _scored(
        self, aligner: Aligner, images: Any, texts: Sequence[int], rows: np.ndarray, at: str
    ) -> tuple[Any, Any]:
        """Texts, each with the image of a row."""
        told = self.data.text_batch(list(texts), at)
        states = aligner.encode_texts(told.global_, told.tokens, told.mask, context=told.context)
        index = torch.from_numpy(rows).to(at)
        return told, aligner.pairs(images, states, index, torch.arange(len(told.mask), device=at))

    def _measure(
        self, aligner: Aligner, pairs: np.ndarray, at: str, add: Callable[[str, Tensor], None]
    ) -> None:
        data, beta = self.data, self.beta
        batch, images = self._images(aligner, pairs, at)

        def scored(texts: Sequence[int], rows: np.ndarray) -> tuple[Any, Any]:
            return self._scored(aligner, images, texts, rows, at)

        everything = np.arange(len(pairs))
        told, plain = scored(data.pair_text[pairs].tolist(), everything)
        alpha = word_shares(plain.token_scores.float(), told.shares)
        add("false_alarms", (alpha <= beta)[told.counted])
        rows = everything[self._labelled[pairs]]
        if len(rows):
            labels = data.region_labels(pairs[rows].tolist(), batch.mask.shape[1], at)[:, :-1] > 0
            judged = plain.region_scores[rows, :-1] > beta
            add("regions_right", (judged == labels)[batch.mask[rows]])
        rows = everything[self._polluted[pairs]]
        if len(rows):
            told, found = scored([int(data.polluted_texts(pair)[0]) for pair in pairs[rows]], rows)
            alpha = word_shares(found.token_scores.float(), told.shares)
            add("words_right", ((alpha > beta) == (told.labels > 0))[told.counted])
            lowest = alpha.masked_fill(~told.counted, torch.inf).argmin(dim=1, keepdim=True)
            add("planted_found", (told.labels.gather(1, lowest) == 0).float())
            add("planted_by_chance", 1 / told.counted.sum(dim=1).float())
            add("precision_falls", (found.precision < plain.precision[rows]).float())
        rows = np.array([row for row in everything if len(self._hard[pairs[row]])], dtype=np.int64)
        if len(rows):
            _, found = scored([int(self._hard[pair][0]) for pair in pairs[rows]], rows)
            add("recall_falls", (found.recall < plain.recall[rows]).float())


def _device_of(aligner: Aligner) -> str:
    first = next(aligner.parameters(), None)
    return "cpu" if first is None else str(first.device)


def set_sharpness(model: InfoMetIC, check: AlignmentCheck, share: float) -> None:
    """Set a network's sharpness so that a share of right words has a score of at most β, in 12 halvings.

    The sharper, the more of them; from a tenth to ten times as sharp as without.
    """
    low, high = -1.0, 1.0
    plain = model.config
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        model.config = replace(plain, sharpness=float(10**middle))
        if check.false_alarms(model) > share:
            high = middle
        else:
            low = middle
    # not up: that could be beyond the share
    model.config = replace(plain, sharpness=math.floor(10**low * 1e4) / 1e4)


# ------------------------------------------------------------------------------ the run


def train(settings: Settings, *, command: str = "") -> Trained:
    """Run the recipe: read, compute features, split, train, measure, save.

    Args:
        settings: see `Settings`.
        command: what the card says trains the network again; "" for the run's own settings file.

    Raises:
        CapscoreError, InputError: bad data or settings; a loss that is not finite names its batch.
        BackboneUnavailable: the backbone or a detector cannot be had.
    """
    out = Path(settings.out).expanduser()
    _refuse_other_model(out)
    folder = Path(settings.features).expanduser() if settings.features else out / FEATURES
    backbone = load_backbone(settings.base, device=device(), dtype="float32")
    sources = [_Source(spec, settings) for spec in settings.data]
    rows = [row for source in sources for row in source.rows()]
    with main_process_first():  # the others find the features
        embedder = Embedder(backbone, cache=EmbeddingCache(None))
        data = prepare(rows, embedder, settings.options, folder, say=say)
    del rows
    split = _split(data, settings)
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
    if result.finished and is_main_process():
        _save(settings, model, data, split, sources, trained, check, command)
    return trained


def _refuse_other_model(out: Path) -> None:
    """Before the work, not after it: a folder with the weights of something else."""
    if not (out / WEIGHTS).is_file():
        return
    try:
        kind = json.loads((out / CONFIG).read_text(encoding="utf-8"))["model_type"]
    except (OSError, ValueError, KeyError, TypeError):
        kind = None
    if kind != MODEL_TYPE:
        raise CapscoreError(f"{out} has the weights of another model: give another folder as out")


def _split(data: AlignmentData, settings: Settings) -> Split:
    """Pairs to train on and to measure on; no photo has pairs in both."""
    photos = Captions(
        texts=[data.texts[text] for text in data.pair_text],
        languages=data.pair_language.tolist(),
        objects=[None] * len(data),
        image=data.photo,
        names=data.names,
        embeddings=np.zeros((0, 0), np.float32),
        keys=data.photo_keys.tolist(),
        n_stand_ins=0,
        n_truncated=0,
    )
    return split_by_image(
        photos,
        validation_share=settings.validation_share,
        hold_out=read_names(settings.hold_out) if settings.hold_out else (),
        seed=settings.seed,
    )


class _Source(Origin):
    """A file or data set."""

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
                f"{self.spec} names images, but not where they are: give image_dir", field="data"
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


_COUNTS = {
    "n_texts_cut": "texts with more pieces than the network reads, cut",
    "n_not_polluted": "captions without a word that could be polluted",
    "n_regions_cut": "region texts beyond n_regions, left out",
    "n_images_without_region": "images in which no region was found",
    "n_without_found_region": "captions that mention only what no region shows, not used for vision",
}


# ------------------------------------------------------------------------------- saving


def _save(
    settings: Settings,
    model: InfoMetIC,
    data: AlignmentData,
    split: Split,
    sources: Sequence[_Source],
    trained: Trained,
    check: AlignmentCheck | None,
    command: str,
) -> None:
    out = trained.folder
    languages = sorted(set(data.pair_language[split.training].tolist()))
    numbers = finite({"this": trained.evaluation, "info_clip": trained.base})
    command = command or "python -m training.infometic --config settings.yaml"
    model.save_pretrained(
        out,
        dtype=settings.stored_dtype,
        notes={
            "recipe": "infometic",
            "languages": languages,
            "regions": settings.regions,
            "steps": trained.run.step,
            "validation": numbers,
        },
    )
    own = {name: value for name, value in asdict(settings).items() if name not in ("out", "name", "features")}
    write_text(out / "settings.yaml", as_yaml(asdict(settings)), "settings")
    card = ModelCard(
        name=settings.name or out.resolve().name,
        recipe="infometic",
        base=settings.base,
        languages=languages,
        license=settings.license,
        command=command,
        settings=own,
        data=[part for source in sources for part in source.described()],
        held_out=held_out(split, sources, "photos"),
        results=_results(trained, check, command),
        not_measured=["Agreement with human ratings."],
        limitations=[f"{_COUNTS[name]}: {count:,}." for name, count in sorted(data.counts.items()) if count],
        compute=machine_and_time(trained.run),
    )
    write_card(out, card)
    summary = {
        "step": trained.run.step,
        "n_training": trained.n_training,
        "n_validation": trained.n_validation,
        "features": data.digest,
        "counts": data.counts,
        **numbers,
    }
    write_text(out / RESULT, json.dumps(summary, indent=2, ensure_ascii=False) + "\n", "result")


def _results(trained: Trained, check: AlignmentCheck | None, command: str) -> list[Result]:
    if check is None:
        return [Result("validation split", "words_right", None)]
    return results(trained.evaluation, trained.base, command, check.n)


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    # gradients of words that are all but surely right become so small that a CPU takes many times as long
    torch.set_flush_denormal(True)
    arguments = list(sys.argv[1:] if argv is None else argv)
    settings = parse(Settings, arguments, "Train InfoMetIC's network.")
    train_and_say(lambda: train(settings, command=f"python -m training.infometic {shlex.join(arguments)}"))


if __name__ == "__main__":
    run_as_command(main)
