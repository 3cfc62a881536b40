"""Scores of images and captions → the losses of InfoMetIC (Hu et al. 2023, §3.2).

`AlignmentLoss` makes the scores from rows; the other losses are pure functions of them. f^R is the vision
recall of a pair, f^P its text precision, and α the share of attention of a region or a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from capscore.infometic.network import InfoMetIC, States
from training.data.alignment_batches import AlignmentItem
from training.data.alignment_data import AlignmentData, ImageBatch, TextBatch
from training.engine.pr_mcs_losses import masked_mean, nce
from training.engine.processes import Gather

_PAIRS_AT_ONCE = 4096  # images and captions that go through the network at once


def hard_negative_loss(own: Tensor, hard: Tensor, *, there: Tensor | None = None) -> Tensor:
    """l_r^h = −log e^own / (e^own + e^hard), the mean over captions with a hard negative (eq. 8).

    f^R (b,) of the pairs, and of the same images with captions that say less about them, where those are
    `there`; 0 without any hard negative.

    >>> round(hard_negative_loss(torch.tensor([1.0]), torch.tensor([0.0])).item(), 4)      # ln(1 + e^-1)
    0.3133
    """
    return masked_mean(F.softplus(hard - own), there)


def token_loss(alpha: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """l^token = −(1/n) Σ Y log α of each row (eqs. 9 and 10), (b,); 0 for a row without a label 1.

    α are the shares (b, k) of words, or of regions and the null region; labels (b, k) are 1 for right or
    mentioned, else 0; n counts what `mask` (b, k) has: semantic words, or regions, but not the null region.

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
    """Shares (b, l) of pieces → shares (b, w) of words, each the sum over the word's pieces.

    `shares` (b, l, w) are the parts of each piece that lie in each word, from 0 to 1.

    >>> word_shares(torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[[1.0, 0], [1, 0], [0, 1]]]))
    tensor([[0.7500, 0.2500]])
    """
    return torch.einsum("bl,blw->bw", alpha, shares.to(alpha.dtype))


