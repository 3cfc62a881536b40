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
from .judgement import Judgement, judgements, verdict_width
from .noise_gate import FOUND, GatedSentenceEncoder, gated, turned_away
from .text_parts import text_parts
from .use_package import END, PieceTokenizer
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
    text_batch = 256  # texts in a batch share what they have in common
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

    @property
    def kinds_of_noise(self) -> tuple[str, ...]:
        return () if self.noise_gate is None else FOUND

    def embed_tokens(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        return self._embed_judged(ids)[0]

    def encode_judged(self, ids: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        with torch.inference_mode():
            rows, verdicts = self._embed_judged(ids)
            return rows.cpu().numpy(), verdicts.cpu().numpy()

    def encoder_rows(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """A batch of `Tokens.ids` → the encoder's rows (n, 512), which `placed` takes."""
        return self.text(*self._padded([_cut(sequence, MAX_TOKENS) for sequence in ids]))

    def judge(self, texts: Sequence[str]) -> list[Judgement] | None:
        """The gate's verdict on n texts; None without a gate. Texts are read as by `tokenize`."""
        gate = self.noise_gate
        if gate is None:
            return None
        if not len(texts):
            return []
        parts = text_parts(self.tokenize(texts).ids, self.tokenizer.pieces)
        with torch.inference_mode():
            _, verdicts = self._read(gate, parts.ids)
            return judgements(parts.joined(verdicts).cpu().numpy(), FOUND)

    def _embed_judged(self, ids: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids of n texts → unit rows (n, 512), and verdicts (n, 7); (n, 0) without a gate."""
        gate = self.noise_gate
        if gate is None or not len(ids):
            none = torch.zeros(len(ids), verdict_width(self.kinds_of_noise), device=self.device)
            if not len(ids):
                return torch.zeros(0, self.dim, device=self.device), none
            return self.placed(self.encoder_rows(ids)), none
        parts = text_parts(ids, self.tokenizer.pieces)
        # a text of one part has the part's row; that of another comes from all of it at once
        rows, verdicts = self._read(gate, parts.ids)
        if not parts.in_one:
            cut = parts.cut
            rows = rows[parts.first].index_copy(
                0, torch.tensor(cut, device=rows.device), self.encoder_rows([ids[text] for text in cut])
            )
            verdicts = parts.joined(verdicts)
        placed = self.placed(rows)
        return turned_away(placed, verdicts[:, 0], gate.away.to(placed.dtype)), verdicts

    def _read(
        self, gate: GatedSentenceEncoder, parts: Sequence[Sequence[int]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids of m texts of one part → the encoder's rows (m, 512) and verdicts (m, 7).

        Encoder and gate share the tokens' features.
        """
        order = sorted(range(len(parts)), key=lambda number: len(parts[number]))
        rows, verdicts = [], []
        for start in range(0, len(order), _AT_ONCE):
            ids, mask = self._padded([parts[number] for number in order[start : start + _AT_ONCE]])
            tokens = gate.tokens(ids, mask)
            found = gate.gate(tokens, ids, mask)
            rows.append(gate.sentences(tokens, mask))
            kinds = found.kinds.float().softmax(dim=-1)
            verdicts.append(torch.cat([gate.kept(found.noise).unsqueeze(1), kinds], dim=1))
        back = torch.empty(len(order), dtype=torch.long)
        back[order] = torch.arange(len(order))
        back = back.to(self.device)
        return torch.cat(rows)[back], torch.cat(verdicts)[back]

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
