"""CapTokenEval: accuracy over words and regions of ragged lists."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.errors import InputError
from capscore.protocols import TokenAccuracy, captokeneval

WORDS = [[0.30, 0.05, 0.20], [0.00, 0.40]]
RIGHT = [[1, 0, 1], [1, 0]]
SEMANTIC = [[1, 1, 0], [1, 1]]
REGIONS = [[0.2, 0.0], [0.3, 0.1, 0.05]]
MENTIONED = [[1, 0], [0, 1, 0]]


def run(**change):
    lists = {
        "word_scores": WORDS,
        "word_labels": RIGHT,
        "semantic": SEMANTIC,
        "region_scores": REGIONS,
        "region_labels": MENTIONED,
    }
    return captokeneval(**{**lists, **change})


def test_literal_accuracies():
    found = run()
    # words: .30 and .05 are as labelled, .20 is no semantic word, .00 should be above .1, .40 below
    assert found.text == TokenAccuracy(n=4, right=2, value=0.5, mean_over_pairs=0.5, n_pairs=2)
    # regions: both of the first pair; of the second only .05, as .1 is not above .1
    assert found.vision == TokenAccuracy(n=5, right=3, value=0.6, mean_over_pairs=(1 + 1 / 3) / 2, n_pairs=2)
    assert found.table() == [("accuracy vision", 0.6, 5), ("accuracy text", 0.5, 4)]
    assert found.counts() == {"semantic words": 4, "other words": 1, "regions": 5, "left out": 0}
    assert (found.beta, found.notes) == (0.1, ())


def test_the_threshold_is_strict_and_can_be_moved():
    assert run(beta=0.09).vision.right == 4
    assert run(beta=0.35).text.right == 1  # only the wrong .05 is told, and .40 still passes


def test_words_and_pairs_weigh_differently():
    found = captokeneval([[1, 1, 1], [0]], [[1, 1, 1], [1]], [[1, 1, 1], [1]], [[1], [1]], [[1], [1]])
    assert (found.text.value, found.text.mean_over_pairs) == (0.75, 0.5)


def test_pairs_without_semantic_words_are_told():
    found = run(semantic=[[0, 0, 0], [1, 1]])
    assert (found.text.n, found.text.n_pairs) == (2, 1)
    assert found.notes == ("1 of 2 pairs have no semantic word",)
    none = run(semantic=[[0, 0, 0], [0, 0]], region_scores=[[], []], region_labels=[[], []])
    assert none.text == none.vision == TokenAccuracy(0, 0, None, None, 0)
    assert none.notes == ("no semantic word: no accuracy there", "no region: no accuracy there")


def test_missing_scores():
    # the word without a score in the first pair is not semantic, so only the second pair's counts
    words = [[0.3, 0.05, math.nan], [math.nan, 0.4]]
    with pytest.raises(InputError, match=r"^row 1, word_scores: item 0 of the pair has no score \(NaN\)"):
        run(word_scores=words)
    regions = [[0.2, 0.0], [0.3, None, 0.05]]
    with pytest.raises(InputError, match=r"^row 1, region_scores: item 1 of the pair has no score"):
        run(region_scores=regions)
    found = run(word_scores=words, region_scores=regions, missing="skip")
    assert (found.text.n, found.text.right, found.vision.n, found.n_missing) == (3, 2, 4, (1, 1))
    assert found.notes == ("1 semantic word without a score left out", "1 region without a score left out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"word_labels": [[1, 0], [1, 0]]}, r"^row 0, word_labels: 2 values for 3 word_scores"),
        ({"word_labels": [[1, 0, 1]]}, r"^word_labels: 1 pair here but 2 in word_scores"),
        (
            {"semantic": [[1, 1, 0], [1, "VERB"]]},
            r"^row 1, semantic: expected True .* \(item 1 of the pair\)",
        ),
        ({"region_scores": [[0.1, 0.2], 0.5]}, r"^row 1, region_scores: expected a list, got 0.5"),
        ({"word_scores": []}, r"^word_scores: there are no pairs"),
        ({"word_scores": "words"}, r"^word_scores: expected a list with one list a pair"),
        ({"beta": math.nan}, r"^beta: beta=nan"),
        ({"missing": "drop"}, r"^missing: "),
    ],
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises(InputError, match=message):
        run(**change)


def test_arrays_are_taken_too():
    found = run(
        word_scores=[np.array(part) for part in WORDS],
        semantic=[np.array(part, dtype=bool) for part in SEMANTIC],
    )
    assert found == run()


TOKENS = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.2]), st.booleans(), st.booleans()), max_size=5)


@given(st.lists(st.tuples(TOKENS, TOKENS), min_size=1, max_size=6), st.randoms())
def test_agrees_with_loops_in_any_order(pairs, random):
    def run(pairs):
        def column(side, place):
            return [[token[place] for token in pair[side]] for pair in pairs]

        return captokeneval(column(0, 0), column(0, 1), column(0, 2), column(1, 0), column(1, 1))

    found = run(pairs)
    assert run(random.sample(pairs, len(pairs))) == found
    for part, tokens in (
        (found.text, [[token for token in words if token[2]] for words, _ in pairs]),
        (found.vision, [regions for _, regions in pairs]),
    ):
        right = [[(score > 0.1) == label for score, label, _ in items] for items in tokens]
        assert (part.n, part.right) == (sum(map(len, right)), sum(map(sum, right)))
        shares = [sum(items) / len(items) for items in right if items]
        if shares:
            assert part.value == part.right / part.n
            assert part.mean_over_pairs == pytest.approx(sum(shares) / len(shares))
