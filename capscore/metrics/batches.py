"""Scores rows that come in batches, such as those of a stream or of Ray Data: columns in, new columns out.

Only metrics whose scores depend on the row alone: CIDEr needs document frequencies that were counted before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, LanguageWarning, Setting, warn
from ..files.columns import ColumnNames, find_columns
from ..files.image_folder import ImageFolder
from ..files.row_source import RowsInMemory
from .base import Scorer
from .running_totals import RunningTotals
from .score_file import ScoringRun, column_values, result_columns

if TYPE_CHECKING:
    pass

_SHOWN = 40  # characters of a caption in the name of its row


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
        found = {metric: running.totals() for metric, running in self._running.items()}
        return {metric: {} if totals is None else totals.summary() for metric, totals in found.items()}

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
