"""What a score means: its rank among the scores of right captions, and of captions of other photos.

`capscore.calibrate` measures both on a set. Scores with the same signature are then ranked among them, each
in its own language.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, OptionError, Setting
from ..files.shipped import calibration_files
from ..files.text_files import json_document
from ..tables import counted
from .signature import parse_signature

FORMAT = "capscore calibration 1"
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
# the settings that may differ: each row is looked up in its own language, and what is done with empty
# or long captions moves the score of no other caption
_FREE = ("lang", "empty", "long")
# settings that name one program per language: the calibration may know more languages than the rows have
_PER_LANGUAGE = ("words", "segmenter")


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
        return cls(len(scores), tuple(round(value, 4) for value in np.percentile(scores, PERCENTS).tolist()))

    def percent_below(self, scores: np.ndarray) -> np.ndarray:
        """Percent of the captions that score lower, not counting those that score the same; NaN for NaN."""
        values, percents = np.array(self.values), np.array(PERCENTS, dtype=np.float64)
        below, above = (np.searchsorted(values, scores, side) for side in ("left", "right"))
        between = np.interp(scores, values, percents)
        found = np.where(above > below, percents[np.minimum(below, len(values) - 1)], between)
        return np.where(np.isnan(scores), np.nan, found)

    def reversed(self) -> Distribution:
        """The distribution of the same scores with the other sign."""
        return Distribution(self.n, tuple(-value for value in reversed(self.values)))


@dataclass(frozen=True)
class Calibration:
    """Distributions of a metric with one backbone and one group of settings.

    Attributes:
        metric: Name of the metric.
        signature: Signature of the right captions' scores.
        set_name: Name of the set of photos and captions.
        languages: Language, or "all" → "right" and "shuffled" → distribution.
    """

    metric: str
    signature: str
    set_name: str
    languages: Mapping[str, Mapping[str, Distribution]]

    def differences(self, signature: str) -> dict[str, tuple[str, str]]:
        """Settings in which another signature differs: name → value here, value there."""
        here, there = settings_of(self.signature), settings_of(signature)
        both = {key: (here.get(key, "none"), there.get(key, "none")) for key in {**here, **there}}
        return {
            key: (mine, other)
            for key, (mine, other) in both.items()
            if mine != other and not (key in _PER_LANGUAGE and _programs(other) <= _programs(mine))
        }

    def percentiles(self, scores: Any) -> dict[str, np.ndarray]:
        """Percent of the set's "right" and "shuffled" captions that score worse than each row, float64 (n,).

        Each row is placed among the captions in its language ("": in all); NaN where a row failed or its
        language was not calibrated.
        """
        spoken = np.array([language or ALL for language in scores.languages], dtype=object)
        rising = scores.rising()
        found = {kind: np.full(len(rising), np.nan) for kind in KINDS}
        for language in set(spoken) & set(self.languages):
            rows = spoken == language
            for kind in KINDS:
                captions = self.languages[language][kind]
                if "" in scores.lower_is_better:
                    captions = captions.reversed()
                found[kind][rows] = captions.percent_below(rising[rows])
        return found


@dataclass(frozen=True)
class Standing:
    """Rank of scores among right and shuffled captions.

    Attributes:
        better_than: "right" and "shuffled" → percent that score lower, the mean over the rows: 50 of right
            ones for a system whose captions score as they do, less where scores tie.
        n_rows, n_without: Number of rows behind it, and of scored rows whose language was not calibrated.
        set_name: Name of the set.
        reason: Why there are no numbers; "" if there are.
    """

    better_than: Mapping[str, float]
    n_rows: int
    n_without: int
    set_name: str
    reason: str = ""

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON: the numbers, or the reason why there are none."""
        if self.reason:
            return {"reason": self.reason}
        means = {f"better_than_{kind}": value for kind, value in self.better_than.items()}
        return {**means, "rows": self.n_rows, "rows_without": self.n_without, "set": self.set_name}

    def sentence(self) -> str:
        """The same in words.

        >>> print(Standing({"right": 91.2, "shuffled": 99.95}, 1, 0, "83 photos").sentence())
        better than 91 % of right captions and over 99.9 % of shuffled ones (83 photos)
        >>> print(Standing({"right": 48.8, "shuffled": 99.3}, 120, 3, "83 photos").sentence())
        on average, a caption is better than 49 % of right captions and 99.3 % of shuffled ones (83 photos; \
3 rows in other languages)
        """
        if self.reason:
            return self.reason
        right, shuffled = _percent(self.better_than[RIGHT]), _percent(self.better_than[SHUFFLED])
        without = f"; {counted(self.n_without, 'row')} in other languages" if self.n_without else ""
        found = f"better than {right} of right captions and {shuffled} of shuffled ones"
        start = "" if self.n_rows == 1 else "on average, a caption is "
        return f"{start}{found} ({self.set_name}{without})"


