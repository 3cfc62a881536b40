"""Reads what a captioning system says of photos: a file with a photo, a language and a caption per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import InputError, Setting
from ...files.columns import FAMILIAR
from ...files.read import open_rows
from ...metrics.input_rows import empty_caption, is_empty
from ...text.languages import language_code

PHOTO_COLUMNS = ("image_id", *FAMILIAR["image"])
CAPTION_COLUMNS = FAMILIAR["candidate"]
LANGUAGE_COLUMNS = FAMILIAR["language"]
_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
_CHUNK = 4096


class PlacedCaption(NamedTuple):
    """A caption, and the place of its row in a file, in words."""

    text: str
    place: str


@dataclass(frozen=True)
class SystemCaptions:
    """What one system says.

    Attributes:
        name: Name of the system.
        path: File that was read.
        captions: Language → photo (file name without folder and suffix) → caption.
        n_elsewhere: Number of rows in languages that were not asked for.
    """

    name: str
    path: Path
    captions: Mapping[str, Mapping[str, PlacedCaption]] = field(repr=False)
    n_elsewhere: int = 0


def read_captions(
    name: str,
    path: str | Path,
    languages: Sequence[str],
    *,
    known: Sequence[str] | None = None,
    may_be_empty: bool = False,
) -> SystemCaptions:
    """Read the captions of a system.

    Args:
        name: Name of the system.
        path: JSONL, JSON, CSV, TSV or Parquet file, or saved data set, with one caption per photo and
            language. Of a photo's name, folder and suffix do not count. If there is no column of languages,
            all captions are in the only language that is asked for.
        languages: Languages that are asked for; rows in others are counted and left out.
        known: Languages that a row may have; None for `languages`.
        may_be_empty: Whether a caption may be empty.

    Raises:
        InputError: no column of photos or captions; a row without photo, language or caption; an unknown
            language; two captions of one photo in one language. Names file and row.

    >>> read_captions("small", "small.jsonl", ["de"]).captions["de"]["00aa"].text       # doctest: +SKIP
    'ein Hund am Strand'
    """
    path = Path(path)
    known = languages if known is None else known
    source = open_rows(path)
    photo = _column(path, source.columns, PHOTO_COLUMNS, "photos")
    caption = _column(path, source.columns, CAPTION_COLUMNS, "captions")
    language = next((one for one in LANGUAGE_COLUMNS if one in source.columns), None)
    if language is None and len(languages) != 1:
        raise InputError(
            f"{path} has no column of languages ({' or '.join(LANGUAGE_COLUMNS)}), and its captions could be "
            f"in any of {', '.join(languages)}: name one with ",
            Setting("config"),
        )
    found: dict[str, dict[str, PlacedCaption]] = {}
    n_elsewhere = 0
    columns = [one for one in (photo, caption, language) if one is not None]
    for chunk in source.chunks(_CHUNK, columns):
        cells = zip(
            chunk.values(photo),
            chunk.values(caption),
            [languages[0]] * len(chunk) if language is None else chunk.values(language),
            strict=True,
        )
        for row, (image, text, tag) in enumerate(cells):
            place = source.place(chunk, row)
            code = _code(tag, place, known)
            if code not in languages:
                n_elsewhere += 1
                continue
            key = _photo(image, place, photo)
            own = found.setdefault(code, {})
            if key in own:
                raise InputError(
                    f"{place}: a second caption of the photo {key!r:.80} in {code!r}; the first is in "
                    f"{own[key].place}: expected one caption per photo and language"
                )
            own[key] = PlacedCaption(_text(text, place, may_be_empty), place)
    return SystemCaptions(name, path, found, n_elsewhere)


def photo_key(name: str) -> str:
    """What a photo is known by: its file name without folder and suffix.

    >>> photo_key("images/00aa11bb.jpg"), photo_key("00aa11bb"), photo_key("v1.5_photo")
    ('00aa11bb', '00aa11bb', 'v1.5_photo')
    """
    base = name.replace("\\", "/").rpartition("/")[2]
    stem, dot, suffix = base.rpartition(".")
    return stem if stem and f"{dot}{suffix}".lower() in _SUFFIXES else base


def _column(path: Path, columns: Sequence[str], names: Sequence[str], what: str) -> str:
    found = next((name for name in names if name in columns), None)
    if found is None:
        raise InputError(
            f"{path} has no column of {what}: expected one of {', '.join(names)}; it has {', '.join(columns)}"
        )
    return found


def _code(tag: Any, place: str, known: Sequence[str]) -> str:
    if tag is None or tag == "":
        raise InputError(f"{place}: the language is missing; expected one of {', '.join(known)}")
    try:
        code = language_code(tag)
    except InputError as error:
        raise InputError(f"{place}: ", *error.parts) from None
    if code not in known:
        raise InputError(f"{place}: there are no references in {code!r}; there are in {', '.join(known)}")
    return code


def _photo(cell: Any, place: str, column: str) -> str:
    name = cell.get("path") if isinstance(cell, dict) else cell
    if isinstance(name, bool) or not isinstance(name, (str, int)) or not str(name).strip():
        raise InputError(f"{place}: the column {column!r} holds {cell!r:.60}; expected the name of a photo")
    return photo_key(str(name).strip())


def _text(text: Any, place: str, may_be_empty: bool) -> str:
    if not isinstance(text, str):
        raise InputError(f"{place}: {text!r:.60} ({type(text).__name__}); expected a caption")
    if is_empty(text) and not may_be_empty:
        raise InputError(f"{place}: ", *empty_caption(text).parts)
    return text
