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

from ..backbones.base import count_weights
from ..backbones.loading import find_known
from ..errors import CapscoreError, InputError, join_parts
from .protocols import Statistic
from .run import BenchmarkRun, compare_results
from .suite import DataSet, SuiteRun, reasons

if TYPE_CHECKING:
    from ..embedding.embedder import Embedder
    from ..metrics.base import Scorer

# name in the table → function that makes a scorer
Makers = Mapping[str, Callable[[], "Scorer"]]


@dataclass(frozen=True)
class BackboneFacts:
    """What is known of a backbone besides its measured numbers.

    Attributes:
        name: Name as it was asked for.
        parameters: Number of its weights; None if it is not known.
        texts_per_second, images_per_second: Captions and photos that it encoded per second in this run; None
            where all embeddings came from the cache.
        device: Device that it ran on; "" if it did not run.
        licence: Licence of its weights; None if it is not recorded.
        failed: Why it could not be loaded; None if it could.
    """

    name: str
    parameters: int | None = None
    texts_per_second: float | None = None
    images_per_second: float | None = None
    device: str = ""
    licence: str | None = None
    failed: str | None = None


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
    """

    backbones: list[BackboneFacts] = field(default_factory=list)

    @property
    def columns(self) -> list[tuple[str, str]]:
        """(data set, statistic) of each column; higher is better in all of them."""
        return [(run.name, run.results[0].outcome.statistics[0].name) for run in self.runs]

    def rows(self) -> list[TableRow]:
        """The rows of backbones and metrics that were measured; those that failed are in `backbones`."""
        facts = {backbone.name: backbone for backbone in self.backbones}
        columns = [
            {result.metric: result.outcome.statistics[0] for result in run.results} for run in self.runs
        ]
        highest = [
            max((c.value for c in column.values() if c.value is not None), default=None) for column in columns
        ]
        labels = dict.fromkeys(
            label for run, column in zip(self.runs, columns, strict=True) for label in (*column, *run.skipped)
        )
        order = [*facts, ""]
        rows = []
        for label in sorted(labels, key=lambda label: order.index(label.partition("@")[2])):
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
        rows = []
        for row in self.rows():
            cells = [
                cell and {"value": cell.value, "interval": cell.interval, "n": cell.n, "best": best}
                for cell, best in zip(row.cells, row.best, strict=True)
            ]
            name = row.facts and row.facts.name
            rows.append({"name": row.label, "backbone": name, "cells": cells, "missing": row.missing})
        document = super().to_dict()
        if not self.suite:
            del document["suite"]
        columns = [{"data": name, "statistic": statistic} for name, statistic in self.columns]
        backbones = [dataclasses.asdict(facts) for facts in self.backbones]
        return {**document, "columns": columns, "rows": rows, "backbones": backbones}


def compare_backbones(
    backbones: Mapping[str, Callable[[], Embedder]],
    makers: Callable[[str, Embedder], Makers],
    data: Sequence[DataSet],
    *,
    others: Makers | None = None,
    scores: Mapping[str, str | Path] | None = None,
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

    def measure(metrics: Makers, **more: Any) -> None:
        for data_set in data:
            before = runs.get(data_set)
            run = table.attempt(data_set, metrics=metrics, say=say, **more, **settings)
            if run is not None and before is not None:
                results, skipped = [*before.results, *run.results], {**before.skipped, **run.skipped}
                run = dataclasses.replace(before, results=results, skipped=skipped)
            if run is not None:
                runs[data_set] = run

    for name, load in backbones.items():
        say(f"{name}: loading")
        try:
            embedder = load()
        except Exception as error:  # one backbone's failure is its row's
            table.backbones.append(_facts(name, failed=_reason(error)))
            continue
        measure(makers(name, embedder))
        speed = embedder.encoded
        measured = {"texts_per_second": speed.texts_per_second, "images_per_second": speed.images_per_second}
        if parameters := count_weights(embedder.backbone):
            measured["parameters"] = parameters
        table.backbones.append(_facts(name, device=embedder.backbone.device, **measured))
        del embedder
        gc.collect()  # before the next one is loaded
    if others or scores:
        measure(others or {}, scores=scores or {})
    for run in runs.values():
        if run.results:
            table.runs.append(compare_results(run, common_rows=common_rows) if compare else run)
        else:
            table.skipped[run.name] = reasons(run.skipped)
    return table


def _reason(error: BaseException) -> str:
    """What stopped a backbone, in one line without advice."""
    if isinstance(error, CapscoreError):
        words = join_parts(error.parts).partition(" Instead: ")[0]
        _, colon, rest = words.partition(" is not available: ")
        return " ".join((rest if colon else words).split())
    return " ".join(f"{type(error).__name__}: {error}".split())


def _facts(name: str, **measured: Any) -> BackboneFacts:
    known = find_known(name)
    facts = (
        {} if known is None else {"licence": known.licence or None, "parameters": known.parameters or None}
    )
    return BackboneFacts(name, **{**facts, **measured})
