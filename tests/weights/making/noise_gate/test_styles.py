"""Captions in other styles: what they say, and where their words, objects and openers are."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weights.making.noise_gate import styles
from weights.making.noise_gate.styles import Styled, as_written
from weights.making.noise_gate.texts import MarkedText, marked

from .marked_texts import CAPTIONS

TEXTS = [
    text
    for language, captions in CAPTIONS.items()
    for text in marked(captions, language, [None] * len(captions))
]
HORSE, DOGS = TEXTS[:2]
PARTS = (styles.noun_phrase, styles.two_noun_phrases, styles.fragment, styles.shortened)
WAYS = (
    as_written,
    styles.lower,
    styles.upper,
    styles.title,
    styles.bare,
    styles.spaced,
    styles.unstopped,
)


def said(text: Styled, places) -> list[str]:
    return [text.text[start:end] for start, end in places]


def openers(text: Styled) -> list[str]:
    return [text.text[slice(*text.words[number])] for number in sorted(text.openers)]


def every(part, text: MarkedText, n: int = 60) -> set[str | None]:
    found = [part(text, random.Random(seed)) for seed in range(n)]
    return {one and one.text for one in found}


def test_words_objects_and_openers_of_a_caption():
    text = as_written(DOGS)
    assert said(text, text.words) == "Two dogs play with a yellow ball in the snow.".split()
    assert said(text, text.objects) == ["dogs", "ball", "snow"] and openers(text) == ["Two", "a", "the"]


def test_punctuation_apart_is_a_word_of_its_own():
    spaced = styles.spaced(as_written(marked(["A cat, asleep."], "en", [None])[0]))
    assert spaced.text == "a cat , asleep ." and said(spaced, spaced.words) == spaced.text.split()
    assert said(spaced, spaced.objects) == ["cat"] and openers(spaced) == ["a"]


def test_without_punctuation_a_dash_is_no_word():
    bare = styles.bare(as_written(marked(["A dog - a brown one - runs."], "en", [None])[0]))
    assert bare.text == "A dog a brown one runs" and said(bare, bare.words) == bare.text.split()
    assert set(openers(bare)) >= {"A", "a"} and "dog" not in openers(bare)


@given(st.sampled_from(TEXTS), st.sampled_from(PARTS), st.sampled_from(WAYS), st.integers(0, 50))
def test_places_point_at_what_the_caption_says(text, part, way, seed):
    styled = part(text, random.Random(seed)) or as_written(text)
    written = styled if way is as_written else way(styled)
    if written is None:
        return
    assert all(0 <= a < b <= len(written.text) for a, b in (*written.words, *written.objects))
    assert list(written.words) == sorted(written.words)
    # an object is one of the caption's, a word of the caption but for capitals and punctuation
    known = {text.text[a:b].lower() for a, b in text.objects}
    assert {word.lower() for word in said(written, written.objects)} <= known
    words = {text.text[a:b].lower().strip(".,") for a, b in text.words} | {""}
    assert {word.lower().strip(".,") for word in said(written, written.words)} <= words
    assert {word.lower() for word in openers(written)} <= set(styles.OPENERS[text.language].split())


@pytest.mark.parametrize(
    ("part", "caption", "language", "found"),
    [
        (styles.noun_phrase, "Zwei rote Vögel singen.", "de", {"Zwei rote Vögel", "rote Vögel"}),
        # an adjective behind its noun
        (styles.noun_phrase, "Il mange une pomme rouge.", "fr", {"une pomme rouge", "pomme rouge"}),
        (styles.noun_phrase, "Sie schläft.", "de", {None}),
        (styles.two_noun_phrases, "A man on a bench reads.", "en", {"A man on a bench"}),
        # a comma parts them
        (styles.two_noun_phrases, "Dogs, and cats sleep.", "en", {None}),
        (styles.fragment, "A dog runs home.", "en", {"runs home.", "runs home"}),
        (styles.fragment, "two dogs", "en", {None}),
        (styles.fragment, "犬が公園を走る。", "ja", {"公園を走る。", "公園を走る"}),
        (styles.shortened, "A man rides a wave on a board.", "en", {"A man rides a wave"}),
        # German verbs may stand last
        (styles.shortened, "Ein Mann reitet eine Welle auf einem Brett.", "de", {None}),
    ],
)  # fmt: skip
def test_parts_of_captions(part, caption, language, found):
    assert every(part, marked([caption], language, [None])[0]) == found


def test_noun_phrases_have_at_most_five_words():
    places = tuple((start, start + 3) for start in range(0, 24, 4))
    long = MarkedText("one big old red wet dog", "en", places, "ajjjjn", places[-1:])
    assert every(styles.noun_phrase, long) == {"big old red wet dog"}


@pytest.mark.parametrize("way", [styles.bare, styles.spaced, styles.unstopped])
def test_a_text_of_signs_alone_has_no_such_form(way):
    assert way(as_written(MarkedText("...", "en", ((0, 3),), "a", ()))) is None


@pytest.mark.parametrize("way", [styles.spaced, styles.unstopped])
def test_signs_that_stand_in_pairs_stay_in_pairs(way):
    written = way(as_written(marked(["A man reads “the news.”"], "en", [None])[0]))
    assert written is None or (written.text.count("“"), written.text.count("”")) == (1, 1)


def test_openers_are_known_in_capitals_and_in_quotes():
    assert openers(as_written(marked(["İki köpek koşuyor."], "tr", [None])[0])) == ["İki"]
    assert openers(as_written(marked(["“A dog” runs."], "en", [None])[0])) == ["“A"]


def test_a_sign_alone_in_front_falls_away_with_its_blank():
    text = styles.unstopped(as_written(marked(["- A dog runs in the park."], "en", [None])[0]))
    assert text.text == "A dog runs in the park" and openers(text) == ["A", "the"]


def test_letters_that_grow_in_capitals():
    # ß becomes SS, so that places would no longer fit
    assert styles.upper(as_written(marked(["Eine große Straße."], "de", [None])[0])) is None


def test_chinese_and_japanese_have_no_blanks_before_punctuation():
    text = as_written(marked(["犬が走る。"], "ja", [None])[0])
    assert styles.spaced(text) is None and styles.bare(text).text == "犬が走る"


def test_blanks_stand_behind_the_text():
    text = as_written(DOGS)
    found = {styles.in_blanks(text, random.Random(seed)).text for seed in range(40)}
    assert found == {text.text + blanks for blanks in (" ", "  ", "\n", " \n")}


@pytest.mark.parametrize(
    ("language", "caption", "phrases"),
    [
        ("en", "A bus waits.", {"A bus.", "Bus.", "A bus!", "Bus!"}),
        ("ja", "茶色の犬が走っている。", {"茶色の犬。", "茶色。"}),
    ],
)
def test_a_phrase_may_end_like_a_sentence(language, caption, phrases):
    text = marked([caption], language, [None])[0]
    found = set()
    for seed in range(60):
        chance = random.Random(seed)
        phrase = styles.finished(styles.noun_phrase(text, chance), chance)
        found.add(phrase.text)
        assert said(phrase, phrase.words)[-1][-1] == phrase.text[-1]
        own = {word.lower() for word in said(text, text.objects)}
        assert {word.lower() for word in said(phrase, phrase.objects)} <= own
    assert found <= phrases


def test_a_turkish_capital_has_its_dot():
    text = as_written(marked(["istasyon"], "tr", [None])[0])
    assert styles.finished(text, random.Random(1)).text.startswith("İstasyon")


def test_what_has_its_stop_gets_no_other():
    text = as_written(HORSE)
    assert styles.finished(text, random.Random(0)) is None and styles.dated(text, random.Random(0)) is None


def test_a_year_is_a_word_of_its_own():
    phrase = styles.noun_phrase(marked(["A red bus waits."], "en", [None])[0], random.Random(1))
    told = styles.dated(phrase, random.Random(0))
    assert told.text.startswith(f"{phrase.text}, ") and told.text[-4:].isdecimal()
    assert said(told, told.words) == told.text.split() and said(told, told.objects) == ["bus"]
