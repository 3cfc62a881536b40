"""Options that commands, Python and modules share, each in one frozen dataclass."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from .errors import InputError, OptionError, Setting

MAX_DRAWS = 10**7


@dataclass(frozen=True)
class RowOptions:
    """How rows of a file, folder, stream or batch are read.

    Attributes:
        image_column, candidate_column, references_column, language_column, id_column: Names of columns that
            have unfamiliar names; None finds the usual ones.
        split: Split of a saved data set, or of a file whose rows name theirs; None for all rows.
        images: Folder to which names of images are relative; None for the folder of the file.
        references: File of references, or several, matched by photo, or by order where nothing names photos;
            None where the rows hold theirs, or need none. `references_column` names the column in it.
        references_id_column: Column of that file with ids or names of photos; None finds the usual ones.
        language: Language code of all rows; None if rows name theirs, or none is stated.
        on_error: "raise" stops at the first bad row, "skip" leaves bad rows out and lists them.
        allow_urls: Whether http(s) addresses of images may be fetched.

    Raises:
        InputError: `on_error` or `allow_urls` is something else.
    """

    image_column: str | None = None
    candidate_column: str | None = None
    references_column: str | None = None
    language_column: str | None = None
    id_column: str | None = None
    split: str | None = None
    images: str | Path | None = None
    references: str | Path | Sequence[str | Path] | None = None
    references_id_column: str | None = None
    language: str | None = None
    on_error: str = "raise"
    allow_urls: bool = False

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "skip"):
            raise InputError(Setting("on_error", self.on_error), ": expected 'raise' or 'skip'")
        check_kind(self, [entry.name for entry in fields(self) if entry.name.endswith("_column")], str)
        check_kind(self, ["split"], str)
        check_kind(self, ["images"], str, Path)
        check_kind(self, ["references"], str, Path, Sequence)
        check_flag("allow_urls", self.allow_urls)


@dataclass(frozen=True)
class LoadOptions:
    """How a metric and its backbone are loaded; the entries are those of `capscore.load`.

    Attributes:
        backbone, device, dtype, batch_size, cache, revision, image_tower, model, top_logprobs, allow_urls,
            allow_private_urls, progress: As in `capscore.load`.
        metric_options: Options of the metrics themselves, by name; each goes to the metrics that take it.
    """

    backbone: object = None
    device: str | int | None = None
    dtype: str | None = None
    batch_size: int | None = None
    cache: object = None
    revision: str | None = None
    image_tower: str | None = None
    model: str | None = None
    top_logprobs: int | None = None
    allow_urls: bool = False
    allow_private_urls: bool = False
    progress: bool | None = None
    metric_options: Mapping[str, object] = field(default_factory=dict)

    def arguments(self) -> dict[str, object]:
        """Keyword arguments of `capscore.load`, without those that say nothing."""
        given = dict(vars(self))
        given |= given.pop("metric_options")
        return stated_options(given)


NO_OPTIONS = LoadOptions()


def stated_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options without those that say nothing: None, and permissions that are not given."""
    permissions = {entry.name for entry in fields(LoadOptions) if entry.default is False}
    return {
        name: value
        for name, value in given.items()
        if value is not None and not (value is False and name in permissions)
    }


@dataclass(frozen=True)
class Sampling:
    """How intervals and tests draw.

    Attributes:
        bootstrap: Number of draws, from 0 to 10 million; 0 gives no intervals.
        confidence: Share of the draws inside an interval, between 0 and 1.
        seed: Seed for all draws, at least 0.

    Raises:
        InputError: a value outside its range; names the option.
    """

    bootstrap: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole_number("bootstrap", self.bootstrap, 0, MAX_DRAWS)
        check_whole_number("seed", self.seed, 0)
        if not isinstance(self.confidence, Real) or not 0 < self.confidence < 1:
            setting = Setting("confidence", self.confidence)
            raise InputError(setting, ": expected a share between 0 and 1, such as 0.95", field="confidence")


