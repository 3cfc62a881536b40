"""Reads files that `capscore score` wrote for several systems, and puts their rows in one order.

In: files with a score column, and what names a row in all of them. Out: float64 scores of the same rows per
metric and system, with photos and languages; or an error that says which rows differ.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from ..errors import CapscoreError, InputError, Setting
from ..files.columns import FAMILIAR, check_column, find_columns, is_missing
from ..files.read import open_rows
from ..files.row_source import RowSource
from ..files.write import summary_path
from ..registry import METRICS
from .systems import check_same_signatures

MATCHED_BY = ("id", "photo", "references", "order")
_CHUNK = 4096
# columns that name photos here, besides those that are read as images
_PHOTO_COLUMNS = ("image_file", "filename", "filepath", "path", "photo", "picture", "url")
_SHOWN = 3  # rows that an error names


@dataclass(frozen=True)
class SystemRows:
    """Scores of several systems on the same rows.

    Attributes:
        scores: Metric → system → float64 (n,).
        photos: Photo of each row, or None.
        languages: Language of each row, "" where it is not stated; None without such a column.
        matched_by: What rows were matched by, in words.
        n_left: System → number of its rows that were left out.
        signatures: Metric → signature, where a summary states it.
        corpus: Metric → system → numbers of all rows together, which are no means.
        notes: Remarks that a reader needs.
        sources: System → its file.
        places: System → number of each row in its file, counted from 0.
        image_column: Column of photos of the first system's file; None without one.
    """

    scores: dict[str, dict[str, np.ndarray]]
    photos: list[str] | None
    languages: list[str] | None
    matched_by: str
    n_left: dict[str, int]
    signatures: dict[str, str]
    corpus: dict[str, dict[str, dict[str, float]]]
    notes: list[str]
    sources: dict[str, RowSource]
    places: dict[str, list[int]]
    image_column: str | None


@dataclass
class _System:
    """One file: its rows and summary, the columns of what names a row, their cells, and a key per row."""

    name: str
    source: RowSource
    summary: dict[str, Any]
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    cells: dict[str, list[Any]] = field(default_factory=dict)
    keys: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """The summary's metrics; empty if it says nothing."""
        found = self.summary.get("metrics")
        return {k: v for k, v in found.items() if isinstance(v, dict)} if isinstance(found, dict) else {}

    def place(self, row: int) -> str:
        """How messages name a row."""
        return f"{self.source.path}, row {row} counted from 0"

    def signature(self, column: str) -> str | None:
        """The signature of the metric that a column belongs to; None if the summary names none."""
        for metric, stated in self.metrics.items():
            parts = [name.removeprefix("mean_") for name in stated if name.startswith("mean_")]
            if column in (metric, *parts, *(f"{metric}_{part}" for part in parts)):
                return str(stated.get("signature")) if stated.get("signature") else None
        return None


