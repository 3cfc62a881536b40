"""What eight languages demand of their captions: particles, cases, agreement, measure words, word order."""

from __future__ import annotations

import itertools
import random
import re
import unicodedata
from functools import cache

import pytest

from weights.making import caption_grammar
from weights.making.caption_grammar import Caption, Scene, generate, load

OURS = ("ar", "cs", "ja", "ko", "pl", "ru", "tr", "zh")


@cache
def captions(language: str) -> list[Caption]:
    return [scene[language] for scene in generate(2500, [language], seed=23)]


def file_of(language: str) -> dict:
    return caption_grammar.read_grammar(caption_grammar.FOLDER / f"{language}.json")


def phrases(language: str, category: str) -> list[str]:
    given = file_of(language)[category].values()
    return [phrase for one in given for phrase in ([one] if isinstance(one, str) else one)]


def wordings(language: str, kind: str, **slots: str) -> set[str]:
    """Everything that a language may say of a scene, in lower case and without the full stop."""
    draw, grammar = random.Random(0), load(language)
    said = {grammar.say(Scene(kind, slots, draw.getrandbits(60))).text for _ in range(1500)}
    return {text.rstrip(".。").replace("İ", "i").lower() for text in said}


GUITAR = {"S": "woman", "A": "play_guitar", "P": "in_living_room"}
PAIR = {"S": "man", "A": "play_guitar", "R": "cat", "B": "sleep_on_sofa"}


