"""Scores of images and captions → the losses of InfoMetIC (Hu et al. 2023, §3.2).

Each loss is a pure function of the model's scores, and differentiable; `AlignmentLoss` makes the scores from
rows. f^R is the vision recall of a pair, f^P its text precision, and α the share of attention of a region or
a word.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.infometic.network import InfoMetIC, States
from training.data.alignment_batches import AlignmentItem
from training.data.alignment_data import AlignmentData, TextBatch
from training.engine.loop_settings import require_range
from training.engine.pr_mcs_losses import masked_mean, nce
from training.engine.processes import Gather
from training.engine.recipe import RecipeSettings


def coarse_nce(recall: Tensor, precision: Tensor, *, counted: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """l_r and l_p: matching the images and captions of a batch (eqs. 5–7).

    Args:
        recall, precision: f^R and f^P (b, b) of image i (row) with caption j (column), temperature included;
            the diagonal matches.
        counted: bool (b, b), False where a pair is not a negative: another caption of the same image, a
            repeated text, or a pair that was not computed. The diagonal always counts. None if all count.

    Returns:
        Two scalars of at least 0, each the mean of both directions; ln b if all scores are equal.

    >>> scores = torch.eye(2)
    >>> [round(loss.item(), 4) for loss in coarse_nce(scores, torch.zeros(2, 2))]      # ln(1 + e^-1), ln 2
    [0.3133, 0.6931]
    """
    return nce(recall, counted), nce(precision, counted)


def hard_negative_loss(own: Tensor, hard: Tensor, *, there: Tensor | None = None) -> Tensor:
    """l_r^h = −log e^own / (e^own + e^hard), the mean over captions with a hard negative (eq. 8).

    Args:
        own, hard: f^R (b,) of the pairs, and of the same images with captions that say less about them.
        there: bool (b,), False where a caption has no hard negative; None if all have one.

    Returns:
        A scalar; 0 without any hard negative.

    >>> round(hard_negative_loss(torch.tensor([1.0]), torch.tensor([0.0])).item(), 4)      # ln(1 + e^-1)
    0.3133
    """
    return masked_mean(F.softplus(hard - own), there)


def token_loss(alpha: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """l^token = −(1/n) Σ Y log α of each row (eqs. 9 and 10).

    Args:
        alpha: Shares (b, k) of words, or of regions and the null region.
        labels: (b, k), 1 for right or mentioned, else 0.
        mask: bool (b, k), True for what n counts: semantic words, or regions. A null region may be labelled
            without being counted.

    Returns:
        Losses (b,) of at least 0; 0 for a row without a label 1.

    >>> alpha = torch.tensor([[0.5, 0.25, 0.25]])
    >>> labels, mask = torch.tensor([[1.0, 0.0, 1.0]]), torch.tensor([[True, True, True]])
    >>> round(token_loss(alpha, labels, mask).item(), 4)      # (ln 2 + ln 4) / 3
    0.6931
    """
    # clamped, so that a share of 0 in float32 still has a gradient
    logs = alpha.clamp(min=torch.finfo(alpha.dtype).tiny).log()
    kept = torch.where(labels > 0, labels * logs, torch.zeros_like(logs))
    return -kept.sum(dim=-1) / mask.sum(dim=-1).clamp(min=1)


def word_shares(alpha: Tensor, shares: Tensor) -> Tensor:
    """Shares of pieces → shares of words, each the sum over the word's pieces.

    Args:
        alpha: Shares (b, l) of the pieces.
        shares: (b, l, w), part of each piece that lies in each word, from 0 to 1.

    Returns:
        Shares (b, w) of the words.

    >>> word_shares(torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[[1.0, 0], [1, 0], [0, 1]]]))
    tensor([[0.7500, 0.2500]])
    """
    return torch.einsum("bl,blw->bw", alpha, shares.to(alpha.dtype))


@dataclass
class AlignmentLossSettings(RecipeSettings):
    """Settings of InfoMetIC's losses.

    Attributes:
        negatives: Number of other captions in a batch that an image is compared with, and of other images
            for a caption; None for all, as published. Fewer take less time.
        shared_negatives: Whether rows that share a photo or a text are each other's negatives.
        hard_negatives: Whether captions that say less about an image are hard negatives in coarse steps.
        pairs_at_once: Maximum number of pairs that go through the network at once, to save memory; None for
            all.
        recall_weight, precision_weight, hard_weight, text_weight, vision_weight: Weights of l_r, l_p, l_r^h,
            l_t^token and l_v^token.
        pollution_weight: Weight of a term that gives a caption higher precision than its polluted form; in
            text steps. Not in the paper.
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
        weights = [known.name for known in fields(self) if known.name.endswith("_weight")]
        require_range(self, weights, 0, math.inf, "a weight of at least 0")
        require_range(
            self, ["negatives", "pairs_at_once"], 1, math.inf, "at least 1, or nothing (null) for all"
        )

    def weights_of(self, task: str) -> float:
        """Sum of the weights of a task's losses."""
        if task == "text":
            return self.text_weight + self.pollution_weight
        if task == "vision":
            return self.vision_weight
        return self.recall_weight + self.precision_weight + self.hard_negatives * self.hard_weight


