"""The rows of a file and the translations of their captions → the rows of the result."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..files.columns import NUMBERED, ColumnNames, is_missing
from ..files.row_source import Chunk, RowSource, check_names_are_free, extended_schema

if TYPE_CHECKING:
    import pyarrow as pa

LANGUAGE = "language"  # column of a result without one in the input
NEW_COLUMNS = ("original", "original_language", "quality", "quartile", "translation_problem", "source_row")
REFERENCE_COLUMNS = ("original_references", "references_quality")


@dataclass(frozen=True)
class TranslatedRow:
    """A row of the result.

    Attributes:
        row: Number of the input's row, from 0.
        language: Language of the translation.
        original_language: Language of the original; "" if it is not known.
        caption: The translation; None leaves the row's caption as it is.
        references: The translated references; None leaves them as they are.
        references_quality: Quality of each.
        quality: Quality of the caption's translation.
        quartile: Quartile of that quality in the language.
        problem: Why the row has no good translation.
    """

    row: int
    language: str
    original_language: str
    caption: str | None
    references: list[str] | None
    references_quality: list[float | None] | None
    quality: float | None
    quartile: int | None
    problem: str | None


class TranslatedSource(RowSource):
    """The rows of a file, one for each row and language, with translations in place of captions.

    Args:
        source: The file.
        names: Its columns; `references` are those that are translated.
        rows: Rows of the result; numbers of the input's rows never decrease.

    Raises:
        InputError: The file already has a column with the name of a new one.
    """

    def __init__(self, source: RowSource, names: ColumnNames, rows: Sequence[TranslatedRow]):
        self.source, self.names, self.path = source, names, source.path
        self.rows, self.n_rows = rows, len(rows)
        self._cells_are_text = source.cells_are_text
        self._numbered = len(names.references) > 1 or any(map(NUMBERED.fullmatch, names.references))
        self.new = new_columns(source, names)
        self.columns = [*source.columns, *self.new]

    def chunks(self, size: int, columns: Sequence[str] | None = None) -> Iterator[Chunk]:
        """The rows of the result; `size` counts rows of the file."""
        place = 0
        for chunk in self.source.chunks(size):
            first = place
            while place < len(self.rows) and self.rows[place].row < chunk.start + len(chunk):
                place += 1
            if place > first:
                yield self._translated(chunk, self.rows[first:place], first)

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        schema = self.source.schema()
        kinds: dict[str, pa.DataType] = {
            "quality": pa.float64(),
            "quartile": pa.int64(),
            "source_row": pa.int64(),
            "references_quality": pa.list_(pa.float64()),
            "original_references": pa.list_(pa.string()),
        }
        if self._cells_are_text:  # a list is JSON there
            kinds = {name: kind for name, kind in kinds.items() if not pa.types.is_list(kind)}
        types = {name: kinds.get(name, pa.string()) for name in self.new}
        types["original"] = schema.field(self.names.candidate).type
        return extended_schema(schema, types)

    def _translated(self, chunk: Chunk, rows: Sequence[TranslatedRow], start: int) -> Chunk:
        changed, new = self._cells(chunk, rows)
        places = [row.row - chunk.start for row in rows]
        if chunk.rows is not None:
            made = []
            for number, place in enumerate(places):
                whole = dict(chunk.rows[place])
                whole.update({name: values[number] for name, values in changed.items()})
                made.append(whole | {name: values[number] for name, values in new.items()})
            return Chunk(start, None, rows=made)
        import pyarrow as pa

        table = chunk.table.take(pa.array(places, pa.int64()))
        for name, values in changed.items():
            field = table.schema.field(name)
            table = table.set_column(table.schema.get_field_index(name), field, pa.array(values, field.type))
        schema = self.schema()
        columns = [pa.array(values, schema.field(name).type) for name, values in new.items()]
        return Chunk(start, None, table=pa.Table.from_arrays([*table.columns, *columns], schema=schema))

    def _cells(
        self, chunk: Chunk, rows: Sequence[TranslatedRow]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Values of the columns that change, and of the new ones."""
        before = {name: chunk.values(name) for name in (self.names.candidate, *self.names.references)}

        def old(name: str) -> list[Any]:
            return [before[name][row.row - chunk.start] for row in rows]

        originals = old(self.names.candidate)
        changed: dict[str, list[Any]] = {
            self.names.candidate: [
                original if row.caption is None else row.caption
                for row, original in zip(rows, originals, strict=True)
            ]
        }
        changed[self.names.language or LANGUAGE] = [row.language for row in rows]
        references = self.names.references
        given = [[before[name][row.row - chunk.start] for name in references] for row in rows]
        translated = [
            cells if row.references is None else self._filled(cells, row.references)
            for row, cells in zip(rows, given, strict=True)
        ]
        for number, name in enumerate(references):
            changed[name] = [cells[number] for cells in translated]
        new: dict[str, list[Any]] = {
            "original": originals,
            "original_language": [row.original_language or None for row in rows],
            "quality": [row.quality for row in rows],
            "quartile": [row.quartile for row in rows],
            "translation_problem": [row.problem for row in rows],
            "source_row": [row.row for row in rows],
        }
        if references:
            new["original_references"] = [
                self._listed(cells) if self._numbered else cells[0] for cells in given
            ]
            new["references_quality"] = [self._listed(row.references_quality) for row in rows]
        if self.names.language is None:
            new = {LANGUAGE: changed.pop(LANGUAGE), **new}
        return changed, new

    def _filled(self, cells: list[Any], references: list[str]) -> list[Any]:
        """The cells of a row's references with the translations in them; what is missing stays so."""
        if not self._numbered:
            return [self._listed(references)]
        texts = iter(references)
        return [cell if is_missing(cell) else next(texts) for cell in cells]

    def _listed(self, values: list[Any] | None) -> Any:
        """A list as a cell: JSON where every cell is text."""
        return (
            json.dumps(values, ensure_ascii=False) if self._cells_are_text and values is not None else values
        )


def new_columns(source: RowSource, names: ColumnNames) -> list[str]:
    """Names of the columns that a result has and the file has not.

    Raises:
        InputError: The file already has one of them.
    """
    new = [
        *(() if names.language else (LANGUAGE,)),
        *NEW_COLUMNS,
        *(REFERENCE_COLUMNS if names.references else ()),
    ]
    check_names_are_free(source, new)
    return new
