"""Backbones side by side: backbones and data sets in, one table with a row per backbone out.

Each backbone is loaded once, measured on every data set, and released before the next one. One that cannot be
loaded or run does not stop the others: its row says why.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backbones.base import count_weights, first_line
from ..backbones.loading import find_known
from ..errors import CapscoreError, InputError, join_parts
from .data.annotation_files import AnnotationError, MissingAnnotations
from .run import BenchmarkRun, NotRun, compare_results, run_benchmark
from .suite import benchmark_home, members, reasons
from .tasks import Statistic, TaskOptions

if TYPE_CHECKING:
    from ..embedding.embedder import Embedder
    from ..metrics.base import Scorer
    from .kept import KeptResults

# data set: benchmark, configuration, folder of its files
DataSet = tuple[str, str | None, Path | None]
# embedder of a backbone → name in the table → function that makes a scorer
MakeScorers = Callable[["Embedder"], Mapping[str, Callable[[], "Scorer"]]]


@dataclass(frozen=True)
class BackboneFacts:
    """What is known of a backbone besides its measured numbers.

    Attributes:
        name: Name as it was asked for.
        parameters: Number of its weights; 0 if it is not known.
        texts_per_second, images_per_second: Captions and photos that it encoded per second in this run, or in
            the run whose results were kept; None where all embeddings came from the cache.
        device: Device that it ran on; "" if it did not run.
        licence: Licence of its weights; "" if it is not recorded.
        failed: Why it could not be loaded; "" if it could.
    """

    name: str
    parameters: int = 0
    texts_per_second: float | None = None
    images_per_second: float | None = None
    device: str = ""
    licence: str = ""
    failed: str = ""


@dataclass(frozen=True)
class TableRow:
    """A row of the table.

    Attributes:
        label: Name of the metric and the backbone, METRIC@BACKBONE, or of a metric without one.
        facts: Facts about the backbone; None for a metric without one.
        cells: One for each data set: the statistic that papers report first; None where it was not measured.
        missing: Data set → why it was not measured.
        best: Whether a cell is the best of its column, for each cell.
    """

    label: str
    facts: BackboneFacts | None
    cells: tuple[Statistic | None, ...]
    missing: dict[str, str]
    best: tuple[bool, ...]


@dataclass
class BackboneTable:
    """Backbones on data sets.

    Attributes:
        backbones: Facts about each backbone, in the order in which they were asked for.
        runs: One run for each data set, with the results of all backbones.
        suite: Name of the suite; "" if data sets were named.
        skipped: Data set → why it was not measured with any backbone.
        damaged: Data set → what is wrong with its files.
        n_kept: Number of results that were kept by an earlier run.
    """

    backbones: list[BackboneFacts] = field(default_factory=list)
    runs: list[BenchmarkRun] = field(default_factory=list)
    suite: str = ""
    skipped: dict[str, str] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)
    n_kept: int = 0

    @property
    def columns(self) -> list[tuple[str, str]]:
        """(data set, statistic) of each column; higher is better in all of them."""
        return [
            (run.name, run.results[0].outcome.statistics[0].name) if run.results else (run.name, "")
            for run in self.runs
        ]

    @property
    def labels(self) -> list[str]:
        """Names of the rows, with those of one backbone together."""
        found = dict.fromkeys(name for run in self.runs for name in _names(run))
        order = {facts.name: place for place, facts in enumerate(self.backbones)}
        return sorted(found, key=lambda label: order.get(label.partition("@")[2], len(order)))

    def rows(self) -> list[TableRow]:
        """The rows of backbones and metrics that were measured; those that failed are in `backbones`."""
        facts = {one.name: one for one in self.backbones}
        columns = [{result.metric: result for result in run.results} for run in self.runs]
        values: list[dict[str, Statistic]] = [
            {label: result.outcome.statistics[0] for label, result in column.items()} for column in columns
        ]
        most = [
            max((one.value for one in column.values() if one.value is not None), default=None)
            for column in values
        ]
        rows = []
        for label in self.labels:
            cells = tuple(column.get(label) for column in values)
            rows.append(
                TableRow(
                    label=label,
                    facts=facts.get(label.partition("@")[2]),
                    cells=cells,
                    missing={run.name: str(run.skipped[label]) for run in self.runs if label in run.skipped},
                    best=tuple(
                        cell is not None and cell.value is not None and cell.value == best
                        for cell, best in zip(cells, most, strict=True)
                    ),
                )
            )
        return rows

    @property
    def complete(self) -> bool:
        """Whether every backbone was measured on every data set."""
        return not any(facts.failed for facts in self.backbones) and not any(run.skipped for run in self.runs)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: the table, and each data set's run as `BenchmarkRun.to_dict` gives it."""
        return {
            **({"suite": self.suite} if self.suite else {}),
            "columns": [{"data": name, "statistic": statistic} for name, statistic in self.columns],
            "rows": [
                {
                    "name": row.label,
                    "backbone": row.facts and row.facts.name,
                    "cells": [
                        None
                        if cell is None
                        else {
                            "value": cell.value,
                            "interval": None if cell.interval is None else list(cell.interval),
                            "n": cell.n,
                            "best": best,
                        }
                        for cell, best in zip(row.cells, row.best, strict=True)
                    ],
                    "missing": row.missing,
                }
                for row in self.rows()
            ],
            "backbones": [_described(facts) for facts in self.backbones],
            "runs": [run.to_dict() for run in self.runs],
            "skipped": self.skipped,
            "failed": self.damaged,
        }


