"""The words of captions with their classes and places: what is found, in which language, and by what."""

import random
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.errors import InputError
from capscore.text import taggers, word_classes
from capscore.text.taggers import RippleRules
from capscore.text.word_classes import CLASSES, Word, supported, tag, tagger_name


def forget(language):
    word_classes._tagger(language)._known.clear()


def of_class(text, language, word_class="noun"):
    (words,) = tag([text], language)
    return " ".join(word.text for word in words if word.word_class == word_class)


# A caption and its nouns, as a reader finds them.
NOUNS = [
    ("en", "A man's dog isn't chasing the red ball on the beach.", "man dog ball beach"),
    ("en", "Three girls in T-shirts ride bicycles past a church.", "girls T-shirts bicycles church"),
    ("de", "Ein Fußballspieler wirft seinem Hund geschickt einen Ball zu.", "Fußballspieler Hund Ball"),
    ("fr", "L'homme assis regarde un journal à l'ombre d'un arbre.", "homme journal ombre arbre"),
    ("fr", "Une femme vêtue d’une veste bleue nage dans l’eau.", "femme veste eau"),
    ("es", "Dos niños juegan al fútbol en la playa con una pelota roja.", "niños fútbol playa pelota"),
    ("ca", "Una nena menja un gelat davant de l'església blanca.", "nena gelat església"),
    ("ru", "Мальчик в красной куртке кормит лошадь у забора.", "Мальчик куртке лошадь забора"),
    ("tr", "İki kedi ağacın altında uyuyor.", "kedi ağacın"),
    ("ar", "فتاة صغيرة وطفل على الشاطئ", "فتاة وطفل الشاطئ"),
    ("he", "הילדה משחקת עם כלב ליד הבית", "הילדה כלב הבית"),
    ("ja", "少女たちが自転車で公園を走っている。", "少女たち 自転車 公園"),
    ("ja", "お皿の上で二人の男性がジャンプする。", "お皿 上 男性"),
    ("zh", "一个男人正在草地上踢红色的球。", "男人 草地 球"),
    ("zh-TW", "一隻狗追著一輛車。", "狗 車"),
    ("ko", "어린 소녀가 창문 옆에서 자전거를 탄다.", "소녀 창문 옆 자전거"),
    ("th", "แมวนอนบนเก้าอี้", "แมว เก้าอี้"),
]


CLASSES_OF = [
    ("en", "A small dog is quickly chasing her.", ["dog", "chasing", "small", "quickly", "A is her"]),
    ("ja", "二人は白い皿の前でゆっくり演奏", ["皿 前 演奏", "", "白い", "ゆっくり", "二人 は の で"]),
    ("ja", "ゆっくり演奏している", ["", "演奏", "", "ゆっくり", "し て いる"]),
    ("ja", "寒さでお高い", ["", "", "寒 高い", "", "さ で お"]),  # affixes of other words stay words
]


@pytest.mark.parametrize(("language", "caption", "nouns"), NOUNS)
def test_nouns_of_captions(language, caption, nouns):
    assert of_class(caption, language) == nouns


@pytest.mark.parametrize(("language", "caption", "words"), CLASSES_OF)
def test_all_classes(language, caption, words):
    assert [of_class(caption, language, word_class) for word_class in CLASSES] == words


WORDS = [
    ("en", "The dog's bowl doesn't move, they're empty", "The dog 's bowl does n't move they 're empty"),
    ("fr", "Qu'est-ce qu’il voit aujourd'hui ?", "Qu' est-ce qu’ il voit aujourd'hui"),
    ("de", "Ein Fuß\xadball liegt, geht's da", "Ein Fuß\xadball liegt geht 's da"),
    ("de", "Ein Ma\u0308dchen lacht", "Ein Ma\u0308dchen lacht"),
    ("ru", "\U00017000 TV кот", "\U00017000 TV кот"),  # a letter without a Unicode name; of no class
]


@pytest.mark.parametrize(("language", "caption", "expected"), WORDS)
def test_affixes_written_onto_a_word_are_separated(language, caption, expected):
    (words,) = tag([caption], language)
    assert [word.text for word in words] == expected.split(" ")
    assert all(word.text == caption[word.start : word.end] for word in words)


