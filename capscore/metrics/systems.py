"""Compares captioning systems on the same rows: by `Scores`, by plain numbers, or by scored files.

`compare_systems` tests whether one system scores higher; `read_systems` reads the files that `capscore score`
wrote for several systems, and puts their rows in one order.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, Setting
from ..files.columns import FAMILIAR, OTHER_NAMES, check_column, read_numbers
from ..files.matching import Key, match_rows
from ..files.read import open_rows
from ..files.write import summary_path
from ..options import RowOptions, Sampling
from ..registry import METRICS
from ..statistics.columns import Column
from ..statistics.system_means import SystemComparison, compare_means_by_language
from .loading import is_lower_better
from .scores import Scores
from .signature import parse_signature


def compare_systems(
    systems: Mapping[str, Any],
    *,
    images: Column | None = None,
    languages: Column | None = None,
    baseline: str | None = None,
    n: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
    missing: str = "raise",
) -> list[SystemComparison]:
    """Test whether the captions of one system score higher than those of another, on the same photos.

    The difference of two means comes with an interval (paired bootstrap over photos) and a p-value
    (approximate randomisation), Holm-corrected for the number of systems. It says whether the metric
    prefers a system on photos like these, not whether people would. Means of rows are compared: a corpus
    score, such as corpus BLEU, is not tested. p-values are not corrected for several metrics or languages.

    Args:
        systems: Name → `Scores` of one metric, or a list of n scores; at least 2 systems, rows in one order.
        images: n photo ids; None takes the photos that `Scores` name. Rows of one photo are drawn together.
        languages: n language codes, for a comparison in each; None takes those of `Scores`.
        baseline: System that the others are compared with; None for the first.
        n: Number of samples. If there are no more than n ways to swap photos, all are counted.
        confidence: Share of samples inside an interval.
        seed: Seed for the samples.
        missing: "raise" stops at a row that a system has no score for; "skip" leaves it out for all.

    Returns:
        The comparison over all rows, then one for each language if there are several.

    Raises:
        InputError: fewer than 2 systems, different numbers of rows, `Scores` with different signatures or
            photos, an unknown baseline, a value that is not a finite number.

    >>> import capscore
    >>> photos = ["1.jpg", "1.jpg", "2.jpg", "3.jpg", "4.jpg", "5.jpg", "6.jpg"]
    >>> found = capscore.compare_systems(
    ...     {"small": [0.50, 0.54, 0.61, 0.40, 0.58, 0.52, 0.49],
    ...      "large": [0.55, 0.59, 0.65, 0.48, 0.60, 0.57, 0.50]}, images=photos)
    >>> {name: round(mean, 4) for name, mean in found[0].means.items()}
    {'small': 0.52, 'large': 0.5629}
    >>> large = found[0].differences[0]
    >>> round(large.difference, 4), large.p_value     # 6 photos: 2 of 64 ways are as extreme
    (0.0429, 0.03125)
    """
    if len(systems) < 2:
        raise InputError(f"expected at least 2 systems to compare, got {len(systems)}")
    scored = {name: given for name, given in systems.items() if isinstance(given, Scores)}
    if scored:
        truncated = {name for name, given in scored.items() if given.n_truncated}
        _check_signatures({name: given.signature for name, given in scored.items()}, truncated=truncated)
        if images is None:
            images = _photos(scored)
        if languages is None:
            spoken = next(iter(scored.values())).languages
            languages = spoken if len(set(spoken)) > 1 else None
    return compare_means_by_language(
        {name: given.scores if isinstance(given, Scores) else given for name, given in systems.items()},
        languages,
        images=images,
        baseline=baseline,
        sampling=Sampling(n, confidence, seed),
        missing=missing,
        higher_is_better=not any("" in given.lower_is_better for given in scored.values()),
    )


def _photos(scored: Mapping[str, Scores]) -> list[str] | None:
    """The photos of the rows, the same for all systems; None for a metric that opens none.

    A row that failed has no photo, so another system's photo is taken there.
    """
    keys = [item.image_keys for item in scored.values()]
    if not any(map(any, keys)):
        return None
    photos = []
    for row, names in enumerate(zip(*keys, strict=False)):
        found = sorted({*names} - {""})
        if len(found) > 1:
            raise InputError(f"the systems {', '.join(scored)} describe different photos", row=row)
        photos.append(found[0] if found else f"row {row}")
    return photos


def _check_signatures(
    signatures: Mapping[str, str], *, without: Sequence[str] = (), truncated: Collection[str] = ()
) -> None:
    """Check that scores depend on the same things, but for `empty` and the settings in `without`.

    `truncated` names those of whose texts some were cut. Without such texts, scores that do not state
    `long:sentences` are those of short texts, which are read alike.
    """
    first = ""
    expected: dict[str, str] = {}

    def same(key: str) -> bool:
        pair = expected.get(key), found.get(key)
        silent = first if pair[0] is None else name
        return pair[0] == pair[1] or (
            key == "long" and set(pair) == {None, "sentences"} and silent not in truncated
        )

    for name, signature in signatures.items():
        try:
            metric, settings = parse_signature(signature)
        except ValueError as error:  # a summary that somebody edited
            raise InputError(f"{name} has no signature that can be read: {error}") from None
        # what is done with empty captions is stated where there are any; those left out are missing rows
        found = {"metric": metric, **settings, **dict.fromkeys((*without, "empty"), "")}
        if not first:
            first, expected = name, found
        differing = [
            f"{key} {expected.get(key, 'not stated')!r:.80} against {found.get(key, 'not stated')!r:.80}"
            for key in dict.fromkeys([*expected, *found])
            if not same(key)
        ]
        if differing:
            hint = "; score CIDEr of both with the same document frequencies" if "df" in found else ""
            raise InputError(
                f"{first} and {name} were scored in different ways, so their numbers cannot be compared: "
                f"{'; '.join(differing)}{hint}"
            )


# ---- scored files ----


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
        notes: Remarks that a reader needs.
    """

    scores: dict[str, dict[str, np.ndarray]]
    photos: list[str] | None
    languages: list[str] | None
    matched_by: str
    n_left: dict[str, int]
    signatures: dict[str, str]
    notes: list[str]

    @property
    def matching(self) -> str:
        """How rows were matched, and how many were left out, as a sentence."""
        left = [f"{count:,} of {name}" for name, count in self.n_left.items() if count]
        more = f"; rows that not all systems have were left out: {', '.join(left)}" if left else ""
        return f"Rows were matched by {self.matched_by}{more}."

    def compare(self, **options: Any) -> dict[str, list[SystemComparison]]:
        """Metric → `compare_means_by_language` of its scores; rows that lack a score are left out."""
        how = {"images": self.photos, "missing": "skip", **options}
        return {
            column: compare_means_by_language(
                scores, self.languages, higher_is_better=not is_lower_better(column), **how
            )
            for column, scores in self.scores.items()
        }