def compare_backbones(
    backbones: Mapping[str, Callable[[], Embedder]],
    scorers: Mapping[str, MakeScorers],
    data: Sequence[DataSet],
    *,
    others: Mapping[str, Callable[[], Scorer]] | None = None,
    scores: Mapping[str, str | Path] | None = None,
    keep: KeptResults | None = None,
    compare: bool = False,
    common_rows: bool = False,
    say: Callable[[str], None] | None = None,
    **settings: Any,
) -> BackboneTable:
    """Measure backbones on data sets.

    Args:
        backbones: Name → function that loads it and gives its embedder.
        scorers: Name → function that gives the scorers to measure with an embedder, by METRIC@NAME.
        data: Data sets.
        others: Metrics without a backbone, measured beside them: name → function that makes the scorer.
        scores: Files of scores, measured beside them, as in `run_benchmark`.
        keep: Folder of finished results.
        compare, common_rows: Whether the first row is tested against each other, as in `run_benchmark`.
        say: Function that takes one line about what is being done.
        settings: Further arguments of `run_benchmark`, the same for all.

    Returns:
        The table. Backbones that failed are in it, with their reasons.

    Raises:
        InputError: there is no data set.
    """
    if not data:
        raise InputError("there is no data set to compare backbones on", field="data")
    say = say or (lambda line: None)
    table = BackboneTable()
    runs: dict[DataSet, BenchmarkRun] = {}
    left = list(data)

    def measure(name: str, **what: Any) -> None:
        for one in list(left):
            problem = _measure(table, runs, one, name, keep=keep, say=say, **what, **settings)
            if problem:
                left.remove(one)

    for name, load in backbones.items():
        say(f"{name}: loading")
        try:
            embedder = load()
        except Exception as error:  # one backbone's failure is its row's
            table.backbones.append(_facts(name, failed=_reason(error)))
            continue
        measure(name, metrics=scorers[name](embedder))
        table.backbones.append(_facts_of(name, embedder, keep))
        del embedder
        gc.collect()  # before the next one is loaded
    if others or scores:
        measure("", metrics=others or {}, scores=scores or {})
    table.runs = [runs[one] for one in data if one in runs and runs[one].results]
    for one in data:
        if one in runs and not runs[one].results:
            table.skipped.setdefault(runs[one].name, reasons(runs[one].skipped))
    if compare:
        table.runs = [compare_results(run, common_rows=common_rows) for run in table.runs]
    table.n_kept = 0 if keep is None else keep.n_found
    return table


