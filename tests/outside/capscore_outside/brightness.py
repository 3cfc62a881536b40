"""A backbone: a photo is its light and its darkness, a text says how often it is "bright" or "dark"."""

import numpy as np
import torch

import capscore
from capscore.backbones.base import Tokens
from capscore.registry import register_backbone


class Brightness(capscore.Backbone):
    """Bright photos are near the caption "bright", dark ones near "dark"."""

    name, revision, fingerprint = "brightness", "1", "brightness-1"
    prefix, dim, max_tokens, logit_scale = "", 2, 77, 1.0
    languages = frozenset({"en"})

    def preprocess(self, image):  # a PIL image in RGB; may be called by several threads
        light = np.asarray(image, dtype=np.float32).mean() / 255
        return torch.tensor([light, 1 - light])

    def encode_pixels(self, pixels):  # float32 (n, d), rows of unit length
        return _unit(torch.stack(list(pixels)).numpy())

    def tokenize(self, texts):
        ids = [[text.count("bright"), text.count("dark")] for text in texts]
        return Tokens(ids, np.zeros(len(ids), dtype=bool))  # no text was cut

    def encode_tokens(self, ids):
        return _unit(np.array(ids, dtype=np.float32) + 0.01)


def _unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@register_backbone("brightness")
def load_brightness(*, device, dtype):
    """The backbone; it always computes on the CPU in float32."""
    return Brightness()
