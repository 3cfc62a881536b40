"""Substitution against Algorithm 1 of Kim et al. 2023, on invented captions in five languages."""

import math
import random
import subprocess
import sys
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from capscore.errors import CapscoreError
from capscore.perturbations import ORDERS, perturb

# ------------------------------------------------------------ the algorithm, as it is printed


def algorithm_1(caption, objects, chance):
    """The paper's `sub_in_sent` for one caption, whose objects are different and in the caption's order."""
    shuffled = objects.copy()
    while objects == shuffled:
        chance.shuffle(shuffled)
    target = caption
    for old, new in zip(objects, shuffled, strict=True):
        target = new.join(target.rsplit(old, 1))
    return target


# --------------------------------------------------------------------------- captions

# first words, nouns, what links two nouns, last words; no noun is part of another word here
GRAMMAR = {
    "en": (
        "in the picture: ",
        "cat dog tower bottle kite ladder violin wagon helmet basket".split(),
        (" near a ", " with one ", " beside the ", " and its "),
        ".",
    ),
    "de": (
        "Hier sieht man: ",
        "Katze Hund Turm Flasche Drachen Leiter Geige Wagen Helm Korb".split(),
        (" neben dem ", " und noch ", " vor jenem ", " mit diesem "),
        ".",
    ),
    "fr": (
        "sur la photo : ",
        "chat chien tour bouteille ballon échelle violon voiture casque panier".split(),
        (" devant un ", " avec le ", " sous un ", " et encore "),
        ".",
    ),
    "es": (
        "aquí se ve ",
        "gato perro torre botella cometa escalera violín coche casco cesta".split(),
        (" junto al ", " y un ", " sobre el ", " ante su "),
        ".",
    ),
    "ja": (
        "写真には",
        "猫 犬 塔 瓶 凧 梯子 椅子 馬車 帽子 籠".split(),
        ("と", "の横の", "や", "の上の"),
        "がある。",
    ),
}


