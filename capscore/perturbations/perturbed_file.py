"""Perturbs captions of a file, or of a list: a row for each caption and kind, and counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..errors import InputError, LanguageWarning, Setting, warn
from ..files.columns import ColumnNames, columns_of, is_missing
from ..files.console import progress_bar
from ..files.read import open_rows
from ..files.row_source import (
    CHUNK_ROWS,
    ERROR_COLUMN,
    Chunk,
    RowSource,
    check_names_are_free,
    rows_in_memory,
    rows_of,
)
from ..files.write import Writer, check_output
from ..options import OutputOptions, RowOptions, split_options
from ..tables import Report, Result, Table
from ..text.languages import language_code, option_code
from ..text.segmentation import not_split_by_blanks
from .kinds import P, check_captions, check_draws, chosen_kinds, kind_of
from .kinds import perturb as perturb_captions
from .objects import OBJECT_COLUMNS, Object, find_objects, objects_of_cell

if TYPE_CHECKING:
    import pandas as pd


def perturb(
    captions: str | Path | Iterable[object],
    kinds: str | Sequence[str],
    *,
    p: float = P,
    seed: int = 0,
    progress: bool | None = None,
    **options: object,
) -> PerturbedFile:
    """Perturb captions of a file or a list in one or several ways, as PR-MCS does.

    Substitution swaps the objects in the column `critical_objects` or `objects`, or else the nouns. The
    result depends only on the caption, its language and the options.

    Args:
        captions: File or saved data set with a column of captions, and of languages if there are several; or
            a list of texts or of dicts; or a table of pandas, Arrow or polars.
        kinds: Names of perturbations, or "paper" for the five of PR-MCS, "unseen" for six others, "all".
        p: Probability of drawing a word, in repetition, removal and masking.
        seed: Seed for all random draws.
        progress: Whether a progress bar is shown; None shows one for long work in a terminal.
        **options: How rows are read (`capscore.options.RowOptions`: columns, split, language of all captions;
            with `on_error="skip"`, rows that cannot be perturbed stay as they are, with a column that says
            why), and what is written (`OutputOptions`: output, beside it OUTPUT.summary.json, and force).

    Raises:
        InputError: an unknown kind or option, a file that cannot be read, or a row that cannot be perturbed;
            names row and line. Or nothing can be perturbed in the one language of all captions.
        MissingExtraError: the package that finds words or nouns of a language is not installed.

    >>> import capscore
    >>> found = capscore.perturb(["a dog runs on the beach"], ["masking", "jumble"], seed=1)
    >>> [row["caption"] for row in found.rows()]
    ['a [MASK] runs on the beach', 'beach dog a runs on the']
    """
    rows, output = split_options(options, RowOptions, OutputOptions)
    if isinstance(kinds, str):
        kinds = [kinds]
    chosen = chosen_kinds(kinds)
    check_draws(p, seed, "published")
    source = _source_of(captions, rows)
    found = PerturbedFile(source, columns_of(source, rows, with_images=False), chosen, rows)
    if output.output is not None:
        found.output = check_output(output.output, source, force=output.force)
    with progress_bar("Perturbing", source.n_rows, shown=progress) as advance:
        for chunk in source.chunks(CHUNK_ROWS):
            found.add(chunk, p=p, seed=seed)
            advance(len(chunk))
    if found.unsplit:
        warn(
            LanguageWarning(
                f"{len(found.unsplit):,} of {source.n_rows:,} captions are written without spaces, such as "
                f"{found.unsplit[0]!r:.40}, and count as one word each: state the language they are in"
            )
        )
    if found.output is not None:
        _write(found, found.output)
    return found


def _source_of(captions: str | Path | Iterable[object], rows: RowOptions) -> RowSource:
    if isinstance(captions, (str, Path)):
        return open_rows(captions, rows)
    texts = [row if isinstance(row, Mapping) else {"caption": row} for row in rows_of(captions)]
    if not texts:
        raise InputError("there are no captions", field="captions")
    return rows_in_memory(texts, [f"captions, row {row}" for row in range(len(texts))], Path("captions"))


@dataclass
class KindCounts:
    """What became of the captions under one kind."""

    rows: int
    unchanged: int = 0
    failed: int = 0
    settings: dict[str, object] = field(default_factory=dict)
    objects_not_found: int | None = None

    def to_dict(self) -> dict[str, object]:
        """The counts that there are, ready for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass
