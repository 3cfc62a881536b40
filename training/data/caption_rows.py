"""Captions with their images, from a file of rows or a benchmark → `CaptionRow`s, one per caption."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capscore.benchmarks.data.load import config_name, load_benchmark
from capscore.errors import InputError
from capscore.images.load import check_images
from capscore.perturbations import Object
from training.data.row_files import check_text, read_rows, row_language, row_names


@dataclass(frozen=True)
class CaptionRow:
    """A caption and what it describes: an image, or a text that stands in for an image.

    Attributes:
        caption: The caption.
        language: Its language, a primary subtag.
        image: Anything that capscore takes as an image; None where a text stands in.
        stand_in: Another caption of the same photo, whose embedding replaces the photo's where no pixels
            are available; None where there is an image.
        objects: The caption's critical objects, as `capscore.perturbations.perturb` takes them;
            None if they are not annotated.
        names: Names by which a list may refer to the row or its image: its id, the image's name, and that
            name without folder and without suffix.
        place: Name of the row in errors.
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
    """The captions of a file: JSONL, JSON, CSV, TSV, Parquet, or a saved data set.

    A row has a caption, an image or a `stand_in`, a language (or `language` gives it), and optionally
    `objects` and an `id`. In CSV, objects are a JSON list. Arguments and errors as in
    `training.data.row_files.read_rows`.
    """
    rows = read_rows(
        path,
        lists=("objects",),
        images=images,
        language=language,
        image_column=image_column,
        candidate_column=candidate_column,
        language_column=language_column,
        split=split,
    )
    for row in rows:
        yield CaptionRow(
            caption=row.caption,
            language=row.language,
            image=row.image,
            stand_in=None if row.stand_in is None else check_text(row.stand_in, row.place, "stand_in"),
            objects=_objects(row.cells["objects"], row.place),
            names=row.names,
            place=row.place,
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
    """The correct captions of a benchmark: its references, or its captions where it has no references.

    All photos must be available. Critical objects are included where the benchmark has them (M-FineCap3k).

    Args:
        slug, config, data_dir, image_dir, options: Arguments of `capscore.load_benchmark`.
        split: One of its splits; None where there is only one.

    Raises:
        CapscoreError: errors of `capscore.load_benchmark`.
        InputError: there are several splits and none was chosen, or the benchmark has no captions.
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
    """The names in a list with one name per line; blank lines do not count.

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
        raise InputError(f"the list {path} is empty; expected one id or image name per line")
    return names


def _objects(cell: Any, place: str) -> tuple[Object, ...] | None:
    if cell is None or cell == "":
        return None
    if not isinstance(cell, (list, tuple)) or not all(
        isinstance(thing, (str, list, tuple)) for thing in cell
    ):
        raise InputError(
            f"{place}, objects: {cell!r:.60}; expected a list of texts, or of (start, end) places"
        )
    return tuple(tuple(thing) if isinstance(thing, list) else thing for thing in cell)
