"""What the studies share: means, percentages, figures with intervals, options of their commands, files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capscore.benchmarks.tasks import TaskOptions
from capscore.errors import CapscoreError
from capscore.files.write import write_text
from capscore.statistics.bootstrap import bootstrap_intervals


def mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def percent(value: float | None, sign: str = "") -> str:
    """A share times 100.

    >>> percent(-0.5, "+"), percent(0.015), percent(None)
    ('−50.0', '1.5', '')
    """
    return "" if value is None else f"{100 * value:{sign}.1f}".replace("-", "−")


@dataclass(frozen=True)
class Figure:
    """A measured number in percent, or what could not be measured and why."""

    key: str  # unique, such as "retrieval/flickr8k_test/en/r@5"; it begins with that of its table
    title: str
    value: float | None = None  # None if it is missing or undefined
    interval: tuple[float, float] | None = None
    n: int = 0
    signature: str = ""  # everything that the scores depend on
    note: str = ""
    missing: str = ""  # why it is not measured


@contextmanager
def noting(figures: list[Figure], key: str, title: str) -> Iterator[None]:
    """Where the block cannot be measured, a figure says why, and the next block goes on."""
    try:
        yield
    except (CapscoreError, OSError) as error:
        figures.append(Figure(key, title, missing=str(error)))


def ratio(
    columns: Sequence[np.ndarray], options: TaskOptions
) -> tuple[float | None, tuple[float, float] | None]:
    """Of columns a and b, one number per photo, Σa / Σb; of a, b, c and d, (Σa / Σb) / (Σc / Σd).

    In percent, with the interval of a bootstrap that draws photos; None where it is undefined.
    """
    matrix = np.stack(columns).astype(float)

    def divided(over: np.ndarray, under: np.ndarray) -> np.ndarray:
        return np.divide(over, under, out=np.full(over.shape, np.nan), where=under != 0)

    def percent(drawn: np.ndarray) -> np.ndarray:
        sums = matrix @ drawn
        shares = divided(sums[::2], sums[1::2])
        return 100 * (shares if len(shares) == 1 else divided(shares[:1], shares[1:]))

    n_photos = matrix.shape[1]
    value = float(percent(np.ones((n_photos, 1)))[0, 0])
    if np.isnan(value):
        return None, None
    intervals, _ = bootstrap_intervals(
        percent, ["ratio"], n_units=n_photos, unit="photo", n_rows=n_photos, sampling=options.sampling
    )
    interval = intervals.get("ratio")
    return value, interval and (interval.low, interval.high)


def study_parser(name: str, doc: str | None, *, data_required: bool = True) -> argparse.ArgumentParser:
    """Parser of a study's command, with the options --data, --output and --markdown."""
    parser = argparse.ArgumentParser(
        prog=f"python -m weights.measuring.{name}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=data_required, help="folder of the official files")
    parser.add_argument("--output", type=Path, help="write the numbers to this JSON file")
    parser.add_argument("--markdown", type=Path, help="write the tables to this Markdown file")
    return parser


def write_results(options: argparse.Namespace, numbers: Any, tables: str) -> None:
    """Print a study's tables, and write both to the files that its options name."""
    if options.output:
        write_text(options.output, json.dumps(numbers, ensure_ascii=False, indent=1) + "\n", "the result")
    if options.markdown:
        write_text(options.markdown, tables, "tables")
    print(tables)
