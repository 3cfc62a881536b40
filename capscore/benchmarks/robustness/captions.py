"""Reads captions with their photos from a benchmark or a file of rows, one set per language.

All captions are true ones: robustness is how far their score falls when they are perturbed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ...backbones.base import fingerprint_of
from ...errors import CapscoreError, InputError, Setting
from ...files.columns import FAMILIAR, columns_of
from ...files.image_folder import ImageFolder, find_images
from ...files.read import open_rows
from ...files.row_source import CHUNK_ROWS, Chunk, RowSource
from ...options import RowOptions
from ...perturbations.objects import OBJECT_COLUMNS, objects_of_cell
from ...text.languages import language_code
from ..data.annotation_files import AnnotationSource
from ..protocols.results import counted
from ..reading import Configuration, read_benchmark

STAND_IN = "stand_in"
# columns of a set, in the order of `_Row`
_COLUMNS = ("captions", "image_ids", "images", "stand_ins", "objects")


@dataclass(frozen=True)
class CaptionSet:
    """n captions of one language.

    Attributes:
        data: Name of the benchmark or file.
        config, split: Configuration and split of the benchmark; "" for a file.
        language: Primary subtag of the language.
        captions: n texts.
        image_ids: Ids of their photos.
        images: Photos in any form that a scorer takes; None for a missing photo.
        stand_ins: Texts in place of the photos; None for captions scored with photos.
        objects: Critical objects of each caption, as texts; None where the data have none.
        files: Name of every annotation file that was read → its SHA-256.
        notes: Remarks that a reader needs.
    """

    data: str
    config: str
    split: str
    language: str
    captions: list[str]
    image_ids: list[str]
    images: list[Any]
    stand_ins: list[str] | None = None
    objects: list[list[Any]] | None = None
    files: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.captions)

    def names(self) -> dict[str, Any]:
        """What results say of the captions, ready for JSON."""
        return {
            "data": self.data,
            "config": self.config,
            "language": self.language,
            "n_captions": len(self),
        }

    def take(self, rows: Iterable[int], *notes: str) -> CaptionSet:
        """Some of the captions, with further notes."""
        chosen = list(rows)
        columns = {name: getattr(self, name) for name in _COLUMNS}
        taken: dict[str, Any] = {
            name: column and [column[row] for row in chosen] for name, column in columns.items()
        }
        return replace(self, **taken, notes=(*self.notes, *notes))

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


class _Row(NamedTuple):
    """A caption; `image` is None if texts replace photos, otherwise `stand_in` is ""."""

    caption: str
    image_id: str
    image: Any
    stand_in: str
    objects: list[Any]


_ByLanguage = dict[str, list[_Row]]


def benchmark_captions(
    slug: str,
    config: str | None = None,
    *,
    data_dir: str | Path | None = None,
    image_dir: str | Path | None = None,
    split: str | None = None,
    stand_in: bool = False,
    partial: bool = False,
) -> list[CaptionSet]:
    """The captions of a benchmark's configuration.

    If its rows have references, these are the captions, each once per photo; otherwise the captions are the
    rows' own, with their critical objects. With `stand_in`, the first English caption of a photo stands for
    it, and is not scored itself unless the photo has no other.

    Args:
        slug, config, data_dir, image_dir, split: As in `capscore.load_benchmark`. The default split is the
            test split, or else the validation split.
        stand_in: Whether texts replace the photos, which are then not opened.
        partial: Whether to leave out captions whose photo (or its English caption) is missing, and say how
            many.

    Returns:
        One set per language, in order of appearance.

    Raises:
        CapscoreError: the benchmark cannot be loaded, or has no captions that are known to be true; photos,
            or texts to stand for them, are missing.
    """
    images = False if stand_in else None
    where = Configuration(slug, config, data_dir)
    run, keyed = read_benchmark(where, RowOptions(split=split, images=image_dir), images=images)
    rows = [row for _, row in keyed]
    texts = _true_captions(slug, rows)
    english: dict[str, str] = {}
    if stand_in and {row["language"] for row in rows} == {"en"}:
        english = _first_captions(rows, texts)
    elif stand_in:
        english = _english_captions(slug, data_dir, run.split)
    found: _ByLanguage = {}
    seen = set()  # benchmarks of ratings repeat a photo's references
    for row, captions in zip(rows, texts, strict=True):
        code, photo = language_code(row["language"]), row["image_id"]
        for caption in captions:
            if (code, photo, caption) not in seen:
                seen.add((code, photo, caption))
                objects = list(row.get("critical_objects", ()))
                item = _Row(caption, photo, row["image"], english.get(photo, ""), objects)
                found.setdefault(code, []).append(item)
    about = CaptionSet(slug, run.config, run.split, "", [], [], [], files=run.files, notes=run.notes)
    return _sets(found, about, stand_in, "critical_objects" in rows[0], partial)


def _true_captions(slug: str, rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The true captions of each row."""
    if "critical_objects" in rows[0]:
        return [[row["caption"]] for row in rows]
    if any(row.get("references") for row in rows):
        return [list(row["references"]) for row in rows]
    raise CapscoreError(f"{slug} has no captions that are known to be true")


