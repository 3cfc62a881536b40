"""The gate of a text tower: added before training; afterwards sharpened, and its threshold moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from capscore.backbones.base import Backbone, Tokens, fingerprint_of, pad_batch
from capscore.backbones.sentence_encoder import SentenceEncoderBackbone
from capscore.errors import CapscoreError, Setting

# Steps in which the threshold is moved, in logits.
_STEP = 0.125
_MOST_STEPS = 80

# token ids → centred row and logit
Memory = dict[tuple[int, ...], tuple[Tensor, Tensor]]


class MovedThreshold(Backbone):
    """A tower whose gate has another threshold; every text goes through the networks only once.

    Args:
        tower: Tower with a gate, as fine-tuning leaves it.
        shift: Shift of the threshold in logits; above 0, fewer captions are turned away.
        memory: Results of other thresholds of the same tower, which are reused and added to.

    Raises:
        CapscoreError: the tower has no gate.
    """

    def __init__(self, tower: SentenceEncoderBackbone, shift: float, memory: Memory):
        if "gate" not in (tower.network_parts() or {}):
            raise CapscoreError(f"{tower.name} has no gate whose threshold could be moved")
        self.tower, self.shift, self.memory = tower, shift, memory
        self.name, self.revision, self.dim = f"{tower.name}{shift:+g}", tower.revision, tower.dim
        self.prefix, self.max_tokens, self.logit_scale = tower.prefix, tower.max_tokens, tower.logit_scale
        self.languages, self.dtype, self.device = tower.languages, tower.dtype, tower.device
        self.fingerprint = fingerprint_of(tower.fingerprint, shift)
        self.recipe, self.w = tower.recipe, tower.w

    def preprocess(self, image: Image.Image) -> Tensor:
        return self.tower.preprocess(image)

    def encode_pixels(self, pixels: Sequence[Tensor]) -> np.ndarray:
        return self.tower.encode_pixels(pixels)

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        return self.tower.tokenize(texts)

    @torch.inference_mode()
    def encode_tokens(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        keys = [tuple(row) for row in ids]
        network = self.tower.text_network()
        if fresh := [key for key in dict.fromkeys(keys) if key not in self.memory]:
            batch, mask = (part.to(self.device) for part in pad_batch(fresh, pad_id=0))
            rows, logits = network.apart(batch, mask)
            self.memory.update(zip(fresh, zip(rows.cpu(), logits.cpu(), strict=True), strict=True))
        rows, logits = (torch.stack(part) for part in zip(*map(self.memory.get, keys), strict=True))
        mixed = network.mixed(rows.to(self.device), logits.to(self.device) - self.shift)
        return self.tower.placed(mixed + network.centre.float()).cpu().numpy()


def add_gate(backbone: SentenceEncoderBackbone, size: Sequence[int], captions: np.ndarray, seed: int) -> None:
    """Give a text tower an untrained gate that turns texts away from captions.

    Args:
        backbone: Backbone whose text tower gets the gate.
        size: Width, layers and heads of the gate.
        captions: Embeddings of captions (n, d); texts are turned away from their mean.
        seed: Seed of the gate's weights.
    """
    width, layers, heads = size
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone.add_network_parts({"gate": {"width": width, "layers": layers, "heads": heads}})
    backbone.text_network().turn_away(away_from(backbone, captions))


def away_from(backbone: SentenceEncoderBackbone, captions: np.ndarray) -> Tensor:
    """Embeddings of captions (n, d) → the direction (d,), among centred rows, that the backbone places
    opposite their mean."""
    return backbone.before_placing(-torch.from_numpy(captions.mean(axis=0)))


def sharpen(network: nn.Module, factor: float) -> None:
    """Multiply the gate's logits by a factor."""
    with torch.no_grad():
        network.gate.leave.weight *= factor
        network.gate.leave.bias *= factor


def move_threshold(backbone: Backbone, share_kept: Callable[[Backbone], float], least: float) -> None:
    """Open the gate in small steps until enough of the base's mean score is kept.

    Args:
        backbone: Backbone with a gate.
        share_kept: Backbone → mean score of captions as they are, as a share of the base's.
        least: Smallest share to keep.

    Raises:
        CapscoreError: no threshold keeps that share.
    """
    memory: Memory = {}
    for steps in range(_MOST_STEPS + 1):
        if share_kept(MovedThreshold(backbone, steps * _STEP, memory)) >= least:
            with torch.no_grad():
                backbone.text_network().gate.leave.bias -= steps * _STEP
            return
    raise CapscoreError(
        Setting("keep_original", least),
        ": the mean score of validation captions stays below that share of the base's",
    )
