"""Scores and ranks of rows → which rows stay, and for the others why not."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from ..errors import OptionError, Setting
from ..metrics.base import Scorer
from ..metrics.calibration import RANKS
from ..metrics.scores import Scores
from ..options import OutputOptions
from ..registry import METRICS

REASON_COLUMN = "capscore_reason"  # column of a file of dropped rows that says why a row is in it


class RowFilter:
    """Chooses the rows that stay by the score of a metric. A row that a metric could not score never stays.

    Attributes:
        rises: Whether a higher score is better.
        unranked: Why each row has no rank, as in `Ranked.reasons`; set before `reason` is asked.
        n_kept, n_scored: Number of rows that stay, and of those that every metric scored, so far.
    """

    def __init__(self, metric: str, options: OutputOptions):
        choices = {name: getattr(options, name) for name in ("min_score", "min_rank", "top")}
        given = [name for name, value in choices.items() if value is not None]
        if len(given) != 1:
            either = (Setting("min_score"), ", ", Setting("min_rank"), " and ", Setting("top"))
            raise OptionError("expected one of ", *either, " to say which rows stay")
        self.metric, self.choices = metric, choices
        self.unranked: Sequence[str] | np.ndarray = ()
        self.min_score, self.min_rank, self.top = choices.values()
        is_number = isinstance(self.min_score, int | float) and math.isfinite(self.min_score)
        if self.min_score is not None and not is_number:
            raise OptionError(Setting("min_score", self.min_score), ": expected a number")
        if self.min_rank is not None and not (
            isinstance(self.min_rank, int | float) and 0 < self.min_rank <= 100
        ):
            expected = ": expected a percentage of right captions above 0, at most 100, such as 5"
            raise OptionError(Setting("min_rank", self.min_rank), expected)
        self._share = self._count = Fraction(0)
        if self.top is not None:
            match = re.fullmatch(r"(?a:(\d{1,15})|(\d{1,15}(?:\.\d{1,15})?)%)", str(self.top))
            if match is not None and match[1]:
                self._count = Fraction(match[1])
            elif match is not None:
                self._share = Fraction(match[2]) / 100
            if self._share > 1 or not (self._share or self._count):
                expected = "expected a number of rows, or a percentage up to 100, such as 1000 or 30%"
                raise OptionError(Setting("top", self.top), f": {expected}")
        self.rises = METRICS.get(metric).higher_is_better
        self.n_kept, self.n_scored, self.n_unranked = 0, 0, 0
        self._worst, self._best = math.inf, -math.inf  # of those that stay, and of all

    def check_range(self, scorer: type[Scorer] | Scorer) -> None:
        """Raise OptionError if no row, or every row, has such a score, because of the metric's range."""
        low, high = scorer.score_range if isinstance(scorer, type) else scorer.limits
        is_below = low is not None and self.min_score is not None and self.min_score < low
        is_above = high is not None and self.min_score is not None and self.min_score > high
        if is_below or is_above:
            least, most = (f"{end:g}" if end is not None else "no limit" for end in (low, high))
            expected = f": scores of {self.metric} go from {least} to {most}"
            raise OptionError(Setting("min_score", self.min_score), expected)

    @property
    def lowest(self) -> float:
        """Worst score among the rows that stay; infinite if there is none."""
        return self._turned(self._worst) + 0.0

    def _turned(self, number: float) -> float:
        return number if self.rises else -number

    def choose(
        self, scores: Mapping[str, Scores], ranks: Mapping[str, Mapping[str, np.ndarray]] = {}
    ) -> np.ndarray:
        """bool (n,), True where a row stays; with `top`, `scores` are those of all rows."""
        unscored = np.any([np.isnan(part.scores) for part in scores.values()], axis=0)
        rising = np.where(unscored, np.nan, scores[self.metric].rising())
        n_scored = int((~unscored).sum())
        if self.min_score is not None:
            stays = rising >= self._turned(self.min_score)
        elif self.min_rank is not None:
            ranked = np.where(unscored, np.nan, ranks[self.metric][RANKS[0]])
            stays = ranked >= self.min_rank
            self.n_unranked += n_scored - int(np.isfinite(ranked).sum())
        else:
            count = min(int(self._count) or math.ceil(self._share * n_scored), n_scored)
            ranking = np.where(unscored, np.nan, scores[self.metric].ranking)
            stays = np.zeros(len(rising), dtype=bool)
            stays[np.argsort(-ranking, kind="stable")[:count]] = True
        self.n_kept += int(stays.sum())
        self.n_scored += n_scored
        self._worst = float(np.min(rising[stays], initial=self._worst))
        self._best = float(np.fmax.reduce(rising, initial=self._best))
        return stays

    def reason(
        self, row: int, scores: Mapping[str, Scores], ranks: Mapping[str, Mapping[str, np.ndarray]] = {}
    ) -> str:
        part = scores[self.metric]
        if self.min_rank is not None:
            rank = float(ranks[self.metric][RANKS[0]][row])
            if math.isnan(rank):
                return f"no rank: {self.unranked[row] or 'no calibration is of such scores'}"
            return f"rank {rank:.1f} is below {self.min_rank:g}"
        score = f"{self.metric} {part.scores[row]:.4f}"
        if self.min_score is not None:
            return f"{score} is {'below' if self.rises else 'above'} {self.min_score:g}"
        return f"{score} is not among the {'highest' if self.rises else 'lowest'} {self.top}"

    def to_dict(self) -> dict[str, object]:
        """The choice, the counts, and the worst score that stays (None without rows), ready for JSON."""
        lowest = self.lowest if self.n_kept else None
        counts = {"n_kept": self.n_kept, "n_scored": self.n_scored, "lowest": lowest}
        return {"metric": self.metric, **self.choices, **counts}

    def sentence(self) -> str:
        least, best, worst = ("least", "highest", "lowest") if self.rises else ("most", "lowest", "highest")
        choice = f"{self.metric} among the {best} {self.top}"
        if self.min_score is not None:
            choice = f"{self.metric} of at {least} {self.min_score:g}"
        elif self.min_rank is not None:
            choice = f"a rank in {self.metric} of at least {self.min_rank:g}"
        lowest = f"; the {worst} has {self.lowest:.4f}" if self.n_kept else ""
        if not self.n_kept and self.n_scored:
            lowest = f"; the best row has {self._turned(self._best):.4f}"
        if self.n_unranked:
            lowest += f"; {self.n_unranked:,} without a rank did not stay"
        return f"Kept {self.n_kept:,} of {self.n_scored:,} scored rows, with {choice}{lowest}."
