"""`by_degree`: which words are touched, and how many."""

import numpy as np
import pytest

from capscore.errors import CapscoreError
from capscore.perturbations import MASK
from capscore.perturbations.by_degree import by_degree

WORDS = [f"w{number}" for number in range(10)]


def made(kind, degree, **objects):
    found = by_degree([" ".join(WORDS)], kind, degree=degree, seed=1, **objects)
    return found.captions[0].split(), found.touched.tolist()


def test_each_kind_touches_the_share_that_it_says():
    repeated, touched = made("repetition", 0.3)
    twice = [word for word in WORDS if repeated.count(word) == 2]
    assert repeated == [word for word in WORDS for _ in range(1 + (word in twice))]
    assert (len(twice), touched) == (3, [0.3])

    removed, touched = made("removal", 0.3)
    assert removed == [word for word in WORDS if word in removed] and (len(removed), touched) == (7, [0.3])

    masked, touched = made("masking", 0.25)  # 2.5 words, rounded up
    assert (masked.count(MASK), touched) == (3, [0.3])

    jumbled, touched = made("jumble", 0.3)
    assert sorted(jumbled) == WORDS and touched == [0.3]
    assert sum(a != b for a, b in zip(jumbled, WORDS, strict=True)) == 3

    exchanged, touched = made("substitution", 0.5, objects=[WORDS[::2]])  # 2.5 of five objects, rounded up
    moved = [number for number, word in enumerate(exchanged) if word != WORDS[number]]
    assert len(moved) == 3 and all(number % 2 == 0 for number in moved) and touched == [0.3]


def test_everything_may_be_touched_and_nothing_becomes_empty():
    caption = "  a\tb c d  "
    assert by_degree([caption], "repetition", degree=1).captions == ["  a a\tb b c c d d  "]
    assert by_degree([caption], "masking", degree=1).captions == [f"  {MASK}\t{MASK} {MASK} {MASK}  "]
    assert len(by_degree([caption], "removal", degree=1).captions[0].split()) == 1
    jumbled = by_degree([caption], "jumble", degree=1)
    assert all(a != b for a, b in zip(jumbled.captions[0].split(), caption.split(), strict=True))
    assert jumbled.touched.tolist() == [1]


@pytest.mark.parametrize(
    ("kind", "caption"),
    [
        ("removal", "dog"),
        ("jumble", "ha Ha ha"),
        ("masking", f"{MASK} {MASK}"),
        ("substitution", "dog or Dog"),
    ],
)
def test_a_caption_that_cannot_change_has_degree_zero(kind, caption):
    given = {"objects": [["dog", "Dog"], ["men", "horse"]]} if kind == "substitution" else {}
    found = by_degree([caption, "two men ride one horse"], kind, degree=0.5, **given)
    assert found.captions[0] == caption and found.unchanged.tolist() == [True, False]
    assert found.touched[0] == 0 < found.touched[1]


def test_least_degree_changes_a_caption_whose_first_drawn_words_are_equal():
    captions = [f"{'very ' * 30}tall man number {number}" for number in range(20)]
    assert not by_degree(captions, "jumble", degree=0.01).unchanged.any()


def test_substitution_takes_nouns_where_no_objects_are_given():
    found = by_degree(["A dog chases a ball."], "substitution", "en", degree=0.5)
    assert found.captions == ["A ball chases a dog."]
    np.testing.assert_allclose(found.touched, [0.4])


@pytest.mark.parametrize("degree", [0, 1.1, True, "half", float("nan"), None])
def test_a_degree_is_a_share(degree):
    with pytest.raises(CapscoreError, match="degree="):
        by_degree(["a dog"], "jumble", degree=degree)
