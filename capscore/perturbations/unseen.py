"""Captions → the same captions hastily written, with another number, or with a word of another language."""

from __future__ import annotations

import random
import re
import unicodedata
from functools import cache

from .words import placed_words, weave, with_capital_of, words_and_gaps


def swap_neighbours(caption: str, code: str, rng: random.Random) -> str:
    """The caption with two adjacent words exchanged; unchanged if all its words are equal."""
    spans = placed_words(caption, code)
    words = [caption[start:end] for start, end in spans]
    pairs = [index for index in range(len(words) - 1) if words[index] != words[index + 1]]
    if not pairs:
        return caption
    index = rng.choice(pairs)
    (a, b), (c, d) = spans[index : index + 2]
    return caption[:a] + caption[c:d] + caption[b:c] + caption[a:b] + caption[d:]


def mistype(caption: str, code: str, rng: random.Random) -> str:
    """The caption with a typo in a word of three or more letters; in two, if it has eight or more words.

    In Japanese and Chinese a character is replaced by its neighbour.
    """
    if code in ("ja", "zh"):
        return _another_character(caption, rng)
    spans = placed_words(caption, code)
    long = [span for span in spans if len(_letters(caption[slice(*span)])) >= 3]
    chosen = rng.sample(long, min(len(long), 2 if len(spans) >= 8 else 1))
    for start, end in sorted(chosen, reverse=True):
        caption = caption[:start] + _mistyped_word(caption[start:end], rng) + caption[end:]
    return caption


def truncate(caption: str, code: str, rng: random.Random) -> str:
    """The caption without the last 30 to 50 percent of its words."""
    words, gaps = words_and_gaps(caption, code)
    counts = [cut for cut in range(1, len(words)) if 3 * len(words) <= 10 * cut <= 5 * len(words)]
    if not counts:
        return caption
    remaining = len(words) - rng.choice(counts)
    return weave(words[:remaining], [*gaps[:remaining], ""])


def _letters(word: str) -> list[str]:
    """Characters with their marks, each of which reads as one letter."""
    found: list[str] = []
    for character in word:
        if found and (unicodedata.category(character)[0] == "M" or character in "\u200c\u200d"):
            found[-1] += character
        else:
            found.append(character)
    return found


def _mistyped_word(word: str, rng: random.Random) -> str:
    letters = _letters(word)
    way = rng.choice(("swap", "drop", "double"))
    different = [index for index in range(len(letters) - 1) if letters[index] != letters[index + 1]]
    if way == "swap" and different:
        index = rng.choice(different)
        letters[index : index + 2] = letters[index + 1], letters[index]
        return "".join(letters)
    index = rng.randrange(len(letters))
    letters[index : index + 1] = [] if way == "drop" else letters[index : index + 1] * 2
    return "".join(letters)


def _another_character(caption: str, rng: random.Random) -> str:
    indices = [index for index, character in enumerate(caption) if character.isalnum()]
    pairs = [
        (index, other)
        for index in indices
        for other in (index - 1, index + 1)
        if other in indices and caption[index] != caption[other]
    ]
    if not pairs:
        return caption
    index, other = rng.choice(pairs)
    return caption[:index] + caption[other] + caption[index + 1 :]


# ---- numbers ----

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


# ---- words of another language ----

