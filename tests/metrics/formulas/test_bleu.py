"""BLEU: published numbers, and rows by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from capscore.metrics.formulas import ngrams
from capscore.metrics.formulas.bleu import bleu, corpus_bleu

from ...token_rows import build, invented

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
    assert bleu(build([("", [""]), ("", ["a"])])).tolist() == [[0.0] * 4] * 2
    assert bleu(build([])).shape == (0, 4) and corpus_bleu(build([])).tolist() == [0.0] * 4
