"""Images and texts as embeddings → of each pair the scores of regions and pieces, recall and precision.

`Aligner` is what InfoMetIC's network and the parameter-free InfoCLIP have in common.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import InputError

_ROUNDING = 1e-4  # how far beyond the image a box may be by rounding


@dataclass(frozen=True)
class ImageStates:
    """Images after what can be computed without their captions; n images of at most m regions.

    Attributes:
        global_: (n, d), the whole images, as they were given.
        query: (n, width), what pieces are compared with.
        tokens: (n, 1 + m + 1, width): whole image, regions, null token.
        attended: bool, of the same two sizes: what the transformer over both modalities sees.
        scored: bool (n, m + 1): regions that are there, and the null token.
        word_query: (n, d), what words are compared with by what they add; None where the aligner does not.
        hidden: (n, h), what the words' part has of the images; None likewise.
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
    """What the words of texts say beyond the rest of their text; n texts of at most l pieces.

    `capscore.infometic.context.word_context` makes that of a text.

    Attributes:
        added: (n, l, d), the text's embedding less that of the text without the word that the piece is of; 0
            for a piece of no word that counts.
        weight: (n, l) in [0, 1]: the pieces of a word that counts share a weight of 1, so that a word of many
            pieces has no more of the attention; 0 for pieces of no such word, which get no score. Of a text
            that has no such word all pieces count.
    """

    added: Tensor
    weight: Tensor


@dataclass(frozen=True)
class TextStates:
    """Texts after what can be computed without their images; n texts of at most l pieces.

    Attributes:
        global_: (n, d), the whole texts, as they were given.
        query: (n, width), what regions are compared with.
        tokens: (n, l, width).
        attended: bool (n, l): what the transformer over both modalities sees.
        scored: bool (n, l): pieces that get a score.
        added: (n, l, d), of the `WordContext`; None where the aligner reads none.
        hidden: (n, l, h), what the words' part has of them; None likewise.
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
    """What InfoMetIC says of p pairs of an image and a text.

    Attributes:
        region_scores: (p, m + 1) in [0, 1], the null token last; a row sums to 1, and what is masked has
            exactly 0. A row without any region and without null token is all 0.
        token_scores: (p, l) in [0, 1]; a row sums to 1, and what is masked has exactly 0. A row without any
            piece is all 0.
        recall: (p,), vision recall: scale × cosine of the regions that the text asks for with the whole
            image; 0 where all region scores are.
        precision: (p,), text precision: scale × cosine of the pieces that the image asks for with the whole
            text; 0 where all token scores are.
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
    """What reads token scores, recall and precision from the embeddings of a backbone."""

    @property
    def reads_words(self) -> bool:
        """Whether `encode_texts` has to be given the context of the words."""
        return False

    @abstractmethod
    def encode_images(self, global_: Tensor, regions: Tensor, boxes: Tensor, mask: Tensor) -> ImageStates:
        """What can be computed of images alone.

        Args:
            global_: (n, d), the backbone's embeddings of whole images.
            regions: (n, m, d), those of their regions, each cut out and embedded on its own. m may be 0.
            boxes: (n, m, 4): their left, top, right, bottom in shares of the image's width and height.
            mask: bool (n, m), True where there is a region; what lies elsewhere is padding.

        Raises:
            InputError: shapes that do not go together, a number that is not finite, a box beyond [0, 1].
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
        """What can be computed of texts alone.

        Args:
            global_: (n, d), the backbone's embeddings of whole texts.
            tokens: (n, l, d), those of their pieces, each embedded on its own. l may be 0.
            mask: bool (n, l), True where there is a piece; what lies elsewhere is padding.
            scored: bool (n, l), the pieces that get a score; None for all. Others, such as special tokens,
                are context only.
            context: of the words, for an aligner that `reads_words`; others leave it alone.

        Raises:
            InputError: shapes that do not go together, a number that is not finite, too many pieces, no
                context where it is needed.
        """

    @abstractmethod
    def _align(
        self, images: ImageStates, texts: TextStates, image_index: Tensor, text_index: Tensor
    ) -> Alignment:
        """`pairs` with indices that are checked."""

    def pairs(
        self,
        images: ImageStates,
        texts: TextStates,
        image_index: Tensor | Sequence[int],
        text_index: Tensor | Sequence[int],
    ) -> Alignment:
        """Scores of pairs.

        Args:
            images: of `encode_images`.
            texts: of `encode_texts`.
            image_index: p whole numbers: which of the images each pair has.
            text_index: p whole numbers: which of the texts.

        Raises:
            InputError: indices of different number, or beyond what there is.
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
            images: a images, of `encode_images`.
            texts: b texts, of `encode_texts`.
            chunk: at most so many pairs at a time, which bounds the memory. Where gradients are wanted each
                chunk is then computed a second time on the way back. None for all at once.

        Returns:
            Recall (a, b) and precision (a, b).

        Raises:
            InputError: a chunk below 1.
        """
        if chunk is not None and chunk < 1:
            raise InputError(f"chunk={chunk}: expected at least 1, or None")
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
    """Softmax over what is scored: (p, s) and bool (p, s) → (p, s), exactly 0 elsewhere.

    A row in which nothing is scored is all 0.

    >>> scored = torch.tensor([[True, True, False], [False, False, False]])
    >>> softmax_over(torch.tensor([[0.0, 0.0, 9.0], [1.0, 2.0, 3.0]]), scored)
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    lowest = torch.finfo(products.dtype).min
    return products.masked_fill(~scored, lowest).softmax(dim=-1) * scored


