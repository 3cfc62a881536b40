"""The text side of the embedded backbones: multilingual Universal Sentence Encoder, 512-d.

In: captions in fifteen languages. Out: rows of unit length in the space of the backbone, which says in
`placed` where a text lies in it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from ..errors import CapscoreError
from .base import Tokens, TrainableBackbone, pad_batch
from .judgement import Judgement
from .noise_gate import FOUND, GatedSentenceEncoder, GateLogits, gated, turned_away
from .sentence_cuts import sentence_cuts
from .use_package import END, START, PieceTokenizer
from .use_text import DIM, LANGUAGES, UniversalSentenceEncoder

# The network has no limit of its own; this one bounds the memory that a very long text takes.
MAX_TOKENS = 512
# A gate reads a long text sentence by sentence, so it can read more of it.
GATE_TOKENS = 4096
# Sentences that go through a gate at once.
_AT_ONCE = 64


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
        most = MAX_TOKENS if self.noise_gate is None else GATE_TOKENS
        return Tokens([_cut(sequence, most) for sequence in ids], truncated)

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        return self.tokenizer.piece_spans(texts)

    def text_network(self) -> UniversalSentenceEncoder:
        return self.text

    @property
    def noise_gate(self) -> GatedSentenceEncoder | None:
        """The text network, if it has a gate."""
        return self.text if isinstance(self.text, GatedSentenceEncoder) else None

    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        if not len(ids):
            return torch.zeros(0, self.dim, device=self.device)
        rows = self.placed(self.encoder_rows(ids))
        if self.noise_gate is None:
            return rows
        kept, _ = self._judged(ids)
        return turned_away(rows, kept, self.noise_gate.away.to(rows.dtype))

    def encoder_rows(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """A batch of `Tokens.ids` → the encoder's rows (n, 512), which `placed` takes."""
        return self.text(*self._padded([_cut(sequence, MAX_TOKENS) for sequence in ids]))

    def judge(self, texts: Sequence[str]) -> list[Judgement] | None:
        """The gate's verdict on n texts; None without a gate. Texts are read as by `tokenize`."""
        if self.noise_gate is None:
            return None
        if not len(texts):
            return []
        with torch.inference_mode():
            kept, kinds = self._judged(self.tokenize(texts).ids)
        return [
            Judgement(share, dict(zip(FOUND, row, strict=True)))
            for share, row in zip(kept.tolist(), kinds.tolist(), strict=True)
        ]

    def _judged(self, ids: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids of n texts → kept shares (n,), and probabilities (n, 6) of what was found."""
        gate = self.noise_gate
        assert gate is not None
        parts: list[Sequence[int]] = []
        owners: list[int] = []
        for row, sequence in enumerate(ids):
            for part in self.sentences_of(sequence):
                parts.append(part)
                owners.append(row)
        order = sorted(range(len(parts)), key=lambda number: len(parts[number]))
        found: list[GateLogits] = [
            gate.read(*self._padded([parts[number] for number in order[start : start + _AT_ONCE]]))
            for start in range(0, len(order), _AT_ONCE)
        ]
        back = torch.empty(len(order), dtype=torch.long, device=self.device)
        back[torch.tensor(order, device=self.device)] = torch.arange(len(order), device=self.device)
        kept = gate.kept(torch.cat([part.noise for part in found])[back])
        kinds = torch.cat([part.kinds.float() for part in found])[back].softmax(dim=-1)
        if len(parts) == len(ids):
            return kept, kinds
        # a text is the mean of its sentences by their lengths; what is wrong with it is what is wrong with
        # those that lose something
        own = torch.tensor(owners, device=self.device)
        lengths = torch.tensor([float(len(part) - 2) for part in parts], device=self.device)
        totals = torch.zeros(len(ids), device=self.device).index_add(0, own, lengths)
        shares = lengths / totals[own]
        whole = torch.zeros(len(ids), device=self.device).index_add(0, own, shares * kept)
        weights = shares * (1 - kept) + 1e-6 * shares
        of_row = torch.zeros(len(ids), device=self.device).index_add(0, own, weights)
        mixed = (weights / of_row[own]).unsqueeze(-1) * kinds
        return whole.clamp(0, 1), torch.zeros(len(ids), kinds.shape[1], device=self.device).index_add(
            0, own, mixed
        )

    def sentences_of(self, ids: Sequence[int]) -> list[Sequence[int]]:
        """Token ids of a text → those of each of its parts, with start and end (`sentence_cuts`)."""
        inner = ids[1:-1]
        cuts = sentence_cuts(self.tokenizer.pieces(inner))
        if len(cuts) == 1:
            return [ids]
        return [[START, *inner[start:stop], END] for start, stop in zip([0, *cuts], cuts, strict=False)]

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
        self.text = network.to(self.device, getattr(torch, self.dtype)).eval()

    @property
    @abstractmethod
    def centre(self) -> torch.Tensor:
        """What `placed` subtracts from the encoder's rows first, float32 (512,)."""

    def placed(self, rows: torch.Tensor) -> torch.Tensor:
        """The encoder's rows (n, 512) → the texts' places in this backbone's space, (n, 512), unit rows."""
        return F.normalize(rows - self.centre, dim=-1)


def _cut(ids: Sequence[int], most: int) -> list[int]:
    """Token ids of a text, at most so many, the end piece among them."""
    return list(ids) if len(ids) <= most else [*ids[: most - 1], END]
