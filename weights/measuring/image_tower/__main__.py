"""Measures how well a backbone sees: search, agreement with people, order of captions, speed.

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
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import capscore
from capscore.backbones.base import Backbone
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.cache import resolve_cache
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError
from training.engine.config import main as run_as_command

from ..figures import study_parser, write_results
from ..retrieval import flickr8k_test_photos
from .agreement import SETS, measure_demo, measure_ratings
from .report import GROUPS, Report, markdown
from .searching import measure_retrieval
from .speed import BLOCK, REFERENCE, measure_speed

SCHEMA = 1
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
        if "demo" in only:
            with report.noting("demo", "the demo's photos and captions"):
                measure_demo(report, embedder, options)
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
