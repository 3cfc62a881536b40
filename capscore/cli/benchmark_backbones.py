"""`capscore benchmark` with several backbones: which they are, and the table of them on all data sets."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Setting
from .terminal import UsageError, as_usage, say

if TYPE_CHECKING:
    from ..benchmarks.backbones import BackboneTable, DataSet
    from ..benchmarks.kept import KeptResults
    from ..embedding.embedder import Embedder
    from ..metrics.base import Scorer

ALL_KNOWN = "all-known"
DEFAULT_METRIC = "mcs"


def named_backbones(given: Sequence[str] | None) -> list[str]:
    """The backbones that --backbone names, with `all-known` for each entry of the registry.

    Raises:
        UsageError: A name is unknown, or two name the same backbone.
    """
    from ..backbones import registry
    from ..backbones.loading import check_spec, find_known

    found: dict[str, str] = {}
    for name in given or ():
        for one in registry() if name == ALL_KNOWN else (name,):
            if name != ALL_KNOWN and len(given or ()) > 1:
                with as_usage():
                    check_spec(one)
            known = find_known(one)
            revised = "@" in one and known is not None and one != known.name
            identity = one if known is None or revised else known.name
            if identity in found:
                same = "" if found[identity] == one else f" is the same as {found[identity]}"
                raise UsageError(Setting("backbone", one), f"{same or ' is named twice'}: name each once")
            found[identity] = one
    return list(found.values())


def is_comparison(given: Sequence[str] | None) -> bool:
    """Whether --backbone asks for a table of backbones."""
    return len(given or ()) > 1 or ALL_KNOWN in (given or ())


def kept_results(folder: Path | None, options: Mapping[str, Any]) -> KeptResults | None:
    """The folder of finished results; None if none is named.

    Raises:
        UsageError: It is a file.
    """
    from ..benchmarks.kept import KeptResults

    if folder is None:
        return None
    with as_usage():
        return KeptResults(folder, options)


def run_comparison(
    backbones: Sequence[str],
    makers: Mapping[str, Callable[..., Scorer]],
    plain: Mapping[str, Callable[[], Scorer]],
    data: Sequence[DataSet],
    *,
    embedder_options: Mapping[str, Any],
    **settings: Any,
) -> BackboneTable:
    """Measure metrics with each backbone.

    Args:
        backbones: Names of the backbones.
        makers: Metric → function that makes its scorer from an embedder.
        plain: Metric without a backbone → function that makes its scorer.
        data: Data sets.
        embedder_options: Options of `capscore.load`.
        settings: Further arguments of `compare_backbones`.
    """
    from ..benchmarks.backbones import compare_backbones
    from ..metrics.loading import make_embedder

    def scorers(name: str, embedder: Embedder) -> dict[str, Callable[[], Scorer]]:
        return {f"{metric}@{name}": functools.partial(make, embedder) for metric, make in makers.items()}

    return compare_backbones(
        {name: functools.partial(make_embedder, name, embedder_options, progress=None) for name in backbones},
        {name: functools.partial(scorers, name) for name in backbones},
        data,
        others=plain,
        **settings,
    )


def say_what_failed(table: BackboneTable) -> None:
    """Name the backbones that were not measured on standard error."""
    for facts in table.backbones:
        if facts.failed:
            say(f"{facts.name}: {facts.failed}")
    for run in table.runs:
        for why in run.skipped.values():
            say(f"{run.name}: {why}")
