"""Rows of a scorer: as they were given and checked, and as they were measured, one by one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import xxhash

from ..errors import InputError, Setting
from ..files.columns import is_missing
from ..text.languages import language_code
from ..text.suspicious import is_empty, is_iterable, reference_list, text_problem

# the word "none" as a value, so that it differs from "no value"; it reads back as the word
_LITERAL_NONE = "%6eone"
# characters that stay as they are; "|", ":" and spaces would split the string
_SAFE = "/.@+-_,=()"
RIVAL = "rival"  # column of the captions that candidates are compared with


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """n rows, each measured alone; `Scorer.finish` turns them into `Scores`.

    They hold no images, so they can wait in memory or in a file until all rows have come.

    Attributes:
        values: Name → float64 (n,), what was measured; NaN where a row failed.
        candidates: n captions if the metric `waits` for all rows, else None.
        references: n lists of references if the metric waits, else None.
        photos: What names the photo of each row, "" where nothing does, if the metric waits, else None.
        empty_as: What rows with an empty caption get: "worst", the worst score; "score", that of a text
            without words; "skip", none: they are left out.
    """

    values: dict[str, np.ndarray]
    candidates: list[str] | None
    references: list[list[str]] | None
    photos: list[str] | None
    image_keys: list[str]
    truncated: np.ndarray
    n_references: np.ndarray
    languages: list[str]
    errors: list[str]
    empty: np.ndarray
    empty_as: str
    details: list[dict[str, Any] | None] | None = None

    def __len__(self) -> int:
        return len(self.languages)

    @cached_property
    def fine(self) -> np.ndarray:
        """bool (n,), True where a row did not fail."""
        return np.array([not error for error in self.errors], dtype=bool)

    @cached_property
    def kept(self) -> np.ndarray:
        """bool (n,), True where a row did not fail and its caption was not left out as empty."""
        return self.fine & ~self.empty if self.empty_as == "skip" else self.fine

    def row(self, index: int) -> PreparedRows:
        def cut(column: Any) -> Any:
            if isinstance(column, dict):
                return {name: cut(values) for name, values in column.items()}
            if isinstance(column, list | np.ndarray):
                return column[index : index + 1]
            return column

        names = (entry.name for entry in fields(self))
        return PreparedRows(**{name: cut(getattr(self, name)) for name in names})

    @classmethod
    def concatenate(cls, parts: Sequence[PreparedRows]) -> PreparedRows:
        """Consecutive pieces, prepared by scorers with the same settings, as one; at least one piece."""

        def joined(columns: list[Any]) -> Any:
            first = columns[0]
            if isinstance(first, dict):
                return {name: joined([column[name] for column in columns]) for name in first}
            if isinstance(first, np.ndarray):
                return np.concatenate(columns)
            if isinstance(first, list):
                return [*itertools.chain.from_iterable(columns)]
            return first

        whole = {}
        for entry in fields(cls):
            whole[entry.name] = joined([getattr(part, entry.name) for part in parts])
        return cls(**whole)


def photo_names(images: Iterable[object]) -> list[str]:
    """What names photos that are not opened: path, or digest of its bytes; "" for pixels in memory."""
    return list(map(_photo_name, images))


def _photo_name(image: object) -> str:
    if isinstance(image, Mapping):
        image = image.get("bytes") or image.get("path")
    if isinstance(image, (bytes, bytearray, memoryview)):
        return xxhash.xxh3_128_hexdigest(image)
    if isinstance(image, (str, os.PathLike)):
        return os.fsdecode(image)
    return ""


@dataclass(frozen=True)
class ExtraColumn:
    """A column that only some metrics take. Rows may come without it, or with None in it.

    Attributes:
        name: Name of the argument of `score` that takes it.
        values: Name of its values, in the plural, such as "lists of boxes".
        from_files: Whether a column of this name in a file or stream is read.
        replaces_references: Whether rows with this column may come without references.
    """

    name: str
    values: str
    type: str
    help: str
    from_files: bool = False
    replaces_references: bool = False


@dataclass
class InputRows:
    """n rows whose texts have been checked; images are not opened yet.

    Attributes:
        candidates: n captions; "" for one that is empty.
        failures: Row → what is wrong with it; without entries with on_error="raise".
        image_keys, truncated: As in `Scores`; "" and False until `Scorer.measure` sets them.
        extra: Name of an extra column → its n values, not checked yet; without columns that were not given.
        details: Details of the kept rows, set by `Scorer.measure`; None for a metric without details.
    """

    candidates: list[str]
    images: Any
    references: list[list[str]] | None
    languages: list[str]
    n_references: np.ndarray
    failures: dict[int, InputError]
    empty: np.ndarray
    image_keys: list[str]
    truncated: np.ndarray
    skips_empty: bool = False
    extra: dict[str, list[Any]] = field(default_factory=dict)
    details: Sequence[dict[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self.candidates)

    def kept(self) -> np.ndarray:
        """bool (n,), True where nothing is wrong so far, and the caption is not left out as empty."""
        kept = ~self.empty if self.skips_empty else np.ones(len(self), dtype=bool)
        kept[list(self.failures)] = False
        return kept

    def left_out(self) -> set[int]:
        return set(np.flatnonzero(~self.kept()).tolist())


def row_settings(rows: PreparedRows) -> dict[str, object]:
    """The settings of a signature that describe the rows: number of references, languages, empty captions.

    What happened to empty captions is named where there are any: only then does it change a number.
    """
    kept = np.flatnonzero(rows.kept).tolist()
    counts = {int(rows.n_references[row]) for row in kept} or {0}
    languages = {rows.languages[row] for row in kept or range(len(rows.languages))}
    ordered = sorted(languages - {""}) + ["unstated"] * ("" in languages)
    settings: dict[str, object] = {"refs": "var", "lang": "+".join(ordered)}
    if len(counts) == 1:
        settings["refs"] = counts.pop()
    if rows.empty.any():
        settings["empty"] = rows.empty_as
    return settings


def spread(kept: np.ndarray, *tables: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Tables of numbers of the kept rows, by name → the same, float64 (n,) each, NaN where a row failed."""
    found: list[dict[str, np.ndarray]] = []
    for columns in tables:
        of_all = {name: np.full(len(kept), np.nan) for name in columns}
        for name, values in columns.items():
            of_all[name][kept] = values
        found.append(of_all)
    return found


