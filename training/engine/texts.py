"""Texts → their embeddings in a tower that is trained, each distinct one once, in parts of similar length."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import TypeVar

import torch
import xxhash
from torch import Tensor

from capscore.backbones.base import Backbone
from capscore.backbones.embedded.backbone import EmbeddedBackbone
from capscore.embedding.photos import in_batches

_TEXTS_AT_ONCE = 64  # that go through the tower
Item = TypeVar("Item", bound=Sized)


class TextSide:
    """Texts → embeddings, with gradients, each distinct one once, in parts of similar length.

    With `keep_rows`, the rows of a text encoder that is never trained, but the adapter behind it, are kept.
    """

    def __init__(self, backbone: Backbone, *, keep_rows: bool = True):
        self.backbone = backbone
        self._adapted: EmbeddedBackbone | None = None
        if keep_rows and isinstance(backbone, EmbeddedBackbone):
            self._adapted = backbone
        self._kept: dict[str, Tensor] = {}

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Embeddings (n, d) of at least one text as the backbone is now."""
        distinct = list(dict.fromkeys(texts))
        if self._adapted is None:
            rows = self._encoded(distinct, self.backbone.embed_tokens)
        else:
            new = [text for text in distinct if text not in self._kept]
            if new:
                with torch.no_grad():
                    self._kept |= zip(new, self._encoded(new, self._adapted.encoder_rows), strict=True)
            rows = self._adapted.placed(torch.stack([self._kept[text] for text in distinct]))
        index = {text: number for number, text in enumerate(distinct)}
        return rows[torch.tensor([index[text] for text in texts], device=rows.device)]

    def _encoded(self, distinct: Sequence[str], embed: Callable[[list[list[int]]], Tensor]) -> Tensor:
        ids = self.backbone.tokenize([self.backbone.prefix + text for text in distinct]).ids
        return by_length(ids, embed, _TEXTS_AT_ONCE)


def by_length(items: Sequence[Item], embed: Callable[[list[Item]], Tensor], size: int) -> Tensor:
    """The rows (n, d) of n texts or token ids, embedded in parts of similar length."""
    order = sorted(range(len(items)), key=lambda number: len(items[number]))
    parts = [embed([items[number] for number in part]) for part in in_batches(order, size)]
    return torch.cat(parts)[torch.tensor(order).argsort()]


def text_numbers(texts: Sequence[str], device: torch.device) -> Tensor:
    """int64 (n,), equal for equal texts, in every process."""
    digests = [xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")) >> 1 for text in texts]
    return torch.tensor(digests, device=device)
