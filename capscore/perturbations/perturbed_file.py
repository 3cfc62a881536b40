"""Perturbs the captions of a file: a row for each caption and kind, and counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import __version__
from ..errors import InputError, Setting
from ..files.columns import ColumnNames, is_missing
from ..files.row_source import CHUNK_ROWS, ERROR_COLUMN, Chunk, RowSource, check_names_are_free
from ..text.languages import language_code
from ..text.segmentation import not_split_by_blanks
from .kinds import check_captions, perturb
from .objects import OBJECT_COLUMNS, find_objects, objects_of_cell

Problems = dict[str, InputError]  # by kind


class PerturbedFile:
    """The rows of a file with their captions perturbed: `run` perturbs them, `chunks` reads them.

    Args:
        source: Rows to perturb. Objects are in the first column of `OBJECT_COLUMNS` that it has.
        names: Columns of the captions and their languages.
        kinds: Perturbations.
        p, seed: As in `capscore.perturbations.perturb`.
        language: Language code of all captions, or None.
        skips: Whether rows that cannot be perturbed stay as they are, with a column that says why.

    Attributes:
        n_rows: Number of rows of the result.
        new: Name of each new column → its type.
        counts: Kind → counts and settings, ready for JSON.
        languages: Language, "" where none is stated → number of captions, and what finds its words and nouns.
        failures: For each failed row of the file, its line (or None) and what was wrong.
        unsplit: Captions written without spaces although their language is split at spaces.

    Raises:
        InputError: the file already has a column with the name of a new one.
    """

    def __init__(
        self,
        source: RowSource,
        names: ColumnNames,
        kinds: Sequence[str],
        *,
        p: float,
        seed: int,
        language: str | None = None,
        skips: bool = False,
    ):
        self.source, self.kinds = source, tuple(kinds)
        draws: dict[str, Any] = {"p": p, "seed": seed}
        self._names, self._draws = names, draws
        self._language, self._skips = language, skips
        usable = OBJECT_COLUMNS if "substitution" in kinds else ()
        self._objects = next((name for name in usable if name in source.columns), None)
        self.new: dict[str, type] = {"original": str, "perturbation": str, "unchanged": bool}
        if skips:
            self.new[ERROR_COLUMN] = str
        check_names_are_free(source, [*self.new])
        self.n_rows = source.n_rows * len(kinds)
        self.counts: dict[str, dict[str, Any]] = {
            kind: {"rows": source.n_rows, "unchanged": 0, "failed": 0, "settings": {}} for kind in kinds
        }
        if "substitution" in kinds:
            self.counts["substitution"]["objects_not_found"] = 0
        self.languages: dict[str, dict[str, Any]] = {}
        self.failures: dict[int, tuple[int | None, str]] = {}
        self.unsplit: list[str] = []
        # (row of the file, kind) → perturbed caption, or what is wrong
        self._texts: dict[tuple[int, str], str] = {}
        self._errors: dict[tuple[int, str], str] = {}

    def run(self, advance: Callable[[int], None]) -> None:
        """Perturb all captions, in memory; `advance` takes the number of further rows that are done.

        Raises:
            InputError: a row cannot be perturbed, and rows are not skipped; names row and line. Or nothing
                can be perturbed in the one language of all captions.
            MissingExtraError: the package that finds words or nouns of a language is not installed.
        """
        for chunk in self.source.chunks(CHUNK_ROWS):
            captions, nothing = chunk.values(self._names.candidate), [None] * len(chunk)
            codes = nothing if self._names.language is None else chunk.values(self._names.language)
            cells = nothing if self._objects is None else chunk.values(self._objects)
            for row, (caption, code, cell) in enumerate(zip(captions, codes, cells, strict=True)):
                try:
                    check_captions([caption])
                    language = self._language if is_missing(code) else language_code(code)
                except InputError as error:
                    problems = dict.fromkeys(self.kinds, error)
                else:
                    problems = self._perturb(chunk.start + row, caption, language, cell)
                if problems and not self._skips:
                    raise self.source.at(next(iter(problems.values())), chunk, row)
                self._fail(chunk, row, problems)
            advance(len(chunk))

    def _fail(self, chunk: Chunk, row: int, problems: Problems) -> None:
        """Note what was wrong with a row, which stays as it is."""
        for kind, error in problems.items():
            self._errors[chunk.start + row, kind] = error.message_with_field()
            self.counts[kind]["failed"] += 1
            self.counts[kind]["unchanged"] += 1
        if problems:
            reason = "; ".join(dict.fromkeys(error.message_with_field() for error in problems.values()))
            self.failures[chunk.start + row] = (chunk.lines[row] if chunk.lines else None, reason)

    def _perturb(self, row: int, caption: str, language: str | None, cell: Any) -> Problems:
        """Perturb a caption in all ways; returns what is wrong with those that do not fit it."""
        finders = self.languages.setdefault(language or "", {"captions": 0, "words": None, "nouns": None})
        finders["captions"] += 1
        if set(self.kinds) != {"substitution"}:
            self.unsplit += not_split_by_blanks([caption], language)
        problems: Problems = {}
        for kind in self.kinds:
            objects = None
            try:
                if kind == "substitution":
                    objects = objects_of_cell(cell, self.source.cells_are_text)
                    if objects is not None:
                        find_objects([caption], [objects])
            except InputError as error:
                problems[kind] = error
                continue
            given = None if objects is None else [objects]
            try:
                result = perturb([caption], kind, language, objects=given, **self._draws)
            except InputError as error:
                if self._language is not None:
                    raise InputError(Setting("language", self._language), ": ", *error.parts) from None
                problems[kind] = error
                continue
            counts, settings = self.counts[kind], dict(result.settings)
            self._texts[row, kind] = result.captions[0]
            counts["unchanged"] += int(result.unchanged[0])
            finders["words"] = settings.pop("words", finders["words"])
            if kind == "substitution":
                counts["objects_not_found"] += int(result.not_found[0])
                finder = settings.pop("objects")
                finders["nouns"] = finders["nouns"] if given else finder
            counts["settings"] = settings
        return problems

    def summary(self, output: Any) -> dict[str, Any]:
        """Counts and settings of the whole file, ready for JSON; `output` is the path of the result."""
        failures = [{"row": row, "line": line, "error": why} for row, (line, why) in self.failures.items()]
        return {
            "input": str(self.source.path),
            "output": None if output is None else str(output),
            "captions": self.source.n_rows,
            "rows": self.n_rows,
            "perturbations": self.counts,
            "languages": dict(sorted(self.languages.items())),
            "failures": failures,
            "versions": {"capscore": __version__},
        }

    def chunks(self) -> Iterator[tuple[Chunk, dict[str, list[Any]]]]:
        """The rows of the result, and their values of the new columns."""
        for chunk in self.source.chunks(CHUNK_ROWS):
            captions = chunk.values(self._names.candidate)
            pairs = [(row, kind) for row in range(len(chunk)) for kind in self.kinds]
            before = [captions[row] for row, _ in pairs]
            texts = [self._texts.get((chunk.start + row, kind), captions[row]) for row, kind in pairs]
            unchanged = [text == original for text, original in zip(texts, before, strict=True)]
            errors = [self._errors.get((chunk.start + row, kind)) for row, kind in pairs]
            columns = [before, [kind for _, kind in pairs], unchanged, errors]
            repeated = _with_captions(chunk, [row for row, _ in pairs], self._names.candidate, texts)
            yield repeated, dict(zip(self.new, columns, strict=False))


def _with_captions(chunk: Chunk, repeated: Sequence[int], column: str, captions: list[Any]) -> Chunk:
    """Rows of a chunk, which may be repeated, with other captions."""
    if chunk.rows is not None:
        rows = [
            {**chunk.rows[row], column: caption} if column in chunk.rows[row] else chunk.rows[row]
            for row, caption in zip(repeated, captions, strict=True)
        ]
        return Chunk(chunk.start, None, rows=rows)
    import pyarrow as pa

    table = chunk.table.take(pa.array(repeated, pa.int64()))
    index = table.schema.get_field_index(column)
    field = table.schema.field(index)
    return Chunk(chunk.start, None, table=table.set_column(index, field, pa.array(captions, field.type)))
