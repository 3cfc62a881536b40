"""Reads captions with their photos from a benchmark or a file of rows, one set per language.

All captions are true ones: robustness is how far their score falls when they are perturbed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...backbones.base import fingerprint_of
from ...errors import CapscoreError, InputError, Setting
from ...files.columns import FAMILIAR, find_columns
from ...files.image_folder import ImageFolder, find_images
from ...files.read import open_rows
from ...files.row_source import Chunk, RowSource
from ...text.languages import language_code
from ..data.annotation_files import AnnotationSource
from ..protocols.results import counted
from ..run import heard, open_benchmark, read_rows

OBJECTS = ("critical_objects", "objects")
STAND_IN = "stand_in"
_PHOTOS = (*FAMILIAR["image"], "image_id")
# benchmarks whose captions papers report under another name
_PUBLISHED_AS = {"flickr8k_human": "flickr8k"}
_CHUNK = 4096


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
        stand_ins: Texts that stand for the photos; None for captions scored with photos.
        objects: Critical objects of each caption, as texts; None where the data have none.
        published_as: Benchmark under which papers report the captions; "" if they don't.
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
    objects: list[list[str]] | None = None
    published_as: str = ""
    files: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def missing(self) -> list[str]:
        """Ids of the missing photos, each once."""
        pairs = zip(self.image_ids, self.images, strict=True)
        return list(dict.fromkeys(name for name, image in pairs if image is None))

    def take(self, rows: Iterable[int], *notes: str) -> CaptionSet:
        """Some of the captions, with further notes."""
        chosen = list(rows)

        def part(column: list[Any] | None) -> Any:
            return None if column is None else [column[row] for row in chosen]

        return replace(
            self,
            captions=part(self.captions),
            image_ids=part(self.image_ids),
            images=part(self.images),
            stand_ins=part(self.stand_ins),
            objects=part(self.objects),
            notes=(*self.notes, *notes),
        )

    def sample(self, most: int, seed: int) -> CaptionSet:
        """At most `most` captions, drawn at random, in their order.

        The draw depends on the photo and on the caption's number among those of its photo, so that parallel
        captions are drawn in all languages.
        """
        if most >= len(self):
            return self
        seen: Counter[str] = Counter()
        ranks = []
        for row, name in enumerate(self.image_ids):
            seen[name] += 1
            ranks.append((fingerprint_of(seed, name, seen[name]), row))
        drawn = sorted(row for _, row in sorted(ranks)[:most])
        return self.take(drawn, f"{most:,} of {counted(len(self), 'caption')}, drawn with seed {seed}")


# ------------------------------------------------------------------ benchmarks


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
        stand_in: Whether texts stand for the photos, which are then not opened.
        partial: Whether to leave out captions whose photo (or its English caption) is missing, and say how
            many.

    Returns:
        One set per language, in order of appearance.

    Raises:
        CapscoreError: the benchmark cannot be loaded, or has no captions that are known to be true; photos,
            or texts to stand for them, are missing.
    """
    builder, split = open_benchmark(
        slug, config, data_dir=data_dir, split=split, image_dir=image_dir, images=False if stand_in else None
    )
    with heard() as said:
        rows = [row for _, row in read_rows(builder, split)]
    texts = _true_captions(slug, rows)
    english: dict[str, str] = {}
    if stand_in:
        english = _english(slug, builder.config.language, rows, texts, data_dir, split)
    found: dict[str, CaptionSet] = {}
    for row, captions in zip(rows, texts, strict=True):
        language = language_code(row["language"])
        if language not in found:
            found[language] = CaptionSet(
                slug,
                builder.config.name,
                split,
                language,
                *([], [], []),
                stand_ins=[] if stand_in else None,
                objects=[] if "critical_objects" in row else None,
                published_as=_PUBLISHED_AS.get(slug, slug),
                files={path.name: source.sha256() for path, source in builder.files_read.items()},
                notes=tuple(said),
            )
        _add(found[language], row, captions, english)
    sets = [_usable(_each_once(one), partial) for one in found.values()]
    return [_others_than_stand_in(one) for one in sets] if stand_in else sets


def _add(
    one: CaptionSet, row: Mapping[str, Any], captions: Sequence[str], english: Mapping[str, str]
) -> None:
    for caption in captions:
        one.captions.append(caption)
        one.image_ids.append(row["image_id"])
        one.images.append(row["image"])
        if one.stand_ins is not None:
            one.stand_ins.append(english.get(row["image_id"], ""))
        if one.objects is not None:
            one.objects.append(list(row["critical_objects"]))


