"""The claims of a detailed caption, in many languages."""

from __future__ import annotations

import pytest

from capscore.text.claims import claims

CASES = {
    "one sentence": ("A dog runs on the beach.", ["A dog runs on the beach"]),
    "two sentences": ("A dog runs. It is brown.", ["A dog runs", "It is brown"]),
    "abbreviation": ("A man in St. Ives waves. He is old!", ["A man in St. Ives waves", "He is old"]),
    "clauses": (
        "A dog runs on the beach, while two men watch it from a boat.",
        ["A dog runs on the beach", "two men watch it from a boat"],
    ),
    "semicolon": (
        "the man is old; his dog is young and brown",
        ["the man is old", "his dog is young and brown"],
    ),
    "list": (
        "a table with a cup, a plate, a fork and a spoon",
        ["a table with a cup", "a plate", "a fork", "a spoon"],
    ),
    "Oxford comma": ("a red cup, a plate, and a fork", ["a red cup", "a plate", "a fork"]),
    "bullets": (
        "- a red cup\n- a white plate\n2. an old fork",
        ["a red cup", "a white plate", "an old fork"],
    ),
    "two things": ("a cat and a dog", ["a cat and a dog"]),
    "apposition": ("A man, his hat in his hand, walks home.", ["A man, his hat in his hand, walks home"]),
    "adjectives": ("a big, old, brown dog", ["a big, old, brown dog"]),
    "quotation": ('A sign says "Stop. Go home." in red.', ['A sign says "Stop. Go home." in red']),
    "de": (
        "Ein Hund rennt am Strand, während zwei Männer ihm zusehen. z. B. heute",
        ["Ein Hund rennt am Strand", "zwei Männer ihm zusehen. z. B. heute"],
    ),
    "fr": (
        "Un chien court sur la plage, et deux hommes le regardent. Il est brun.",
        ["Un chien court sur la plage", "deux hommes le regardent", "Il est brun"],
    ),
    "es list": (
        "una mesa con una taza, un plato y un tenedor",
        ["una mesa con una taza", "un plato", "un tenedor"],
    ),
    "ru": (
        "Собака бежит по пляжу, а два человека смотрят.",
        ["Собака бежит по пляжу, а два человека смотрят"],
    ),
    "ru long": (
        "Собака бежит по большому пляжу, а два старых человека смотрят.",
        ["Собака бежит по большому пляжу", "два старых человека смотрят"],
    ),
    "zh": (
        "一只棕色的狗在沙滩上跑，两个男人看着它。它很快。",
        ["一只棕色的狗在沙滩上跑", "两个男人看着它", "它很快"],
    ),
    "zh list": ("桌上有杯子、盘子和叉子。", ["桌上有杯子", "盘子", "叉子"]),
    "ja": ("犬が海辺を走っている。茶色い。", ["犬が海辺を走っている", "茶色い"]),
    "short sentences": ("È marrone. Due uomini, e un cane.", ["È marrone", "Due uomini, e un cane"]),
    "men": (
        "women in long red coats, men in black hats and boots",
        ["women in long red coats", "men in black hats and boots"],
    ),
    "el": (
        "Δύο άνδρες τον κοιτάζουν, και ένα μικρό παιδί παίζει. Είναι καφέ.",
        ["Δύο άνδρες τον κοιτάζουν", "ένα μικρό παιδί παίζει", "Είναι καφέ"],
    ),
    "ar": ("كلب يركض، وطفل صغير يلعب. إنه بني.", ["كلب يركض", "وطفل صغير يلعب", "إنه بني"]),
    "he": ("שני גברים צופים בו, וילד משחק.", ["שני גברים צופים בו", "וילד משחק"]),
    "hi": (
        "दो आदमी उसे देखते हैं, और एक बच्चा खेलता है। वह भूरा है।",
        ["दो आदमी उसे देखते हैं", "एक बच्चा खेलता है", "वह भूरा है"],
    ),
    "uk": (
        "Двоє чоловіків дивляться на неї, а маленька дитина грає м'ячем.",
        ["Двоє чоловіків дивляться на неї", "маленька дитина грає м'ячем"],
    ),
    "hu": (
        "Barna. Két férfi nézi a kutyát, és egy kisgyerek játszik egy labdával.",
        ["Barna", "Két férfi nézi a kutyát", "egy kisgyerek játszik egy labdával"],
    ),
    "vi": (
        "Hai người đàn ông nhìn nó, và một đứa trẻ chơi.",
        ["Hai người đàn ông nhìn nó", "một đứa trẻ chơi"],
    ),
    "nothing": ("", [""]),
    "signs alone": ("…", ["…"]),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_claims(text, expected):
    found = claims(text)
    assert [claim.text for claim in found] == expected
    assert all(text[claim.start : claim.end] == claim.text for claim in found)
