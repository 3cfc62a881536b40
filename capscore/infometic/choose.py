"""From many regions of a photo the few that InfoMetIC looks at, each of another kind.

In: regions and their embeddings. Out: indices of those chosen: regions are clustered by what they show, and
each cluster gives its most confident one (Hu et al. 2023, section 4.1: 100 boxes, 20 clusters).
"""

from __future__ import annotations

import numpy as np

from ..errors import InputError
from .regions import Regions

# Lloyd's steps; a hundred rows settle in about ten.
STEPS = 100


def choose(regions: Regions, embeddings: np.ndarray, n: int = 20, seed: int = 0) -> np.ndarray:
    """The n regions of a photo that stand for all of it.

    k-means (k-means++ starts) with n clusters on the embeddings, and of each cluster the most confident
    region. Where regions look the same, so that clusters are fewer, the most confident of the rest make up
    the number. Which regions are chosen depends on the seed, and not on their order.

    Args:
        regions: m regions.
        embeddings: (m, d), one row a region.
        n: how many to choose, at least 1.
        seed: of the clusters' starts.

    Returns:
        int64 indices, ascending, n of them; all m where there are no more than n.

    Raises:
        InputError: n below 1, or not one embedding a region.

    >>> boxes = [[0.0, 0, 4, 4], [0, 0, 4, 5], [9, 9, 12, 12]]
    >>> regions = Regions(np.array(boxes), np.array([0.3, 0.6, 0.2]), ("", "", ""))
    >>> choose(regions, np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), n=2)
    array([1, 2])
    """
    if n < 1:
        raise InputError(f"n={n!r}: expected at least 1 region to choose")
    embeddings = np.asarray(embeddings, np.float64)
    if embeddings.ndim != 2 or len(embeddings) != len(regions):
        raise InputError(
            f"embeddings of shape {embeddings.shape} for {len(regions)} regions; expected one row a region"
        )
    if len(regions) <= n:
        return np.arange(len(regions))

    # Most confident first, ties broken by box, label and embedding: an order that the rows themselves fix.
    _, label_ranks = np.unique(np.array(regions.labels, dtype=str), return_inverse=True)
    keys = np.column_stack([-regions.confidences, regions.boxes, label_ranks, embeddings])
    order = np.lexsort(keys.T[::-1])
    clusters = _k_means(embeddings[order], n, np.random.default_rng(seed))
    _, firsts = np.unique(clusters, return_index=True)
    chosen = np.zeros(len(order), dtype=bool)
    chosen[firsts] = True
    chosen[np.flatnonzero(~chosen)[: n - len(firsts)]] = True
    return np.sort(order[chosen])


def _k_means(rows: np.ndarray, n: int, random: np.random.Generator) -> np.ndarray:
    """Cluster of each row, int64 (m,); a cluster may stay empty."""
    centres = _starts(rows, n, random)
    clusters = np.full(len(rows), -1)
    for _ in range(STEPS):
        nearest = _distances(rows, centres).argmin(axis=1)
        if (nearest == clusters).all():
            break
        clusters = nearest
        sizes = np.bincount(clusters, minlength=len(centres))
        sums = np.zeros_like(centres)
        np.add.at(sums, clusters, rows)
        # An empty cluster stays where it was.
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    return clusters


def _starts(rows: np.ndarray, n: int, random: np.random.Generator) -> np.ndarray:
    """k-means++: each next centre drawn with its squared distance from those before it."""
    centres = rows[[random.integers(len(rows))]]
    while len(centres) < n:
        away = _distances(rows, centres).min(axis=1)
        away[away < 1e-12] = 0.0  # rounding: a row is at no distance from itself
        if not away.any():
            break  # no further row differs from all centres
        drawn = random.choice(len(rows), p=away / away.sum())
        centres = np.concatenate([centres, rows[[drawn]]])
    return centres


def _distances(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared distances (m, n)."""
    squares = (rows**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)[None, :]
    return (squares - 2.0 * rows @ centres.T).clip(min=0.0)
