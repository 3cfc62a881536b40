"""Scores the rows of a file in chunks and writes them with their scores; an interrupted result stays whole.

In: rows, the columns to read, scorers and a writer. Out: `Scores` of all rows per metric. If a metric
compares rows with each other, as CIDEr does, all rows are read before the first is written.
"""

from __future__ import annotations

import dataclasses
import math
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import InputError, LanguageWarning, TruncationWarning
from ..files.columns import Fields, ImageFolder, find_images, read_inputs, stores_images
from ..files.rows import Chunk, Rows, UsageError, Writer
from .backbone_scorer import BackboneScorer
from .options import own_options

if TYPE_CHECKING:
    from ..backbones.base import Backbone
    from ..embedding.embedder import Embedder
    from .base import PreparedRows, Scorer, Scores

ERROR_COLUMN = "capscore_error"
CHUNK_ROWS = 1024


def result_columns(
    metrics: Sequence[str], inputs: Sequence[str], *, on_error: str
) -> dict[str, tuple[str, str]]:
    """The new columns: name → (metric, component), with "" as the component for the score itself.

    A component whose name is taken gets its metric's name as a prefix. With on_error="skip" the last column
    is `capscore_error`, even if no row fails, so that the columns do not depend on the rows.

    Raises:
        UsageError: the input has a column of that name.

    >>> list(result_columns(["clip_score", "ref_clip_score"], ["caption"], on_error="raise"))
    ['clip_score', 'ref_clip_score', 'ref_clip_score_clip_score', 'text_score']
    """
    from . import scorer_class

    columns: dict[str, tuple[str, str]] = {}
    for metric in metrics:
        columns[metric] = (metric, "")
        for component in scorer_class(metric).component_names:
            taken = {*metrics, *inputs, *columns}
            columns[f"{metric}_{component}" if component in taken else component] = (metric, component)
    if on_error == "skip":
        columns[ERROR_COLUMN] = ("", "")
    twice = [name for name in columns if name in inputs]
    if twice:
        raise UsageError(
            f"the input has a column {twice[0]!r} already, which the result needs for its own; "
            "rename or drop it"
        )
    return columns


def load_scorers(
    metrics: Sequence[str],
    backbones: Sequence[str | None],
    make_embedder: Callable[[str], Embedder],
    options: Mapping[str, object],
) -> list[Scorer]:
    """One scorer per metric. Metrics with the same backbone share it and its embeddings.

    Args:
        metrics: Names of the metrics.
        backbones: One backbone per metric; None for a metric without one.
        make_embedder: Function that loads a backbone.
        options: Options of the scorers themselves; each scorer gets those that it takes.
    """
    from . import scorer_class

    kinds: dict[str, Callable[..., Scorer]] = {metric: scorer_class(metric) for metric in metrics}
    own = {metric: own_options(metric, options) for metric in metrics}
    # metrics without a backbone first, so that their errors come before any weights are loaded
    made = {
        metric: kinds[metric](**own[metric])
        for metric, backbone in zip(metrics, backbones, strict=True)
        if backbone is None
    }
    embedders = {name: make_embedder(name) for name in dict.fromkeys(backbones) if name is not None}
    for metric, backbone in zip(metrics, backbones, strict=True):
        if backbone is not None:
            made[metric] = kinds[metric](embedders[backbone], **own[metric])
    return [made[metric] for metric in metrics]


def check_images_exist(source: Rows, fields: Fields, folder: ImageFolder) -> None:
    """See that every named image exists, before hours of work. Stored images are not read here.

    Raises:
        InputError: an image does not exist; names the first such row.
    """
    if fields.image is None or stores_images(source, fields):
        return
    for chunk in source.chunks(CHUNK_ROWS):
        problems: dict[int, InputError] = {}
        find_images(chunk, fields.image, folder, problems)
        if problems:
            row = min(problems)
            raise _placed(problems[row], source, chunk, row)


