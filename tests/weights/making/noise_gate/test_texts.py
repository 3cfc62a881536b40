"""Captions → their words, their parts in other styles, and rows of captions that are read again."""

import random

import pytest

from capscore import InputError
from tools.tiny.official import write_jsonl
from weights.making.noise_gate import styles
from weights.making.noise_gate.texts import LONGEST, MarkedText, marked, read_texts


@pytest.mark.parametrize(
    ("caption", "language", "words", "classes", "objects"),
    [
        ("Two dogs run, fast.", "en", "Two dogs run, fast.", "anvr", "dogs"),
        ("L'homme mange une pomme.", "fr", "L'homme mange une pomme.", "nvan", "homme pomme"),
        # without blanks between words, a full stop is a word of its own
        ("犬が走る。", "ja", "犬 が 走る 。", "nava", "犬"),
        ("  a dog", "en", "a dog", "an", "dog"),
    ],
)
def test_words_classes_and_objects(caption, language, words, classes, objects):
    (text,) = marked([caption], language)
    assert [text.text[start:end] for start, end in text.words] == words.split() and text.classes == classes
    assert [text.text[start:end] for start, end in text.objects] == objects.split()


def test_each_caption_of_a_language_is_read_once_and_no_long_ones(tmp_path):
    def row(caption, language="en", source="one/1"):
        known = {"words": [[0, 1]], "classes": "n", "objects": [[0, 1]]}
        return {"caption": caption, "language": language, "id": source, **known}

    rows = [row("A dog."), row("A dog.", "de"), row("A dog.", source="two/7"), row("d" * LONGEST)]
    path = write_jsonl(tmp_path / "captions.jsonl", [*rows, row("d" * (LONGEST + 1))])
    assert read_texts([str(path)]) == [
        MarkedText(caption, language, ((0, 1),), ((0, 1),), "n", "one/1")
        for caption, language in (("A dog.", "de"), ("A dog.", "en"), ("d" * LONGEST, "en"))
    ]


GOOD = {"caption": "A dog.", "language": "en", "words": [[0, 1]], "classes": "a", "objects": [], "id": "o/1"}


@pytest.mark.parametrize("change", [{"words": [[0, 1, 2]]}, {"language": None}, {"objects": 3}, None])
def test_a_row_of_another_form_is_named(tmp_path, change):
    path = write_jsonl(tmp_path / "captions.jsonl", [GOOD, [] if change is None else {**GOOD, **change}])
    with pytest.raises(InputError, match=r"captions\.jsonl, line 2: expected a row with caption"):
        read_texts([str(path)])


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
    (text,) = marked([caption], language)
    found = [part(text, random.Random(seed)) for seed in range(60)]
    assert {styled and styled.text for styled in found} == expected


def test_noun_phrases_have_at_most_five_words():
    places = tuple((start, start + 3) for start in range(0, 24, 4))
    long = MarkedText("one big old red wet dog", "en", places, places[-1:], "ajjjjn")
    assert {styles.noun_phrase(long, random.Random(seed)).text for seed in range(9)} == {
        "big old red wet dog"
    }