@pytest.mark.parametrize(
    ("language", "kind", "slots", "said"),
    [
        # verb last; the place's particle is the action's: に for standing, を for walking, で for the rest
        ("ja", "action", {"S": "dog", "A": "chew_bone", "P": "in_yard"}, "犬が中庭で骨をかじっている"),
        ("ja", "action", {"S": "boy", "A": "walk", "P": "in_park"}, "少年が公園を歩いている"),
        ("ja", "action", {"S": "boy", "A": "stand", "P": "in_park"}, "少年が公園に立っている"),
        (
            "ja",
            "action",
            {"S": "man", "C": "red_shirt", "A": "kick_ball", "P": "in_park"},
            "赤いシャツを着た男性が公園でボールを蹴っている",
        ),
        ("ja", "static", {"S": "cat", "P": "on_carpet"}, "カーペットの上に猫がいる"),
        ("ja", "static", {"S": "tram", "P": "on_tracks"}, "路面電車が線路の上に止まっている"),
        ("ja", "exist", {"O": "painting", "P": "on_wall"}, "壁に絵が掛かっている"),
        ("ja", "exist", {"O": "basket", "P": "on_floor"}, "床の上にかごがある"),
        # the place before what is done, behind what one stands, in front of what one sits on
        ("zh", "action", {"S": "dog", "A": "dig_hole", "P": "in_yard"}, "一只狗在院子里挖洞"),
        ("zh", "action", {"S": "boy", "A": "stand", "P": "in_garden"}, "一个男孩站在花园里"),
        ("zh", "action", {"S": "boy", "A": "sit_on_bench", "P": "in_garden"}, "在花园里，一个男孩坐在长椅上"),
        ("zh", "action", {"S": "two_men", "A": "walk_dog"}, "遛狗的两个男人"),
        (
            "zh",
            "action",
            {"S": "girl", "C": "helmet", "A": "ride_horse"},
            "一个戴着头盔的女孩正在骑马",
        ),
        ("zh", "exist", {"O": "piece_of_cake", "P": "on_white_plate"}, "盘子里有一块蛋糕"),
        # the particle by the final sound: 이, 을, 과 after a consonant, 가, 를, 와 after a vowel
        ("ko", "action", {"S": "woman", "A": "hold", "O": "umbrella"}, "한 여자가 우산을 들고 있다"),
        ("ko", "action", {"S": "woman", "A": "hold", "O": "camera"}, "한 여성이 카메라를 들고 있다"),
        ("ko", "action", {"S": "boy", "A": "walk", "P": "in_park"}, "한 소년이 공원을 걷고 있다"),
        ("ko", "action", {"S": "boy", "A": "stand", "P": "in_park"}, "공원에 한 소년이 서 있다"),
        ("ko", "action", {"S": "boy", "A": "fly_kite"}, "연을 날리는 한 소년"),
        ("ko", "holder", {"H": "desk", "O": "candle", "Q": "apple"}, "촛불과 사과가 놓인 책상"),
        ("ko", "holder", {"H": "desk", "O": "apple", "Q": "candle"}, "사과와 촛불이 놓인 책상"),
        # gender and number of verb and participle; cases
        ("ru", "action", GUITAR, "женщина играет на гитаре в гостиной"),
        ("ru", "action", {"S": "woman", "A": "paint_wall"}, "женщина, красящая стену"),
        ("ru", "action", {"S": "two_boys", "A": "swim"}, "двое мальчиков, плавающих"),
        ("ru", "action", {"S": "two_girls", "A": "swim"}, "две девочки, которые плавают"),
        ("ru", "action", {"S": "woman", "A": "eat", "O": "pizza"}, "женщина ест пиццу"),
        ("ru", "action", {"S": "boy", "A": "pet_animal", "O": "pet_dog"}, "мальчик гладит собаку"),
        ("ru", "action", {"S": "boy", "A": "walk", "P": "on_sidewalk"}, "мальчик идёт по тротуару"),
        ("ru", "action", {"S": "boy", "A": "stand", "P": "on_sidewalk"}, "мальчик стоит на тротуаре"),
        ("ru", "exist", {"O": "armchair", "P": "by_window"}, "у окна видно кресло"),
        ("ru", "pair", PAIR, "мужчина играет на гитаре, а кошка спит на диване"),
        ("pl", "action", GUITAR, "kobieta gra na gitarze w salonie"),
        ("pl", "action", {"S": "two_men", "A": "play_chess"}, "dwóch mężczyzn gra w szachy"),
        ("pl", "action", {"S": "two_men", "A": "play_chess"}, "dwaj mężczyźni grają w szachy"),
        ("pl", "action", {"S": "two_men", "A": "play_chess"}, "dwóch mężczyzn grających w szachy"),
        ("pl", "action", {"S": "two_women", "A": "play_chess"}, "dwie kobiety grające w szachy"),
        ("pl", "action", {"S": "baby", "A": "hug_teddy"}, "niemowlę przytulające pluszowego misia"),
        ("pl", "action", {"S": "woman", "A": "eat", "O": "pizza"}, "kobieta je pizzę"),
        ("pl", "exist", {"O": "suitcase", "P": "at_station"}, "na dworcu widać walizkę"),
        ("cs", "action", GUITAR, "žena hraje na kytaru v obýváku"),
        ("cs", "action", GUITAR, "v obýváku hraje žena na kytaru"),
        ("cs", "action", {"S": "cat", "A": "play_with_wool"}, "kočka si hraje s klubíčkem"),
        ("cs", "action", {"S": "two_dogs", "A": "run_after_ball"}, "dva psi běžící za míčem"),
        ("cs", "action", {"S": "several_people", "A": "play_cards"}, "několik lidí hraje karty"),
        ("cs", "action", {"S": "boy", "A": "carry", "O": "box"}, "chlapec nese papírovou krabici"),
        # verb last, participles before the noun, cases by vowel harmony
        ("tr", "action", {"S": "man", "A": "play_guitar", "P": "in_park"}, "bir adam parkta gitar çalıyor"),
        ("tr", "action", {"S": "man", "A": "play_guitar", "P": "in_park"}, "parkta gitar çalan bir adam"),
        ("tr", "pair", PAIR, "bir adam gitar çalarken bir kedi koltukta uyuyor"),
        ("tr", "action", {"S": "boy", "A": "pet_animal", "O": "pet_dog"}, "bir çocuk bir köpeği okşuyor"),
        (
            "tr",
            "action",
            {"S": "boy", "A": "take_photo_of", "O": "pet_horse"},
            "bir çocuk bir atın fotoğrafını çekiyor",
        ),
        ("tr", "static", {"S": "cat", "P": "on_balcony"}, "balkonda bir kedi var"),
        # the verb before its subject agrees in gender alone, behind it in number too
        ("ar", "action", {"S": "two_men", "A": "paint_picture"}, "يرسم رجلان لوحة"),
        ("ar", "action", {"S": "two_men", "A": "paint_picture"}, "رجلان يرسمان لوحة"),
        ("ar", "action", {"S": "two_girls", "A": "paint_picture"}, "فتاتان ترسمان لوحة"),
        ("ar", "action", {"S": "two_girls", "A": "paint_picture"}, "ترسم فتاتان لوحة"),
        ("ar", "action", {"S": "three_friends", "A": "walk"}, "ثلاثة أصدقاء يمشون"),
        ("ar", "action", {"S": "cows", "A": "eat_hay"}, "أبقار تأكل التبن"),
        ("ar", "action", {"S": "two_boys", "A": "read_book"}, "ولدان يقرآن كتابًا"),
        ("ar", "action", {"S": "boy", "A": "carry", "O": "ladder"}, "صبي يحمل سلمًا"),
        ("ar", "exist", {"O": "two_glasses", "P": "on_wooden_table"}, "على الطاولة كأسان"),
        ("ar", "still", {"O": "lamp", "Q": "two_glasses"}, "مصباح بجانب كأسين"),
        (
            "ar",
            "action",
            {"S": "woman", "C": "white_dress", "A": "dance"},
            "امرأة ترتدي فستانًا أبيض ترقص",
        ),
    ],
)
def test_what_a_native_would_write_is_among_what_is_said(language, kind, slots, said):
    assert said in wordings(language, kind, **slots)


