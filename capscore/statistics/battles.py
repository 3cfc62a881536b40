"""Ranks systems by battles: each says which of two systems' captions of a photo is better.

In: the two systems of each battle, int (n,) from 0 each, and its outcome, float64 (n,): 1 where the first
wins, 0 where the second does, 0.5 for a tie. Out: wins, Bradley–Terry ratings, Elo ratings, pairs to draw.
"""

from __future__ import annotations

import math

import numpy as np

from ..options import Sampling
from .bootstrap import resample

START, SCALE, K = 1000.0, 400.0, 4.0
"""Rating of an average system, difference at which one of eleven battles is lost, and step of Elo ratings."""
ELO_DRAWS, MAX_ELO_BATTLES = 1000, 20_000
ELO_SEED = 42
TIE_BAND = 1e-5
"""Difference up to which scores tie: what scores with one signature may differ by."""
_MAX_STEPS = 200


def outcomes_of(margins: np.ndarray, band: float = 0.0) -> np.ndarray:
    """Outcomes of battles by how much better the first is; at most `band` from 0 is a tie, NaN stays."""
    return np.where(np.isnan(margins), np.nan, np.where(np.abs(margins) <= band, 0.5, margins > 0))


def wins_by_unit(
    first: np.ndarray,
    second: np.ndarray,
    outcomes: np.ndarray,
    units: np.ndarray,
    n_systems: int,
    n_units: int | None = None,
) -> np.ndarray:
    """Wins in the battles of each unit, such as a photo: float64 (units, k, k).

    Entry (i, j) is the number of battles that i won against j; a tie is half a win for both. Without
    `n_units`, the last unit is the last one with a battle.

    >>> wins_by_unit(np.array([0, 0]), np.array([1, 1]), np.array([1, 0.5]), np.array([0, 0]), 2).tolist()
    [[[0.0, 1.5], [0.5, 0.0]]]
    """
    if n_units is None:
        n_units = int(units.max(initial=-1)) + 1
    shape = (n_units, n_systems, n_systems)
    size = math.prod(shape)
    won = np.bincount(np.ravel_multi_index((units, first, second), shape), outcomes, size)
    lost = np.bincount(np.ravel_multi_index((units, second, first), shape), 1 - outcomes, size)
    return (won + lost).reshape(shape)


def bradley_terry(wins: np.ndarray, near: np.ndarray | None = None) -> np.ndarray:
    """Ratings of k systems, under which i beats j with probability 1 / (1 + 10^((r_j − r_i) / 400)).

    The most likely ones (Bradley and Terry 1952, Biometrika 39, 324-345), with a prior: every system also
    tied once with a system of the average rating. So a system that won all its battles has a finite rating,
    and so have systems that never met. Newton's method, with the steps of Sun and Tran-Dinh (2019,
    Mathematical Programming 178, 145-213), which always converge.

    Args:
        wins: float64 (…, k, k), as in `wins_by_unit`; any number of sets of battles.

    Returns:
        float64 (…, k), with the mean 1000.

    >>> bradley_terry(np.array([[0.0, 3.0], [1.0, 0.0]])).round(1).tolist()
    [1082.4, 917.6]
    """
    n_systems = wins.shape[-1]
    battles = wins + np.swapaxes(wins, -1, -2)
    strengths = np.zeros(wins.shape[:-1])
    if near is not None:
        strengths += (near - START) * math.log(10) / SCALE
    diagonal = np.arange(n_systems)
    for _ in range(_MAX_STEPS):
        chances = np.exp(log_logistic(strengths[..., :, None] - strengths[..., None, :]))
        of_tie = np.exp(log_logistic(strengths))  # the virtual tie with an average system
        gradient = (wins - battles * chances).sum(axis=-1) + 0.5 - of_tie
        hessian = -battles * chances * (1 - chances)
        hessian[..., diagonal, diagonal] = -hessian.sum(axis=-1) + of_tie * (1 - of_tie)
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        longest = np.maximum(np.ptp(step, axis=-1), np.abs(step).max(axis=-1))[..., None]
        strengths += step * np.log1p(longest) / np.maximum(longest, 1e-300)
        if longest.max(initial=0) < 1e-9:
            break
    centred = strengths - strengths.mean(axis=-1, keepdims=True)
    return START + SCALE / math.log(10) * centred


