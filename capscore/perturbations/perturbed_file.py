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

Problems = dict[int, InputError]


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
        self._names, self._p, self._seed = names, p, seed
        self._language, self._skips = language, skips
        usable = OBJECT_COLUMNS if "substitution" in kinds else ()
        self._objects = next((name for name in usable if name in source.columns), None)
        new = ["original", "perturbation", "unchanged"]
        self.new = {
            name: bool if name == "unchanged" else str for name in [*new, *([ERROR_COLUMN] if skips else [])]
        }
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
            captions = chunk.values(self._names.candidate)
            languages, objects, problems, in_objects = self._read(chunk, captions)
            for kind in self.kinds:
                failed = {**in_objects, **problems} if kind == "substitution" else dict(problems)
                self._perturb(kind, chunk.start, captions, languages, objects, failed)
                if failed and not self._skips:
                    row = min(failed)
                    raise self.source.at(failed[row], chunk, row)
                for row, error in failed.items():
                    self._errors[chunk.start + row, kind] = error.message_with_field()
            for row in range(len(chunk)):
                reasons = dict.fromkeys(self._errors.get((chunk.start + row, kind)) for kind in self.kinds)
                if reason := "; ".join(filter(None, reasons)):
                    self.failures[chunk.start + row] = (chunk.lines[row] if chunk.lines else None, reason)
            advance(len(chunk))

    def _read(
        self, chunk: Chunk, captions: Sequence[Any]
    ) -> tuple[list[str | None], list[Any], Problems, Problems]:
        """Languages and objects of the rows; what is wrong with a row, and with its objects alone."""
        languages = [self._language] * len(chunk)
        objects: list[Any] = [None] * len(chunk)
        codes = None if self._names.language is None else chunk.values(self._names.language)
        cells = objects if self._objects is None else chunk.values(self._objects)
        problems: Problems = {}
        in_objects: Problems = {}
        for row, caption in enumerate(captions):
            try:
                check_captions([caption])
                if codes is not None:
                    languages[row] = None if is_missing(codes[row]) else language_code(codes[row])
            except InputError as error:
                problems[row] = error
                continue
            try:
                objects[row] = objects_of_cell(cells[row], self.source.cells_are_text)
                if objects[row] is not None:
                    find_objects([caption], [objects[row]])
            except InputError as error:
                in_objects[row] = error
        for code in dict.fromkeys(languages):
            rows = [row for row in range(len(chunk)) if languages[row] == code and row not in problems]
            if rows:
                counts = self.languages.setdefault(code or "", {"captions": 0, "words": None, "nouns": None})
                counts["captions"] += len(rows)
            if set(self.kinds) != {"substitution"}:
                self.unsplit += not_split_by_blanks([captions[row] for row in rows], code)
        return languages, objects, problems, in_objects

    def _perturb(
        self,
        kind: str,
        start: int,
        captions: Sequence[Any],
        languages: Sequence[str | None],
        objects: Sequence[Any],
        failed: Problems,
    ) -> None:
        """Perturb captions in one way; rows of a language that it does not fit are added to `failed`."""
        counts = self.counts[kind]
        groups: dict[tuple[str | None, bool], list[int]] = {}
        for row, code in enumerate(languages):
            if row not in failed:
                has_objects = kind == "substitution" and objects[row] is not None
                groups.setdefault((code, has_objects), []).append(row)
        for (code, has_objects), rows in groups.items():
            lists = [objects[row] for row in rows] if has_objects else None
            how: dict[str, Any] = {"p": self._p, "seed": self._seed, "objects": lists}
            try:
                result = perturb([captions[row] for row in rows], kind, code, **how)
            except InputError as error:
                if self._language is not None:
                    raise InputError(Setting("language", self._language), ": ", *error.parts) from None
                failed |= dict.fromkeys(rows, error)
                continue
            self._texts.update(zip(((start + row, kind) for row in rows), result.captions, strict=True))
            counts["unchanged"] += int(result.unchanged.sum())
            found, settings = self.languages[code or ""], dict(result.settings)
            found["words"] = settings.pop("words", found["words"])
            if kind == "substitution":
                counts["objects_not_found"] += int(result.not_found.sum())
                finder = settings.pop("objects")
                found["nouns"] = found["nouns"] if has_objects else finder
            counts["settings"] = settings
        counts["failed"] += len(failed)
        counts["unchanged"] += len(failed)

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
            yield self._chunk(chunk)

    def _chunk(self, chunk: Chunk) -> tuple[Chunk, dict[str, list[Any]]]:
        originals = chunk.values(self._names.candidate)

        def text(row: int, kind: str) -> Any:
            return self._texts.get((chunk.start + row, kind), originals[row])

        pairs = [(row, kind) for row in range(len(chunk)) for kind in self.kinds]
        texts, before = [text(*pair) for pair in pairs], [originals[row] for row, _ in pairs]
        unchanged = [text == original for text, original in zip(texts, before, strict=True)]
        errors = [self._errors.get((chunk.start + row, kind)) for row, kind in pairs]
        columns = [before, [kind for _, kind in pairs], unchanged, errors]
        repeated = _with_captions(chunk, [row for row, _ in pairs], self._names.candidate, texts)
        return repeated, dict(zip(self.new, columns, strict=False))


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