def _english_captions(slug: str, data_dir: str | Path | None, split: str) -> dict[str, str]:
    """Photo → its first caption in the benchmark's English configuration."""
    try:
        _, keyed = read_benchmark(Configuration(slug, "en", data_dir), RowOptions(split=split), images=False)
    except CapscoreError as error:
        raise CapscoreError(
            f"the texts in place of photos are the captions of the English configuration of {slug}, which "
            f"is not available: {error}"
        ) from error
    rows = [row for _, row in keyed]
    return _first_captions(rows, _true_captions(slug, rows))


def _first_captions(rows: Sequence[Mapping[str, Any]], texts: Sequence[Sequence[str]]) -> dict[str, str]:
    pairs = [(row["image_id"], captions[0]) for row, captions in zip(rows, texts, strict=True) if captions]
    return dict(reversed(pairs))


def file_captions(
    path: str | Path,
    *,
    image_dir: str | Path | None = None,
    split: str | None = None,
    image_column: str | None = None,
    candidate_column: str | None = None,
    language_column: str | None = None,
    stand_in: bool = False,
    partial: bool = False,
) -> list[CaptionSet]:
    """The captions of a file of rows: a caption, its photo, its language.

    Args:
        path: File that `files.read.open_rows` reads. Column `critical_objects` or `objects` holds lists of
            texts for substitution; `stand_in` holds texts that replace photos.
        image_dir: Folder that names of photos are relative to; None for the file's folder.
        split: Split of a saved data set.
        image_column, candidate_column, language_column: Names of columns, if they are unusual.
        stand_in: Whether the texts of `stand_in` replace the photos, which are then not opened.
        partial: Whether to leave out captions whose photo, or text for it, is missing, and say how many.

    Returns:
        One set per language, in order of appearance.

    Raises:
        InputError: the file is missing, or lacks a column; a row that cannot be scored, with its line.
    """
    row_options = RowOptions(image_column, candidate_column, language_column=language_column, split=split)
    source = open_rows(path, row_options)
    fields = columns_of(source, row_options, with_images=not stand_in)
    if stand_in and STAND_IN not in source.columns:
        raise InputError(Setting("stand_in", True), f": {path} has no column {STAND_IN!r} with texts")
    if fields.language is None:
        raise InputError(Setting("language_column"), f": {path} has no column with languages of captions")
    names = (OBJECT_COLUMNS, (image_column or "", *FAMILIAR["image"], "image_id"))
    objects, photo = (next((name for name in part if name in source.columns), None) for part in names)
    columns = {
        "caption": fields.candidate,
        "language": fields.language,
        "photo": fields.image or photo,
        "stand_in": STAND_IN if stand_in else None,
        "objects": objects,
    }
    folder = None if stand_in else ImageFolder(Path(image_dir or source.path.parent), option="image_dir")
    found: _ByLanguage = {}
    for chunk in source.chunks(CHUNK_ROWS):
        for code, row in _file_rows(source, chunk, columns, folder, partial):
            found.setdefault(code, []).append(row)
    files = {source.path.name: AnnotationSource(source.path).sha256()} if source.path.is_file() else {}
    about = CaptionSet(source.path.name, "", "", "", [], [], [], files=files)
    return _sets(found, about, stand_in, objects is not None, partial)


