"""Photos a second of several backbones in turn, each photo alone and with 20 regions → figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from capscore.backbones.base import Backbone
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.embedder import Embedder

from ..figures import ratio_of_shares, share_of_sums
from .report import Figure, Report, of_share

# columns and rows of the grid of regions
GRID = (5, 4)
REFERENCE = "embedded-free"
# photos that are timed together: one batch of the image tower on two cores
BLOCK = 8


def grid(size: tuple[int, int]) -> np.ndarray:
    """20 boxes (left, top, right, bottom) in pixels, side by side, that cover an image of (width, height).

    >>> grid((50, 40))[[0, -1]].tolist()
    [[0.0, 0.0, 10.0, 10.0], [40.0, 30.0, 50.0, 40.0]]
    """
    across, down = (np.linspace(0, side, parts + 1) for side, parts in zip(size, GRID, strict=True))
    left, top = (edges.ravel() for edges in np.meshgrid(across[:-1], down[:-1]))
    right, bottom = (edges.ravel() for edges in np.meshgrid(across[1:], down[1:]))
    return np.stack([left, top, right, bottom], axis=1)


class _Regions:
    """A reader that asks for the regions of every photo while its embedder has it decoded."""

    def __init__(self, embedder: Embedder):
        self.embedder = embedder

    def wanted(self, keys: Sequence[str]) -> Collection[str]:
        return keys

    def look(self, images: Mapping[str, Image.Image]) -> None:
        shown = list(images.values())
        self.embedder.regions(shown, [grid(image.size) for image in shown])


def _embed(backbone: Backbone, files: Sequence[Path], regions: bool) -> None:
    """From files to embeddings, nothing cached."""
    embedder = Embedder(backbone, progress=False)
    embedder.images(files, reader=_Regions(embedder) if regions else None)


def measure_speed(
    reports: Sequence[Report],
    backbones: Sequence[Backbone],
    reference: Backbone | str,
    files: Sequence[Path],
    options: TaskOptions,
    *,
    threads: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Add photos per second, and their ratio to the reference's (or why there is none), to the reports.

    The backbones take turns at every block of photos, so that other programs slow down all of them alike. A
    last block with fewer photos than the others is left out.
    """
    blocks = [files[start : start + BLOCK] for start in range(0, len(files) - BLOCK + 1, BLOCK)]
    counts = np.full(len(blocks), float(BLOCK))
    about = {
        "times": 1.0,
        "n": BLOCK * len(blocks),
        "n_of": "photos",
        "resampled": f"blocks of {BLOCK} photos",
        "note": f"{threads} threads; from files, nothing cached",
    }
    everyone = [*backbones, *([] if isinstance(reference, str) else [reference])]
    for key, title in (("alone", "photos a second"), ("with_regions", "the same with 20 regions each")):
        with _threads(threads):
            seconds = _times(everyone, blocks, key == "with_regions", clock)
        for report, backbone in zip(reports, backbones, strict=True):
            own = (counts, seconds[id(backbone)])
            speed = share_of_sums(*own, options)
            report.figures.append(of_share(f"speed/{key}", title, speed, unit="photos/s", **about))
            name, named = f"speed/{key}/ratio", f"… ÷ {REFERENCE}"
            if isinstance(reference, str):
                report.figures.append(Figure(name, named, missing=reference))
            elif backbone is not reference:
                ratio = ratio_of_shares(own, (counts, seconds[id(reference)]), options)
                report.figures.append(of_share(name, named, ratio, unit="ratio", **about))


def _times(
    backbones: Sequence[Backbone], blocks: Sequence[Sequence[Path]], regions: bool, clock: Callable[[], float]
) -> dict[int, np.ndarray]:
    """Seconds of each block, by id of the backbone; the same object is timed once."""
    distinct = list({id(backbone): backbone for backbone in backbones}.values())
    seconds = {id(backbone): np.zeros(len(blocks)) for backbone in distinct}
    for backbone in distinct:
        _embed(backbone, blocks[0], regions)  # the first pass makes what later ones reuse
    for number, block in enumerate(blocks):
        for backbone in distinct:
            start = clock()
            _embed(backbone, block, regions)
            seconds[id(backbone)][number] = clock() - start
    return seconds


@contextmanager
def _threads(number: int):
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
