"""Captions → the same captions with a word of another language."""

from __future__ import annotations

import random
from functools import cache

from .words import placed_words, with_capital_of

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
