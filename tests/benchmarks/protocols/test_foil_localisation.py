"""Foils and their wrong words: localisation accuracy, average precision of captions and of words."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.benchmarks.protocols import localisation
from capscore.benchmarks.protocols.words import doubts_of, labels_at, places_of
from capscore.errors import InputError

# three foils and two right captions; by hand:
SCORES = [0.9, 0.4, 0.7, 0.7, 0.2]
FOILS = [False, True, False, True, True]
# captions from the highest: right; right and foil; foil; foil. Right ones: 1/2 · 1 + 1/2 · 2/3
# foils from the lowest: 1/3 · 1 + 1/3 · 1 + 1/3 · 3/4
DOUBTS = [[0.1], [0.8, 0.3], [0.2, None], [0.5, 0.5, 0.1], [None, 0.6]]
LABELS = [[0], [1, 0], [0, 0], [1, 0, 0], [1, 0]]


def slow_average_precision(numbers, wanted):
    """One threshold after the other, as it is defined."""
    total, before = 0.0, 0.0
    for threshold in sorted(set(numbers), reverse=True):
        taken = [mark for number, mark in zip(numbers, wanted, strict=True) if number >= threshold]
        recall = sum(taken) / sum(wanted)
        total += (recall - before) * sum(taken) / len(taken)
        before = recall
    return total


def slow_auc(numbers, wanted):
    pairs = list(
        itertools.product(
            [number for number, mark in zip(numbers, wanted, strict=True) if mark],
            [number for number, mark in zip(numbers, wanted, strict=True) if not mark],
        )
    )
    return sum((one > other) + (one == other) / 2 for one, other in pairs) / len(pairs)


def test_captions_by_hand():
    found = localisation(SCORES, FOILS)
    assert found.table() == [
        ("average precision right", pytest.approx(5 / 6, abs=1e-12), 5),
        ("average precision foil", pytest.approx(11 / 12, abs=1e-12), 5),
    ]
    assert found.counts == {"foils": 3, "right captions": 2, "left out": 0}


def test_words_by_hand():
    found = localisation(SCORES, FOILS, DOUBTS, LABELS)
    # of three foils the first is found; in the second a right word is as doubted; of the third the wrong word
    # was not judged
    assert found.value("localisation_accuracy") == pytest.approx(1 / 3, abs=1e-12)
    # judged from the most doubted: .8 wrong, .6, .5 wrong and .5, .3, .2, .1, .1
    assert found.value("word_average_precision") == pytest.approx(1 / 2 + 1 / 2 * 2 / 4, abs=1e-12)
    assert found.value("word_auc") == pytest.approx((6 + 4.5) / 12, abs=1e-12)
    assert found.counts == {
        "foils": 3,
        "right captions": 2,
        "judged words": 8,
        "wrong words": 2,
        "left out": 0,
    }
    assert [(name, n) for name, _, _, n in found.statistics] == [
        ("localisation_accuracy", 3),
        ("average_precision_right", 5),
        ("average_precision_foil", 5),
        ("word_average_precision", 8),
        ("word_auc", 8),
    ]


def test_two_wrong_words_may_be_equally_doubted():
    found = localisation([0.1], [True], [[0.5, 0.5, 0.2]], [[1, 1, 0]])
    assert found.value("average_precision_foil") is None


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.booleans(), st.lists(st.integers(0, 3), min_size=1, max_size=3)),
        min_size=1,
        max_size=9,
    )
)
def test_as_defined(rows):
    scores = [float(score) for score, _, _ in rows]
    foils = [foil for _, foil, _ in rows]
    doubts = [[float(doubt) for doubt in own] for _, _, own in rows]
    labels = [[int(foil), *[0] * (len(own) - 1)] for _, foil, own in rows]
    found = localisation(scores, foils, doubts, labels)
    words = [doubt for own in doubts for doubt in own]
    marks = [mark for own in labels for mark in own]
    if any(foils):
        hits = [max(own[1:], default=-1) < own[0] for own, foil in zip(doubts, foils, strict=True) if foil]
        assert found.value("localisation_accuracy") == pytest.approx(sum(hits) / len(hits), abs=1e-12)
        expected = slow_average_precision(words, marks)
        assert found.value("word_average_precision") == pytest.approx(expected, abs=1e-12)
    if any(marks) and not all(marks):
        assert found.value("word_auc") == pytest.approx(slow_auc(words, marks), abs=1e-12)
    if any(foils) and not all(foils):
        right = slow_average_precision(scores, [not foil for foil in foils])
        assert found.value("average_precision_right") == pytest.approx(right, abs=1e-12)
        foil = slow_average_precision([-score for score in scores], foils)
        assert found.value("average_precision_foil") == pytest.approx(foil, abs=1e-12)


def test_intervals_draw_photos():
    # the captions of a photo stay together; half of the photos have a foil that is found
    rows = 20
    found = localisation(
        [0.9, 0.1] * rows,
        [False, True] * rows,
        [[0.1], [0.9, 0.2]] * (rows // 2) + [[0.1], [0.2, 0.9]] * (rows // 2),
        [[0], [1, 0]] * rows,
        images=[number // 2 for number in range(2 * rows)],
        bootstrap=200,
    )
    assert found.value("localisation_accuracy") == 0.5
    # a binomial of 20 and 1/2: 2.5 and 97.5 %
    assert found.statistics[0].interval == pytest.approx((0.3, 0.7), abs=0.051)
    # every photo's caption is above every photo's foil
    assert found.statistics[1].interval == (1.0, 1.0)
    localisation(SCORES, FOILS, bootstrap=50, images=["a"] * 5)


def test_missing_scores():
    with pytest.raises(InputError, match=r"^row 1, caption_scores: "):
        localisation([0.9, None, 0.2], [False, True, True])
    found = localisation(
        [0.9, None, 0.2], [False, True, True], [[0.1], [0.9], [0.3]], [[0], [1], [1]], missing="skip"
    )
    assert (found.counts["foils"], found.counts["judged words"], found.counts["left out"]) == (1, 2, 1)


@pytest.mark.parametrize(
    "doubts, labels, message",
    [
        ([[0.1]], [[0], [1]], r"word_doubts: 1 row here but 2"),
        ([[0.1], [0.2]], None, r"word_labels: expected a list"),
        ([[0.1], [0.2, 0.3]], [[0], [1]], r"row 1, word_labels: "),
        ([[0.1], ["x"]], [[0], [1]], r"row 1, word_doubts: "),
        (
            [[0.1], [0.2]],
            [[0], [2]],
            r"row 1, word_labels: ",
        ),
        ([[0.1], [0.2]], [[1], [1]], r"row 0, word_labels: "),
    ],
)
def test_bad_words(doubts, labels, message):
    with pytest.raises(InputError):
        localisation([0.5, 0.4], [False, True], doubts, labels)


def test_doubts():
    def word(score, semantic=True, **more):
        return {"text": "x", "start": 0, "end": 1, "score": score, "semantic": semantic, **more}

    published = [[word(0.25), word(0.5, semantic=False), word(None)], [word(-0.5)], []]
    assert doubts_of(published) == [[-0.25, None, None], [0.5], []]
    # as soon as one word has a probability, the scores of the others say nothing beside it
    learned = [[word(0.25, p_correct=0.875), word(0.1, p_correct=None)], [word(0.5, p_correct=0.0)]]
    assert doubts_of(learned) == [[0.125, None], [1.0]]


def test_places():
    assert places_of("A lily by a lily pad.", "lily") == [(2, 6), (12, 16)]
    # whole words first, parts of words otherwise
    assert places_of("skirts and a skirt", "skirt") == [(13, 18)]
    assert places_of("Two skirts", "SKIRT") == [(4, 9)]
    assert places_of("a café", "caf") == [(2, 5)]
    assert places_of("a (toy) cat", "(toy)") == [(2, 7)]
    assert places_of("a dog", "cat") == places_of("a dog", " ") == []
    words = [{"start": 0, "end": 1}, {"start": 2, "end": 6}, {"start": 7, "end": 9}]
    assert labels_at(words, [(2, 6)]) == [0, 1, 0]
    assert labels_at(words, [(5, 8)]) == [0, 1, 1]
    assert labels_at(words, []) == [0, 0, 0]