@dataclass(frozen=True)
class OutputOptions:
    """Where results of rows go, and which rows stay.

    Attributes:
        output: File for all rows with their scores; None writes none.
        keep, drop: File for the rows that stay, by `min_score`, `min_rank` or `top`, and for the others, each
            with the reason; None writes none.
        min_score: Worst score, of the first metric, of a row that stays: the lowest, or the highest if
            less is better.
        min_rank: Least rank, in the first metric, of a row that stays: the percentage of right captions that
            score worse.
        top: Rows with the best scores that stay: their number, such as 1000, or their share, such as "30%".
        sort: New column of numbers, such as "mcs" or "rank", that rows are sorted by in all files and lists,
            the worst first; None leaves files in the order of the rows. Rows are then in memory together.
        force: Whether existing files are overwritten.
        fail_under: Largest share of captions that may be likely wrong, such as "5%" or 0.05; None allows all.

    Raises:
        OptionError: a choice of rows without a file for them.
        InputError: `fail_under` is no share, or `force` neither True nor False.
    """

    output: str | Path | None = None
    keep: str | Path | None = None
    min_score: float | None = None
    top: str | int | None = None
    force: bool = False
    fail_under: str | float | None = None
    drop: str | Path | None = None
    min_rank: float | None = None
    sort: str | None = None

    def __post_init__(self) -> None:
        check_flag("force", self.force)
        check_kind(self, ["output", "keep", "drop"], str, Path)
        check_kind(self, ["top"], str, int)
        if self.fail_under is not None:
            share_of("fail_under", self.fail_under)
        chosen = (self.min_score, self.min_rank, self.top)
        if self.keep is None and self.drop is None and any(choice is not None for choice in chosen):
            problem = " is missing: it names the file for the rows that stay, or do not"
            raise OptionError(Setting("keep"), " or ", Setting("drop"), problem)


def share_of(name: str, given: object) -> Fraction:
    """The share that an option states, in percent or as a fraction from 0 to 1, or an InputError.

    A bare 1 could be either, and is refused.

    >>> share_of("fail_under", "5%"), share_of("fail_under", 0.05)
    (Fraction(1, 20), Fraction(1, 20))
    """
    match = re.fullmatch(r"(?a:(\d{1,3}(?:\.\d{1,15})?) ?%|(0|[01]?\.\d{1,15}))", str(given).strip())
    if match is not None:
        share = Fraction(match[1]) / 100 if match[1] else Fraction(match[2])
        if share <= 1:
            return share
    raise InputError(Setting(name, given), ": expected a share, such as 5% or 0.05")


def check_kind(options: object, names: Sequence[str], *kinds: type) -> None:
    """Raise InputError for the first of some options that is neither None nor of one of the kinds."""
    for name in names:
        value = getattr(options, name)
        if value is not None and not isinstance(value, kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise InputError(Setting(name, value), f": got a {type(value).__name__}; expected {expected}")


def check_flag(name: str, value: object) -> None:
    """Raise InputError unless an option is True or False: "no" would count as true."""
    if not isinstance(value, bool):
        raise InputError(Setting(name, value), ": expected True or False")


def check_whole_number(name: str, number: object, least: int, most: float = math.inf) -> None:
    """Raise InputError unless an option is a whole number from `least` to `most`."""
    is_whole = isinstance(number, Integral) and not isinstance(number, bool)
    if is_whole and least <= number <= most:  # type: ignore[operator]
        return
    expected = f": expected a whole number of at least {least}"
    if is_whole and number > most:  # type: ignore[operator]
        expected += f" and at most {most:,}"
    raise InputError(Setting(name, number), expected, field=name)


def split_options(given: Mapping[str, Any], *kinds: type[Any]) -> tuple[Any, ...]:
    """Keyword arguments → one object of each kind; an entry that several kinds have goes to all of them.

    With `LoadOptions` among the kinds, what none of them has is an option of a metric.

    >>> rows, output = split_options({"images": "photos", "output": "a.csv"}, RowOptions, OutputOptions)
    >>> rows.images, output.output
    ('photos', 'a.csv')
    """
    entries = {kind: {entry.name for entry in fields(kind)} for kind in kinds}
    known = set().union(*entries.values())
    found = {kind: {name: given[name] for name in given if name in names} for kind, names in entries.items()}
    others = {name: value for name, value in given.items() if name not in known}
    if LoadOptions in found:
        found[LoadOptions].setdefault("metric_options", others)
    elif others:
        name = next(iter(others))
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; expected {', '.join(sorted(known))}"
        raise OptionError("unknown option ", Setting(name, others[name]), hint)
    return tuple(kind(**found[kind]) for kind in kinds)
