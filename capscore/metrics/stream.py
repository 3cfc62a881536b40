"""Scores rows that come in batches, such as those of a streaming data set or of Ray Data."""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from ..errors import InputError, OptionError, Setting
from ..files.columns import ColumnNames, find_columns
from ..files.image_folder import ImageFolder
from ..files.row_source import rows_in_memory
from ..options import RowOptions
from ..text.suspicious import OddRows
from .base import Scorer
from .rows import PreparedRows
from .score_file import ScoringRun, column_values, result_columns
from .scores import COUNTS, Scores

if TYPE_CHECKING:
    import datasets


class ScoredStream(Iterator[dict[str, Any]]):
    """The rows of a stream with their scores, in order; made by `score_stream`."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], scorer: BatchScorer, batch_rows: int):
        self._scorer, self._rows = scorer, self._scored(iter(rows), batch_rows)

    def __next__(self) -> dict[str, Any]:
        return next(self._rows)

    def _scored(self, rows: Iterator[Mapping[str, Any]], batch_rows: int) -> Iterator[dict[str, Any]]:
        start = 0
        while batch := list(itertools.islice(rows, batch_rows)):
            for index, row in enumerate(batch):
                if not isinstance(row, Mapping):
                    problem = f"got a {type(row).__name__}; expected a dict with image and caption"
                    raise InputError(problem, row=start + index)
            columns = dict.fromkeys(name for row in batch for name in row)
            new = self._scorer.score({name: [row.get(name) for row in batch] for name in columns}, start)
            start += len(batch)
            cells = zip(*new.values(), strict=True)
            ready = [
                {**row, **dict(zip(new, values, strict=True))}
                for row, values in zip(batch, cells, strict=True)
            ]
            del batch, row
            yield from ready
        self._scorer.odd.warn()

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
    batch_rows: int = 256,
) -> ScoredStream:
    """Score rows as they come, in memory that does not grow with their number.

    The numbers are those of `scorer.score` on all rows at once.

    Args:
        rows: Rows as dicts: a `datasets.IterableDataset` (of files, of WebDataset's tar files, of a part by
            `split_dataset_by_node`), or anything that can be iterated over. Images of a data set stay encoded
            until they are scored.
        scorers: Scorer or scorers of metrics whose scores depend on the row alone; CIDEr needs
            `document_frequencies`.
        image_column, candidate_column, references_column, language_column: Names of columns with unfamiliar
            names, as in `capscore score`.
        images: Folder to which names of images are relative.
        language: Language code of all rows; None if rows name theirs, or none is stated.
        on_error: "raise", or "skip" to give bad rows no score and the column `capscore_error`.
        allow_urls: Whether http(s) addresses of images may be fetched.
        batch_rows: Number of rows that are scored together.

    Raises:
        InputError: A metric compares rows with each other; or, during iteration, a row cannot be scored;
            names the row.

    >>> import capscore
    >>> rows = ({"caption": text, "references": ["a cat sits there"]} for text in ("a cat sits", "a dog"))
    >>> scored = score_stream(rows, capscore.load("rouge_l"), language="en")
    >>> [round(row["rouge_l"], 4) for row in scored]
    [0.8356, 0.3144]
    >>> scored.summary()["rouge_l"]["n_items"]
    2
    """
    if isinstance(batch_rows, bool) or not isinstance(batch_rows, int) or batch_rows < 1:
        raise OptionError(Setting("batch_rows", batch_rows), ": expected a whole number of at least 1")
    given = (image_column, candidate_column, references_column, language_column)
    scorer = BatchScorer(
        [scorers] if isinstance(scorers, Scorer) else scorers,
        given,
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


class BatchScorer:
    """Scores batches of rows, and keeps no row.

    Args:
        scorers: Scorers, of metrics whose scores depend on the row alone.
        columns: Names of the columns of images, candidates, references and languages; None for usual names.
        images, language, on_error, allow_urls: As in `score_stream`, and errors too.
    """

    def __init__(
        self,
        scorers: Sequence[Scorer],
        columns: Sequence[str | None],
        *,
        images: str | Path | None = None,
        language: str | None = None,
        on_error: str = "raise",
        allow_urls: bool = False,
    ):
        if on_error not in ("raise", "skip"):
            raise InputError(Setting("on_error", on_error), ": expected 'raise' or 'skip'")
        for scorer in scorers:
            if scorer.compares_rows:
                raise InputError(
                    f"{scorer.metric} compares rows with each other, and here they come batch by batch: use "
                    "scorer.score; or, for CIDEr, give ",
                    Setting("document_frequencies"),
                    " that were counted before",
                )
        self.scorers = [*scorers]
        names = ("image_column", "candidate_column", "references_column", "language_column")
        given: dict[str, Any] = dict(zip(names, columns, strict=True))
        self._columns = RowOptions(**given, language=language)
        self._folder = ImageFolder(Path(images or "."), allow_urls=allow_urls)
        self._language, self._on_error = language, on_error
        self._languages: set[str] = set()
        self.odd = OddRows()
        self._running = {scorer.metric: RunningSummary(scorer) for scorer in self.scorers}

    def new_columns(self, given: Sequence[str]) -> dict[str, tuple[str, str]]:
        """The new columns, as `result_columns` describes them.

        Raises:
            InputError: Rows have a column of such a name.
        """
        columns = result_columns(self.scorers, given, on_error=self._on_error)
        for name in columns:
            if name in given:
                raise InputError(f"the result needs the column name {name!r}, which the rows already use")
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
        new = self.new_columns([*batch])
        names = find_columns(
            [*batch],
            self._columns,
            with_images=any(scorer.needs_images for scorer in self.scorers),
            with_references=any(scorer.needs_references for scorer in self.scorers),
        )
        read = [name for name in (names.image, names.candidate, *names.references, names.language) if name]
        extra = {
            column.name for scorer in self.scorers for column in scorer.extra_columns if column.from_files
        }
        read += [name for name in batch if name in extra and name not in read]
        cells = {name: [_plain(value, name in names.references) for value in batch[name]] for name in read}
        if len({len(values) for values in cells.values()}) > 1:
            raise InputError(
                f"the columns of a batch differ in length: { ({n: len(v) for n, v in cells.items()}) }"
            )
        rows = [dict(zip(cells, values, strict=True)) for values in zip(*cells.values(), strict=True)]
        if not rows:
            return {name: [] for name in new}
        source = rows_in_memory(rows, [_place(row, index, start, names) for index, row in enumerate(rows)])
        how = {"language": self._language, "on_error": self._on_error}
        run = ScoringRun(source, names, self._folder, self.scorers, **how)  # type: ignore[arg-type]
        run.languages, run.odd, run.start = self._languages, self.odd, start or 0
        (chunk,) = source.chunks(len(rows))
        prepared = run.prepare(chunk)
        scores = run.finish(prepared)
        for metric, part in scores.items():
            self._running[metric].add(prepared[metric], part)
        return column_values(new, scores, run.note_failures(chunk, scores, 0), 0)

    def summary(self) -> dict[str, dict[str, Any]]:
        """Means, counts and signature of the rows so far, per metric; {} without rows."""
        return {metric: running.summary() for metric, running in self._running.items()}


def _plain(value: Any, of_references: bool) -> Any:
    """A cell as readers of files give it: engines hand out arrays of texts where a file has lists."""
    if isinstance(value, np.generic):
        return value.item()
    return value.tolist() if of_references and isinstance(value, np.ndarray) else value


def _place(row: Mapping[str, Any], index: int, start: int | None, names: ColumnNames) -> str:
    """How messages name a row: by its number, its photo and its caption."""
    place = f"row {index} of its batch" if start is None else f"row {start + index} of the stream"
    image = row.get(names.image) if names.image else None
    path = image.get("path") if isinstance(image, Mapping) else image
    named = [
        f"{str(item)!r:.60}" for item in (path, row.get(names.candidate)) if isinstance(item, str | Path)
    ]
    return f"{place}, counted from 0" + (f" ({': '.join(named)})" if named else "")


class RunningSummary:
    """The summary of all rows of a metric, from scores that come in batches; `scorer` finished them."""

    def __init__(self, scorer: Scorer):
        self._scorer = scorer
        self._counts: Counter[str] = Counter()
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._numbers: Counter[str] = Counter()
        self._measured: defaultdict[str, float] = defaultdict(float)
        self._photos: set[bytes] = set()
        self._examples: dict[tuple[Any, ...], PreparedRows] = {}

    def add(self, rows: PreparedRows, scores: Scores) -> None:
        """Take a batch, as it was prepared and as it was finished."""
        for name, values in {scores.metric: scores.scores, **scores.components}.items():
            present = values[~np.isnan(values)]
            self._sums[name] += float(present.sum())
            self._numbers[name] += len(present)
        for name, values in rows.values.items():
            self._measured[name] += float(values[rows.kept].sum())
        self._counts.update({name: getattr(scores, name) for name in COUNTS})
        self._photos.update(xxhash.xxh3_128_digest(key.encode()) for key in set(scores.image_keys) - {""})
        # one row of each kind: the signature depends on nothing else of the rows
        signed = (np.nan_to_num(rows.values[name]).tolist() for name in self._scorer.signed_values)
        counts = rows.n_references.tolist()
        kinds = zip(rows.kept.tolist(), counts, rows.languages, rows.empty, *signed, strict=True)
        for index, kind in enumerate(kinds):
            if kind not in self._examples:
                self._examples[kind] = rows.row(index)

    def summary(self) -> dict[str, Any]:
        """As `Scores.summary`, of the rows so far; {} without rows."""
        if not self._examples:
            return {}
        example = self._scorer.finish(PreparedRows.concatenate([*self._examples.values()]))
        metric, numbers = self._scorer.metric, self._numbers
        means = {name: total / numbers[name] if numbers[name] else None for name, total in self._sums.items()}
        counts = {**self._counts, "n_unique_images": len(self._photos)}
        corpus = self._scorer.corpus_of(self._measured)
        return {
            **{name if name == metric else f"mean_{name}": mean for name, mean in means.items()},
            **{name: None if math.isnan(value) else value for name, value in corpus.items()},
            **{name: counts[name] for name in COUNTS},
            "signature": example.signature,
        }
