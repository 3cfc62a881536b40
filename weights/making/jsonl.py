"""Rows of JSONL files that the recipes write for each other, files of their sources, and data of modules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.errors import InputError
from capscore.files.write import whole_file, write_text
from training.data.source import SOURCES

T = TypeVar("T")


def beside(module: str, name: str) -> Any:
    """The content of a YAML or JSON file in the folder of a module, which gives its `__file__`."""
    return yaml.safe_load(Path(module).with_name(name).read_text(encoding="utf-8"))


def read_lines(
    path: str | Path, field: str, texts: Sequence[str], convert: Callable[[dict[str, Any]], T]
) -> Iterator[T]:
    """The rows of a JSONL file, with a text in each of some cells, converted; `dict` leaves them as they are.

    An InputError of the setting `field` says where that fails.
    """
    for line, written in AnnotationSource(Path(path)).text_lines():
        try:
            if written.strip():
                row = json.loads(written)
                if not all(isinstance(row[name], str) and row[name] for name in texts):
                    raise ValueError
                yield convert(row)
        except (ValueError, KeyError, TypeError):
            problem = f"{path}, line {line}: expected a row with {', '.join(texts)}"
            raise InputError(problem, field=field) from None


def write_lines(path: str | Path, rows: Iterable[Any]) -> None:
    with whole_file(Path(path), "rows", make_folders=True) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def write_sources(rows: str | Path, sources: Sequence[Mapping[str, Any]], held_out: str = "") -> None:
    """Write the origins of a file of rows, which cards cite: name, license, rows and url of each source."""
    listed = {"held_out": held_out, "sources": list(sources)}
    text = json.dumps(listed, indent=2, ensure_ascii=False) + "\n"
    write_text(Path(f"{rows}{SOURCES}"), text, "origins")


def print_counts(counts: Mapping[str, Counter[str]]) -> None:
    """Print language or split → what → number, a line each."""
    for name, own in counts.items():
        print(f"{name}: {own.total():,} ({', '.join(f'{part} {n:,}' for part, n in own.most_common())})")