@pytest.mark.parametrize(
    ("language", "kind", "slots", "never"),
    [
        ("ja", "static", {"S": "man", "P": "in_park"}, "ある"),
        ("ja", "exist", {"O": "lamp", "P": "on_desk"}, "いる"),
        ("zh", "action", {"S": "man", "A": "sit_on_bench"}, "正在坐"),
        ("ru", "action", {"S": "two_girls", "A": "dance"}, "танцует"),
        ("pl", "action", {"S": "several_people", "A": "dance"}, r"osób tańczą\b"),
        ("ar", "action", {"S": "woman", "A": "dance"}, "يرقص"),
        ("tr", "action", {"S": "boy", "A": "look_at_phone"}, "bakıyor bir"),
    ],
)
def test_what_no_native_would_write_is_not_said(language, kind, slots, never):
    assert not [text for text in wordings(language, kind, **slots) if re.search(never, text)]


def test_korean_particles_follow_the_final_sound():
    """Read off the decomposed syllable, in which a final consonant is a sign of its own."""
    seen = set()
    for text, nouns in captions("ko"):
        for _, end in nouns:
            particle = text[end : end + 1]
            if particle in tuple("이가을를과와") and text[end + 1 : end + 2] in ("", " "):
                closed = len(unicodedata.normalize("NFD", text[end - 1])) == 3
                assert (particle in "이을과") == closed, text
                seen.add(particle)
    assert seen == set("이가을를과와")


def test_korean_phrases_carry_no_wrong_particle():
    """The same for every word of the file: a syllable with a final before 을, without one before 를."""
    particle = re.compile(r"([가-힣])\]?(을|를)(?=[\s|}]|$)")
    found = 0
    for category in ("actions", "clothing", "companions", "views", "times"):
        for phrase in phrases("ko", category):
            for before, mark in particle.findall(phrase):
                found += 1
                assert (len(unicodedata.normalize("NFD", before)) == 3) == (mark == "을"), phrase
    assert found > 250


def test_turkish_case_endings_follow_the_vowel_before_them():
    harmony = re.compile(r"([aıoueiöü])([^aıoueiöü\s]*?)(nda|nde|[dt][ae])$")
    found = 0
    for phrase in phrases("tr", "places"):
        noun = re.search(r"\[([^\]]+)\]", phrase).group(1)  # type: ignore[union-attr]
        ending = harmony.search(noun)
        if ending:
            found += 1
            assert (ending.group(1) in "aıou") == ending.group(3).endswith("a"), phrase
            before, sound = noun[-3], noun[-2]
            assert (sound == "t") == (before in "fstkçşhp"), phrase
    assert found > 60


def test_turkish_verbs_agree_in_their_three_forms():
    """-yor, the participle in -an or -en, and -ken on the same verb."""
    verb = re.compile(r"\{([^|{}]+yor)\|([^|{}]+[ae]n)\|([^|{}]+ken)\}")
    for phrase in phrases("tr", "actions"):
        found = verb.search(phrase)
        assert found, phrase
        starts = {form[:2] for form in found.groups()}
        assert len(starts) == 1 or starts in ({"yi", "ye"},), phrase
        assert phrase.endswith("}"), phrase  # the verb stands last