class AlignmentLoss:
    """The losses of InfoMetIC on rows of `AlignmentBatches`, as `training.engine.loop.run` calls it.

    It is l_r + l_p + l_r^h of coarse rows, l_t^token of text rows, l_v^token of vision rows. `weights` are
    those of terms by name; 1 for others. The term "pollution", which the paper lacks, is there if it has one.
    """

    def __init__(
        self,
        data: AlignmentData,
        *,
        negatives: int | None = None,
        hard_negatives: bool = True,
        weights: Mapping[str, float] = {},
    ):
        self.data, self.negatives, self.hard_negatives = data, negatives, hard_negatives
        self.weights = weights

    def __call__(self, model: nn.Module, rows: Sequence[AlignmentItem], gather: Gather) -> dict[str, Tensor]:
        assert isinstance(model, InfoMetIC)
        terms = {"coarse": self.coarse, "text": self.text, "vision": self.vision}
        found = terms[rows[0].task](model, rows, gather)
        weighted = [self.weights.get(name, 1.0) * term for name, term in found.items()]
        loss = {"loss": torch.stack(weighted).sum(), **found}
        return loss | {"scale": model.scale} if rows[0].task == "coarse" else loss

    def coarse(self, model: InfoMetIC, rows: Sequence[AlignmentItem], gather: Gather) -> dict[str, Tensor]:
        """l_r and l_p (eqs. 5–7) over the batch of all processes, and l_r^h of rows with a hard negative."""
        _, images = self.images(model, rows)
        at = images.tokens.device

        def column(values: Iterable[int]) -> Tensor:
            return torch.tensor(list(values), device=at)

        longest = int(gather(column(len(self.data.pieces[row.text]) for row in rows)).max())
        _, own = self.texts(model, [row.text for row in rows], longest)
        # each process scores its own images with the texts of all
        parts = {known.name: getattr(own, known.name) for known in fields(States)}
        texts = replace(own, **{name: gather(part) for name, part in parts.items() if part is not None})
        positions = column(row.position for row in rows)
        places = positions - gather(positions).min()
        recall, precision, counted = self._scores(model, images, texts, places)
        # another caption of a photo, and the same caption of another, are not negatives
        counted = gather(counted)
        photos = [int(self.data.photos.number[row.pair]) for row in rows]
        for numbers in (photos, [row.text for row in rows]):
            all_numbers = gather(column(numbers))
            counted = counted & (all_numbers[:, None] != all_numbers[None, :])
        terms = {"recall": nce(gather(recall.float()), counted)}
        terms["precision"] = nce(gather(precision.float()), counted)
        if self.hard_negatives:
            here = torch.arange(len(rows), device=at)
            matching, there = recall[here, places], column(row.other >= 0 for row in rows)
            hard = matching * 0  # so that every process has gradients to exchange
            if bool(there.any()):
                _, few = self.texts(model, [row.other for row in rows if row.other >= 0])
                found = model.pairs(images, few, here[there], torch.arange(len(few), device=at))
                hard = hard.index_put((here[there],), found.recall.to(hard.dtype))
            scores = gather(matching.float()), gather(hard.float())
            terms["hard"] = hard_negative_loss(*scores, there=gather(there))
        return terms

    def text(self, model: InfoMetIC, rows: Sequence[AlignmentItem], gather: Gather) -> dict[str, Tensor]:
        """l_t^token of polluted captions; "pollution": their precision beside that of the captions."""
        _, images = self.images(model, rows)
        batch, texts = self.texts(model, [row.text for row in rows])
        here = torch.arange(len(rows), device=images.tokens.device)
        found = model.pairs(images, texts, here, here)
        alpha = word_shares(found.token_scores.float(), batch.shares)
        terms = {"text": gather(token_loss(alpha, batch.labels, batch.counted)).mean()}
        if "pollution" in self.weights:
            # a row that kept its caption is compared with itself, and does not count
            _, before = self.texts(model, [row.other if row.other >= 0 else row.text for row in rows])
            there = torch.tensor([row.other >= 0 for row in rows], device=here.device)
            right = model.pairs(images, before, here, here).precision
            scores = gather(right.float()), gather(found.precision.float())
            terms["pollution"] = hard_negative_loss(*scores, there=gather(there))
        return terms

    def vision(self, model: InfoMetIC, rows: Sequence[AlignmentItem], gather: Gather) -> dict[str, Tensor]:
        """l_v^token of the regions that captions mention."""
        batch, images = self.images(model, rows)
        _, texts = self.texts(model, [row.text for row in rows])
        here = torch.arange(len(rows), device=images.tokens.device)
        alpha = model.pairs(images, texts, here, here).region_scores.float()
        pairs = [row.pair for row in rows]
        labels = self.data.region_labels(pairs, batch.mask.shape[1], str(here.device))
        counted = F.pad(batch.mask, (0, 1), value=False)
        return {"vision": gather(token_loss(alpha, labels, counted)).mean()}

    def images(self, model: InfoMetIC, rows: Sequence[AlignmentItem]) -> tuple[ImageBatch, States]:
        """The images of rows, and what the network makes of them."""
        batch = self.data.images([row.image for row in rows], device_of(model))
        return batch, model.encode_images(batch.global_, batch.regions, batch.boxes, batch.mask)

    def texts(self, model: InfoMetIC, numbers: Sequence[int], length: int = 0) -> tuple[TextBatch, States]:
        """Texts by their numbers, padded to at least `length` pieces, and what the network makes of them."""
        batch = self.data.text_batch(numbers, device_of(model), length=length)
        return batch, model.encode_texts(batch.global_, batch.tokens, batch.mask, context=batch.context)

    def _scores(
        self, model: InfoMetIC, images: States, texts: States, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Recall and precision of own images with all texts, and which were computed: (own, b) each."""
        n, b, most = len(images), len(texts), self.negatives
        if most is None or most >= b - 1:
            recall, precision = model.all_pairs(images, texts, _PAIRS_AT_ONCE)
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


def device_of(model: nn.Module) -> str:
    """The device of a network's weights; "cpu" for one that has none."""
    first = next(model.parameters(), None)
    return "cpu" if first is None else str(first.device)
