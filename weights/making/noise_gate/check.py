"""Held-out samples and a gate → what it gets right in each style, kind and language; and its curve."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from capscore.backbones.embedded.noise_gate import FOUND
from capscore.errors import CapscoreError, Setting
from weights.making.noise_gate.loss import read
from weights.making.noise_gate.samples import Sample

_AT_ONCE = 256
# Curves to choose from: `GatedSentenceEncoder.curve`.
_REACHES = np.arange(0.05, 1.0, 0.025)
_POWERS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


class NoiseGateCheck:
    """Samples of captions that no training sample is made of, read by gates."""

    def __init__(self, samples: Sequence[Sample]):
        self.samples = sorted(samples, key=lambda sample: len(sample.ids))
        self.right = np.array([sample.found == 0 for sample in self.samples])

    @torch.inference_mode()
    def openness(self, model: nn.Module) -> np.ndarray:
        """1 − σ(noise) of each sample, (n,), in the order of `samples`."""
        was = model.training
        model.eval()
        found = [
            torch.sigmoid(-read(model, self.samples[start : start + _AT_ONCE]).noise.float()).cpu().numpy()
            for start in range(0, len(self.samples), _AT_ONCE)
        ]
        model.train(was)
        return np.concatenate(found)

    def __call__(self, model: nn.Module, curve: tuple[float, float] = (1.0, 1.0)) -> dict[str, float]:
        """Numbers by name: "kept_right", "below_half" of right texts, and of each kind of noise the mean
        share that is kept, "kept_<kind>", beside what it should be, "wanted_<kind>"."""
        kept = curved(self.openness(model), curve)
        numbers = {
            "kept_right": float(kept[self.right].mean()),
            "below_half": float((kept[self.right] < 0.5).mean()),
        }
        taken = np.array([sample.taken for sample in self.samples])
        for number, kind in enumerate(FOUND[1:], 1):
            own = np.array([sample.found == number for sample in self.samples])
            if own.any():
                numbers[f"kept_{kind}"] = float(kept[own].mean())
                numbers[f"wanted_{kind}"] = 1 - float(taken[own].mean())
        return numbers

    def by_group(self, kept: np.ndarray, group: str) -> dict[str, tuple[int, float, float]]:
        """ "style" or "language" → of its right samples the number, the mean kept, the share below half."""
        rows: dict[str, list[float]] = defaultdict(list)
        for sample, share in zip(self.samples, kept.tolist(), strict=True):
            if sample.found == 0:
                rows[getattr(sample, group)].append(share)
        return {
            name: (len(own), float(np.mean(own)), float(np.mean(np.array(own) < 0.5)))
            for name, own in sorted(rows.items())
        }

    def best_curve(self, openness: np.ndarray, keep_right: float) -> tuple[float, float]:
        """The curve with which noise takes most, while right texts of the language that keeps least keep
        `keep_right` of their score on average; raises CapscoreError if there is none."""
        languages = np.array([sample.language for sample in self.samples])
        groups = [self.right & (languages == language) for language in np.unique(languages)]
        groups = [group for group in groups if group.sum() >= 50] or [self.right]
        # strong noise alone: what should be taken in part says nothing on where to begin
        strong = np.array([sample.taken > 0.8 for sample in self.samples])
        if not (self.right.any() and strong.any()):
            raise CapscoreError("expected right samples and some with strong noise: raise validation_texts")
        found = []
        for curve in itertools.product(_REACHES.tolist(), _POWERS):
            kept = curved(openness, curve)
            if min(kept[group].mean() for group in groups) >= keep_right:
                found.append((float(kept[strong].mean()), curve))
        if not found:
            raise CapscoreError(
                Setting("keep_right", keep_right),
                ": with no curve do right validation texts keep that share of their score; train longer",
            )
        return min(found, key=lambda entry: entry[0])[1]


def curved(openness: np.ndarray, curve: tuple[float, float]) -> np.ndarray:
    """1 − σ(noise) → the share that is kept, as `GatedSentenceEncoder.kept` has it."""
    reach, power = curve
    return np.minimum(openness / reach, 1.0) ** power
