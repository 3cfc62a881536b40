"""Matches rows: those of several files with each other, and those of one with the photos of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

import xxhash

from ..errors import InputError, Setting
from ..options import RowOptions
from ..text.languages import language_code
from .columns import FAMILIAR, OTHER_NAMES, check_column, find_reference_columns, is_missing, named_columns
from .photo_names import KnownNames, NameMatches, composed, id_text
from .row_source import RowSource

# what rows may be matched by unless "order" is asked for; what comes first is preferred
MATCHED_BY = ("id", "photo", "references")
PHOTO_COLUMNS = (
    *FAMILIAR["image"],
    *OTHER_NAMES["image"],
    *("filepath", "path", "picture", "url", "image_id", "img_id", "question_id"),
)


@dataclass
class PhotoIndex:
    """Photos of a file, found by their ids or by their names.

    Attributes:
        files: Photo → name of its file, where it has one. A photo is known by its id, or else by its name.
    """

    files: dict[str, str] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    _photos: dict[str, str] = field(default_factory=dict)  # name, or id where there is none → photo

    def add(self, image_id: object, name: str) -> str:
        """Add a photo, if it is new, by its id, its name or both; returns what it is known by."""
        key, name = id_text(image_id), composed(name)
        if not key and not name:
            raise InputError("the row names no photo")
        photo = key or name
        if photo in self.files or photo in self.ids:
            return photo
        if key:
            self.ids.add(key)
        if name:
            self.files[photo] = name
        label = name or key
        self._photos[label] = "" if label in self._photos else photo  # a name that two have means neither
        return photo

    def match(self, ids: Sequence[object], names: Sequence[object] | None = None) -> PhotoMatches:
        """The photo of each row.

        Ids count if a row has one of the photos', and no name contradicts them: then they are numbered in
        another way. With names=None, ids are all that the rows have, and may be names.
        """
        texts = [*map(id_text, ids)]
        named = texts if names is None else [*map(id_text, names)]
        by_name = KnownNames(self._photos).match(filter(None, named))
        by_id = KnownNames(self.ids).match(filter(None, texts))
        of_names = [self._photos.get(by_name.matches.get(name, "")) or None for name in named]
        of_ids = [by_id.matches.get(text) for text in texts]
        pairs = zip(of_ids, of_names, strict=True)
        if not any(of_ids) or (names is not None and any(a and b and a != b for a, b in pairs)):
            return PhotoMatches(
                of_names, False, [by_name.problems.get(name, "") for name in named], by_name.notes
            )
        return PhotoMatches(of_ids, True, [by_id.problems.get(text, "") for text in texts], by_id.notes)


class PhotoMatches(NamedTuple):
    """The photos of rows.

    Attributes:
        problems: For each row without a photo, what came near; "" if nothing did.
    """

    photos: list[str | None]
    by_id: bool
    problems: list[str]
    notes: list[str]


@dataclass(frozen=True)
class HeldOut:
    """What a list of photos means among rows.

    Attributes:
        rows: Numbers of the rows whose photo is on the list.
        unmatched: Other names of the list → why they mean none.
    """

    rows: list[int]
    n_matched: int
    unmatched: dict[str, str]
    ambiguous: list[str]
    notes: list[str]

    def sentence(self) -> str:
        """How many names matched, and the first that did not."""
        n_names = self.n_matched + len(self.unmatched)
        said = f"{self.n_matched:,} of the {n_names:,} names on the list match a photo"
        for name, why in [*self.unmatched.items()][:1]:
            said += f" (not: {name!r:.60}: {why})"
        return said


def match_hold_out(names: Iterable[str], rows: Sequence[Sequence[str]]) -> HeldOut:
    """Rows of the photos that a list names, by the rules by which rows are matched with references.

    A name that could mean several photos means none.

    Args:
        rows: For each row, the names of its photo as the file has them, with their folders: first the one
            that tells photos apart, such as the path, then others, such as an id.

    >>> rows = [["dog/1.jpg", "42"], ["dog/1.jpg", "42"], ["bus/1.jpg", "43"], ["cat/2.jpg", "44"]]
    >>> found = match_hold_out(["/data/dog/1.jpg", "043", "1.jpg", "x"], rows)
    >>> found.rows, found.n_matched, found.unmatched
    ([0, 1, 2], 2, {'1.jpg': "it could be 'dog/1.jpg' and 'bus/1.jpg'", 'x': 'no photo has this name'})
    """
    photos: dict[str, set[str]] = {}
    for labels in rows:
        for label in labels:
            photos.setdefault(composed(label), set()).add(labels[0])
    known = {label: tuple(sorted(of_label)) for label, of_label in photos.items()}
    found = KnownNames(known).match(map(composed, names), one_to_one=False)
    held = set(chain.from_iterable(known[label] for label in found.matches.values()))
    unmatched = {}
    for name in dict.fromkeys(map(composed, names)):
        if name not in found.matches:
            unmatched[name] = found.problems.get(name, "no photo has this name")
    numbers = [number for number, labels in enumerate(rows) if labels and labels[0] in held]
    return HeldOut(numbers, len(found.matches), unmatched, found.ambiguous, found.notes)


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
        photos: Photo of each row, or None where nothing names photos.
        languages: Language of each row, "" where it is not stated; None without such a column.
    """

    matched_by: str
    numbers: dict[str, list[int]]
    n_left: dict[str, int]
    keys: list[Key]
    photos: list[str] | None
    languages: list[str] | None
    notes: list[str]


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
        match_by: "id", "photo", "references" or "order"; None takes the first of the others that all have.
        common_rows: Whether rows that not all files have are left out; otherwise they are an error.
    """
    columns = {name: _naming_columns(source, options) for name, source in files.items()}
    shared = set.intersection(*map(set, columns.values()))
    how = _way_to_match(shared, match_by)
    names = {name: _names_of_rows(source, columns[name], shared) for name, source in files.items()}
    unified = NameMatches()
    if "photo" in shared:
        unified = _unify_photos([*names.values()])
    keys = {name: _keys_of_rows(source, names[name], how) for name, source in files.items()}
    matched_by = how
    if how == "order":
        matched_by = "their order"
    if "language" in shared:
        matched_by += " and language"
    numbers = _shared_rows(keys, matched_by, common_rows, unified.problems)
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
        notes=unified.notes,
    )


def _naming_columns(source: RowSource, options: RowOptions) -> dict[str, tuple[str, ...]]:
    """What names the rows of a file → its columns."""
    found: dict[str, tuple[str, ...]] = {}
    for what, option, given, familiar in (
        ("id", "id_column", options.id_column, ("id",)),
        ("photo", "image_column", options.image_column, PHOTO_COLUMNS),
        ("language", "language_column", options.language_column, FAMILIAR["language"]),
    ):
        if given is not None:
            found[what] = (check_column(option, given, source.columns, f" (in {source.path})"),)
        elif names := named_columns(familiar, source.columns):
            found[what] = (names[0],)
    # of a file of references, that is the name of its own column
    given = options.references_column if options.references is None else None
    if references := find_reference_columns(source.columns, given):
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
    return f"{source.path}, row {row}, counted from 0"


def _keys_of_rows(source: RowSource, names_of: Mapping[str, list[str]], how: str) -> list[Key]:
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


def _unify_photos(files: Sequence[dict[str, list[str]]]) -> NameMatches:
    """Name the photos of all files as the first file does; returns why some have no match there."""
    first, *others = files
    known = KnownNames(filter(None, first["photo"]))
    found = NameMatches()
    for names_of in others:
        matched = known.match(filter(None, names_of["photo"]))
        names_of["photo"] = [matched.matches.get(name, name) for name in names_of["photo"]]
        found.problems |= matched.problems
        found.notes += matched.notes
    return found


def _shared_rows(
    keys: Mapping[str, Sequence[Key]], matched_by: str, common_rows: bool, problems: Mapping[str, str]
) -> dict[str, list[int]]:
    """File → numbers of the shared rows in it, in the order of the first file."""
    shared = set.intersection(*map(set, keys.values()))
    parts = []
    for file, found in keys.items():
        lone = []
        for key in found:
            if key not in shared:
                near = problems.get(key.name)
                lone.append(f"{key}: {near}" if near else str(key))
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
    """The photo of each shared row, the same in all files."""
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