def mean_by(scores: Tensor, tokens: Tensor) -> Tensor:
    """The mean of tokens weighted by their scores: (p, s) and (p, s, w) → (p, w)."""
    return (scores.to(tokens.dtype)[:, None] @ tokens)[:, 0]


def cosine(first: Tensor, second: Tensor) -> Tensor:
    """Cosines of rows: (p, d) and (p, d) → (p,); 0 where one is a zero vector.

    >>> cosine(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    tensor([0.6000, 0.0000])
    >>> cosine(torch.tensor([[3e-30, 4e-30]]), torch.tensor([[1.0, 0.0]]))
    tensor([0.6000])
    """
    return (_unit(first) * _unit(second)).sum(dim=-1)


def _unit(rows: Tensor) -> Tensor:
    # By the largest number first: what the null token leaves of a mean may be too small to be squared.
    largest = rows.detach().abs().amax(dim=-1, keepdim=True)
    rows = rows / largest.masked_fill(largest == 0, 1.0)
    length = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return rows / length.masked_fill(length == 0, 1.0)


def products(query: Tensor, tokens: Tensor) -> Tensor:
    """Each row's query with its tokens: (p, w) and (p, s, w) → (p, s)."""
    return (tokens @ query.to(tokens.dtype)[:, :, None])[:, :, 0]


def blank(values: Tensor, mask: Tensor) -> Tensor:
    """Padding as zeros, so that whatever lies there cannot reach a sum, not even as 0 × NaN.

    Args:
        values: (n, s, w).
        mask: bool (n, s), True where there is no padding.
    """
    return values.masked_fill(~mask[..., None], 0.0)


# ------------------------------------------------------------------ bad input


def check_images(global_: Tensor, regions: Tensor, boxes: Tensor, mask: Tensor, dim: int | None) -> None:
    """Raise InputError unless these are n images, as `Aligner.encode_images` wants them.

    Args:
        dim: the length that embeddings must have; None for any.
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
            "a box beyond [0, 1]: boxes are given in shares of the image's width and height, not in pixels",
            row=int(wrong.nonzero()[0]),
        )
    _check_finite(global_, {"regions": regions}, here)


def check_texts(
    global_: Tensor, tokens: Tensor, mask: Tensor, scored: Tensor | None, dim: int | None
) -> None:
    """Raise InputError unless these are n texts, as `Aligner.encode_texts` wants them.

    Args:
        dim: the length that embeddings must have; None for any.
    """
    _check_shapes(global_, {"tokens": tokens}, mask, dim)
    if scored is not None and scored.shape != mask.shape:
        raise InputError(f"scored of shape {tuple(scored.shape)}: expected {tuple(mask.shape)}")
    _check_finite(global_, {"tokens": tokens}, mask.bool())


def check_context(context: WordContext | None, tokens: Tensor, mask: Tensor) -> WordContext:
    """Raise InputError unless this is the context of texts with these pieces."""
    if context is None:
        raise InputError("these weights read what each word adds to its text: a WordContext is needed")
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
            "what words add holds NaN or infinity, or a weight is not from 0 to 1",
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
