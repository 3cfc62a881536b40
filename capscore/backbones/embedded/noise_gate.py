"""The embedded text encoder with a gate that notices lexical noise, by degree.

A small transformer on the encoder's token features says how much of its score each text keeps, from 0 to 1,
and which kind of noise it most likely has; a long text is read sentence by sentence.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import nn
from torch.nn import functional as F

from ...errors import CapscoreError
from ...text.sentences import sentence_ends
from ..tokens import BLANK
from . import WINDOWS
from .text_encoder import CHANNELS, DIM, END, START, UniversalSentenceEncoder

TOKEN_WIDTH = DIM + CHANNELS * len(WINDOWS)
# Number of preceding tokens searched for the same piece: a repeated word repeats its pieces.
REACH = 8
# What a text can have: nothing wrong, or one of the perturbations of PR-MCS.
FOUND = ("none", "repetition", "removal", "masking", "jumble", "substitution")
PART = "noise_gate"
_LARGEST = {"width": 4096, "layers": 64, "heads": 4096}


@dataclass(frozen=True)
class GateLogits:
    """What the gate says of n texts of up to L tokens, before any sigmoid.

    Attributes:
        noise: (n,), σ of it is the share of the score that the noise takes.
        kinds: (n, 6), softmax of it is the probability of each of `FOUND`.
        touched: (n, L), σ of it is the probability that noise touched a token.
    """

    noise: torch.Tensor
    kinds: torch.Tensor
    touched: torch.Tensor


class NoiseGate(nn.Module):
    """Token features (n, L, 1280), ids, mask → `GateLogits`."""

    def __init__(self, width: int, layers: int, heads: int):
        super().__init__()
        self.enter = nn.Linear(TOKEN_WIDTH + REACH, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.whole = nn.Linear(2 * width, 1 + len(FOUND))
        self.touched = nn.Linear(width, 1)

    def forward(self, tokens: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> GateLogits:
        return self.judge(self.entered(tokens), ids, mask)

    def entered(self, tokens: torch.Tensor) -> torch.Tensor:
        """Token features (…, 1280) → what each token brings to the gate, wherever it stands, (…, width)."""
        return F.linear(tokens, self.enter.weight[:, :TOKEN_WIDTH], self.enter.bias)

    def judge(self, entered: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> GateLogits:
        """`entered` tokens (n, L, width), ids and mask (n, L) → the gate's logits."""
        x = entered + F.linear(repeats(ids).to(entered.dtype), self.enter.weight[:, TOKEN_WIDTH:])
        x = x + _positions(x.shape[1], x.shape[2]).to(x)
        x = self.layers(x, src_key_padding_mask=mask == 0)
        keep = mask.unsqueeze(-1).to(x.dtype)
        mean = (x * keep).sum(dim=1) / keep.sum(dim=1)
        # the most suspicious token of each kind, at any position
        highest = x.masked_fill(keep == 0, -torch.inf).amax(dim=1)
        out = self.whole(torch.cat([mean, highest], dim=-1))
        return GateLogits(out[:, 0], out[:, 1:], self.touched(x).squeeze(-1))


class GatedSentenceEncoder(UniversalSentenceEncoder):
    """The encoder with a gate beside it. Its rows are the plain encoder's.

    Attributes:
        away: (512,), unit length, a direction of the backbone's space in which neither captions nor photos
            lie; the part of a score that noise takes goes there.
        curve: (2,), reach r and power g: of openness o = 1 − σ(noise), the share min(1, o / r)^g is kept. It
            is 1 from r on, falls steeply below, and separates much noise from more.
    """

    away: torch.Tensor
    curve: torch.Tensor

    def __init__(self, pieces: int, width: int, layers: int, heads: int):
        super().__init__(pieces)
        self.gate = NoiseGate(width, layers, heads)
        self.parts = {PART: {"width": width, "layers": layers, "heads": heads}}
        self.register_buffer("away", torch.zeros(DIM))
        self.register_buffer("curve", torch.tensor([1.0, 1.0]))

    def turn_to(self, direction: torch.Tensor) -> None:
        """Set `away` to a direction (512,) of any length."""
        with torch.no_grad():
            self.away.copy_(F.normalize(direction.float(), dim=0))

    def read(self, ids: torch.Tensor, mask: torch.Tensor) -> GateLogits:
        """ids and mask (n, L) of single sentences → what the gate says of them."""
        return self.gate(self.tokens(ids, mask), ids, mask)

    def kept(self, noise: torch.Tensor) -> torch.Tensor:
        """`GateLogits.noise` (n,) → the shares of the score that are kept, (n,), from 0 to 1."""
        reach, power = self.curve.float()
        return (torch.sigmoid(-noise.float()) / reach).clamp(max=1) ** power


