"""`by_degree`: how much is touched, in which words, in every language; and what bad input says."""

import itertools

import numpy as np
import pytest
from scipy.stats import spearmanr

from capscore.errors import CapscoreError, InputError
from capscore.perturbations import KINDS, MASK
from capscore.perturbations.by_degree import DEGREES, by_degree

CAPTIONS = {
    "ar": "كلب بني يركض على شاطئ رملي مع كرة حمراء",
    "cs": "Hnědý pes běží po písečné pláži s červeným míčem.",
    "de": "Ein brauner Hund läuft mit einem Ball über den Strand.",
    "en": "A brown dog runs with a red ball across the sandy beach.",
    "es": "Un perro marrón corre por la playa con una pelota roja.",
    "fr": "Un chien brun court sur la plage avec une balle rouge.",
    "it": "Un cane marrone corre sulla spiaggia con una palla rossa.",
    "ja": "茶色の犬が赤いボールをくわえて砂浜を走っている。",
    "ko": "갈색 개가 빨간 공을 물고 모래 해변을 달리고 있다.",
    "nl": "Een bruine hond rent met een rode bal over het strand.",
    "pl": "Brązowy pies biegnie po plaży z czerwoną piłką.",
    "pt": "Um cachorro marrom corre na praia com uma bola vermelha.",
    "ru": "Коричневая собака бежит по пляжу с красным мячом.",
    "tr": "Kahverengi bir köpek kumsalda kırmızı bir topla koşuyor.",
    "zh": "一只棕色的狗叼着红色的球在沙滩上奔跑。",
}
OBJECTS = {
    "ar": ["كلب", "شاطئ", "كرة"],
    "cs": ["pes", "pláži", "míčem"],
    "de": ["Hund", "Ball", "Strand"],
    "en": ["dog", "ball", "beach"],
    "es": ["perro", "playa", "pelota"],
    "fr": ["chien", "plage", "balle"],
    "it": ["cane", "spiaggia", "palla"],
    "ja": ["犬", "ボール", "砂浜"],
    "ko": ["개", "공", "해변"],
    "nl": ["hond", "bal", "strand"],
    "pl": ["pies", "plaży", "piłką"],
    "pt": ["cachorro", "praia", "bola"],
    "ru": ["собака", "пляжу", "мячом"],
    "tr": ["köpek", "kumsalda", "topla"],
    "zh": ["狗", "球", "沙滩"],
}


def of(kind, language, captions=None, **settings):
    captions = [CAPTIONS[language]] if captions is None else captions
    if kind == "substitution":
        settings.setdefault("objects", [OBJECTS[language]] * len(captions))
    return by_degree(captions, kind, language, **settings)


