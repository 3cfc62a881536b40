"""Scores a stream of rows, such as a streaming data set: each row comes out with its scores.

One batch is in memory at a time, so that memory does not grow with the number of rows.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, OptionError, Setting
from .base import Scorer
from .batches import BatchScorer

if TYPE_CHECKING:
    import datasets

BATCH_ROWS = 256


class ScoredStream(Iterator[dict[str, Any]]):
    """The rows of a stream with their scores, in order; made by `score_stream`."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], scorer: BatchScorer, batch_rows: int):
        self._batches, self._scorer = _batches(rows, batch_rows), scorer
        self._ready: Iterator[dict[str, Any]] = iter(())
        self._start = 0

    def __next__(self) -> dict[str, Any]:
        for row in self._ready:
            return row
        rows = next(self._batches)
        columns = list(dict.fromkeys(name for row in rows for name in row))
        values = {name: [row.get(name) for row in rows] for name in columns}
        new = self._scorer.score(values, self._start)
        self._start += len(rows)
        self._ready = iter(
            [
                {**row, **{name: cells[number] for name, cells in new.items()}}
                for number, row in enumerate(rows)
            ]
        )
        del rows, values
        return next(self._ready)

    def summary(self) -> dict[str, dict[str, Any]]:
        """Means, counts and signature of the rows scored so far, per metric; as `Scores.summary`."""
        return self._scorer.summary()


def score_stream(
    rows: Iterable[Mapping[str, Any]],
    scorers: Scorer | Sequence[Scorer],
    *,
    image_column: str | None = None,
    candidate_column: str | None = None,
    references_column: str | None = None,
    language_column: str | None = None,
    images: str | Path | None = None,
    language: str | None = None,
    on_error: str = "raise",
    allow_urls: bool = False,
    batch_rows: int = BATCH_ROWS,
) -> ScoredStream:
    """Score rows as they come, in memory that does not grow with their number.

    The numbers are those of `scorer.score` on all rows at once.

    Args:
        rows: Rows as dicts: a `datasets.IterableDataset` (of files, of WebDataset's tar files, of a part by
            `split_dataset_by_node`), or anything that can be iterated over. Images of a data set stay encoded
            until they are scored.
        scorers: Scorer or scorers, of metrics whose scores depend on the row alone; CIDEr needs
            `document_frequencies`.
        image_column, candidate_column, references_column, language_column: Names of columns that are called
            something unfamiliar, as in `capscore score`.
        images: Folder that names of images start from.
        language: Language code of all rows; None where rows name theirs, or none is stated.
        on_error: "raise", or "skip" to give bad rows no score and the column `capscore_error`.
        allow_urls: Whether http(s) addresses of images may be fetched.
        batch_rows: Number of rows that are scored together.

    Raises:
        InputError: A metric compares rows with each other; or, while rows are taken, a row that cannot be
            scored, with its number.

    >>> import capscore
    >>> rows = ({"caption": text, "references": ["a cat sits there"]} for text in ("a cat sits", "a dog"))
    >>> scored = score_stream(rows, capscore.load("rouge_l"), language="en")
    >>> [round(row["rouge_l"], 4) for row in scored]
    [0.8356, 0.3144]
    >>> scored.summary()["rouge_l"]["n_items"]
    2
    """
    several = [scorers] if isinstance(scorers, Scorer) else [*scorers]
    if isinstance(batch_rows, bool) or not isinstance(batch_rows, int) or batch_rows < 1:
        raise OptionError(Setting("batch_rows", batch_rows), ": expected a whole number of at least 1")
    scorer = BatchScorer(
        several,
        image_column=image_column,
        candidate_column=candidate_column,
        references_column=references_column,
        language_column=language_column,
        images=images,
        language=language,
        on_error=on_error,
        allow_urls=allow_urls,
    )
    return ScoredStream(_with_encoded_images(rows), scorer, batch_rows)


def _with_encoded_images(rows: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """A data set whose images are not decoded one by one as rows come, but by the embedder, in threads."""
    library: Any = sys.modules.get("datasets")
    if library is None or not isinstance(rows, library.IterableDataset | library.Dataset):
        return rows
    data: datasets.IterableDataset = rows
    for name, feature in (data.features or {}).items():
        if isinstance(feature, library.Image) and feature.decode:
            data = data.cast_column(name, library.Image(decode=False))
    return data


def _batches(rows: Iterable[Mapping[str, Any]], size: int) -> Iterator[list[Mapping[str, Any]]]:
    taken = iter(rows)
    while batch := list(itertools.islice(taken, size)):
        for number, row in enumerate(batch):
            if not isinstance(row, Mapping):
                raise InputError(
                    f"a stream of {type(row).__name__}s; expected rows as dicts, such as "
                    '{"image": "cat.jpg", "caption": "A cat."}',
                    row=number,
                )
        yield batch
        del batch
