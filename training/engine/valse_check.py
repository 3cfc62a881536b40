"""A backbone, VALSE's files and photos → its accuracy, to see what training on ratings does to it."""

from __future__ import annotations

import math
from pathlib import Path

from capscore.backbones.base import Backbone
from capscore.benchmarks.run import MetricResult, run_benchmark
from capscore.benchmarks.tasks import TaskOptions
from capscore.embedding.embedder import Embedder
from capscore.metrics.backbone_scorer import MCS


def valse_numbers(backbone: Backbone, data: str | Path, photos: str | Path | None = None) -> dict[str, float]:
    """Accuracy on the foils of VALSE (Parcalabescu et al. 2022) whose photos are there.

    Args:
        backbone: Backbone in its present state.
        data: Folder of VALSE's files.
        photos: Folder of its photos; None for the folder of the files.

    Returns:
        "valse_<statistic>" for each statistic of `capscore benchmark --data valse`.

    Raises:
        CapscoreError: files are missing, or all photos are.
    """
    return {
        f"valse_{item.name}": math.nan if item.value is None else item.value
        for item in valse_result(backbone, data, photos).outcome.statistics
    }


def valse_result(backbone: Backbone, data: str | Path, photos: str | Path | None = None) -> MetricResult:
    """The result of `capscore benchmark --data valse` for MCS; arguments as for `valse_numbers`."""
    run = run_benchmark(
        "valse",
        data_dir=Path(data).expanduser(),
        image_dir=None if photos is None else Path(photos).expanduser(),
        metrics={"mcs": lambda: MCS(Embedder(backbone, progress=False))},
        options=TaskOptions(bootstrap=0),
        partial=True,
    )
    return run.results[0]
