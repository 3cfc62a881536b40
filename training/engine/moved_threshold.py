"""A tower with a gate whose threshold is moved, without computing any text anew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from capscore.backbones.base import Backbone, Tokens, fingerprint_of, pad_batch
from capscore.errors import CapscoreError


class MovedThreshold(Backbone):
    """A tower with a gate whose threshold is moved; every text goes through the networks once, however often
    the threshold is moved.

    Args:
        tower: with a gate, as fine-tuning leaves it.
        shift: in logits; above 0, fewer captions are turned away.
        memory: what earlier ones of the same tower found: token ids → centred row and logit. Added to.

    Raises:
        CapscoreError: the tower has no gate.
    """

    def __init__(self, tower: Backbone, shift: float, memory: dict[tuple[int, ...], tuple[Tensor, Tensor]]):
        if "gate" not in (tower.network_parts() or {}):
            raise CapscoreError(f"{tower.name} has no gate whose threshold could be moved")
        self.tower, self.shift, self.memory = tower, shift, memory
        self.name, self.revision, self.dim = f"{tower.name}{shift:+g}", tower.revision, tower.dim
        self.prefix, self.max_tokens, self.logit_scale = tower.prefix, tower.max_tokens, tower.logit_scale
        self.languages, self.dtype, self.device = tower.languages, tower.dtype, tower.device
        self.fingerprint = fingerprint_of(tower.fingerprint, shift)
        self.recipe = tower.recipe

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
        return mixed.cpu().numpy()