def drawn_ratings(of_units: np.ndarray, sampling: Sampling) -> np.ndarray:
    """Bradley–Terry ratings where units are drawn with replacement: float64 (k, draws)."""
    n_units, near = len(of_units), bradley_terry(of_units.sum(axis=0))

    def ratings(drawn: np.ndarray) -> np.ndarray:
        return weighted_ratings(of_units, drawn, near)

    return resample(ratings, sampling, n_units=n_units, n_rows=n_units)


def weighted_ratings(of_units: np.ndarray, weights: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Bradley–Terry ratings where units count as often as weights (units, b) say: float64 (k, b)."""
    n_systems = of_units.shape[-1]
    wins = (of_units.reshape(len(of_units), -1).T @ weights.astype(np.float64)).T
    return bradley_terry(wins.reshape(-1, n_systems, n_systems), near).T


def elo(first: np.ndarray, second: np.ndarray, outcomes: np.ndarray, n_systems: int) -> np.ndarray:
    """Elo ratings as CapArena computes them (Cheng et al. 2025): float64 (k,).

    Battles are drawn with replacement 1,000 times; in each draw all systems begin with 1000, a battle moves
    the ratings of its two by at most 4, and the median over draws counts. Unlike Bradley–Terry ratings these
    depend on the order of battles, here a random one. Of more than 20,000 battles, a draw has 20,000: the
    ratings have forgotten what came before.
    """
    rng, draws = np.random.default_rng(ELO_SEED), np.arange(ELO_DRAWS) * n_systems
    # neither the order in which battles are given matters, nor which of the two comes first
    outcomes = np.where(first > second, 1 - outcomes, outcomes)
    first, second = np.minimum(first, second), np.maximum(first, second)
    order = np.lexsort((outcomes, second, first))
    first, second, outcomes = first[order], second[order], outcomes[order]
    ratings = np.full(ELO_DRAWS * n_systems, START)
    for _ in range(min(len(first), MAX_ELO_BATTLES)):
        drawn = rng.integers(0, len(first), ELO_DRAWS)
        one, other = draws + first[drawn], draws + second[drawn]
        expected = 1 / (1 + 10 ** ((ratings[other] - ratings[one]) / SCALE))
        moved = K * (outcomes[drawn] - expected)
        ratings[one] += moved
        ratings[other] -= moved
    return np.median(ratings.reshape(ELO_DRAWS, n_systems), axis=0)


def groups_that_met(wins: np.ndarray) -> list[list[int]]:
    """Systems that battles connect, directly or through others; the order between groups is unknown."""
    from scipy.sparse.csgraph import connected_components

    n_groups, labels = connected_components(wins + wins.T, directed=False)
    return [np.flatnonzero(labels == group).tolist() for group in range(n_groups)]


def drawn_pairs(
    n_rows: int, n_systems: int, n_battles: int | None, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Battles to hold: the row, first and second system of each, int (n,) each, sorted by row.

    Args:
        n_battles: Number of battles; None, or more than there are, for all. A part of them is spread evenly:
            numbers of battles of two pairs of systems, or of two rows, differ by at most 1.

    >>> rows, first, second = drawn_pairs(4, 3, 6, seed=0)
    >>> np.bincount(rows).tolist(), np.bincount(first * 3 + second)[[1, 2, 5]].tolist()
    ([2, 1, 2, 1], [2, 2, 2])
    """
    one, other = np.triu_indices(n_systems, 1)
    n_pairs = len(one)
    if n_battles is None or n_battles >= n_rows * n_pairs:
        return np.repeat(np.arange(n_rows), n_pairs), np.tile(one, n_rows), np.tile(other, n_rows)
    rng = np.random.default_rng(seed)
    # counted through both, with a shift after each common multiple, every row meets every pair once
    count = np.arange(n_battles)
    rows = rng.permutation(n_rows)[(count + count // math.lcm(n_rows, n_pairs)) % n_rows]
    pairs = rng.permutation(n_pairs)[count % n_pairs]
    order = np.lexsort((pairs, rows))
    return rows[order], one[pairs[order]], other[pairs[order]]


def log_logistic(odds: np.ndarray) -> np.ndarray:
    """Log-odds → the logarithm of the probability, exact for small ones, too.

    >>> log_logistic(np.array([0.0, -1000.0])).round(4).tolist()
    [-0.6931, -1000.0]
    """
    return -np.logaddexp(0, -odds)