@pytest.mark.parametrize("language", ["ja", "zh"])
def test_no_blanks_between_words(language):
    for text, nouns in captions(language):
        assert not re.search(r"\s", text)
        assert text.count("。") <= 1 and "。" not in text[:-1]
        assert nouns
    stops = sum(text.endswith("。") for text, _ in captions(language))
    assert 0.4 < stops / len(captions(language)) < 0.8  # with and without, as people write


SCRIPTS = {
    "ja": r"[\u3040-\u30ff\u4e00-\u9fff々、。0-9T]+",
    "zh": r"[\u4e00-\u9fff，。T]+",
    "ko": r"[가-힣 ,.]+",
    "ru": r"[А-Яа-яЁё ,.-]+",
    "pl": r"[A-Za-zĄĆĘŁŃÓŚŹŻąćęłńóśźż ,.-]+",
    "cs": r"[A-Za-zÁČĎÉĚÍŇÓŘŠŤÚŮÝŽáčďéěíňóřšťúůýž ,.]+",
    "tr": r"[A-Za-zÇĞİÖŞÜçğıöşü ,.]+",
    "ar": r"[\u0621-\u064a\u064b .]+",
}


@pytest.mark.parametrize("language", OURS)
def test_every_letter_is_of_the_languages_own_script(language):
    """No Latin a among Cyrillic letters, no Persian kaf among Arabic ones; composed signs."""
    for text, _ in captions(language):
        assert re.fullmatch(SCRIPTS[language], text), text
        assert text == unicodedata.normalize("NFC", text)


MEASURES = {
    "ja": {
        "犬": "匹",
        "猫": "匹",
        "馬": "頭",
        "牛": "頭",
        "ゾウ": "頭",
        "鳥": "羽",
        "カモ": "羽",
        "車": "台",
    },
    "zh": {
        "狗": "只条",
        "猫": "只",
        "马": "匹",
        "牛": "头",
        "大象": "头只",
        "鸟": "只",
        "公交车": "辆",
        "火车": "列",
        "飞机": "架",
        "帆船": "艘条",
        "书": "本",
        "桌子": "张",
        "雨伞": "把",
        "床": "张",
        "咖啡": "杯",
        "路灯": "盏",
    },
    "ko": {
        "개": "마리",
        "고양이": "마리",
        "말": "마리",
        "버스": "대",
        "커피": "잔",
        "와인": "병",
        "남자": "명",
    },
}
COUNTED = {
    "ja": r"[一二三数2](\w)の(?:\w+い)?\[{noun}\]",
    "zh": r"(?:[一两三](.)|几([^名个]))[^\[\]/群些]*\[{noun}\]",
    "ko": r"\[{noun}\] (?:한|두|세|몇) (명|마리|대|잔|병|\w+)",
}


@pytest.mark.parametrize("language", MEASURES)
def test_measure_words_are_those_of_their_nouns(language):
    lines = [
        re.sub(r"[{}|]", "", line)
        for line in phrases(language, "subjects") + phrases(language, "things") + phrases(language, "holders")
    ]
    for noun, allowed in MEASURES[language].items():
        pattern = re.compile(COUNTED[language].format(noun=noun))
        used = {"".join(found.groups("")) for line in lines for found in pattern.finditer(line)}
        used -= {"些", "群"}  # some, a herd: of anything
        assert used, noun
        for measure in used:
            assert measure in allowed, (noun, measure)


@pytest.mark.parametrize("language", OURS)
def test_captions_differ_and_are_as_long_as_captions_are(language):
    texts = [text for text, _ in captions(language)]
    assert len(set(texts)) > 0.93 * len(texts)
    size = (lambda text: len(text) / 2) if language in ("ja", "zh") else (lambda text: len(text.split()))
    lengths = [size(text) for text in texts]
    assert 5 < sum(lengths) / len(lengths) < 13
    assert max(lengths) < 30
    assert 2.5 < sum(len(nouns) for _, nouns in captions(language)) / len(texts) < 4.5


@pytest.mark.parametrize("language", OURS)
def test_no_word_comes_twice_in_a_row(language):
    for text, _ in captions(language):
        words = text.lower().rstrip(".。").split()
        assert not any(a == b for a, b in itertools.pairwise(words)), text
