"""The text side of the embedded backbones: multilingual Universal Sentence Encoder, 512-d.

In: captions in fifteen languages. Out: rows of unit length in the space of the backbone, which says in
`placed` where a text lies in it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch.nn import functional as F

from ..errors import CapscoreError
from .base import Tokens, TrainableBackbone, pad_batch
from .use_gated import GatedSentenceEncoder, gated
from .use_package import END, PieceTokenizer
from .use_text import DIM, LANGUAGES, UniversalSentenceEncoder

# The network has no limit of its own; this one bounds the memory that a very long text takes.
MAX_TOKENS = 512


class SentenceEncoderBackbone(TrainableBackbone):
    """A backbone whose texts are read by the Universal Sentence Encoder, 512-d.

    `text` is the torch network, which can be trained; use the backbone that `remade` returns afterwards,
    since revision and fingerprint are computed when a backbone is made.
    """

    dim = DIM
    prefix = ""
    max_tokens = MAX_TOKENS
    logit_scale = 1.0  # nothing was trained with a temperature
    languages = LANGUAGES
    tokenizer: PieceTokenizer
    text: UniversalSentenceEncoder

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        ids = self.tokenizer(texts)
        truncated = np.array([len(sequence) > MAX_TOKENS for sequence in ids], dtype=bool)
        for row in np.flatnonzero(truncated):
            ids[row] = [*ids[row][: MAX_TOKENS - 1], END]
        return Tokens(ids, truncated)

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        return self.tokenizer.piece_spans(texts)

    def text_network(self) -> UniversalSentenceEncoder:
        return self.text

    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        if not len(ids):
            return torch.zeros(0, self.dim, device=self.device)
        return self.placed(self.encoder_rows(ids))

    def encoder_rows(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """A batch of `Tokens.ids` → the encoder's rows (n, 512), which `placed` takes."""
        return self.text(*self._padded(ids))

    def embed_gated(self, ids: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """`embed_tokens` of a text network with a gate, and the gate's logits (n,), with gradients."""
        rows, logits = cast(GatedSentenceEncoder, self.text).gated(*self._padded(ids))
        return self.placed(rows), logits

    def _padded(self, ids: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        batch, mask = pad_batch(ids, pad_id=0)
        return batch.to(self.device), mask.to(self.device)

    def network_parts(self) -> dict[str, Any] | None:
        return getattr(self.text, "parts", None)

    def add_network_parts(self, parts: dict[str, Any]) -> None:
        if self.network_parts() is not None:
            raise CapscoreError(
                f"the text network of {self.name!r} already has parts: {self.network_parts()!r}; "
                f"asked for {parts!r}"
            )
        network = gated(self.text, parts)
        network.centre.copy_(self.centre)
        self.text = network.to(self.device, getattr(torch, self.dtype)).eval()

    @property
    @abstractmethod
    def centre(self) -> torch.Tensor:
        """What `placed` subtracts from the encoder's rows first, float32 (512,)."""

    def placed(self, rows: torch.Tensor) -> torch.Tensor:
        """The encoder's rows (n, 512) → the texts' places in this backbone's space, (n, 512), unit rows."""
        return F.normalize(rows - self.centre, dim=-1)

    def before_placing(self, directions: torch.Tensor) -> torch.Tensor:
        """Directions in this backbone's space (…, 512) → those of centred rows that `placed` puts there."""
        return directions
