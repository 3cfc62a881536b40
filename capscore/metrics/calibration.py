"""What a score means: where it lies among the scores of right captions, and of captions of other photos.

In: a score, its signature and language. Out: the share of right and of shuffled captions that score lower,
from a file of percentiles that `capscore calibrate` wrote or that ships with the library.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..errors import InputError, Setting
from ..files.shipped import calibration_files
from .signature import parse_signature

FORMAT = "capscore calibration 1"
ALL, RIGHT, SHUFFLED = "all", "right", "shuffled"
KINDS = (RIGHT, SHUFFLED)
# closer together at the ends, so that "better than 99.9 %" is measured and not interpolated
PERCENTS = (0, 0.1, 0.5, *range(1, 100), 99.5, 99.9, 100)
_LARGEST = 16 * 2**20  # bytes of a file
# the settings that may differ: each row is looked up in its own language, and what is done with empty
# captions moves the score of no other caption
_FREE = ("lang", "empty")
# settings that name one program per language: the calibration may know more languages than the rows have
_PER_LANGUAGE = ("words", "segmenter")


class Ranked(Protocol):
    """`Scores`, as far as they are needed here."""

    @property
    def metric(self) -> str: ...

    @property
    def scores(self) -> np.ndarray: ...

    @property
    def languages(self) -> list[str]: ...

    @property
    def signature(self) -> str: ...


@dataclass(frozen=True)
class Distribution:
    """Scores of many captions.

    Attributes:
        n: Number of captions.
        values: Score at each of `PERCENTS`, ascending.
    """

    n: int
    values: tuple[float, ...]

    @classmethod
    def of(cls, scores: np.ndarray) -> Distribution:
        """Distribution of scores (n,), at least one, without NaN."""
        found = np.percentile(scores, PERCENTS)
        return cls(len(scores), tuple(round(float(value), 4) for value in found))

    def percent_below(self, scores: np.ndarray) -> np.ndarray:
        """Percent of the captions that score lower, not counting those that score the same; NaN for NaN.

        >>> uniform = Distribution.of(np.arange(101.0))
        >>> uniform.percent_below(np.array([-5, 20, 99.8, 200])).round(1).tolist()
        [0.0, 20.0, 99.8, 100.0]
        """
        values, percents = np.array(self.values), np.array(PERCENTS, dtype=np.float64)
        below, above = (np.searchsorted(values, scores, side) for side in ("left", "right"))
        between = np.interp(scores, values, percents)
        last = len(values) - 1
        found = np.where(above > below, percents[np.minimum(below, last)], between)
        return np.where(np.isnan(scores), np.nan, found)

    @property
    def own_level(self) -> float:
        """Percent of the captions that one of them is better than, on average: 50, or less where scores tie.

        >>> Distribution.of(np.arange(101.0)).own_level, Distribution.of(np.zeros(5)).own_level
        (50.0, 0.0)
        """
        middle = np.interp(np.arange(0.5, 100), PERCENTS, self.values)
        return float(self.percent_below(middle).mean())


@dataclass(frozen=True)
class Calibration:
    """Distributions of a metric with one backbone and one group of settings.

    Attributes:
        metric: Name of the metric.
        signature: Signature of the right captions' scores.
        backbone: Name and fingerprint of the backbone; None for a metric without.
        set_name: Name of the set of photos and captions.
        languages: Language, or "all" → "right" and "shuffled" → distribution.
    """

    metric: str
    signature: str
    backbone: Mapping[str, str] | None
    set_name: str
    languages: Mapping[str, Mapping[str, Distribution]]

    def differences(self, signature: str) -> dict[str, tuple[str, str]]:
        """Settings in which another signature differs: name → value here, value there."""
        here, there = _settings(self.signature), _settings(signature)
        return {
            key: (here.get(key, "none"), there.get(key, "none"))
            for key in dict.fromkeys([*here, *there])
            if here.get(key) != there.get(key)
            and not (key in _PER_LANGUAGE and _programs(there.get(key)) <= _programs(here.get(key)))
        }

    def percentiles(self, scores: np.ndarray, languages: Sequence[str], kind: str) -> np.ndarray:
        """Percent of the set's captions that score lower than each row, among those in the row's language.

        Args:
            scores: float64 (n,); NaN where a row failed.
            languages: n languages; "" takes the captions of all languages together.
            kind: "right" or "shuffled".

        Returns:
            float64 (n,) in [0, 100]; NaN where a row failed or its language was not calibrated.
        """
        found = np.full(len(scores), np.nan)
        spoken = np.array([language or ALL for language in languages], dtype=object)
        for language in set(spoken) & set(self.languages):
            rows = spoken == language
            found[rows] = self.languages[language][kind].percent_below(scores[rows])
        return found


@dataclass(frozen=True)
class Standing:
    """Where scores lie among right and shuffled captions.

    Attributes:
        better_than: "right" and "shuffled" → percent that score lower, the mean over the rows.
        right_level: The same for right captions themselves: 50, or less where scores tie.
        n_rows: Number of rows behind it.
        n_without: Number of scored rows whose language was not calibrated.
        set_name: Name of the set.
        reason: Why there are no numbers; "" if there are.
    """

    better_than: Mapping[str, float]
    right_level: float
    n_rows: int
    n_without: int
    set_name: str
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: the numbers, or the reason why there are none."""
        if self.reason:
            return {"reason": self.reason}
        return {
            "better_than_right": self.better_than[RIGHT],
            "better_than_shuffled": self.better_than[SHUFFLED],
            "right_captions_better_than_right": self.right_level,
            "rows": self.n_rows,
            "rows_without": self.n_without,
            "set": self.set_name,
        }

    def sentence(self) -> str:
        """The same in words.

        >>> print(Standing({"right": 91.2, "shuffled": 99.95}, 50, 1, 0, "83 photos").sentence())
        better than 91 % of right captions and over 99.9 % of shuffled ones (83 photos)
        >>> print(Standing({"right": 48.8, "shuffled": 99.3}, 49.8, 120, 0, "83 photos").sentence())
        on average, a caption is better than 49 % of right captions (right ones: 50 %) and 99.3 % of \
shuffled ones (83 photos)
        """
        if self.reason:
            return self.reason
        right, shuffled = percent(self.better_than[RIGHT]), percent(self.better_than[SHUFFLED])
        without = f"; {self.n_without:,} rows in other languages" if self.n_without else ""
        if self.n_rows == 1:
            return (
                f"better than {right} of right captions and {shuffled} of shuffled ones "
                f"({self.set_name}{without})"
            )
        return (
            f"on average, a caption is better than {right} of right captions "
            f"(right ones: {percent(self.right_level)}) and "
            f"{shuffled} of shuffled ones ({self.set_name}{without})"
        )


