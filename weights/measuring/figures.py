"""What the studies share: means, percentages, options of their commands, files that they write."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from capscore.files.write import write_text


def mean(values: Sequence[float]) -> float | None:
    """The mean; None of nothing."""
    return float(np.mean(values)) if len(values) else None


def percent(value: float | None, sign: str = "") -> str:
    """A share times 100.

    >>> percent(-0.5, "+"), percent(0.015), percent(None)
    ('−50.0', '1.5', '')
    """
    return "" if value is None else f"{100 * value:{sign}.1f}".replace("-", "−")


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
