"""What a score means: its rank among the scores of right captions, and of captions of other photos.

`capscore.calibrate` measures both on a set. `placed` has the rule by which a row is then ranked among them:
a calibration applies if the row, scored alone, would have its signature, apart from the language. A row is
ranked among captions of its language; if only the backbone knows that, or none is stated, among those of all.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, OptionError, Setting
from ..files.text_files import json_document
from ..tables import counted
from .rows import parse_signature

FORMAT = "capscore calibration 2"
ALL, RIGHT, SHUFFLED = "all", "right", "shuffled"
KINDS = (RIGHT, SHUFFLED)
RANKS = ("rank", "rank_shuffled")
"""Columns of results: percent of right captions, and of captions of other photos, that score worse."""
LIKELY_WRONG = 5
"""A caption is marked as likely wrong if less than this percentage of right captions score worse."""
# closer together at the ends, so that "better than 99.9 %" is measured and not interpolated
PERCENTS = (0, 0.1, 0.5, *range(1, 100), 99.5, 99.9, 100)
# photos that a language needs to be calibrated
MIN_PHOTOS = 20
# what is done with empty or long captions moves the score of no other caption
_FREE = ("lang", "empty", "long")
# settings that depend on a row's language alone; those of other rows do not matter
_PER_LANGUAGE = ("words", "segmenter", "modules")
# numbers of references among which the best of them differs little; COCO's photos have 5 to 7
_MANY = range(4, 8)


@dataclass(frozen=True)
class Distribution:
    """Scores of many captions.

    Attributes:
        values: Score at each of `PERCENTS`, ascending.
    """

    n: int
    values: tuple[float, ...]

    @classmethod
    def of(cls, scores: np.ndarray) -> Distribution:
        """Distribution of scores (n,), at least one, without NaN."""
        return cls(len(scores), tuple(round(value, 4) for value in np.percentile(scores, PERCENTS).tolist()))

    def percent_below(self, scores: np.ndarray) -> np.ndarray:
        """Percent of the captions that score lower, not counting those that score the same; NaN for NaN."""
        values, percents = np.array(self.values), np.array(PERCENTS, dtype=np.float64)
        below, above = (np.searchsorted(values, scores, side) for side in ("left", "right"))
        between = np.interp(scores, values, percents)
        found = np.where(above > below, percents[np.minimum(below, len(values) - 1)], between)
        return np.where(np.isnan(scores), np.nan, found)

    def reversed(self) -> Distribution:
        return Distribution(self.n, tuple(-value for value in reversed(self.values)))


@dataclass(frozen=True)
class Calibration:
    """Distributions of a metric with one backbone and one group of settings.

    Attributes:
        languages: Language, or "all" → "right" and "shuffled" → distribution.
        among_all: Other languages that are ranked among captions of all languages; None for every one.
        varied: Setting that may differ from row to row → language, or "all" → its value.
    """

    metric: str
    signature: str
    set_name: str
    languages: Mapping[str, Mapping[str, Distribution]]
    among_all: frozenset[str] | None = None
    varied: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def group(self, language: str) -> str:
        """Language, or "all", whose captions rows in a language ("": not stated) are ranked among; or ""."""
        if language in self.languages:
            return language
        if not language or self.among_all is None or language in self.among_all:
            return ALL
        return ""

    @property
    def n_references(self) -> str:
        """Number of references of each caption, or "var"."""
        return _settings_of(self.signature).get("refs", "0")

    @property
    def ranked(self) -> list[str]:
        """Languages that have ranks, sorted; `among_all` may be None, for every one."""
        return sorted({*self.languages, *(self.among_all or ())} - {ALL})

    def differences(self, settings: Mapping[str, str], group: str) -> dict[str, tuple[str, str]]:
        """Settings of a row that differ from those of a group: name → value here, value there."""
        here = {**_settings_of(self.signature), "refs": self.n_references}
        for name, values in self.varied.items():
            here[name] = values.get(group, "none")
        both = {key: (here.get(key, "none"), settings.get(key, "none")) for key in {**here, **settings}}
        if group == ALL:
            for name in _PER_LANGUAGE:
                both.pop(name, None)
        return {key: values for key, values in both.items() if values[0] != values[1]}


@dataclass(frozen=True)
class Ranked:
    """Ranks of n rows.

    Attributes:
        below: "right" and "shuffled" → percent of the set's captions that score worse, float64 (n,); NaN for
            a row that failed, or that no calibration applies to.
        among: Language of the captions that each row is ranked among, "all" for those of all languages, ""
            without a rank.
        right: Distributions of right captions that rows are ranked among, and numbers of these rows.
        reasons: Why a row with a score has no rank, (n,); "" if it has one, or if no calibration is near.
    """

    below: Mapping[str, np.ndarray]
    among: np.ndarray
    reasons: np.ndarray
    n_fewer: int = 0
    right: Sequence[tuple[Distribution, int]] = ()
    set_name: str = ""

    @property
    def reason(self) -> str:
        """The first of `reasons`; "" if there is none."""
        return next(filter(None, self.reasons.tolist()), "")

    @property
    def ranks(self) -> dict[str, np.ndarray]:
        """`below` by the names of `RANKS`."""
        return dict(zip(RANKS, self.below.values(), strict=True))


def placed(scores: Any, path: str | Path | None = None) -> Ranked:
    """Ranks of scores in the first calibration that applies to each row.

    The settings of a row are those of the signature that it would have if it were scored alone. Where no
    calibration has so many references, one with fewer of `_MANY` does.

    Args:
        path: File that `capscore calibrate` wrote; None for what ships with the library.
    """
    known = _known(path)
    below = {kind: np.full(len(scores), np.nan) for kind in KINDS}
    among, reasons = (np.full(len(scores), "", dtype=object) for _ in range(2))
    shared = dict(_settings_of(scores.signature))
    counts = scores.n_references.astype(str).tolist()
    if shared.pop("refs", "0") == "var" and any(item.n_references == "var" for item in known):
        counts = ["var"] * len(scores)
    columns = [scores.languages, counts, *scores.varied.values()]
    numbers: dict[tuple[str, ...], int] = {}  # each kind of row once
    kinds = np.array([numbers.setdefault(kind, len(numbers)) for kind in zip(*columns, strict=True)], int)
    has_score, rising = ~np.isnan(scores.scores), scores.rising()
    n_fewer, right, set_name = 0, [], ""
    for (language, *values), number in numbers.items():
        rows = has_score & (kinds == number)
        if not rows.any():
            continue
        settings = shared | dict(zip(("refs", *scores.varied), values, strict=True))
        item, reason = _applying(known, settings, language)
        reasons[rows] = reason
        if item is None:
            continue
        group = item.group(language)
        for kind, captions in item.languages[group].items():
            if "" in scores.lower_is_better:
                captions = captions.reversed()
            below[kind][rows] = captions.percent_below(rising[rows])
        among[rows], set_name, n_rows = group, item.set_name, int(rows.sum())
        right.append((item.languages[group][RIGHT], n_rows))
        if item.n_references != values[0]:
            n_fewer += n_rows
    return Ranked(below, among, reasons, n_fewer, right, set_name)


def _applying(
    known: Sequence[Calibration], settings: Mapping[str, str], language: str
) -> tuple[Calibration | None, str]:
    """The calibration that applies to a row, or None and why none does ("" if none is near)."""
    reasons: dict[int, str] = {}
    fewer = None
    for item in known:
        group = item.group(language)
        differences = item.differences(settings, group or ALL)
        if not differences and not group:
            reasons[0] = f"there are ranks in {', '.join(item.ranked)}, not in {language}"
        elif not differences:
            return item, ""
        elif differences.keys() == {"refs"} and group and _are_fewer(*differences["refs"]):
            fewer = max(fewer or item, item, key=lambda one: int(one.n_references))
        elif differences.keys().isdisjoint(("metric", "pairs")):  # else of other things
            if _backbone_name(item.signature) == settings.get("backbone", "").rpartition("@")[0]:
                listed = (
                    f"made with {key}:{here}, scored with {key}:{now}"
                    for key, (here, now) in differences.items()
                )
                reasons.setdefault(len(differences), ", ".join(listed))
    if fewer is None and reasons:
        return None, reasons[min(reasons)]
    return fewer, ""


def _are_fewer(here: str, there: str) -> bool:
    numbers = [int(number) for number in (here, there) if number.isdigit()]
    return len(numbers) == 2 and numbers[0] < numbers[1] and {*numbers} <= {*_MANY}


@dataclass(frozen=True)
class Standing:
    """Rank of scores among right and shuffled captions.

    Attributes:
        better_than: "right" and "shuffled" → percent that score lower, the mean over the rows: 50 of right
            ones for a system whose captions score as they do, less where scores tie.
        n_rows, n_without: Number of rows behind it, and of scored rows without a rank.
        among_all: Language ("": not stated) → number of its rows that are ranked among all languages.
        n_fewer: Number of rows that are ranked among captions with fewer references than they have.
    """

    better_than: Mapping[str, float]
    n_rows: int
    n_without: int
    set_name: str
    reason: str = ""
    among_all: Mapping[str, int] = field(default_factory=dict)
    n_fewer: int = 0

    def __add__(self, other: Standing) -> Standing:
        """The standing of the rows of both, which scores of the same metric have."""
        n_rows = self.n_rows + other.n_rows
        means = {}
        for kind in KINDS if n_rows else ():
            total = sum(one.n_rows * one.better_than.get(kind, 0.0) for one in (self, other))
            means[kind] = total / n_rows
        among_all = dict(Counter(self.among_all) + Counter(other.among_all))
        counts = (n_rows, self.n_without + other.n_without, self.set_name or other.set_name)
        reason = "" if n_rows else self.reason or other.reason
        return Standing(means, *counts, reason, among_all, self.n_fewer + other.n_fewer)

    def to_dict(self) -> dict[str, object]:
        if self.reason:
            return {"reason": self.reason}
        means = {f"better_than_{kind}": value for kind, value in self.better_than.items()}
        counts = {
            "rows": self.n_rows,
            "rows_without": self.n_without,
            "rows_with_fewer_references": self.n_fewer,
        }
        return {**means, **counts, "among_all_languages": dict(self.among_all), "set": self.set_name}

    def sentence(self) -> str:
        """The same in words.

        >>> print(Standing({"right": 91.2, "shuffled": 99.95}, 1, 0, "83 photos").sentence())
        better than 91 % of right captions and over 99.9 % of shuffled ones (83 photos)
        >>> print(Standing({"right": 48.8, "shuffled": 99.3}, 120, 3, "83 photos", "", {"ko": 9}).sentence())
        on average, a caption is better than 49 % of right captions and 99.3 % of shuffled ones (83 photos; \
ko ranked among right captions of all languages; 3 rows have no rank)
        """
        if self.reason:
            return self.reason
        right, shuffled = _percent(self.better_than[RIGHT]), _percent(self.better_than[SHUFFLED])
        start = "" if self.n_rows == 1 else "on average, a caption is "
        remarks = [self.set_name, *self.remarks()]
        found = f"better than {right} of {self.captions} and {shuffled} of shuffled ones"
        return f"{start}{found} ({'; '.join(remarks)})"

    @property
    def captions(self) -> str:
        """What all rows with a rank are ranked among, in words."""
        return "right captions" + " of all languages" * (sum(self.among_all.values()) == self.n_rows)

    def remarks(self) -> list[str]:
        """What is special about the ranks of some rows, in words."""
        remarks = []
        if 0 < sum(self.among_all.values()) < self.n_rows:
            codes = sorted(self.among_all)
            named = ", ".join(code or "language not stated" for code in codes)
            remarks.append(f"{named} ranked among right captions of all languages")
        if self.n_fewer:
            remarks.append(f"{counted(self.n_fewer, 'row')} ranked among captions with fewer references")
        if self.n_without:
            verb = "has" if self.n_without == 1 else "have"
            remarks.append(f"{counted(self.n_without, 'row')} {verb} no rank")
        return remarks


def _percent(value: float) -> str:
    """A percentage with as many digits as it is worth."""
    if 0 < value < 0.1:
        return "under 0.1 %"
    if value > 99.9:
        return "over 99.9 %"
    return f"{value:.1f} %" if 0 < value < 1 or value > 99 else f"{value:.0f} %"


def standings(
    found: Mapping[str, Any], places: Mapping[str, Ranked], path: str | Path | None = None
) -> dict[str, Standing]:
    """Ranks of the scores of each metric together, or why they are unknown.

    Args:
        found, places: Metric → its `Scores`, and what `placed` says of them.
        path: The file of calibrations, as in `placed`; without one, metrics and backbones for which nothing
            ships are left out.
    """
    standing: dict[str, Standing] = {}
    for name, scores in found.items():
        where = places[name]
        has_rank = where.among != ""
        n_rows = int(has_rank.sum())
        if n_rows:
            means = {kind: float(values[has_rank].mean()) for kind, values in where.below.items()}
            among_all = Counter(itertools.compress(scores.languages, where.among == ALL))
            n_without = scores.n_scored - n_rows
            standing[name] = Standing(means, n_rows, n_without, where.set_name, "", among_all, where.n_fewer)
        elif where.reason or path is not None:
            reason = where.reason or f"{path} has no calibration of {name}"
            reason = f"not comparable with a calibration: {reason}"
            standing[name] = Standing({}, 0, scores.n_scored, "", reason)
    return standing


def right_shares(scores: Any, edges: np.ndarray, path: str | Path | None = None) -> np.ndarray | None:
    """Share of right captions with a score up to each edge, ascending; None where no calibration applies.

    Languages count as they do among the scores; rows without a rank are left out.
    """
    found = placed(scores, path)
    shares, n_rows = np.zeros(len(edges)), 0
    for captions, n in found.right:
        shares += n * np.interp(edges, captions.values, PERCENTS, left=0, right=100) / 100
        n_rows += n
    return shares / n_rows if n_rows else None


def has_calibration(scorer: Any, path: str | Path | None = None) -> bool:
    """Whether there is a calibration of a metric with its backbone; it may be of other settings."""
    name = getattr(getattr(scorer, "backbone", None), "name", "")
    return not getattr(scorer, "pairs", None) and any(
        (item.metric, _backbone_name(item.signature)) == (scorer.metric, name) for item in _known(path)
    )


def check_has_ranks(option: str, metric: str, backbone: str = "", path: str | Path | None = None) -> None:
    """Raise OptionError if no calibration gives a metric ranks with a backbone; "" if it is not known yet."""
    of_metric = [item for item in _known(path) if item.metric == metric]
    names = {_backbone_name(item.signature) for item in of_metric}
    if names and (not backbone or backbone in names):
        return
    where = "capscore's own calibrations" if path is None else str(path)
    has = f"{metric} has ranks with {', '.join(sorted(names))}, not with {backbone}"
    if not names:
        has = f"{metric} has no ranks, but {', '.join(sorted({item.metric for item in _known(path)}))}"
    hint = "; `capscore calibrate` makes others, for "
    raise OptionError(Setting(option), f": by {where}, {has}{hint}", Setting("calibration"))


def percentiles(scores: Any, against: str, path: str | Path | None = None) -> np.ndarray:
    if against not in KINDS:
        raise InputError(Setting("against", against), ": expected 'right' or 'shuffled'")
    found = placed(scores, path)
    if not found.set_name and scores.n_scored:
        where = "capscore has no calibration" if path is None else f"{path} has no calibration"
        why = found.reason or f"none is of {scores.signature}"
        raise InputError(f"{where} for these scores: {why}; `capscore calibrate` makes one")
    return found.below[against]


def _backbone_name(signature: str) -> str:
    return _settings_of(signature).get("backbone", "").rpartition("@")[0]


def calibration_files() -> list[Path]:
    return sorted(Path(__file__).with_name("calibrations").glob("*.json"))


@functools.lru_cache(maxsize=1)
def shipped_calibrations() -> tuple[Calibration, ...]:
    return tuple(item for path in calibration_files() for item in read_calibrations(path))


def _known(path: str | Path | None) -> Sequence[Calibration]:
    if path is None:
        return shipped_calibrations()
    state: tuple[int, ...] = ()
    with suppress(OSError, ValueError, TypeError):  # reading it says what is wrong
        about = os.stat(path)
        state = about.st_ino, about.st_size, about.st_mtime_ns
    return _read_once(str(path), state)


@functools.lru_cache(maxsize=4)
def _read_once(path: str, state: tuple[int, ...]) -> tuple[Calibration, ...]:
    return tuple(read_calibrations(path))


def read_calibrations(path: str | Path) -> list[Calibration]:
    given = Setting("calibration", Path(path))
    found = json_document(path, "calibration")
    if isinstance(found, dict) and found.get("format") == "capscore calibration 1":  # of 0.9 to 0.11
        raise InputError(
            given, " was made before 0.12, by other rules: make it again with `capscore calibrate`"
        )
    try:
        if found["format"] != FORMAT or tuple(found["percents"]) != PERCENTS:
            raise ValueError(f"expected the format {FORMAT!r}")
        calibrations = []
        for entry in found["metrics"]:
            _settings_of(entry["signature"])
            languages = {
                str(language): {kind: _distribution(kinds[kind]) for kind in KINDS}
                for language, kinds in entry["languages"].items()
            }
            _ = languages[ALL]  # a KeyError if it is missing
            others = entry["among_all"]
            among_all = None if others is None else frozenset(map(str, others))
            varied = {str(name): dict(values) for name, values in entry["varied"].items()}
            name = str(found["set"]["name"])
            calibrations.append(
                Calibration(str(entry["metric"]), entry["signature"], name, languages, among_all, varied)
            )
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        why = f"{type(error).__name__} {error!s:.200}"
        raise InputError(given, f" is not a file that `capscore calibrate` wrote: {why}") from None
    return calibrations


def _distribution(given: Mapping[str, Any]) -> Distribution:
    values = tuple(map(float, given["values"]))
    if len(values) != len(PERCENTS) or not all(map(math.isfinite, values)) or list(values) != sorted(values):
        raise ValueError(f"expected {len(PERCENTS)} ascending numbers")
    return Distribution(int(given["n"]), values)


@functools.lru_cache(maxsize=64)
def _settings_of(signature: str) -> dict[str, str]:
    metric, settings = parse_signature(signature)
    return {"metric": metric, **{key: value for key, value in settings.items() if key not in _FREE}}
