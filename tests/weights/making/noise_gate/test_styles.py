"""Captions in other styles: what they say, and where their words, objects and openers are."""

import random

import pytest

from weights.making.noise_gate import styles
from weights.making.noise_gate.styles import Styled
from weights.making.noise_gate.texts import MarkedText, marked


def openers(text: Styled) -> list[str]:
    return [text.text[slice(*text.words[number])] for number in sorted(text.openers)]


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
