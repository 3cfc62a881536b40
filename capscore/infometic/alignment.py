"""Embeddings of images and texts → scores of regions and pieces, recall and precision of each pair.

`Aligner` is the common interface of InfoMetIC's network and of InfoCLIP, which has no parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class States:
    """States of n images of m regions, without their captions, or of n texts of l pieces; len() is n.

    Attributes:
        global_: (n, d), embeddings of the whole images or texts.
        query: (n, width), vectors that are compared with the tokens of the other kind.
        tokens: (n, 1 + m + 1, width), states of whole image, regions and null token; or (n, l or more,
            width), states of the pieces, and of what fills the text up.
        attended: bool, as long as `tokens`: those that the transformer over both kinds attends to.
        scored: bool (n, m + 1), existing regions and the null token; or (n, l), pieces that get a score.
        words, hidden: (n, d) and (n, h) of images, (n, l, d) and (n, l, h) of texts: what words add to their
            texts, and what that is compared with; None if no words are read.
        log_weight: (n, l), of the pieces of texts; None for images, and if no words are read.
    """

    global_: Tensor
    query: Tensor
    tokens: Tensor
    attended: Tensor
    scored: Tensor
    words: Tensor | None = None
    hidden: Tensor | None = None
    log_weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.global_)


@dataclass(frozen=True)
class WordContext:
    """What words add to their n texts of at most l pieces (`capscore.infometic.words.added_by_words`).

    Attributes:
        added: (n, l, d), embedding of the text minus that of the text without the piece's word; 0 for pieces
            outside semantic words.
        weight: (n, l) in [0, 1]. The pieces of a semantic word share a weight of 1; others have weight 0 and
            no score. In a text without semantic words all pieces count.
    """

    added: Tensor
    weight: Tensor


@dataclass(frozen=True)
class Alignment:
    """Scores of p pairs of an image and a text.

    Attributes:
        region_scores: (p, m + 1) in [0, 1], the null token last; rows sum to 1, or are all 0 without regions
            and null token. Masked scores are exactly 0.
        token_scores: (p, l) in [0, 1], likewise.
        recall: (p,), scale × cosine of the mean region, weighted by region scores, with the whole image; 0 if
            all region scores are 0.
        precision: (p,), likewise for pieces and the whole text.
    """

    region_scores: Tensor
    token_scores: Tensor
    recall: Tensor
    precision: Tensor

    @property
    def overall(self) -> Tensor:
        """(p,): recall + precision (Hu et al. 2023, equation 4)."""
        return self.recall + self.precision


class Aligner(nn.Module, ABC):
    """Computes token scores, recall and precision from the embeddings of a backbone."""

    @property
    def reads_words(self) -> bool:
        """Whether `encode_texts` needs the context of the words."""
        return False

    @abstractmethod
    def encode_images(self, global_: Tensor, regions: Tensor, boxes: Tensor, mask: Tensor) -> States:
        """States of images, computed without texts.

        Args:
            global_: (n, d), the backbone's embeddings of whole images.
            regions: (n, m, d), embeddings of their regions, each cut out and embedded alone.
            boxes: (n, m, 4), left, top, right, bottom as shares of the image's width and height.
            mask: bool (n, m), False for padding.
        """

    @abstractmethod
    def encode_texts(
        self,
        global_: Tensor,
        tokens: Tensor,
        mask: Tensor,
        scored: Tensor | None = None,
        context: WordContext | None = None,
    ) -> States:
        """States of texts, computed without images.

        Args:
            global_: (n, d), the backbone's embeddings of whole texts.
            tokens: (n, l, d), embeddings of their pieces, each embedded alone.
            mask: bool (n, l), False for padding.
            scored: bool (n, l), pieces that get a score, unlike special tokens; None for all.
            context: Context of the words, for an aligner that `reads_words`.
        """

    def pairs(
        self,
        images: States,
        texts: States,
        image_index: Tensor | Sequence[int],
        text_index: Tensor | Sequence[int],
    ) -> Alignment:
        """Scores of p pairs, which are given by the indices of their images and texts."""
        device = images.tokens.device
        first, second = (torch.as_tensor(index, device=device).long() for index in (image_index, text_index))
        return self._align(images, texts, first, second)

    @abstractmethod
    def _align(self, images: States, texts: States, image_index: Tensor, text_index: Tensor) -> Alignment:
        """`pairs` with tensors of indices."""

    def all_pairs(self, images: States, texts: States, chunk: int | None = None) -> tuple[Tensor, Tensor]:
        """Recall (a, b) and precision (a, b) of each of a images with each of b texts.

        `chunk` is the maximum number of pairs at a time, which bounds the memory; with gradients, each chunk
        is computed again in the backward pass. None for all pairs at once.
        """
        n_texts = len(texts)
        every = torch.arange(len(images) * n_texts, device=images.tokens.device)
        chunks = every.split(chunk) if chunk and len(every) else (every,)

        def score(pair: Tensor) -> tuple[Tensor, Tensor]:
            found = self._align(images, texts, pair // n_texts, pair % n_texts)
            return found.recall, found.precision

        recompute = len(chunks) > 1 and torch.is_grad_enabled()
        parts = [
            checkpoint(score, part, use_reentrant=False) if recompute else score(part) for part in chunks
        ]
        recall, precision = (torch.cat(part).view(len(images), n_texts) for part in zip(*parts, strict=True))
        return recall, precision


class InfoCLIP(Aligner):
    """The parameter-free baseline of InfoMetIC (Hu et al. 2023, appendix D).

    Scores are computed like InfoMetIC's, directly from the embeddings. Boxes are not used. The null token is
    a zero vector, so its product is 0.

    Args:
        sharpness: Factor on the products of query and tokens before the softmax; 100 for embeddings of unit
            length is the same as 1 for CLIP's, of a length of about 10.
        scale: Factor on cosines in recall and precision, CLIP's `logit_scale`.
    """

    def __init__(self, sharpness: float = 100.0, scale: float = 100.0) -> None:
        super().__init__()
        self.sharpness, self.scale = float(sharpness), float(scale)

    def encode_images(self, global_: Tensor, regions: Tensor, boxes: Tensor, mask: Tensor) -> States:
        global_, mask = global_.float(), mask.bool()
        scored = functional.pad(mask, (0, 1), value=True)
        null = torch.zeros_like(global_[:, None])
        return States(
            global_=global_,
            query=global_ * self.sharpness,
            tokens=torch.cat([global_[:, None], blank(regions.float(), mask), null], dim=1),
            attended=functional.pad(scored, (1, 0), value=True),
            scored=scored,
        )

    def encode_texts(
        self,
        global_: Tensor,
        tokens: Tensor,
        mask: Tensor,
        scored: Tensor | None = None,
        context: WordContext | None = None,
    ) -> States:
        global_, mask = global_.float(), mask.bool()
        return States(
            global_=global_,
            query=global_ * self.sharpness,
            tokens=blank(tokens.float(), mask),
            attended=mask,
            scored=mask if scored is None else mask & scored.bool(),
        )

    def _align(self, images: States, texts: States, image_index: Tensor, text_index: Tensor) -> Alignment:
        regions, tokens = images.tokens[image_index, 1:], texts.tokens[text_index]
        region_scores = softmax_over(products(texts.query[text_index], regions), images.scored[image_index])
        token_scores = softmax_over(products(images.query[image_index], tokens), texts.scored[text_index])
        return Alignment(
            region_scores,
            token_scores,
            recall=self.scale * cosine(mean_by(region_scores, regions), images.global_[image_index]),
            precision=self.scale * cosine(mean_by(token_scores, tokens), texts.global_[text_index]),
        )


def softmax_over(products: Tensor, scored: Tensor) -> Tensor:
    """Softmax over scored entries: (p, s) and bool (p, s) → (p, s), exactly 0 for other entries."""
    lowest = torch.finfo(products.dtype).min
    return products.masked_fill(~scored, lowest).softmax(dim=-1) * scored


def mean_by(scores: Tensor, tokens: Tensor) -> Tensor:
    """Mean of tokens, weighted by their scores: (p, s) and (p, s, w) → (p, w)."""
    return (scores.to(tokens.dtype)[:, None] @ tokens)[:, 0]


def products(query: Tensor, tokens: Tensor) -> Tensor:
    """Products of each row's query with its tokens: (p, w) and (p, s, w) → (p, s)."""
    return (tokens @ query.to(tokens.dtype)[:, :, None])[:, :, 0]


