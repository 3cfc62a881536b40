"""Embeddings of images and texts → scores of regions and pieces, recall and precision of each pair.

`Aligner` is the common interface of InfoMetIC's network and the parameter-free InfoCLIP.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from ..errors import CapscoreError, InputError, Setting

_ROUNDING = 1e-4  # tolerance for boxes that reach beyond the image by rounding


@dataclass(frozen=True)
class ImageStates:
    """States of n images of at most m regions, computed without their captions.

    Attributes:
        global_: (n, d), embeddings of the whole images.
        query: (n, width), vectors that are compared with pieces.
        tokens: (n, 1 + m + 1, width), states of whole image, regions and null token.
        attended: bool (n, 1 + m + 1), tokens that the transformer over both modalities attends to.
        scored: bool (n, m + 1), existing regions and the null token.
        word_query: (n, d), vectors that are compared with what words add; None if the aligner reads no words.
        hidden: (n, h), hidden states for the score of words; None likewise.
    """

    global_: Tensor
    query: Tensor
    tokens: Tensor
    attended: Tensor
    scored: Tensor
    word_query: Tensor | None = None
    hidden: Tensor | None = None

    def __len__(self) -> int:
        return len(self.global_)


@dataclass(frozen=True)
class WordContext:
    """What words add to their texts; n texts of at most l pieces.

    `capscore.infometic.words.word_context` computes it for one text.

    Attributes:
        added: (n, l, d), embedding of the text minus that of the text without the piece's word; 0 for pieces
            outside semantic words.
        weight: (n, l) in [0, 1]. The pieces of a semantic word share a weight of 1, so that a word of many
            pieces gets no more attention; pieces outside such words have weight 0 and no score. In a text
            without semantic words all pieces count.
    """

    added: Tensor
    weight: Tensor


@dataclass(frozen=True)
class TextStates:
    """States of n texts of at most l pieces, computed without their images.

    Attributes:
        global_: (n, d), embeddings of the whole texts.
        query: (n, width), vectors that are compared with regions.
        tokens: (n, l or more, width), states of the pieces, and of what fills the text up.
        attended: bool (n, l or more), states that the transformer over both modalities attends to.
        scored: bool (n, l), pieces that get a score.
        added: (n, l, d), from the `WordContext`; None if the aligner reads no words.
        hidden: (n, l, h), hidden states for the score of words; None likewise.
        log_weight: (n, l), logarithms of the weights; None likewise.
    """

    global_: Tensor
    query: Tensor
    tokens: Tensor
    attended: Tensor
    scored: Tensor
    added: Tensor | None = None
    hidden: Tensor | None = None
    log_weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.global_)


@dataclass(frozen=True)
class Alignment:
    """Scores of p pairs of an image and a text.

    Attributes:
        region_scores: (p, m + 1) in [0, 1], the null token last; rows sum to 1, and masked scores are exactly
            0. A row without regions and without null token is all 0.
        token_scores: (p, l) in [0, 1]; rows sum to 1, and masked scores are exactly 0. A row without pieces
            is all 0.
        recall: (p,), vision recall: scale × cosine of the mean region, weighted by region scores, with the
            whole image; 0 if all region scores are 0.
        precision: (p,), text precision: scale × cosine of the mean piece, weighted by token scores, with the
            whole text; 0 if all token scores are 0.
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
    def encode_images(self, global_: Tensor, regions: Tensor, boxes: Tensor, mask: Tensor) -> ImageStates:
        """States of images, computed without texts.

        Args:
            global_: (n, d), the backbone's embeddings of whole images.
            regions: (n, m, d), embeddings of their regions, each cut out and embedded alone. m may be 0.
            boxes: (n, m, 4), left, top, right, bottom as shares of the image's width and height.
            mask: bool (n, m), True for regions, False for padding.

        Raises:
            InputError: shapes do not agree, a number is not finite, or a box is beyond [0, 1].
        """

    @abstractmethod
    def encode_texts(
        self,
        global_: Tensor,
        tokens: Tensor,
        mask: Tensor,
        scored: Tensor | None = None,
        context: WordContext | None = None,
    ) -> TextStates:
        """States of texts, computed without images.

        Args:
            global_: (n, d), the backbone's embeddings of whole texts.
            tokens: (n, l, d), embeddings of their pieces, each embedded alone. l may be 0.
            mask: bool (n, l), True for pieces, False for padding.
            scored: bool (n, l), pieces that get a score; None for all. Other pieces, such as special tokens,
                are only context.
            context: Context of the words, for an aligner that `reads_words`; ignored by others.

        Raises:
            InputError: shapes do not agree, a number is not finite, there are too many pieces, or a needed
                context is missing.
        """

    @abstractmethod
    def _align(
        self, images: ImageStates, texts: TextStates, image_index: Tensor, text_index: Tensor
    ) -> Alignment:
        """`pairs` with checked indices."""

    def pairs(
        self,
        images: ImageStates,
        texts: TextStates,
        image_index: Tensor | Sequence[int],
        text_index: Tensor | Sequence[int],
    ) -> Alignment:
        """Scores of pairs.

        Args:
            images: States from `encode_images`.
            texts: States from `encode_texts`.
            image_index: p indices of the pairs' images.
            text_index: p indices of the pairs' texts.

        Raises:
            InputError: the numbers of indices differ, or an index is out of range.
        """
        device = images.tokens.device
        first = _index(image_index, len(images), "image_index", device)
        second = _index(text_index, len(texts), "text_index", device)
        if len(first) != len(second):
            raise InputError(f"{len(first)} image indices, but {len(second)} text indices")
        return self._align(images, texts, first, second)

    def all_pairs(
        self, images: ImageStates, texts: TextStates, chunk: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Recall and precision of every image with every text.

        Args:
            images: States of a images from `encode_images`.
            texts: States of b texts from `encode_texts`.
            chunk: Maximum number of pairs at a time, which bounds the memory; with gradients, each chunk is
                computed again in the backward pass. None for all pairs at once.

        Returns:
            Recall (a, b) and precision (a, b).

        Raises:
            InputError: `chunk` is below 1.
        """
        if chunk is not None and chunk < 1:
            raise InputError(Setting("chunk", chunk), ": expected at least 1, or None")
        device, n_texts = images.tokens.device, len(texts)
        every = torch.arange(len(images) * n_texts, device=device)
        learning = (*self.parameters(), images.tokens, images.query, texts.tokens, texts.query)
        again = (
            chunk is not None
            and chunk < len(every)
            and torch.is_grad_enabled()
            and any(tensor.requires_grad for tensor in learning)
        )

        def score(pair: Tensor) -> tuple[Tensor, Tensor]:
            found = self._align(images, texts, pair // n_texts, pair % n_texts)
            return found.recall, found.precision

        parts = [
            checkpoint(score, pair, use_reentrant=False) if again else score(pair)
            for pair in (every.split(chunk) if chunk and len(every) else (every,))
        ]
        recall, precision = (torch.cat(part).view(len(images), n_texts) for part in zip(*parts, strict=True))
        return recall, precision


# ------------------------------------------------------------------ scoring, step by step


def softmax_over(products: Tensor, scored: Tensor) -> Tensor:
    """Softmax over scored entries: (p, s) and bool (p, s) → (p, s), exactly 0 for other entries.

    A row without scored entries is all 0.

    >>> scored = torch.tensor([[True, True, False], [False, False, False]])
    >>> softmax_over(torch.tensor([[0.0, 0.0, 9.0], [1.0, 2.0, 3.0]]), scored)
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    lowest = torch.finfo(products.dtype).min
    return products.masked_fill(~scored, lowest).softmax(dim=-1) * scored


def mean_by(scores: Tensor, tokens: Tensor) -> Tensor:
    """Mean of tokens, weighted by their scores: (p, s) and (p, s, w) → (p, w)."""
    return (scores.to(tokens.dtype)[:, None] @ tokens)[:, 0]


def cosine(first: Tensor, second: Tensor) -> Tensor:
    """Cosines of rows: (p, d) and (p, d) → (p,); 0 if either row is a zero vector.

    >>> cosine(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    tensor([0.6000, 0.0000])
    >>> cosine(torch.tensor([[3e-30, 4e-30]]), torch.tensor([[1.0, 0.0]]))
    tensor([0.6000])
    """
    return (_unit(first) * _unit(second)).sum(dim=-1)


def _unit(rows: Tensor) -> Tensor:
    # Divided by the largest number first: a mean dominated by the null token may be too small to be squared.
    largest = rows.detach().abs().amax(dim=-1, keepdim=True)
    rows = rows / largest.masked_fill(largest == 0, 1.0)
    length = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return rows / length.masked_fill(length == 0, 1.0)


def products(query: Tensor, tokens: Tensor) -> Tensor:
    """Products of each row's query with its tokens: (p, w) and (p, s, w) → (p, s)."""
    return (tokens @ query.to(tokens.dtype)[:, :, None])[:, :, 0]


def blank(values: Tensor, mask: Tensor) -> Tensor:
    """Values with zeros as padding, so that NaN in the padding cannot reach a sum.

    Args:
        values: (n, s, w).
        mask: bool (n, s), False for padding.
    """
    return values.masked_fill(~mask[..., None], 0.0)


# ------------------------------------------------------------------ bad input


def check_images(global_: Tensor, regions: Tensor, boxes: Tensor, mask: Tensor, dim: int | None) -> None:
    """Raise InputError unless the arguments are n images for `Aligner.encode_images`.

    Args:
        dim: Length that embeddings must have; None for any length.
    """
    _check_shapes(global_, {"regions": regions}, mask, dim)
    expected = (*mask.shape, 4)
    if tuple(boxes.shape) != expected:
        raise InputError(f"boxes of shape {tuple(boxes.shape)}: expected {expected}")
    here = mask.bool()
    inside = ((boxes >= -_ROUNDING) & (boxes <= 1 + _ROUNDING)).all(dim=2)
    wrong = (~inside & here).any(dim=1)
    if wrong.any():
        raise InputError(
            "a box is beyond [0, 1]: boxes are shares of the image's width and height, not pixels",
            row=int(wrong.nonzero()[0]),
        )
    _check_finite(global_, {"regions": regions}, here)


def check_texts(
    global_: Tensor, tokens: Tensor, mask: Tensor, scored: Tensor | None, dim: int | None
) -> None:
    """Raise InputError unless the arguments are n texts for `Aligner.encode_texts`.

    Args:
        dim: Length that embeddings must have; None for any length.
    """
    _check_shapes(global_, {"tokens": tokens}, mask, dim)
    if scored is not None and scored.shape != mask.shape:
        raise InputError(f"scored of shape {tuple(scored.shape)}: expected {tuple(mask.shape)}")
    _check_finite(global_, {"tokens": tokens}, mask.bool())


def check_context(context: WordContext | None, tokens: Tensor, mask: Tensor) -> WordContext:
    """Raise InputError unless the context fits texts with these pieces."""
    if context is None:
        raise InputError("these weights read what each word adds to its text and need a WordContext")
    for name, value, expected in (
        ("added", context.added, tokens.shape),
        ("weight", context.weight, tokens.shape[:2]),
    ):
        if value.shape != expected:
            raise InputError(f"{name} of shape {tuple(value.shape)}: expected {tuple(expected)}")
    here = mask.bool()
    wrong = (~torch.isfinite(context.added) & here[..., None]).flatten(1).any(dim=1)
    wrong = wrong | (~((context.weight >= 0) & (context.weight <= 1 + _ROUNDING)) & here).any(dim=1)
    if wrong.any():
        raise InputError(
            "the context of words holds NaN or infinity, or a weight outside 0 to 1",
            row=int(wrong.nonzero()[0]),
        )
    return context


def _check_shapes(global_: Tensor, sequences: dict[str, Tensor], mask: Tensor, dim: int | None) -> None:
    if global_.ndim != 2 or (dim is not None and global_.shape[1] != dim):
        raise InputError(f"embeddings of shape {tuple(global_.shape)}: expected (n, {dim or 'd'})")
    n, length = global_.shape
    for name, sequence in sequences.items():
        if sequence.ndim != 3 or len(sequence) != n or sequence.shape[2] != length:
            raise InputError(f"{name} of shape {tuple(sequence.shape)}: expected ({n}, any, {length})")
        if mask.shape != sequence.shape[:2]:
            raise InputError(
                f"a mask of shape {tuple(mask.shape)}: expected {tuple(sequence.shape[:2])}, as {name} have"
            )


def _check_finite(global_: Tensor, sequences: dict[str, Tensor], mask: Tensor) -> None:
    wrong = ~torch.isfinite(global_).all(dim=1)
    for sequence in sequences.values():
        wrong = wrong | (~torch.isfinite(sequence) & mask[..., None]).flatten(1).any(dim=1)
    if wrong.any():
        raise InputError("an embedding holds NaN or infinity", row=int(wrong.nonzero()[0]))


def _index(index: Tensor | Sequence[int], n: int, name: str, device: torch.device) -> Tensor:
    index = torch.as_tensor(index, device=device)
    if index.ndim != 1 or (len(index) and (index.is_floating_point() or index.dtype == torch.bool)):
        raise InputError(
            f"{name} of shape {tuple(index.shape)} and type {index.dtype}: expected whole numbers"
        )
    index = index.long()
    wrong = (index < 0) | (index >= n)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise InputError(f"{name} {int(index[row])}: expected 0 to {n - 1}", row=row)
    return index


class InfoCLIP(Aligner):
    """The parameter-free baseline of InfoMetIC (Hu et al. 2023, appendix D).

    Scores are computed like InfoMetIC's, directly from the embeddings, without transformers or projections.
    Boxes are checked but not used. The null token is a zero vector, so its product is 0.

    Args:
        sharpness: Factor on the products of query and tokens before the softmax. CLIP's embeddings have a
            length of about 10; those of backbones have unit length, for which a factor of 100 is the same.
        scale: Factor on cosines in recall and precision, CLIP's `logit_scale`.

    Raises:
        CapscoreError: a factor is not a number above 0.

    >>> global_, parts = torch.tensor([[1.0, 0.0]]), torch.tensor([[[0.6, 0.8], [0.0, 1.0]]])
    >>> model, both = InfoCLIP(sharpness=5.0, scale=1.0), torch.ones(1, 2).bool()
    >>> images = model.encode_images(global_, parts, torch.rand(1, 2, 4), both)
    >>> found = model.pairs(images, model.encode_texts(global_, parts, both), [0], [0])
    >>> found.token_scores                                              # e³ : 1
    tensor([[0.9526, 0.0474]])
    >>> found.region_scores                                             # e³ : 1 : 1, the null token last
    tensor([[0.9094, 0.0453, 0.0453]])
    """

    def __init__(self, sharpness: float = 100.0, scale: float = 100.0) -> None:
        super().__init__()
        for name, value in (("sharpness", sharpness), ("scale", scale)):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not 0 < value < math.inf:
                raise CapscoreError(Setting(name, value), ": expected a number above 0")
        self.sharpness, self.scale = float(sharpness), float(scale)

    def encode_images(self, global_: Tensor, regions: Tensor, boxes: Tensor, mask: Tensor) -> ImageStates:
        check_images(global_, regions, boxes, mask, None)
        global_, mask = global_.float(), mask.bool()
        regions = blank(regions.float(), mask)
        null = torch.zeros_like(global_[:, None])
        there = functional.pad(mask, (0, 1), value=True)
        return ImageStates(
            global_=global_,
            query=global_ * self.sharpness,
            tokens=torch.cat([global_[:, None], regions, null], dim=1),
            attended=functional.pad(there, (1, 0), value=True),
            scored=there,
        )

    def encode_texts(
        self,
        global_: Tensor,
        tokens: Tensor,
        mask: Tensor,
        scored: Tensor | None = None,
        context: WordContext | None = None,
    ) -> TextStates:
        check_texts(global_, tokens, mask, scored, None)
        global_, mask = global_.float(), mask.bool()
        return TextStates(
            global_=global_,
            query=global_ * self.sharpness,
            tokens=blank(tokens.float(), mask),
            attended=mask,
            scored=mask if scored is None else mask & scored.bool(),
        )

    def _align(
        self, images: ImageStates, texts: TextStates, image_index: Tensor, text_index: Tensor
    ) -> Alignment:
        regions, tokens = images.tokens[image_index, 1:], texts.tokens[text_index]
        region_scores = softmax_over(products(texts.query[text_index], regions), images.scored[image_index])
        token_scores = softmax_over(products(images.query[image_index], tokens), texts.scored[text_index])
        return Alignment(
            region_scores,
            token_scores,
            recall=self.scale * cosine(mean_by(region_scores, regions), images.global_[image_index]),
            precision=self.scale * cosine(mean_by(token_scores, tokens), texts.global_[text_index]),
        )
