"""What commands with metrics share: metrics by name, and backbones that are loaded when first needed."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..metrics import PRESETS
from ..registry import METRICS
from .terminal import as_usage

if TYPE_CHECKING:
    from ..embedding.embedder import Embedder


_NEXT_METRIC = re.compile(rf",(?=(?:{'|'.join(METRICS.names())})(?:@|,|$))")


def split_metrics(given: Sequence[str] | None) -> list[str] | None:
    """Metrics of an option that is repeatable, and may name several at once; each metric once.

    A name with a backbone, METRIC@BACKBONE, may have commas in it: only one before a metric's name parts.

    >>> split_metrics(["mcs,cider", "mcs"]), split_metrics(["mcs@a,b,cider"])
    (['mcs', 'cider'], ['mcs@a,b', 'cider'])
    """
    if given is None:
        return None
    parts = [
        part for text in given for part in (_NEXT_METRIC.split(text) if "@" in text else text.split(","))
    ]
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def complete_metrics(incomplete: str) -> list[str]:
    """What a shell offers for metrics that are typed in part.

    >>> complete_metrics("mcs,ci")
    ['mcs,cider', 'mcs,cider_d']
    """
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in METRICS.names() if name.startswith(last)]


def complete_presets() -> list[str]:
    """What a shell offers for a preset."""
    return [*PRESETS]


def check_metrics(metrics: Sequence[str]) -> None:
    """Raise UsageError if a metric does not exist."""
    with as_usage():
        for metric in metrics:
            METRICS.get(metric)


def check_calibration(path: Path) -> None:
    """Raise UsageError if a file is not one that `capscore calibrate` wrote."""
    from ..metrics.calibration import read_calibrations

    with as_usage():
        read_calibrations(path)


def embedders(options: Mapping[str, Any], *, progress: bool | None = None) -> Callable[[str], Embedder]:
    """A function that gives the embedder of a backbone, and loads each backbone once.

    Args:
        options: Options of `capscore.load`.
        progress: Whether embedding shows a progress bar; None for long work in a terminal.
    """

    @functools.cache
    def embedder(name: str) -> Embedder:
        from ..metrics.loading import make_embedder

        return make_embedder(name, **{**options, "progress": progress})

    return embedder


def spoken_language(language: str | None) -> str | None:
    """Primary subtag of the language that an option names, or None.

    Raises:
        UsageError: It is not a language code.
    """
    from ..text.languages import language_code

    with as_usage():
        return None if language is None else language_code(language)
