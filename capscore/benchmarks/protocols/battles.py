"""Battles of two captions, by people and by a metric: do they prefer the same captions, and systems?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ...errors import InputError
from ...options import Sampling
from ...statistics import columns
from ...statistics.battles import bradley_terry, elo, outcomes_of, weighted_ratings, wins_by_unit
from ...statistics.bootstrap import NO_INTERVALS
from ...statistics.columns import Column
from ...tables import counted
from .results import ProtocolResult, Statistic, estimates

WINNERS = ("second", "tie", "first")  # by what they are worth to the first, in halves
HUMAN = "human"
LEVELS = (1, 2, 3, 4)
CAPARENA_RANKING = (
    *("GPT-4o-0806", "Gemini-2.0-flash-exp", "InternVL2-26B", "Gemini-1.5-pro-002"),
    *("Claude-3.5-Sonnet-0620", "GPT-4o-mini-0718", "LLama-3.2-90B", "Qwen2-VL-72B-Instruct"),
    *("CogVLM2-llama3-chat-19B", "MiniCPM-V2.6-8B", "Qwen2-VL-7B-Instruct", "Qwen2-VL-2B-Instruct"),
    *("LLaVA-1.6-34B", "LLaVA-1.5-7B"),
)
"""Models by the Elo ratings of people's battles, the best first (CapArena's `caparena_metrics.py`)."""


def battles_with_people(
    margins: Column,
    winners: Column,
    systems: Sequence[Sequence[str]],
    levels: Column,
    *,
    images: Column | None = None,
    sampling: Sampling = NO_INTERVALS,
    missing: str = "raise",
) -> ProtocolResult:
    """How often a metric and people prefer the same caption, and whether they rank systems alike.

    As in CapArena's code (Cheng et al. 2025), battles with the system "human" are left out.

    Args:
        margins: By how much the metric prefers the first caption of each battle, (n,); 0 for a tie.
        winners: "first", "second" or "tie", by people.
        systems: The two systems of each battle.
        levels: 1 to 4, how near the two systems are; 0 for none.
        images, sampling, missing: See `capscore.benchmarks.protocols`.

    Returns:
        "agreement": share of the battles that neither calls a tie in which both prefer the same caption;
        "agreement_with_ties": share of all battles, where a tie must be called a tie; both also with
        "_level_1" to "_level_4". "spearman" and "tau_b": correlation of the systems' Elo ratings (see
        `capscore.statistics.battles.elo`) with `CAPARENA_RANKING`, of the systems in it; with
        "_bradley_terry", of their Bradley–Terry ratings. Details: "elo" and
        "bradley_terry", system → rating by the metric.

    >>> found = battles_with_people(
    ...     [0.4, -0.2, 0.0, 0.1], ["first", "first", "tie", "tie"], [["a", "b"]] * 4, [1, 1, 2, 2])
    >>> found.value("agreement"), found.value("agreement_with_ties"), found.value("agreement_level_2")
    (0.5, 0.5, None)
    """
    numbers = columns.number_column(margins, "margins")
    n = len(numbers)
    people = columns.label_codes(winners, "winners", n, WINNERS)
    of_level = columns.label_codes(levels, "levels", n, (0, *LEVELS))
    pairs = columns.as_list(systems, "systems", n)
    for row, pair in enumerate(pairs):
        if len(pair) != 2:
            raise InputError(f"expected two systems, got {len(pair)}", row=row, field="systems")
    among_models = np.array([HUMAN not in pair for pair in pairs], dtype=bool)
    present = columns.present_rows(missing, {"margins": np.where(among_models, numbers, 0.0)})
    kept = among_models & present
    units, unit = columns.units_of(images, kept, "battle", numbers, people, of_level)
    size = {"n_units": int(units.max(initial=-1)) + 1, "n_rows": int(kept.sum())}
    how = {"unit": unit, "sampling": sampling, **size}
    outcomes = outcomes_of(numbers[kept])
    statistics, notes = _agreements(outcomes, people[kept] / 2, of_level[kept], units, how)
    models = _Models.of([pair for pair, stays in zip(pairs, kept, strict=True) if stays])
    more, ratings, notes_on_models = models.statistics(outcomes, units, how)
    n_people = int((~among_models).sum())
    if n_people:
        notes.insert(0, f"{counted(n_people, 'battle')} with {HUMAN} left out, as published")
    return ProtocolResult(
        (*statistics, *more),
        {
            "battles": size["n_rows"],
            "ties of people": int((people[kept] == 1).sum()),
            "ties of the metric": int((outcomes == 0.5).sum()),
            "with human": n_people,
            "left out": int((among_models & ~present).sum()),
        },
        (*columns.left_out(present, "battles"), *notes, *notes_on_models),
        ratings,
    )


def _agreements(
    outcomes: np.ndarray, people: np.ndarray, levels: np.ndarray, units: np.ndarray, how: Mapping[str, Any]
) -> tuple[list[Statistic], list[str]]:
    """Shares of battles with one outcome for metric and people: with and without ties, all and per level."""
    masks = {"agreement": (outcomes != 0.5) & (people != 0.5), "agreement_with_ties": levels >= 0}
    for name, counts in [*masks.items()]:
        masks |= {f"{name}_level_{level}": counts & (levels == level) for level in LEVELS}
    n_units = how["n_units"]
    of_units = np.array([np.bincount(units[mask], minlength=n_units) for mask in masks.values()], float)
    agree = [mask & (outcomes == people) for mask in masks.values()]
    agreed = np.array([np.bincount(units[mask], minlength=n_units) for mask in agree], float)

    def shares(drawn: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return (agreed @ drawn) / (of_units @ drawn)  # NaN where a sample has none

    found, notes = estimates(shares, list(masks), **how)
    for name, mask in masks.items():
        if not mask.any():
            notes.append(f"{name.replace('_', ' ')}: there are no such battles")
    return [Statistic(name, *found[name], int(mask.sum())) for name, mask in masks.items()], notes


@dataclass(frozen=True)
class _Models:
    """The systems that are ranked.

    Attributes:
        names: Their names, as people rank them.
        first, second: int (battles,), the two of each battle; −1 for one that is not ranked.
    """

    names: list[str]
    first: np.ndarray
    second: np.ndarray

    @classmethod
    def of(cls, pairs: Sequence[Sequence[str]]) -> _Models:
        fought = set(chain.from_iterable(pairs))
        names = [name for name in CAPARENA_RANKING if name in fought]
        places = {name: place for place, name in enumerate(names)}
        both = np.array([[places.get(name, -1) for name in pair] for pair in pairs], int).reshape(-1, 2)
        return cls(names, *both.T)

    def statistics(
        self, outcomes: np.ndarray, units: np.ndarray, how: Mapping[str, Any]
    ) -> tuple[list[Statistic], dict[str, dict[str, float]], list[str]]:
        """Correlations of the ratings with people's ranking, the ratings, and notes."""
        k, names = len(self.names), ["spearman_bradley_terry", "tau_b_bradley_terry"]
        if k < 2:
            lone = [Statistic(name, None, None, k) for name in ("spearman", "tau_b", *names)]
            return lone, {}, [f"{counted(k, 'system')} of the ranking: no correlation of systems"]
        both = (self.first >= 0) & (self.second >= 0)
        battles_of = self.first[both], self.second[both], outcomes[both]
        by_elo = elo(*battles_of, k)
        wins = wins_by_unit(*battles_of, units[both], k, how["n_units"])
        whole = bradley_terry(wins.sum(axis=0))

        def correlations(drawn: np.ndarray) -> np.ndarray:
            return _correlations(weighted_ratings(wins, drawn, whole))

        found, notes = estimates(correlations, names, **{**how, "n_rows": how["n_units"] * k})
        of_elo = _correlations(by_elo[:, None])[:, 0].tolist()
        statistics = []
        for name, value in zip(("spearman", "tau_b"), of_elo, strict=True):
            statistics.append(Statistic(name, None if value != value else value, None, k))
        statistics += [Statistic(name, *found[name], k) for name in names]
        ratings = {}
        for name, of_systems in (("elo", by_elo), ("bradley_terry", whole)):
            ratings[name] = dict(zip(self.names, of_systems.tolist(), strict=True))
        return statistics, ratings, notes


def _correlations(ratings: np.ndarray) -> np.ndarray:
    """ρ and τ_b of ratings (k, b) with the order of their rows, the best first: (2, b); NaN if all tie."""
    from scipy.stats import rankdata

    k = len(ratings)
    ratings = ratings.round(6)
    falling = np.arange(k, 0, -1)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        ranks = rankdata(ratings, axis=0) - (k + 1) / 2
        places = falling - (k + 1) / 2
        spearman = (ranks * places).sum(axis=0) / np.sqrt((ranks**2).sum(axis=0) * (places**2).sum())
        one, other = np.triu_indices(k, 1)
        signs = np.sign(ratings[one] - ratings[other])
        kendall = signs.sum(axis=0) / np.sqrt(len(one) * np.abs(signs).sum(axis=0))
    return np.stack([spearman, kendall])
