"""A file that was scored → its rows that somebody should look at, each with what speaks against it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from ..metrics.calibration import LIKELY_WRONG
from ..text.suspicious import KINDS

if TYPE_CHECKING:
    from .files import ScoredFile

KINDS_OF_REASON = {
    "rank": "low rank",
    "fit": "does not fit the photo",
    "score": "among the lowest scores",
    "words": "words look wrong",
    "text": "odd text",
    "photo": "photo shows nothing",
    "answer": "odd answer of the judge",
    "failed": "could not be scored",
}
"""Kind of reason → its name for people."""
MAX_LOWEST = 50
"""Number of rows with the worst scores that are listed where no row has a rank."""
_OTHER_KINDS = {"blank": "photo", "mass": "answer", "unlisted": "answer", "dropped": "answer"}


def reasons_to_check(run: ScoredFile) -> dict[int, dict[str, str]]:
    """Row → why somebody should look at it, by the kind of reason; the worst first, failed rows last.

    >>> import capscore
    >>> texts = ("a cat", "a tree", "a dog")
    >>> rows = [{"caption": text, "references": ["a cat sits"]} for text in texts]
    >>> reasons_to_check(capscore.score_file(rows, "rouge_l", language="en"))
    {1: {'score': 'among the lowest scores'}}
    """
    reasons: defaultdict[int, dict[str, str]] = defaultdict(dict)
    rising = run.rising()
    if run.is_judged:
        for row in np.flatnonzero(run.first_ranks < LIKELY_WRONG).tolist():
            worse = f"{run.first_ranks[row]:.1f}".removesuffix(".0")
            reasons[row]["rank"] = f"{worse} % of right captions score worse"
    else:
        for row in rising[: min(MAX_LOWEST, len(rising) // 2)]:
            reasons[row]["score"] = KINDS_OF_REASON["score"]
    for row, (_, problem) in run.failures.items():
        reasons[row]["failed"] = problem
    for part in run.scores.values():
        for row in range(len(part) if part.details else 0):
            if part.fits(row) is False:
                reasons[row]["fit"] = KINDS_OF_REASON["fit"]
            if words := ", ".join(dict.fromkeys(word for _, _, word in part.wrong_words(row))):
                reasons[row]["words"] = words
    for row, kinds in run.odd.items():
        for kind in kinds:
            what = KINDS[kind].said.replace("have ", "has ", 1)
            before = reasons[row].get(_OTHER_KINDS.get(kind, "text"))
            reasons[row][_OTHER_KINDS.get(kind, "text")] = f"{before}; {what}" if before else what
    unscored = sorted({*reasons} - {*rising})
    return {row: reasons[row] for row in (*rising, *unscored) if row in reasons}
