"""Measures how well a backbone sees: search, agreement with people, speed.

    python -m weights.measuring.image_tower --data DATA --photos PHOTOS --packages PACKAGES \
        --output figures.json --markdown figures.md

In: the official files (folders flickr8k, multi30k, pascal50s, vicr), photos (folders flickr8k, voc_animals,
coco_val2014), packages with Flickr8k's captions in Chinese and Arabic as `weights.making.package_texts`
fetches them, and any number of backbones. Out: every number with its 95 % interval, published values beside,
as a table in Markdown and as JSON. What cannot be measured is listed with the reason.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import capscore
from capscore.backbones.base import Backbone
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.cache import resolve_cache
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError
from training.engine.config import main as run_as_command

from ..figures import ratio_of_shares, share_of_sums, study_parser, write_results
from ..retrieval import flickr8k_test_photos
from .agreement import SETS, measure_ratings
from .report import GROUPS, Figure, Report, markdown, of_share
from .searching import measure_retrieval

SCHEMA = 1
# columns and rows of the grid of regions
GRID = (5, 4)
REFERENCE = "embedded-free"
# photos that are timed together: one batch of the image tower on two cores
BLOCK = 8
BACKBONES = ("embedded", REFERENCE)
# everything that a backbone's embeddings depend on
_SIGNATURE = ("name", "revision", "fingerprint", "w", "prefix", "dtype", "dim")


def measure(
    backbones: dict[str, Backbone],
    data: Path,
    photos: Path,
    packages: Path | None = None,
    *,
    only: Sequence[str] = tuple(GROUPS),
    options: TaskOptions | None = None,
    cache: Any = None,
) -> list[Report]:
    """Measure backbones (name → backbone); one report each, in their order.

    Args:
        data, photos, packages: Folders; without packages, Chinese and Arabic are not measured.
        only: Groups of measures, from `GROUPS`.
        options: How many draws the intervals take; None takes 1,000.
        cache: Cache of embeddings as in `capscore.load`.
    """
    options = options or TaskOptions()
    reports = []
    for name, backbone in backbones.items():
        report = Report(name, {field: getattr(backbone, field) for field in _SIGNATURE})
        reports.append(report)
        # one embedder for all measures: each photo and each text is embedded once
        embedder = Embedder(backbone, cache=resolve_cache(cache))
        if "retrieval" in only:
            measure_retrieval(report, embedder, data, photos, packages, options)
        for group in SETS:
            if group in only:
                measure_ratings(report, embedder, group, data, photos, options)
    if "speed" in only:
        files: list[Path] = []
        for report in reports:
            with report.noting("speed", "photos a second"):
                files = flickr8k_test_photos(data / "flickr8k", photos / "flickr8k")[: 8 * BLOCK]
        if files:
            towers = list(backbones.values())
            measure_speed(reports, towers, _reference(backbones), files, options)
    return reports


def _reference(backbones: dict[str, Backbone]) -> Backbone | str:
    """The backbone whose speed is 1, or why there is none."""
    try:
        return backbones.get(REFERENCE) or capscore.load_backbone(REFERENCE)
    except CapscoreError as error:
        return str(error)


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
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            seconds = _times(everyone, blocks, key == "with_regions", clock)
        finally:
            torch.set_num_threads(before)
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


def document(reports: Sequence[Report], options: TaskOptions) -> dict[str, Any]:
    """The content of the JSON file."""
    return {
        "schema": SCHEMA,
        "capscore": capscore.__version__,
        "bootstrap": options.bootstrap,
        "confidence": options.confidence,
        "seed": options.seed,
        "machine": {
            "cores": os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
            "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        },
        "backbones": [
            {
                "name": report.name,
                "backbone": report.signature,
                "measures": [asdict(figure) for figure in report.figures],
            }
            for report in reports
        ],
    }


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = study_parser("image_tower", __doc__)
    parser.add_argument("--photos", type=Path, required=True, help="folder of the photos")
    parser.add_argument("--packages", type=Path, help="folder of packages with Chinese and Arabic captions")
    parser.add_argument(
        "--backbone", action="append", help=f"name or folder; repeatable (default: {', '.join(BACKBONES)})"
    )
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=list(GROUPS), help=f"of {','.join(GROUPS)}"
    )
    parser.add_argument("--bootstrap", type=int, default=1000, help="draws per interval (default: 1000)")
    given = parser.parse_args(argv)
    if unknown := [group for group in given.only if group not in GROUPS]:
        parser.error(f"--only: no {', '.join(unknown)}; expected some of {','.join(GROUPS)}")
    options = TaskOptions(bootstrap=given.bootstrap)
    backbones = {name: capscore.load_backbone(name) for name in given.backbone or BACKBONES}
    folders = given.data, given.photos, given.packages
    reports = measure(backbones, *folders, only=given.only, options=options)
    write_results(given, document(reports, options), markdown(reports))


if __name__ == "__main__":
    run_as_command(main)