def _file_rows(
    source: RowSource,
    chunk: Chunk,
    columns: Mapping[str, str | None],
    folder: ImageFolder | None,
    partial: bool,
) -> Iterator[tuple[str, _Row]]:
    cells: dict[str, list[Any]] = {
        name: [None] * len(chunk) if column is None else chunk.values(column)
        for name, column in columns.items()
    }
    images: Sequence[Any] = [None] * len(chunk)
    problems: dict[int, InputError] = {}
    if folder is not None and columns["photo"] is not None:
        images = find_images(chunk, columns["photo"], folder, problems)
    for row in range(len(chunk)):
        caption, name, text = (cells[column][row] for column in ("caption", "photo", "stand_in"))
        try:
            code = language_code(cells["language"][row])
            if not isinstance(caption, str) or not caption.strip():
                raise InputError(f"{caption!r:.60} is not a caption", field=columns["caption"])
            if not (text is None or isinstance(text, str)):
                raise InputError(f"{text!r:.60} is not a text", field=STAND_IN)
            if row in problems and not partial:
                raise problems[row]
            objects = objects_of_cell(cells["objects"][row], source.cells_are_text) or []
        except InputError as error:
            raise source.at(error, chunk, row) from error
        text = (text or "").strip()
        name = name.get("path") if isinstance(name, Mapping) else name
        photo = str(name) if isinstance(name, (str, int)) else ""
        yield code, _Row(caption, photo or text or f"row {chunk.start + row}", images[row], text, objects)


def _sets(
    found: _ByLanguage, about: CaptionSet, stand_in: bool, with_objects: bool, partial: bool
) -> list[CaptionSet]:
    """The captions of each language that can be scored; `about` says the rest of the set."""
    sets = []
    for language, rows in found.items():
        kept = [row for row in rows if (row.stand_in if stand_in else row.image is not None)]
        notes, n_gone, captions = [*about.notes], len(rows) - len(kept), counted(len(rows), "caption")
        what = "photo has no English caption" if stand_in else "photo is missing"
        if n_gone and (not partial or not kept):
            gone = next(row for row in rows if not (row.stand_in if stand_in else row.image is not None))
            hint = (
                f"`capscore data check {about.data}` lists the photos; "
                if about.split and not stand_in
                else ""
            )
            raise CapscoreError(
                f"{about.data} ({language}): for {n_gone:,} of {captions} the {what}, such as "
                f"{gone.image_id}: {hint}",
                Setting("partial", True),
                " scores the others",
            )
        if n_gone:
            notes.append(f"{len(kept):,} of {captions}; for the others the {what}")
        kept = _others_than_stand_ins(kept, notes) if stand_in else kept
        columns: dict[str, Any] = dict(zip(_COLUMNS, map(list, zip(*kept, strict=True)), strict=True))
        columns |= {} if stand_in else {"stand_ins": None}
        columns |= {} if with_objects else {"objects": None}
        sets.append(replace(about, language=language, notes=tuple(notes), **columns))
    return sets


def _others_than_stand_ins(rows: list[_Row], notes: list[str]) -> list[_Row]:
    """Leave out the captions that replace their photo, if the photo has others."""
    has_others = {row.image_id for row in rows if row.caption != row.stand_in}
    kept = [row for row in rows if row.caption != row.stand_in or row.image_id not in has_others]
    if len(kept) < len(rows):
        notes.append(f"{counted(len(rows) - len(kept), 'caption')} not scored: they replace their photos")
    if alone := sum(row.caption == row.stand_in for row in kept):
        notes.append(
            f"{counted(alone, 'caption')} are the texts that replace their photos: their original scores "
            "and retrieval are meaningless"
        )
    return kept
