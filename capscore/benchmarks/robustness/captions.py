"""Reads captions with their photos from a benchmark or a file of rows, one set per language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ...backbones.base import fingerprint_of
from ...errors import CapscoreError, InputError, Setting
from ...files.columns import ColumnNames, columns_of
from ...files.image_folder import ImageFolder, find_images
from ...files.read import open_rows
from ...files.row_source import CHUNK_ROWS, Chunk, RowSource
from ...options import RowOptions
from ...perturbations.objects import OBJECT_COLUMNS, objects_of_cell
from ...tables import counted
from ...text.languages import language_code
from ..data.annotation_files import AnnotationSource
from ..reading import Configuration, read_benchmark


@dataclass(frozen=True)
class CaptionSet:
    """n captions of one language.

    Attributes:
        data: Name of the benchmark or file.
        images: Photos in any form that a scorer takes; None for a missing photo.
        objects: Critical objects of each caption, as texts; None where the data have none.
        files: Name of every annotation file that was read → its SHA-256.
    """

    data: str
    config: str
    split: str
    language: str
    captions: list[str]
    image_ids: list[str]
    images: list[Any]
    objects: list[list[Any]] | None = None
    files: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def title(self) -> str:
        return f"{self.data} ({self.language})"

    def names(self) -> dict[str, str | int]:
        """What results say of the captions, ready for JSON."""
        about = {"data": self.data, "config": self.config, "language": self.language}
        return {**about, "n_captions": len(self)}

    def take(self, rows: Iterable[int], *notes: str) -> CaptionSet:
        """Some of the captions, with further notes."""
        chosen = list(rows)
        objects = self.objects
        if objects is not None:
            objects = [objects[row] for row in chosen]
        return replace(
            self,
            captions=[self.captions[row] for row in chosen],
            image_ids=[self.image_ids[row] for row in chosen],
            images=[self.images[row] for row in chosen],
            objects=objects,
            notes=(*self.notes, *notes),
        )

    def sample(self, n: int, seed: int) -> CaptionSet:
        """At most n captions, drawn at random, in their order.

        The draw depends on the photo and on the caption's number among those of its photo, so that parallel
        captions are drawn in all languages.
        """
        if n >= len(self):
            return self
        seen: Counter[str] = Counter()
        ranks = []
        for row, name in enumerate(self.image_ids):
            seen[name] += 1
            ranks.append((fingerprint_of(seed, name, seen[name]), row))
        drawn = sorted(row for _, row in sorted(ranks)[:n])
        return self.take(drawn, f"{n:,} of {counted(len(self), 'caption')}, drawn with seed {seed}")


class _Caption(NamedTuple):
    caption: str
    image_id: str
    image: Any
    objects: list[Any]


def benchmark_captions(
    where: Configuration, rows: RowOptions = RowOptions(), *, partial: bool = False
) -> list[CaptionSet]:
    """The captions of a benchmark's configuration.

    If its rows have references, these are the captions, each once per photo; otherwise the captions are the
    rows' own, with their critical objects.

    Returns:
        One set per language, in order of appearance.
    """
    run, keyed = read_benchmark(where, rows)
    found: dict[str, list[_Caption]] = {}
    seen = set()  # benchmarks of ratings repeat a photo's references
    with_objects = "critical_objects" in keyed[0][1]
    with_references = any(row.get("references") for _, row in keyed)
    if not with_objects and not with_references:
        raise CapscoreError(f"{where.slug} has no captions that are known to be true")
    for _, row in keyed:
        code, photo = language_code(row["language"]), row["image_id"]
        for caption in [row["caption"]] if with_objects else row["references"]:
            if (code, photo, caption) not in seen:
                seen.add((code, photo, caption))
                objects = list(row.get("critical_objects", ()))
                found.setdefault(code, []).append(_Caption(caption, photo, row["image"], objects))
    about = CaptionSet(where.slug, run.config, run.split, "", [], [], [], files=run.files, notes=run.notes)
    return [_set(about, code, of, with_objects, partial) for code, of in found.items()]


def file_captions(
    path: str | Path, rows: RowOptions = RowOptions(), *, partial: bool = False
) -> list[CaptionSet]:
    """The captions of a file of rows: a caption, its photo, its language.

    Returns:
        One set per language, in order of appearance.
    """
    source = open_rows(path, rows)
    names = columns_of(source, rows)
    if names.language is None and rows.language is None:
        raise InputError(Setting("language_column"), f": {path} has no column with languages of captions")
    objects = next((name for name in OBJECT_COLUMNS if name in source.columns), None)
    only = "" if rows.language is None else language_code(rows.language)
    folder = ImageFolder(Path(rows.images or source.folder), option="image_dir")
    found: dict[str, list[_Caption]] = {}
    for chunk in source.chunks(CHUNK_ROWS):
        for code, row in _file_rows(source, chunk, names, objects, folder, partial):
            found.setdefault(code or only, []).append(row)
    files = {source.path.name: AnnotationSource(source.path).sha256()} if source.path.is_file() else {}
    about = CaptionSet(source.path.name, "", "", "", [], [], [], files=files)
    return [_set(about, code, of, objects is not None, partial) for code, of in found.items()]


def _file_rows(
    source: RowSource,
    chunk: Chunk,
    names: ColumnNames,
    objects: str | None,
    folder: ImageFolder,
    partial: bool,
) -> Iterator[tuple[str, _Caption]]:
    """Language, "" where there is no column of them, and row of each row of a chunk."""
    assert names.image is not None
    problems: dict[int, InputError] = {}
    images = find_images(chunk, names.image, folder, problems)
    columns = map(chunk.values, (names.candidate, names.image, names.language, objects))
    for row, (caption, photo, code, cell) in enumerate(zip(*columns, strict=True)):
        try:
            language = "" if names.language is None else language_code(code)
            if not isinstance(caption, str) or not caption.strip():
                raise InputError(f"{caption!r:.60} is not a caption", field=names.candidate)
            if row in problems and not partial:
                raise problems[row]
            given = objects_of_cell(cell, source.cells_are_text) or []
        except InputError as error:
            raise source.at(error, chunk, row) from error
        yield language, _Caption(caption, _photo_name(photo, chunk.start + row), images[row], given)


def _photo_name(cell: object, row: int) -> str:
    """What the photo of a row is known by; photos without a name are known by their row."""
    name = cell.get("path") if isinstance(cell, Mapping) else cell
    return str(name) if isinstance(name, (str, int)) else f"row {row}"


def _set(
    about: CaptionSet, language: str, rows: Sequence[_Caption], with_objects: bool, partial: bool
) -> CaptionSet:
    """The captions of a language whose photos are there; `about` says the rest of the set."""
    kept = [row for row in rows if row.image is not None]
    n_gone, captions = len(rows) - len(kept), counted(len(rows), "caption")
    found = replace(about, language=language)
    if n_gone and not (partial and kept):
        gone = next(row for row in rows if row.image is None)
        hint = f"`capscore data check {about.data}` lists the photos; " if about.split else ""
        missing = f"for {n_gone:,} of {captions} the photo is missing, such as {gone.image_id}"
        raise CapscoreError(
            f"{found.title}: {missing}: {hint}", Setting("partial", True), " scores the others"
        )
    notes = about.notes
    if n_gone:
        notes = (*notes, f"{len(kept):,} of {captions}; for the others the photo is missing")
    return replace(
        found,
        captions=[row.caption for row in kept],
        image_ids=[row.image_id for row in kept],
        images=[row.image for row in kept],
        objects=[row.objects for row in kept] if with_objects else None,
        notes=notes,
    )
