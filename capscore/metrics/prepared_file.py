"""Rows that were measured, in a file: what one process has embedded, and another one finishes.

A Parquet file with a few numbers per row and metric, and no images. Texts are in it only where a metric waits
for all rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CapscoreError
from ..files.whole_file import whole_file
from .base import PreparedRows

if TYPE_CHECKING:
    import pyarrow as pa

_ABOUT = b"capscore_prepared"


def save_prepared(path: Path, prepared: Mapping[str, PreparedRows]) -> None:
    """Write the same rows, measured for one or several metrics; the file has its name once it is whole.

    Raises:
        ResultWriteError: It cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {}
    about = {}
    for metric, rows in prepared.items():
        columns.update({f"{metric}/{name}": array for name, array in _arrays(rows).items()})
        about[metric] = {"values": [*rows.values], "skips_empty": rows.skips_empty}
    table = pa.table(columns).replace_schema_metadata({_ABOUT: json.dumps(about)})
    with whole_file(path, "shard") as file:
        pq.write_table(table, file)


def load_prepared(path: Path) -> dict[str, PreparedRows]:
    """Read what `save_prepared` wrote: metric → rows.

    Raises:
        CapscoreError: The file is damaged, or another one.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        about = json.loads(table.schema.metadata[_ABOUT])
        return {metric: _rows(table, metric, known) for metric, known in about.items()}
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise CapscoreError(
            f"{path} is not a whole shard ({error}); remove it, and the next run scores its rows again"
        ) from None


def _arrays(rows: PreparedRows) -> dict[str, pa.Array]:
    import pyarrow as pa

    def texts(values: list[str]) -> pa.Array:
        # an error, or a caption, may hold half a surrogate pair, which no column can
        return pa.array([value.encode("utf-8", "surrogatepass") for value in values], pa.binary())

    arrays = {
        **{f"values/{name}": pa.array(values, pa.float64()) for name, values in rows.values.items()},
        "image_key": texts(rows.image_keys),
        "truncated": pa.array(rows.truncated, pa.bool_()),
        "n_references": pa.array(rows.n_references, pa.int64()),
        "language": texts(rows.languages),
        "empty": pa.array(rows.empty, pa.bool_()),
        "failed": pa.array([row in rows.failures for row in range(len(rows))], pa.bool_()),
        "error": texts([rows.failures.get(row, "") for row in range(len(rows))]),
    }
    if rows.candidates is not None:
        arrays["candidate"] = texts(rows.candidates)
    if rows.references is not None:
        arrays["references"] = texts([json.dumps(references) for references in rows.references])
    if rows.details is not None:
        arrays["details"] = texts([json.dumps(detail) for detail in rows.details])
    return arrays


def _rows(table: pa.Table, metric: str, about: Mapping[str, Any]) -> PreparedRows:
    def numbers(name: str, kind: type) -> np.ndarray:
        return np.array(table.column(f"{metric}/{name}").to_numpy(), dtype=kind)

    def texts(name: str) -> list[str] | None:
        if f"{metric}/{name}" not in table.column_names:
            return None
        found = table.column(f"{metric}/{name}").to_pylist()
        # one object per distinct text: a hundred million rows have few languages
        known: dict[bytes, str] = {}
        return [known.setdefault(one, one.decode("utf-8", "surrogatepass")) for one in found]

    def decoded(name: str) -> list[Any] | None:
        found = texts(name)
        return None if found is None else [json.loads(text) for text in found]

    errors = texts("error") or []
    failed: Iterator[int] = iter(np.flatnonzero(numbers("failed", bool)).tolist())
    return PreparedRows(
        values={name: numbers(f"values/{name}", float) for name in about["values"]},
        candidates=texts("candidate"),
        references=decoded("references"),
        image_keys=texts("image_key") or [],
        truncated=numbers("truncated", bool),
        n_references=numbers("n_references", np.int64),
        languages=texts("language") or [],
        failures={row: errors[row] for row in failed},
        empty=numbers("empty", bool),
        skips_empty=bool(about["skips_empty"]),
        details=decoded("details"),
    )
