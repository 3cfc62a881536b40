"""Scores chunks of rows with several metrics: the middle of every way from rows to results.

In: chunks of a source of rows. Out: `Scores`, cells of new columns, and a summary.
"""

from __future__ import annotations

import dataclasses
import math
import platform
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import version

import numpy as np

from .. import __version__
from ..errors import (
    InputError,
    LanguageWarning,
    OptionError,
    RowWarning,
    Setting,
    TruncationWarning,
    without_warnings,
)
from ..files.columns import (
    FAMILIAR,
    IDS,
    OTHER_NAMES,
    ChunkInputs,
    ColumnNames,
    named_columns,
    plain_name,
    read_inputs,
)
from ..files.image_folder import ImageFolder
from ..files.row_source import ERROR_COLUMN, Chunk, RowSource
from ..metrics.base import Scorer, check_rows
from ..metrics.calibration import RANKS
from ..metrics.rows import PreparedRows, photo_names
from ..metrics.scores import Scores
from ..options import RowOptions
from ..registry import METRICS
from ..text.suspicious import OddRows

LEFT_OUT = "candidate: an empty caption, left out as asked"
Columns = dict[str, tuple[str, str]]  # name of a new column → metric and component, "" for the score itself


def result_columns(
    metrics: Sequence[str | Scorer], inputs: Collection[str], *, on_error: str, ranked: Collection[str] = ()
) -> Columns:
    """The new columns: name → (metric, component), with "" as the component for the score itself.

    Details that are numbers or words (`Scorer.detail_columns`) are components here; of a metric that is given
    by its name, those that it may have. A component whose name is taken gets its metric's name before it; so
    do `RANKS`, which the metrics `ranked` have. With on_error="skip" the last column is `capscore_error`,
    whether or not a row fails: the columns of a result are known beforehand.

    >>> list(result_columns(["clip_score", "ref_clip_score"], ["caption"], on_error="raise"))
    ['clip_score', 'ref_clip_score', 'ref_clip_score_clip_score', 'text_score']
    """
    columns: Columns = {}
    kinds = {item if isinstance(item, str) else item.metric: item for item in metrics}
    for metric, item in kinds.items():
        columns[metric] = (metric, "")
        kind = METRICS.get(item) if isinstance(item, str) else item
        components = [*kind.component_names, *kind.detail_columns]
        if metric in ranked:
            components += RANKS
        for component in components:
            is_taken = component in kinds or component in inputs or component in columns
            columns[f"{metric}_{component}" if is_taken else component] = (metric, component)
    if on_error == "skip":
        columns[ERROR_COLUMN] = ("", "")
    return columns


def column_types(columns: Columns) -> dict[str, type]:
    """New columns, as `result_columns` gave them → what their cells are: float or str."""
    metrics = {metric for metric, _ in columns.values()} - {""}
    details = {metric: METRICS.get(metric).detail_columns for metric in metrics}
    types = {}
    for name, (metric, component) in columns.items():
        types[name] = details[metric].get(component, float) if metric else str
    return types


def column_values(
    columns: Columns,
    scores: Mapping[str, Scores],
    errors: Mapping[int, str],
    rows: Sequence[int],
    ranks: Mapping[str, Mapping[str, np.ndarray]] = {},
) -> dict[str, list[object]]:
    """The cells of the new columns for rows of the scores; None for a number that is missing."""
    here = np.asarray(rows, dtype=np.intp)
    values: dict[str, list[object]] = {}
    for name, (metric, component) in columns.items():
        part = scores.get(metric)
        if part is None:
            values[name] = [errors.get(row) for row in rows]
            continue
        numbers = {"": part.scores, **part.components, **ranks.get(metric, {})}
        if component in numbers:
            cells = numbers[component][here].tolist()
            values[name] = [None if math.isnan(number) else number for number in cells]
        else:
            details = part.details or [None] * len(part)
            values[name] = [detail and detail[component] for detail in map(details.__getitem__, rows)]
    return values


