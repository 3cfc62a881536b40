"""Captions → the same captions with another number: two dogs, six dogs."""

from __future__ import annotations

import random
import re
import unicodedata
from functools import cache

from .words import placed_words, with_capital_of

# Rows of numbers that can replace each other in a phrase; "-" for a word that also means something else, or
# needs another form of the noun. One is left out: in most of these languages it is the article.
NUMBERS: dict[str, tuple[str, ...]] = {
    "ar": ("- ثلاثة أربعة خمسة ستة سبعة ثمانية تسعة عشرة", "- ثلاث أربع خمس ست سبع ثماني تسع عشر"),
    "cs": ("dva tři čtyři", "dvě tři čtyři", "- - - pět šest sedm osm devět deset"),
    "da": ("to tre fire fem seks syv otte ni ti",),
    "de": ("zwei drei vier fünf sechs sieben acht neun zehn",),
    "en": ("two three four five six seven eight nine ten",),
    "es": ("dos tres cuatro cinco seis siete ocho nueve diez",),
    "fr": ("deux trois quatre cinq six sept huit - dix",),
    "id": ("dua tiga empat lima enam tujuh delapan sembilan sepuluh",),
    "it": ("due tre quattro cinque sei sette otto nove dieci",),
    "ja": (),
    "ko": (),
    "nl": ("twee drie vier vijf zes zeven acht negen tien",),
    "no": ("to tre fire fem seks sju åtte ni ti",),
    "pl": (
        "dwa trzy cztery",
        "dwie trzy cztery",
        "- - - pięć sześć siedem osiem dziewięć dziesięć",
        "dwóch trzech czterech pięciu sześciu siedmiu ośmiu dziewięciu dziesięciu",
        "dwoje troje czworo pięcioro sześcioro",
    ),
    "pt": (
        "dois três quatro cinco seis sete oito nove dez",
        "duas três quatro cinco seis sete oito nove dez",
    ),
    "ru": (
        "два три четыре",
        "две три четыре",
        "- - - пять шесть семь восемь девять десять",
        "двое трое четверо пятеро шестеро",
        "двух трёх четырёх пяти шести семи восьми девяти десяти",
    ),
    "sv": ("två tre fyra fem sex sju åtta nio tio",),
    "th": ("สอง สาม สี่ ห้า หก เจ็ด แปด เก้า สิบ",),
    "tr": ("iki üç dört beş altı yedi sekiz dokuz on",),
    "uk": ("два три чотири", "дві три чотири", "- - - п'ять шість сім вісім дев'ять десять"),
    "zh": (),
}
# Numbers written with a measure word or noun: (pattern of the number, its replacements).
_HAN = "〇一二三四五六七八九十百千两兩"
_COUNTED = {
    "ja": (
        rf"(?<![{_HAN}])[一二三四五六七八九](?=人|匹|頭|台|本|個|枚|羽|つ|名|隻|艘|冊|着|足|組|機|両|杯|軒|歳)",
        "一二三四五六七八九",
    ),
    "ko": (
        r"(?<!\w)(?:두|세|네|다섯|여섯|일곱|여덟|아홉|열)(?=\s|명|마리|개|대|사람|살|그루|켤레|장|송이|척|쌍)",
        "두 세 네 다섯 여섯 일곱 여덟 아홉 열".split(),
    ),
    "zh": (
        rf"(?<![{_HAN}第])[二两兩三四五六七八九](?=个|個|名|只|隻|条|條|位|辆|輛|匹|头|頭|张|張|棵|艘|架|把|件|座|朵|块|塊|人)",
        "三四五六七八九",  # not two, for which there are two words
    ),
}
_DIGITS = re.compile(r"(?<![\w.,:])\d+(?!\w|[.,:]\d)")
_DIGITS_IN_TEXT = re.compile(r"(?<!\d)\d+(?!\d)")


def change_number(caption: str, code: str, rng: random.Random) -> str:
    """The caption with one of its numbers changed; unchanged if it has none."""
    found: list[tuple[int, int, list[str]]] = []
    if code in _COUNTED:
        pattern, others = _COUNTED[code]
        for match in re.finditer(pattern, caption):
            found.append((*match.span(), [other for other in others if other != match.group()]))
    rows = _number_rows(code)
    if rows:
        for start, end in placed_words(caption, code):
            word = caption[start:end]
            row = rows.get(word.lower().replace("’", "'"))
            if row is not None:
                others = [with_capital_of(other, word) for other in row if other != word.lower()]
                found.append((start, end, others))
    for match in (_DIGITS_IN_TEXT if code in ("ja", "ko", "th", "zh") else _DIGITS).finditer(caption):
        found.append((*match.span(), [_another_number(match.group(), rng)]))
    if not found:
        return caption
    start, end, others = rng.choice(sorted(found))
    return caption[:start] + rng.choice(others) + caption[end:]


@cache
def _number_rows(code: str) -> dict[str, list[str]]:
    """A number as a word → the words of its row, or of the first row if it is in several."""
    rows: dict[str, list[str]] = {}
    for row in NUMBERS[code]:
        listed = [word for word in row.split() if word != "-"]
        for word in listed:
            rows.setdefault(word, listed)
    return rows


def _another_number(digits: str, rng: random.Random) -> str:
    """Another number with as many digits, in the same script; single digits are 2 to 9."""
    zero = ord(digits[0]) - unicodedata.decimal(digits[0])
    value, n = int(digits), len(digits)
    low = 2 if n == 1 else 10 ** (n - 1)
    while (other := rng.randrange(low, 10**n)) == value:
        pass
    return "".join(chr(zero + int(digit)) for digit in str(other))
