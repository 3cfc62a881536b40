"""What the studies share: shares with bootstrap intervals over photos, tables in Markdown, the command."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capscore.benchmarks.tasks import TaskOptions
from capscore.files.write import write_text
from capscore.statistics.bootstrap import multiplicities, percentile_interval, resample


@dataclass(frozen=True)
class Share:
    """A number and the ends of its interval; None where there are none.

    >>> Share(0.2022, (0.1871, 0.2169)).in_percent
    '20.2 [18.7–21.7]'
    """

    value: float | None
    interval: tuple[float, float] | None = None

    @property
    def in_percent(self) -> str:
        """Both times 100, with one decimal."""
        if self.value is None:
            return "–"
        ends = "" if self.interval is None else "–".join(f"{100 * end:.1f}" for end in self.interval)
        return f"{100 * self.value:.1f}" + (f" [{ends}]" if ends else "")


def share_of_sums(parts: np.ndarray, wholes: np.ndarray, options: TaskOptions) -> Share:
    """Sum of parts over sum of wholes, both (n,), one number per photo; the bootstrap draws photos.

    >>> share_of_sums(np.array([1.0, 3.0]), np.array([2.0, 6.0]), TaskOptions()).interval
    (0.5, 0.5)
    """
    return _bootstrapped(lambda drawn: _quotient(parts @ drawn, wholes @ drawn), len(parts), options)


def ratio_of_shares(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], options: TaskOptions
) -> Share:
    """One share of sums over another, of the same photos in the same order; each draw gives both."""

    def ratio(drawn: np.ndarray) -> np.ndarray:
        over, under = (_quotient(parts @ drawn, wholes @ drawn) for parts, wholes in (first, second))
        return _quotient(over, under)

    return _bootstrapped(ratio, len(first[0]), options)


def _quotient(over: np.ndarray, under: np.ndarray) -> np.ndarray:
    """over / under; NaN where under is 0."""
    return np.divide(over, under, out=np.full(np.shape(over), np.nan), where=under != 0)


def _bootstrapped(statistic: Callable[[np.ndarray], np.ndarray], n_units: int, options: TaskOptions) -> Share:
    """A statistic of weights (n_units, b) → (b,), for every unit once and for draws of the units."""
    value = float(statistic(np.ones((n_units, 1)))[0])
    if np.isnan(value):
        return Share(None)
    if not options.bootstrap:
        return Share(value)
    samples = resample(
        lambda drawn: statistic(drawn.astype(float))[None],
        multiplicities,
        n_units=n_units,
        n_samples=options.bootstrap,
        seed=options.seed,
        n_rows=n_units,
        label="Resampling photos",
    )
    interval = percentile_interval(samples[0], options.confidence)
    return Share(value, None if interval is None else (interval.low, interval.high))


def mean(values: Sequence[float]) -> float | None:
    """The mean; None of nothing."""
    return float(np.mean(values)) if len(values) else None


def percent(value: float | None, sign: str = "") -> str:
    """A share times 100.

    >>> percent(-0.5, "+"), percent(0.015), percent(None)
    ('−50.0', '1.5', '')
    """
    return "" if value is None else f"{100 * value:{sign}.1f}".replace("-", "−")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """A Markdown table with so many columns on the left."""
    rule = "|".join(["---"] * left + ["---:"] * (len(heads) - left))
    return "\n".join(f"| {' | '.join(row)} |" if row else f"|{rule}|" for row in [heads, (), *rows])


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
