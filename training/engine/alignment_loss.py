"""Rows of `AlignmentBatches` → the losses of InfoMetIC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from capscore.infometic.alignment import States
from capscore.infometic.network import InfoMetIC
from training.data.alignment_batches import AlignmentItem
from training.data.alignment_data import AlignmentData
from training.engine.infometic_losses import coarse_nce, hard_negative_loss, token_loss, word_shares
from training.engine.loop_settings import require
from training.engine.processes import Gather
from training.engine.recipe import RecipeSettings


@dataclass
class AlignmentLossSettings(RecipeSettings):
    """Settings of InfoMetIC's losses.

    Attributes:
        negatives: Number of other captions in a batch that an image is compared with, and of other images
            for a caption; None for all, as published. Fewer take less time.
        shared_negatives: Whether rows that share an image or a text are each other's negatives.
        hard_negatives: Whether captions that say less about an image are hard negatives in coarse steps.
        pairs_at_once: Most pairs that go through the network at once, to save memory; None for all.
        recall_weight, precision_weight, hard_weight, text_weight, vision_weight: Weights of l_r, l_p, l_r^h,
            l_t^token and l_v^token.
        pollution_weight: Weight of a term by which a caption has a higher precision than its polluted form;
            in text steps. Not in the paper.
        null_token: Whether the network has a null word and a null region.
    """

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
    null_token: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for part in ("recall", "precision", "hard", "text", "vision", "pollution"):
            name = f"{part}_weight"
            value = getattr(self, name)
            require(0 <= value < float("inf"), name, value, "a weight of at least 0")
        for name in ("negatives", "pairs_at_once"):
            value = getattr(self, name)
            right = value is None or (not isinstance(value, bool) and value >= 1)
            require(right, name, value, "at least 1, or nothing (null) for all")

    def weights_of(self, task: str) -> float:
        """Sum of the weights of a task's losses."""
        if task == "coarse":
            hard = self.hard_weight if self.hard_negatives else 0
            return self.recall_weight + self.precision_weight + hard
        return self.text_weight + self.pollution_weight if task == "text" else self.vision_weight


class AlignmentLoss:
    """The losses of InfoMetIC on rows of `AlignmentBatches`, as `training.engine.loop.run` calls it.

    Args:
        data: Features and labels.
        settings: Weights and negatives.
    """

    def __init__(self, data: AlignmentData, settings: AlignmentLossSettings):
        self.data, self.settings = data, settings

    def __call__(self, model: nn.Module, rows: Sequence[AlignmentItem], gather: Gather) -> dict[str, Tensor]:
        """Loss and terms over the rows of all processes."""
        step = {"coarse": self._coarse, "text": self._text, "vision": self._vision}[rows[0].task]
        return step(model, rows, gather, str(next(model.parameters()).device))

    def _images(self, model: InfoMetIC, rows: Sequence[AlignmentItem], at: str) -> Any:
        batch = self.data.images([row.image for row in rows], at)
        return model.encode_images(batch.global_, batch.regions, batch.boxes, batch.mask)

    def _texts(self, model: InfoMetIC, numbers: Sequence[int], at: str, length: int = 0) -> States:
        batch = self.data.text_batch(numbers, at, length=length)
        return model.encode_texts(batch.global_, batch.tokens, batch.mask, context=batch.context)

    def _coarse(
        self, model: InfoMetIC, rows: Sequence[AlignmentItem], gather: Gather, at: str
    ) -> dict[str, Tensor]:
        settings, n = self.settings, len(rows)
        lengths = torch.tensor([self.data.length(row.text) for row in rows], device=at)
        images = self._images(model, rows, at)
        own = self._texts(model, [row.text for row in rows], at, length=int(gather(lengths).max()))
        # each process scores its own images with the texts of all
        parts = {part.name: getattr(own, part.name) for part in fields(States)}
        texts = States(**{name: None if part is None else gather(part) for name, part in parts.items()})
        positions = gather(torch.tensor([row.position for row in rows], device=at))
        places = torch.tensor([row.position for row in rows], device=at) - positions.min()
        recall, precision, scored = self._scores(model, images, texts, places)
        here = torch.arange(n, device=at)
        matching = recall[here, places]

        with_hard = settings.hard_negatives and settings.hard_weight > 0
        # times 0, so that every process has gradients to exchange even without a hard negative
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
        self, model: InfoMetIC, images: Any, texts: States, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Recall and precision of own images with all texts, and which were computed: (own, b) each."""
        n, b, most = len(images), len(texts), self.settings.negatives
        if most is None or most >= b - 1:
            recall, precision = model.all_pairs(images, texts, self.settings.pairs_at_once)
            return recall, precision, torch.ones_like(recall, dtype=torch.bool)
        # the next captions of the batch, cyclically, so that each caption has as many images
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
        self, model: InfoMetIC, rows: Sequence[AlignmentItem], gather: Gather, at: str
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
        self, model: InfoMetIC, rows: Sequence[AlignmentItem], gather: Gather, at: str
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
