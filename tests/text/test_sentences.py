"""Where sentences end, in the languages of the embedded backbones, and the claims of detailed captions."""

import re
import unicodedata
from itertools import accumulate
from pathlib import Path

import pytest

from capscore.text.claims import claims
from capscore.text.letters import clean
from capscore.text.sentences import sentences

PARAGRAPHS = {
    "ar": ["كلب يجري على الشاطئ.", "هل هو سعيد جدا؟", "البحر أزرق اليوم."],
    "en": ["A dog runs on the beach.", "Its ball, 3.5 cm wide, is red."],
    "es": ["Un perro corre por la playa.", "¿Lleva un collar rojo?"],
    "fr": ["Un chien court sur la plage.", "Il porte un collier rouge !"],
    "ja": ["犬が海辺を走っている。", "「元気だね。」", "首輪は赤いです。"],
    "ru": ["Собака бежит по пляжу.", "На ней красный ошейник…"],
    "zh": ["一只狗在沙滩上跑。", "它戴着红色的项圈！", "天空很蓝"],
    "hi": ["एक कुत्ता दौड़ रहा है।", "वह बहुत खुश है।"],
    "tokenised": ["a dog runs home .", "it is very brown ."],
    "abbreviations": ["A man in St. Ives meets J. Hay's dog.", "“They look happy.”", "It's brown (a lot)."],
    "a fragment": ["A dog runs. Fast."],
    "none": ["a dog runs on the beach"],
}


@pytest.mark.parametrize("language", PARAGRAPHS)
def test_a_paragraph_is_split_into_its_sentences(language):
    expected = PARAGRAPHS[language]
    text = ("" if language in ("ja", "zh") else " ").join(expected)
    assert [sentence for sentence, _ in sentences(text)] == expected
    assert [sentence for sentence, _ in sentences(f" {text}\n")][1:-1] == expected[1:-1]


def test_lengths_count_words_signs_and_characters():
    assert sentences("A dog's ball is red. It is big!") == [("A dog's ball is red.", 8), ("It is big!", 4)]
    assert sentences("狗在沙滩上跑。它很快乐！") == [("狗在沙滩上跑。", 7), ("它很快乐！", 5)]
    assert sentences("") == [("", 1)]


def test_in_a_short_text_a_sentence_may_be_asked_to_have_eight_words():
    noisy = "on beach the. dog a runs fast with ball the"
    fine = "a dog runs home with a ball. it is brown with a bright red collar"
    assert len(sentences(noisy)) == 2 and len(sentences(noisy, short=40)) == 1
    assert len(sentences(fine, short=40)) == 2 and len(sentences(". ".join([noisy] * 9), short=40)) == 18


def test_case_moves_no_end_but_for_those_of_quotations():
    text = "A man in St. Ives meets J. Hay, 3.5 m tall. They walk on 5th Ave. etc. He waves (a lot)."
    lengths = [[length for _, length in sentences(form)] for form in (text, text.lower(), text.upper())]
    assert lengths[0] == lengths[1] == lengths[2]
    quoting = "A dog runs home. “He is big!” She sees it."
    assert [len(sentences(form)) for form in (quoting, quoting.lower())] == [3, 2], "or: says the boy"


def hard_sentences() -> list[str]:
    """Texts in 45 languages, "|" at each end of a sentence within, "⏎" for a line break."""
    lines = Path(__file__).with_name("hard_sentences.tsv").read_text(encoding="utf-8").splitlines()
    return [line.partition("\t")[2].replace("⏎", "\n") for line in lines]


def test_no_sentence_ends_within_an_abbreviation_an_ordinal_or_a_quotation():
    wanted = found = 0
    for marked in hard_sentences():
        right = [part.strip() for part in marked.split("|")]
        parts = [part for part, _ in sentences(marked.replace("|", ""))]
        offsets = [set(accumulate(len("".join(part.split())) for part in some)) for some in (right, parts)]
        assert offsets[1] <= offsets[0], f"cut wrongly: {parts}"
        wanted, found = wanted + len(right) - 1, found + len(parts) - 1
    assert found >= 0.95 * wanted


