"""Scores of the same items in several languages → their correlations.

In: language → score of each item. Out: Pearson's r of every two languages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...errors import InputError, Setting
from ...statistics.correlation import pearson
from .inputs import flag_column, present_rows, rating_column, score_column
from .results import ProtocolResult, Statistic, counted


@dataclass(frozen=True, eq=False)
class CrossLanguageCorrelation(ProtocolResult):
    """Correlation of a metric's scores between languages.

    Attributes:
        languages: Language codes, in the given order.
        matrix: Pearson's r in [-1, 1], float64 (languages, languages); NaN where it is undefined, and `notes`
            says why. The diagonal is 1.
        counts_of: Number of items that both languages count, int64 (languages, languages).
        mean: Plain mean over pairs of languages; None if one has no r.
        n_missing: Number of missing scores.
        notes: Remarks that a reader needs.
    """

    protocol: ClassVar[str] = "cross_language"
    languages: tuple[str, ...]
    matrix: np.ndarray
    counts_of: np.ndarray
    mean: float | None
    n_missing: int
    notes: tuple[str, ...]

    def statistics(self) -> list[Statistic]:
        """One "pearson_<language>_<language>" per pair, then "pearson_mean", whose n counts pairs."""
        found = []
        for a, b in _pairs(len(self.languages)):
            r = float(self.matrix[a, b])
            name = f"pearson_{self.languages[a]}_{self.languages[b]}"
            found.append(Statistic(name, None if math.isnan(r) else r, None, int(self.counts_of[a, b])))
        return [*found, Statistic("pearson_mean", self.mean, None, len(found))]

    def counts(self) -> dict[str, int]:
        """Numbers of languages, of their pairs, and of scores left out."""
        size = len(self.languages)
        return {"languages": size, "pairs": size * (size - 1) // 2, "left out": self.n_missing}


def cross_language(
    scores: Mapping[str, Any],
    *,
    subset: Mapping[str, Any] | None = None,
    missing: str = "raise",
) -> CrossLanguageCorrelation:
    """Pearson's r between languages of scores of the same items (Gomes et al. 2025, §4.3.2, Figure 1).

    Args:
        scores: Language → scores of n items, (n,); item i is the same image and the same caption, translated.
        subset: Language → True where an item counts in that language, (n,), as made by `quality_subset`. A
            language that is not named (the source of the translations) counts all. Two languages are compared
            on the items that both count; the paper does not say how it pairs subsets of two languages.
        missing: "raise" stops at a missing score (NaN) that counts; "skip" leaves the item out of that
            language's pairs.

    Raises:
        InputError: fewer than two languages, different lengths, a subset of an unknown language, a missing
            score.

    >>> result = cross_language({"en": [0.1, 0.2, 0.4], "de": [0.3, 0.4, 0.6], "ja": [0.4, 0.3, 0.1]})
    >>> [(name, round(r, 6), n) for name, r, n in result.table()]
    [('pearson en de', 1.0, 3), ('pearson en ja', -1.0, 3), ('pearson de ja', -1.0, 3),
     ('pearson mean', -0.333333, 3)]
    """
    if not isinstance(scores, Mapping) or len(scores) < 2:
        raise InputError("expected a mapping of at least two languages to their scores", field="scores")
    languages = tuple(scores)
    columns: list[np.ndarray] = []
    for language, given in scores.items():
        columns.append(score_column(given, f"scores[{language!r}]", len(columns[0]) if columns else None))
    n = len(columns[0])
    counts_in = [np.full(n, True) for _ in languages]
    if subset is not None:
        unknown = [language for language in subset if language not in scores]
        if unknown:
            raise InputError(
                f"{', '.join(map(repr, unknown))}: no scores; there are {', '.join(languages)}",
                field="subset",
            )
        for place, language in enumerate(languages):
            if language in subset:
                counts_in[place] = flag_column(subset[language], f"subset[{language!r}]", n)

    notes = []
    n_missing = 0
    for place, language in enumerate(languages):
        needed = np.where(counts_in[place], columns[place], 0)
        present = present_rows(missing, **{f"scores[{language!r}]": needed})
        if not present.all():
            gone = int((~present).sum())
            n_missing += gone
            notes.append(f"{language}: {counted(gone, 'item')} left out: the score is missing")
        counts_in[place] = counts_in[place] & present

    size = len(languages)
    matrix, counts = np.eye(size), np.zeros((size, size), dtype=np.int64)
    for place in range(size):
        counts[place, place] = counts_in[place].sum()
    for a, b in _pairs(size):
        both = counts_in[a] & counts_in[b]
        r = pearson(columns[a][both], columns[b][both]) if both.any() else None
        counts[a, b] = counts[b, a] = both.sum()
        matrix[a, b] = matrix[b, a] = math.nan if r is None else r
        if r is None:
            why = "one side is constant" if both.any() else "no item counts in both"
            notes.append(f"no correlation of {languages[a]} and {languages[b]}: {why}")
    off_diagonal = [float(matrix[a, b]) for a, b in _pairs(size)]
    mean = math.fsum(off_diagonal) / len(off_diagonal)
    return CrossLanguageCorrelation(
        languages=languages,
        matrix=matrix,
        counts_of=counts,
        mean=None if math.isnan(mean) else mean,
        n_missing=n_missing,
        notes=tuple(notes),
    )


def quality_subset(
    quality: Mapping[str, Any], *, below: float | None = None, above: float | None = None
) -> dict[str, np.ndarray]:
    """Items with a translation quality below or above a percentile (Gomes et al. 2025, Figure 1).

    Args:
        quality: Language → quality of each item's translation, (n,), such as COMETKiwi's estimates.
        below: Percentile, 25 in the paper.
        above: Percentile, 75 in the paper. Give one of the two.

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
        field = f"quality[{language!r}]"
        column = rating_column(values, field)
        bound = np.percentile(column, percentile)
        chosen[language] = column < bound if below is not None else column > bound
    return chosen


def _pairs(size: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(size) for b in range(a + 1, size)]
