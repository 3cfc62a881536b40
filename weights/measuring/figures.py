"""What the studies share: rows that they read, options of their commands, shares, files of results."""

from __future__ import annotations

import argparse
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

FILES = {"output": "file for the numbers, JSON", "markdown": "file for the tables, Markdown"}


def read_rows(path: Path, *names: str) -> list[dict[str, str]]:
    """The rows of a JSON Lines file; InputError where one has no text in one of these cells."""
    return list(read_lines(path, "rows", names, dict))


def read_options(
    doc: str | None, argv: Sequence[str] | None, required: Mapping[str, str], others: Mapping[str, str] = {}
) -> argparse.Namespace:
    """The options of a command: names, and what they are; a "file" or "folder" is a path, and what is
    "repeatable" a list.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, said in {**required, **others}.items():
        how: dict[str, Any] = {"type": Path} if said.startswith(("file", "folder")) else {}
        if "repeatable" in said:
            how = {"action": "append"}
        parser.add_argument(f"--{name}", required=name in required, help=said, **how)
    return parser.parse_args(argv)


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
    options: argparse.Namespace,
    numbers: Any,
    parts: Sequence[Table | Report | str],
    missing: Mapping[str, str] = {},
) -> None:
    """Print a study's tables and what is missing, and write these and the numbers to files of `FILES`."""
    said = [f"not measured: {what}: {why}" for what, why in missing.items()]
    tables = Report("", [*parts, *said]).markdown()
    if options.output:
        write_text(options.output, json.dumps(numbers, ensure_ascii=False, indent=1) + "\n", "the result")
    if options.markdown:
        write_text(options.markdown, tables, "tables")
    print(tables)
