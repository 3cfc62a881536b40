"""Many regions of a photo → the few diverse ones that InfoMetIC scores.

In: regions and their embeddings. Out: indices of the chosen regions. Embeddings are clustered, and each
cluster's most confident region is chosen (Hu et al. 2023, section 4.1: 100 boxes, 20 clusters).
"""

from __future__ import annotations

import numpy as np

from ..errors import InputError, Setting
from .regions import Regions

# Maximum number of Lloyd's steps; a hundred rows converge in about ten.
STEPS = 100


def choose(regions: Regions, embeddings: np.ndarray, n: int = 20, seed: int = 0) -> np.ndarray:
    """The n regions that represent a photo.

    The embeddings are clustered by k-means (with k-means++ starts) into n clusters, and the most confident
    region of each is chosen. If some regions look the same, so that there are fewer clusters, the most
    confident of the others are added. The choice depends on the seed, but not on the order of the regions.

    Args:
        regions: m regions.
        embeddings: (m, d), one row per region.
        n: Number of regions to choose, at least 1.
        seed: Seed of the clusters' starts.

    Returns:
        n int64 indices in ascending order; all m if there are no more than n regions.

    Raises:
        InputError: n is below 1, or there is not one embedding per region.

    >>> boxes = [[0.0, 0, 4, 4], [0, 0, 4, 5], [9, 9, 12, 12]]
    >>> regions = Regions(np.array(boxes), np.array([0.3, 0.6, 0.2]), ("", "", ""))
    >>> choose(regions, np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), n=2)
    array([1, 2])
    """
    if n < 1:
        raise InputError(Setting("n", n), ": expected at least 1 region to choose")
    embeddings = np.asarray(embeddings, np.float64)
    if embeddings.ndim != 2 or len(embeddings) != len(regions):
        raise InputError(
            f"embeddings of shape {embeddings.shape} for {len(regions)} regions; expected one row per region"
        )
    if len(regions) <= n:
        return np.arange(len(regions))

    # Most confident first, ties broken by box, label and embedding, so that the rows alone fix the order.
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
        # An empty cluster keeps its centre.
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    return clusters


def _starts(rows: np.ndarray, n: int, random: np.random.Generator) -> np.ndarray:
    """k-means++: each centre is drawn by its squared distance from the previous ones."""
    centres = rows[[random.integers(len(rows))]]
    while len(centres) < n:
        away = _distances(rows, centres).min(axis=1)
        away[away < 1e-12] = 0.0  # rounding: a row has no distance from itself
        if not away.any():
            break  # no further row differs from all centres
        drawn = random.choice(len(rows), p=away / away.sum())
        centres = np.concatenate([centres, rows[[drawn]]])
    return centres


def _distances(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared distances (m, n)."""
    squares = (rows**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)[None, :]
    return (squares - 2.0 * rows @ centres.T).clip(min=0.0)
