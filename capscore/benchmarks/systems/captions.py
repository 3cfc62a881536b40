"""Reads what captioning systems say of photos, and puts it beside the references of a set of photos."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import InputError, Setting
from ...files.columns import FAMILIAR
from ...files.read import open_rows
from ...files.row_source import CHUNK_ROWS
from ...metrics.base import empty_caption, is_empty
from ...text.languages import language_code
from ..tasks import captioned_sets

PHOTO_COLUMNS = ("image_id", *FAMILIAR["image"])
_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")


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


@dataclass(frozen=True)
class MatchedRows:
    """What is scored in one language: the photos of which all systems have a caption.

    Attributes:
        is_whole: Whether these are all photos that were published; `n_whole` are in the files.
        photos, paths, references: Names of the photos, their paths (None of a missing one), references.
        captions: System → captions of the photos.
    """

    language: str
    config: str
    is_whole: bool
    n_whole: int
    photos: list[str]
    paths: list[str | None]
    references: list[list[str]]
    captions: dict[str, list[str]]

    def keep(self, kept: Sequence[bool]) -> MatchedRows:
        """The rows of some of the photos."""
        return replace(
            self,
            is_whole=False,
            photos=[*itertools.compress(self.photos, kept)],
            paths=[*itertools.compress(self.paths, kept)],
            references=[*itertools.compress(self.references, kept)],
            captions={name: [*itertools.compress(texts, kept)] for name, texts in self.captions.items()},
        )


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
        path: File, or saved data set, with one caption per photo and language. Of a photo's name, folder and
            suffix do not count. Without a column of languages, all captions are in the one that is asked for.
        languages: Languages that are asked for; rows in others are counted and left out.
        known: Languages that a row may have; None for `languages`.
        may_be_empty: Whether a caption may be empty.

    Raises:
        InputError: a column is missing; a row without photo, language or caption; an unknown language; two
            captions of one photo in one language. Names file and row.
    """
    known = languages if known is None else known
    source = open_rows(path)
    columns = []
    for what, names in (
        ("photos", PHOTO_COLUMNS),
        ("captions", FAMILIAR["candidate"]),
        ("languages", FAMILIAR["language"]),
    ):
        columns.append(next((name for name in names if name in source.columns), None))
        if columns[-1] is None and (what != "languages" or len(languages) != 1):
            raise InputError(
                f"{path} has no column of {what}: expected one of {', '.join(names)}",
                *((", or one language by ", Setting("config")) if what == "languages" else ()),
            )
    found: dict[str, dict[str, PlacedCaption]] = {}
    n_elsewhere = 0
    for chunk in source.chunks(CHUNK_ROWS, [column for column in columns if column is not None]):
        cells = [[languages[0]] * len(chunk) if c is None else chunk.values(c) for c in columns]
        for row, (image, text, tag) in enumerate(zip(*cells, strict=True)):
            try:
                code = _known_code(tag, known)
                if code not in languages:
                    n_elsewhere += 1
                    continue
                key, of_language = key_of_cell(image, columns[0] or ""), found.setdefault(code, {})
                if key in of_language:
                    raise InputError(
                        f"a second caption of the photo {key!r:.80} in {code!r}; the first is in "
                        f"{of_language[key].place}"
                    )
                if not isinstance(text, str):
                    raise InputError(f"{text!r:.60} ({type(text).__name__}); expected a caption")
                if is_empty(text) and not may_be_empty:
                    raise InputError(*empty_caption(text).parts)
            except InputError as error:
                raise source.at(error, chunk, row) from None
            of_language[key] = PlacedCaption(text, source.place(chunk, row))
    return SystemCaptions(name, Path(path), found, n_elsewhere)


def _known_code(tag: Any, known: Sequence[str]) -> str:
    code = "" if tag in (None, "") else language_code(tag)
    if code not in known:
        raise InputError(f"there are no references in {code!r}; there are in {', '.join(known)}")
    return code


