"""Perturbs the captions of a file: a row for each caption and kind, or a column for each kind, and counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import InputError, Setting
from ..files.columns import ColumnNames, is_missing
from ..files.row_source import (
    CHUNK_ROWS,
    ERROR_COLUMN,
    Chunk,
    RowSource,
    check_names_are_free,
    extended_schema,
)
from ..text.languages import language_code
from ..text.segmentation import not_split_by_blanks
from .kinds import KINDS, Perturbed, check_captions, perturb, word_finder
from .objects import find_objects, noun_finder

if TYPE_CHECKING:
    import pyarrow as pa

NEW_COLUMNS = ("original", "perturbation", "unchanged")


@dataclass(frozen=True)
class PerturbationOptions:
    """How the captions of a file are perturbed.

    Attributes:
        p, seed, shared_draws, removal, order: As in `perturbations.perturb`.
        wide: Whether each kind becomes a column, rather than a row for each caption.
        on_error: "raise" or "skip".
    """

    p: float
    seed: int
    shared_draws: bool
    removal: str
    order: str
    wide: bool
    on_error: str

    def check(self, kinds: Sequence[str]) -> None:
        """Check these options for each of the kinds."""
        for kind in kinds:
            self.perturb([], kind, None, [] if kind == "substitution" else None)

    def perturb(self, captions: list[str], kind: str, language: str | None, objects: Any) -> Perturbed:
        """`perturbations.perturb` with these options."""
        return perturb(
            captions,
            kind,
            language,
            p=self.p,
            seed=self.seed,
            objects=objects,
            shared_draws=self.shared_draws,
            removal=self.removal,
            order=self.order,
        )


@dataclass
class KindCounts:
    """Counts of one kind of perturbation.

    Attributes:
        rows: Number of rows.
        unchanged: Number of rows that stayed as they were, failed ones included.
        failed: Number of rows that could not be perturbed.
        not_found: Number of given objects that are not in their captions.
        settings: Settings of the perturbation.
    """

    rows: int = 0
    unchanged: int = 0
    failed: int = 0
    not_found: int = 0
    settings: dict[str, object] = field(default_factory=dict)


@dataclass
class _Read:
    """The captions of a chunk, with the problems of each row: under "" for all kinds, else under the kind."""

    captions: list[Any]
    languages: list[str | None]
    objects: list[list[Any] | None]
    problems: dict[tuple[int, str], InputError]

    def problem(self, row: int, kind: str) -> InputError | None:
        return self.problems.get((row, "")) or self.problems.get((row, kind))


class PerturbedSource(RowSource):
    """The rows of a file with their captions perturbed.

    Args:
        source: Rows to perturb.
        names: Columns of the captions and their languages.
        objects: Column of the critical objects, or None.
        kinds: Perturbations.
        options: Options of the perturbations.
        language: Language code of all captions, or None.

    Attributes:
        counts: Counts of each kind, for the rows that were read so far.
        languages: Number of captions in each language, None where none is stated; after `check`.
        failures: For each failed row of the file, its line (or None) and what was wrong; with
            `on_error="skip"`.
        finders: What finds the words ("") or nouns ("substitution") of a language, or why nothing does.
        n_unsplit: Number of captions written without spaces whose language is split at spaces.
        unsplit: The first such caption.

    Raises:
        InputError: The file already has a column with the name of a new one.
    """

    def __init__(
        self,
        source: RowSource,
        names: ColumnNames,
        objects: str | None,
        kinds: Sequence[str],
        options: PerturbationOptions,
        language: str | None,
    ):
        self.source, self.path = source, source.path
        self.column, self.language_column, self.objects_column = names.candidate, names.language, objects
        self.kinds, self.options, self.language = tuple(kinds), options, language
        self.new = [
            *(kinds if options.wide else NEW_COLUMNS),
            *([ERROR_COLUMN] if options.on_error == "skip" else []),
        ]
        check_names_are_free(source, self.new)
        self.columns = [*source.columns, *self.new]
        self.n_rows = source.n_rows * (1 if options.wide else len(kinds))
        self.counts = {kind: KindCounts() for kind in kinds}
        self.languages: dict[str | None, int] = {}
        self.failures: dict[int, tuple[int | None, str]] = {}
        self.n_unsplit, self.unsplit = 0, ""
        self.finders: dict[tuple[str, str | None], str | InputError] = {}

    # ---- reading ----

    def check(self) -> None:
        """Read all rows before anything is written, and choose what finds words and nouns in their languages.

        Raises:
            InputError: A row cannot be perturbed, with `on_error="raise"`; names row and line. Or nothing
                finds words or nouns in the one language of all captions.
            MissingExtraError: The package that finds the words or nouns of a language is not installed.
        """
        for chunk in self.source.chunks(CHUNK_ROWS):
            read = self._read(chunk)
            if read.problems and self.options.on_error == "raise":
                row, _ = key = min(read.problems)
                raise self.source.at(read.problems[key], chunk, row)
            for code in dict.fromkeys(read.languages):
                inside = [
                    row
                    for row, other in enumerate(read.languages)
                    if other == code and (row, "") not in read.problems
                ]
                self.languages[code] = self.languages.get(code, 0) + len(inside)
                if isinstance(self.finders.get(("", code)), str):
                    unsplit = not_split_by_blanks([read.captions[row] for row in inside], code)
                    self.n_unsplit += len(unsplit)
                    self.unsplit = self.unsplit or next(iter(unsplit), "")
        self.languages = {code: count for code, count in self.languages.items() if count}

    def _read(self, chunk: Chunk) -> _Read:
        captions = chunk.values(self.column)
        read = _Read(captions, [self.language] * len(chunk), [None] * len(chunk), {})
        tags = None if self.language_column is None else chunk.values(self.language_column)
        cells = None if self.objects_column is None else chunk.values(self.objects_column)
        for row, caption in enumerate(captions):
            try:
                check_captions([caption])
                if tags is not None:
                    read.languages[row] = _language(tags[row])
            except InputError as error:
                read.problems[row, ""] = error
                continue
            if cells is not None:
                try:
                    read.objects[row] = objects = _objects(cells[row], self.source.cells_are_text)
                    if objects is not None:
                        find_objects([caption], [objects])
                except InputError as error:
                    read.problems[row, "substitution"] = error
            for kind in self.kinds:
                # given objects are exchanged in any language
                if (row, kind) not in read.problems and (kind != "substitution" or read.objects[row] is None):
                    found = self.finder(kind, read.languages[row])
                    if isinstance(found, InputError) and self.language is not None:
                        raise InputError(Setting("language", self.language), ": ", *found.parts)
                    if isinstance(found, InputError):
                        read.problems[row, kind] = found
        return read

    def finder(self, kind: str, code: str | None) -> str | InputError:
        """What finds a language's nouns for substitution, its words for all other kinds; or why nothing does.

        Raises:
            MissingExtraError: The package that finds them is not installed.
        """
        key = ("substitution" if kind == "substitution" else "", code)
        if key not in self.finders:
            try:
                self.finders[key] = noun_finder(code) if key[0] else word_finder(code)
            except InputError as error:
                self.finders[key] = error
        return self.finders[key]

    def count_languages(self) -> dict[str | None, int]:
        """Number of rows in each language, None where none is stated; other problems are not looked for.

        Raises:
            InputError: A cell is not a language code; names row and line.
        """
        counts: dict[str | None, int] = {}
        for chunk in self.source.chunks(CHUNK_ROWS):
            if self.language_column is None:
                counts[self.language] = counts.get(self.language, 0) + len(chunk)
                continue
            for row, tag in enumerate(chunk.values(self.language_column)):
                try:
                    code = _language(tag)
                except InputError as error:
                    raise self.source.at(error, chunk, row) from None
                counts[code] = counts.get(code, 0) + 1
        return counts

    # ---- as rows ----

    def chunks(self, size: int, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        """The rows, perturbed as they are read; `size` counts rows of the source."""
        for chunk in self.source.chunks(size):
            yield self._perturbed(chunk)

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        schema = self.source.schema()
        texts = [name for name in self.new if name in ("original", *KINDS)]
        types = {name: pa.bool_() if name == "unchanged" else pa.string() for name in self.new}
        types |= dict.fromkeys(texts, schema.field(self.column).type)
        return extended_schema(schema, types, like=dict.fromkeys(texts, self.column))

    def _perturbed(self, chunk: Chunk) -> Chunk:
        read = self._read(chunk)
        texts = {kind: self._texts(read, kind) for kind in self.kinds}
        errors = self._errors(chunk, read)
        if self.options.wide:
            told = ["; ".join(dict.fromkeys(filter(None, row))) or None for row in zip(*errors, strict=True)]
            columns: list[list[Any]] = [changed for changed, _ in texts.values()]
            return self._with_columns(chunk, range(len(chunk)), None, [*columns, told])
        repeated = [row for row in range(len(chunk)) for _ in self.kinds]
        by_kind = list(texts.values())
        changed = [part[0][row] for row in range(len(chunk)) for part in by_kind]
        values = [
            [read.captions[row] for row in repeated],
            list(self.kinds) * len(chunk),
            [part[1][row] for row in range(len(chunk)) for part in by_kind],
            [part[row] for row in range(len(chunk)) for part in errors],
        ]
        return self._with_columns(chunk, repeated, changed, values)

    def _texts(self, read: _Read, kind: str) -> tuple[list[Any], list[bool]]:
        """The captions after a perturbation, and whether each stayed as it was."""
        texts, unchanged = list(read.captions), [True] * len(read.captions)
        counts = self.counts[kind]
        groups: dict[tuple[str | None, bool], list[int]] = {}
        for row, code in enumerate(read.languages):
            if read.problem(row, kind) is None:
                given = kind == "substitution" and read.objects[row] is not None
                groups.setdefault((code, given), []).append(row)
            else:
                counts.failed += 1
        for (code, given), rows in groups.items():
            result = self.options.perturb(
                [read.captions[row] for row in rows],
                kind,
                code,
                [read.objects[row] for row in rows] if given else None,
            )
            for row, text, same in zip(rows, result.captions, result.unchanged.tolist(), strict=True):
                texts[row], unchanged[row] = text, same
            counts.not_found += int(result.not_found.sum())
            counts.settings = {
                name: value for name, value in result.settings.items() if name not in ("words", "objects")
            }
        counts.rows += len(texts)
        counts.unchanged += sum(unchanged)
        return texts, unchanged

    def _errors(self, chunk: Chunk, read: _Read) -> list[list[str | None]]:
        """What was wrong with each row, kind by kind."""
        errors = []
        for kind in self.kinds:
            found = [read.problem(row, kind) for row in range(len(chunk))]
            errors.append([None if error is None else error.message_with_field() for error in found])
        for row, told in enumerate(zip(*errors, strict=True)):
            messages = dict.fromkeys(message for message in told if message)
            if messages:
                line = None if chunk.lines is None else chunk.lines[row]
                self.failures[chunk.start + row] = (line, "; ".join(messages))
        return errors

    def _with_columns(
        self, chunk: Chunk, rows: Sequence[int], captions: list[Any] | None, values: list[list[Any]]
    ) -> Chunk:
        """Rows of a chunk with other captions, unless None, and the new columns."""
        new = dict(zip(self.new, values, strict=False))  # there are errors at the end, wanted or not
        if chunk.rows is not None:
            made = []
            for place, row in enumerate(rows):
                whole = dict(chunk.rows[row])
                if captions is not None and self.column in whole:
                    whole[self.column] = captions[place]
                made.append(whole | {name: column[place] for name, column in new.items()})
            return Chunk(chunk.start, None, rows=made)
        import pyarrow as pa

        table = chunk.table if len(rows) == len(chunk) else chunk.table.take(pa.array(rows, pa.int64()))
        schema = self.schema()
        if captions is not None:
            place = table.schema.get_field_index(self.column)
            table = table.set_column(
                place, table.schema.field(place), pa.array(captions, table.schema.field(place).type)
            )
        columns = [pa.array(column, schema.field(name).type) for name, column in new.items()]
        return Chunk(chunk.start, None, table=pa.Table.from_arrays([*table.columns, *columns], schema=schema))


def _language(tag: Any) -> str | None:
    return None if is_missing(tag) else language_code(tag)


def _objects(cell: Any, is_text: bool) -> list[Any] | None:
    """The critical objects of a row; None where it has none annotated."""
    if is_missing(cell):
        return None
    listed = cell
    if is_text:
        try:
            listed = json.loads(cell)
        except (json.JSONDecodeError, RecursionError):
            listed = None
    if not isinstance(listed, list):
        wanted = (
            'a JSON list such as ["a dog", "beach"]' if is_text else "a list of texts or (start, end) places"
        )
        raise InputError(
            f"{cell!r:.60}: expected {wanted}; ",
            Setting("nouns", True),
            " takes the nouns instead",
            field="objects",
        )
    return listed
