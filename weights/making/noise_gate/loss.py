"""Samples → the loss of the noise gate, and what it gets right: how much is taken, by what kind, and where.

    L = L_taken + a · L_kind + b · L_touched

Not in the paper. L_taken is the cross-entropy of the share of the score that noise takes, L_kind that of the
kind of noise, and L_touched that of the tokens which it touched: many small answers teach faster than one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from capscore.backbones.base import pad_batch
from capscore.backbones.embedded.backbone import SentenceEncoderBackbone
from capscore.backbones.embedded.noise_gate import FOUND, GatedSentenceEncoder, GateLogits
from capscore.errors import CapscoreError, Setting
from training.engine.processes import Gather
from weights.making.noise_gate.samples import Sample

# How far the null direction leans away from the mean of captions, so that what noise has taken whole scores 0
# and not now and then a little more.
LEAN = 0.05
_AT_ONCE = 256
# Curves to choose from (`GatedSentenceEncoder.curve`): their power, and their reaches, widest first.
POWER = 6.0
REACHES = [step / 80 for step in range(79, 3, -1)]


@dataclass
class NoiseGateLoss:
    """The loss on samples, as `training.engine.loop.run` calls it, with the weights a and b.

    `right_weights` are of L_taken on a language's right texts, 1 for those not named.
    """

    kind_weight: float
    touched_weight: float
    right_weights: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, model: nn.Module, rows: Sequence[Sample], gather: Gather) -> dict[str, Tensor]:
        # PyTorch's fused attention is several times slower than plain products on short texts, on a CPU
        with sdpa_kernel(SDPBackend.MATH):
            found = read(model, rows)
        with torch.autocast(found.noise.device.type, enabled=False):
            return {name: gather(term).mean() for name, term in self.terms(found, rows).items()}

    def terms(self, found: GateLogits, rows: Sequence[Sample]) -> dict[str, Tensor]:
        """What the noise gate says of n rows → "loss" and its terms, one number a row."""
        at = found.noise.device
        taken = torch.tensor([row.taken for row in rows], device=at)
        kinds = torch.tensor([row.found for row in rows], device=at)
        touched, known = (part.to(at) for part in marks(rows, found.touched.shape[1]))
        places = F.binary_cross_entropy_with_logits(found.touched.float(), touched, reduction="none")
        terms = {
            "taken": F.binary_cross_entropy_with_logits(found.noise.float(), taken, reduction="none"),
            "kind": F.cross_entropy(found.kinds.float(), kinds, reduction="none"),
            "touched": (places * known).sum(dim=1) / known.sum(dim=1).clamp(min=1),
        }
        own = [1.0 if row.found else self.right_weights.get(row.language, 1.0) for row in rows]
        terms["taken"] = terms["taken"] * torch.tensor(own, device=at)
        total = terms["taken"] + self.kind_weight * terms["kind"] + self.touched_weight * terms["touched"]
        return {"loss": total, **terms}


def read(model: nn.Module, rows: Sequence[Sample]) -> GateLogits:
    assert isinstance(model, GatedSentenceEncoder)
    device = next(model.parameters()).device
    return model.read(*(part.to(device) for part in pad_batch([row.ids for row in rows], pad_id=0)))


def marks(rows: Sequence[Sample], length: int) -> tuple[Tensor, Tensor]:
    """Samples → touched (n, length), and 1 where that is known, 0 elsewhere."""
    padded = torch.tensor([row.touched + [-1] * (length - len(row.touched)) for row in rows]).float()
    return padded.clamp(min=0), (padded >= 0).float()


def null_direction(backbone: SentenceEncoderBackbone, captions: Sequence[str]) -> Tensor:
    """The direction in which captions vary least, leaning a little away from their mean, (d,), unit length.

    Neither captions nor photos lie there. Photos lie where captions lie, so their cosines with it are as
    small: on `embedded`, 0.01 with a standard deviation of 0.006, measured on 400 photos.
    """
    rows = torch.from_numpy(backbone.encode_texts(captions)).double()
    _, vectors = torch.linalg.eigh(rows.T @ rows)
    least = vectors[:, 0]
    least = least if least @ rows.mean(dim=0) <= 0 else -least
    return F.normalize(least - LEAN * F.normalize(rows.mean(dim=0), dim=0), dim=0).float()


class NoiseGateCheck:
    """Samples of captions that no training sample is made of, read by gates."""

    def __init__(self, samples: Sequence[Sample]):
        self.samples = sorted(samples, key=lambda sample: len(sample.ids))
        self.found = np.array([sample.found for sample in self.samples])
        self.right = self.found == 0
        languages = np.array([sample.language for sample in self.samples])
        # language → which samples are its right texts
        self.right_of = {str(code): self.right & (languages == code) for code in np.unique(languages)}

    @torch.inference_mode()
    def openness(self, model: nn.Module) -> np.ndarray:
        """1 − σ(noise) of each sample, (n,), in the order of `samples`."""
        found = [
            torch.sigmoid(-read(model, self.samples[start : start + _AT_ONCE]).noise.float()).cpu().numpy()
            for start in range(0, len(self.samples), _AT_ONCE)
        ]
        return np.concatenate(found)

    def numbers(self, kept: np.ndarray) -> dict[str, float]:
        """Numbers by name: the mean share that is kept of right texts, "kept_right", and of each kind of
        noise, "kept_<kind>"; and the share of right texts that keep less than half, "below_half"."""
        kinds = {f"kept_{kind}": kept[self.found == number] for number, kind in enumerate(FOUND)}
        numbers = {name: float(own.mean()) for name, own in kinds.items() if len(own)}
        return {
            "kept_right": numbers.pop(f"kept_{FOUND[0]}", math.nan),
            "below_half": float((kept[self.right] < 0.5).mean()),
            **numbers,
        }

    def by_language(self, kept: np.ndarray) -> dict[str, tuple[int, float]]:
        """Language → of its right samples the number and the mean share that is kept."""
        groups = {language: kept[right] for language, right in self.right_of.items()}
        return {language: (len(own), float(own.mean())) for language, own in groups.items() if len(own)}

    def best_reach(self, openness: np.ndarray, keep_right: float) -> float:
        """The widest reach of a curve with which right texts of the language that keeps least keep
        `keep_right` of their score on average; raises CapscoreError if there is none."""
        groups = [right for right in self.right_of.values() if right.sum() >= 50] or [self.right]
        for reach in REACHES:
            kept = curved(openness, (reach, POWER))
            if min(kept[group].mean() for group in groups) >= keep_right:
                return reach
        raise CapscoreError(
            Setting("keep_right", keep_right),
            ": with no curve do right validation texts keep that share of their score; train longer",
        )


def curved(openness: np.ndarray, curve: tuple[float, float]) -> np.ndarray:
    """1 − σ(noise) → the share that is kept, as `GatedSentenceEncoder.kept` has it."""
    reach, power = curve
    return np.minimum(openness / reach, 1.0) ** power
