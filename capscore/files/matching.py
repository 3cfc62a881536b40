"""Matches rows: those of several files with each other, and those of one with the photos of another.

Rows of several files have the same id, photo, references or place. The photo of a row has the id that
another file gives it, or a name that it has there: with or without folder and suffix, or by COCO's number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import xxhash

from ..errors import InputError, Setting
from ..options import RowOptions
from ..text.languages import language_code
from .columns import FAMILIAR, OTHER_NAMES, check_column, find_reference_columns, is_missing
from .image_folder import composed, image_key, photo_names
from .row_source import RowSource

# what rows may be matched by unless "order" is asked for; what comes first is preferred
MATCHED_BY = ("id", "photo", "references")
_PHOTO_COLUMNS = (
    *FAMILIAR["image"],
    *OTHER_NAMES["image"],
    *("filepath", "path", "picture", "url", "image_id", "img_id", "question_id"),
)


def photo_key(name: str) -> str:
    """What a photo is known by: its file name without folder and suffix.

    >>> photo_key("images/00aa11bb.jpg"), photo_key("00aa11bb"), photo_key("v1.5_photo")
    ('00aa11bb', '00aa11bb', 'v1.5_photo')
    """
    return str(photo_names(name)[2])


# ---- rows with photos of another file ----


@dataclass
class PhotoIndex:
    """Photos of a file, found by their ids or by their names.

    Attributes:
        files: Photo → name of its file, where it has one. A photo is known by its id, or else by its name.
        ids: Photos that are known by their ids.
    """

    files: dict[str, str] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    # name, in each form that `photo_names` gives → photo; None if two have it
    _names: dict[str | int, str | None] = field(default_factory=dict)
    _photos: set[str] = field(default_factory=set)

    def add(self, image_id: object, name: str) -> str:
        """Add a photo, if it is new, by its id, its name or both; returns what it is known by."""
        key = image_key(image_id)
        if key is None and not name:
            raise InputError("the row names no photo")
        photo = key or composed(name)
        if photo in self._photos:
            return photo
        self._photos.add(photo)
        if key is not None:
            self.ids.add(key)
        for known in dict.fromkeys(photo_names(name or str(image_id))):
            self._names[known] = None if known in self._names else photo
        if name:
            self.files[photo] = name
        return photo

    def named(self, value: object) -> str | None:
        """The photo that a name or number means; None if there is none, or several."""
        if isinstance(value, bool) or not isinstance(value, str | int | Path):
            return None
        return next((self._names[name] for name in photo_names(str(value)) if name in self._names), None)

    def match(
        self, ids: Sequence[object], names: Sequence[object] | None = None
    ) -> tuple[list[str | None], bool]:
        """The photo of each row, or None; and whether rows were matched by ids.

        Ids count if a row has one of the photos', and no name contradicts them: then they are numbered in
        another way. With names=None, ids are all that the rows have, and may be names.
        """
        named = [self.named(value) for value in names or ids]
        photos = [self._of_id(value) for value in ids]
        if not any(photos):
            return named, False
        if names is not None:
            for photo, other in zip(photos, named, strict=True):
                if photo and other and photo != other:
                    return named, False
        return photos, True

    def _of_id(self, image_id: object) -> str | None:
        key = image_key(image_id)
        if key in self.ids:
            return key
        return None


# ---- rows of several files ----


class Key(NamedTuple):
    """What names a row: its name and language, and how many rows before it have the same."""

    name: str
    language: str
    before: int

    def __str__(self) -> str:
        text = f"{' '.join(filter(None, (self.name, self.language)))!r:.80}"
        if self.before:
            text += f", occurrence {self.before + 1}"
        return text


@dataclass(frozen=True)
class MatchedRows:
    """Rows that several files share, in the order of the first.

    Attributes:
        matched_by: What rows were matched by, in words.
        numbers: File → number of each shared row in it, from 0.
        n_left: File → number of its rows that are not shared.
        keys: What names each row.
        photos: Photo of each row, or None where nothing names photos.
        languages: Language of each row, "" where it is not stated; None without such a column.
    """

    matched_by: str
    numbers: dict[str, list[int]]
    n_left: dict[str, int]
    keys: list[Key]
    photos: list[str] | None
    languages: list[str] | None


def match_rows(
    files: Mapping[str, RowSource],
    options: RowOptions = RowOptions(),
    *,
    match_by: str | None = None,
    common_rows: bool = False,
) -> MatchedRows:
    """Match the rows of several files.

    Where rows have languages the language counts too, and rows that agree in all are matched by their order
    among each other.

    Args:
        files: Name of a file → its rows.
        options: Names of the columns of ids, images and languages, where they are unfamiliar.
        match_by: "id", "photo", "references" or "order"; None takes the first of the others that all have.
        common_rows: Whether rows that not all files have are left out; otherwise they are an error.

    Raises:
        InputError: a column that does not exist, nothing that names rows, different rows, or rows of one
            name that show different photos.
    """
    columns = {name: _naming_columns(source, options) for name, source in files.items()}
    shared = set.intersection(*map(set, columns.values()))
    how = _way_to_match(shared, match_by)
    names = {name: _names_of_rows(source, columns[name], shared) for name, source in files.items()}
    if "photo" in shared:
        _shorten_photos([*names.values()])
    keys = {name: _keys_of_rows(source, names[name], how) for name, source in files.items()}
    matched_by = how
    if how == "order":
        matched_by = "their order"
    if "language" in shared:
        matched_by += " and language"
    numbers = _shared_rows(keys, matched_by, common_rows)
    first = next(iter(files))
    in_first = numbers[first]
    languages = names[first].get("language")
    if languages is not None:
        languages = [languages[row] for row in in_first]
    return MatchedRows(
        matched_by=matched_by,
        numbers=numbers,
        n_left={name: len(keys[name]) - len(in_first) for name in files},
        keys=[keys[first][row] for row in in_first],
        photos=_photos_of(files, names, numbers, how),
        languages=languages,
    )


def _naming_columns(source: RowSource, options: RowOptions) -> dict[str, tuple[str, ...]]:
    """What names the rows of a file → its columns."""
    found: dict[str, tuple[str, ...]] = {}
    for what, option, given, familiar in (
        ("id", "id_column", options.id_column, ("id",)),
        ("photo", "image_column", options.image_column, _PHOTO_COLUMNS),
        ("language", "language_column", options.language_column, FAMILIAR["language"]),
    ):
        if given is not None:
            check_column(option, given, source.columns, f" (in {source.path})")
            found[what] = (given,)
        elif names := [name for name in familiar if name in source.columns]:
            found[what] = (names[0],)
    if references := find_reference_columns(source.columns):
        found["references"] = references
    return found


def _way_to_match(shared: Collection[str], match_by: str | None) -> str:
    if match_by is None:
        for what in MATCHED_BY:
            if what in shared:
                return what
        order = Setting("match_by", "order")
        hint = ("name the rows with ", Setting("id_column"), ", or choose ", order)
        raise InputError("the files share no column that identifies their rows; ", *hint)
    if match_by != "order" and match_by not in shared:
        expected = f": not all files have a column of {match_by.rstrip('s')}s"
        raise InputError(Setting("match_by", match_by), expected)
    return match_by


def _names_of_rows(
    source: RowSource, columns: Mapping[str, Sequence[str]], shared: Collection[str]
) -> dict[str, list[str]]:
    """What each row of a file is named by, as text ("" where nothing is), in shared columns."""
    names_of: dict[str, list[str]] = {}
    read = {what: names for what, names in columns.items() if what in shared}
    cells = iter(source.cells(*chain(*read.values()), take=_without_photo))
    for what, names in read.items():
        names_of[what] = [*map(_name_of, zip(*islice(cells, len(names)), strict=True))]
    codes = names_of.get("language", [])
    for row, code in enumerate(codes):
        try:
            codes[row] = code and language_code(code)
        except InputError as error:
            raise InputError(f"{_place(source, row)}: ", *error.parts) from None
    return names_of


def _place(source: RowSource, row: int) -> str:
    """How messages name a row."""
    return f"{source.path}, row {row} counted from 0"


def _keys_of_rows(source: RowSource, names_of: Mapping[str, list[str]], how: str) -> list[Key]:
    """The key of every row of a file."""
    names = names_of.get(how) or [str(row) for row in range(source.n_rows)]
    if "" in names:
        where = _place(source, names.index(""))
        raise InputError(f"{where}: its {how} is missing, and rows are matched by it")
    times: Counter[tuple[str, str]] = Counter()
    keys = []
    for pair in zip(names, names_of.get("language", [""] * source.n_rows), strict=True):
        keys.append(Key(*pair, times[pair]))
        times[pair] += 1
    return keys


def _name_of(cells: Iterable[object]) -> str:
    """What names a row, in one column or several, as lists or as text; "" if nothing does."""
    found: list[str] = []
    for cell in cells:
        if isinstance(cell, (list, tuple)):
            found += map(_as_text, cell)
        elif not is_missing(cell):
            found.append(_as_text(cell))
    return " | ".join(sorted(found))


def _as_text(value: object) -> str:
    """A value as names are compared; a whole number that a column with gaps holds as a float, as an int."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return composed(str(value))