def percent(value: float) -> str:
    """A percentage with as many digits as it is worth.

    >>> [percent(value) for value in (0.0, 0.01, 0.4, 48.6, 99.34, 99.97)]
    ['0 %', 'under 0.1 %', '0.4 %', '49 %', '99.3 %', 'over 99.9 %']
    """
    if value == 0:
        return "0 %"
    if value < 0.1:
        return "under 0.1 %"
    if value > 99.9:
        return "over 99.9 %"
    return f"{value:.1f} %" if value < 1 or value > 99 else f"{value:.0f} %"


def standing(scores: Ranked, path: str | Path | None = None) -> Standing | None:
    """Where the scores of rows lie among those of right captions, and of captions of other photos.

    The numbers are means over the rows of each row's percentile: a system whose captions score as right ones
    do is better than 50 % of right captions (less where scores tie), whatever the number of rows.

    Args:
        scores: Ranked of a metric.
        path: File that `capscore calibrate` wrote; None for what ships with the library.

    Returns:
        The numbers, or the reason why there are none; None if nothing ships for the metric and backbone.

    Raises:
        InputError: the file is not one of calibrations.
    """
    known = shipped_calibrations() if path is None else read_calibrations(path)
    found = matching(scores.signature, known)
    if isinstance(found, Calibration):
        below = {kind: found.percentiles(scores.scores, scores.languages, kind) for kind in KINDS}
        placed = ~np.isnan(below[RIGHT])
        n_rows, n_scored = int(placed.sum()), int((~np.isnan(scores.scores)).sum())
        if n_rows:
            means = {kind: float(values[placed].mean()) for kind, values in below.items()}
            levels = {name: kinds[RIGHT].own_level for name, kinds in found.languages.items()}
            spoken = [one or ALL for one, there in zip(scores.languages, placed, strict=True) if there]
            level = float(np.mean([levels[language] for language in spoken]))
            return Standing(means, level, n_rows, n_scored - n_rows, found.set_name)
        known_languages = ", ".join(sorted(set(found.languages) - {ALL}))
        found = f"no row is in a calibrated language ({known_languages})" if n_scored else "no row was scored"
    if not found and path is None:
        return None
    reason = found or f"{path} has no calibration of {scores.metric}"
    return Standing({}, 0.0, 0, 0, "", f"not comparable with a calibration: {reason}")


