"""Scores of words: CapTokenEval, localisation of wrong words, and words as others split them."""

import math

import pytest

from capscore.benchmarks.protocols import captokeneval, localisation
from capscore.benchmarks.protocols.words import doubts_of, labels_at, places_of, scores_of_tokens
from capscore.errors import InputError

TOKENS = {"word_scores": [[0.30, 0.05, 0.20], [0.00, 0.40]], "word_labels": [[1, 0, 1], [1, 0]]}
TOKENS |= {"region_scores": [[0.2, 0.0], [0.3, 0.1, 0.05]], "region_labels": [[1, 0], [0, 1, 0]]}
TOKENS["semantic"] = [[1, 1, 0], [1, 1]]


def accuracy(*values):
    return dict(zip(("n", "right", "value", "mean_over_pairs", "n_pairs"), values, strict=True))


def test_captokeneval_by_hand():
    found = captokeneval(**TOKENS)
    # words: .30 and .05 are as labelled, .20 is no semantic word, .00 should be above .1, .40 below
    assert found.details["text"] == accuracy(4, 2, 0.5, 0.5, 2)
    # regions: both of the first pair; of the second only .05, as .1 is not above .1
    assert found.details["vision"] == accuracy(5, 3, 0.6, (1 + 1 / 3) / 2, 2)
    assert found.table() == [("accuracy vision", 0.6, 5), ("accuracy text", 0.5, 4)]
    assert found.counts == {"semantic words": 4, "other words": 1, "regions": 5, "left out": 0}
    assert captokeneval(**TOKENS, beta=0.09).details["vision"]["right"] == 4
    assert captokeneval(**TOKENS, beta=0.35).details["text"]["right"] == 1
    with pytest.raises(InputError, match="beta: "):
        captokeneval(**TOKENS, beta=math.nan)


def test_words_that_are_not_semantic_need_no_score_and_pairs_may_have_none():
    empty = {"semantic": [[0, 0, 0], [0, 0]], "region_scores": [[], []], "region_labels": [[], []]}
    none = captokeneval(**{**TOKENS, **empty})
    assert none.details["text"] == none.details["vision"] == accuracy(0, 0, None, None, 0)
    assert none.notes[0] == "2 of 2 pairs have no semantic word"
    words = [[0.3, 0.05, math.nan], [math.nan, 0.4]]
    with pytest.raises(InputError, match=r"^row 1, word_scores: "):
        captokeneval(**{**TOKENS, "word_scores": words})
    found = captokeneval(**{**TOKENS, "word_scores": words}, missing="skip")
    assert (found.details["text"]["n"], found.details["text"]["right"], found.counts["left out"]) == (3, 2, 1)


def words(caption, *scored):
    found, place = [], 0
    for text, score in scored:
        start = caption.index(text, place)
        place = start + len(text)
        found.append({"text": text, "start": start, "end": place, "score": score, "semantic": True})
    return found


@pytest.mark.parametrize(
    ("caption", "scored", "tokens", "expected"),
    [
        ("Two dogs, on", {"Two": 0.5, "dogs": 0.25, "on": 0}, "two dogs , on", [0.5, 0.25, None, 0]),
        ("an ice-cream", {"an": 0.5, "ice": 0.125, "cream": 0.25}, "an ice-cream", [0.5, 0.375]),
        ("don't wear", {"don't": 0.25, "wear": 0.5}, "do n't wear", [0.25, 0.25, 0.5]),
        ("abcd", {"ab": 0.25, "cd": 0.5}, "a bc d", [0.25, 0.75, 0.5]),
        # a word that was not read leaves its tokens without a score
        ("ice-cream man's", {"ice": 0.25, "cream": None, "man's": None}, "ice-cream man 's", [None] * 3),
        ("a", {}, "a", [None]),
    ],
)
def test_tokens_get_the_scores_of_the_words_they_share_letters_with(caption, scored, tokens, expected):
    assert scores_of_tokens(caption, tokens.split(), words(caption, *scored.items())) == expected


@pytest.mark.parametrize(("tokens", "number"), [("two on", 1), ("two dogs on a", 3)])
def test_the_first_token_of_another_caption_is_named(tokens, number):
    with pytest.raises(InputError, match=f"words: word {number} is '{tokens.split()[number]}', but"):
        scores_of_tokens("two dogs on", tokens.split(), [])


