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
from ...files.columns import number_in
from ...files.read import open_rows
from ...files.row_source import CHUNK_ROWS
from ...statistics.agreement import SystemLevel, side_by_side
from ...text.languages import language_code
from .captions import PHOTO_COLUMNS, key_of_cell

PUBLISHED = "published"  # in place of a file
_PAIR = ("system_a", "system_b", "language")
# Table 6: evaluations that a line of it is about
_SETS = {"all": ("core", "ext"), "ext": ("ext",), "core": ("core",)}


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
    source = open_rows(path)
    values = [name for name in ("gain", "rating") if name in source.columns]
    photo = next((name for name in PHOTO_COLUMNS if name in source.columns), None)
    if not {*_PAIR} <= {*source.columns} or len(values) != 1 or (values == ["rating"] and photo is None):
        raise InputError(
            f"{path}: expected the columns {', '.join(_PAIR)} and gain, or rating and image_id; it has "
            f"{', '.join(source.columns)}"
        )
    ratings: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for chunk in source.chunks(CHUNK_ROWS):
        for row, cells in enumerate(chunk.dicts()):
            try:
                first, second, language = key = _pair(cells)
                number = _number(cells.get(values[0]), values[0])
                shown = "" if values == ["gain"] else key_of_cell(cells.get(photo or ""), photo or "")
                if (second, first, language) in ratings:  # a pair may be named in either order
                    key, number = (second, first, language), -number
                if values == ["gain"] and key in ratings:
                    raise InputError(f"a second gain of {first!r} and {second!r} in {language!r}")
            except InputError as error:
                raise source.at(error, chunk, row) from None
            ratings.setdefault(key, []).append((shown, number))
    if values == ["gain"]:
        return [Evaluation(*key, found[0][1]) for key, found in ratings.items()]
    return [Evaluation(*key, *_gain(found)) for key, found in ratings.items()]


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
        (figure.setting, figure.statistic): figure.value
        for figure in find(content["benchmark"], "all", content["metric"])
        if figure.source == content["source"]
    }
    found = []
    for languages, parts in _SETS.items():
        rows = [row for part in parts for row in content["evaluations"][part]["rows"]]
        for index, references in enumerate(content["references"]):
            level = side_by_side([row[4 + index] for row in rows], [row[3] for row in rows])
            setting = f"{languages}_languages+references_of_{references}"
            names = {"pearson": "pearson", "spearman": "spearman", "tau_b": "kendall"}
            values = {name: printed[setting, f"system_{other}"] for name, other in names.items()}
            found.append(PublishedAgreement(languages, references, level, values))
    return found


def _pair(cells: Mapping[str, Any]) -> tuple[str, str, str]:
    names = [cells.get(name) for name in _PAIR[:2]]
    if not all(isinstance(name, str) and name.strip() for name in names) or names[0] == names[1]:
        raise InputError(f"system_a and system_b are {names!r:.100}; expected names of two systems")
    return str(names[0]).strip(), str(names[1]).strip(), language_code(cells["language"])


def _number(cell: Any, column: str) -> float:
    number = number_in(cell)
    if not math.isfinite(number):
        raise InputError(f"the column {column!r} holds {cell!r:.60}; expected a finite number")
    return number


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