class _System:
    """A file of scores: its rows, and the metrics of its summary."""

    def __init__(self, name: str, path: Path):
        self.name, self.source, self.metrics = name, open_rows(path), _summary(path)

    def stated(self, column: str, what: str) -> Any:
        """What the summary states of the metric that a column belongs to, such as its signature."""
        for metric, stated in self.metrics.items():
            parts = [name.removeprefix("mean_") for name in stated if name.startswith("mean_")]
            if column in (metric, *parts, *(f"{metric}_{part}" for part in parts)):
                return stated.get(what)
        return None


def read_systems(
    files: Mapping[str, Path],
    metrics: Sequence[str] | None = None,
    *,
    match_by: str | None = None,
    options: RowOptions = RowOptions(),
    common_rows: bool = False,
) -> SystemRows:
    """Read the scores of several systems, and match their rows.

    Rows are matched by their id; without one by photo, or by references (see `files.matching.match_rows`).

    Args:
        files: System → file of scored rows, of any kind that `capscore score` reads.
        metrics: Columns of scores; None takes all metrics that the files have in common.
        match_by: "id", "photo", "references" or "order"; None takes the first of the others that all have.
        options: Names of the columns of ids, images and languages, where they are unfamiliar.
        common_rows: Whether rows that not all systems have a score for are left out; otherwise they are an
            error.

    Raises:
        InputError: a file or column that does not exist, a score that is not a number, nothing that names
            rows, different rows, or different signatures.
    """
    systems = [_System(name, Path(path)) for name, path in files.items()]
    sources = {system.name: system.source for system in systems}
    columns = _score_columns(systems, metrics)
    notes = _signature_notes(systems, columns, common_rows)
    rows = match_rows(sources, options, match_by=match_by, common_rows=common_rows)
    scores: dict[str, dict[str, np.ndarray]] = {}
    for column in columns:
        scores[column] = {}
        for name, source in sources.items():
            scores[column][name] = np.array(read_numbers(source, column))[rows.numbers[name]]
    if not common_rows:
        _refuse_missing_scores(scores, rows.keys)
    signatures: dict[str, str] = {}
    for column in columns:
        if stated := systems[0].stated(column, "signature"):
            signatures[column] = str(stated)
    return SystemRows(
        scores=scores,
        photos=rows.photos,
        languages=rows.languages,
        matched_by=rows.matched_by,
        n_left=rows.n_left,
        signatures=signatures,
        notes=notes + _style_notes(systems, signatures.values()),
    )


