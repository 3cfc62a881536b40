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
from .protocols import Statistic
from .run import BenchmarkRun, MetricRefusal, compare_results
from .suite import DataSet, SuiteRun, reasons
from .tasks import TaskOptions

if TYPE_CHECKING:
    from ..embedding.embedder import Embedder
    from ..metrics.base import Scorer
    from .kept import KeptResults

# name in the table → function that makes a scorer
Makers = Mapping[str, Callable[[], "Scorer"]]


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
class BackboneTable(SuiteRun):
    """Backbones on data sets: one run for each data set, with the results of all backbones.

    Attributes:
        backbones: Facts about each backbone, in the order in which they were asked for.
        n_kept: Number of results that were kept by an earlier run.
    """

    backbones: list[BackboneFacts] = field(default_factory=list)
    n_kept: int = 0

    @property
    def columns(self) -> list[tuple[str, str]]:
        """(data set, statistic) of each column; higher is better in all of them."""
        return [
            (run.name, run.results[0].outcome.statistics[0].name) if run.results else (run.name, "")
            for run in self.runs
        ]

    def rows(self) -> list[TableRow]:
        """The rows of backbones and metrics that were measured; those that failed are in `backbones`."""
        facts = {backbone.name: backbone for backbone in self.backbones}
        order = {name: index for index, name in enumerate(facts)}
        columns: list[dict[str, Statistic]] = [
            {result.metric: result.outcome.statistics[0] for result in run.results} for run in self.runs
        ]
        highest = [
            max((cell.value for cell in column.values() if cell.value is not None), default=None)
            for column in columns
        ]
        labels = dict.fromkeys(
            name for run in self.runs for name in (*(result.metric for result in run.results), *run.skipped)
        )
        rows = []
        for label in sorted(labels, key=lambda label: order.get(label.partition("@")[2], len(order))):
            cells = tuple(column.get(label) for column in columns)
            best = tuple(
                cell is not None and cell.value is not None and cell.value == most
                for cell, most in zip(cells, highest, strict=True)
            )
            missing = {run.name: str(run.skipped[label]) for run in self.runs if label in run.skipped}
            rows.append(TableRow(label, facts.get(label.partition("@")[2]), cells, missing, best))
        return rows

    @property
    def complete(self) -> bool:
        """Whether every backbone was measured on every data set."""
        return not any(facts.failed for facts in self.backbones) and not any(run.skipped for run in self.runs)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: the table, and each data set's run as `BenchmarkRun.to_dict` gives it."""
        rows = [
            {
                "name": row.label,
                "backbone": row.facts and row.facts.name,
                "cells": [_cell(*cell) for cell in zip(row.cells, row.best, strict=True)],
                "missing": row.missing,
            }
            for row in self.rows()
        ]
        backbones = [
            {
                **dataclasses.asdict(facts),
                "parameters": facts.parameters or None,
                "licence": facts.licence or None,
                "failed": facts.failed or None,
            }
            for facts in self.backbones
        ]
        document = super().to_dict()
        if not self.suite:
            del document["suite"]
        columns = [{"data": name, "statistic": statistic} for name, statistic in self.columns]
        return {**document, "columns": columns, "rows": rows, "backbones": backbones}


def _cell(cell: Statistic | None, best: bool) -> dict[str, Any] | None:
    if cell is None:
        return None
    interval = None if cell.interval is None else list(cell.interval)
    return {"value": cell.value, "interval": interval, "n": cell.n, "best": best}


def compare_backbones(
    backbones: Mapping[str, Callable[[], Embedder]],
    makers: Callable[[str, Embedder], Makers],
    data: Sequence[DataSet],
    *,
    others: Makers | None = None,
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
        makers: Function that gives the scorers to measure with a name and its embedder, by METRIC@NAME.
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
    runs: dict[DataSet, BenchmarkRun | None] = dict.fromkeys(data)

    def measure(metrics: Makers, **what: Any) -> None:
        for one in list(runs):  # those on which no backbone can be measured leave it
            _measure(table, runs, one, metrics=metrics, keep=keep, say=say, **what, **settings)

    for name, load in backbones.items():
        say(f"{name}: loading")
        try:
            embedder = load()
        except Exception as error:  # one backbone's failure is its row's
            table.backbones.append(_facts(name, failed=_reason(error)))
            continue
        measure(makers(name, embedder))
        table.backbones.append(_facts_of(name, embedder, keep))
        del embedder
        gc.collect()  # before the next one is loaded
    if others or scores:
        measure(others or {}, scores=scores or {})
    for run in runs.values():
        if run is not None and run.results:
            table.runs.append(compare_results(run, common_rows=common_rows) if compare else run)
        elif run is not None:
            table.skipped.setdefault(run.name, reasons(run.skipped))
    table.n_kept = 0 if keep is None else keep.n_found
    return table


def _measure(
    table: BackboneTable,
    runs: dict[DataSet, BenchmarkRun | None],
    data: DataSet,
    *,
    metrics: Makers,
    **settings: Any,
) -> None:
    """Add the results of metrics to a data set's run; it is left out if none can ever be measured on it."""
    slug, config, _ = data
    try:
        run = table.attempt(data, metrics=metrics, **settings)
    except Exception as error:  # the memory of a device is full, …
        run = BenchmarkRun(slug, config or "", "", "", {}, 0, settings.get("options") or TaskOptions())
        run.skipped.update(dict.fromkeys(metrics, CapscoreError(_reason(error))))
    if run is None:
        del runs[data]
        return
    if (
        run.skipped
        and not run.results
        and all(isinstance(why, MetricRefusal) for why in run.skipped.values())
    ):
        table.skipped[run.name] = reasons({name.partition("@")[0]: why for name, why in run.skipped.items()})
        del runs[data]
        return
    before = runs[data]
    if before is None:
        runs[data] = run
        return
    runs[data] = dataclasses.replace(
        before if before.n_rows else run,  # a run that ended early has no rows
        results=[*before.results, *run.results],
        skipped={**before.skipped, **run.skipped},
        notes=tuple(dict.fromkeys((*before.notes, *run.notes))),
    )


def _reason(error: BaseException) -> str:
    """What stopped a backbone, in one line without advice."""
    if isinstance(error, CapscoreError):
        words = join_parts(first_line(error))
        _, colon, rest = words.partition(" is not available: ")
        return " ".join((rest if colon else words).split())
    return " ".join(f"{type(error).__name__}: {error}".split())


def _facts(name: str, **measured: Any) -> BackboneFacts:
    known = find_known(name)
    facts = {} if known is None else {"licence": known.licence, "parameters": known.parameters}
    return BackboneFacts(name, **{**facts, **measured})


def _facts_of(name: str, embedder: Embedder, keep: KeptResults | None) -> BackboneFacts:
    """Facts about a backbone that was measured; its speed is kept beside its results."""
    speed = {
        "texts_per_second": embedder.encoded.texts_per_second,
        "images_per_second": embedder.encoded.images_per_second,
    }
    if keep is not None:
        speed = keep.speed(name, embedder.fingerprint, speed)
    parameters = count_weights(embedder.backbone)
    measured: dict[str, Any] = {"parameters": parameters} if parameters else {}
    return _facts(name, device=embedder.backbone.device, **speed, **measured)