def test_a_word_says_where_it_is_and_capitals_or_none_are_no_classes():
    asleep = [Word("Two", 2, 5, "other"), Word("dogs", 7, 11, "noun"), Word("asleep", 14, 20, "adjective")]
    assert tag(["  Two “dogs”, asleep."], "en") == [asleep]
    assert of_class("A DOG AND A CAT", "en").lower() == "dog cat"
    assert of_class("ein hund und eine katze", "de") == "hund katze"
    assert tag(["A dog."]) == tag(["A dog."], "en-GB") == tag(["A dog."], "eng")


def test_texts_without_words():
    for language in ("en", "de", "fr", "ja", "ko", "ru", "th", "zh"):
        assert tag(["", " \n", "?!", "🐕", "。"], language) == [[]] * 5
    assert tag([], "fr") == []


TAGGERS = ("en", "de", "fr", "tr", "ar", "ru", "uk", "ja", "ko", "th", "zh")
ODD = st.sampled_from("aeinrst 'ʼ’-\u00ad\u0301\u200c.,!犬が走る一只狗개가สุนкотكلبİı")
CHARACTERS = ODD | st.characters(exclude_categories=("Cs",))


@pytest.mark.parametrize("language", TAGGERS)
@given(texts=st.lists(st.text(CHARACTERS, max_size=30), max_size=4))
def test_every_word_is_where_it_says(language, texts):
    for text, words in zip(texts, tag(texts, language), strict=True):
        places = [place for word in words for place in (word.start, word.end)]
        assert places == sorted(places) and all(0 <= place <= len(text) for place in places)
        assert all(word.text == text[word.start : word.end] != "" for word in words)
        assert all(word.word_class in CLASSES for word in words)


@pytest.mark.parametrize("language", ["en", "fr", "ja", "ko", "zh"])
def test_order_duplicates_batches_and_threads_do_not_matter(language):
    captions = [caption for _, caption, _ in NOUNS] * 2
    random.Random(3).shuffle(captions)
    alone = []
    for caption in captions:
        forget(language)
        alone += tag([caption], language)
    forget(language)
    assert tag(captions, language) == alone == tag(captions, language)  # again: what is remembered
    forget(language)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda caption: tag([caption], language)[0], captions)) == alone
    first, second = tag(captions[:1] * 2, language)
    first.clear()  # what is returned is the caller's own
    assert second == tag(captions[:1], language)[0] == alone[0]


def test_the_cache_of_words_is_bounded(monkeypatch):
    monkeypatch.setattr(taggers, "MAX_REMEMBERED", 5)
    forget("en")
    captions = [f"dog number {number}" for number in range(12)]
    expected, tagger = tag(captions, "en"), word_classes._tagger("en")
    assert len(tagger._known) <= 5 and [tag([caption], "en")[0] for caption in captions] == expected
    assert len(tagger._known) <= 5


def test_names_say_what_was_used():
    names = {language: tagger_name(language) for language in TAGGERS}
    assert len(set(names.values())) == len(TAGGERS) - 1  # HanTa is one for three languages
    assert tagger_name() == names["en"] == f"classes2+hanta-{version('HanTa')}"
    assert names["fr"] == f"classes2+rippletagger-{version('rippletagger')}+UD_French"
    dictionary = f"dicts-ru-{version('pymorphy3-dicts-ru')}"
    assert names["ru"] == f"classes2+pymorphy3-{version('pymorphy3')}+{dictionary}"
    assert names["ja"] == f"classes2+fugashi-{version('fugashi')}+unidic-lite-{version('unidic-lite')}"
    assert names["zh"] == f"classes2+rjieba-{version('rjieba')}+opencc-{version('opencc')}"


def test_every_language_that_is_named_has_a_tagger():
    for language in word_classes._SOURCES:
        assert supported(language), language
        assert [word.text for word in tag(["Dog"], language)[0]] == ["Dog"]


