"""Captions in other languages, each the best of many translations (Gomes et al. 2025, App. C).

    python -m training.translate --config training/configs/translate.yaml \
        --input captions.jsonl --output translated.jsonl --languages de fr zh

In: a file of captions, with any other columns. Out: JSON lines, a row for each row and language, in this
order: the translation in place of the caption; `original`, `original_language`, `quality`,
`translation_problem` and `source_row` beside all other columns; references are translated in the same way.
Finished blocks of rows are files in OUTPUT.blocks, from which the same command continues.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from capscore.errors import InputError, Setting
from capscore.files.columns import FAMILIAR, NUMBERED, ColumnNames, columns_of, named_columns, read_inputs
from capscore.files.console import progress_bar
from capscore.files.image_folder import ImageFolder
from capscore.files.read import open_rows
from capscore.files.row_source import CHUNK_ROWS, RowSource
from capscore.files.write import refuse_bytes, write_text
from capscore.text.languages import language_code
from training.engine.config import main as run_as_command
from training.engine.config import parse
from training.engine.translator import Translation, Translator, TranslatorSettings, language_tag

Cells = dict[str, object]


class Row(NamedTuple):
    """A row of the input: its cells, its texts (caption and references), and their language."""

    cells: Cells
    texts: list[str]
    language: str


@dataclass(kw_only=True)
class Settings(TranslatorSettings):
    """Settings of the translation, besides those of the model.

    Attributes:
        input: File of captions: JSONL, JSON, CSV, TSV, Parquet, or the folder of a saved data set.
        output: File of the result, JSON lines.
        language: Language of all captions; None reads the column.
        on_rejected: What happens to a row without a good translation: drop, or keep the best with the reason.
        block_rows: Number of rows per block.
    """

    input: str
    output: str
    language: str | None = "en"
    on_rejected: Literal["keep", "drop"] = "drop"
    block_rows: int = 256


def read_columns(settings: Settings) -> tuple[RowSource, ColumnNames]:
    """The input and its columns, of which that of references may be missing; an InputError names what is."""
    source = open_rows(settings.input)
    refuse_bytes(source, Setting("output", settings.output), ".jsonl")
    numbered = any(map(NUMBERED.fullmatch, source.columns))
    with_references = numbered or bool(named_columns(FAMILIAR["references"], source.columns))
    names = columns_of(source, with_images=False, with_references=with_references)
    if settings.language is None and names.language is None:
        raise InputError(Setting("language"), f": not stated, and {source.path} has no column for it")
    return source, names


def read_rows(source: RowSource, names: ColumnNames, settings: Settings, translator: Translator) -> list[Row]:
    """The rows of the input; an InputError names one that cannot be translated."""
    rows: list[Row] = []
    for chunk in source.chunks(CHUNK_ROWS):
        inputs = read_inputs(chunk, source, names, ImageFolder(source.folder))
        languages = inputs.languages or [None] * len(chunk)
        for index, cells in enumerate(chunk.dicts()):
            try:
                if index in inputs.problems:
                    raise inputs.problems[index]
                references = (inputs.references[index] if inputs.references else None) or []
                references = [references] if isinstance(references, str) else references
                texts = [inputs.candidates[index], *references]
                language = language_code(settings.language or languages[index])
                translator.token_ids(texts, language)
            except InputError as error:
                raise source.at(error, chunk, index) from None
            rows.append(Row(cells, texts, language))
    return rows


def translate_block(
    rows: Sequence[Row], first: int, names: ColumnNames, settings: Settings, translator: Translator
) -> list[Cells]:
    """The rows of the result for rows of the input; what is in a target's language stays as it is."""
    result: list[list[Cells]] = [[] for _ in rows]
    for target in settings.languages:
        tag = language_tag(target)
        found: dict[tuple[str, str], Translation] = {}
        for source in {row.language for row in rows} - {tag}:
            texts = chain.from_iterable(row.texts for row in rows if row.language == source)
            made = translator.translate(list(dict.fromkeys(texts)), source, target)
            found |= {(source, text): translation for text, translation in made.items()}
        for index, row in enumerate(rows):
            chosen = [found.get((row.language, text), (text, None, None)) for text in row.texts]
            (caption, quality, problem), references = chosen[0], chosen[1:]
            cells = {name: cell for name, cell in row.cells.items() if name not in names.references}
            cells |= {names.candidate: caption, names.language or "language": tag}
            cells |= {"original": row.texts[0], "original_language": row.language}
            cells |= {"quality": quality, "translation_problem": problem, "source_row": first + index}
            if names.references:
                cells["references"] = [text for text, _, _ in references]
                cells["original_references"] = row.texts[1:]
                cells["references_quality"] = [estimate for _, estimate, _ in references]
            if settings.on_rejected == "keep" or not problem:
                result[index].append(cells)
    return list(chain.from_iterable(result))


def translate(settings: Settings) -> tuple[int, int]:
    """Translate a file, block by block, and write it; returns the numbers of written and of dropped rows."""
    output = Path(settings.output)
    folder = output.with_name(f"{output.name}.blocks")
    if output.exists() or output.suffix != ".jsonl":
        raise InputError(Setting("output", settings.output), ": expected a new file that ends in .jsonl")
    source, names = read_columns(settings)
    translator = Translator(settings)
    rows = read_rows(source, names, settings, translator)
    digest = hashlib.sha256(json.dumps([row.texts for row in rows]).encode()).hexdigest()
    record, content = folder / "settings.json", json.dumps({**asdict(settings), "texts": digest}, indent=2)
    if record.exists() and record.read_text(encoding="utf-8") != content:
        raise InputError(f"{folder} holds blocks of other settings or captions: delete it to start again")
    write_text(record, content)
    size, blocks = settings.block_rows, []
    with progress_bar("Translating", -(-len(rows) // size)) as advance:
        for first in range(0, len(rows), size):
            blocks.append(folder / f"{first:09d}.jsonl")
            if not blocks[-1].exists():
                made = translate_block(rows[first : first + size], first, names, settings, translator)
                write_text(blocks[-1], "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made))
            advance(1)
    result = "".join(block.read_text(encoding="utf-8") for block in blocks)
    write_text(output, result)
    shutil.rmtree(folder)
    n_written = result.count("\n")
    return n_written, len(rows) * len(settings.languages) - n_written


def main(argv: Sequence[str] | None = None) -> None:
    settings = parse(Settings, argv, (__doc__ or "").partition("\n")[0])
    written, dropped = translate(settings)
    print(f"{written:,} rows written to {settings.output}, {dropped:,} dropped; quality: {settings.quality}")


if __name__ == "__main__":
    run_as_command(main, Settings)