def _percent(value: float) -> str:
    """A percentage with as many digits as it is worth."""
    if 0 < value < 0.1:
        return "under 0.1 %"
    if value > 99.9:
        return "over 99.9 %"
    return f"{value:.1f} %" if 0 < value < 1 or value > 99 else f"{value:.0f} %"


def standings(found: Mapping[str, Any], path: str | Path | None = None) -> dict[str, Standing]:
    """Ranks of the scores of each metric, or why they are unknown.

    Args:
        found: Metric → its `Scores`.
        path: File that `capscore calibrate` wrote; None for what ships with the library. Metrics and
            backbones for which nothing ships are left out.

    Raises:
        InputError: the file is not one of calibrations.
    """
    placed, known = {}, _known(path)
    for name, scores in found.items():
        item = matching(scores.signature, known)
        if isinstance(item, Calibration):
            below = item.percentiles(scores)
            has_rank = ~np.isnan(below[RIGHT])
            n_rows = int(has_rank.sum())
            if n_rows:
                means = {kind: float(values[has_rank].mean()) for kind, values in below.items()}
                placed[name] = Standing(means, n_rows, scores.n_scored - n_rows, item.set_name)
                continue
            item = f"no row is in a calibrated language ({', '.join(sorted(set(item.languages) - {ALL}))})"
        if item or path is not None:
            reason = item or f"{path} has no calibration of {name}"
            placed[name] = Standing({}, 0, 0, "", f"not comparable with a calibration: {reason}")
    return placed


def right_shares(scores: Any, edges: np.ndarray, path: str | Path | None = None) -> np.ndarray | None:
    """Share of right captions with a score up to each edge, ascending; None where no calibration applies.

    Languages count as they do among the scores; those that are not calibrated are left out.
    """
    item = matching(scores.signature, _known(path))
    if not isinstance(item, Calibration):
        return None
    shares, n_rows = np.zeros(len(edges)), 0
    scored = np.isfinite(scores.scores)
    spoken = np.array([language or ALL for language in scores.languages], dtype=object)[scored]
    for language in {*spoken} & {*item.languages}:
        n = int((spoken == language).sum())
        values = item.languages[language][RIGHT].values
        shares += n * np.interp(edges, values, PERCENTS, left=0, right=100) / 100
        n_rows += n
    return shares / n_rows if n_rows else None


def has_calibration(scorer: Any, path: str | Path | None = None) -> bool:
    """Whether there is a calibration of a metric with its backbone; it may be of other settings."""
    name = getattr(getattr(scorer, "backbone", None), "name", "")
    return not getattr(scorer, "pairs", None) and any(
        (item.metric, _backbone_name(item.signature)) == (scorer.metric, name) for item in _known(path)
    )


def check_has_ranks(option: str, metric: str, backbone: str = "", path: str | Path | None = None) -> None:
    """Raise OptionError if no calibration gives a metric ranks with a backbone; "" if it is not known yet.

    `option` is the one that needs them.
    """
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