def read_systems(
    files: Mapping[str, Path],
    metrics: Sequence[str] | None = None,
    *,
    match_by: str | None = None,
    id_column: str | None = None,
    image_column: str | None = None,
    language_column: str | None = None,
    common_rows: bool = False,
) -> SystemRows:
    """Read the scores of several systems, and match their rows.

    Rows are matched by their id; without one by photo, by references, or by order. Where rows have languages
    the language counts too, and rows that agree in all are matched by their order among each other.

    Args:
        files: System → file of scored rows, of any kind that `capscore score` reads.
        metrics: Columns of scores; None takes all metrics that the files have in common.
        match_by: "id", "photo", "references" or "order"; None takes the first that all files have.
        id_column, image_column, language_column: Names of columns that are called something unfamiliar.
        common_rows: Whether rows that not all systems have a score for are left out; otherwise they are an
            error.

    Raises:
        InputError: a file or column that does not exist, a score that is not a number, different rows, or
            different signatures.
    """
    systems = [_System(name, open_rows(path), _summary(Path(path))) for name, path in files.items()]
    columns = _metric_columns(systems, metrics)
    for system in systems:
        system.columns = _row_columns(system, id_column, image_column, language_column)
    shared = {what for what in systems[0].columns if all(system.columns[what] for system in systems)}
    notes = _check_signatures(systems, columns, common_rows)
    for system in systems:
        _read_cells(system, columns, shared)
    matched_by, how = _match(systems, shared, match_by)
    places, n_left = _same_rows(systems, matched_by, common_rows)
    languages = None
    if "language" in shared:
        languages = [systems[0].cells["language"][place] for place in places[0]]
    scores = {
        column: {
            system.name: np.array([system.cells[column][place] for place in rows])
            for system, rows in zip(systems, places, strict=True)
        }
        for column in columns
    }
    if not common_rows:
        _refuse_missing_scores(scores, systems, places)
    return SystemRows(
        scores=scores,
        photos=_photos(systems, shared, places, how),
        languages=languages,
        matched_by=matched_by,
        n_left=n_left,
        signatures={c: s for c in columns for s in [systems[0].signature(c)] if s},
        corpus={c: found for c in columns if (found := _corpus(systems, c))},
        notes=notes,
        sources={system.name: system.source for system in systems},
        places={system.name: list(rows) for system, rows in zip(systems, places, strict=True)},
        image_column=next(iter(systems[0].columns["photo"]), None),
    )


def _summary(path: Path) -> dict[str, Any]:
    """The summary beside a file of scores; empty if there is none."""
    place = summary_path(path)
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{place}, the summary of {path}, cannot be read: {error}") from None
    return found if isinstance(found, dict) else {}


def _metric_columns(systems: Sequence[_System], metrics: Sequence[str] | None) -> list[str]:
    if metrics:
        for system in systems:
            for metric in metrics:
                if metric not in system.source.columns:
                    check_column_of(system, "metric", metric)
        return list(dict.fromkeys(metrics))
    known = {*METRICS.names(), "score", *(metric for system in systems for metric in system.metrics)}
    first = systems[0].source.columns
    common = [one for one in first if one in known and all(one in s.source.columns for s in systems)]
    if not common:
        listed = "; ".join(f"{s.name}: {', '.join(s.source.columns[:20])}" for s in systems)
        raise InputError(
            Setting("metric"), f": the files have no metric in common; name a column of scores ({listed})"
        )
    return common


def check_column_of(system: _System, option: str, column: str) -> None:
    """Raise InputError, with the system's name, if its file lacks a column that an option names."""
    try:
        check_column(option, column, system.source.columns)
    except InputError as error:
        raise InputError(*error.parts, f" (in {system.source.path})") from None


def _row_columns(
    system: _System, id_column: str | None, image_column: str | None, language_column: str | None
) -> dict[str, tuple[str, ...]]:
    """What names a row → its columns; () where the file has none."""
    given = {"id_column": id_column, "image_column": image_column, "language_column": language_column}
    for option, column in given.items():
        if column is not None:
            check_column_of(system, option, column)
    columns = system.source.columns
    photo = next((name for name in (*FAMILIAR["image"], *_PHOTO_COLUMNS) if name in columns), None)
    language = next((one for one in FAMILIAR["language"] if one in columns), None)
    found = [one for one in columns if one in FAMILIAR["references"] or one.startswith("reference")]
    references: tuple[str, ...] = ()
    if found:
        references = find_columns(
            [*found, "caption"], with_images=False, with_references=True, with_language=False
        ).references
    return {
        "id": (id_column,) if id_column else ("id",) if "id" in columns else (),
        "photo": (image_column,) if image_column else (photo,) if photo else (),
        "references": references,
        "language": (language_column,) if language_column else (language,) if language else (),
    }


def _check_signatures(systems: Sequence[_System], columns: Sequence[str], common_rows: bool) -> list[str]:
    """Refuse scores that depend on different things; notes on those that state nothing."""
    notes = []
    for column in columns:
        stated = {s.name: signature for s in systems if (signature := s.signature(column))}
        try:
            # other rows may be in other languages
            check_same_signatures(stated, without=("lang",) if common_rows else ())
        except InputError as error:
            raise InputError(f"{column}: ", *error.parts) from None
        except ValueError as error:  # a summary that somebody edited
            raise InputError(f"{column}: a summary holds no signature that can be read: {error}") from None
        silent = [s.name for s in systems if s.name not in stated]
        if silent:
            notes.append(
                f"{column}: no summary beside the file says how {', '.join(silent)} "
                f"{'was' if len(silent) == 1 else 'were'} scored; whether the settings agree is not checked"
            )
    return notes