@pytest.mark.parametrize("language", CAPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_more_is_touched_the_higher_the_degree(kind, language):
    shares = []
    for degree in DEGREES:
        found = of(kind, language, degree=degree)
        assert not found.unchanged.any() and found.captions[0].strip()
        shares.append(found.touched[0])
    assert shares == sorted(shares)
    assert shares[-1] > shares[0] > 0 and spearmanr(DEGREES, shares).statistic > 0.7
    # three objects of ten or so words: all that a substitution can touch
    assert kind == "substitution" or shares[-1] > 0.6


@pytest.mark.parametrize("kind", KINDS)
def test_neither_order_nor_duplicates_matter(kind):
    captions = [
        "a dog on a beach with a ball",
        "two men ride horses",
        "a dog on a beach with a ball",
        "a cat",
    ]
    objects = [["dog", "beach", "ball"], ["men", "horses"], ["dog", "beach", "ball"], ["cat"]]
    given = {"objects": objects} if kind == "substitution" else {}
    there = by_degree(captions, kind, "en", degree=0.5, seed=3, **given)
    given = {"objects": objects[::-1]} if kind == "substitution" else {}
    back = by_degree(captions[::-1], kind, "en", degree=0.5, seed=3, **given)
    assert there.captions == back.captions[::-1]
    assert there.touched.tolist() == back.touched.tolist()[::-1]
    assert there.captions[0] == there.captions[2]


def test_each_kind_touches_what_it_says():
    words = [f"w{number}" for number in range(10)]
    caption = " ".join(words)
    repeated = by_degree([caption], "repetition", degree=0.3, seed=1)
    twice = [word for word in words if repeated.captions[0].split().count(word) == 2]
    assert len(twice) == 3 and repeated.touched.tolist() == [0.3]
    assert all(f"{word} {word}" in repeated.captions[0] for word in twice)

    removed = by_degree([caption], "removal", degree=0.3, seed=1)
    assert [word for word in words if word in removed.captions[0].split()] == removed.captions[0].split()
    assert len(removed.captions[0].split()) == 7 and removed.touched.tolist() == [0.3]

    masked = by_degree([caption], "masking", degree=0.3, seed=1)
    assert masked.captions[0].split().count(MASK) == 3 and masked.touched.tolist() == [0.3]

    jumbled = by_degree([caption], "jumble", degree=0.3, seed=1)
    assert sorted(jumbled.captions[0].split()) == words
    assert sum(a != b for a, b in zip(jumbled.captions[0].split(), words, strict=True)) == 3
    assert jumbled.touched.tolist() == [0.3]

    objects = [[f"w{number}" for number in (0, 2, 4, 6, 8)]]
    exchanged = by_degree([caption], "substitution", degree=0.6, seed=1, objects=objects)
    moved = [number for number, word in enumerate(exchanged.captions[0].split()) if word != words[number]]
    assert len(moved) == 3 and all(number % 2 == 0 for number in moved)
    assert exchanged.touched.tolist() == [0.3]


def test_words_of_a_lower_degree_are_among_those_of_a_higher_one():
    caption = " ".join(f"w{number}" for number in range(12))
    for kind in ("removal", "masking"):
        gone = [
            set(caption.split()) - set(by_degree([caption], kind, degree=degree).captions[0].split())
            for degree in DEGREES
        ]
        assert all(a < b for a, b in itertools.pairwise(gone))


def test_everything_may_be_touched_and_nothing_becomes_empty():
    caption = "a b c d"
    assert by_degree([caption], "repetition", degree=1).captions == ["a a b b c c d d"]
    assert by_degree([caption], "masking", degree=1).captions == [f"{MASK} {MASK} {MASK} {MASK}"]
    assert len(by_degree([caption], "removal", degree=1).captions[0].split()) == 1
    jumbled = by_degree([caption], "jumble", degree=1)
    assert all(a != b for a, b in zip(jumbled.captions[0].split(), caption.split(), strict=True))
    assert jumbled.touched.tolist() == [1]


@pytest.mark.parametrize(
    ("kind", "caption", "objects"),
    [
        ("removal", "dog", None),
        ("jumble", "ha Ha ha", None),
        ("masking", f"{MASK} {MASK}", None),
        ("substitution", "a dog and a Dog", ["dog", "Dog"]),
        ("substitution", "a dog runs", ["dog"]),
    ],
)
def test_what_cannot_change_is_unchanged_and_untouched(kind, caption, objects):
    given = {} if objects is None else {"objects": [objects, ["men", "horse"]]}
    found = by_degree([caption, "two men ride one horse"], kind, degree=0.5, **given)
    assert found.captions[0] == caption
    assert found.unchanged.tolist() == [True, False]
    assert found.touched[0] == 0 < found.touched[1]


def test_least_degree_changes_a_caption_whose_first_drawn_words_are_equal():
    captions = [f"{'very ' * 30}tall man number {number}" for number in range(20)]
    assert not by_degree(captions, "jumble", degree=0.01).unchanged.any()


def test_white_space_stays():
    assert by_degree(["  a\tdog  "], "repetition", degree=1).captions == ["  a a\tdog dog  "]


def test_substitution_takes_nouns_where_no_objects_are_given():
    found = by_degree(["A dog chases a ball."], "substitution", "en", degree=0.5)
    assert found.captions == ["A ball chases a dog."]
    np.testing.assert_allclose(found.touched, [0.4])


@pytest.mark.parametrize("degree", [0, -0.1, 1.1, True, "half", float("nan"), None])
def test_a_degree_is_a_share(degree):
    with pytest.raises(CapscoreError, match="expected a share of the words, above 0, at most 1"):
        by_degree(["a dog"], "jumble", degree=degree)


def test_bad_input_is_named():
    with pytest.raises(CapscoreError, match="'jumbel' is not one of repetition"):
        by_degree(["a dog"], "jumbel", degree=0.5)
    with pytest.raises(InputError, match="blank") as caught:
        by_degree(["a dog", " "], "jumble", degree=0.5)
    assert caught.value.row == 1
