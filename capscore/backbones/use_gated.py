"""The embedded text encoder with a gate that turns malformed captions away from all images.

In: token ids, as for `UniversalSentenceEncoder`. Out: T*(c) ∝ g · T(c) + (1 − g) · a, where T(c) is the
encoder's centred embedding, a a direction away from captions and photos, and g in (0, 1) the output of a
small transformer on the caption's tokens: near 1 for a well-formed, plausible caption, which keeps its
embedding, and near 0 for a perturbed one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ..errors import CapscoreError
from .use_package import WINDOWS
from .use_text import CHANNELS, DIM, UniversalSentenceEncoder

TOKEN_WIDTH = DIM + CHANNELS * len(WINDOWS)
# Number of preceding tokens searched for the same piece: a repeated word repeats its pieces.
REACH = 8


class Gate(nn.Module):
    """Token features (n, L, 1280), ids, mask → logits (n,) that the texts are perturbed."""

    def __init__(self, width: int, layers: int, heads: int):
        super().__init__()
        self.enter = nn.Linear(TOKEN_WIDTH + REACH, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.leave = nn.Linear(2 * width, 1)

    def forward(self, tokens: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.enter(torch.cat([tokens, repeats(ids).to(tokens.dtype)], dim=-1))
        x = x + _positions(x.shape[1], x.shape[2]).to(x)
        x = self.layers(x, src_key_padding_mask=mask == 0)
        keep = mask.unsqueeze(-1).to(x.dtype)
        mean = (x * keep).sum(dim=1) / keep.sum(dim=1)
        # the most suspicious token of each kind, at any position
        highest = x.masked_fill(keep == 0, -torch.inf).amax(dim=1)
        return self.leave(torch.cat([mean, highest], dim=-1)).squeeze(-1)


class GatedSentenceEncoder(UniversalSentenceEncoder):
    """The encoder followed by a gate: T*(c) = g · T(c) + (1 − g) · away, of unit length.

    Shapes are those of `UniversalSentenceEncoder`. It returns T* plus the centre, since the backbone
    subtracts the centre from the encoder's rows.

    Attributes:
        gate: Gate network; g = σ(−logit).
        away: (512,), unit length, direction away from captions, and so from photos, for malformed texts.
        centre: (512,), centre of the backbone.
        parts: Description, ready for JSON, of what was added to the published encoder.
    """

    away: torch.Tensor
    centre: torch.Tensor

    def __init__(self, pieces: int, width: int, layers: int, heads: int):
        super().__init__(pieces)
        self.gate = Gate(width, layers, heads)
        self.parts = {"gate": {"width": width, "layers": layers, "heads": heads}}
        self.register_buffer("away", torch.zeros(DIM))
        self.register_buffer("centre", torch.zeros(DIM))

    def turn_away(self, direction: torch.Tensor) -> None:
        """Set `away` to a direction (512,) of any length."""
        with torch.no_grad():
            self.away.copy_(F.normalize(direction.float(), dim=0))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.gated(ids, mask)[0]

    def gated(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """ids and mask (n, L) → the rows (n, 512) of `forward`, and the gate's logits (n,)."""
        plain, logits = self.apart(ids, mask)
        return self.mixed(plain, logits) + self.centre.float(), logits

    def apart(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """ids and mask (n, L) → T(c) (n, 512), centred and of unit length, and the gate's logits (n,)."""
        tokens = self.tokens(ids, mask)
        plain = F.normalize(self.sentences(tokens, mask) - self.centre.float(), dim=-1)
        return plain, self.gate(tokens, ids, mask).float()

    def mixed(self, plain: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """The results of `apart` → T* (n, 512), of unit length."""
        opening = torch.sigmoid(-logits).unsqueeze(-1)
        return F.normalize(opening * plain + (1 - opening) * self.away.float(), dim=-1)


def gated(encoder: UniversalSentenceEncoder, parts: Mapping[str, Any]) -> GatedSentenceEncoder:
    """The same encoder, its weights shared, with an untrained gate.

    Args:
        encoder: Encoder without a gate.
        parts: Sizes of the gate, {"gate": {"width": …, "layers": …, "heads": …}}.

    Raises:
        CapscoreError: parts of another form.
    """
    try:
        settings = {name: int(parts["gate"][name]) for name in ("width", "layers", "heads")}
        exact = set(parts) == {"gate"} and len(parts["gate"]) == 3
        if not exact or min(settings.values()) < 1 or settings["width"] % settings["heads"]:
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise CapscoreError(
            "the embedded text encoder takes the parts {'gate': {'width', 'layers', 'heads'}}, the width "
            f"a multiple of the heads; asked for {parts!r}"
        ) from None
    network = GatedSentenceEncoder(len(encoder.table), **settings)
    for name, module in encoder.named_children():
        setattr(network, name, module)
    for name, tensor in encoder.named_buffers(recurse=False):
        setattr(network, name, tensor)
    return network


def repeats(ids: torch.Tensor) -> torch.Tensor:
    """(n, L) ids → (n, L, REACH): 1 where the same token stands one, two, … tokens earlier."""
    padded = F.pad(ids, (REACH, 0), value=-1)
    length = ids.shape[1]
    earlier = [padded[:, REACH - back : REACH - back + length] for back in range(1, REACH + 1)]
    return (torch.stack(earlier, dim=-1) == ids.unsqueeze(-1)).float()


def _positions(length: int, width: int) -> torch.Tensor:
    """Sines and cosines of the position, (length, width), Vaswani et al. 2017, §3.5."""
    place = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10_000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(place * rate)
    table[:, 1::2] = torch.cos(place * rate)
    return table
