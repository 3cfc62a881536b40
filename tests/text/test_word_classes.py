"""The words of captions with their classes and places: what is found, in which language, and by what."""

from __future__ import annotations

import itertools
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.errors import CapscoreError, InputError, MissingExtraError
from capscore.text import segmentation, taggers, word_classes
from capscore.text.taggers import RippleRules
from capscore.text.word_classes import CLASSES, Word, supported, tag, tagger_name

spacy_model = word_classes._spacy_model


@pytest.fixture(autouse=True, scope="module")
def without_spacy():
    """As where spaCy is not installed: these tests are of what comes with the extras."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_classes, "_spacy_model", lambda code: None)
        word_classes._load.cache_clear()
        yield
    word_classes._load.cache_clear()


@pytest.fixture
def nothing_loaded():
    word_classes._load.cache_clear()
    yield
    word_classes._load.cache_clear()


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
    ("de", "zwei frauen sitzen auf einer roten bank im park", "frauen bank park"),
    ("nl", "Twee honden spelen met een bal op het strand.", "honden bal strand"),
    ("fr", "L'homme assis regarde un journal à l'ombre d'un arbre.", "homme journal ombre arbre"),
    ("fr", "Une femme vêtue d’une veste bleue nage dans l’eau.", "femme veste eau"),
    ("es", "Dos niños juegan al fútbol en la playa con una pelota roja.", "niños fútbol playa pelota"),
    ("it", "L'operaio ripara il tetto dell'edificio con un martello.", "operaio tetto edificio martello"),
    ("pt", "Mulheres de vestidos dançam na praça.", "Mulheres vestidos praça"),
    ("ca", "Una nena menja un gelat davant de l'església blanca.", "nena gelat església"),
    ("sv", "Två hundar leker med en boll på stranden.", "hundar boll stranden"),
    ("cs", "Malá dívka hází míč na zahradě.", "dívka míč zahradě"),
    ("pl", "Dwa psy bawią się piłką na plaży.", "psy piłką plaży"),
    ("ru", "Мальчик в красной куртке кормит лошадь у забора.", "Мальчик куртке лошадь забора"),
    ("uk", "Маленька дівчинка їсть морозиво перед білою церквою.", "дівчинка морозиво церквою"),
    ("tr", "Küçük kız parkta kırmızı şapkalı bir adam görüyor.", "kız parkta adam"),
    ("tr", "İki kedi ağacın altında uyuyor.", "kedi ağacın"),
    ("id", "Seorang wanita bercelana biru mengejar anjing di taman.", "wanita anjing taman"),
    ("ar", "فتاة صغيرة وطفل على الشاطئ", "فتاة وطفل الشاطئ"),
    ("he", "הילדה משחקת עם כלב ליד הבית", "הילדה כלב הבית"),
    ("hi", "एक आदमी सड़क पर साइकिल चला रहा है।", "आदमी सड़क साइकिल"),
    ("ja", "少女たちが自転車で公園を走っている。", "少女たち 自転車 公園"),
    ("ja", "お皿の上で二人の男性がジャンプする。", "お皿 上 男性"),
    ("zh", "一个男人正在草地上踢红色的球。", "男人 草地 球"),
    ("zh-TW", "一隻狗追著一輛車。", "狗 車"),
    ("ko", "어린 소녀가 창문 옆에서 자전거를 탄다.", "소녀 창문 옆 자전거"),
    ("th", "แมวนอนบนเก้าอี้", "แมว เก้าอี้"),
]


@pytest.mark.parametrize(("language", "caption", "nouns"), NOUNS)
def test_nouns_of_captions(language, caption, nouns):
    assert of_class(caption, language) == nouns


def test_a_word_says_where_it_is():
    caption = "  Two “dogs”, asleep."
    assert tag([caption], "en") == [
        [
            Word("Two", 2, 5, "other"),
            Word("dogs", 7, 11, "noun"),
            Word("asleep", 14, 20, "adjective"),
        ]
    ]
    assert caption[7:11] == "dogs"


def test_the_other_classes():
    caption = "A small dog is quickly chasing her."
    found = {word_class: of_class(caption, "en", word_class) for word_class in CLASSES}
    assert found == {
        "noun": "dog",
        "verb": "chasing",
        "adjective": "small",
        "adverb": "quickly",
        "other": "A is her",
    }
    caption = "二人は白い皿の前でゆっくり演奏している。"
    found = {word_class: of_class(caption, "ja", word_class) for word_class in CLASSES[1:4]}
    assert found == {"verb": "演奏", "adjective": "白い", "adverb": "ゆっくり"}


def test_no_language_is_english():
    caption = "A dog runs."
    assert tag([caption]) == tag([caption], "en-GB") == tag([caption], "eng")
    assert tagger_name() == tagger_name("en") == f"classes2+hanta-{version('HanTa')}"


def test_what_is_written_onto_a_word_is_not_of_it():
    (words,) = tag(["The dog's bowl doesn't move, they're empty"], "en")
    assert [word.text for word in words] == [
        "The",
        "dog",
        "'s",
        "bowl",
        "does",
        "n't",
        "move",
        "they",
        "'re",
        "empty",
    ]
    (words,) = tag(["Qu'est-ce qu’il voit aujourd'hui ?"], "fr")
    assert [word.text for word in words] == ["Qu'", "est-ce", "qu’", "il", "voit", "aujourd'hui"]
    (words,) = tag(["'s Avonds liggen er foto's"], "nl")
    assert [word.text for word in words][-1] == "foto's"


def test_signs_that_show_nothing_are_part_of_their_word():
    caption = "Ein Fuß\xadball liegt da"  # a soft hyphen
    (words,) = tag([caption], "de")
    assert words[1] == Word("Fuß\xadball", 4, 12, "noun")
    decomposed = "Ein Ma\u0308dchen lacht"
    (words,) = tag([decomposed], "de")
    assert words[1] == Word("Ma\u0308dchen", 4, 12, "noun")


def test_texts_without_words():
    assert tag(["", " \n", "?!", "🐕"], "de") == [[], [], [], []]
    for language in ("en", "fr", "ja", "ko", "ru", "th", "zh"):
        assert tag(["", "…", "。"], language) == [[], [], []]
    assert tag([], "fr") == []


def test_capitals_throughout_and_none():
    assert of_class("A DOG AND A CAT", "en").lower() == "dog cat"
    assert of_class("ein hund und eine katze", "de") == "hund katze"


TAGGERS = ("en", "de", "nl", "fr", "tr", "ar", "ru", "uk", "ja", "ko", "th", "zh")
CHARACTERS = st.one_of(
    st.characters(exclude_categories=("Cs",)),
    st.sampled_from("aeinrst 'ʼ’-\u00ad\u0301\u200c.,!犬が走る一只狗개가สุนкотكلبİı"),
)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(TAGGERS), st.lists(st.text(CHARACTERS, max_size=30), max_size=4))
def test_every_word_is_where_it_says(language, texts):
    rows = tag(texts, language)
    assert len(rows) == len(texts)
    for text, words in zip(texts, rows, strict=True):
        places = [place for word in words for place in (word.start, word.end)]
        assert places == sorted(places) and all(0 <= place <= len(text) for place in places)
        for word in words:
            assert word.text == text[word.start : word.end] != ""
            assert word.word_class in CLASSES
        for word, following in itertools.pairwise(words):
            assert word.end <= following.start


@pytest.mark.parametrize("language", ["ru", "uk"])
def test_a_letter_without_a_unicode_name_is_no_class_of_its_own(language):
    (words,) = tag(["\U00017000 кот"], language)
    assert [(word.text, word.word_class) for word in words] == [("\U00017000", "other"), ("кот", "noun")]


def test_a_noun_lies_between_blanks_where_there_are_any():
    for language, caption, _ in NOUNS:
        if segmentation.segmenter_name(language).startswith(("ptb", "space")) or language == "ko":
            (words,) = tag([caption], language)
            assert not any(character.isspace() for word in words for character in word.text)


@pytest.mark.parametrize("language", ["en", "fr", "ja", "zh"])
def test_order_duplicates_and_batches_do_not_matter(language):
    captions = [caption for _, caption, _ in NOUNS] * 2
    random.Random(3).shuffle(captions)
    alone = []
    for caption in captions:
        forget(language)
        alone += tag([caption], language)
    forget(language)
    assert tag(captions, language) == alone
    assert tag(captions, language) == alone  # what is remembered


def test_what_is_returned_is_the_callers_own():
    caption = "A dog runs."
    (words,) = tag([caption], "en")
    words.clear()
    assert len(tag([caption], "en")[0]) == 3
    first, second = tag([caption, caption], "en")
    first.clear()
    assert len(second) == 3


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(taggers, "MAX_REMEMBERED", 5)
    forget("en")
    captions = [f"dog number {number}" for number in range(12)]
    expected = tag(captions, "en")
    tagger = word_classes._tagger("en")
    assert len(tagger._known) <= 5
    assert [tag([caption], "en")[0] for caption in captions] == expected
    assert len(tagger._known) <= 5


@pytest.mark.parametrize("language", ["en", "fr", "ja", "ko", "zh"])
def test_several_threads(language):
    captions = [f"{caption} {number}" for number in range(3) for _, caption, _ in NOUNS]
    expected = tag(captions, language)
    forget(language)
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda caption: tag([caption], language)[0], captions))
    assert rows == expected


def test_names_say_what_was_used():
    names = {language: tagger_name(language) for language in TAGGERS}
    assert len(set(names.values())) == len(TAGGERS) - 2  # HanTa is one for three languages
    assert names["fr"] == f"classes2+rippletagger-{version('rippletagger')}+UD_French"
    assert names["ru"] == (
        f"classes2+pymorphy3-{version('pymorphy3')}+dicts-ru-{version('pymorphy3-dicts-ru')}"
    )
    assert names["ja"] == f"classes2+fugashi-{version('fugashi')}+unidic-lite-{version('unidic-lite')}"
    assert names["zh"] == f"classes2+rjieba-{version('rjieba')}+opencc-{version('opencc')}"


def test_every_language_that_is_named_has_a_tagger():
    for language in word_classes._SOURCES:
        assert supported(language), language
        (words,) = tag(["Dog"], language)
        assert [word.text for word in words] == ["Dog"]


# ---- what is refused ----


@pytest.mark.parametrize("language", ["sw", "mi", "vi", "km"])
def test_a_language_without_a_tagger_is_an_error(language):
    assert not supported(language)
    for refused in (lambda: tag(["x"], language), lambda: tagger_name(language)):
        with pytest.raises(InputError, match=f"{language}_core_news_sm.*nouns") as error:
            refused()
        assert error.value.field == "language"


@pytest.mark.parametrize(
    ("language", "module", "extra"),
    [
        ("de", "HanTa", "nouns"),
        ("fr", "rippletagger", "nouns-gpl"),
        ("ru", "pymorphy3_dicts_ru", "nouns"),
        ("ja", "unidic_lite", "ja"),
        ("zh", "opencc", "zh"),
    ],
)
def test_a_missing_package_is_an_error_that_names_its_extra(
    language, module, extra, nothing_loaded, monkeypatch
):
    real = word_classes.find_spec
    monkeypatch.setattr(word_classes, "find_spec", lambda name: None if name == module else real(name))
    assert not supported(language)
    with pytest.raises(MissingExtraError, match=rf"capscore\[{extra}\]"):
        tag(["x"], language)


def test_bad_rows():
    with pytest.raises(InputError, match="row 1, text: 3 is a int"):
        tag(["a dog", 3], "en")
    with pytest.raises(InputError, match="one string"):
        tag("a dog", "en")
    with pytest.raises(InputError, match="surrogate"):
        tag(["\ud800"], "ja")
    with pytest.raises(InputError, match="language code"):
        supported("xxxxxx")


# ---- spaCy ----


def pipeline(tags):
    """What spaCy makes of texts, where it parts words at blanks and hyphens."""

    def parted(text):
        place = 0
        for word in text.replace("-", " - ").split():
            place = text.index(word, place)
            yield SimpleNamespace(text=word, idx=place, pos_=tags.get(word, "X"))
            place += len(word)

    return SimpleNamespace(meta={"version": "3.8.0"}, pipe=lambda texts: map(list, map(parted, texts)))


def test_an_installed_spacy_model_goes_first(nothing_loaded, monkeypatch):
    model = pipeline({"T": "PROPN", "shirt": "NOUN", "rouge": "ADJ", "porte": "VERB", "est": "AUX"})
    loaded = []

    def load(name, exclude):
        loaded.append(name)
        return model

    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(load=load))
    monkeypatch.setattr(word_classes, "_spacy_model", lambda code: f"{code}_core_news_sm")
    monkeypatch.setattr(word_classes, "version", lambda package: "3.8.18")
    assert supported("fr")
    assert tagger_name("fr") == "classes2+spacy-3.8.18+fr_core_news_sm-3.8.0"
    assert tag(["Il porte un T-shirt rouge !"], "fr") == [
        [
            Word("Il", 0, 2, "other"),
            Word("porte", 3, 8, "verb"),
            Word("un", 9, 11, "other"),
            Word("T-shirt", 12, 19, "noun"),
            Word("rouge", 20, 25, "adjective"),
        ]
    ]
    assert loaded == ["fr_core_news_sm"]


def test_a_spacy_model_that_cannot_be_loaded_is_no_reason_to_take_another_tagger(nothing_loaded, monkeypatch):
    def load(name, exclude):
        raise ValueError("[E002] made for another version")

    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(load=load))
    monkeypatch.setattr(word_classes, "_spacy_model", lambda code: "en_core_web_sm")
    monkeypatch.setattr(word_classes, "version", lambda package: "3.8.18")
    with pytest.raises(CapscoreError, match=r"en_core_web_sm.*E002"):
        tag(["x"], "en")


def test_which_model_of_spacy_is_taken(monkeypatch):
    installed = {"spacy", "de_core_news_lg", "de_core_news_md", "nb_core_news_sm", "en_core_web_sm"}
    monkeypatch.setattr(word_classes, "find_spec", lambda name: name if name in installed else None)
    models = {language: spacy_model(language) for language in ("de", "no", "en", "fr")}
    assert models == {"de": "de_core_news_md", "no": "nb_core_news_sm", "en": "en_core_web_sm", "fr": None}
    installed.remove("spacy")
    assert spacy_model("de") is None


# ---- ripple-down rules ----

LEXICON = """the DET
can AUX
rusty ADJ
.*ing VERB
.*s NOUN
Rose PROPN
rose VERB
al _
TAG4UNKN-WORD NOUN
TAG4UNKN-CAPITAL PROPN
TAG4UNKN-NUM NUM
"""
RULES = """True : object.conclusion = "NN"
\tobject.tag == "AUX" : object.conclusion = "AUX"
\t\tobject.prevWord1 == "the" : object.conclusion = "NOUN"
\t\t\tobject.prevWord1 == "the" and object.nextTag1 == "NOUN" : object.conclusion = "ADJ"
\t\tobject.prevTag1 == "ADJ" and object.prevWord2 == "the" : object.conclusion = "NOUN"
\tobject.tag == "VERB" : object.conclusion = "VERB"
\t\tobject.suffixL3 == "ing" and object.prevTag1 == "" : object.conclusion = "NOUN"
\tobject.word == "can" : object.conclusion = "NEVER"
"""


@pytest.mark.parametrize(
    ("sentence", "tags"),
    [
        ("dogs can run", "NOUN AUX NOUN"),
        ("the can", "DET NOUN"),
        ("the can lid", "DET ADJ NOUN"),  # an exception to an exception
        ("the rusty can", "DET ADJ NOUN"),
        ("old can", "NOUN AUX"),
        ("running", "NOUN"),  # nothing stands before it
        ("the running", "DET VERB"),
        ("the king ing", "DET VERB NOUN"),  # the ending alone is no word that ends so, and needs four letters
        ("the Rose rose", "DET PROPN VERB"),
        ("Rose Ann 12th", "VERB PROPN NUM"),  # a capital at the beginning says nothing
        ("al", "_"),
    ],
)
def test_lexicon_and_rules(sentence, tags):
    assert RippleRules(LEXICON, RULES).tags(sentence.split()) == tags.split()


def test_letters_that_are_words_of_their_own():
    rules = RippleRules(LEXICON, RULES, prefixes="xy")
    assert rules.tags("yxthe xrusty al".split()) == ["DET", "ADJ", "NOUN"]


def test_rules_of_another_form_are_refused():
    with pytest.raises(CapscoreError, match="TAG4UNKN-NUM"):
        RippleRules(LEXICON.replace("TAG4UNKN-NUM NUM\n", ""), RULES)
    with pytest.raises(CapscoreError, match="line 2"):
        RippleRules(
            LEXICON, 'True : object.conclusion = "NN"\n\tobject.colour == "red" : object.conclusion = "X"'
        )
    with pytest.raises(CapscoreError, match="line 2"):
        RippleRules(
            LEXICON, 'True : object.conclusion = "NN"\n\t\tobject.tag == "X" : object.conclusion = "X"'
        )


# Limits


@pytest.mark.parametrize("language", ["de", "en", "fr", "ja", "ko", "nl", "ru", "th", "tr", "zh"])
def test_no_text_takes_long(language):
    """Words that no lexicon has, of the length that takes longest; a single word; signs."""
    draw = random.Random(0)
    letters = {"ja": "あいうえ犬海", "ko": "가나다라", "th": "กขคงาเ", "zh": "的一是犬海", "ru": "абвгдежз"}
    own = letters.get(language, "abcdefghij")
    words = " ".join("".join(draw.choice(own) for _ in range(24)) for _ in range(200))
    tag(["a"], language)
    start = time.process_time()
    for text in (words, own[0] * 5000, own[1] + "'" * 4999, "!" * 5000, "1" * 5000):
        found = tag([text], language)[0]
        assert all(text[word.start : word.end] == word.text for word in found)
    assert time.process_time() - start < 8  # about a second for the first on a quiet machine, less for others


@pytest.mark.parametrize("language", ["de", "en", "fr", "nl", "ru", "tr"])
def test_a_tagger_sees_a_long_words_first_letter_and_its_end(language):
    end = "kirchenglocken" if language == "de" else "ationalization"
    short = "X" + "m" * (23 - len(end)) + end
    for letters in (25, 1000, 4000):
        long = "X" + "m" * (letters - 1 - len(end)) + end
        (word,) = tag([long], language)[0]
        assert (word.text, word.start, word.end) == (long, 0, letters)
        assert word.word_class == tag([short], language)[0][0].word_class


def test_words_up_to_the_limit_are_seen_whole(nothing_loaded, monkeypatch):
    seen = []

    def tagger(code):
        return taggers.Tagger(
            "spy", taggers._of_tokens("en", lambda tokens: seen.extend(tokens) or ["noun"] * len(tokens))
        )

    source = (), "spy", "nouns", tagger
    monkeypatch.setitem(word_classes._SOURCES, "en", source)
    tag([f"{'a' * 24} B{'c' * 24}de"], "en")
    assert seen == ["a" * 24, "B" + "c" * 21 + "de"]


def test_a_text_that_is_too_long_is_an_error_with_its_row():
    assert len(tag(["dog " * 1250], "en")[0]) == 1250
    with pytest.raises(InputError, match=r"row 1: a text of 5,001 characters: word classes are found in"):
        tag(["dog", "dog " * 1250 + "s"], "en")
    with pytest.raises(InputError, match="a text of 1,250,000 characters"):
        tag(["dogs " * 250_000], "en")