class LanguageCounts:
    """Number of captions in a language, and what finds its words and nouns."""

    captions: int = 0
    words: str | None = None
    nouns: str | None = None


class PerturbedFile(Result):
    """Captions that were perturbed; `rows` gives the rows of the result, `print` shows counts."""

    def __init__(self, source: RowSource, names: ColumnNames, kinds: Sequence[str], options: RowOptions):
        self.source, self.names, self.kinds = source, names, tuple(kinds)
        self.output: Path | None = None
        self._language = option_code(options.language)
        self._skips = options.on_error == "skip"
        self._objects: str | None = None
        self.new: dict[str, type] = {"original": str, "perturbation": str, "unchanged": bool}
        if self._skips:
            self.new[ERROR_COLUMN] = str
        check_names_are_free(source, [*self.new])
        self.n_rows = source.n_rows * len(kinds)
        self.counts = {kind: KindCounts(source.n_rows) for kind in kinds}
        for kind in kinds:
            if kind_of(kind).takes_objects:
                self.counts[kind].objects_not_found = 0
                self._objects = next((name for name in OBJECT_COLUMNS if name in source.columns), None)
        self.languages: dict[str, LanguageCounts] = {}
        self.failures: dict[int, tuple[int | None, str]] = {}
        self.unsplit: list[str] = []
        # (row of the file, kind) → perturbed caption, or what is wrong
        self._texts: dict[tuple[int, str], str] = {}
        self._errors: dict[tuple[int, str], str] = {}

    def add(self, chunk: Chunk, *, p: float, seed: int) -> None:
        """Perturb the captions of a chunk; errors are those of `capscore.perturb`."""
        columns = map(chunk.values, (self.names.candidate, self.names.language, self._objects))
        for row, (caption, code, cell) in enumerate(zip(*columns, strict=True)):
            try:
                check_captions([caption])
                language = self._language if is_missing(code) else language_code(code)
            except InputError as error:
                problems = dict.fromkeys(self.kinds, error)
            else:
                problems = self._perturb(chunk.start + row, caption, language, cell, {"p": p, "seed": seed})
            if problems and not self._skips:
                raise self.source.at(next(iter(problems.values())), chunk, row)
            self._note(chunk, row, problems)

    def _note(self, chunk: Chunk, row: int, problems: dict[str, InputError]) -> None:
        """Note what was wrong with a row, by kind; the row stays as it is."""
        for kind, error in problems.items():
            self._errors[chunk.start + row, kind] = error.message_with_field()
            self.counts[kind].failed += 1
            self.counts[kind].unchanged += 1
        if problems:
            reason = "; ".join(dict.fromkeys(error.message_with_field() for error in problems.values()))
            line = chunk.lines[row] if chunk.lines else None
            self.failures[chunk.start + row] = (line, reason)

    def _perturb(
        self, row: int, caption: str, language: str | None, cell: object, draws: dict[str, Any]
    ) -> dict[str, InputError]:
        """Perturb a caption in all ways; returns what is wrong with it, by the kinds that do not fit it."""
        finders = self.languages.setdefault(language or "", LanguageCounts())
        finders.captions += 1
        if not all(kind_of(kind).takes_objects for kind in self.kinds):
            self.unsplit += not_split_by_blanks([caption], language)
        problems: dict[str, InputError] = {}
        for kind in self.kinds:
            counts, given = self.counts[kind], None
            if counts.objects_not_found is not None:
                try:
                    given = self._given_objects(caption, cell)
                except InputError as error:
                    problems[kind] = error
                    continue
            try:
                result = perturb_captions([caption], kind, language, objects=given, **draws)
            except InputError as error:
                if self._language is not None and error.field == "language":
                    raise InputError(Setting("language", self._language), ": ", *error.parts) from None
                problems[kind] = error
                continue
            settings: dict[str, Any] = dict(result.settings)
            self._texts[row, kind] = result.captions[0]
            counts.unchanged += int(result.unchanged[0])
            finders.words = settings.pop("words", finders.words)
            if counts.objects_not_found is not None:
                counts.objects_not_found += int(result.not_found[0])
                finder = settings.pop("objects")
                if not given:
                    finders.nouns = finder
            counts.settings = settings
        return problems

    def _given_objects(self, caption: str, cell: object) -> list[list[Object]] | None:
        """The objects of a caption that its row names, as `perturb_captions` takes them."""
        objects = objects_of_cell(cell, self.source.cells_are_text)
        if objects is None:
            return None
        find_objects([caption], [objects])
        return [objects]

    def chunks(self) -> Iterator[tuple[Chunk, dict[str, list[Any]]]]:
        """The rows of the result, and their values of the new columns."""
        for chunk in self.source.chunks(CHUNK_ROWS):
            captions = chunk.values(self.names.candidate)
            repeated, texts = [], []
            columns: dict[str, list[Any]] = {name: [] for name in self.new}
            for row, before in enumerate(captions):
                for kind in self.kinds:
                    key = chunk.start + row, kind
                    text = self._texts.get(key, before)
                    repeated.append(row)
                    texts.append(text)
                    columns["original"].append(before)
                    columns["perturbation"].append(kind)
                    columns["unchanged"].append(text == before)
                    if self._skips:
                        columns[ERROR_COLUMN].append(self._errors.get(key))
            yield _with_captions(chunk, repeated, self.names.candidate, texts), columns

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the result, with the columns of the input and the new ones."""
        for chunk, new in self.chunks():
            for row, *values in zip(chunk.dicts(), *new.values(), strict=True):
                yield {**row, **dict(zip(new, values, strict=True))}

    def to_pandas(self) -> pd.DataFrame:
        """A row per caption and kind: caption, original, perturbation, unchanged, and what was wrong."""
        import pyarrow as pa

        columns: dict[str, list[Any]] = {"caption": [], **{name: [] for name in self.new}}
        for chunk, new in self.chunks():
            columns["caption"] += chunk.values(self.names.candidate)
            for name, values in new.items():
                columns[name] += values
        return pa.table(columns).to_pandas()

    def to_dict(self) -> dict[str, Any]:
        """Counts and settings of the whole file, ready for JSON."""
        failures = [{"row": row, "line": line, "error": why} for row, (line, why) in self.failures.items()]
        return {
            "input": str(self.source.path),
            "output": None if self.output is None else str(self.output),
            "captions": self.source.n_rows,
            "rows": self.n_rows,
            "perturbations": {kind: counts.to_dict() for kind, counts in self.counts.items()},
            "languages": {code: asdict(part) for code, part in sorted(self.languages.items())},
            "failures": failures,
            "versions": {"capscore": __version__},
        }

    def report(self) -> Report:
        """Counts of each kind and language."""
        of_kinds, of_languages = [], []
        missing = 0
        for kind, counts in self.counts.items():
            of_kinds.append((kind, f"{counts.rows:,}", f"{counts.unchanged:,}", f"{counts.failed:,}"))
            missing += counts.objects_not_found or 0
        for code, part in sorted(self.languages.items()):
            finders = part.words or "–", part.nouns or "–"
            of_languages.append((code or "not stated", f"{part.captions:,}", *finders))
        parts: list[Table | str] = [
            Table(("perturbation", "rows", "unchanged", "failed"), of_kinds),
            Table(("language", "captions", "words found by", "nouns found by"), of_languages, left=4),
        ]
        if missing:
            parts.append(f"objects that are not in their captions, and were left out: {missing:,}")
        return Report("", parts)


def _write(found: PerturbedFile, path: Path) -> None:
    summary = found.to_dict()
    writer = Writer(path, found.source, found.new)
    try:
        for chunk, new in found.chunks():
            writer.write(chunk, new)
        settings = {kind: counts.settings for kind, counts in found.counts.items()}
        about = {"perturbations": settings, "languages": summary["languages"]}
        writer.finish(about, json.dumps(summary, ensure_ascii=False, indent=2) + "\n")
    finally:
        writer.stop()


def _with_captions(chunk: Chunk, repeated: Sequence[int], column: str, captions: list[object]) -> Chunk:
    """Rows of a chunk, which may be repeated, with other captions."""
    if chunk.rows is not None:
        rows = []
        for row, caption in zip(repeated, captions, strict=True):
            cells = chunk.rows[row]
            if column in cells:
                cells = {**cells, column: caption}
            rows.append(cells)
        return Chunk(chunk.start, None, rows=rows)
    import pyarrow as pa

    table = chunk.table.take(pa.array(repeated, pa.int64()))
    index = table.schema.get_field_index(column)
    field = table.schema.field(index)
    return Chunk(chunk.start, None, table=table.set_column(index, field, pa.array(captions, field.type)))
