"""Scores rows that come in batches, such as those of a streaming data set or of Ray Data."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from ..errors import CorpusWarning, InputError, Setting, without_warnings
from ..files.columns import ColumnNames, find_columns
from ..files.image_folder import ImageFolder
from ..files.references import Files, are_files, open_with_references
from ..files.row_source import CHUNK_ROWS, RowSource, rows_in_memory, rows_of
from ..metrics.base import Scorer, sums_by_language
from ..metrics.calibration import Standing, has_calibration, placed, standings
from ..metrics.loading import load_together
from ..metrics.rows import PreparedRows
from ..metrics.scores import COUNTS, Scores
from ..options import RowOptions, check_whole_number, split_options
from ..text.suspicious import OddRows
from .pipeline import (
    Columns,
    RowScorer,
    column_values,
    failed_rows,
    named_summary,
    result_columns,
    row_errors,
    summary_document,
)

MAX_LISTED = 100
"""Failures of a stream that its summary lists; it counts the others."""


class DistinctKeys:
    """Counts distinct keys; each takes 8 bytes of memory."""

    def __init__(self) -> None:
        self._digests = np.empty(0, np.uint64)  # sorted
        self._new: set[int] = set()

    def update(self, keys: set[str]) -> None:
        self._new.update(xxhash.xxh3_64_intdigest(key.encode()) for key in keys)
        if len(self._new) > max(2**14, len(self._digests) // 64):
            self._merge()

    def _merge(self) -> None:
        new = np.fromiter(self._new, np.uint64, len(self._new))
        self._digests = np.union1d(self._digests, new)
        self._new.clear()

    def __len__(self) -> int:
        self._merge()
        return len(self._digests)


class RunningSummary:
    """The summary of all rows of a metric, from scores that come in batches; `scorer` finished them."""

    def __init__(self, scorer: Scorer):
        self._scorer = scorer
        self._counts: Counter[str] = Counter()
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._numbers: Counter[str] = Counter()
        self._statistics: dict[str, Counter[str]] = {}
        self._photos = DistinctKeys()
        self._examples: dict[tuple[object, ...], PreparedRows] = {}

    def add(self, rows: PreparedRows, scores: Scores) -> None:
        for name, values in {scores.metric: scores.scores, **scores.components}.items():
            present = values[~np.isnan(values)]
            self._sums[name] += float(present.sum())
            self._numbers[name] += len(present)
        for code, sums in sums_by_language(scores.languages, scores.statistics).items():
            self._statistics.setdefault(code, Counter()).update(sums)
        self._counts.update({name: getattr(scores, name) for name in COUNTS})
        self._photos.update(set(scores.image_keys) - {""})
        # one row of each kind: the signature depends on nothing else of the rows
        signed = [np.nan_to_num(rows.values[name]).tolist() for name in self._scorer.signed_values]
        counts = rows.n_references.tolist()
        kinds = zip(rows.kept.tolist(), counts, rows.languages, rows.empty, *signed, strict=True)
        for index, kind in enumerate(kinds):
            if kind not in self._examples:
                self._examples[kind] = rows.row(index)

    def summary(self) -> dict[str, object]:
        """As `Scores.summary`, of the rows so far; {} without rows."""
        if not self._examples:
            return {}
        example = self._scorer.finish(PreparedRows.concatenate([*self._examples.values()]))
        found: dict[str, object] = {}
        for name, total in self._sums.items():
            mean = total / self._numbers[name] if self._numbers[name] else None
            found[name if name == self._scorer.metric else f"mean_{name}"] = mean
        for name, value in self._scorer.corpus_of(self._statistics).items():
            found[name] = None if math.isnan(value) else float(value)
        counts = {**self._counts, "n_unique_images": len(self._photos)}
        return {**found, **{name: counts[name] for name in COUNTS}, "signature": example.signature}


class BatchScorer:
    """Scores batches of rows, and keeps no row.

    Args:
        scorers: Scorers, of metrics whose scores depend on the row alone.
        calibration: File that `capscore.calibrate` wrote, for ranks; None for the library's own.
    """

    def __init__(
        self,
        scorers: Sequence[Scorer],
        options: RowOptions = RowOptions(),
        calibration: str | Path | None = None,
    ):
        for scorer in scorers:
            if scorer.compares_rows:
                raise InputError(
                    f"{scorer.metric} compares rows with each other, and here they come batch by batch: use "
                    "scorer.score; or, for CIDEr, give ",
                    Setting("document_frequencies"),
                    " that were counted before",
                )
        self._options, self._calibration = options, calibration
        self._ranked = [scorer.metric for scorer in scorers if has_calibration(scorer, calibration)]
        self._scorer = RowScorer(
            scorers, options, ImageFolder(Path(options.images or "."), allow_urls=options.allow_urls)
        )
        self._running = {scorer.metric: RunningSummary(scorer) for scorer in scorers}
        self._n_rows, self._failures = 0, list[Mapping[str, object]]()
        self._standings: dict[str, Standing] = {}

    @property
    def odd(self) -> OddRows:
        return self._scorer.odd

    def new_columns(self, given: Sequence[str]) -> Columns:
        """The new columns, as `result_columns` describes them."""
        columns = result_columns(
            self._scorer.scorers, given, on_error=self._options.on_error, ranked=self._ranked
        )
        for name in columns:
            if name in given:
                raise InputError(f"the result needs the column name {name!r}, which the rows already use")
        return columns

    def score(
        self,
        batch: Mapping[str, Sequence[object]],
        start: int | None = None,
        places: Sequence[str] | None = None,
    ) -> dict[str, list[Any]]:
        """Score a batch of rows.

        Args:
            start: Number of the first row, for messages; None counts from the batch's first row.
            places: Names of the rows in messages, such as "a.jsonl, line 3"; None for their numbers.

        Returns:
            The new columns: numbers, None where a row has no score.
        """
        new = self.new_columns([*batch])
        names = find_columns(
            [*batch],
            self._options,
            with_images=any(scorer.needs_images for scorer in self._scorer.scorers),
            with_references=any(scorer.needs_references for scorer in self._scorer.scorers),
        )
        rows = self._rows(batch, names)
        if not rows:
            return {name: [] for name in new}
        if places is None:
            places = [_place(row, index, start, names) for index, row in enumerate(rows)]
        source = rows_in_memory(rows, places)
        (chunk,) = source.chunks(len(rows))
        prepared = self._scorer.prepare(source, names, chunk, start or 0)
        with without_warnings(CorpusWarning):  # a batch is no corpus
            scores = self._scorer.finish(prepared)
        for metric, part in scores.items():
            self._running[metric].add(prepared[metric], part)
        errors = row_errors(scores)
        for row in failed_rows(scores)[: MAX_LISTED - len(self._failures)]:
            self._failures.append({"row": self._n_rows + row, "line": None, "error": errors[row]})
        self._n_rows += len(rows)
        ranked = {metric: scores[metric] for metric in self._ranked}
        found = {metric: placed(part, self._calibration) for metric, part in ranked.items()}
        found_ranks = {metric: where.ranks for metric, where in found.items()}
        for metric, standing in standings(ranked, found, self._calibration).items():
            before = self._standings.get(metric)
            self._standings[metric] = standing if before is None else before + standing
        return column_values(new, scores, errors, range(len(rows)), found_ranks)

    def _rows(self, batch: Mapping[str, Sequence[object]], names: ColumnNames) -> list[dict[str, object]]:
        read = [name for name in (names.image, names.candidate, *names.references, names.language) if name]
        for scorer in self._scorer.scorers:
            extra = (column.name for column in scorer.extra_columns if column.from_files)
            read += [name for name in extra if name in batch and name not in read]
        cells = {name: [_plain(value, name in names.references) for value in batch[name]] for name in read}
        lengths = {name: len(values) for name, values in cells.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"the columns of a batch differ in length: {lengths}")
        return [dict(zip(cells, values, strict=True)) for values in zip(*cells.values(), strict=True)]

    def summary(self) -> dict[str, object]:
        """The rows so far: "rows", "metrics", the first failures, "versions"; as `ScoredFile.to_dict`."""
        found = {}
        for metric, running in self._running.items():
            if summary := running.summary():
                found[metric] = named_summary(metric, summary)
                if metric in self._standings:
                    found[metric]["calibration"] = self._standings[metric].to_dict()
        return summary_document(found, self._n_rows, self._failures)


class _RowOfFile(dict[str, object]):
    """A row that knows how messages name it."""

    place: str


def _rows_of_files(source: RowSource) -> Iterator[_RowOfFile]:
    for chunk in source.chunks(CHUNK_ROWS):
        for index, row in enumerate(chunk.dicts()):
            placed = _RowOfFile(row)
            placed.place = source.place(chunk, index)
            yield placed


class ScoredStream(Iterator[dict[str, object]]):
    """The rows of a stream with their scores, in order; made by `score_stream`."""

    def __init__(self, rows: Iterable[Mapping[str, object]], scorer: BatchScorer, batch_rows: int):
        self._scorer, self._rows = scorer, self._scored(iter(rows), batch_rows)

    def __next__(self) -> dict[str, object]:
        return next(self._rows)

    def _scored(self, rows: Iterator[Mapping[str, object]], batch_rows: int) -> Iterator[dict[str, object]]:
        start = 0
        while batch := list(itertools.islice(rows, batch_rows)):
            for index, row in enumerate(batch):
                if not isinstance(row, Mapping):
                    problem = f"got a {type(row).__name__}; expected a dict with image and caption"
                    raise InputError(problem, row=start + index)
            columns = dict.fromkeys(itertools.chain.from_iterable(batch))
            places = [row.place for row in batch if isinstance(row, _RowOfFile)]
            cells = {name: [row.get(name) for row in batch] for name in columns}
            new = self._scorer.score(cells, start, places or None)
            start += len(batch)
            ready = []
            for row, numbers in zip(batch, zip(*new.values(), strict=True), strict=True):
                ready.append({**row, **dict(zip(new, numbers, strict=True))})
            del batch, row, cells
            yield from ready
        self._scorer.odd.warn()

    def summary(self) -> dict[str, object]:
        """Means, counts and signatures of the rows scored so far, in the shape of `ScoredFile.to_dict`.

        Of the failures, the first 100 are listed; the metrics' "n_failed" counts all.
        """
        return self._scorer.summary()


def score_stream(
    rows: Files | Iterable[Mapping[str, object]],
    scorers: str | Scorer | Sequence[str | Scorer],
    options: RowOptions = RowOptions(),
    *,
    batch_rows: int = 256,
    calibration: str | Path | None = None,
    **named: object,
) -> ScoredStream:
    """Score rows as they come, one batch in memory at a time, and 8 bytes per distinct photo.

    The numbers are those of `scorer.score` on all rows at once. Where a metric is calibrated, each row also
    has its ranks, as in the files of `score_file`.

    Args:
        rows: Rows as dicts: a `datasets.IterableDataset` (of files, of WebDataset's tar files, of a part by
            `split_dataset_by_node`), or anything that can be iterated over. Images of a data set stay encoded
            until they are scored. Or the file, folder, pattern such as `corpus-*.tar` or list of files that
            holds them; or a table of pandas, Arrow or polars.
        scorers: Scorers, or names (METRIC or METRIC@BACKBONE), of metrics whose scores depend on the row
            alone; CIDEr needs `document_frequencies`.
        options: How rows are read; its entries may also be given by name, such as images="photos",
            candidate_column="generated", on_error="skip".
        batch_rows: Number of rows that are scored together.
        calibration: File that `capscore.calibrate` wrote, for ranks; None for the library's own.

    Raises:
        InputError: A metric compares rows with each other; or, during iteration, a row cannot be scored;
            names the row.

    >>> import capscore
    >>> rows = ({"caption": text, "references": ["a cat sits there"]} for text in ("a cat sits", "a dog"))
    >>> scored = score_stream(rows, capscore.load("rouge_l"), language="en")
    >>> [round(row["rouge_l"], 4) for row in scored]
    [0.8356, 0.3144]
    >>> scored.summary()["metrics"]["rouge_l"]["n_items"]
    2
    """
    check_whole_number("batch_rows", batch_rows, 1)
    if named:
        (options,) = split_options(named, RowOptions)
    listed = load_together(scorers)
    if are_files(rows):
        source = open_with_references(rows, options)
        options = replace(options, images=options.images or source.folder)
        return ScoredStream(_rows_of_files(source), BatchScorer(listed, options, calibration), batch_rows)
    return ScoredStream(rows_of(rows), BatchScorer(listed, options, calibration), batch_rows)


def _plain(value: object, of_references: bool) -> object:
    """A cell as readers of files give it: engines hand out arrays of texts where a file has lists."""
    if isinstance(value, np.generic):
        return value.item()
    if of_references and isinstance(value, np.ndarray):
        return value.tolist()
    return value


def _place(row: Mapping[str, object], index: int, start: int | None, names: ColumnNames) -> str:
    """How messages name a row: by its number, its photo and its caption."""
    place = f"row {index} of its batch" if start is None else f"row {start + index} of the stream"
    image = row.get(names.image) if names.image else None
    if isinstance(image, Mapping):
        image = image.get("path")
    known = [item for item in (image, row.get(names.candidate)) if isinstance(item, str | Path)]
    named = ": ".join(f"{str(item)!r:.60}" for item in known)
    return f"{place}, counted from 0" + (f" ({named})" if named else "")
