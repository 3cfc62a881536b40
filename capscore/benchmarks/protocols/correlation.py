"""Correlations of scores: with THumB's ratings, and between languages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import InputError, Setting
from ...statistics.bootstrap import Interval
from ...statistics.correlation import Correlations, pearson
from ...statistics.ratings import means_by
from .inputs import (
    flag_column,
    group_codes,
    left_out,
    present_rows,
    rating_column,
    score_column,
    units_of,
)
from .results import ProtocolResult, Sampling, Statistic, bootstrap_intervals, counted, ends

RATINGS = ("precision", "recall", "total")


def thumb(
    scores: Any,
    precision: Any,
    recall: Any,
    total: Any,
    systems: Any,
    *,
    human: str = "Human",
    images: Any = None,
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
    missing: str = "raise",
) -> ProtocolResult:
    """Pearson's r of scores with THumB's ratings (Kasai et al. 2022; Hu et al. 2023, §4.2, Table 3).

    THumB 1.0 has 500 images, each with one human caption and those of four systems: 2,500 captions, 2,000
    without the human ones.

    Args:
        scores: Scores (n,), overall or for precision or recall alone.
        precision, recall: Ratings 1 to 5, `P` and `R` in the files.
        total: Ratings, `human_score` in the files.
        systems: Name of the system that wrote each caption, `SYS` in the files.
        human: Name of the system for human captions.
        images, bootstrap, confidence, seed, missing: See `capscore.benchmarks.protocols`.

    Returns:
        "pearson_<rating>_without_human" (over the machines' captions), then "pearson_<rating>_with_human";
        None where a side is constant. Details: "without_human" and "with_human" ("n", r of each rating,
        "intervals"), "systems" (name → "n" and mean "score", "precision", "recall", "total"), "n_missing".

    >>> result = thumb(
    ...     scores=[0.1, 0.2, 0.4, 0.9],
    ...     precision=[3, 4, 5, 5],
    ...     recall=[2, 3, 3, 4],
    ...     total=[2, 3, 4, 5],
    ...     systems=["Up-Down", "Up-Down", "VinVL", "Human"],
    ... )
    >>> round(result.value("pearson_total_without_human"), 3), result.details["systems"]["Up-Down"]["recall"]
    (0.982, 2.5)
    """
    values = score_column(scores, "scores")
    n = len(values)
    given = zip(RATINGS, (precision, recall, total), strict=True)
    ratings = {name: rating_column(column, name, n) for name, column in given}
    codes, names = group_codes(systems, "systems", n)
    present = present_rows(missing, scores=values)
    machine = codes != names.index(human) if human in names else np.full(n, True)
    sampling = (bootstrap, confidence, seed)
    keys = (*ratings.values(), values, codes)
    units, _, unit_notes = units_of(images, sampling, "images or captions", *keys)
    parts, correlation_notes = _correlations(
        values[present],
        {name: column[present] for name, column in ratings.items()},
        {"without": machine[present], "with": np.full(int(present.sum()), True)},
        np.unique(units[present], return_inverse=True)[1],
        sampling,
    )
    means = _system_means({"score": values, **ratings}, codes, names, present)
    notes = left_out(present, "caption", "the score is missing")
    if machine.all():
        notes.append(
            f"no caption is by the system {human!r}: the correlations with and without it are the same"
        )
    if silent := [str(name) for name in names if str(name) not in means]:
        notes.append(f"no caption of {', '.join(silent)} has a score: no means")
    return ProtocolResult(
        "thumb",
        tuple(
            Statistic(
                f"pearson_{name}_{words}_human", part[name], ends(part["intervals"].get(name)), part["n"]
            )
            for words, part in parts.items()
            for name in RATINGS
        ),
        {
            "captions": parts["with"]["n"],
            "human captions": parts["with"]["n"] - parts["without"]["n"],
            "systems": len(means),
            "left out": int((~present).sum()),
        },
        {
            **{f"{words}_human": part for words, part in parts.items()},
            "systems": means,
            "n_missing": int((~present).sum()),
        },
        (*notes, *correlation_notes, *unit_notes),
    )


def _correlations(
    values: np.ndarray,
    ratings: dict[str, np.ndarray],
    subsets: dict[str, np.ndarray],
    units: np.ndarray,
    sampling: Sampling,
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Correlations of each subset, "with" and "without" human captions, and notes.

    Args:
        values: Scores, float64 (n,), none missing.
        ratings: Name → float64 (n,).
        subsets: Name → bool (n,).
        units: Units that the bootstrap draws, int64 (n,), numbered from 0 without gaps.
        sampling: Number of samples, confidence and seed.
    """
    rows = {
        (words, name): Correlations(values[kept], rating[kept], units[kept])
        for words, kept in subsets.items()
        if kept.any()
        for name, rating in ratings.items()
    }

    def correlated(weights: np.ndarray) -> np.ndarray:
        return np.array([part.values(["pearson"], weights)["pearson"] for part in rows.values()])

    n_units = int(units.max(initial=-1)) + 1
    found = correlated(np.ones((n_units, 1)))[:, 0].tolist() if rows else []
    r = {key: None if math.isnan(value) else value for key, value in zip(rows, found, strict=True)}
    notes = []
    for words, kept in subsets.items():
        if not kept.any():
            notes.append(f"no correlation {words} human captions: there are none")
        for name in RATINGS:
            if r.get((words, name), 0) is None:
                side = "the scores" if np.ptp(values[kept]) == 0 else "its ratings"
                notes.append(f"no correlation with {name} {words} human captions: {side} are all the same")
    made, sampled = bootstrap_intervals(
        correlated, n_units, "images or captions", len(rows) * len(values), sampling
    )
    intervals: dict[tuple[str, str], Interval | None] = dict(zip(rows, made, strict=False))
    for (words, name), interval in intervals.items():
        if interval is not None and interval.n_undefined:
            notes.append(
                f"interval with {name} {words} human captions: "
                f"{counted(interval.n_undefined, 'sample')} without a correlation left out"
            )
    parts: dict[str, dict[str, Any]] = {
        words: {
            "n": int(kept.sum()),
            **{name: r.get((words, name)) for name in RATINGS},
            "intervals": {name: intervals[words, name] for name in RATINGS if (words, name) in intervals},
        }
        for words, kept in subsets.items()
    }
    return parts, [*notes, *sampled]


def _system_means(
    columns: dict[str, np.ndarray], codes: np.ndarray, names: list[Any], present: np.ndarray
) -> dict[str, dict[str, Any]]:
    """Name → number of captions and means, for systems that have a caption with a score."""
    if not present.any():
        return {}
    means = {name: means_by(column[present], codes[present]).tolist() for name, column in columns.items()}
    sizes = np.bincount(codes[present], minlength=len(names))
    return {
        str(names[code]): {"n": int(sizes[code]), **{name: means[name][row] for name in means}}
        for row, code in enumerate(np.flatnonzero(sizes).tolist())
    }


def cross_language(
    scores: Mapping[str, Any], *, subset: Mapping[str, Any] | None = None, missing: str = "raise"
) -> ProtocolResult:
    """Pearson's r between languages of scores of the same items (Gomes et al. 2025, §4.3.2, Figure 1).

    Args:
        scores: Language → scores of n items, (n,); item i is the same image and the same caption, translated.
        subset: Language → True where an item counts in that language, (n,), as made by `quality_subset`. A
            language that is not named (the source of the translations) counts all. Two languages are compared
            on the items that both count; the paper does not say how it pairs subsets of two languages.
        missing: See `capscore.benchmarks.protocols`; items that do not count need no score.

    Returns:
        "pearson_<language>_<language>" per pair, then "pearson_mean": their plain mean, whose n counts pairs;
        None if one has no r. Details: "languages", "matrix" (r, NaN where undefined, 1 in the diagonal) and
        "counts_of" (items that both count) as lists (languages, languages), "mean", "n_missing".

    >>> result = cross_language({"en": [0.1, 0.2, 0.4], "de": [0.3, 0.4, 0.6], "ja": [0.4, 0.3, 0.1]})
    >>> [(name, round(r, 6), n) for name, r, n in result.table()]
    [('pearson en de', 1.0, 3), ('pearson en ja', -1.0, 3), ('pearson de ja', -1.0, 3),
     ('pearson mean', -0.333333, 3)]
    """
    if not isinstance(scores, Mapping) or len(scores) < 2:
        raise InputError("expected a mapping of at least two languages to their scores", field="scores")
    subset = subset or {}
    if unknown := [language for language in subset if language not in scores]:
        raise InputError(
            f"{', '.join(map(repr, unknown))}: no scores; there are {', '.join(scores)}", field="subset"
        )
    columns: list[np.ndarray] = []
    kept: list[np.ndarray] = []
    notes, n_missing = [], 0
    for language, given in scores.items():
        field = f"scores[{language!r}]"
        column = score_column(given, field, len(columns[0]) if columns else None)
        flags = subset.get(language)
        every = np.full(len(column), True)
        counts = every if flags is None else flag_column(flags, f"subset[{language!r}]", len(column))
        present = present_rows(missing, **{field: np.where(counts, column, 0)})
        if gone := int((~present).sum()):
            n_missing += gone
            notes.append(f"{language}: {counted(gone, 'item')} left out: the score is missing")
        columns.append(column)
        kept.append(counts & present)

    languages, size = list(scores), len(scores)
    matrix, counts_of = np.eye(size), np.diag([int(part.sum()) for part in kept])
    statistics = []
    for a, b in zip(*np.triu_indices(size, 1), strict=True):
        both = kept[a] & kept[b]
        r = pearson(columns[a][both], columns[b][both]) if both.any() else None
        counts_of[a, b] = counts_of[b, a] = both.sum()
        matrix[a, b] = matrix[b, a] = math.nan if r is None else r
        statistics.append(Statistic(f"pearson_{languages[a]}_{languages[b]}", r, None, int(both.sum())))
        if r is None:
            why = "one side is constant" if both.any() else "no item counts in both"
            notes.append(f"no correlation of {languages[a]} and {languages[b]}: {why}")
    values = [statistic.value for statistic in statistics if statistic.value is not None]
    mean = math.fsum(values) / len(values) if len(values) == len(statistics) else None
    return ProtocolResult(
        "cross_language",
        (*statistics, Statistic("pearson_mean", mean, None, len(statistics))),
        {"languages": size, "pairs": len(statistics), "left out": n_missing},
        {
            "languages": languages,
            "matrix": matrix.tolist(),
            "counts_of": counts_of.tolist(),
            "mean": mean,
            "n_missing": n_missing,
        },
        tuple(notes),
    )


def quality_subset(
    quality: Mapping[str, Any], *, below: float | None = None, above: float | None = None
) -> dict[str, np.ndarray]:
    """Items with a translation quality below or above a percentile (Gomes et al. 2025, Figure 1).

    Args:
        quality: Language → quality of each item's translation, (n,), such as COMETKiwi's estimates.
        below, above: Percentile, 25 or 75 in the paper. Give one of the two.

    Returns:
        Language → bool (n,), for `cross_language`.

    Raises:
        InputError: both or neither of the two, a percentile outside 0 to 100, a missing quality.

    >>> quality_subset({"de": [0.1, 0.2, 0.3, 0.4, 0.5]}, below=25)["de"].tolist()
    [True, False, False, False, False]
    """
    if (below is None) == (above is None):
        raise InputError(Setting("below", below), ", ", Setting("above", above), ": expected one of the two")
    percentile = below if below is not None else above
    if isinstance(percentile, bool) or not isinstance(percentile, (int, float)) or not 0 <= percentile <= 100:
        raise InputError(f"{percentile!r}: expected a percentile, 0 to 100")
    if not isinstance(quality, Mapping) or not quality:
        raise InputError("expected a mapping of language to the quality of each item", field="quality")
    chosen = {}
    for language, values in quality.items():
        column = rating_column(values, f"quality[{language!r}]")
        bound = np.percentile(column, percentile)
        chosen[language] = column < bound if below is not None else column > bound
    return chosen
