"""Scores the rows of a file chunk by chunk; where a metric waits for all rows, all are written at the end."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import warnings
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from ..errors import InputError, LanguageWarning, OptionError, RowWarning, Setting, TruncationWarning
from ..files.columns import FAMILIAR, ColumnNames, read_inputs
from ..files.image_folder import ImageFolder
from ..files.row_source import CHUNK_ROWS, ERROR_COLUMN, Chunk, RowSource
from ..files.write import Writer
from ..registry import METRICS
from ..text.suspicious import OddRows
from .base import Scorer
from .calibration import RANKS, ranks
from .rows import PreparedRows
from .scores import Scores
from .with_backbone import BackboneScorer


def result_columns(
    metrics: Sequence[str | Scorer], inputs: Sequence[str], *, on_error: str, ranked: Collection[str] = ()
) -> dict[str, tuple[str, str]]:
    """The new columns: name → (metric, component), with "" as the component for the score itself.

    Details that are numbers or words (`Scorer.detail_columns`) are components here; of a metric that is given
    by its name, those that it may have. A component whose name
    is taken gets its metric's name before it; so do `RANKS`, which the metrics `ranked` have. With
    on_error="skip" the last column is `capscore_error`, whether or not a row fails: the columns of a result
    are known beforehand.

    >>> list(result_columns(["clip_score", "ref_clip_score"], ["caption"], on_error="raise"))
    ['clip_score', 'ref_clip_score', 'ref_clip_score_clip_score', 'text_score']
    """
    columns: dict[str, tuple[str, str]] = {}
    kinds = {item if isinstance(item, str) else item.metric: item for item in metrics}
    for metric, item in kinds.items():
        columns[metric] = (metric, "")
        kind = METRICS.get(item) if isinstance(item, str) else item
        for component in (*kind.component_names, *kind.detail_columns, *(RANKS if metric in ranked else ())):
            taken = {*kinds, *inputs, *columns}
            columns[f"{metric}_{component}" if component in taken else component] = (metric, component)
    if on_error == "skip":
        columns[ERROR_COLUMN] = ("", "")
    return columns


def column_types(columns: Mapping[str, tuple[str, str]]) -> dict[str, type]:
    """New columns, as `result_columns` gave them → what their cells are: float or str.

    >>> column_types({"mcs": ("mcs", ""), "kind": ("pr_mcs", "kind"), "capscore_error": ("", "")})
    {'mcs': <class 'float'>, 'kind': <class 'str'>, 'capscore_error': <class 'str'>}
    """
    return {
        name: METRICS.get(metric).detail_columns.get(component, float) if metric else str
        for name, (metric, component) in columns.items()
    }


class RowFilter:
    """Chooses the rows that stay by the score of a metric. A row that a metric could not score never stays.

    Args:
        metric: Metric that decides.
        min_score: Worst score, unrounded, of a row that stays: the lowest, or the highest if less is better.
        top: Instead, the rows with the best scores: their number, such as "1000", or their share of the
            rows with a score, such as "30%", rounded up. Of rows with the same score, the first stay.

    Attributes:
        rises: Whether a higher score is better.
        n_kept, n_scored: Number of rows that stay, and of those that every metric scored, so far.

    Raises:
        OptionError: Both or neither of them is given, or a value is not one of those.
    """

    def __init__(self, metric: str, min_score: float | None = None, top: str | None = None):
        if (min_score is None) == (top is None):
            either = (Setting("min_score"), " and ", Setting("top"))
            raise OptionError("expected one of ", *either, " to say which rows stay")
        if min_score is not None and not math.isfinite(min_score):
            raise OptionError(Setting("min_score", min_score), ": expected a number")
        match = re.fullmatch(r"(?a:(\d{1,15})|(\d{1,15}(?:\.\d{1,15})?)%)", top or "1")
        self._count = None if match is None or match[1] is None else int(match[1])
        self._share = Fraction(match[2] or 0) / 100 if match else Fraction(0)
        if self._count == 0 or (self._count is None and not 0 < self._share <= 1):
            expected = "expected a number of rows, or a percentage up to 100, such as 1000 or 30%"
            raise OptionError(Setting("top", top), f": {expected}")
        self.metric, self.min_score, self.top = metric, min_score, top
        self.rises = METRICS.get(metric).higher_is_better
        self.n_kept, self.n_scored, self._worst = 0, 0, math.inf

    @property
    def lowest(self) -> float:
        """Worst score among the rows that stay; infinite if there is none."""
        return self._turned(self._worst) + 0.0

    def _turned(self, numbers: Any) -> Any:
        """Numbers with the sign changed if less is better."""
        return numbers if self.rises else -numbers

    def choose(self, scores: Mapping[str, Scores]) -> np.ndarray:
        """bool (n,), True where a row stays; with `top`, `scores` are those of all rows."""
        unscored = np.any([np.isnan(part.scores) for part in scores.values()], axis=0)
        rising = np.where(unscored, np.nan, scores[self.metric].rising())
        n_scored = int((~unscored).sum())
        if self.min_score is not None:
            stays = rising >= self._turned(self.min_score)
        else:
            count = math.ceil(self._share * n_scored) if self._count is None else self._count
            stays = np.zeros(len(rising), dtype=bool)
            ranking = np.where(unscored, np.nan, scores[self.metric].ranking)
            stays[np.argsort(-ranking, kind="stable")[: min(count, n_scored)]] = True
        self.n_kept += int(stays.sum())
        self.n_scored += n_scored
        self._worst = float(np.min(rising[stays], initial=self._worst))
        return stays

    def to_dict(self) -> dict[str, Any]:
        """The choice, the counts, and the lowest score that stays (None without rows), ready for JSON."""
        lowest = self.lowest if self.n_kept else None
        counts = {"n_kept": self.n_kept, "n_scored": self.n_scored, "lowest": lowest}
        return {"metric": self.metric, "min_score": self.min_score, "top": self.top, **counts}

    def sentence(self) -> str:
        """The same for people."""
        least, best, worst = ("least", "highest", "lowest") if self.rises else ("most", "lowest", "highest")
        choice = f"of at {least} {self.min_score:g}" if self.top is None else f"among the {best} {self.top}"
        lowest = f"; the {worst} has {self.lowest:.4f}" if self.n_kept else ""
        return f"Kept {self.n_kept:,} of {self.n_scored:,} scored rows, with {self.metric} {choice}{lowest}."


class ScoringRun:
    """Scores the rows of a file.

    Args:
        source, names, folder: Rows to score, names of the columns to read, and folder of the images.
        scorers: One scorer per metric.
        language: Language of all rows, or None.
        on_error: "raise" or "skip".
        spell: Function that spells the options that errors of rows mention.

    Attributes:
        n_left_out: Number of rows that were left out because their caption is empty.
        ranks: Metric → its `RANKS`, if requested; after `run`.
        failures: For each failed row, its line in the file (or None) and what was wrong with it.
        languages: Languages of the rows so far; each is warned about once.
        odd: Rows so far that look wrong.
        start: Number of the first row, for `odd`.
        photos: Hashes of the names of the rows' photos so far; none if nothing names them.
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
        spell: Callable[[Setting], str] = str,
    ):
        self.source, self.names, self.folder, self.scorers = source, names, folder, scorers
        self.language, self.on_error, self.spell = language, on_error, spell
        self.n_left_out = 0
        self.ranks: dict[str, dict[str, np.ndarray]] = {}
        self.failures: dict[int, tuple[int | None, str]] = {}
        self.languages: set[str] = set()
        self.odd, self.start = OddRows(), 0
        self.photos = array("Q")
        self._prepared: dict[str, list[PreparedRows]] = {scorer.metric: [] for scorer in scorers}
        self._scores: dict[str, Scores] | None = None

    def run(
        self,
        writer: Writer | None,
        columns: dict[str, tuple[str, str]],
        advance: Callable[[int], None] = lambda count: None,
        calibration: Path | None = None,
        row_filter: RowFilter | None = None,
        kept: Writer | None = None,
    ) -> None:
        """Score all rows, and write them as they come, or, where a column or filter waits, after the last was
        read.

        Args:
            writer: Writer of the result, or None.
            columns: New columns, as `result_columns` gave them.
            advance: Function that receives the number of finished rows.
            calibration: File of the calibrations that give ranks; None for those of the library.
            row_filter, kept: Choice of the rows that stay, and the writer of their file, or None.

        Raises:
            InputError: A row cannot be scored and on_error="raise"; names row and line.
            ResultWriteError: The result cannot be written.
        """

        def write(chunk: Chunk, scores: dict[str, Scores], first: int, stays: np.ndarray | None) -> None:
            errors = self.note_failures(chunk, scores, first)
            if writer is None and kept is None:
                return
            cells = column_values(columns, scores, errors, first, self.ranks)
            if writer is not None:
                writer.write(chunk, cells)
            here = [] if stays is None else stays[first : first + len(chunk)].tolist()
            if kept is not None and any(here):
                new = {name: [*itertools.compress(values, here)] for name, values in cells.items()}
                kept.write(chunk.filter(here), new)

        def choose(scores: dict[str, Scores]) -> np.ndarray | None:
            return None if row_filter is None else row_filter.choose(scores)

        # a rank needs the signature of all rows
        ranked = {metric for metric, component in columns.values() if component in RANKS}
        waits = bool(ranked) or any(scorer.waits for scorer in self.scorers)
        waits = waits or (row_filter is not None and row_filter.top is not None)
        naming = self._photo_column()
        for chunk in self.source.chunks(CHUNK_ROWS):
            names = () if naming is None else map(str, chunk.values(naming))
            self.photos.extend(xxh3_64_intdigest(name.encode(errors="backslashreplace")) for name in names)
            prepared = self.prepare(chunk)
            for metric, part in prepared.items():
                self._prepared[metric].append(part)
            if not waits:
                scores = self.finish(prepared)
                write(chunk, scores, 0, choose(scores))
            advance(len(chunk))
        self.ranks = {metric: ranks(self.scores()[metric], calibration) for metric in ranked}
        stays = choose(self.scores()) if waits else None
        for chunk in self.source.chunks(CHUNK_ROWS) if waits else ():
            write(chunk, self.scores(), chunk.start, stays)
        for scorer in self.scorers:
            if isinstance(scorer, BackboneScorer):
                scorer.warn_about_truncation(self.scores()[scorer.metric].truncated)
        self.odd.warn()

    def scores(self) -> dict[str, Scores]:
        """Scores of all rows per metric; after `run`."""
        if self._scores is None:
            parts = self._prepared.items()
            self._scores = self.finish({metric: PreparedRows.concatenate(rows) for metric, rows in parts})
        return self._scores

    def numbers(self, metric: str) -> dict[str, np.ndarray]:
        """Numbers of all rows, by the component of their column; "" is the score."""
        scores = self.scores()[metric]
        return {"": scores.scores, **scores.components, **self.ranks.get(metric, {})}

    def rising(self, keys: Sequence[tuple[str, str]]) -> list[int]:
        """Rows with a score, the worst first, by (metric, component); the next key decides ties."""
        columns = []
        for metric, component in keys:
            numbers = self.numbers(metric)[component]
            falls = component in self.scores()[metric].lower_is_better
            columns.append(-numbers if falls else numbers)
        scored = np.isfinite(self.numbers(keys[0][0])[""])
        return [row for row in np.lexsort(columns[::-1]).tolist() if scored[row]]

    @cached_property
    def photo_means(self) -> tuple[int, dict[str, float]]:
        """The number of photos, and metric → mean over photos of the mean score of a photo's captions; after
        `run`.

        (0, {}) unless rows name photos, two of them or more, and several rows name the same one.
        """
        found, index = np.unique(self.photos, return_inverse=True)
        n_photos, means = len(found), {}
        if not 1 < n_photos < len(self.photos):
            return 0, {}
        for metric, part in self.scores().items():
            scored = ~np.isnan(part.scores)
            counts = np.bincount(index[scored])
            sums = np.bincount(index[scored], part.scores[scored])
            some = counts > 0
            means[metric] = float(np.mean(sums[some] / counts[some])) if scored.any() else math.nan
        return n_photos, means

    def _photo_column(self) -> str | None:
        """The column that names photos, unless it holds their bytes."""
        schema, names = self.source.arrow_schema, ("image_id", self.names.image, *FAMILIAR["image"])
        column = next((name for name in names if name in self.source.columns), None)
        if column is None or schema is None or "binary" not in str(schema.field(column).type):
            return column
        return None

    def finish(self, prepared: Mapping[str, PreparedRows]) -> dict[str, Scores]:
        """Prepared rows of each metric → their scores."""
        return {scorer.metric: scorer.finish(prepared[scorer.metric]) for scorer in self.scorers}

    def prepare(self, chunk: Chunk) -> dict[str, PreparedRows]:
        """Measure the rows of a chunk for each metric.

        Raises:
            InputError: A row cannot be scored and on_error="raise"; names row and line.
        """
        photos = any(scorer.compares_photos for scorer in self.scorers)
        inputs = read_inputs(chunk, self.source, self.names, self.folder, candidates_are_photos=photos)
        found = {}
        for scorer in self.scorers:
            read = {"references": scorer.needs_references, "image": scorer.needs_images}
            problems = {
                row: error for row, error in inputs.problems.items() if read.get(error.field or "", True)
            }
            if problems and self.on_error == "raise":
                error = self.source.at(problems[min(problems)], chunk, min(problems))
                if more := len(problems) - 1:
                    count = f"; {more:,} more of rows {chunk.start:,} to {chunk.start + len(chunk) - 1:,} "
                    skip = ("cannot be read; ", Setting("on_error", "skip"), " lists them")
                    error = InputError(*error.parts, count, *skip)
                raise error
            try:
                with warnings.catch_warnings():  # not once per chunk
                    warnings.simplefilter("ignore", LanguageWarning)
                    warnings.simplefilter("ignore", TruncationWarning)
                    warnings.simplefilter("ignore", RowWarning)
                    prepared = scorer.prepare(
                        inputs.candidates,
                        inputs.images if scorer.needs_images else None,
                        inputs.references if scorer.needs_references else None,
                        self.language or inputs.languages,
                        on_error=self.on_error,
                        **{
                            column.name: chunk.values(column.name)
                            for column in scorer.extra_columns
                            if column.from_files and column.name in self.source.columns
                        },
                    )
            except InputError as error:
                if error.row is None:
                    raise
                raise self.source.at(error, chunk, error.row) from error
            errors, empty = [*prepared.errors], prepared.empty.copy()
            for row, problem in problems.items():
                errors[row], empty[row] = problem.message_with_field(self.spell), False
            # where nothing of the details is written, they are not kept: they are large
            details = prepared.details if scorer.detail_columns else None
            found[scorer.metric] = dataclasses.replace(prepared, errors=errors, empty=empty, details=details)
        new = {code for part in found.values() for code in part.languages} - self.languages
        for scorer in self.scorers:
            if isinstance(scorer, BackboneScorer):
                scorer.warn_about_languages(new)
        self.languages |= new
        start = self.start + chunk.start
        if not photos:
            self.odd.add(inputs.candidates, inputs.images, inputs.references, start)
        for scorer in self.scorers:
            scorer.count_odd(found[scorer.metric], self.odd, start)
        return found

    def note_failures(self, chunk: Chunk, scores: dict[str, Scores], first: int) -> list[str | None]:
        """What was wrong with each row of a chunk, whose scores begin at row `first`."""
        errors: list[str | None] = [None] * len(chunk)
        for row in range(len(chunk)):
            messages = {metric: part.failures.get(first + row, "") for metric, part in scores.items()}
            failed = [f"{metric}: {message}" for metric, message in messages.items() if message]
            if failed:
                same = len(set(messages.values())) == 1
                errors[row] = text = next(iter(messages.values())) if same else "; ".join(failed)
                self.failures[chunk.start + row] = (chunk.lines[row] if chunk.lines else None, text)
            elif any(
                part.empty[first + row] and math.isnan(part.scores[first + row]) for part in scores.values()
            ):
                errors[row] = "candidate: an empty caption, left out as asked"
                self.n_left_out += 1
        return errors


def column_values(
    columns: dict[str, tuple[str, str]],
    scores: dict[str, Scores],
    errors: list[str | None],
    first: int,
    ranks: Mapping[str, Mapping[str, np.ndarray]] = {},
) -> dict[str, list[Any]]:
    """The cells of the new columns, from row `first` of the scores on, one for each of `errors`; None for a
    number that is missing."""
    here = slice(first, first + len(errors))
    values: dict[str, list[Any]] = {}
    for name, (metric, component) in columns.items():
        part = scores.get(metric)
        if part is None:
            values[name] = errors
            continue
        parts = {"": part.scores, **part.components, **ranks.get(metric, {})}
        if component not in parts:
            details = (part.details or [None] * len(part))[here]
            values[name] = [detail and detail[component] for detail in details]
        else:
            numbers = parts[component][here].tolist()
            values[name] = [None if math.isnan(number) else number for number in numbers]
    return values