def suite_data(suite: str, data_dir: str | Path) -> tuple[list[DataSet], dict[str, str]]:
    """The data sets of a suite that have a folder, and why others are left out.

    Raises:
        InputError: no such suite or folder.
    """
    root = Path(data_dir).expanduser()
    if not root.is_dir():
        raise InputError(f"{root} is not a folder", field="data_dir")
    found: list[DataSet] = []
    skipped = {}
    for slug, config in members(suite):
        home = benchmark_home(root, slug)
        if home is None:
            skipped[_data_name((slug, config, None))] = f"there is no folder {root / slug}"
        else:
            found.append((slug, config, home))
    return found, skipped


def _measure(
    table: BackboneTable,
    runs: dict[DataSet, BenchmarkRun],
    data: DataSet,
    backbone: str,
    *,
    metrics: Mapping[str, Callable[[], Scorer]],
    **settings: Any,
) -> bool:
    """Add a backbone's results to a data set's run; True if no backbone can be measured on it."""
    slug, config, home = data
    try:
        run = run_benchmark(slug, config, data_dir=home, metrics=metrics, keep_going=True, **settings)
    except CapscoreError as error:  # what stops a single metric is in the run
        damaged = isinstance(error, AnnotationError) and not isinstance(error, MissingAnnotations)
        (table.damaged if damaged else table.skipped)[_data_name(data)] = str(error)
        return True
    except Exception as error:  # the memory of a device is full, …
        message = f"{backbone}: {_reason(error)}"
        run = BenchmarkRun(slug, config or "", "", "", {}, 0, settings.get("options") or TaskOptions())
        run.skipped.update(dict.fromkeys(metrics, NotRun(message, f": {_reason(error)}")))
    if run.skipped and not run.results and all(why.refused for why in run.skipped.values()):
        plain = {label.partition("@")[0]: why for label, why in run.skipped.items()}
        table.skipped[run.name] = reasons(plain)
        return True
    before = runs.get(data)
    if before is None:
        runs[data] = run
        return False
    # a run that ended early has no rows: the other's facts stand
    base = before if before.n_rows else run
    runs[data] = dataclasses.replace(
        base,
        results=[*before.results, *run.results],
        skipped={**before.skipped, **run.skipped},
        notes=tuple(dict.fromkeys((*before.notes, *run.notes))),
    )
    return False


def _data_name(data: DataSet) -> str:
    slug, config, _ = data
    return slug if config in ("default", "", None) else f"{slug} · {config}"


def _names(run: BenchmarkRun) -> list[str]:
    return [*(result.metric for result in run.results), *run.skipped]


def _reason(error: BaseException) -> str:
    """What stopped a backbone, in one line without advice."""
    if isinstance(error, CapscoreError):
        words = join_parts(first_line(error))
        _, colon, rest = words.partition(" is not available: ")
        return " ".join((rest if colon else words).split())
    return " ".join(f"{type(error).__name__}: {error}".split())


def _facts(name: str, **measured: Any) -> BackboneFacts:
    known = find_known(name)
    facts: dict[str, Any] = (
        {} if known is None else {"licence": known.licence, "parameters": known.parameters}
    )
    return BackboneFacts(name, **{**facts, **measured})


def _facts_of(name: str, embedder: Embedder, keep: KeptResults | None) -> BackboneFacts:
    """Facts about a backbone that was measured; its speed is kept beside its results."""
    backbone = embedder.backbone
    speed = {
        "texts_per_second": embedder.encoded.texts_per_second,
        "images_per_second": embedder.encoded.images_per_second,
    }
    if keep is not None:
        speed = keep.speed(name, embedder.fingerprint, speed)
    parameters = count_weights(backbone)
    measured: dict[str, Any] = {"parameters": parameters} if parameters else {}
    return _facts(name, device=backbone.device, **speed, **measured)


def _described(facts: BackboneFacts) -> dict[str, Any]:
    return {
        **dataclasses.asdict(facts),
        "parameters": facts.parameters or None,
        "licence": facts.licence or None,
        "failed": facts.failed or None,
    }