def _score_columns(systems: Sequence[_System], metrics: Sequence[str] | None) -> list[str]:
    """The columns of scores: those that are named, or all metrics that the files have in common."""
    for system in systems:
        for metric in metrics or ():
            check_column("metric", metric, system.source.columns, f" (in {system.source.path})")
    if metrics:
        return list(dict.fromkeys(metrics))
    known = {*METRICS.names(), "score"}
    for system in systems:
        known.update(system.metrics)
    columns = []
    for name in systems[0].source.columns:
        if name in known and all(name in system.source.columns for system in systems):
            columns.append(name)
    if columns:
        return columns
    raise InputError(
        Setting("metric"),
        ": the files have no metric in common; name metrics that are to be computed, such as ",
        Setting("metric", "mcs"),
        ", or a column of scores",
    )


def _summary(path: Path) -> dict[str, dict[str, Any]]:
    """The metrics in the summary beside a file of scores; {} if there is none."""
    summary = summary_path(path)
    try:
        found = json.loads(summary.read_text(encoding="utf-8"))["metrics"]
        return {name: stated for name, stated in found.items() if isinstance(stated, dict)}
    except (FileNotFoundError, LookupError, TypeError, AttributeError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{summary}, the summary of {path}, cannot be read: {error}") from None


def _signature_notes(systems: Sequence[_System], columns: Sequence[str], common_rows: bool) -> list[str]:
    """Refuse scores that depend on different things; notes on those that state nothing."""
    notes = []
    for column in columns:
        signatures = {system.name: str(system.stated(column, "signature") or "") for system in systems}
        stated = {name: signature for name, signature in signatures.items() if signature}
        try:
            # other rows may be in other languages
            truncated = {system.name for system in systems if system.stated(column, "n_truncated")}
            _check_signatures(stated, without=("lang",) if common_rows else (), truncated=truncated)
        except InputError as error:
            raise InputError(f"{column}: ", *error.parts) from None
        if silent := ", ".join(name for name in signatures if name not in stated):
            notes.append(
                f"{column}: no summary states how {silent} was scored; whether settings agree is not checked"
            )
    return notes


_STOPS = (".", "!", "?", "。")


def _style_notes(systems: Sequence[_System], signatures: Iterable[str]) -> list[str]:
    """A note where scores of an embedded backbone compare systems whose captions differ in style."""
    stated = [parse_signature(signature)[1] for signature in signatures]
    embedded = [part for part in stated if part.get("backbone", "").startswith("embedded")]
    if not embedded:
        return []
    styles = []
    for system in systems:
        names = (*FAMILIAR["candidate"], *OTHER_NAMES["candidate"])
        column = next((name for name in names if name in system.source.columns), None)
        chunks = system.source.chunks(4096, [column]) if column else ()
        captions = [text for chunk in chunks for text in chunk.values(column or "") if isinstance(text, str)]
        if not captions:
            return []
        seen = [(len(text), text[:1].isupper(), text.rstrip().endswith(_STOPS)) for text in captions]
        styles.append(np.mean(seen, axis=0))
    folded = all(part.get("text") == "folded" for part in embedded)  # neither capital nor stop moves a score
    low, high = np.min(styles, axis=0), np.max(styles, axis=0)
    if high[0] <= 1.3 * low[0] and (folded or (high - low)[1:].max() <= 0.2):
        return []
    shown = "; ".join(
        f"{system.name}: {length:.0f} characters"
        + ("" if folded else f", {capital:.0%} with a capital, {stop:.0%} with a stop")
        for system, (length, capital, stop) in zip(systems, styles, strict=True)
    )
    return [
        f"captions differ in style ({shown}), which moves scores on `embedded`: to rank captioners, use a "
        "backbone from the Hub, or judge"
    ]


def _refuse_missing_scores(scores: Mapping[str, Mapping[str, np.ndarray]], keys: Sequence[Key]) -> None:
    for column, by_system in scores.items():
        for name, values in by_system.items():
            if (missing := np.isnan(values)).any():
                raise InputError(
                    f"{column}: {missing.sum():,} rows of {name} have no score, such as "
                    f"{keys[int(missing.argmax())]}; ",
                    Setting("common_rows", True),
                    " compares only the rows that every system has a score for",
                )