class RowScorer:
    """Scores chunks of rows with several metrics; the middle of every pipeline.

    Attributes:
        languages: Languages of the rows so far; each is warned about once.
        odd: Rows so far that look wrong.
    """

    def __init__(
        self,
        scorers: Sequence[Scorer],
        options: RowOptions,
        folder: ImageFolder,
        spell: Callable[[Setting], str] = str,
        *,
        keeps_odd: bool = False,
    ):
        names = Counter(scorer.metric for scorer in scorers)
        for name in names:
            if names[name] > 1:
                raise OptionError(f"two scorers of {name}: score them one after the other", field="metrics")
        self.scorers, self.options, self.folder, self.spell = [*scorers], options, folder, spell
        self.languages: set[str] = set()
        self.odd = OddRows(keeps_rows=keeps_odd)
        self._reads_photos = any(scorer.compares_photos for scorer in scorers)
        self._names_photos = any(scorer.compares_rows and not scorer.needs_images for scorer in scorers)

    def prepare(
        self, source: RowSource, names: ColumnNames, chunk: Chunk, start: int
    ) -> dict[str, PreparedRows]:
        """Measure the rows of a chunk for each metric; the first is row `start` of all."""
        inputs = read_inputs(chunk, source, names, self.folder, candidates_are_photos=self._reads_photos)
        naming = photo_column(source, self.options) if self._names_photos else None
        names_of_photos = None if naming is None else photo_names(chunk.values(naming))  # none is opened
        prepared: dict[str, PreparedRows] = {}
        for scorer in self.scorers:
            prepared[scorer.metric] = self._measured(scorer, source, chunk, inputs, names_of_photos)
        new: set[str] = set().union(*(part.languages for part in prepared.values())) - self.languages
        self.languages |= new
        for scorer in self.scorers:
            scorer.warn_about_languages(new)
            scorer.count_odd(prepared[scorer.metric], self.odd, start)
        if not self._reads_photos:
            self.odd.add(inputs.candidates, inputs.images, inputs.references, start)
        return prepared

    def _measured(
        self,
        scorer: Scorer,
        source: RowSource,
        chunk: Chunk,
        inputs: ChunkInputs,
        names_of_photos: list[str] | None,
    ) -> PreparedRows:
        is_read = {"references": scorer.needs_references, "image": scorer.needs_images}
        problems = {
            row: error for row, error in inputs.problems.items() if is_read.get(error.field or "", True)
        }
        if problems and self.options.on_error == "raise":
            raise self._first_of(problems, source, chunk)
        images = inputs.images if scorer.needs_images else None
        references = inputs.references if scorer.needs_references else None
        if names_of_photos is not None and scorer.compares_rows and not scorer.needs_images:
            images = names_of_photos
        extra = {}
        for column in scorer.extra_columns:
            names = named_columns((column.name,), source.columns)
            if column.from_files and names:
                extra[column.name] = chunk.values(names[0])
        try:
            # given once for all chunks
            with without_warnings(LanguageWarning, TruncationWarning, RowWarning):
                language, on_error = self.options.language or inputs.languages, self.options.on_error
                columns = inputs.candidates, images, references, language
                prepared = scorer.prepare_rows(check_rows(scorer, *columns, on_error, extra), on_error)
        except InputError as error:
            if error.row is None:
                raise
            raise source.at(error, chunk, error.row) from error
        errors, empty = [*prepared.errors], prepared.empty.copy()
        for row, problem in problems.items():
            errors[row], empty[row] = problem.message_with_field(self.spell), False
        # where nothing of the details is written, they are not kept: they are large
        details = None
        if scorer.detail_columns and prepared.details is not None:
            details = [detail and {**scorer.cells(detail)} for detail in prepared.details]
        return dataclasses.replace(prepared, errors=errors, empty=empty, details=details)

    def _first_of(self, problems: Mapping[int, InputError], source: RowSource, chunk: Chunk) -> InputError:
        first, n_more = min(problems), len(problems) - 1
        error = source.at(problems[first], chunk, first)
        if not n_more:
            return error
        rows = f"; {n_more:,} more of rows {chunk.start:,} to {chunk.start + len(chunk) - 1:,} "
        return InputError(*error.parts, rows, "cannot be read; ", Setting("on_error", "skip"), " lists them")

    def finish(self, prepared: Mapping[str, PreparedRows]) -> dict[str, Scores]:
        return {scorer.metric: scorer.finish(prepared[scorer.metric]) for scorer in self.scorers}


def photo_column(source: RowSource, options: RowOptions) -> str | None:
    """The column that names photos; None where there is none, or where it holds their bytes."""
    known = ("image_id", plain_name(options.image_column or "image"), *FAMILIAR["image"])
    column = next(iter(named_columns((*known, *OTHER_NAMES["image"], *IDS), source.columns)), None)
    schema = source.arrow_schema
    if column is None or schema is None or "binary" not in str(schema.field(column).type):
        return column
    return None


def failed_rows(scores: Mapping[str, Scores]) -> list[int]:
    """Rows that a metric could not score, in order."""
    return sorted(set().union(*(part.failures for part in scores.values())))


def rows_left_out(scores: Mapping[str, Scores]) -> np.ndarray:
    """bool (n,), True for a row that has no score because its caption is empty."""
    left_out = np.any([part.empty & np.isnan(part.scores) for part in scores.values()], axis=0)
    left_out[failed_rows(scores)] = False
    return np.asarray(left_out)


def row_errors(scores: Mapping[str, Scores]) -> dict[int, str]:
    """Row → why it has no score; once, where all metrics say the same. Other rows are not in it."""
    errors = dict.fromkeys(np.flatnonzero(rows_left_out(scores)).tolist(), LEFT_OUT)
    for row in failed_rows(scores):
        messages = {metric: part.failures.get(row, "") for metric, part in scores.items()}
        if len(set(messages.values())) == 1:
            errors[row] = next(iter(messages.values()))
        else:
            errors[row] = "; ".join(f"{metric}: {text}" for metric, text in messages.items() if text)
    return errors


def named_summary(metric: str, summary: Mapping[str, object]) -> dict[str, object]:
    """`Scores.summary` with the mean under "mean", whatever the metric is called."""
    others = {name: value for name, value in summary.items() if name != metric}
    return {"mean": summary[metric], **others}


def summary_document(
    metrics: Mapping[str, Mapping[str, object]], n_rows: int, failures: Sequence[Mapping[str, object]]
) -> dict[str, object]:
    """The summary of a file or stream, ready for JSON: rows, metrics, failures and versions."""
    installed = {name: version(name) for name in ("torch", "numpy")}
    versions = {"capscore": __version__, "python": platform.python_version(), **installed}
    return {"rows": n_rows, "metrics": metrics, "failures": failures, "versions": versions}