# Common nouns of captions; each row is one thing in all of these languages.
_NOUN_LANGUAGES = "en de fr es it pt nl pl ru tr id", "ja zh ko ar th"
_NOUN_ROWS = (
    """
dog Hund chien perro cane cão hond pies собака köpek anjing
cat Katze chat gato gatto gato kat kot кошка kedi kucing
man Mann homme hombre uomo homem man mężczyzna мужчина adam pria
woman Frau femme mujer donna mulher vrouw kobieta женщина kadın wanita
boy Junge garçon niño ragazzo menino jongen chłopiec мальчик oğlan bocah
girl Mädchen fille niña ragazza menina meisje dziewczynka девочка kız gadis
child Kind enfant niño bambino criança kind dziecko ребёнок çocuk anak
people Leute gens gente persone pessoas mensen ludzie люди insanlar orang
water Wasser eau agua acqua água water woda вода su air
street Straße rue calle strada rua straat ulica улица sokak jalan
beach Strand plage playa spiaggia praia strand plaża пляж plaj pantai
car Auto voiture coche macchina carro auto samochód машина araba mobil
bicycle Fahrrad vélo bicicleta bicicletta bicicleta fiets rower велосипед bisiklet sepeda
ball Ball ballon pelota palla bola bal piłka мяч top bola
table Tisch table mesa tavolo mesa tafel stół стол masa meja
house Haus maison casa casa casa huis dom дом ev rumah
tree Baum arbre árbol albero árvore boom drzewo дерево ağaç pohon
grass Gras herbe hierba erba grama gras trawa трава çim rumput
hat Hut chapeau sombrero cappello chapéu hoed kapelusz шляпа şapka topi
shirt Hemd chemise camisa camicia camisa hemd koszula рубашка gömlek kemeja
horse Pferd cheval caballo cavallo cavalo paard koń лошадь at kuda
bird Vogel oiseau pájaro uccello pássaro vogel ptak птица kuş burung
snow Schnee neige nieve neve neve sneeuw śnieg снег kar salju
mountain Berg montagne montaña montagna montanha berg góra гора dağ gunung
""",
    """
犬 狗 개 كلب สุนัข
猫 猫 고양이 قطة แมว
男性 男人 남자 رجل ผู้ชาย
女性 女人 여자 امرأة ผู้หญิง
少年 男孩 소년 ولد เด็กชาย
少女 女孩 소녀 فتاة เด็กหญิง
子供 孩子 아이 طفل เด็ก
人々 人们 사람들 ناس ผู้คน
水 水 물 ماء น้ำ
通り 街道 거리 شارع ถนน
浜辺 海滩 해변 شاطئ ชายหาด
車 汽车 자동차 سيارة รถยนต์
自転車 自行车 자전거 دراجة จักรยาน
ボール 球 공 كرة ลูกบอล
テーブル 桌子 탁자 طاولة โต๊ะ
家 房子 집 بيت บ้าน
木 树 나무 شجرة ต้นไม้
草 草地 풀 عشب หญ้า
帽子 帽子 모자 قبعة หมวก
シャツ 衬衫 셔츠 قميص เสื้อ
馬 马 말 حصان ม้า
鳥 鸟 새 طائر นก
雪 雪 눈 ثلج หิมะ
山 山 산 جبل ภูเขา
""",
)


@cache
def common_nouns() -> list[dict[str, str]]:
    """Common nouns of captions: one {language: noun} per thing."""
    languages = " ".join(_NOUN_LANGUAGES).split()
    halves = (part.strip().split("\n") for part in _NOUN_ROWS)
    return [dict(zip(languages, " ".join(row).split(), strict=True)) for row in zip(*halves, strict=True)]


@cache
def _noun_rows(code: str) -> dict[str, dict[str, str]]:
    """A noun of a language in lower case → its row."""
    return {row[code].lower(): row for row in reversed(common_nouns()) if code in row}


def replace_by_foreign_word(caption: str, code: str, rng: random.Random) -> str:
    """The caption with one word in another language: a common noun if there is one, otherwise any word."""
    places = placed_words(caption, code)
    if not places:
        return caption
    named = _noun_rows(code)
    common = [place for place in places if caption[slice(*place)].lower() in named]
    start, end = rng.choice(common or places)
    word = caption[start:end]
    row = named[word.lower()] if common else rng.choice(common_nouns())
    others = [text for language, text in row.items() if language != code and text.lower() != word.lower()]
    other = rng.choice(sorted(set(others)))
    return caption[:start] + with_capital_of(other, word if not common else "") + caption[end:]
