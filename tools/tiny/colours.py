"""A backbone small enough to compute by hand: colours against the words "red", "green" and "blue"."""

from __future__ import annotations

import re
import threading

import numpy as np
import torch
from PIL import Image

from capscore.backbones.base import Backbone, Tokens

WORDS = ("red", "green", "blue")


class ColourBackbone(Backbone):
    """An image is its mean colour; a text is its counts of three words. Both are scaled to unit length.

    An image without light, or a text without a colour, is (1, 1, 1) / √3. It counts what it encodes.
    """

    name = "colours"
    revision = "w00000000"
    dim = 3
    max_tokens = 6
    logit_scale = 1.0
    languages = frozenset(("en", "de"))

    def __init__(self, prefix: str = "", fingerprint: str = "colours-1"):
        self.prefix = prefix
        self.fingerprint = fingerprint
        self.encoded_images = 0
        self.encoded_texts = 0
        self.image_batches: list[int] = []
        self.text_batches: list[list[int]] = []
        self._lock = threading.Lock()

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state):
        vars(self).update(state, _lock=threading.Lock())

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        assert image.mode == "RGB"
        return torch.from_numpy(np.asarray(image, dtype=np.float32).reshape(-1, 3).mean(axis=0))

    def encode_pixels(self, pixels):
        with self._lock:
            self.encoded_images += len(pixels)
            self.image_batches.append(len(pixels))
        return _unit(torch.stack(list(pixels)).numpy())

    def tokenize(self, texts):
        # 0 starts, 4 ends, 1–3 are the colours, 9 any other word
        ids = [
            [0, *(WORDS.index(word) + 1 if word in WORDS else 9 for word in text.split()), 4]
            for text in texts
        ]
        truncated = np.array([len(sequence) > self.max_tokens for sequence in ids], dtype=bool)
        return Tokens(
            [
                [*sequence[: self.max_tokens - 1], 4] if len(sequence) > self.max_tokens else sequence
                for sequence in ids
            ],
            truncated,
        )

    def piece_spans(self, texts):
        return [
            [
                (WORDS.index(found[0]) + 1 if found[0] in WORDS else 9, *found.span())
                for found in re.finditer(r"\S+", text)
            ]
            for text in texts
        ]

    def encode_tokens(self, ids):
        with self._lock:
            self.encoded_texts += len(ids)
            self.text_batches.append([len(sequence) for sequence in ids])
        counts = [[sequence.count(word) for word in (1, 2, 3)] for sequence in ids]
        return _unit(np.array(counts, dtype=np.float32).reshape(-1, 3))


class JudgingColours(ColourBackbone):
    """Colours with a gate that knows repetition: a text keeps the share of its tokens that differ.

    Its embeddings are those of the colours, whatever it finds.
    """

    recipe = "pr_mcs"
    kinds_of_noise = ("none", "repetition")

    def __init__(self, fingerprint: str = "judging-colours-1"):
        super().__init__(fingerprint=fingerprint)
        self.judged_texts = 0

    def encode_judged(self, ids):
        self.judged_texts += len(ids)
        kept = np.array([len(set(sequence)) / len(sequence) for sequence in ids], dtype=np.float32)
        return self.encode_tokens(ids), np.stack([kept, kept, 1 - kept], axis=1)


def _unit(rows: np.ndarray) -> np.ndarray:
    rows = np.where(rows.sum(axis=1, keepdims=True) > 0, rows, np.ones_like(rows))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def plain(colour: tuple[int, int, int], size: tuple[int, int] = (4, 3)) -> np.ndarray:
    """A uint8 picture of one colour, (height, width, 3)."""
    return np.full((*size, 3), colour, dtype=np.uint8)


RED, GREEN, BLUE = plain((255, 0, 0)), plain((0, 255, 0)), plain((0, 0, 255))
for _photo in (RED, GREEN, BLUE):
    _photo[0] //= 2  # photos of one colour would be warned of


def meteor_counts(scores: np.ndarray) -> np.ndarray:
    """Counts of rows, as `meteor_with_counts` gives them, with which a corpus has the mean of the scores."""
    return np.outer(scores, [1, 1, 0, 0, 0, 0, 0]) + np.array([0, 0, 1, 1, 1, 1, 0])