def invented(n, seed=0):
    """n captions of the languages in turn, with two to five objects: [(language, text, objects)]."""
    chance = random.Random(seed)
    made = []
    for number in range(n):
        language = list(GRAMMAR)[number % len(GRAMMAR)]
        first, nouns, links, last = GRAMMAR[language]
        objects = chance.sample(nouns, 2 + number // len(GRAMMAR) % 4)
        caption = first + objects[0]
        for thing in objects[1:]:
            caption += chance.choice(links) + thing
        made.append((language, caption + last, objects))
    return made


CAPTIONS = invented(1000)


def read_order(caption, objects, text):
    """The perturbed caption → for each place of the caption the number of the object that is in it now."""
    rest, order, last = text, [], 0
    places = [caption.index(thing) for thing in objects]
    for thing, start in zip(objects, places, strict=True):
        between = caption[last:start]
        assert rest.startswith(between), (caption, text)
        rest, last = rest[len(between) :], start + len(thing)
        (now,) = [number for number, name in enumerate(objects) if rest.startswith(name)]
        order.append(now)
        rest = rest[len(objects[now]) :]
    assert rest == caption[last:]
    assert sorted(order) == list(range(len(objects)))
    return tuple(order)


def drawn_orders(order, seeds):
    """Number of objects → the orders that substitution gives the captions, counted."""
    found = {n: Counter() for n in (2, 3, 4, 5)}
    for language in GRAMMAR:
        chosen = [(text, objects) for code, text, objects in CAPTIONS if code == language]
        for seed in seeds:
            result = perturb(
                [text for text, _ in chosen],
                "substitution",
                language,
                seed=seed,
                objects=[objects for _, objects in chosen],
                order=order,
            )
            assert not result.unchanged.any() and not result.not_found.any()
            for (text, objects), changed in zip(chosen, result.captions, strict=True):
                found[len(objects)][read_order(text, objects, changed)] += 1
    return found


@pytest.fixture(scope="module")
def ours():
    return drawn_orders("published", range(12))


@pytest.fixture(scope="module")
def reference():
    chance = random.Random(20)
    found = {n: Counter() for n in (2, 3, 4, 5)}
    for _ in range(12):
        for _, caption, objects in CAPTIONS:
            text = algorithm_1(caption, objects, chance)
            found[len(objects)][read_order(caption, objects, text)] += 1
    return found


def share_that_stays(counts):
    """Mean share of the objects in their place, and its standard error."""
    shares = [
        sum(place == thing for place, thing in enumerate(order)) / len(order) for order in counts.elements()
    ]
    return np.mean(shares), np.std(shares, ddof=1) / math.sqrt(len(shares))


# --------------------------------------------------------------------------------- tests


def test_the_captions_are_of_five_languages_and_hold_their_objects_once():
    assert Counter(language for language, _, _ in CAPTIONS) == dict.fromkeys(GRAMMAR, 200)
    assert Counter(len(objects) for _, _, objects in CAPTIONS) == {2: 250, 3: 250, 4: 250, 5: 250}
    assert all(caption.count(thing) == 1 for _, caption, objects in CAPTIONS for thing in objects)


def test_the_orders_reached_are_those_of_algorithm_1(ours, reference):
    """All n! - 1 orders that differ from the caption's: 1, 5, 23 and 119."""
    for n, number in ((2, 1), (3, 5), (4, 23), (5, 119)):
        every = set(permutations(range(n))) - {tuple(range(n))}
        assert len(every) == number
        assert set(ours[n]) == set(reference[n]) == every


# of n places, 1/n stay on average over all orders; without the one in which all n stay:
# (1/n - 1/n!) / (1 - 1/n!), which is 1/5, 5/23 and 23/119
@pytest.mark.parametrize(("n", "share"), [(2, 0), (3, 0.2), (4, 0.2173913), (5, 0.1932773)])
def test_as_many_objects_stay_as_in_algorithm_1(ours, reference, n, share):
    assert sum(ours[n].values()) == sum(reference[n].values()) == 3000
    mean, error = share_that_stays(ours[n])
    expected, its_error = share_that_stays(reference[n])
    assert error < 0.007  # so that the next lines can tell 20 percent from none
    assert abs(mean - share) <= 3.5 * error
    assert abs(expected - share) <= 3.5 * its_error
    assert abs(mean - expected) <= 3.5 * math.hypot(error, its_error)


@pytest.mark.parametrize("n", [3, 4, 5])
def test_the_orders_are_as_frequent_as_in_algorithm_1(ours, reference, n):
    orders = sorted(ours[n])
    counts = [[found[n][order] for order in orders] for found in (ours, reference)]
    assert stats.chisquare(counts[0]).pvalue > 0.001  # all are equally likely
    assert stats.chi2_contingency(counts).pvalue > 0.001
    # a test that could not tell would pass for the other order as well
    every = drawn_orders("every", range(2))[n]
    assert stats.chisquare([every[order] for order in orders]).pvalue < 1e-9


def test_each_language_on_its_own():
    for language in GRAMMAR:
        chosen = [
            (text, objects) for code, text, objects in CAPTIONS if code == language and len(objects) == 3
        ]
        counts = Counter()
        for seed in range(40):
            result = perturb(
                [text for text, _ in chosen],
                "substitution",
                language,
                seed=seed,
                objects=[objects for _, objects in chosen],
            )
            counts.update(
                read_order(text, objects, changed)
                for (text, objects), changed in zip(chosen, result.captions, strict=True)
            )
        assert len(counts) == 5 and stats.chisquare(list(counts.values())).pvalue > 0.001


def test_every_object_moves_on_demand():
    found = drawn_orders("every", range(12))
    for n in (2, 3, 4, 5):
        assert share_that_stays(found[n])[0] == 0
    assert set(found[3]) == {(1, 2, 0), (2, 0, 1)}
    assert stats.chisquare(list(found[3].values())).pvalue > 0.001


ANIMALS = ["a cat and a dog and a man"], [["cat", "dog", "man"]]


@pytest.mark.parametrize(
    ("order", "texts"),
    [
        (
            "published",
            {
                "a cat and a man and a dog",
                "a dog and a cat and a man",
                "a dog and a man and a cat",
                "a man and a cat and a dog",
                "a man and a dog and a cat",
            },
        ),
        ("every", {"a dog and a man and a cat", "a man and a cat and a dog"}),
    ],
)
def test_the_captions_of_three_objects(order, texts):
    captions, objects = ANIMALS
    made = {
        perturb(captions, "substitution", "en", objects=objects, seed=seed, order=order).captions[0]
        for seed in range(200)
    }
    assert made == texts


def test_the_default_is_as_published_and_the_settings_say_it():
    captions, objects = ANIMALS
    default = [perturb(captions, "substitution", objects=objects, seed=seed) for seed in range(20)]
    stated = [
        perturb(captions, "substitution", objects=objects, seed=seed, order="published") for seed in range(20)
    ]
    assert [made.captions for made in default] == [made.captions for made in stated]
    assert default[0].settings == {"seed": 0, "objects": "given", "order": "published"}
    every = perturb(captions, "substitution", objects=objects, order="every")
    assert every.settings == {"seed": 0, "objects": "given", "order": "every"}
    assert "order" not in perturb(captions, "jumble").settings


@pytest.mark.parametrize("order", ORDERS)
def test_neither_order_of_rows_nor_company_matters(order):
    _, texts, objects = zip(*invented(60, seed=3), strict=True)
    together = perturb(texts, "substitution", seed=5, objects=objects, order=order).captions
    alone = [
        perturb([text], "substitution", seed=5, objects=[things], order=order).captions[0]
        for text, things in zip(texts, objects, strict=True)
    ]
    backwards = perturb(texts[::-1], "substitution", seed=5, objects=objects[::-1], order=order).captions
    assert together == alone == backwards[::-1]
    # nor does the order in which the objects of a caption are given
    mixed = [random.Random(1).sample(things, len(things)) for things in objects]
    assert perturb(texts, "substitution", seed=5, objects=mixed, order=order).captions == together


@pytest.mark.parametrize("order", ORDERS)
def test_equal_objects_end_and_are_counted(order):
    code = (
        "from capscore.perturbations import perturb\n"
        "captions = ['a dog and a dog and a Dog', 'a dog', 'a cat', '犬と犬']\n"
        "objects = [['dog', 'dog', 'Dog'], ['dog'], [], ['犬', '犬']]\n"
        f"made = perturb(captions, 'substitution', objects=objects, order={order!r})\n"
        "assert made.captions == captions and made.unchanged.all()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("order", ORDERS)
def test_nothing_is_written_over_what_was_just_written(order):
    """Objects that come twice, or are parts of each other; given in another order than the caption's."""
    caption = "a dog by a dog house by a dog by a cat"
    objects = ["cat", "dog house", "dog", "dog"]
    for seed in range(60):
        text = perturb([caption], "substitution", objects=[objects], seed=seed, order=order).captions[0]
        assert text != caption
        assert sorted(text.removeprefix("a ").split(" by a ")) == ["cat", "dog", "dog", "dog house"]


def test_two_equal_objects_and_another_one():
    """Of the three lists of them two differ from the caption's, and are equally likely."""
    counts = Counter(
        perturb(["dog, dog, cat"], "substitution", objects=[["dog", "dog", "cat"]], seed=seed).captions[0]
        for seed in range(1000)
    )
    assert set(counts) == {"dog, cat, dog", "cat, dog, dog"}
    assert stats.binomtest(counts["dog, cat, dog"], 1000).pvalue > 0.001


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("all", "order='all': expected one of published, every"),
        (None, "order=None: expected one of published, every"),
    ],
)
def test_an_unknown_order(order, message):
    with pytest.raises(CapscoreError, match=message):
        perturb(["a dog and a cat"], "substitution", objects=[["dog", "cat"]], order=order)
