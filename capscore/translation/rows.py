"""Rows of a file → the texts of each that are translated, or what is wrong with the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, Setting
from ..files.columns import ColumnNames, is_missing, read_inputs
from ..files.image_folder import ImageFolder
from ..files.row_source import CHUNK_ROWS, RowSource
from ..text.languages import language_code


@dataclass(frozen=True)
class CaptionRow:
    """What is translated of a row.

    Attributes:
        caption: The caption.
        references: The references; () if they are not translated.
        language: Language that both are in.
        problem: What is wrong with the row, or None.
        line: Line of the file, or None.
    """

    caption: str
    references: tuple[str, ...]
    language: str
    problem: str | None = None
    line: int | None = None


def read_caption_rows(
    source: RowSource,
    names: ColumnNames,
    language: str | None,
    check_language: Callable[[str], Any],
    *,
    on_error: str,
) -> list[CaptionRow]:
    """All rows of a file.

    Args:
        source: The file.
        names: Columns of captions, references (those to translate) and languages.
        language: Language of all rows; None reads the column.
        check_language: Function that raises InputError for a language that the translator does not know.
        on_error: "raise" stops at a bad row, "skip" notes its problem.

    Raises:
        InputError: A caption or reference that is empty or no text, or a language that is missing or unknown;
            names the row.
    """
    folder = ImageFolder(source.folder)
    known: dict[str, InputError | None] = {}

    def spoken(tag: Any) -> str:
        if is_missing(tag):
            raise InputError("the row states no language", field="language")
        if tag not in known:
            try:
                check_language(tag)
                known[tag] = None
            except InputError as error:
                known[tag] = error
        problem = known[tag]
        if problem is not None:
            raise problem
        return language_code(tag)

    rows = []
    for chunk in source.chunks(CHUNK_ROWS):
        inputs = read_inputs(chunk, source, names, folder)
        for row, caption in enumerate(inputs.candidates):
            line = None if chunk.lines is None else chunk.lines[row]
            try:
                if row in inputs.problems:
                    raise inputs.problems[row]
                _check_text(caption, "caption")
                references = _references(None if inputs.references is None else inputs.references[row])
                tag = language if inputs.languages is None else inputs.languages[row]
                rows.append(CaptionRow(caption, references, spoken(tag), None, line))
            except InputError as error:
                if on_error == "raise":
                    raise source.at(error, chunk, row) from None
                rows.append(CaptionRow("", (), "", error.message_with_field(), line))
    return rows


def _references(cell: Any) -> tuple[str, ...]:
    texts: Sequence[Any] = () if cell is None else cell if isinstance(cell, (list, tuple)) else [cell]
    for text in texts:
        _check_text(text, "references")
    return tuple(texts)


def _check_text(text: Any, field: str) -> None:
    if not isinstance(text, str):
        raise InputError(f"{text!r:.60}: expected a text", field=field)
    if not text.strip():
        raise InputError("the text is empty, so there is nothing to translate", field=field)


def no_language(source: RowSource) -> InputError:
    """The error of captions whose language is stated nowhere."""
    return InputError(
        Setting("language"),
        f": the language of the captions is not stated, and {source.path} has no column for it; for English "
        "captions: ",
        Setting("language", "en"),
    )
