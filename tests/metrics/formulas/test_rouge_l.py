"""ROUGE-L: published numbers, and the plain recursion beside it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.errors import InputError
from capscore.metrics.formulas import rouge_l as module
from capscore.metrics.formulas.rouge_l import rouge_l

from ...token_rows import CANDIDATES, REFERENCES, build, invented, row_lists

# what pycocoevalcap 1.2 gives for these rows (Rouge().compute_score)
COCO = [0.7672955974842767, 0.6587473002159828, 1.0, 0.0, 1.0, 0.26521739130434785, 1.0]


def naive(rows: list[tuple[str, list[str]]], beta: float = 1.2) -> list[float]:
    """A row at a time, the longest common subsequence by its definition."""
    scores = []
    for candidate, texts in rows:
        tokens = candidate.split() or [""]
        precision = recall = 0.0
        for text in texts:
            others = text.split() or [""]
            common = longest(tuple(tokens), tuple(others))
            precision, recall = max(precision, common / len(tokens)), max(recall, common / len(others))
        weighed = recall + beta**2 * precision
        scores.append((1 + beta**2) * precision * recall / weighed if weighed else 0.0)
    return scores


@cache
def longest(some: tuple[str, ...], others: tuple[str, ...]) -> int:
    if not some or not others:
        return 0
    if some[0] == others[0]:
        return 1 + longest(some[1:], others[1:])
    return max(longest(some[1:], others), longest(some, others[1:]))


@pytest.mark.parametrize("block", [1, 20, 10**6])
def test_published_numbers_whatever_the_size_of_blocks(monkeypatch, block):
    monkeypatch.setattr(module, "_BLOCK", block)
    np.testing.assert_allclose(rouge_l(invented()), COCO, rtol=0, atol=1e-15)
    rows = list(zip(CANDIDATES, REFERENCES, strict=True))
    np.testing.assert_allclose(naive(rows), COCO, rtol=0, atol=1e-15)


def test_rows_by_hand():
    # "a red" of 3 tokens and of 6: P = 2/3, R = 1/3; 2.44 · 2/9 / (1/3 + 1.44 · 2/3)
    kite = build([("a red kite", ["the kite is a red one"])])
    assert rouge_l(kite)[0] == pytest.approx(122 / 291)
    assert rouge_l(kite, beta=1.0)[0] == pytest.approx(4 / 9)  # the harmonic mean
    # the best P is the first reference's (3/3), the best R the second's (1/1)
    assert rouge_l(build([("a b c", ["a x b y c", "b"])]))[0] == pytest.approx(1.0)
    # "" has one token, the empty one, where it is split at blanks
    assert rouge_l(build([("", ["a", "b"]), ("a", [""]), ("", ["a", ""])])).tolist() == [0.0, 0.0, 1.0]
    assert rouge_l(build([])).shape == (0,)


@given(row_lists, st.sampled_from([0.5, 1.2, 3.0]))
@settings(max_examples=20)
def test_equals_the_plain_recursion(rows, beta):
    np.testing.assert_allclose(rouge_l(build(rows), beta), naive(rows, beta), rtol=0, atol=1e-12)


def test_long_texts():
    long = [f"w{number}" for number in range(70)]
    rows = build([(" ".join(long[::2]), [" ".join(long * 100)]), (" ".join(long * 20), [" ".join(long)])])
    # P and R: 35 of 35 and of 7,000; 70 of 1,400 and of 70
    expected = [2.44 * 0.005 / (0.005 + 1.44), 2.44 * 0.05 / (1 + 1.44 * 0.05)]
    np.testing.assert_allclose(rouge_l(rows), expected, atol=1e-12)


@pytest.mark.parametrize("beta", [0.0, -1.0, float("nan")])
def test_a_beta_out_of_range_is_named(beta):
    with pytest.raises(InputError, match=r"beta: .* is not a weight of recall"):
        rouge_l(invented(), beta=beta)