def cosine(first: Tensor, second: Tensor) -> Tensor:
    """Cosines of rows: (p, d) and (p, d) → (p,); 0 if either row is a zero vector."""
    return (_unit(first) * _unit(second)).sum(dim=-1)


def _unit(rows: Tensor) -> Tensor:
    # Divided by the largest number first: a mean dominated by the null token may be too small to be squared.
    largest = rows.detach().abs().amax(dim=-1, keepdim=True)
    rows = rows / largest.masked_fill(largest == 0, 1.0)
    length = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return rows / length.masked_fill(length == 0, 1.0)


def blank(values: Tensor, mask: Tensor) -> Tensor:
    """Values (n, s, w) with zeros where bool (n, s) is False, so that NaN in padding cannot reach a sum."""
    return values.masked_fill(~mask[..., None], 0.0)


def padded(
    parts: Sequence[np.ndarray], device: str | torch.device, min_length: int = 0
) -> tuple[Tensor, Tensor]:
    """n arrays (s, …) of different lengths → (n, m, …), float32 or int64 with zeros at the end, and a mask.

    The mask is bool (n, m), False for padding; m is the greatest length, and at least `min_length`.
    """
    lengths = np.array([len(part) for part in parts])
    length = max(lengths.max(initial=0), min_length)
    dtype = np.float32 if parts[0].dtype.kind == "f" else np.int64
    batch = np.zeros((len(parts), length, *parts[0].shape[1:]), dtype)
    for row, part in zip(batch, parts, strict=True):
        row[: len(part)] = part
    mask = np.arange(length) < lengths[:, None]
    return torch.from_numpy(batch).to(device), torch.from_numpy(mask).to(device)
