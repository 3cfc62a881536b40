"""MCS of rows whose embeddings are all in the cache on disk: a caption and a photo of its own for each.

In: made-up captions and small image files. Out: rows per second of a new scorer, and how far its scores are
from those that filled the cache.
"""

from __future__ import annotations

import io
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from capscore.backbones.base import Backbone, Tokens
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.metrics.mcs import MCS

from .figures import Figure, repeat

DIM = 512  # as the embedded backbone and ViT-B/32 have
PICTURES = 64
SETTLED_SECONDS = 2.5  # a file that was just written is not taken for unchanged


class Instant(Backbone):
    """Towers that take no time: fixed random projections of a mean colour and of a text's letters."""

    name, revision, fingerprint = "instant", "w00000000", "instant"
    dim, max_tokens, logit_scale = DIM, 1000, 1.0

    def __init__(self) -> None:
        draws = np.random.default_rng(0)
        self._colours = draws.normal(size=(3, DIM)).astype(np.float32)
        self._letters = draws.normal(size=(256, DIM)).astype(np.float32)

    def preprocess(self, image: Image.Image) -> torch.Tensor:
        return torch.tensor([band.getextrema()[1] + 1.0 for band in image.split()])

    def encode_pixels(self, pixels: Sequence[torch.Tensor]) -> np.ndarray:
        return _unit(torch.stack(list(pixels)).numpy() @ self._colours)

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        return Tokens([list(text.encode()) for text in texts], np.zeros(len(texts), dtype=bool))

    def encode_tokens(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        return _unit(np.stack([self._letters[list(own)].mean(axis=0) for own in ids]))


def measure(quick: bool) -> list[Figure]:
    """100,000 rows, best of 5; `quick`: 10,000, best of 3."""
    count = 10_000 if quick else 100_000
    with tempfile.TemporaryDirectory() as folder:
        photos = _write_pictures(Path(folder) / "photos", count)
        captions = [f"photo {number} shows something of its own" for number in range(count)]
        time.sleep(SETTLED_SECONDS)
        cache = Path(folder) / "cache"
        first = _scorer(cache).score(captions, photos, language="en").scores
        again: list[np.ndarray] = []

        def cached() -> None:
            again[:] = [_scorer(cache).score(captions, photos, language="en").scores]

        works = {"cached": cached, "files": lambda: [os.stat(photo) for photo in photos]}
        timed = repeat(works, 3 if quick else 5)
    what = f"MCS of {count:,} rows in the cache, new scorer"
    difference = float(np.abs(again[0] - first).max())
    return [
        Figure(what, count / timed["cached"].best, "{:,.0f}/s", 100_000, **timed["cached"].spread()),
        Figure(
            "  asking the file system about each photo",
            count / timed["files"].best,
            "{:,.0f}/s",
            **timed["files"].spread(),
        ),
        Figure("  largest difference between their scores", difference, "{:.0e}", 1e-6, at_most=True),
    ]


def _scorer(cache: Path) -> MCS:
    return MCS(Embedder(Instant(), cache=EmbeddingCache(cache), progress=False))


def _write_pictures(folder: Path, count: int) -> list[str]:
    """Paths of small image files, of which no two hold the same bytes."""
    folder.mkdir()
    starts = []
    for number in range(PICTURES):
        file = io.BytesIO()
        Image.new("RGB", (8, 8), (4 * number, 255 - 4 * number, 128)).save(file, "JPEG")
        starts.append(file.getvalue())
    paths = []
    for number in range(count):
        whole, comment = starts[number % PICTURES], f"{number:08d}".encode()
        path = folder / f"{number:06d}.jpg"
        path.write_bytes(
            whole[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + whole[2:]
        )
        paths.append(str(path))
    return paths


def _unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