class ScoringRun:
    """Scores the rows of a file.

    Args:
        source: Rows to score.
        fields: Columns to read.
        folder: Folder of the images.
        scorers: One scorer per metric.
        language: Language of all rows, or None.
        on_error: "raise" or "skip".
        say: Function that gets notes for the user, one line each.

    Attributes:
        rows_done: Number of rows that were scored, and written if there is a writer.
        waits: Whether a metric compares rows with each other, so that all are read before any is scored.
        failures: Row → its line in the file (or None), and what was wrong with it.
    """

    def __init__(
        self,
        source: Rows,
        fields: Fields,
        folder: ImageFolder,
        scorers: Sequence[Scorer],
        *,
        language: str | None = None,
        on_error: str = "raise",
        say: Callable[[str], None] = lambda message: None,
    ):
        self.source, self.fields, self.folder, self.scorers = source, fields, folder, scorers
        self.language, self.on_error, self.say = language, on_error, say
        self.rows_done = 0
        self.waits = any(scorer.waits for scorer in scorers)
        self.failures: dict[int, tuple[int | None, str]] = {}
        self._prepared: dict[str, list[PreparedRows]] = {scorer.metric: [] for scorer in scorers}
        self._scores: dict[str, Scores] | None = None
        self._told: set[tuple[str, str]] = set()

    def run(
        self,
        writer: Writer | None,
        columns: dict[str, tuple[str, str]],
        signals: Signals,
        advance: Callable[[int], None] = lambda count: None,
    ) -> None:
        """Score all rows; write them as they come, or all at the end if a metric waits.

        Raises:
            InputError: a row cannot be scored and on_error="raise"; names row and line.
            ResultWriteError: the result cannot be written.
            Interrupted: a signal came. The rows written before it are whole.
        """
        for chunk in self.source.chunks(CHUNK_ROWS):
            prepared = self._prepare(chunk)
            scores = {} if self.waits else self._finished(prepared)
            with signals.held():
                for metric, part in prepared.items():
                    self._prepared[metric].append(part)
                if not self.waits:
                    self._write(writer, columns, chunk, scores, 0)
            advance(len(chunk))
        if self.waits:
            scores = self.scores()
            for chunk in self.source.chunks(CHUNK_ROWS):
                with signals.held():
                    self._write(writer, columns, chunk, scores, chunk.start)

    def scores(self) -> dict[str, Scores]:
        """Scores of all rows of the file by metric, after `run`."""
        from .base import PreparedRows

        if self._scores is None:
            self._scores = self._finished(
                {metric: PreparedRows.concatenate(parts) for metric, parts in self._prepared.items()}
            )
        return self._scores

    def _finished(self, prepared: Mapping[str, PreparedRows]) -> dict[str, Scores]:
        return {scorer.metric: scorer.finish(prepared[scorer.metric]) for scorer in self.scorers}

    def _write(
        self,
        writer: Writer | None,
        columns: dict[str, tuple[str, str]],
        chunk: Chunk,
        scores: dict[str, Scores],
        first: int,
    ) -> None:
        """Note and write the rows of a chunk, which begin at row `first` of the scores."""
        errors = self._note_failures(chunk, scores, first)
        if writer is not None:
            writer.write(chunk, _column_values(columns, scores, errors, first))
        self.rows_done += len(chunk)

    def _prepare(self, chunk: Chunk) -> dict[str, PreparedRows]:
        inputs = read_inputs(chunk, self.source, self.fields, self.folder)
        found = {}
        for scorer in self.scorers:
            unread = {
                *(() if scorer.needs_references else ("references",)),
                *(() if scorer.needs_images else ("image",)),
            }
            problems = {row: error for row, error in inputs.problems.items() if error.field not in unread}
            if problems and self.on_error == "raise":
                raise _placed(problems[min(problems)], self.source, chunk, min(problems))
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
                raise _placed(error, self.source, chunk, error.row) from error
            told = {row: error.message_with_field() for row, error in problems.items()}
            found[scorer.metric] = dataclasses.replace(prepared, failures={**prepared.failures, **told})
            if isinstance(scorer, BackboneScorer):
                self._tell_about_languages(scorer.backbone, prepared.languages)
        return found

    def _tell_about_languages(self, backbone: Backbone, languages: list[str]) -> None:
        if backbone.languages is None:
            return
        strange = sorted(set(languages) - {""} - backbone.languages)
        new = [language for language in strange if (backbone.name, language) not in self._told]
        self._told.update((backbone.name, language) for language in new)
        if new:
            self.say(
                f"backbone {backbone.name} was not trained on {', '.join(new)} (it knows "
                f"{', '.join(sorted(backbone.languages))}): scores in these languages mean little"
            )

    def tell_about_truncation(self, found: dict[str, Scores]) -> None:
        """Say for each metric how many rows have a text that was cut."""
        for scorer in self.scorers:
            scores = found[scorer.metric]
            if scores.n_truncated and isinstance(scorer, BackboneScorer):
                first = int(scores.truncated.argmax())
                backbone = scorer.backbone
                self.say(
                    f"{scorer.metric}: {scores.n_truncated:,} of {len(scores):,} rows have a text longer "
                    f"than the {backbone.max_tokens} tokens of {backbone.name}; the rest of it was not seen "
                    f"(first such row: {first}, counted from 0)"
                )

    def _note_failures(self, chunk: Chunk, scores: dict[str, Scores], first: int) -> list[str | None]:
        """What was wrong with each row of a chunk; names the metrics if they do not all say the same."""
        errors: list[str | None] = [None] * len(chunk)
        for row in range(len(chunk)):
            messages = {metric: part.failures.get(first + row, "") for metric, part in scores.items()}
            if not any(messages.values()):
                continue
            if len(set(messages.values())) == 1:
                text = next(iter(messages.values()))
            else:
                text = "; ".join(f"{metric}: {message}" for metric, message in messages.items() if message)
            errors[row] = text
            line = None if chunk.lines is None else chunk.lines[row]
            self.failures[chunk.start + row] = (line, text)
        return errors


def _column_values(
    columns: dict[str, tuple[str, str]], scores: dict[str, Scores], errors: list[str | None], first: int
) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {}
    for name, (metric, component) in columns.items():
        if not metric:
            values[name] = errors
            continue
        part = scores[metric]
        numbers = part.components[component] if component else part.scores
        here = numbers[first : first + len(errors)].tolist()
        values[name] = [None if math.isnan(number) else number for number in here]
    return values


def _placed(error: InputError, source: Rows, chunk: Chunk, row: int) -> InputError:
    return type(error)(f"{source.place(chunk, row)}: {error.message_with_field()}")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or a request to end; `number` is the number of the signal."""

    def __init__(self, number: int):
        self.number = number
        super().__init__(signal.Signals(number).name)


class Signals:
    """Makes SIGINT and SIGTERM raise `Interrupted`, but never inside a block that is `held`."""

    def __init__(self) -> None:
        self._holding = 0
        self._waiting: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):  # nohup and the like stay in effect
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def _receive(self, number: int, frame: object) -> None:
        if self._holding:
            self._waiting = number
        else:
            raise Interrupted(number)

    @contextmanager
    def held(self, *, drop: bool = False) -> Iterator[None]:
        """A signal that comes in this block waits until its end; with `drop`, it is then forgotten."""
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1
        if self._waiting is not None and not self._holding:
            number, self._waiting = self._waiting, None
            if not drop:
                raise Interrupted(number)