def find_empty(captions: list[Any], how: str, fail: Callable[[int, InputError], None]) -> np.ndarray:
    """Which captions are empty, bool (n,); they become "" where `how` is not "raise"."""
    empty = np.zeros(len(captions), dtype=bool)
    for row, caption in enumerate(captions):
        problem = text_problem(caption)
        if not problem:
            continue
        if not is_empty(caption):
            fail(row, InputError(f"expected a caption, got {problem}", field="candidate"))
        elif how == "raise":
            # not left to on_error: a system must not gain by saying nothing
            raise empty_caption(caption).at(row)
        else:
            captions[row], empty[row] = "", True
    return empty


def check_captions(
    candidates: Iterable[str], language: str | Iterable[str] | None
) -> tuple[list[str], list[str]]:
    """Captions without images of their own, and their languages ("" if not stated)."""
    captions = caption_list(candidates)

    def fail(row: int, error: InputError) -> None:
        raise error.at(row)

    find_empty(captions, "raise", fail)
    return captions, language_codes(language, len(captions), fail)


def caption_list(candidates: Iterable[str]) -> list[Any]:
    captions = as_list(candidates, "candidates", "captions")
    if not captions:
        raise InputError("there are no rows: candidates is empty", field="candidates")
    return captions


def empty_caption(text: str) -> InputError:
    """The error about an empty caption where nothing says what to do with it; without its row."""
    return InputError(
        f"expected a caption, got {text_problem(text)}; ",
        Setting("empty", "score"),
        " scores it as text without words, ",
        Setting("empty", "skip"),
        " leaves it out of the mean and counts it",
        field="candidate",
    )


def as_list(values: Any, name: str, what: str, n_rows: int | None = None) -> list[Any]:
    """Values as a list, of n rows if that is known; a string or a table is not a list of texts."""
    if isinstance(values, (str, bytes)):
        raise InputError(f"{values!r:.60} is one string; expected a list of {what}", field=name)
    is_table = getattr(values, "column_names", None) or getattr(values, "columns", None) is not None
    is_other = not isinstance(values, list) and not is_iterable(values)
    if isinstance(values, (Mapping, Set)) or is_table or is_other:
        raise InputError(f"got a {type(values).__name__}; expected a list of {what}", field=name)
    listed = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
    if n_rows is not None:
        check_length(name, listed, n_rows)
    return listed


def check_length(name: str, values: Any, n_rows: int) -> None:
    if len(values) != n_rows:
        raise InputError(f"got {len(values)}; expected {n_rows}, one per candidate", field=name)


def reference_lists(
    references: Any,
    n_rows: int,
    may_be_empty: bool,
    fail: Callable[[int, InputError], None],
    may_lack: Set[int] = frozenset(),
) -> list[list[str]]:
    """n lists of references; [] for a row whose list is bad, and for one of `may_lack` that has none."""
    found: list[list[str]] = []
    for row, texts in enumerate(as_list(references, "references", "lists of references", n_rows)):
        if row in may_lack and is_missing(texts):
            texts = []
        try:
            found.append(reference_list(texts, may_be_empty, row in may_lack))
        except InputError as error:
            fail(row, error)
            found.append([])
    return found


def language_codes(language: Any, n_rows: int, fail: Callable[[int, InputError], None]) -> list[str]:
    """Primary subtags; "" where the language is not stated: None, "" or a missing value."""
    if language is None:
        return [""] * n_rows
    if isinstance(language, str):
        return [language_code(language)] * n_rows
    codes = as_list(language, "language", "language codes", n_rows)
    for row, tag in enumerate(codes):
        try:
            codes[row] = "" if is_missing(tag) else language_code(tag)
        except InputError as error:
            fail(row, error)
            codes[row] = ""
    return codes


def format_signature(metric: str, settings: Mapping[str, object]) -> str:
    """The metric's name, then `key:value` for every setting, in the given order, on one line.

    >>> format_signature("mcs", {"w": 2.5, "prefix": "A photo depicts "})
    'mcs|w:2.5|prefix:A%20photo%20depicts%20'
    """
    return "|".join([metric, *(f"{key}:{_quoted(value)}" for key, value in settings.items())])


def parse_signature(signature: str) -> tuple[str, dict[str, str]]:
    """The metric's name and its settings, as text.

    >>> parse_signature("mcs|w:2.5|prefix:none")
    ('mcs', {'w': '2.5', 'prefix': 'none'})
    """
    metric, *parts = signature.split("|")
    settings = {}
    for part in parts:
        key, separator, value = part.partition(":")
        if not separator:
            raise ValueError(f"{part!r} in signature {signature!r} is not key:value")
        settings[key] = unquote(value)
    return metric, settings


def _quoted(value: object) -> str:
    if value == "none":
        return _LITERAL_NONE
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return quote(f"{value:g}" if isinstance(value, float) else str(value), safe=_SAFE)