def ranks(scores: Any, path: str | Path | None = None) -> dict[str, np.ndarray]:
    """`RANKS` of scores; NaN where no calibration applies."""
    found = matching(scores.signature, _known(path))
    if isinstance(found, Calibration):
        return dict(zip(RANKS, found.percentiles(scores).values(), strict=True))
    return {name: np.full(len(scores), np.nan) for name in RANKS}


def percentiles(scores: Any, against: str, path: str | Path | None = None) -> np.ndarray:
    """`Scores.percentiles`."""
    if against not in KINDS:
        raise InputError(Setting("against", against), ": expected 'right' or 'shuffled'")
    found = matching(scores.signature, _known(path))
    if not isinstance(found, Calibration):
        where = "capscore has no calibration" if path is None else f"{path} has no calibration"
        why = found or f"none is of {scores.signature}"
        raise InputError(f"{where} for these scores: {why}; `capscore calibrate` makes one")
    return found.percentiles(scores)[against]


def matching(signature: str, known: Sequence[Calibration]) -> Calibration | str:
    """The calibration that applies to scores of a signature, or why none does; "" if none is near."""
    reasons: dict[int, str] = {}
    for item in known:
        differences = item.differences(signature)
        if not differences:
            return item
        is_near = differences.keys().isdisjoint(("metric", "pairs"))  # else of other things
        if is_near and _backbone_name(item.signature) == _backbone_name(signature):
            listed = (
                f"made with {key}:{here}, scored with {key}:{now}" for key, (here, now) in differences.items()
            )
            reasons.setdefault(len(differences), ", ".join(listed))
    return reasons[min(reasons)] if reasons else ""


def _backbone_name(signature: str) -> str:
    """The name of the backbone, without its revision."""
    return settings_of(signature).get("backbone", "").rpartition("@")[0]


@functools.lru_cache(maxsize=1)
def shipped_calibrations() -> tuple[Calibration, ...]:
    """All calibrations that ship with the library."""
    return tuple(item for path in calibration_files() for item in read_calibrations(path))


def _known(path: str | Path | None) -> Sequence[Calibration]:
    if path is None:
        return shipped_calibrations()
    state: tuple[int, ...] = ()
    with suppress(OSError, ValueError):  # reading it says what is wrong
        about = os.stat(path)
        state = about.st_ino, about.st_size, about.st_mtime_ns
    return _read_once(str(path), state)


@functools.lru_cache(maxsize=4)
def _read_once(path: str, state: tuple[int, ...]) -> tuple[Calibration, ...]:
    """The calibrations of a file, read once while it is in one state."""
    return tuple(read_calibrations(path))


def read_calibrations(path: str | Path) -> list[Calibration]:
    """Read and check a file of calibrations.

    Raises:
        InputError: there is no such file, or it is not one that `capscore calibrate` wrote.
    """
    given = Setting("calibration", Path(path))
    found = json_document(path, "calibration")
    try:
        if found["format"] != FORMAT or tuple(found["percents"]) != PERCENTS:
            raise ValueError(f"expected the format {FORMAT!r}")
        calibrations = []
        for entry in found["metrics"]:
            settings_of(entry["signature"])
            languages = {
                str(language): {kind: _distribution(kinds[kind]) for kind in KINDS}
                for language, kinds in entry["languages"].items()
            }
            _ = languages[ALL]  # a KeyError if it is missing
            calibrations.append(
                Calibration(str(entry["metric"]), entry["signature"], str(found["set"]["name"]), languages)
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
def settings_of(signature: str) -> dict[str, str]:
    metric, settings = parse_signature(signature)
    return {"metric": metric, **{key: value for key, value in settings.items() if key not in _FREE}}


def _programs(value: str) -> set[str]:
    """The programs that split or tag texts, as signatures join them."""
    return set(value.replace(",", "+").split("+"))
