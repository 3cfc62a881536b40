"""However a text was typed, its words, their classes and their places are the same."""

import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.infometic.words import caption_words
from capscore.perturbations.unseen import change_number
from capscore.text.letters import clean, lower, placed
from capscore.text.segmentation import tokenize, words
from capscore.text.spaced_words import placed_tokens

CAPTIONS = {
    "ar": "أرى قطتين وثلاثة كلاب آخر النهار", "cs": "Dvě děti běží přes žlutý můstek",
    "de": "Zwölf Fußbälle und fünf größere Hüte", "el": "Δύο σκύλοι τρέχουν και τρεις γάτες κοιμούνται",
    "fr": "L’élève mange trois pâtes à côté", "hi": "दो लड़के सड़क पर खेल रहे हैं",
    "it": "Due caffè sull'unità più là",
    "ja": "二匹の犬がボールで遊んでいる", "ko": "두 마리의 개가 달린다",
    "pl": "Pięć żółtych łódek i trzy kaczki",
    "ru": "Два чёрных ёжика и йод", "th": "สุนัขสองตัวกำลังวิ่งอยู่ในน้ำ", "tr": "İki büyük köpek ve üç çocuk IŞIKTA",
    "vi": "Hai người đàn ông cưỡi ngựa", "zh": "两只狗在草地上奔跑",
}  # fmt: skip
# soft hyphen, word joiner, byte order mark, marks of direction
SIGNS = "\xad\u2060\ufeff\u200e\u200f\u202a\u2066\u2063"


def typed(text, language):
    """The text in other ways of typing that show the same: marks alone, and a sign after each letter."""
    yield unicodedata.normalize("NFD", text)
    yield "\ufeff" + "".join(letter + SIGNS[place % len(SIGNS)] for place, letter in enumerate(text))
    if language not in ("ar", "hi"):  # where joiners mean something
        yield "\u200c".join(text) + "\u200d"


@pytest.mark.parametrize("language", CAPTIONS)
def test_words_classes_and_places_do_not_depend_on_typing(language):
    text = CAPTIONS[language]
    found, pieces = tokenize([text], language), words(text, language)
    tagged = caption_words([text], language)[0] if language != "vi" else []
    kinds = [word.word_class for word in tagged]
    assert len(found[0]) > 3 and ("number" in kinds) == (language not in ("ar", "vi"))
    for other in typed(text, language):
        assert tokenize([other], language) == found
        assert "".join(words(other, language)) == "".join(other.split())
        assert len(words(other, language)) == len(pieces)
        again = caption_words([other], language)[0] if tagged else []
        assert [word.word_class for word in again] == kinds
        assert [clean(word.text) for word in again] == [word.text for word in tagged]
        assert all(other[word.start : word.end] == word.text for word in again)


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        *(("tr", "İKİ KÖPEK IRMAK", "iki köpek ırmak"), ("az", "QIRMIZI İt", "qırmızı it")),
        *(("tr", "I\u0307ki", "iki"), ("de", "İstanbul GROẞ", "istanbul groß"), ("el", "ΣΚΎΛΟΣ", "σκύλος")),
        *(("lt", "Ìr i\u0307\u0300r J\u0301", "ìr ìr j\u0301"), ("en", "I SEE", "i see"), ("ru", "ЁЖ", "ёж")),
    ],
)
def test_lower_case_of_languages(language, text, expected):
    assert lower(text, language) == expected
    assert lower(unicodedata.normalize("NFD", text), language) == expected
    if language in ("tr", "az", "crh", "de", "lt"):
        assert tokenize([text], language) == tokenize([expected], language)


@pytest.mark.parametrize("apostrophe", "'’ʼ＇")
@pytest.mark.parametrize(
    ("language", "text", "parts"),
    [
        ("fr", "Quelqu'un d'Aujourd'hui", "Quelqu'un d' Aujourd'hui"),
        ("fr", "AUJOURD'HUI L'Entr'acte P'tit rock'n'roll", "AUJOURD'HUI L' Entr'acte P'tit rock'n'roll"),
        ("fr", "Jusqu'à Lorsqu'il S'est chez McDonald's", "Jusqu' à Lorsqu' il S' est chez McDonald's"),
        ("it", "L'acqua Dell'arte c'è Quest'uomo", "L' acqua Dell' arte c' è Quest' uomo"),
        *(("ca", "L'home D'Aigua", "L' home D' Aigua"), ("oc", "L'òme qu'es", "L' òme qu' es")),
    ],
)
def test_apostrophes_within_words(language, text, parts, apostrophe):
    text = text.replace("'", apostrophe)
    found = [token for token, *_ in placed_tokens(text, language) if token != ","]
    assert found == parts.split() and tokenize([text], language) == [parts.lower().split()]


some_signs = st.sampled_from("aéöÅが゙각ᄀ\u1161\u11a8\u0308\u0301\xad\u200d\u2060क़्ো ")


@given(st.text(some_signs | st.characters()))
def test_places_lead_back_to_the_text(text):
    cleaned = placed(text)
    assert cleaned.text == clean(text) and len(cleaned.starts) == len(cleaned.ends) == len(cleaned.text)
    assert [*cleaned.starts] == sorted(cleaned.starts)
    for place in range(len(cleaned.text)):
        start, end = cleaned.span(place, place + 1)
        assert 0 <= start < end <= len(text)


def test_perturbations_know_turkish_capitals():
    for typed in ("İki köpek", "I\u0307ki ko\u0308pek", "İKİ KÖPEK", "iki köpek"):
        changed = change_number(typed, "tr", random.Random(0))
        assert changed != typed and changed.split()[1:] == typed.split()[1:]