def _read_cells(system: _System, metrics: Sequence[str], shared: Collection[str]) -> None:
    """Read what is needed: scores by the names of their columns, and what names a row by what it is."""
    from ..text.languages import language_code

    wanted = [*metrics, *(column for what in shared for column in system.columns[what])]
    cells: dict[str, list[Any]] = {column: [] for column in wanted}
    for chunk in system.source.chunks(_CHUNK, [*cells]):
        for column, values in cells.items():
            values += map(_small, chunk.values(column))
    for column in metrics:
        numbers = enumerate(cells[column])
        system.cells[column] = [_number(value, row, system, column) for row, value in numbers]
    for what in shared:
        rows = zip(*(cells[column] for column in system.columns[what]), strict=True)
        if what == "references":
            found = [" | ".join(sorted(_texts(row))) for row in rows]
        else:
            found = ["" if is_missing(cell) else str(cell) for (cell,) in rows]
        if what == "language":
            for row, code in enumerate(found):
                try:
                    found[row] = language_code(code) if code else ""
                except InputError as error:
                    raise InputError(f"{system.place(row)}: ", *error.parts) from None
        system.cells[what] = found


def _small(value: Any) -> Any:
    """A cell without the photo it may hold: its name, or a digest of its bytes."""
    if isinstance(value, dict) and {"path", "bytes"} & set(value):
        inside, name = value.get("bytes"), value.get("path")
        return name if name or not inside else xxhash.xxh3_128_hexdigest(inside)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return xxhash.xxh3_128_hexdigest(value)
    return value


def _number(value: Any, row: int, system: _System, column: str) -> float:
    if is_missing(value):
        return math.nan
    try:
        number = math.inf if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.inf
    if math.isinf(number):
        raise InputError(
            f"{system.place(row)}: the column {column!r} holds {value!r:.40}; expected a finite number"
        )
    return number


def _match(systems: Sequence[_System], shared: Collection[str], match_by: str | None) -> tuple[str, str]:
    """Give every row its key; what rows are matched by, in words, and as one of `MATCHED_BY`."""
    how = match_by or next((one for one in MATCHED_BY if one in shared), "order")
    if how != "order" and how not in shared:
        raise InputError(Setting("match_by", how), f": not all files have a column of {how.rstrip('s')}s")
    if "photo" in shared:
        _shorten_photos(systems)
    for system in systems:
        numbers = [str(row) for row in range(system.source.n_rows)]
        named = numbers if how == "order" else system.cells[how]
        if not all(named):
            row = named.index("")
            raise InputError(f"{system.place(row)}: its {how} is missing, and rows are matched by it")
        spoken = system.cells["language"] if "language" in shared else [""] * len(named)
        times: Counter[tuple[str, str]] = Counter()
        system.keys = []
        for name, language in zip(named, spoken, strict=True):
            system.keys.append((name, language, times[name, language]))
            times[name, language] += 1
    words = "their order" if how == "order" else how
    return words + (" and language" if "language" in shared else ""), how


def _shorten_photos(systems: Sequence[_System]) -> None:
    """Photos are known by their file names, unless a file has two photos of one name in two folders."""
    paths = [[one.replace("\\", "/") for one in system.cells["photo"]] for system in systems]
    names = [[one.rpartition("/")[2] for one in rows] for rows in paths]
    ambiguous = any(len(set(a)) < len(set(b)) for a, b in zip(names, paths, strict=True))
    for system, found in zip(systems, paths if ambiguous else names, strict=True):
        system.cells["photo"] = found