# three foils and two right captions
SCORES = [0.9, 0.4, 0.7, 0.7, 0.2]
FOILS = [False, True, False, True, True]
DOUBTS = [[0.1], [0.8, 0.3], [0.2, None], [0.5, 0.5, 0.1], [None, 0.6]]
LABELS = [[0], [1, 0], [0, 0], [1, 0, 0], [1, 0]]


def test_localisation_by_hand():
    captions = [
        # from the highest: right; right and foil; foil; foil. Right ones: 1/2 · 1 + 1/2 · 2/3
        ("average precision right", pytest.approx(5 / 6, abs=1e-12), 5),
        # foils from the lowest: 1/3 · 1 + 1/3 · 1 + 1/3 · 3/4
        ("average precision foil", pytest.approx(11 / 12, abs=1e-12), 5),
    ]
    found = localisation(SCORES, FOILS)
    assert found.table() == captions
    assert found.counts == {"foils": 3, "right captions": 2, "left out": 0}
    found = localisation(SCORES, FOILS, DOUBTS, LABELS)
    # of three foils the first is found; in the second a right word is as doubted; of the third the wrong word
    # was not judged. Judged from the most doubted: .8 wrong, .6, .5 wrong and .5, .3, .2, .1, .1
    assert found.table() == [
        ("localisation accuracy", pytest.approx(1 / 3, abs=1e-12), 3),
        *captions,
        ("word average precision", pytest.approx(1 / 2 + 1 / 2 * 2 / 4, abs=1e-12), 8),
        ("word auc", pytest.approx((6 + 4.5) / 12, abs=1e-12), 8),
    ]
    assert localisation(*map(iter, (SCORES, FOILS, DOUBTS, LABELS))) == found  # each is read once
    of_words = {"judged words": 8, "wrong words": 2}
    assert found.counts == {"foils": 3, "right captions": 2, **of_words, "left out": 0}
    unjudged, doubted = found.notes[:2]
    assert unjudged.startswith("1 foil not found: no wrong word of it") and "as doubted" in doubted
    two_wrong = localisation([0.1], [True], [[0.5, 0.5, 0.2]], [[1, 1, 0]])
    assert two_wrong.value("localisation_accuracy") == 1.0
    assert two_wrong.value("average_precision_foil") is None
    skipped = localisation([0.9, None, 0.2], FOILS[:3], DOUBTS[:3], LABELS[:3], missing="skip")
    assert (skipped.counts["foils"], skipped.counts["judged words"]) == (0, 2)
    with pytest.raises(InputError, match="row 0, word_labels: a word is labelled wrong"):
        localisation([0.5, 0.4], [False, True], [[0.1], [0.2]], [[1], [1]])


def test_doubts():
    def word(score, semantic=True, **more):
        return {"text": "x", "start": 0, "end": 1, "score": score, "semantic": semantic, **more}

    published = [[word(0.25), word(0.5, semantic=False), word(None)], [word(-0.5)], []]
    assert doubts_of(published) == [[-0.25, None, None], [0.5], []]
    # as soon as one word has a probability, the scores of the others say nothing beside it
    learned = [[word(0.25, p_correct=0.875), word(0.1, p_correct=None)], [word(0.5, p_correct=0.0)]]
    assert doubts_of(learned) == [[0.125, None], [1.0]]


PLACES = [("A lily by a lily pad.", "lily", [(2, 6), (12, 16)]), ("skirts and a skirt", "skirt", [(13, 18)])]
PLACES += [("Two skirts", "SKIRT", [(4, 9)]), ("a (toy) cat", "(toy)", [(2, 7)]), ("a dog", " ", [])]


@pytest.mark.parametrize(("caption", "word", "places"), PLACES)
def test_places_of_a_word(caption, word, places):
    assert places_of(caption, word) == places


def test_labels_at_positions():
    found = [{"start": 0, "end": 1}, {"start": 2, "end": 6}, {"start": 7, "end": 9}]
    assert [labels_at(found, places) for places in ([(2, 6)], [(5, 8)])] == [[0, 1, 0], [0, 1, 1]]
