"""The claims of a detailed caption, in many languages."""

import re

import pytest

from capscore.text.claims import claims

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