def _texts(cells: Iterable[Any]) -> list[str]:
    """References of a row, in one column or several, as lists or as text."""
    found: list[str] = []
    for cell in cells:
        found += (
            map(str, cell) if isinstance(cell, (list, tuple)) else [] if is_missing(cell) else [str(cell)]
        )
    return found


def _same_rows(
    systems: Sequence[_System], matched_by: str, common_rows: bool
) -> tuple[list[list[int]], dict[str, int]]:
    """Places of the shared rows in each file, in the order of the first; number of rows left out of each.

    Raises:
        InputError: not all rows are shared, and they should be; or none is.
    """
    kept = set.intersection(*(set(system.keys) for system in systems))
    n_left = {system.name: len(system.keys) - len(kept) for system in systems}
    lone = {s.name: [key for key in s.keys if key not in kept] for s in systems if n_left[s.name]}
    if lone and (not common_rows or not kept):
        told = "; ".join(
            f"{len(keys):,} of the {len(keys) + len(kept):,} rows of {name} are not in every file "
            f"({', '.join(map(_shown, keys[:_SHOWN]))}{', …' if len(keys) > _SHOWN else ''})"
            for name, keys in lone.items()
        )
        hint = (
            ("; ", Setting("common_rows", True), f" compares only the {len(kept):,} that all files have")
            if kept
            else ("; no row is in every file",)
        )
        raise InputError(
            f"the systems were not scored on the same rows, matched by {matched_by}: {told}", *hint
        )
    places = []
    order = [key for key in systems[0].keys if key in kept]
    for system in systems:
        place_of = {key: place for place, key in enumerate(system.keys)}
        places.append([place_of[key] for key in order])
    return places, n_left


def _shown(key: tuple[str, str, int]) -> str:
    *parts, time = key
    more = f", occurrence {time + 1}" if time else ""
    return f"{' '.join(part for part in parts if part)!r:.80}{more}"


def _photos(
    systems: Sequence[_System], shared: Collection[str], places: Sequence[Sequence[int]], how: str
) -> list[str] | None:
    """The photo of each shared row; where references match rows, those stand for the photo.

    Raises:
        InputError: two systems have different photos in one row.
    """
    if how == "references":
        return [systems[0].keys[place][0] for place in places[0]]
    if "photo" not in shared:
        return None
    photos = [systems[0].cells["photo"][place] for place in places[0]]
    for system, rows in zip(systems[1:], places[1:], strict=True):
        for first, expected, place in zip(places[0], photos, rows, strict=True):
            found = system.cells["photo"][place]
            if found != expected:
                raise InputError(
                    f"row {first} of {systems[0].name} shows {expected!r:.80} and the same row of "
                    f"{system.name} shows {found!r:.80} (rows are matched by {how}); ",
                    Setting("match_by", "photo"),
                    " matches them by their photos",
                )
    return photos


def _refuse_missing_scores(
    scores: Mapping[str, Mapping[str, np.ndarray]],
    systems: Sequence[_System],
    places: Sequence[Sequence[int]],
) -> None:
    for column, by_system in scores.items():
        lacking = np.isnan([*by_system.values()])
        if lacking.any():
            number = int(lacking.any(axis=1).argmax())
            row = int(lacking[number].argmax())
            counts = ", ".join(
                f"{int(some.sum()):,} of {name}"
                for name, some in zip(by_system, lacking, strict=True)
                if some.any()
            )
            raise InputError(
                f"{column}: rows without a score ({counts}; the first is "
                f"{_shown(systems[number].keys[places[number][row]])}); ",
                Setting("common_rows", True),
                " compares only the rows that every system has a score for",
            )


def _corpus(systems: Sequence[_System], column: str) -> dict[str, dict[str, float]]:
    """Numbers of all rows together that the summaries state for a metric, per system."""
    try:
        names = METRICS.get(column).corpus_names
    except CapscoreError:  # not one of our metrics
        return {}
    found = {}
    for system in systems:
        stated = system.metrics.get(column, {})
        numbers = {name: stated[name] for name in names if isinstance(stated.get(name), (int, float))}
        if numbers:
            found[system.name] = numbers
    return found