def standings(found: Mapping[str, Ranked], path: str | Path | None = None) -> dict[str, Standing]:
    """`standing` of each metric; metrics that nothing is known about are left out."""
    placed = {name: standing(scores, path) for name, scores in found.items()}
    return {name: one for name, one in placed.items() if one is not None}


def percentiles(scores: Ranked, against: str, path: str | Path | None = None) -> np.ndarray:
    """`Scores.percentiles`."""
    if against not in KINDS:
        raise InputError(Setting("against", against), ": expected 'right' or 'shuffled'")
    found = matching(scores.signature, shipped_calibrations() if path is None else read_calibrations(path))
    if not isinstance(found, Calibration):
        where = "no calibration ships" if path is None else f"{path} has no calibration"
        why = found or f"none is of {scores.signature}"
        raise InputError(f"{where} for these scores: {why}; `capscore calibrate` makes one")
    return found.percentiles(scores.scores, scores.languages, against)


def matching(signature: str, known: Sequence[Calibration]) -> Calibration | str:
    """The calibration that applies to scores of a signature, or why none does; "" if none is near."""
    reasons: dict[int, str] = {}
    for one in known:
        differences = one.differences(signature)
        if not differences:
            return one
        if "metric" in differences or _backbone(one.signature) != _backbone(signature):
            continue
        told = ", ".join(
            f"made with {key}:{here}, scored with {key}:{now}" for key, (here, now) in differences.items()
        )
        reasons.setdefault(len(differences), told)
    return reasons[min(reasons)] if reasons else ""


@functools.lru_cache(maxsize=1)
def shipped_calibrations() -> tuple[Calibration, ...]:
    """All calibrations that ship with the library."""
    return tuple(one for path in calibration_files() for one in read_calibrations(path))


def read_calibrations(path: str | Path) -> list[Calibration]:
    """Read and check a file of calibrations.

    Raises:
        InputError: there is no such file, or it is not one that `capscore calibrate` wrote.
    """
    given = Setting("calibration", Path(path))
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise InputError(given, " is larger than any file of calibrations")
        document = json.loads(content)
    except OSError as error:
        raise InputError(given, f" cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(given, f" is not a file that `capscore calibrate` wrote: {error!s:.200}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(given, f" is not a file that `capscore calibrate` wrote (format {FORMAT!r})")
    try:
        if tuple(document["percents"]) != PERCENTS:
            raise ValueError("other percents than this version of capscore takes")
        return [_calibration(entry, str(document["set"]["name"])) for entry in document["metrics"]]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(given, f" is damaged: {type(error).__name__} {error!s:.200}") from None


def _calibration(entry: Mapping[str, Any], set_name: str) -> Calibration:
    languages = {
        str(language): {kind: _distribution(kinds[kind]) for kind in KINDS}
        for language, kinds in entry["languages"].items()
    }
    if ALL not in languages:
        raise ValueError("no distribution of all languages")
    parse_signature(entry["signature"])
    return Calibration(
        str(entry["metric"]), str(entry["signature"]), entry.get("backbone"), set_name, languages
    )


def _distribution(given: Mapping[str, Any]) -> Distribution:
    values = tuple(map(float, given["values"]))
    if len(values) != len(PERCENTS) or not all(map(math.isfinite, values)) or list(values) != sorted(values):
        raise ValueError(f"expected {len(PERCENTS)} ascending numbers")
    return Distribution(int(given["n"]), values)


def _settings(signature: str) -> dict[str, str]:
    metric, settings = parse_signature(signature)
    return {"metric": metric, **{key: value for key, value in settings.items() if key not in _FREE}}


def _programs(value: str | None) -> set[str]:
    """The programs that split or tag texts, as signatures join them; a value that is missing is one too."""
    return {"none"} if value is None else set(value.replace(",", "+").split("+"))


def _backbone(signature: str) -> str:
    """Name of the backbone without its revision."""
    return parse_signature(signature)[1].get("backbone", "").rpartition("@")[0]