@pytest.mark.parametrize("language", ["sw", "mi", "vi", "km"])
def test_a_language_without_a_tagger_is_an_error(language):
    assert not supported(language)
    for refused in (lambda: tag(["x"], language), lambda: tagger_name(language)):
        with pytest.raises(InputError, match=f"{language}.*nouns") as error:
            refused()
        assert error.value.field == "language"


def test_a_row_without_a_caption_is_named():
    assert len(tag(["dog " * 1250], "en")[0]) == 1250
    for texts, language, message in (
        *((["a dog", 3], "en", "row 1, text: 3 is a int"), ("a dog", "en", "one string")),
        (["a dog"], "xxxxxx", "language code"),
        (["dog", "dog " * 1250 + "s"], "en", "row 1: a text of 5,001 characters"),
    ):
        with pytest.raises(InputError, match=message):
            tag(texts, language)


LEXICON = "the DET,can AUX,rusty ADJ,.*ing VERB,.*sing NOUN,.*s NOUN,Rose PROPN,rose VERB,al _,"
LEXICON += "TAG4UNKN-WORD NOUN,TAG4UNKN-CAPITAL PROPN,TAG4UNKN-NUM NUM,"
LEXICON = LEXICON.replace(",", "\n")
RULES = """True : object.conclusion = "NN"
\tobject.tag == "AUX" : object.conclusion = "AUX"
\t\tobject.prevWord1 == "the" : object.conclusion = "NOUN"
\t\t\tobject.prevWord1 == "the" and object.nextTag1 == "NOUN" : object.conclusion = "ADJ"
\t\tobject.prevTag1 == "ADJ" and object.prevWord2 == "the" : object.conclusion = "NOUN"
\tobject.tag == "VERB" : object.conclusion = "VERB"
\t\tobject.suffixL3 == "ing" and object.prevTag1 == "" : object.conclusion = "NOUN"
\tobject.word == "can" : object.conclusion = "NEVER"
"""
RIPPLED = [
    *(("dogs can run", "NOUN AUX NOUN"), ("the can", "DET NOUN")),
    ("the can lid", "DET ADJ NOUN"),  # an exception to an exception
    *(("the rusty can", "DET ADJ NOUN"), ("old can", "NOUN AUX")),
    ("running", "NOUN"),  # nothing stands before it
    ("the running", "DET VERB"),
    ("the crossing", "DET NOUN"),  # the longest ending
    ("the king ing", "DET VERB NOUN"),  # the ending alone is no word that ends so, and needs four letters
    ("the Rose rose al", "DET PROPN VERB _"),
    ("Rose Ann 12th", "VERB PROPN NUM"),  # a capital at the beginning says nothing
]


def test_lexicon_and_rules():
    for sentence, tags in RIPPLED:
        assert RippleRules(LEXICON, RULES).tags(sentence.split()) == tags.split(), sentence
    rules = RippleRules(LEXICON, RULES, prefixes="xy")  # letters that are words of their own
    assert rules.tags("yxthe xrusty al".split()) == ["DET", "ADJ", "NOUN"]


@pytest.mark.parametrize("language", ["de", "en", "fr", "ru", "tr"])
def test_a_tagger_sees_a_long_words_first_letter_and_its_end(language):
    end = "kirchenglocken" if language == "de" else "ationalization"
    short = "X" + "m" * (23 - len(end)) + end
    for letters in (25, 4000):
        long = "X" + "m" * (letters - 1 - len(end)) + end
        (word,) = tag([long], language)[0]
        assert (word.text, word.start, word.end) == (long, 0, letters)
        assert word.word_class == tag([short], language)[0][0].word_class


def test_words_up_to_the_limit_are_seen_whole(monkeypatch):
    seen = []

    def tagger(code):
        spied = taggers._of_tokens("en", lambda tokens: seen.extend(tokens) or ["noun"] * len(tokens))
        return taggers.Tagger("spy", spied)

    monkeypatch.setitem(word_classes._SOURCES, "en", ("", "nouns", tagger))
    word_classes._load.cache_clear()
    tag([f"{'a' * 24} B{'c' * 24}de"], "en")
    word_classes._load.cache_clear()
    assert seen == ["a" * 24, "B" + "c" * 21 + "de"]
