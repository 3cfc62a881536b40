"""CapTokenEval: accuracy over words and regions of ragged lists."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.benchmarks.protocols import captokeneval
from capscore.benchmarks.protocols.words import scores_of_tokens
from capscore.errors import InputError

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
    assert found.details["text"] == {"n": 4, "right": 2, "value": 0.5, "mean_over_pairs": 0.5, "n_pairs": 2}
    # regions: both of the first pair; of the second only .05, as .1 is not above .1
    assert found.details["vision"] == {
        "n": 5,
        "right": 3,
        "value": 0.6,
        "mean_over_pairs": (1 + 1 / 3) / 2,
        "n_pairs": 2,
    }
    assert found.table() == [("accuracy vision", 0.6, 5), ("accuracy text", 0.5, 4)]
    assert found.counts == {"semantic words": 4, "other words": 1, "regions": 5, "left out": 0}


def test_the_threshold_is_strict_and_can_be_moved():
    assert run(beta=0.09).details["vision"]["right"] == 4
    assert run(beta=0.35).details["text"]["right"] == 1  # only the wrong .05 is told, and .40 still passes


def test_words_and_pairs_weigh_differently():
    found = captokeneval([[1, 1, 1], [0]], [[1, 1, 1], [1]], [[1, 1, 1], [1]], [[1], [1]], [[1], [1]])
    assert (found.details["text"]["value"], found.details["text"]["mean_over_pairs"]) == (0.75, 0.5)


def test_pairs_without_semantic_words_are_told():
    found = run(semantic=[[0, 0, 0], [1, 1]])
    assert (found.details["text"]["n"], found.details["text"]["n_pairs"]) == (2, 1)
    none = run(semantic=[[0, 0, 0], [0, 0]], region_scores=[[], []], region_labels=[[], []])
    assert (
        none.details["text"]
        == none.details["vision"]
        == {"n": 0, "right": 0, "value": None, "mean_over_pairs": None, "n_pairs": 0}
    )


def test_missing_scores():
    # the word without a score in the first pair is not semantic, so only the second pair's counts
    words = [[0.3, 0.05, math.nan], [math.nan, 0.4]]
    with pytest.raises(InputError, match=r"^row 1, word_scores: "):
        run(word_scores=words)
    regions = [[0.2, 0.0], [0.3, None, 0.05]]
    with pytest.raises(InputError, match=r"^row 1, region_scores: "):
        run(region_scores=regions)
    found = run(word_scores=words, region_scores=regions, missing="skip")
    text, vision = found.details["text"], found.details["vision"]
    assert (text["n"], text["right"], vision["n"], found.counts["left out"]) == (3, 2, 4, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"word_labels": [[1, 0], [1, 0]]}, r"^row 0, word_labels: "),
        ({"word_labels": [[1, 0, 1]]}, r"^word_labels: "),
        (
            {"semantic": [[1, 1, 0], [1, "VERB"]]},
            r"^row 1, semantic: ",
        ),
        (
            {"region_scores": [[0.1, 0.2], 0.5]},
            r"^row 1, region_scores: ",
        ),
        ({"word_scores": []}, r"^word_scores: "),
        ({"word_scores": "words"}, r"^word_scores: "),
        ({"beta": math.nan}, r"beta: "),
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
        (found.details["text"], [[token for token in words if token[2]] for words, _ in pairs]),
        (found.details["vision"], [regions for _, regions in pairs]),
    ):
        right = [[(score > 0.1) == label for score, label, _ in items] for items in tokens]
        assert (part["n"], part["right"]) == (sum(map(len, right)), sum(map(sum, right)))
        shares = [sum(items) / len(items) for items in right if items]
        if shares:
            assert part["value"] == part["right"] / part["n"]
            assert part["mean_over_pairs"] == pytest.approx(sum(shares) / len(shares))


# ------------------------------------------------------------------ words split by others


def words(caption, *scored):
    """Words of a caption with their scores, as a metric gives them."""
    found, place = [], 0
    for text, score in scored:
        start = caption.index(text, place)
        place = start + len(text)
        found.append({"text": text, "start": start, "end": place, "score": score, "semantic": True})
    return found


def test_words_that_are_the_same():
    caption = "Two dogs, on a sofa."
    own = words(caption, ("Two", 0.5), ("dogs", 0.25), ("on", 0.0), ("a", 0.125), ("sofa", 0.0625))
    tokens = ["two", "dogs", ",", "on", "a", "sofa", "."]
    assert scores_of_tokens(caption, tokens, own) == [0.5, 0.25, None, 0.0, 0.125, 0.0625, None]
    # punctuation may be left out
    bare = ["two", "dogs", "on", "a", "sofa"]
    assert scores_of_tokens(caption, bare, own) == [0.5, 0.25, 0.0, 0.125, 0.0625]


def test_a_token_of_several_words_has_their_sum():
    own = words("an ice-cream", ("an", 0.5), ("ice", 0.125), ("cream", 0.25))
    assert scores_of_tokens("an ice-cream", ["an", "ice-cream"], own) == [0.5, 0.375]


def test_what_is_said_of_a_word_is_said_of_the_tokens_in_it():
    caption = "don't wear a T-shirt"
    own = words(caption, ("don't", 0.25), ("wear", 0.5), ("a", 0.0), ("T-shirt", 0.125))
    tokens = ["do", "n't", "wear", "a", "T", "-", "shirt"]
    assert scores_of_tokens(caption, tokens, own) == [0.25, 0.25, 0.5, 0.0, 0.125, 0.125, 0.125]


def test_tokens_across_words():
    # as of a text without blanks: ab|cd against a|bc|d
    own = words("abcd", ("ab", 0.25), ("cd", 0.5))
    assert scores_of_tokens("abcd", ["a", "bc", "d"], own) == [0.25, 0.75, 0.5]


def test_a_word_that_was_not_read_leaves_its_tokens_without_score():
    own = words("ice-cream man's", ("ice", 0.25), ("cream", None), ("man's", None))
    assert scores_of_tokens("ice-cream man's", ["ice-cream", "man", "'s"], own) == [None] * 3
    assert scores_of_tokens("a", ["a"], []) == [None]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["two", "on"], r"^words: "),
        (["two", "dogs", "on", "a"], r"word 3 is 'a', but .* continues with ''"),
        (["wo"], "word 0 is 'wo'"),
    ],
)
def test_tokens_of_another_caption(tokens, message):
    with pytest.raises(InputError, match=message):
        scores_of_tokens("two dogs on", tokens, [])


@given(
    st.lists(st.tuples(st.text("abç", min_size=1, max_size=3), st.booleans()), min_size=1, max_size=8),
    st.data(),
)
def test_any_split_of_the_same_letters(parts, data):
    """Against a computation letter by letter."""
    caption = "".join(text + " " * blank for text, blank in parts)
    own = words(caption, *((text, 2.0**-n) for n, (text, _) in enumerate(parts)))
    tokens = []
    for piece in caption.split():
        cuts = sorted(data.draw(st.sets(st.integers(1, len(piece)), max_size=3)) | {0, len(piece)})
        tokens += [piece[a:b] for a, b in itertools.pairwise(cuts)]
    word_of = {place: n for n, word in enumerate(own) for place in range(word["start"], word["end"])}
    expected, letters = [], iter([place for place, letter in enumerate(caption) if letter != " "])
    for token in tokens:
        expected.append(sum(2.0**-n for n in {word_of[next(letters)] for _ in token}))
    assert scores_of_tokens(caption, tokens, own) == expected