def key_of_cell(cell: Any, column: str) -> str:
    """What the photo that a cell names is known by; an InputError if it names none."""
    name = cell.get("path") if isinstance(cell, dict) else cell
    if isinstance(name, bool) or not isinstance(name, (str, int)) or not str(name).strip():
        raise InputError(f"the column {column!r} holds {cell!r:.60}; expected the name of a photo")
    return photo_key(str(name).strip())


def photo_key(name: str) -> str:
    """What a photo is known by: its file name without folder and suffix.

    >>> photo_key("images/00aa11bb.jpg"), photo_key("00aa11bb"), photo_key("v1.5_photo")
    ('00aa11bb', '00aa11bb', 'v1.5_photo')
    """
    base = name.replace("\\", "/").rpartition("/")[2]
    stem, dot, suffix = base.rpartition(".")
    return stem if stem and f"{dot}{suffix}".lower() in _SUFFIXES else base


def configs_by_language(slug: str, configs: Sequence[str] | None) -> tuple[dict[str, str], list[str]]:
    """Language → configuration: those that are named, or one for each language; and all languages.

    Raises:
        InputError: not a set of captioned photos, an unknown configuration, or two for one language.
    """
    from ..data.load import builder_class, config_name

    if slug not in captioned_sets():
        raise InputError(
            f"{slug!r} is not a set of captioned photos; those are {', '.join(captioned_sets())}"
        )
    kind = builder_class(slug)
    language = {known.name: known.language for known in kind.BUILDER_CONFIGS}
    found: dict[str, dict[str, None]] = {}
    for name in [config_name(slug, given) for given in configs] if configs else language:
        found.setdefault(language[name], {})[name] = None
    chosen = {}
    for code, names in found.items():
        usual = [name for name in names if name in (code, kind.DEFAULT_CONFIG_NAME)]
        if len(names) > 1 and (configs or len(usual) != 1):
            raise InputError(
                f"{slug} has several sets of references in {code!r}: choose one of {', '.join(names)} with ",
                Setting("config"),
            )
        chosen[code] = usual[0] if len(usual) == 1 else next(iter(names))
    return chosen, list(dict.fromkeys(language.values()))


def match_captions(
    code: str,
    config: str,
    where: str,
    rows: Sequence[tuple[str, Mapping[str, Any]]],
    systems: Sequence[SystemCaptions],
    *,
    is_whole: bool,
    common_rows: bool,
) -> MatchedRows:
    """The captions of all systems in a language, in the order of the set's photos.

    `rows` are those of the configuration; `where` names it. With `common_rows`, only photos that all systems
    with this language have are kept; otherwise a system without one of the photos is an error.

    Raises:
        InputError: a photo that the set does not have, or that a system has no caption of.
    """
    paths: dict[str, str | None] = {}
    references: dict[str, list[str]] = {}
    for _, row in rows:
        key = photo_key(row["image_id"])
        paths.setdefault(key, row["image"])
        references.setdefault(key, []).extend(row["references"])
    present = {system.name: system.captions[code] for system in systems if code in system.captions}
    for system in systems:
        captions = system.captions.get(code, {})
        for key, caption in captions.items():
            if key not in paths:
                raise InputError(f"{caption.place}: {where} has no photo {key!r:.80}")
        lacking = [key for key in paths if key not in captions]
        if lacking and not common_rows:
            raise InputError(
                f"{system.path} has no caption in {code!r} of {len(lacking):,} of the {len(paths):,} photos "
                f"of {where}, such as {lacking[0]}; ",
                Setting("common_rows", True),
                " compares systems on the languages and photos that they have in common",
            )
    both = [key for key in paths if all(key in captions for captions in present.values())]
    if not both or not present:
        raise InputError(f"no photo of {where} has a caption by {' and '.join(present) or 'any system'}")
    return MatchedRows(
        code,
        config,
        is_whole and len(both) == len(paths),
        len(paths),
        both,
        [paths[key] for key in both],
        [references[key] for key in both],
        {name: [captions[key].text for key in both] for name, captions in present.items()},
    )
