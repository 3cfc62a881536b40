"""Battles that people judged: agreement as CapArena's code counts it, and systems ranked by two ratings."""

import numpy as np
import pytest
import scipy.stats

from capscore.benchmarks.protocols import battles_with_people
from capscore.benchmarks.protocols.battles import CAPARENA_RANKING
from capscore.errors import InputError
from capscore.options import Sampling
from capscore.statistics.battles import bradley_terry

SYSTEMS = [*CAPARENA_RANKING[:3], CAPARENA_RANKING[-1], "human"]


def drawn(n=300, seed=0):
    """Margins, winners, pairs of systems, levels and photos; the metric sees quality through noise."""
    rng = np.random.default_rng(seed)
    pairs = [rng.choice(len(SYSTEMS), 2, replace=False) for _ in range(n)]
    margins = np.round([(other - one) / 4 + rng.normal(0, 1) for one, other in pairs], 1)
    winners = rng.choice(["first", "second", "tie"], n, p=[0.45, 0.45, 0.1])
    names = [[SYSTEMS[one], SYSTEMS[other]] for one, other in pairs]
    return margins, winners.tolist(), names, rng.integers(0, 5, n).tolist(), rng.integers(0, 40, n).tolist()


def agreement_by_hand(margins, winners, systems, levels, tie, include_tie, level=None):
    """As `cal_agreement` in CapArena's vlm_as_a_judge.py."""
    agreed = []
    for margin, winner, pair, of in zip(margins, winners, systems, levels, strict=True):
        if "human" in pair or (level is not None and of != level):
            continue
        judge = "tie" if abs(margin) <= tie else ("first" if margin > 0 else "second")
        if include_tie or "tie" not in (judge, winner):
            agreed.append(judge == winner)
    return sum(agreed) / len(agreed), len(agreed)


@pytest.mark.parametrize("tie", [0.0, 0.25])
def test_agreement_is_that_of_the_published_code(tie):
    margins, winners, systems, levels, images = drawn()
    banded = np.where(np.abs(margins) <= tie, 0, margins)
    found = battles_with_people(banded, winners, systems, levels, images=images, sampling=Sampling(30))
    rows = {row.name: row for row in found.statistics}
    for ending, include_tie in (("", False), ("_with_ties", True)):
        for level in (None, 1, 2, 3, 4):
            name = f"agreement{ending}" + (f"_level_{level}" if level else "")
            value, n = agreement_by_hand(margins, winners, systems, levels, tie, include_tie, level)
            assert rows[name].value == pytest.approx(value, abs=1e-9) and rows[name].n == n, name
            assert rows[name].interval[0] <= value <= rows[name].interval[1]
    n_human = sum("human" in pair for pair in systems)
    assert found.counts["with human"] == n_human and found.counts["battles"] == 300 - n_human
    assert found.notes[0] == f"{n_human} battles with human left out, as published"


def test_systems_are_correlated_with_peoples_ranking():
    margins, winners, systems, levels, images = drawn()
    systems[0] = ["GPT-4o-0806", "another"]  # is not ranked, but counts for captions
    found = battles_with_people(margins, winners, systems, levels, images=images, sampling=Sampling(30))
    wins = np.zeros((4, 4))
    for margin, (one, other) in zip(margins, systems, strict=True):
        if {one, other} <= {*SYSTEMS[:4]}:
            won = 0.5 if margin == 0 else float(margin > 0)
            wins[SYSTEMS.index(one), SYSTEMS.index(other)] += won
            wins[SYSTEMS.index(other), SYSTEMS.index(one)] += 1 - won
    ratings = dict(zip(SYSTEMS[:4], bradley_terry(wins), strict=True))
    assert found.details["bradley_terry"] == pytest.approx(ratings, abs=1e-6)
    for name, kind in (("", "elo"), ("_bradley_terry", "bradley_terry")):
        of_systems = [found.details[kind][system] for system in SYSTEMS[:4]]
        for statistic, scipys in (("spearman", scipy.stats.spearmanr), ("tau_b", scipy.stats.kendalltau)):
            expected = scipys(of_systems, [4, 3, 2, 1])[0]
            assert found.value(f"{statistic}{name}") == pytest.approx(expected, abs=1e-9)
    # the metric sees quality: all its ratings fall in the order of the ranking
    assert found.value("spearman") == found.value("tau_b_bradley_terry") == pytest.approx(1)


def test_nothing_to_rank_is_noted_and_bad_rows_are_named():
    found = battles_with_people([1, 0], ["first", "tie"], [["a", "b"]] * 2, [0, 0])
    assert [found.value(name) for name in ("spearman", "agreement", "agreement_level_1")] == [None, 1, None]
    assert any("0 systems of the ranking" in note for note in found.notes)
    with pytest.raises(InputError, match="row 1, systems: expected two systems, got 1"):
        battles_with_people([1, 0], ["first", "tie"], [["a", "b"], ["a"]], [0, 0])
    with pytest.raises(InputError, match=r"row 0, winners: got 'draw', expected one of"):
        battles_with_people([1], ["draw"], [["a", "b"]], [0])
