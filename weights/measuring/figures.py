"""What the studies share: rows that they read, shares, files of results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from capscore.errors import CapscoreError
from capscore.files.write import write_text
from capscore.tables import Report, Table, fixed, percent
from weights.making.jsonl import read_lines

MaybePath = Path | None  # what an option is that may be left out
FILES = {"output": "file for the numbers; default: none", "markdown": "file for the tables; default: none"}


def read_rows(path: Path, *names: str) -> list[dict[str, str]]:
    """The rows of a JSON Lines file; InputError where one has no text in one of these cells."""
    return list(read_lines(path, "rows", names, dict))


def mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def in_percent(share: float | None) -> str:
    """A share times 100.

    >>> in_percent(-0.5), in_percent(0.015), in_percent(None)
    ('−50.0', '1.5', '')
    """
    return fixed(percent(share), 1, "")


@contextmanager
def noting(missing: dict[str, str], what: str) -> Iterator[None]:
    """Where the block cannot be measured, `missing` says why, and the next block goes on."""
    try:
        yield
    except (CapscoreError, OSError) as error:
        missing[what] = str(error).splitlines()[0]


def write_results(
    files: Mapping[str, MaybePath],
    numbers: Any,
    parts: Sequence[Table | Report | str],
    missing: Mapping[str, str] = {},
) -> None:
    """Print a study's tables and what is missing, and write these and the numbers to files of `FILES`."""
    said = [f"not measured: {what}: {why}" for what, why in missing.items()]
    tables = Report("", [*parts, *said]).markdown()
    if output := files.get("output"):
        write_text(output, json.dumps(numbers, ensure_ascii=False, indent=1) + "\n", "the result")
    if markdown := files.get("markdown"):
        write_text(markdown, tables, "tables")
    print(tables)
