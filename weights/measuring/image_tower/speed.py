"""Photos a second of several backbones in turn, each photo alone and with 20 regions → figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from capscore.backbones.base import Backbone
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.embedder import Embedder

from ..intervals import ratio_of_shares, share_of_sums
from .figures import Figure, Report, of_share

N_REGIONS = 20
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
    return np.array(
        [
            (across[column], down[row], across[column + 1], down[row + 1])
            for row in range(GRID[1])
            for column in range(GRID[0])
        ]
    )


@dataclass
class _Regions:
    """A reader that asks for the regions of every photo while its embedder has it decoded."""

    embedder: Embedder

    def wanted(self, keys: Sequence[str]) -> Collection[str]:
        return keys

    def look(self, images: Mapping[str, Image.Image]) -> None:
        shown = list(images.values())
        self.embedder.regions(shown, [grid(image.size) for image in shown])


def _alone(backbone: Backbone, files: Sequence[Path]) -> None:
    Embedder(backbone, progress=False).images(files)


def _with_regions(backbone: Backbone, files: Sequence[Path]) -> None:
    embedder = Embedder(backbone, progress=False)
    embedder.images(files, reader=_Regions(embedder))


# part of the key, title, what is timed: from files to embeddings, nothing cached
WAYS: tuple[tuple[str, str, Callable[[Backbone, Sequence[Path]], None]], ...] = (
    ("alone", "photos a second", _alone),
    ("with_regions", f"the same with {N_REGIONS} regions each", _with_regions),
)


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
    """Add photos per second, and their ratio to the reference's, to the reports of the backbones.

    The backbones take turns at every block of photos, so that other programs slow down all of them alike.

    Args:
        reports: One report per backbone.
        backbones: Backbones to measure.
        reference: Backbone that they are compared with, or why there is none.
        files: Photos; a last block with fewer photos than the others is left out.
        options: How many draws of blocks an interval takes.
        threads: Number of threads of the towers.
        clock: Clock in seconds.
    """
    blocks = [files[start : start + BLOCK] for start in range(0, len(files) - BLOCK + 1, BLOCK)]
    counts = np.full(len(blocks), float(BLOCK))
    everyone = [*backbones, *([] if isinstance(reference, str) else [reference])]
    # the same object may be measured and be the reference; it is timed once
    distinct = list({id(backbone): backbone for backbone in everyone}.values())
    for key, title, work in WAYS:
        seconds = {id(backbone): np.zeros(len(blocks)) for backbone in distinct}
        with _threads(threads):
            for backbone in distinct:
                work(backbone, blocks[0])  # the first pass makes what later ones reuse
            for number, block in enumerate(blocks):
                for backbone in distinct:
                    start = clock()
                    work(backbone, block)
                    seconds[id(backbone)][number] = clock() - start
        about = {
            "n": BLOCK * len(blocks),
            "n_of": "photos",
            "resampled": f"blocks of {BLOCK} photos",
            "note": f"{threads} threads; from files, nothing cached",
        }
        for report, backbone in zip(reports, backbones, strict=True):
            own = (counts, seconds[id(backbone)])
            report.figures.append(
                of_share(
                    f"speed/{key}", title, share_of_sums(*own, options), times=1.0, unit="photos/s", **about
                )
            )
            if backbone is reference:
                continue
            name, named = f"speed/{key}/ratio", f"… ÷ {REFERENCE}"
            if isinstance(reference, str):
                report.figures.append(Figure(name, named, missing=reference))
                continue
            ratio = ratio_of_shares(own, (counts, seconds[id(reference)]), options)
            report.figures.append(of_share(name, named, ratio, times=1.0, unit="ratio", **about))


@contextmanager
def _threads(number: int):
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
