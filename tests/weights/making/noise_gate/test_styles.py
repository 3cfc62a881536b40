"""Captions in other styles: what they say, and where their words, objects and openers are."""

from __future__ import annotations

import random

import pytest

from weights.making.noise_gate import styles
from weights.making.noise_gate.styles import Styled, as_written
from weights.making.noise_gate.texts import MarkedText, marked


def written(caption: str, language: str = "en") -> Styled:
    return as_written(marked([caption], language, [None])[0])


def cut(text: Styled, places) -> list[str]:
    return [text.text[start:end] for start, end in places]


def openers(text: Styled) -> list[str]:
    return [text.text[slice(*text.words[number])] for number in sorted(text.openers)]


def test_words_objects_and_openers_of_a_caption():
    text = written("Two dogs play with a yellow ball in the snow.")
    assert cut(text, text.words) == "Two dogs play with a yellow ball in the snow.".split()
    assert cut(text, text.objects) == ["dogs", "ball", "snow"] and openers(text) == ["Two", "a", "the"]
    # in capitals and in quotes
    assert openers(written("İki köpek koşuyor.", "tr")) == ["İki"] and openers(written("“A dog” runs.")) == [
        "“A"
    ]


@pytest.mark.parametrize(
    ("way", "caption", "language", "expected"),
    [
        (styles.lower, "Two Dogs.", "en", "two dogs."),
        (styles.lower, "Iki çocuk İstanbul'da.", "tr", "ıki çocuk istanbul'da."),
        (styles.upper, "Two dogs.", "en", "TWO DOGS."),
        (styles.upper, "istasyon", "tr", "İSTASYON"),
        # ß becomes SS, so that places would no longer fit
        (styles.upper, "Eine große Straße.", "de", None),
        (styles.title, "two dogs “play.”", "en", "Two Dogs “Play.”"),
        (styles.bare, "A dog - a brown one - runs.", "en", "A dog a brown one runs"),
        (styles.bare, "犬が走る。", "ja", "犬が走る"),
        (styles.bare, "...", "en", None),
        (styles.spaced, "A cat, asleep.", "en", "a cat , asleep ."),
        (styles.spaced, "犬が走る。", "ja", None),
        (styles.spaced, "...", "en", None),
        # signs that stand in pairs
        (styles.spaced, "A man reads “the news.”", "en", None),
        (styles.unstopped, "A man reads “the news.”", "en", None),
        (styles.unstopped, "- A dog runs.", "en", "A dog runs"),
        (styles.unstopped, "...", "en", None),
        (styles.unopened, "A dog runs.", "en", "dog runs."),
        (styles.unopened, "Dogs run home.", "en", None),
        (styles.unopened, "a dog", "en", None),
    ],
)
def test_ways_of_writing(way, caption, language, expected):
    found = way(
        written(caption, language)
        if caption != "..."
        else as_written(MarkedText("...", "en", ((0, 3),), "a", ()))
    )
    assert (found and found.text) == expected
    if found and language != "ja":
        assert cut(found, found.words) == found.text.split()


def test_places_move_with_the_words():
    spaced = styles.spaced(written("A cat, asleep."))
    assert cut(spaced, spaced.objects) == ["cat"] and openers(spaced) == ["a"]
    bare = styles.bare(written("A dog - a brown one - runs."))
    assert set(openers(bare)) >= {"A", "a"} and "dog" not in openers(bare)


@pytest.mark.parametrize(
    ("part", "caption", "language", "expected"),
    [
        (styles.noun_phrase, "Zwei rote Vögel singen.", "de", {"Zwei rote Vögel", "rote Vögel"}),
        # an adjective behind its noun
        (styles.noun_phrase, "Il mange une pomme rouge.", "fr", {"une pomme rouge", "pomme rouge"}),
        (styles.noun_phrase, "Sie schläft.", "de", {None}),
        (styles.two_noun_phrases, "A man on a bench reads.", "en", {"A man on a bench"}),
        (styles.two_noun_phrases, "Dogs, and cats sleep.", "en", {None}),
        (styles.fragment, "A dog runs home.", "en", {"runs home.", "runs home"}),
        (styles.fragment, "two dogs", "en", {None}),
        (styles.fragment, "犬が公園を走る。", "ja", {"公園を走る。", "公園を走る"}),
        (styles.shortened, "A man rides a wave on a board.", "en", {"A man rides a wave"}),
        # German verbs may stand last
        (styles.shortened, "Ein Mann reitet eine Welle auf einem Brett.", "de", {None}),
        # the noun behind an article or a preposition is missing
        (styles.cut_short, "A man sits on a bench.", "en", {"A man sits on", "A man sits on a"}),
        (styles.cut_short, "Dogs run home.", "en", {None}),
        (styles.cut_short, "犬が公園を走る。", "ja", {None}),
    ],
)
def test_parts_of_captions(part, caption, language, expected):
    (text,) = marked([caption], language, [None])
    found = [part(text, random.Random(seed)) for seed in range(60)]
    assert {styled and styled.text for styled in found} == expected


def test_noun_phrases_have_at_most_five_words():
    places = tuple((start, start + 3) for start in range(0, 24, 4))
    long = MarkedText("one big old red wet dog", "en", places, "ajjjjn", places[-1:])
    assert {styles.noun_phrase(long, random.Random(seed)).text for seed in range(9)} == {
        "big old red wet dog"
    }


def test_a_phrase_may_end_like_a_sentence_or_a_label():
    (bus,), (dog,) = (
        marked(["A red bus waits."], "en", [None]),
        marked(["茶色の犬が走っている。"], "ja", [None]),
    )
    found = {
        styles.finished(styles.noun_phrase(bus, random.Random(n)), random.Random(n)).text for n in range(60)
    }
    assert found == {"A red bus.", "Red bus.", "A red bus!", "Red bus!"}
    assert styles.finished(styles.noun_phrase(dog, random.Random(1)), random.Random(1)).text[-1] == "。"
    assert styles.finished(written("istasyon", "tr"), random.Random(1)).text.startswith("İstasyon")
    dated = styles.dated(styles.noun_phrase(bus, random.Random(1)), random.Random(0))
    assert dated.text[:-4].endswith("red bus, ") and 1900 <= int(dated.text[-4:]) < 2027
    assert cut(dated, dated.words) == dated.text.split() and cut(dated, dated.objects) == ["bus"]
    # what has its stop gets no other
    text = written("Two dogs play.")
    assert styles.finished(text, random.Random(0)) is None and styles.dated(text, random.Random(0)) is None
    blanks = {styles.in_blanks(text, random.Random(seed)).text for seed in range(40)}
    assert blanks == {text.text + blank for blank in (" ", "  ", "\n", " \n")}
