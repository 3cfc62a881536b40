"""The text encoder of the embedded backbones as published: without centring, and without images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image

from ..errors import CapscoreError, Setting
from .base import architecture_digest, fingerprint_of, resolve_device, resolve_dtype, weights_digest
from .sentence_encoder import MAX_TOKENS, SentenceEncoderBackbone
from .use_package import PieceTokenizer
from .use_text import UniversalSentenceEncoder, text_encoder


def load_uncentred(*, device: str | None = None, dtype: str | None = None) -> UncentredBackbone:
    """Load `embedded-uncentred`; arguments and errors are those of `capscore.backbones.free.load_free`."""
    text, tokenizer = text_encoder()
    return UncentredBackbone(
        text=text,
        tokenizer=tokenizer,
        device=resolve_device(device),
        dtype=resolve_dtype(dtype),
    )


class UncentredBackbone(SentenceEncoderBackbone):
    """Universal Sentence Encoder as published, 512-d: compares texts with each other, without images.

    Images are placed among centred texts, so they cannot be compared with texts that are not centred. Made by
    `load_uncentred`. `text` is the torch network, which can be trained; use the
    backbone that `remade` returns afterwards, since revision and fingerprint are computed when a backbone is
    made.
    """

    name = "embedded-uncentred"

    def __init__(self, *, text: UniversalSentenceEncoder, tokenizer: PieceTokenizer, device: str, dtype: str):
        self.tokenizer, self.text = tokenizer, text
        self.device, self.dtype = device, dtype
        self._identify("")
        self.text = text.to(device, getattr(torch, dtype))

    def _identify(self, revision: str) -> None:
        weights = weights_digest(self.text)
        self.revision = revision or f"w{weights[:8]}"
        self.fingerprint = fingerprint_of(
            "embedded-uncentred", weights, architecture_digest(self.text), self.dtype, MAX_TOKENS
        )

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        raise _no_images()

    def encode_pixels(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        raise _no_images()

    @property
    def centre(self) -> torch.Tensor:
        return torch.zeros(self.dim, device=self.device)


def _no_images() -> CapscoreError:
    return CapscoreError(
        "the backbone 'embedded-uncentred' has no image tower: it is for metrics that compare texts, such as "
        "text_score; ",
        Setting("backbone", "embedded"),
        " has one",
    )
