"""BLEU: published numbers, and the formula with dicts beside it."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from capscore.metrics.formulas import ngrams
from capscore.metrics.formulas.bleu import bleu, corpus_bleu

from ...token_rows import CANDIDATES, REFERENCES, build, invented, row_lists

# what pycocoevalcap 1.2 gives for these rows (Bleu(4).compute_score)
CORPUS = [0.8391830293983487, 0.7644130049874932, 0.7097627638158528, 0.636459977633365]
BAKER = [0.9999999997500004, 0.9999999997410718, 0.9999999997301591, 0.9999999997163694]
ROWS = [
    [0.7777777776913581, 0.6236095643887031, 0.48074985670840664, 6.559965569989933e-05],
    [0.9999999997142859, 0.8164965806847213, 0.6436595895358154, 9.036020033091823e-05],
    [0.999999998000002, 0.0009999999985000015, 9.999999986666685e-05, 3.162277656215536e-05],
    [0.0, 0.0, 0.0, 0.0],
    BAKER,
    [0.1115650799626501, 4.9893420529863676e-09, 1.770985252956271e-08, 3.3365741273970057e-08],
    BAKER,
]


def matches(candidate: list[str], references: list[list[str]], n: int) -> int:
    def grams(words):
        return Counter(tuple(words[start : start + n]) for start in range(len(words) - n + 1))

    most = Counter()
    for reference in references:
        most |= grams(reference)
    return sum((grams(candidate) & most).values())


def naive(rows: list[tuple[str, list[str]]]) -> list[float]:
    """BLEU-1 to BLEU-4 of rows as one text, an n-gram at a time."""
    split = [(candidate.split(), [text.split() for text in texts]) for candidate, texts in rows]
    length = sum(len(candidate) for candidate, _ in split)
    nearest = sum(
        min((abs(len(text) - len(candidate)), len(text)) for text in texts)[1] for candidate, texts in split
    )
    ratio = (length + 1e-15) / (nearest + 1e-9)
    scores, product = [], 1.0
    for n in range(1, 5):
        correct = sum(matches(candidate, texts, n) for candidate, texts in split)
        possible = sum(max(len(candidate) - n + 1, 0) for candidate, _ in split)
        product *= (correct + 1e-15) / (possible + 1e-9)
        scores.append(product ** (1 / n) * (math.exp(1 - 1 / ratio) if ratio < 1 else 1.0))
    return scores


@pytest.mark.parametrize("block", [1, 30, 10**6])
def test_published_numbers_whatever_the_size_of_blocks(monkeypatch, block):
    monkeypatch.setattr(ngrams.blocks, "__defaults__", (block,))
    np.testing.assert_allclose(bleu(invented()), ROWS, atol=1e-12)
    np.testing.assert_allclose(corpus_bleu(invented()), CORPUS, atol=1e-12)


def test_rows_by_hand():
    # "a" 2 of 3 times, since the second reference has it twice; "b" once: 3 of 4. 2-grams: "a b" of 3.
    # The references of 3 and of 5 words are equally near 4: 3 counts, and nothing is lost to brevity.
    rows = build([("a b a a", ["a b c", "c a d a e"])])
    assert bleu(rows)[0, :2] == pytest.approx([3 / 4, math.sqrt(3 / 4 * 1 / 3)], abs=1e-8)
    # 2 words against 4: e^(1 − 4/2)
    assert bleu(build([("a b", ["a b c d"])]))[0, 0] == pytest.approx(math.exp(-1), abs=1e-8)
    nothing = build([("", [""]), ("", ["a"]), ("a", [""])])
    assert bleu(nothing)[:2].tolist() == [[0.0] * 4] * 2
    assert bleu(nothing)[2] == pytest.approx(naive([("a", [""])]), abs=1e-15)
    assert bleu(build([])).shape == (0, 4) and corpus_bleu(build([])).tolist() == [0.0] * 4


@given(row_lists)
@settings(max_examples=20)
def test_equals_the_computation_with_dicts(rows):
    np.testing.assert_allclose(bleu(build(rows)), [naive([row]) for row in rows], atol=1e-12)
    np.testing.assert_allclose(corpus_bleu(build(rows)), naive(rows), atol=1e-12)


def test_the_computation_with_dicts_has_the_published_numbers():
    rows = list(zip(CANDIDATES, REFERENCES, strict=True))
    np.testing.assert_allclose([naive([row]) for row in rows], ROWS, atol=1e-12)
    np.testing.assert_allclose(naive(rows), CORPUS, atol=1e-12)
