"""Systems ranked by battles: ratings computed a second way, and spread of the battles that are drawn."""

import math

import numpy as np
import pytest

from capscore.options import Sampling
from capscore.statistics import battles
from capscore.statistics.battles import bradley_terry, drawn_pairs, drawn_ratings, elo, wins_by_unit
from capscore.statistics.bootstrap import multiplicities

TO_ELO = 400 / math.log(10)
WINS = {
    "two": [[0, 3], [1, 0]],
    "ties": [[0, 2.5, 4], [1.5, 0, 2], [0, 2, 0]],
    "one wins all": [[0, 9, 9], [0, 0, 5], [0, 4, 0]],
    "two groups": [[0, 3, 0, 0], [1, 0, 0, 0], [0, 0, 0, 5], [0, 0, 2, 0]],
    "no battle of one": [[0, 3, 0], [1, 0, 0], [0, 0, 0]],
}


def by_minorising(wins):
    """The most likely strengths by Zermelo's iteration, with an average system of strength 1 as one more."""
    strengths, battles_of = np.ones(len(wins)), wins + wins.T
    for _ in range(20_000):
        met = battles_of / (strengths[:, None] + strengths) + np.diag(1 / (strengths + 1))
        strengths = (wins.sum(axis=1) + 0.5) / met.sum(axis=1)
    return np.log(strengths)


@pytest.mark.parametrize("name", WINS)
def test_ratings_are_the_most_likely_ones(name):
    wins = np.array(WINS[name], float)
    expected = by_minorising(wins)
    ratings = bradley_terry(wins)
    np.testing.assert_allclose((ratings - 1000) / TO_ELO, expected - expected.mean(), atol=1e-6)
    together = bradley_terry(np.stack([wins, wins.T]), near=ratings)
    np.testing.assert_allclose(together, [ratings, bradley_terry(wins.T)], atol=1e-6)


def test_a_rating_without_a_defeat_is_finite_however_many_battles():
    # of two systems with ratings r and −r, the slope is n·σ(−2r) + 1/2 − σ(r)
    for n in (1, 100, 10**6):
        first, second = (bradley_terry(np.array([[0, n], [0, 0]])) - 1000) / TO_ELO
        assert first == pytest.approx(-second) and first > 0
        assert 1 / (1 + math.exp(-first)) == pytest.approx(0.5 + n / (1 + math.exp(2 * first)), abs=1e-9)


def test_draws_are_ratings_of_the_drawn_photos():
    first, second = np.array([0, 0, 1, 0, 0, 1]), np.array([1, 2, 2, 1, 2, 2])
    of_photos = wins_by_unit(first, second, np.array([1, 0.5, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 1, 2]), 3)
    assert of_photos[0].tolist() == [[0, 1, 0.5], [0, 0, 0], [0.5, 1, 0]]
    drawn = multiplicities(np.random.default_rng(3), 3, 5)
    expected = [bradley_terry((of_photos * times[:, None, None]).sum(axis=0)) for times in drawn.T]
    np.testing.assert_allclose(drawn_ratings(of_photos, Sampling(5, seed=3)).T, expected, atol=1e-6)


def plain_elo(battles_of, k=4, scale=400, start=1000):
    """As in CapArena's cal_ranking.py, for systems that are numbered."""
    ratings = [start] * 3
    for one, other, won in battles_of:
        expected = 1 / (1 + 10 ** ((ratings[other] - ratings[one]) / scale))
        ratings[one] += k * (won - expected)
        ratings[other] += k * (1 - won - (1 - expected))
    return ratings


def test_elo_is_that_of_a_plain_loop_over_drawn_battles(monkeypatch):
    monkeypatch.setattr(battles, "ELO_DRAWS", 30)
    held = [(0, 1, 0), (0, 1, 1), (0, 1, 1), (0, 2, 0.5), (0, 2, 1), (1, 2, 0), (1, 2, 1)]  # in order
    drawn = np.random.default_rng(42).integers(0, 7, (7, 30))
    expected = np.median([plain_elo([held[at] for at in draw]) for draw in drawn.T], axis=0)
    columns = np.array([held[at] for at in (3, 0, 6, 5, 1, 2, 4)], float).T
    found = elo(columns[0].astype(int), columns[1].astype(int), columns[2], 3)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert elo(np.array([0]), np.array([1]), np.array([1.0]), 2).tolist() == [1002, 998]


@pytest.mark.parametrize("case", [(7, 3, 10), (6, 4, 20), (12, 4, 31), (100, 5, 2), (1, 5, 4)])
def test_drawn_battles_are_distinct_and_spread_evenly(case):
    n_rows, n_systems, n = case
    rows, first, second = drawn_pairs(n_rows, n_systems, n, seed=1)
    held = [*zip(rows.tolist(), first.tolist(), second.tolist(), strict=True)]
    assert held == sorted(set(held)) and len(held) == n and (first < second).all()
    pairs = np.bincount(first * n_systems + second, minlength=n_systems**2).reshape(n_systems, -1)
    for counts in (pairs[np.triu_indices(n_systems, 1)], np.bincount(rows, minlength=n_rows)):
        assert np.ptp(counts) <= 1
    again, other = (drawn_pairs(n_rows, n_systems, n, seed=seed) for seed in (1, 2))
    assert [*map(list, again)] == [*map(list, (rows, first, second))]
    assert n_rows == 1 or [*map(list, other)] != [*map(list, again)]
    whole = drawn_pairs(n_rows, n_systems, None, seed=1)
    assert len(whole[0]) == n_rows * n_systems * (n_systems - 1) // 2 == len({*zip(*whole, strict=True)})