def _without_photo(value: object) -> object:
    """A cell without the photo it may hold: its name, or a digest of its bytes."""
    if isinstance(value, dict) and {"path", "bytes"} & set(value):
        value = value.get("path") or value.get("bytes")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return xxhash.xxh3_128_hexdigest(value)
    return value


def _shorten_photos(files: Sequence[dict[str, list[str]]]) -> None:
    """Photos are known by their file names, unless a file has two photos of one name in two folders.

    Where files name them in other ways, suffix and zeros of a number do not count: 42, 000042.jpg.
    """
    photos = [[name.replace("\\", "/") for name in names_of["photo"]] for names_of in files]
    for form in (1, -1):
        shorter = [_in_form(names, form) for names in photos]
        same_number = [*map(len, map(set, shorter))] == [*map(len, map(set, photos))]
        if same_number and (form == 1 or _n_shared(shorter) > _n_shared(photos)):
            photos = shorter
    for names_of, names in zip(files, photos, strict=True):
        names_of["photo"] = names


def _in_form(names: Sequence[str], form: int) -> list[str]:
    return [str(photo_names(name)[form]) for name in names]


def _n_shared(columns: Sequence[Sequence[str]]) -> int:
    return len(set.intersection(*map(set, columns)))


def _shared_rows(
    keys: Mapping[str, Sequence[Key]], matched_by: str, common_rows: bool
) -> dict[str, list[int]]:
    """File → numbers of the shared rows in it, in the order of the first file."""
    shared = set.intersection(*map(set, keys.values()))
    parts = []
    for file, found in keys.items():
        lone = [str(key) for key in found if key not in shared]
        if lone:
            more = ", …" if len(lone) > 3 else ""
            count = f"{len(lone):,} of the {len(found):,} rows of {file}"
            parts.append(f"{count} are not in every file ({', '.join(lone[:3])}{more})")
    if parts and (not common_rows or not shared):
        said = f"the systems were not scored on the same rows, matched by {matched_by}: {'; '.join(parts)}; "
        if not shared:
            raise InputError(f"{said}no row is in every file")
        only = f" compares only the {len(shared):,} that all files have"
        raise InputError(said, Setting("common_rows", True), only)
    first = next(iter(keys.values()))
    order = [key for key in first if key in shared]
    numbers = {}
    for file, found in keys.items():
        row_of = {key: row for row, key in enumerate(found)}
        numbers[file] = [row_of[key] for key in order]
    return numbers


def _photos_of(
    files: Mapping[str, RowSource],
    names: Mapping[str, Mapping[str, Sequence[str]]],
    numbers: Mapping[str, Sequence[int]],
    how: str,
) -> list[str] | None:
    """The photo of each shared row, the same in all files.

    None where nothing names photos, or where files that references match name them in different ways.
    """
    first, *others = files
    if "photo" not in names[first]:
        return None
    in_first = numbers[first]
    photos = [names[first]["photo"][row] for row in in_first]
    for file in others:
        for index, row in enumerate(numbers[file]):
            other = names[file]["photo"][row]
            if other == photos[index]:
                continue
            if how == "references":
                return None
            raise InputError(
                f"{_place(files[first], in_first[index])} shows {photos[index]!r:.80} and "
                f"{_place(files[file], row)} shows {other!r:.80} (rows are matched by {how}); ",
                Setting("match_by", "photo"),
                " matches them by their photos",
            )
    return photos