class AlignmentLoss:
    """The losses of InfoMetIC on rows of `AlignmentBatches`, as `training.engine.loop.run` calls it."""

    def __init__(self, data: AlignmentData, settings: AlignmentLossSettings):
        self.data, self.settings = data, settings

    def __call__(self, model: nn.Module, rows: Sequence[AlignmentItem], gather: Gather) -> dict[str, Tensor]:
        """Loss and terms over the rows of all processes."""
        assert isinstance(model, InfoMetIC)
        at = str(next(model.parameters()).device)
        batch = self.data.images([row.image for row in rows], at)
        images = model.encode_images(batch.global_, batch.regions, batch.boxes, batch.mask)
        if rows[0].task == "coarse":
            return self._coarse(model, rows, gather, images, at)
        here = torch.arange(len(rows), device=at)
        if rows[0].task == "text":
            return self._text(model, rows, gather, images, here)
        _, texts = self._texts(model, [row.text for row in rows], at)
        alpha = model.pairs(images, texts, here, here).region_scores.float()
        labels = self.data.region_labels([row.pair for row in rows], batch.mask.shape[1], at)
        if not self.settings.null_token:
            labels[:, -1] = 0
        l_v = gather(token_loss(alpha, labels, F.pad(batch.mask, (0, 1), value=False))).mean()
        return {"loss": self.settings.vision_weight * l_v, "vision": l_v}

    def _texts(
        self, model: InfoMetIC, numbers: Sequence[int], at: str, length: int = 0
    ) -> tuple[TextBatch, States]:
        batch = self.data.text_batch(numbers, at, length=length)
        return batch, model.encode_texts(batch.global_, batch.tokens, batch.mask, context=batch.context)

    def _coarse(
        self, model: InfoMetIC, rows: Sequence[AlignmentItem], gather: Gather, images: States, at: str
    ) -> dict[str, Tensor]:
        def column(values: Iterable[int]) -> Tensor:
            return torch.tensor(list(values), device=at)

        settings = self.settings
        longest = int(gather(column(self.data.pieces.length(row.text) for row in rows)).max())
        _, own = self._texts(model, [row.text for row in rows], at, longest)
        # each process scores its own images with the texts of all
        parts = {known.name: getattr(own, known.name) for known in fields(States)}
        texts = replace(own, **{name: gather(part) for name, part in parts.items() if part is not None})
        positions = column(row.position for row in rows)
        places = positions - gather(positions).min()
        recall, precision, negatives = self._scores(model, images, texts, places)
        here = torch.arange(len(rows), device=at)
        matching = recall[here, places]

        # times 0, so that every process has gradients to exchange even without a hard negative
        hard, there = matching * 0, column(row.other >= 0 for row in rows)
        with_hard = settings.hard_negatives and settings.hard_weight > 0
        if with_hard and bool(there.any()):
            _, few = self._texts(model, [row.other for row in rows if row.other >= 0], at)
            found = model.pairs(images, few, here[there], torch.arange(len(few), device=at))
            hard = hard.index_put((here[there],), found.recall.to(hard.dtype))

        negatives = gather(negatives)
        if not settings.shared_negatives:
            photos = [int(self.data.photos.number[row.pair]) for row in rows]
            for numbers in (photos, [row.text for row in rows]):
                all_numbers = gather(column(numbers))
                negatives = negatives & (all_numbers[:, None] != all_numbers[None, :])
        l_r, l_p = coarse_nce(gather(recall.float()), gather(precision.float()), counted=negatives)
        terms = {"recall": l_r, "precision": l_p}
        total = settings.recall_weight * l_r + settings.precision_weight * l_p
        if with_hard:
            scores = gather(matching.float()), gather(hard.float())
            terms["hard"] = hard_negative_loss(*scores, there=gather(there))
            total = total + settings.hard_weight * terms["hard"]
        return {"loss": total, **terms, "scale": model.scale}

    def _scores(
        self, model: InfoMetIC, images: States, texts: States, places: Tensor
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
        return recall, precision, torch.zeros_like(empty, dtype=torch.bool).scatter(1, columns, True)

    def _text(
        self, model: InfoMetIC, rows: Sequence[AlignmentItem], gather: Gather, images: States, here: Tensor
    ) -> dict[str, Tensor]:
        settings, at = self.settings, here.device
        batch, texts = self._texts(model, [row.text for row in rows], str(at))
        found = model.pairs(images, texts, here, here)
        alpha = word_shares(found.token_scores.float(), batch.shares)
        l_t = gather(token_loss(alpha, batch.labels, batch.counted)).mean()
        terms, total = {"text": l_t}, settings.text_weight * l_t
        if settings.pollution_weight:
            there = torch.tensor([row.other >= 0 for row in rows], device=at)
            # a row that kept its caption is compared with itself, and does not count
            _, before = self._texts(
                model, [row.other if row.other >= 0 else row.text for row in rows], str(at)
            )
            right = model.pairs(images, before, here, here).precision
            scores = gather(right.float()), gather(found.precision.float())
            terms["pollution"] = hard_negative_loss(*scores, there=gather(there))
            total = total + settings.pollution_weight * terms["pollution"]
        return {"loss": total, **terms}