def test_a_part_is_a_sentence_by_itself_and_nothing_is_lost():
    for marked in hard_sentences():
        text = marked.replace("|", "")
        parts = [part for part, _ in sentences(text)]
        assert "".join("".join(parts).split()) == "".join(text.split())
        assert all(sentences(part) == [(part, 1)] for part in parts)


def test_the_way_letters_are_written_moves_no_end():
    for marked in hard_sentences():
        text = clean(marked.replace("|", ""))
        hyphens = re.sub(r"(?<=[^\W\d_])(?=[^\W\d_])", "\u00ad", text)
        for written in (unicodedata.normalize("NFD", text), hyphens):
            parts = sentences(written)
            assert "".join("".join(part for part, _ in parts).split()) == "".join(written.split())
            assert [(clean(part), length) for part, length in parts] == sentences(text)


@pytest.mark.parametrize("unit", ["(", ". ", "“", "a. ", '"a." ', "\n", "» «", "。", "1. ", "a.b.", "! "])
def test_long_texts_of_signs_keep_every_sign(unit):
    parts = [part for part, _ in sentences(unit * 3000)]
    assert "".join("".join(parts).split()) == "".join((unit * 3000).split())


# captions with their claims in brackets
CASES = {
    "abbreviation": "[A man in St. Ives waves]. [He is old]!",
    "clauses": "[A dog runs on the beach], while [two men watch it from a boat].",
    "semicolon": "[the man is old]; [his dog is young and brown]",
    "list": "[a table with a cup], [a plate], [a fork] and [a spoon]",
    "Oxford comma": "[a red cup], [a plate], and [a fork]",
    "bullets": "- [a red cup]\n- [a white plate]\n2. [an old fork]",
    "two things": "[a cat and a dog]",
    "apposition": "[A man, his hat in his hand, walks home].",
    "adjectives": "[a big, old, brown dog]",
    "quotation": '[A sign says "Stop. Go home." in red].',
    "short sentences": "[È marrone]. [Due uomini, e un cane].",
    "men": "[women in long red coats], [men in black hats and boots]",
    "de": "[Ein Hund rennt am Strand], während [zwei Männer ihm zusehen. z. B. heute]",
    "fr": "[Un chien court sur la plage], et [deux hommes le regardent]. [Il est brun].",
    "es list": "[una mesa con una taza], [un plato] y [un tenedor]",
    "ru": "[Собака бежит по пляжу, а два человека смотрят].",
    "ru long": "[Собака бежит по большому пляжу], а [два старых человека смотрят].",
    "zh": "[一只棕色的狗在沙滩上跑]，[两个男人看着它]。[它很快]。",
    "zh list": "[桌上有杯子]、[盘子]和[叉子]。",
    "ja": "[犬が海辺を走っている]。[茶色い]。",
    "el": "[Δύο άνδρες τον κοιτάζουν], και [ένα μικρό παιδί παίζει]. [Είναι καφέ].",
    "ar": "[كلب يركض]، [وطفل صغير يلعب]. [إنه بني].",
    "he": "[שני גברים צופים בו], [וילד משחק].",
    "hi": "[दो आदमी उसे देखते हैं], और [एक बच्चा खेलता है]। [वह भूरा है]।",
    "uk": "[Двоє чоловіків дивляться на неї], а [маленька дитина грає м'ячем].",
    "hu": "[Barna]. [Két férfi nézi a kutyát], és [egy kisgyerek játszik egy labdával].",
    "vi": "[Hai người đàn ông nhìn nó], và [một đứa trẻ chơi].",
    "nothing": "[]",
    "signs alone": "[…]",
}


@pytest.mark.parametrize("marked", CASES.values(), ids=CASES)
def test_claims(marked):
    text = re.sub(r"[\[\]]", "", marked)
    found = claims(text)
    assert [claim.text for claim in found] == re.findall(r"\[(.*?)\]", marked)
    assert all(text[claim.start : claim.end] == claim.text for claim in found)
