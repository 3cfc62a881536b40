"""People's side-by-side ratings of two systems: a file, or published ones; their gains out.

A gain is the share of photos on which most raters prefer the second system, minus the share on which they
prefer the first (Thapliyal et al. 2022, §3.3), times 100 as it is printed.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...files.read import open_rows
from ...statistics.agreement import SystemLevel, side_by_side
from ...text.languages import language_code
from .captions import PHOTO_COLUMNS, photo_key

PUBLISHED = "published"  # in place of a file
_PAIR = ("system_a", "system_b", "language")
_VALUES = ("gain", "rating")
# Table 6: evaluations that a line of it is about
_SETS = {"all": ("core", "ext"), "ext": ("ext",), "core": ("core",)}
_CHUNK = 4096


@dataclass(frozen=True)
class Evaluation:
    """People's side-by-side comparison of two systems in one language.

    Attributes:
        first, second: Names of the systems.
        language: Language of the captions.
        gain: Gain of the second over the first, above 0 where people prefer the second.
        n_photos: Number of photos behind it; None where only the gain is known.
    """

    first: str
    second: str
    language: str
    gain: float
    n_photos: int | None = None

    def gain_of(self, system: str) -> float:
        """The gain of one of the two over the other."""
        return self.gain if system == self.second else -self.gain


@dataclass(frozen=True)
class PublishedAgreement:
    """A correlation of Thapliyal et al. 2022, Table 6, computed from the numbers of Tables 5 and 7.

    Attributes:
        languages: Languages of the evaluations: "all", "ext" or "core".
        references: References that CIDEr was computed with: "xm600", "xm3600" or "coco_dev_translated".
        level: The correlations.
        printed: "pearson", "spearman" and "tau_b" → printed value.
    """

    languages: str
    references: str
    level: SystemLevel
    printed: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "languages": self.languages,
            "references": self.references,
            "n_points": self.level.n_points,
            "values": dict(self.level.values),
            "printed": dict(self.printed),
        }


def read_evaluations(path: str | Path) -> list[Evaluation]:
    """Read side-by-side ratings.

    Args:
        path: JSONL, JSON, CSV, TSV or Parquet file with the columns `system_a`, `system_b` and `language`,
            and one of two more. `gain` is the gain of `system_b` over `system_a`, one row per pair and
            language. `rating` is how much better one rater finds the caption of `system_b` (below 0: worse),
            one row per photo and rater, with the photo in `image_id`; a system wins a photo if more than half
            of its raters prefer it.

    Returns:
        The evaluations, one per pair and language, in the order of the file.

    Raises:
        InputError: a column is missing, a value is missing or not a number, a system is compared with itself,
            an unknown language, or the same evaluation twice. Names file and row.

    >>> read_evaluations("people.csv")[0]                                              # doctest: +SKIP
    Evaluation(first='small', second='large', language='de', gain=12.5, n_photos=None)
    """
    path = Path(path)
    source = open_rows(path)
    lacking = [name for name in _PAIR if name not in source.columns]
    values = [name for name in _VALUES if name in source.columns]
    if lacking or len(values) != 1:
        raise InputError(
            f"{path}: expected the columns {', '.join(_PAIR)} and one of {' or '.join(_VALUES)}; it has "
            f"{', '.join(source.columns)}"
        )
    (value,) = values
    photo = next((name for name in PHOTO_COLUMNS if name in source.columns), None)
    if value == "rating" and photo is None:
        raise InputError(f"{path} has single ratings, so it needs a column image_id with their photos")
    gains: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    places: dict[tuple[str, str, str], str] = {}
    for chunk in source.chunks(_CHUNK):
        for row, cells in enumerate(chunk.dicts()):
            place = source.place(chunk, row)
            first, second, language = _pair(cells, place)
            number = _number(cells.get(value), value, place)
            # a pair may be named in either order
            key = (first, second, language)
            if (second, first, language) in gains:
                key, number = (second, first, language), -number
            if value == "gain" and key in gains:
                raise InputError(
                    f"{place}: a second gain of {first!r} and {second!r} in {language!r}; the first is in "
                    f"{places[key]}"
                )
            shown = "" if value == "gain" or photo is None else _photo(cells.get(photo), photo, place)
            gains.setdefault(key, []).append((shown, number))
            places.setdefault(key, place)
    return [
        Evaluation(*key, found[0][1]) if value == "gain" else Evaluation(*key, *_gain(found))
        for key, found in gains.items()
    ]


def published_evaluations() -> list[Evaluation]:
    """The 65 evaluations of Thapliyal et al. 2022, Tables 5 and 7.

    >>> published_evaluations()[0]
    Evaluation(first='BB+CC', second='BB', language='en', gain=-38.9, n_photos=None)
    """
    return [Evaluation(*row[:4]) for part in _content()["evaluations"].values() for row in part["rows"]]


def published_scores(benchmark: str, metric: str, language: str) -> dict[str, float]:
    """Model → printed score of its captions in a language; {} where nothing is printed.

    >>> published_scores("xm3600", "cider", "en")
    {'BB+CC': 0.584, 'Bg': 0.337, 'Lg': 0.343, 'BB': 0.297}
    """
    content = _content()
    if (benchmark, metric) != (content["benchmark"], content["metric"]):
        return {}
    return {
        model: part["values"][language][part["references"].index(benchmark)]
        for model, part in content["scores"].items()
        if language in part["values"]
    }


def published_citation() -> str:
    """Where the published numbers are printed, short enough for a line below a table."""
    from ..published import sources

    return f"{sources()[_content()['source']].short}, Tables 5 to 11"


def published_agreement() -> list[PublishedAgreement]:
    """Thapliyal et al. 2022, Table 6, line by line: computed from Tables 5 and 7, beside what is printed.

    >>> [round(one.level.values["pearson"], 2) for one in published_agreement()][:3]
    [0.88, 0.88, 0.68]
    """
    from ..published import find

    content = _content()
    printed = {
        (one.setting, one.statistic): one.value
        for one in find(content["benchmark"], "all", content["metric"])
        if one.source == content["source"]
    }
    found = []
    for languages, parts in _SETS.items():
        rows = [row for part in parts for row in content["evaluations"][part]["rows"]]
        for place, references in enumerate(content["references"]):
            level = side_by_side([row[4 + place] for row in rows], [row[3] for row in rows])
            setting = f"{languages}_languages+references_of_{references}"
            names = {"pearson": "pearson", "spearman": "spearman", "tau_b": "kendall"}
            values = {own: printed[setting, f"system_{theirs}"] for own, theirs in names.items()}
            found.append(PublishedAgreement(languages, references, level, values))
    return found


def _pair(cells: Mapping[str, Any], place: str) -> tuple[str, str, str]:
    for name in _PAIR:
        if not isinstance(cells.get(name), str) or not cells[name].strip():
            raise InputError(f"{place}: the column {name!r} holds {cells.get(name)!r:.60}; expected a name")
    first, second = cells["system_a"].strip(), cells["system_b"].strip()
    if first == second:
        raise InputError(f"{place}: {first!r} is compared with itself; expected two systems")
    try:
        return first, second, language_code(cells["language"])
    except InputError as error:
        raise InputError(f"{place}: ", *error.parts) from None


def _number(cell: Any, column: str, place: str) -> float:
    try:
        number = math.nan if isinstance(cell, bool) or cell is None else float(cell)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{place}: the column {column!r} holds {cell!r:.60}; expected a finite number")
    return number


def _photo(cell: Any, column: str, place: str) -> str:
    if cell is None or not str(cell).strip():
        raise InputError(f"{place}: the column {column!r} is empty; expected the photo of this rating")
    return photo_key(str(cell).strip())


def _gain(ratings: Sequence[tuple[str, float]]) -> tuple[float, int]:
    """(photo, rating) of every rater → gain times 100, and the number of photos."""
    raters, better, worse = Counter[str](), Counter[str](), Counter[str]()
    for photo, rating in ratings:
        raters[photo] += 1
        better[photo] += rating > 0
        worse[photo] += rating < 0
    wins = sum(2 * better[photo] > n for photo, n in raters.items())
    losses = sum(2 * worse[photo] > n for photo, n in raters.items())
    return 100 * (wins - losses) / len(raters), len(raters)


@cache
def _content() -> dict[str, Any]:
    return json.loads(files(__package__).joinpath("side_by_side.json").read_text(encoding="utf-8"))
