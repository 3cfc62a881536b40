"""Benchmark protocols: arrays of scores and labels → the numbers of a paper's table.

In: arrays with one number or label per row. Out: one `ProtocolResult`, with statistics, counts and notes.
Values are shares in [0, 1] or correlations in [-1, 1], never percentages. None marks a number that the rows
cannot give; `notes` says why. Ratings are correlated by `capscore.statistics.agreement.agreement`.

What several functions take:

- `images`: image id of each row; the bootstrap draws the rows of one image together. None draws single rows.
- `sampling`: draws for the intervals (`capscore.options.Sampling`); the default makes none.
- `missing`: "raise" stops at a missing score (NaN or None); "skip" leaves out what needs it and counts it.

All raise `InputError` for columns of different lengths, an unknown label, or a missing score; it names the
row and the argument.

    >>> from capscore.benchmarks.protocols import foils
    >>> foils([0.9, 0.8], [0.2, 0.9]).table()
    [('accuracy all', 0.5, 2), ('accuracy mean', 0.5, 2), ('accuracy pooled', 0.5, 2)]
"""

from .accuracy import (
    PASCAL50S_CATEGORIES,
    VALSE_PHENOMENA,
    VALSE_PIECES,
    XVNLI_LABELS,
    foils,
    marvl,
    pairwise_by_category,
    xvnli,
)
from .battles import battles_with_people
from .correlation import detailcaps, thumb
from .recall import retrieval
from .results import ProtocolResult, Statistic
from .words import captokeneval, localisation

__all__ = [
    "PASCAL50S_CATEGORIES",
    "VALSE_PHENOMENA",
    "VALSE_PIECES",
    "XVNLI_LABELS",
    "ProtocolResult",
    "Statistic",
    "battles_with_people",
    "captokeneval",
    "detailcaps",
    "foils",
    "localisation",
    "marvl",
    "pairwise_by_category",
    "retrieval",
    "thumb",
    "xvnli",
]
