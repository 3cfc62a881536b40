"""Where captions to train on come from: a file of rows or a benchmark → `CaptionRow`s, one a caption.

In: JSONL, JSON, CSV, TSV, Parquet, a saved data set, or one of capscore's benchmarks with its photos. Out: an
iterator, so that photos stored in a file are never all in memory. What is wrong with a row names its line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capscore.benchmark.data.load import config_name, load_benchmark
from capscore.errors import InputError
from capscore.files.columns import FAMILIAR, ImageFolder, find_fields, find_images
from capscore.files.rows import Chunk, Rows, open_rows
from capscore.images.sequence import check_images
from capscore.perturbations.published import Object
from capscore.text.languages import language_code

CHUNK = 1024


@dataclass(frozen=True)
class CaptionRow:
    """A caption and what it describes: an image, or a text that stands in for one.

    Attributes:
        caption: the caption.
        language: its language, a primary subtag.
        image: anything that capscore takes for an image; None where a text stands in.
        stand_in: another caption of the same photo, whose embedding stands for the photo's where no pixels
            are to be had; None where there is an image.
        objects: the caption's critical objects, as `capscore.perturbations.published.perturb` takes them;
            None if they are not annotated.
        names: by which a list may name the row or its image: its id, the image's name, that name without
            folder and without suffix.
        place: what an error calls the row.
    """

    caption: str
    language: str
    image: Any = None
    stand_in: str | None = None
    objects: tuple[Object, ...] | None = None
    names: tuple[str, ...] = ()
    place: str = ""


def file_rows(
    path: str | Path,
    *,
    images: str | Path | None = None,
    language: str | None = None,
    image_column: str | None = None,
    candidate_column: str | None = None,
    language_column: str | None = None,
    split: str | None = None,
) -> Iterator[CaptionRow]:
    """The captions of a file.

    A row has a caption, an image or a `stand_in`, a language (or `language` gives it), and maybe `objects`
    and an `id`. In CSV, objects are a JSON list.

    Args:
        path: as `capscore.files.rows.open_rows` takes it.
        images: folder that relative image names start from; None for the folder of the file.
        language: of the rows that state none.
        image_column, candidate_column, language_column: where the columns have unfamiliar names.
        split: of a saved data set.

    Raises:
        InputError: a row is not what it should be, an image that is named is not there; names the line.
        UsageError: no such file, folder or column.
    """
    source = open_rows(path, split=split)
    with_stand_ins = "stand_in" in source.columns
    named = [name for name in FAMILIAR["image"] if name in source.columns]
    fields = find_fields(
        source.columns,
        image=image_column,
        candidate=candidate_column,
        language=language_column,
        with_images=bool(image_column or named or not with_stand_ins),
    )
    default = None if language is None else language_code(language)
    folder = ImageFolder(Path(images) if images is not None else source.path.parent)
    for chunk in source.chunks(CHUNK):
        captions = chunk.values(fields.candidate)
        found, problems = chunk_images(chunk, fields.image, folder)
        written = written_names(chunk, fields.image)
        stand_ins = chunk.values("stand_in") if with_stand_ins else [None] * len(chunk)
        languages = chunk.values(fields.language) if fields.language else [None] * len(chunk)
        objects = chunk.values("objects") if "objects" in source.columns else [None] * len(chunk)
        ids = chunk.values("id") if "id" in source.columns else [None] * len(chunk)
        for row in range(len(chunk)):
            place = source.place(chunk, row)
            image, stand_in = found[row], stand_ins[row] or None
            if stand_in is None and row in problems:
                raise InputError(f"{place}, {problems[row].message_with_field()}")
            if isinstance(image, str) and not image:
                image = None
            if (image is None) == (stand_in is None):
                has = "neither an image nor" if stand_in is None else "both an image and"
                raise InputError(f"{place} has {has} a stand_in; expected one of them")
            check_text(stand_in, place, "stand_in", optional=True)
            yield CaptionRow(
                caption=check_text(captions[row], place, fields.candidate),
                language=row_language(languages[row], default, place),
                image=image,
                stand_in=stand_in,
                objects=_objects(objects[row], source, place),
                names=row_names(written[row], ids[row]),
                place=place,
            )


def benchmark_rows(
    slug: str,
    config: str | None = None,
    *,
    split: str | None = None,
    data_dir: str | Path | None = None,
    image_dir: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[CaptionRow]:
    """The right captions of a benchmark: its references, or its captions where it has no references.

    All photos must be there. Critical objects come along where the benchmark has them, as M-FineCap3k does.

    Args:
        slug, config, data_dir, image_dir, options: as `capscore.load_benchmark` takes them.
        split: one of its splits; None where it has one only.

    Raises:
        CapscoreError: as `capscore.load_benchmark`.
        InputError: several splits and none chosen, a benchmark without captions.
    """
    loaded = load_benchmark(
        slug, config, split=split, data_dir=data_dir, image_dir=image_dir, images=True, options=options
    )
    name = f"{slug} ({config_name(slug, config)})"
    if hasattr(loaded, "keys"):
        splits = list(loaded)
        if len(splits) != 1:
            raise InputError(f"{name} has the splits {', '.join(splits)}: choose one", field="split")
        loaded = loaded[splits[0]]
    columns = loaded.column_names
    if "image" not in columns or not {"references", "caption"} & set(columns):
        raise InputError(f"{name} has no captions with one image each: its columns are {', '.join(columns)}")
    images = check_images(loaded["image"])
    texts = loaded.select_columns([column for column in columns if column != "image"])
    for number, row in enumerate(texts):
        place = f"{name}, row {number} counted from 0"
        listed = row["references"] if "references" in columns else [row["caption"]]
        objects = row.get("critical_objects") if "references" not in columns else None
        for caption in listed:
            yield CaptionRow(
                caption=check_text(caption, place, "caption"),
                language=row_language(row.get("language"), None, place),
                image=images[number],
                objects=None if objects is None else tuple(objects),
                names=row_names(row["image_id"], row.get("id")),
                place=place,
            )


def read_names(path: str | Path) -> frozenset[str]:
    """The names in a list, one a line; blank lines do not count.

    Raises:
        InputError: the file cannot be read, or names nothing.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"the list {path} cannot be read: {reason}", field="hold_out") from None
    names = frozenset(line.strip() for line in text.splitlines() if line.strip())
    if not names:
        raise InputError(f"the list {path} is empty; expected an id or the name of an image a line")
    return names


