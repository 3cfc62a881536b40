"""The choice of regions: one of each cluster, the same whatever their order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from capscore.infometic.regions import Regions, choose


def regions(confidences) -> Regions:
    """Regions side by side, with these confidences."""
    count = len(confidences)
    lefts = 2.0 * np.arange(count)
    boxes = np.column_stack([lefts, np.zeros(count), lefts + 1.0, np.ones(count)])
    return Regions(boxes, np.array(confidences, np.float64), ("thing",) * count)


def test_the_most_confident_of_each_cluster():
    # Three heaps far from each other: 0, 3, 6 | 1, 4 | 2, 5.
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])[[0, 1, 2, 0, 1, 2, 0]]
    jitter = 0.1 * np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0, 0], [1, 0], [0, 1]])
    given = regions([0.2, 0.9, 0.3, 0.8, 0.1, 0.7, 0.5])
    for seed in range(5):
        assert choose(given, centres + jitter, n=3, seed=seed).tolist() == [1, 3, 5]


def test_a_confident_heap_does_not_crowd_out_the_rest():
    embeddings = np.array([[1.0, 0.0]] * 5 + [[0.0, 1.0]])
    assert choose(regions([0.9, 0.8, 0.7, 0.6, 0.5, 0.1]), embeddings, n=2).tolist() == [0, 5]


def test_few_regions_are_all_taken():
    assert choose(regions([0.1, 0.2]), np.eye(2), n=2).tolist() == [0, 1]
    assert choose(regions([0.1]), np.ones((1, 3))).tolist() == [0]
    assert choose(regions([]), np.zeros((0, 3))).tolist() == []


def test_regions_that_look_the_same_are_still_n():
    assert choose(regions([0.1, 0.4, 0.3, 0.2]), np.ones((4, 3)), n=3).tolist() == [1, 2, 3]


@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 2**32 - 1), st.randoms(use_true_random=False))
def test_order_does_not_matter(count, n, seed, random):
    generator = np.random.default_rng(seed)
    given = regions(generator.integers(0, 3, count) / 4)
    embeddings = generator.integers(-2, 3, (count, 3)).astype(float)
    order = list(range(count))
    random.shuffle(order)
    order = np.array(order)
    chosen = choose(given, embeddings, n, seed=7)
    again = choose(given.take(order), embeddings[order], n, seed=7)
    assert sorted(order[again].tolist()) == chosen.tolist()
    assert len(chosen) == min(count, n)
