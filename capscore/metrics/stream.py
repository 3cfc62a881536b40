"""Scores rows that come in batches, such as those of a streaming data set or of Ray Data.

One batch is in memory at a time, so that memory does not grow with the number of rows. Only metrics whose
scores depend on the row alone: CIDEr needs document frequencies that were counted before.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from ..errors import InputError, LanguageWarning, OptionError, Setting, warn
from ..files.columns import ColumnNames, find_columns
from ..files.image_folder import ImageFolder
from ..files.row_source import RowsInMemory
from .base import PreparedRows, Scorer, Scores
from .score_file import ScoringRun, column_values, result_columns

if TYPE_CHECKING:
    import datasets

BATCH_ROWS = 256
_COUNTS = ("n_items", "n_scored", "n_failed", "n_empty", "n_unique_images", "n_truncated")
_SHOWN = 40  # characters of a caption in the name of its row


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


class BatchScorer:
    """Scores batches of rows, and keeps no row.

    Args:
        scorers: Scorers, one per metric.
        image_column, candidate_column, references_column, language_column: Names of columns that are called
            something unfamiliar.
        images: Folder that names of images start from.
        language: Language code of all rows; None where rows name theirs, or none is stated.
        on_error: "raise", or "skip" to give bad rows no score and the column `capscore_error`.
        allow_urls: Whether http(s) addresses of images may be fetched.

    Raises:
        InputError: A metric compares rows with each other, and rows come batch by batch.
    """

    def __init__(
        self,
        scorers: Sequence[Scorer],
        *,
        image_column: str | None = None,
        candidate_column: str | None = None,
        references_column: str | None = None,
        language_column: str | None = None,
        images: str | Path | None = None,
        language: str | None = None,
        on_error: str = "raise",
        allow_urls: bool = False,
    ):
        if on_error not in ("raise", "skip"):
            raise InputError(Setting("on_error", on_error), ": expected 'raise' or 'skip'")
        for scorer in scorers:
            if scorer.compares_rows:
                raise InputError(*_needs_all_rows(scorer))
        self.scorers = [*scorers]
        self._given = {
            "image": image_column,
            "candidate": candidate_column,
            "references": references_column,
            "language": language_column,
        }
        self._folder = ImageFolder(Path(images or "."), allow_urls=allow_urls)
        self._language, self._on_error = language, on_error
        self._running = {scorer.metric: RunningTotals(scorer) for scorer in self.scorers}
        self._told: set[str] = set()

    def columns(self, given: Sequence[str]) -> ColumnNames:
        """The columns that are read, of those that rows have.

        Raises:
            InputError: A column is missing, or several could be meant.
        """
        return find_columns(
            given,
            **self._given,
            with_images=any(scorer.needs_images for scorer in self.scorers),
            with_references=any(scorer.needs_references for scorer in self.scorers),
            with_language=self._language is None,
        )

    def new_columns(self, given: Sequence[str]) -> dict[str, tuple[str, str]]:
        """The new columns, as `result_columns` describes them.

        Raises:
            InputError: Rows have a column of such a name.
        """
        metrics = [scorer.metric for scorer in self.scorers]
        columns = result_columns(metrics, given, on_error=self._on_error)
        taken = [name for name in columns if name in given]
        if taken:
            raise InputError(
                f"the result needs the column name {taken[0]!r}, which the rows already use; rename or drop "
                "that column"
            )
        return columns

    def score(self, batch: Mapping[str, Sequence[Any]], start: int | None = None) -> dict[str, list[Any]]:
        """Score a batch of rows.

        Args:
            batch: Columns of the same length, as lists or arrays.
            start: Number of the first row, for messages; None counts from the batch's first row.

        Returns:
            The new columns: numbers, None where a row has no score.

        Raises:
            InputError: A row cannot be scored and on_error="raise"; names the row.
        """
        names, new = self.columns([*batch]), self.new_columns([*batch])
        read = [name for name in (names.image, names.candidate, *names.references, names.language) if name]
        cells = {name: [_plain(value, name in names.references) for value in batch[name]] for name in read}
        lengths = {len(values) for values in cells.values()}
        if len(lengths) > 1:
            told = ", ".join(f"{len(values)} of {name!r}" for name, values in cells.items())
            raise InputError(f"the columns of a batch differ in length: {told}")
        if lengths == {0}:
            return {name: [] for name in new}
        rows = [dict(zip(cells, values, strict=True)) for values in zip(*cells.values(), strict=True)]
        source = RowsInMemory(
            Path(), rows, [_place(row, number, start, names) for number, row in enumerate(rows)]
        )
        run = ScoringRun(
            source,
            names,
            self._folder,
            self.scorers,
            language=self._language,
            on_error=self._on_error,
            say=self._say,
        )
        (chunk,) = source.chunks(len(rows))
        prepared = run.prepare(chunk)
        run.tell_about_languages(prepared)
        scores = run.finish(prepared)
        for metric, part in scores.items():
            self._running[metric].add(prepared[metric], part)
        return column_values(new, scores, run.note_failures(chunk, scores, 0), 0)

    def summary(self) -> dict[str, dict[str, Any]]:
        """Means, counts and signature of the rows so far, per metric; {} without rows."""
        return {metric: running.summary() for metric, running in self._running.items()}

    def _say(self, message: str) -> None:
        if message not in self._told:  # once, not with every batch
            self._told.add(message)
            warn(LanguageWarning(message))


def _needs_all_rows(scorer: Scorer) -> tuple[Any, ...]:
    told = f"{scorer.metric} compares rows with each other, and here they come batch by batch"
    if hasattr(scorer, "consensus"):
        return (
            f"{told}: count the document frequencies of the references beforehand, and give ",
            Setting("document_frequencies"),
        )
    return (f"{told}: score them as one file, or with scorer.score",)


def _plain(value: Any, of_references: bool) -> Any:
    """A cell as readers of files give it: engines hand out arrays of texts where a file has lists."""
    if isinstance(value, np.generic):
        return value.item()
    if of_references and isinstance(value, np.ndarray):
        return value.tolist()
    return value


def _place(row: Mapping[str, Any], number: int, start: int | None, names: ColumnNames) -> str:
    """How messages name a row: by its number, its photo and its caption."""
    place = f"row {number} of its batch" if start is None else f"row {start + number} of the stream"
    image = row.get(names.image) if names.image else None
    name = image.get("path") if isinstance(image, Mapping) else image
    about = [f"{str(name)!r:.80}"] if isinstance(name, str | Path) else []
    caption = row.get(names.candidate)
    if isinstance(caption, str):
        about.append(repr(caption if len(caption) <= _SHOWN else f"{caption[:_SHOWN]}…"))
    return place + ", counted from 0" + (f" ({': '.join(about)})" if about else "")


class RunningTotals:
    """The summary of all rows of a metric, from scores that come in batches.

    Args:
        scorer: Scorer that finishes each batch.
    """

    def __init__(self, scorer: Scorer):
        self._scorer = scorer
        self._sums: dict[str, float] = {}
        self._numbers: dict[str, int] = {}
        self._counts = dict.fromkeys((name for name in _COUNTS if name != "n_unique_images"), 0)
        self._photos: set[bytes] = set()
        self._examples: dict[tuple[Any, ...], PreparedRows] = {}

    def add(self, rows: PreparedRows, scores: Scores) -> None:
        """Take a batch, as it was prepared and as it was finished."""
        for name, values in {scores.metric: scores.scores, **scores.components}.items():
            present = values[~np.isnan(values)]
            self._sums[name] = self._sums.get(name, 0.0) + float(present.sum())
            self._numbers[name] = self._numbers.get(name, 0) + len(present)
        for name in self._counts:
            self._counts[name] += getattr(scores, name)
        self._photos.update(xxhash.xxh3_128_digest(key.encode()) for key in set(scores.image_keys) - {""})
        # one row of each kind: the signature depends on nothing else of the rows
        kinds = zip(
            rows.kept.tolist(), rows.n_references.tolist(), rows.languages, rows.empty.tolist(), strict=True
        )
        for row, kind in enumerate(kinds):
            if kind not in self._examples:
                self._examples[kind] = rows.part(row, row + 1)

    def summary(self) -> dict[str, Any]:
        """As `Scores.summary`, of the rows so far; {} without rows."""
        if not self._examples:
            return {}
        means = {
            name: total / self._numbers[name] if self._numbers[name] else None
            for name, total in self._sums.items()
        }
        metric = self._scorer.metric
        counts = {**self._counts, "n_unique_images": len(self._photos)}
        examples = PreparedRows.concatenate([*self._examples.values()])
        return {
            metric: means.pop(metric),
            **{f"mean_{name}": value for name, value in means.items()},
            **{name: counts[name] for name in _COUNTS},
            "signature": self._scorer.finish(examples).signature,
        }
