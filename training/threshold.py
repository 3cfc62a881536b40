"""The trade-off of a gate's threshold: drops against mean scores kept, one row per threshold.

    python -m training.threshold --tower embedded-pr-mcs --data multi30k/de multi30k/fr --data_dir multi30k \
        --ratings_dir flickr8k

In: a fine-tuned tower with a gate, and held-out captions. Out: a table, and JSON, of how moving the threshold
changes the average drop, the drop under substitution, the mean score of unperturbed captions, and agreement
with Flickr8k-Expert's ratings by references (`text_score`).
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from capscore import load_backbone
from capscore.backbones.base import Backbone
from capscore.benchmark import run_benchmark
from capscore.benchmark.robustness import CaptionSet, RobustnessOptions, benchmark_captions, run_robustness
from capscore.benchmark.robustness.stand_in import plain_backbone
from capscore.benchmark.tasks import TaskOptions
from capscore.embedding.embedder import Embedder
from capscore.errors import InputError
from capscore.files.whole_file import write_text
from capscore.scorers.pr_mcs import PRMCS
from capscore.scorers.text_score import TextScore
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.gate import Memory, MovedThreshold


@dataclass
class Settings:
    """Settings of the measurement.

    Attributes:
        tower: Fine-tuned tower with a gate, as `capscore.load_backbone` takes it.
        data: Benchmarks with their configuration, such as multi30k/de; English captions stand in for photos.
        data_dir: Folder of their files; for several benchmarks, a folder of such folders.
        ratings_dir: Flickr8k's folder, for agreement; "" for none.
        shifts: Shifts of the threshold in logits: above 0, fewer captions are turned away.
        most: Largest number of captions to measure per configuration.
        seed: Seed for the choice of captions and the perturbations.
        order: Order of the objects in a substitution, as in `capscore.perturbations.published.perturb`.
        output: JSON file to write; "" for none.
    """

    tower: str = "embedded-pr-mcs"
    data: list[str] = field(default_factory=list)
    data_dir: str = ""
    ratings_dir: str = ""
    shifts: list[float] = field(default_factory=lambda: [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
    most: int = 300
    seed: int = 0
    order: Literal["published", "every"] = "published"
    output: str = ""

    def __post_init__(self) -> None:
        if not self.data or not self.data_dir:
            raise InputError("give --data and --data_dir, the captions to measure; see --help", field="data")


@dataclass(frozen=True)
class Row:
    """Numbers of a threshold, in percent.

    Attributes:
        shift: Shift of the threshold in logits.
        kept: Mean score of the unperturbed captions, relative to the base's.
        drop: Average drop over the five perturbations, mean of the sets; None if a set has no score that
            could drop.
        substitution: Drop under substitution, likewise.
        drops: Name of a set → its average drop, likewise.
        tau_c: Agreement of `text_score` with Flickr8k-Expert; None if not measured.
    """

    shift: float
    kept: float
    drop: float | None
    substitution: float | None
    drops: dict[str, float | None]
    tau_c: float | None


def trade_off(settings: Settings) -> list[Row]:
    """Measure every threshold.

    Raises:
        CapscoreError: the tower is not available or has no gate, or data is missing.
    """
    tower = load_backbone(settings.tower)
    plain = Embedder(load_backbone(plain_backbone(settings.tower)), cache=None)
    base_scorer = _scorer(plain.backbone)
    sets = [
        one.sample(settings.most, settings.seed)
        for spec in settings.data
        for one in _captions(spec, settings)
    ]
    memory: Memory = {}
    rows = []
    for shift in settings.shifts:
        moved = MovedThreshold(tower, shift, memory)
        scorers = {"base": base_scorer, "moved": _scorer(moved)}
        results = [
            run_robustness(
                one,
                scorers,
                RobustnessOptions(seed=settings.seed, order=settings.order, bootstrap=0),
                plain_embedders=dict.fromkeys(scorers, plain),
            ).results
            for one in sets
        ]
        drops = [_percent(moved.paper.average_drop) for _, moved in results]
        names = [f"{one.data}/{one.config}".rstrip("/") for one in sets]
        rows.append(
            Row(
                shift=shift,
                kept=100 * sum(moved.original / base.original for base, moved in results) / len(results),
                drop=_mean(drops),
                substitution=_mean(
                    [_percent(moved.paper.perturbations["substitution"].drop) for _, moved in results]
                ),
                drops=dict(zip(names, drops, strict=True)),
                tau_c=_agreement(moved, settings.ratings_dir) if settings.ratings_dir else None,
            )
        )
    return rows


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _mean(values: Sequence[float | None]) -> float | None:
    return None if None in values else sum(values) / len(values)


def _scorer(backbone: Backbone) -> PRMCS:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the base is not a PR-MCS tower on purpose
        return PRMCS(Embedder(backbone, cache=None, progress=False))


def _captions(spec: str, settings: Settings) -> list[CaptionSet]:
    slug, _, config = spec.partition("/")
    home = Path(settings.data_dir).expanduser()
    home = home / slug if (home / slug).is_dir() else home
    return benchmark_captions(slug, config or None, data_dir=home, stand_in=True)


def _agreement(backbone: Backbone, folder: str) -> float:
    run = run_benchmark(
        "flickr8k_human",
        "expert",
        data_dir=folder,
        metrics={"text_score": lambda: TextScore(Embedder(backbone, cache=None, progress=False))},
        options=TaskOptions(bootstrap=0),
    )
    found = {statistic.name: statistic.value for statistic in run.results[0].outcome.statistics}
    return 100 * found["tau_c"]


def print_table(rows: Sequence[Row]) -> None:
    """Print the rows, in 80 columns."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("threshold", box=None, header_style="bold")
    for heading in ("original kept %", "average drop %", "substitution %", "Expert τ_c"):
        table.add_column(heading, justify="right")
    for row in rows:
        agreement = "" if row.tau_c is None else f"{row.tau_c:.2f}"
        table.add_row(
            f"{row.shift:+g}", _shown(row.kept), _shown(row.drop), _shown(row.substitution), agreement
        )
    console.print(table)
    by_set = Table("average drop %", box=None, header_style="bold")
    for row in rows:
        by_set.add_column(f"{row.shift:+g}", justify="right")
    for name in rows[0].drops:
        by_set.add_row(name, *(_shown(row.drops[name]) for row in rows))
    console.print(by_set)


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def main(argv: Sequence[str] | None = None) -> None:
    """The command; see the top of this file."""
    settings = parse(Settings, argv, (__doc__ or "").partition("\n")[0])
    rows = trade_off(settings)
    print_table(rows)
    if settings.output:
        text = json.dumps([vars(row) for row in rows], indent=2)
        write_text(Path(settings.output), text + "\n", "the trade-off")


if __name__ == "__main__":
    run_as_command(lambda: main(sys.argv[1:]))