def chunk_images(
    chunk: Chunk, column: str | None, folder: ImageFolder
) -> tuple[Sequence[Any], dict[int, InputError]]:
    """The images of a chunk, not opened, and row → why there is none."""
    problems: dict[int, InputError] = {}
    if column is None:
        return [None] * len(chunk), problems
    return find_images(chunk, column, folder, problems), problems


def written_names(chunk: Chunk, column: str | None) -> list[Any]:
    """The images' names as the file has them; None for an image that it holds and does not name."""
    if column is None:
        return [None] * len(chunk)
    if chunk.table is not None:
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = chunk.table.schema.field(column).type
        if pa.types.is_struct(kind):
            if kind.get_field_index("path") < 0:
                return [None] * len(chunk)
            return pc.struct_field(chunk.table.column(column), "path").to_pylist()
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return [None] * len(chunk)
    return chunk.values(column)


def row_names(image: Any, row_id: Any) -> tuple[str, ...]:
    """By which a list may name a row or its image."""
    names: dict[str, None] = {}
    for name in (row_id, image):
        if isinstance(name, (str, int)) and not isinstance(name, bool) and str(name).strip():
            names[str(name).strip()] = None
    if isinstance(image, str) and image.strip() and image[:5].lower() != "data:":
        base = os.path.basename(image.strip())
        names.update(dict.fromkeys(part for part in (base, os.path.splitext(base)[0]) if part))
    return tuple(names)


def check_text(text: Any, place: str, field: str, *, optional: bool = False) -> str:
    """The text, if it is one and not blank; raises InputError with its place."""
    if text is None and optional:
        return text
    if not isinstance(text, str):
        raise InputError(f"{place}, {field}: {text!r:.60} is a {type(text).__name__}; expected a string")
    if not text.strip():
        raise InputError(f"{place}, {field}: it is blank")
    return text


def row_language(tag: Any, default: str | None, place: str) -> str:
    """A row's language, or the default where it states none; raises InputError with its place."""
    if tag is None or tag == "":
        if default is None:
            raise InputError(
                f"{place} states no language, which says what a word is: a column 'language' gives that of "
                "each row, the setting language that of all"
            )
        return default
    try:
        return language_code(tag)
    except InputError as error:
        raise InputError(f"{place}, language: {error.message}") from None


def _objects(cell: Any, source: Rows, place: str) -> tuple[Object, ...] | None:
    if cell is None or cell == "":
        return None
    if source.cells_are_text:
        try:
            cell = json.loads(cell)
        except (json.JSONDecodeError, RecursionError):
            raise InputError(
                f'{place}, objects: {cell!r:.60}; expected a JSON list such as ["dog", "beach"]'
            ) from None
    if not isinstance(cell, (list, tuple)) or not all(
        isinstance(thing, (str, list, tuple)) for thing in cell
    ):
        raise InputError(
            f"{place}, objects: {cell!r:.60}; expected a list of texts, or of (start, end) places"
        )
    return tuple(tuple(thing) if isinstance(thing, list) else thing for thing in cell)