def turned_away(rows: torch.Tensor, kept: torch.Tensor, away: torch.Tensor) -> torch.Tensor:
    """Unit rows (n, d), turned towards `away` until each keeps `kept` of its cosine with itself."""
    kept = kept.to(rows.dtype).unsqueeze(-1)
    side = F.normalize(away - (rows @ away).unsqueeze(-1) * rows, dim=-1)
    return kept * rows + (1 - kept.square()).clamp(min=0).sqrt() * side


def gated(encoder: UniversalSentenceEncoder, parts: Mapping[str, Mapping[str, int]]) -> GatedSentenceEncoder:
    """The same encoder, its weights shared, with an untrained gate of the sizes in `parts`."""
    try:
        sizes = dict(parts[PART])
        if len(parts) > 1 or not all(0 < sizes[name] <= most for name, most in _LARGEST.items()):
            raise ValueError("these are not the sizes of a noise gate")
        network = GatedSentenceEncoder(len(encoder.table), **sizes)
    except (KeyError, TypeError, ValueError, AssertionError) as error:
        raise CapscoreError(f"the text encoder takes no such parts: {parts!r:.200} ({error})") from None
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
    position = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10_000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table


# Largest number of pieces of a part; a longer sentence is cut where a word begins.
LONGEST = 96
# Weight of a part in the verdict on the kind besides what it loses, so that a text that loses nothing has
# kinds too.
_MIN_WEIGHT = 1e-6
_AROUND = BLANK + " \t\n.,;:!?…。、，！？．｡؟"


def sentence_cuts(pieces: Sequence[str]) -> list[int]:
    """Pieces of a text → the indices at which its parts end, the last of them len(pieces).

    Parts are sentences, pieces of long ones, and the halves of a text that says the same twice.
    """
    out, start = [], 0
    *ends, _ = sentence_ends("".join(pieces).replace(BLANK, " "))
    offsets = list(accumulate(map(len, pieces))) if ends else []
    for stop in [*(bisect_left(offsets, end) + 1 for end in ends), len(pieces)]:
        parts = -(-(stop - start) // LONGEST)
        for number in range(1, parts):
            wanted = start + (stop - start) * number // parts
            nearest = sorted(range(wanted - 8, wanted + 9), key=lambda place: abs(place - wanted))
            out.append(next((place for place in nearest if pieces[place].startswith(BLANK)), wanted))
        out.append(stop)
        start = stop
    if len(out) == 1:
        return [*_middle_of_twins(pieces), *out]
    return out


def _middle_of_twins(pieces: Sequence[str]) -> list[int]:
    """Where a text begins to say the same again, as in "a dog runs, a dog runs"; nowhere in others."""
    middle = len(pieces) // 2
    for place in range(max(1, middle - 1), min(middle + 2, len(pieces))):
        if any(said_again(["".join(pieces[:place]), "".join(pieces[place:])])):
            return [place]
    return []


def sentence_parts(ids: Sequence[int], pieces: Sequence[str]) -> list[Sequence[int]]:
    """Token ids of a text, and its pieces without the special ones → the ids of the parts for a gate."""
    cuts = sentence_cuts(pieces)
    if len(cuts) == 1:
        return [ids]
    return [[START, *ids[1 + a : 1 + b], END] for a, b in pairwise([0, *cuts])]


def joined_verdict(
    verdicts: torch.Tensor, lengths: torch.Tensor, sentences: Sequence[str], kinds: Sequence[str] = FOUND
) -> torch.Tensor:
    """Verdicts (m, 1 + k) on the sentences of a text, and their lengths (m,) → that on the text, (1 + k,).

    A verdict is the kept share of the score, then the probability of each kind of noise. A text keeps the
    mean of what its sentences keep, and nothing of one that it has said before, which is a repetition; its
    noise is that of the sentences that lose something.
    """
    again = torch.tensor(said_again(sentences), device=verdicts.device)
    repeated = torch.tensor([0.0, *(float(kind == "repetition") for kind in kinds)]).to(verdicts)
    verdicts = torch.where(again[:, None], repeated, verdicts)
    shares = lengths / lengths.sum()
    lost = shares * (1 - verdicts[:, 0])
    weights = lost + _MIN_WEIGHT * shares
    # what is lost is summed up, so that a text whose parts lose nothing keeps 1 exactly
    kept = 1 - lost.sum()
    return torch.cat([kept[None], weights / weights.sum() @ verdicts[:, 1:]]).clamp(0, 1)


def said_again(sentences: Sequence[str]) -> list[bool]:
    """Whether each sentence of a text stands in it before, but for case and the signs around it.

    >>> said_again(["A dog runs.", "It barks.", "a dog runs"])
    [False, False, True]
    """
    said = [sentence.strip(_AROUND).casefold() for sentence in sentences]
    return [bool(sentence) and sentence in said[:number] for number, sentence in enumerate(said)]
