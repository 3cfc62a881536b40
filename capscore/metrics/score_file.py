"""Scores the rows of a file chunk by chunk, and writes them with their scores.

Where a metric compares rows with each other, as CIDEr does, all rows are read before the first is written.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InputError, LanguageWarning, Setting, TruncationWarning
from ..files.columns import ColumnNames, known_problems, read_inputs
from ..files.image_folder import ImageFolder, find_images, stores_images
from ..files.row_source import CHUNK_ROWS, ERROR_COLUMN, ArrowSource, Chunk, RowSource
from ..files.write import Writer
from .backbone_scorer import BackboneScorer
from .input_rows import empty_caption, is_empty
from .loading import own_options

if TYPE_CHECKING:
    from ..embedding.embedder import Embedder
    from .base import PreparedRows, Scorer, Scores


def result_columns(
    metrics: Sequence[str], inputs: Sequence[str], *, on_error: str
) -> dict[str, tuple[str, str]]:
    """The new columns: name → (metric, component), with "" as the component for the score itself.

    Details that are numbers or words (`Scorer.detail_columns`) are components here. A component whose name
    is taken gets its metric's name before it. With on_error="skip" the last column is
    `capscore_error`, whether or not a row fails: the columns of a result are known beforehand.

    >>> list(result_columns(["clip_score", "ref_clip_score"], ["caption"], on_error="raise"))
    ['clip_score', 'ref_clip_score', 'ref_clip_score_clip_score', 'text_score']
    """
    from ..registry import METRICS

    columns: dict[str, tuple[str, str]] = {}
    for metric in metrics:
        columns[metric] = (metric, "")
        kind = METRICS.get(metric)
        for component in (*kind.component_names, *kind.detail_columns):
            taken = {*metrics, *inputs, *columns}
            columns[f"{metric}_{component}" if component in taken else component] = (metric, component)
    if on_error == "skip":
        columns[ERROR_COLUMN] = ("", "")
    return columns


def column_types(columns: Mapping[str, tuple[str, str]]) -> dict[str, type]:
    """New columns, as `result_columns` gave them → what their cells are: float or str.

    >>> column_types({"mcs": ("mcs", ""), "kind": ("pr_mcs", "kind"), "capscore_error": ("", "")})
    {'mcs': <class 'float'>, 'kind': <class 'str'>, 'capscore_error': <class 'str'>}
    """
    from ..registry import METRICS

    return {
        name: METRICS.get(metric).detail_columns.get(component, float) if metric else str
        for name, (metric, component) in columns.items()
    }


def load_scorers(
    metrics: Sequence[str],
    backbones: Sequence[str | None],
    make_embedder: Callable[[str], Embedder],
    options: Mapping[str, object],
) -> list[Scorer]:
    """One scorer per metric; metrics with the same backbone share it and its embeddings.

    Args:
        metrics: Names of the metrics.
        backbones: Backbone of each metric; None for a metric without.
        make_embedder: Function that loads a backbone.
        options: Options of `capscore.load`; each scorer takes those that it has.
    """
    from ..registry import METRICS

    made: dict[str, Scorer] = {}
    embedders: dict[str, Embedder] = {}
    # those without a backbone first: what they lack is known before any weights are loaded
    for metric, backbone in sorted(
        zip(metrics, backbones, strict=True), key=lambda pair: pair[1] is not None
    ):
        if backbone is not None and backbone not in embedders:
            embedders[backbone] = make_embedder(backbone)
        inputs = () if backbone is None else (embedders[backbone],)
        make: Callable[..., Scorer] = METRICS.get(metric)
        made[metric] = make(*inputs, **own_options(metric, options))
    return [made[metric] for metric in metrics]


def check_rows_first(
    source: RowSource,
    names: ColumnNames,
    folder: ImageFolder,
) -> None:
    """Check before hours of work that rows have what is needed, and that images with a name exist.

    Images that are stored in the file are not read here.

    Args:
        source: The rows.
        names: Names of the columns to read.
        folder: Folder of the images.

    Raises:
        InputError: The first row with a fault; names it.
    """
    column = names.image
    if column is not None and stores_images(source, column):
        column = None
    if column is None and isinstance(source, ArrowSource):
        return
    for chunk in source.chunks(CHUNK_ROWS, None if column is None else [column]):
        problems = known_problems(chunk, source, names)
        if column is not None:
            find_images(chunk, column, folder, problems)
        if problems:
            row = min(problems)
            raise source.at(problems[row], chunk, row)


def check_no_caption_is_empty(source: RowSource, column: str) -> None:
    """Check that every caption has a visible character, before hours of work.

    Raises:
        InputError: The first empty caption; names its row.
    """
    for chunk in source.chunks(CHUNK_ROWS, [column]):
        for row, caption in enumerate(chunk.values(column)):
            if is_empty(caption):
                raise source.at(empty_caption(caption), chunk, row)


class ScoringRun:
    """Scores the rows of a file.

    Args:
        source: Rows to score.
        names: Names of the columns to read.
        folder: Folder of the images.
        scorers: One scorer per metric.
        language: Language of all rows, or None.
        on_error: "raise" or "skip".
        say: Function that gets a line wherever the person who waits should know something.
        spell: Function that spells the options that errors of rows mention.

    Attributes:
        rows_done: Number of rows that were scored, and written if there is a writer.
        waits: Whether a metric compares rows with each other, so that no row is scored before all are read.
        n_left_out: Number of rows that were left out because their caption is empty.
        failures: For each failed row, its line in the file (or None) and what was wrong with it.
    """

    def __init__(
        self,
        source: RowSource,
        names: ColumnNames,
        folder: ImageFolder,
        scorers: Sequence[Scorer],
        *,
        language: str | None = None,
        on_error: str = "raise",
        say: Callable[[str], None] = lambda message: None,
        spell: Callable[[Setting], str] = str,
    ):
        self.source, self.names, self.folder, self.scorers = source, names, folder, scorers
        self.language, self.on_error, self.say, self.spell = language, on_error, say, spell
        self.rows_done = 0
        self.waits = any(scorer.waits for scorer in scorers)
        self.n_left_out = 0
        self.failures: dict[int, tuple[int | None, str]] = {}
        self._prepared: dict[str, list[PreparedRows]] = {scorer.metric: [] for scorer in scorers}
        self._scores: dict[str, Scores] | None = None
        self._told: set[tuple[str, str]] = set()

    def run(
        self,
        writer: Writer | None,
        columns: dict[str, tuple[str, str]],
        advance: Callable[[int], None] = lambda count: None,
    ) -> None:
        """Score all rows, and write them as they come, or, where a metric waits, after the last was read.

        Args:
            writer: Writer of the result, or None.
            columns: New columns, as `result_columns` gave them.
            advance: Function that is told the number of rows that were done.

        Raises:
            InputError: A row cannot be scored and on_error="raise"; names row and line.
            ResultWriteError: The result cannot be written.
        """
        if self.source.n_rows > CHUNK_ROWS and self._refuses_empty():
            check_no_caption_is_empty(self.source, self.names.candidate)
        for chunk in self.source.chunks(CHUNK_ROWS):
            prepared = self.prepare(chunk)
            self.tell_about_languages(prepared)
            scores = {} if self.waits else self.finish(prepared)
            for metric, part in prepared.items():
                self._prepared[metric].append(part)
            if not self.waits:
                self._write(writer, columns, chunk, scores, 0)
            advance(len(chunk))
        if self.waits:
            scores = self.scores()
            for chunk in self.source.chunks(CHUNK_ROWS):
                self._write(writer, columns, chunk, scores, chunk.start)

    def _refuses_empty(self) -> bool:
        return any(scorer.empty == "raise" for scorer in self.scorers)

    def scores(self) -> dict[str, Scores]:
        """Scores of all rows per metric; after `run`."""
        from .base import PreparedRows

        if self._scores is None:
            self._scores = self.finish(
                {metric: PreparedRows.concatenate(parts) for metric, parts in self._prepared.items()}
            )
        return self._scores

    def finish(self, prepared: Mapping[str, PreparedRows]) -> dict[str, Scores]:
        """Prepared rows of each metric → their scores."""
        return {scorer.metric: scorer.finish(prepared[scorer.metric]) for scorer in self.scorers}

    def _write(
        self,
        writer: Writer | None,
        columns: dict[str, tuple[str, str]],
        chunk: Chunk,
        scores: dict[str, Scores],
        first: int,
    ) -> None:
        """Write the rows of a chunk, whose scores begin at row `first`, and note its failures."""
        errors = self.note_failures(chunk, scores, first)
        if writer is not None:
            writer.write(chunk, column_values(columns, scores, errors, first))
        self.rows_done += len(chunk)

    def prepare(self, chunk: Chunk) -> dict[str, PreparedRows]:
        """Measure the rows of a chunk for each metric.

        Raises:
            InputError: A row cannot be scored and on_error="raise"; names row and line.
        """
        inputs = read_inputs(chunk, self.source, self.names, self.folder)
        found = {}
        for scorer in self.scorers:
            unread = {
                *(() if scorer.needs_references else ("references",)),
                *(() if scorer.needs_images else ("image",)),
            }
            problems = {row: error for row, error in inputs.problems.items() if error.field not in unread}
            if problems and self.on_error == "raise":
                raise self.source.at(problems[min(problems)], chunk, min(problems))
            try:
                with warnings.catch_warnings():
                    # both are reported once for the whole file, not once per chunk
                    warnings.simplefilter("ignore", LanguageWarning)
                    warnings.simplefilter("ignore", TruncationWarning)
                    prepared = scorer.prepare(
                        inputs.candidates,
                        inputs.images if scorer.needs_images else None,
                        inputs.references if scorer.needs_references else None,
                        self.language or inputs.languages,
                        on_error=self.on_error,
                    )
            except InputError as error:
                if error.row is None:
                    raise
                raise self.source.at(error, chunk, error.row) from error
            if not scorer.detail_columns:  # nothing of the details is written, and they are large
                prepared = dataclasses.replace(prepared, details=None)
            told = {row: error.message_with_field(self.spell) for row, error in problems.items()}
            empty = prepared.empty.copy()
            empty[list(told)] = False  # each row is counted once
            failures = {**prepared.failures, **told}
            found[scorer.metric] = dataclasses.replace(prepared, failures=failures, empty=empty)
        return found

    def tell_about_languages(self, prepared: Mapping[str, PreparedRows]) -> None:
        """Say once for each language that a backbone was not trained on it."""
        for scorer in self.scorers:
            if not isinstance(scorer, BackboneScorer) or scorer.backbone.languages is None:
                continue
            backbone, known = scorer.backbone, scorer.backbone.languages
            strange = sorted(set(prepared[scorer.metric].languages) - {""} - known)
            new = [language for language in strange if (backbone.name, language) not in self._told]
            self._told.update((backbone.name, language) for language in new)
            if new:
                self.say(
                    f"backbone {backbone.name} was not trained on {', '.join(new)} (it knows "
                    f"{', '.join(sorted(known))}): scores in these languages mean little"
                )

    def tell_about_truncation(self, found: Mapping[str, Scores]) -> None:
        """Say for each metric how many rows have a text that was cut."""
        for scorer in self.scorers:
            scores = found[scorer.metric]
            if scores.n_truncated and isinstance(scorer, BackboneScorer):
                first, backbone = scores.first_truncated, scorer.backbone
                self.say(
                    f"{scorer.metric}: {scores.n_truncated:,} of {len(scores):,} rows have a text longer "
                    f"than the {backbone.max_tokens} tokens of {backbone.name}; the rest of it was not seen "
                    f"(first such row: {first}, counted from 0)"
                )

    def note_failures(self, chunk: Chunk, scores: dict[str, Scores], first: int) -> list[str | None]:
        """What was wrong with each row of a chunk; names the metric where metrics failed differently."""
        errors: list[str | None] = [None] * len(chunk)
        for row in range(len(chunk)):
            messages = {metric: part.failures.get(first + row, "") for metric, part in scores.items()}
            if not any(messages.values()):
                if any(part.is_left_out(first + row) for part in scores.values()):
                    errors[row] = "candidate: an empty caption, left out as asked"
                    self.n_left_out += 1
                continue
            if len(set(messages.values())) == 1:
                text = next(iter(messages.values()))
            else:
                text = "; ".join(f"{metric}: {message}" for metric, message in messages.items() if message)
            errors[row] = text
            line = None if chunk.lines is None else chunk.lines[row]
            self.failures[chunk.start + row] = (line, text)
        return errors


def column_values(
    columns: dict[str, tuple[str, str]], scores: dict[str, Scores], errors: list[str | None], first: int
) -> dict[str, list[Any]]:
    """The cells of the new columns, for as many rows as there are errors; None for a number that is missing.

    Args:
        columns: New columns, as `result_columns` gave them.
        scores: Scores per metric.
        errors: What was wrong with each row, or None.
        first: Place of the first row in the scores.
    """
    values: dict[str, list[Any]] = {}
    for name, (metric, component) in columns.items():
        if not metric:
            values[name] = errors
            continue
        part = scores[metric]
        if component and component not in part.components:
            details = (part.details or [None] * len(part))[first : first + len(errors)]
            values[name] = [None if detail is None else detail[component] for detail in details]
            continue
        numbers = part.components[component] if component else part.scores
        here = numbers[first : first + len(errors)].tolist()
        values[name] = [None if math.isnan(number) else number for number in here]
    return values