def _true_captions(slug: str, rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The true captions of each row."""
    if rows and "critical_objects" in rows[0]:
        return [[row["caption"]] for row in rows]
    if any(row.get("references") for row in rows):
        return [list(row["references"]) for row in rows]
    raise CapscoreError(f"{slug} has no captions that are known to be true")


def _english(
    slug: str,
    language: str,
    rows: Sequence[Mapping[str, Any]],
    texts: list[list[str]],
    data_dir: str | Path | None,
    split: str,
) -> dict[str, str]:
    """Photo → its first English caption."""
    if language != "en":
        try:
            builder, split = open_benchmark(slug, "en", data_dir=data_dir, split=split, images=False)
            rows = [row for _, row in read_rows(builder, split)]
        except CapscoreError as error:
            raise CapscoreError(
                f"the texts that stand for photos are the captions of the English configuration of {slug}, "
                f"which is not available: {error}"
            ) from error
        texts = _true_captions(slug, rows)
    first: dict[str, str] = {}
    for row, captions in zip(rows, texts, strict=True):
        if captions:
            first.setdefault(row["image_id"], captions[0])
    return first


def _each_once(one: CaptionSet) -> CaptionSet:
    """Keep each caption of a photo once: benchmarks of ratings repeat a photo's references."""
    first: dict[tuple[str, str], int] = {}
    for number, pair in enumerate(zip(one.image_ids, one.captions, strict=True)):
        first.setdefault(pair, number)
    return one if len(first) == len(one) else one.take(first.values())


def _usable(one: CaptionSet, partial: bool) -> CaptionSet:
    what, hint = "photo is missing", ""
    if one.split:
        hint = f"`capscore data check {one.data}` lists the photos; "
    gone = [image is None for image in one.images]
    if one.stand_ins is not None:
        what, hint = "photo has no English caption", "no text can stand for it; "
        gone = [not text for text in one.stand_ins]
    if not any(gone):
        return one
    n = sum(gone)
    if not partial or n == len(one):
        first = one.image_ids[gone.index(True)]
        raise CapscoreError(
            f"{one.data} ({one.language}): for {n:,} of {counted(len(one), 'caption')} the {what}, such as "
            f"{first}: {hint}",
            Setting("partial", True),
            " scores the others",
        )
    kept = (row for row, is_gone in enumerate(gone) if not is_gone)
    return one.take(kept, f"{len(one) - n:,} of {counted(len(one), 'caption')}; for the others the {what}")


def _others_than_stand_in(one: CaptionSet) -> CaptionSet:
    """Leave out the captions that stand for their photo, if the photo has others."""
    assert one.stand_ins is not None
    itself = [text == caption for text, caption in zip(one.stand_ins, one.captions, strict=True)]
    if not any(itself):
        return one
    has_others = {name for name, same in zip(one.image_ids, itself, strict=True) if not same}
    kept = [row for row, same in enumerate(itself) if not same or one.image_ids[row] not in has_others]
    alone = sum(itself[row] for row in kept)
    notes = []
    if len(kept) < len(one):
        notes.append(f"{counted(len(one) - len(kept), 'caption')} not scored: they stand for their photos")
    if alone:
        notes.append(
            f"{counted(alone, 'caption')} are the texts that stand for their photos: their original scores "
            "and retrieval are meaningless"
        )
    return one.take(kept, *notes)


# ----------------------------------------------------------------------- files


def file_captions(
    path: str | Path,
    *,
    languages: Sequence[str] | None = None,
    image_dir: str | Path | None = None,
    split: str | None = None,
    image_column: str | None = None,
    candidate_column: str | None = None,
    language_column: str | None = None,
    stand_in: bool = False,
    partial: bool = False,
    published_as: str = "",
) -> list[CaptionSet]:
    """The captions of a file of rows: a caption, its photo, its language.

    Args:
        path: File that `files.read.open_rows` reads. Column `critical_objects` or `objects` holds lists of
            texts for substitution; `stand_in` holds texts that stand for photos.
        languages: Languages to keep; for a file without a column of languages, the one language of all rows.
        image_dir: Folder that names of photos are relative to; None for the file's folder.
        split: Split of a saved data set.
        image_column, candidate_column, language_column: Names of columns, if they are unusual.
        stand_in: Whether the texts of `stand_in` stand for the photos, which are then not opened.
        partial: Whether to leave out captions whose photo, or text for it, is missing, and say how many.
        published_as: Benchmark whose published figures belong to these captions.

    Returns:
        One set per language, in the order of `languages` or of appearance.

    Raises:
        InputError: the file is missing, or lacks a column; a row that cannot be scored, with its line; a
            language without captions.
    """
    source = open_rows(path, split=split)
    photos = next((name for name in _PHOTOS if name in source.columns), None)
    fields = find_columns(
        source.columns,
        image=image_column,
        candidate=candidate_column,
        language=language_column,
        with_images=not stand_in,
    )
    photo_column = image_column or (fields.image if not stand_in else photos)
    if stand_in and STAND_IN not in source.columns:
        raise InputError(
            Setting("stand_in", True),
            f": {path} has no column {STAND_IN!r} with texts that stand for the photos",
        )
    whole = None
    if fields.language is None:
        if languages is None or len(languages) != 1:
            raise InputError(
                Setting("languages"),
                f": {path} has no column with the language of its captions (language, lang); "
                "give one code, the language of all rows",
            )
        whole = language_code(languages[0])
    objects = next((name for name in OBJECTS if name in source.columns), None)
    folder = None if stand_in else ImageFolder(Path(image_dir or source.path.parent), option="image_dir")
    found: dict[str, CaptionSet] = {}
    for chunk in source.chunks(_CHUNK):
        images: Sequence[Any] = [None] * len(chunk)
        problems: dict[int, InputError] = {}
        if folder is not None and fields.image is not None:
            images = find_images(chunk, fields.image, folder, problems)
        captions = chunk.values(fields.candidate)
        codes: list[Any] = [whole] * len(chunk) if fields.language is None else chunk.values(fields.language)
        names = chunk.values(photo_column) if photo_column else [None] * len(chunk)
        texts = chunk.values(STAND_IN) if stand_in else [None] * len(chunk)
        things = _objects(source, chunk, objects)
        for row in range(len(chunk)):
            try:
                language = language_code(codes[row])
                if not isinstance(captions[row], str) or not captions[row].strip():
                    raise InputError(f"{captions[row]!r:.60} is not a caption", field=fields.candidate)
                if stand_in and not (texts[row] is None or isinstance(texts[row], str)):
                    raise InputError(f"{texts[row]!r:.60} is not a text", field=STAND_IN)
                if row in problems and not partial:
                    raise problems[row]
            except InputError as error:
                place = source.place(chunk, row)
                raise InputError(f"{place}: {error.message_with_field()}") from error
            if language not in found:
                found[language] = CaptionSet(
                    source.path.name,
                    *("", "", language),
                    *([], [], []),
                    stand_ins=[] if stand_in else None,
                    objects=None if objects is None else [],
                    published_as=published_as,
                    files={source.path.name: AnnotationSource(source.path).sha256()}
                    if source.path.is_file()
                    else {},
                )
            one = found[language]
            text = (texts[row] or "").strip()
            one.captions.append(captions[row])
            one.images.append(images[row])
            one.image_ids.append(_photo_name(names[row], text, chunk.start + row))
            if one.stand_ins is not None:
                one.stand_ins.append(text)
            if one.objects is not None:
                one.objects.append(things[row])
    wanted = list(dict.fromkeys(map(language_code, languages))) if languages else list(found)
    for language in wanted:
        if language not in found:
            raise InputError(
                f"{path} has no captions in {language!r}; its languages are {', '.join(found)}",
                field="languages",
            )
    sets = [_usable(found[language], partial) for language in wanted]
    return [_others_than_stand_in(one) for one in sets] if stand_in else sets


def _photo_name(name: Any, text: str, row: int) -> str:
    """Id of a photo: its name, else the text that stands for it, else its row."""
    if isinstance(name, Mapping):
        name = name.get("path")
    if isinstance(name, (str, int)) and str(name):
        return str(name)
    return text or f"row {row}"


def _objects(source: RowSource, chunk: Chunk, column: str | None) -> list[list[str]]:
    if column is None:
        return [[] for _ in range(len(chunk))]
    found = []
    for row, cell in enumerate(chunk.values(column)):
        things = cell
        if source.cells_are_text:
            try:
                things = json.loads(cell) if (cell or "").strip() else []
            except json.JSONDecodeError:
                things = None
        elif cell is None:
            things = []
        if not isinstance(things, list) or not all(isinstance(thing, str) for thing in things):
            raise InputError(
                f"{source.place(chunk, row)}: {column}: {cell!r:.60} is not a list of texts, such as "
                '["dog", "ball"]'
            )
        found.append(things)
    return found
