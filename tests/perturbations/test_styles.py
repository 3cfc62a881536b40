"""`restyle`: what each style looks like, in every language, and what has no such form."""

import pytest

from capscore.errors import InputError
from capscore.perturbations.styles import PARAGRAPH, PHRASE, STYLES, restyle
from capscore.text.segmentation import words

from .test_by_degree import CAPTIONS

CASED = set(CAPTIONS) - {"ar", "ja", "ko", "zh"}


@pytest.mark.parametrize("language", CAPTIONS)
def test_every_language_has_every_style_that_it_can_have(language):
    caption = CAPTIONS[language]
    for style in STYLES[:-1]:
        found = restyle([caption], style, language)
        if style in ("title", "capitals") and language not in CASED:
            assert found.captions == [], style
        elif style in ("lower", "bare") and language == "ar":
            assert found.captions == [], "without case and stop it is the same"
        elif style == "fragment" and language == "fr":
            assert found.captions == [], "'court' is read as an adjective, so there is no verb"
        else:
            assert found.rows == [0] and found.captions[0].strip(), style
            assert (found.captions[0] == caption) == (style == "given")


def test_the_same_letters_in_another_style():
    caption = "Two dogs, one of them brown, play on Mary's well-kept lawn."
    expected = {
        "given": caption,
        "lower": "two dogs, one of them brown, play on mary's well-kept lawn",
        "bare": "Two dogs one of them brown play on Mary's well-kept lawn",
        "title": "Two Dogs, One Of Them Brown, Play On Mary's Well-kept Lawn.",
        "capitals": "TWO DOGS, ONE OF THEM BROWN, PLAY ON MARY'S WELL-KEPT LAWN.",
        "blanks": f"{caption}  ",
    }
    for style, text in expected.items():
        assert restyle([caption], style, "en").captions == [text]


def test_turkish_has_two_letters_i():
    lower = restyle(["Kırmızı bisikletli İki ILIK kız."], "lower", "tr").captions
    assert lower == ["kırmızı bisikletli iki ılık kız"]
    assert restyle(["İyi kız."], "capitals", "tr").captions == ["İYİ KIZ."]


@pytest.mark.parametrize(
    ("language", "caption", "phrases"),
    [
        ("en", "Two big dogs play on the beach.", {"two big dogs", "big dogs"}),
        ("en", "In the park, a dog runs.", {"the park", "park"}),
        ("en", "A tennis player hits a ball.", {"a tennis player", "tennis player"}),
        ("de", "Der schwarze Hund rennt.", {"der schwarze Hund"}),
        ("de", "Ein Hund rennt.", {"ein Hund", "Hund"}),
        ("es", "Un perro marrón corre por la playa.", {"un perro marrón", "perro marrón"}),
        ("zh", "一只棕色的狗在沙滩上奔跑。", {"一只棕色的狗", "棕色的狗"}),
        ("ja", "茶色の犬が走っている。", {"茶色の犬"}),
        ("tr", "Bir köpek kumsalda koşuyor.", {"bir köpek", "köpek"}),
    ],
)
def test_a_noun_with_what_belongs_to_it(language, caption, phrases):
    (phrase,) = restyle([caption], "nouns", language).captions
    assert phrase in phrases


@pytest.mark.parametrize(
    ("language", "caption", "phrases"),
    [
        ("en", "In the park, a dog runs.", {"The park.", "Park."}),
        ("de", "Der schwarze Hund rennt.", {"Der schwarze Hund."}),
        ("tr", "İki köpek kumsalda koşuyor.", {"İki köpek.", "Köpek."}),
        ("ja", "茶色の犬が走っている。", {"茶色の犬。"}),
    ],
)
def test_a_phrase_may_be_written_like_a_sentence(language, caption, phrases):
    (phrase,) = restyle([caption], "stopped", language).captions
    assert phrase in phrases


def test_phrases_come_with_and_without_their_article():
    captions = [f"A {colour} dog runs." for colour in "red blue green black white brown grey pink".split()]
    found = restyle(captions, "nouns", "en").captions
    assert 0 < sum(text.startswith("a ") for text in found) < len(captions)


@pytest.mark.parametrize("language", CAPTIONS)
def test_a_phrase_has_at_most_five_words(language):
    (phrase,) = restyle([CAPTIONS[language]], "nouns", language).captions
    assert 1 <= len(words(phrase, language)) <= PHRASE
    assert phrase.lower() in CAPTIONS[language].lower()


def test_a_long_run_of_words_is_no_phrase():
    assert restyle(["The big old wet shiny heavy long dog sleeps."], "nouns", "en").captions == []


@pytest.mark.parametrize(
    ("language", "caption", "fragments"),
    [
        ("en", "A man is running in the street.", ["running in the street"]),
        ("en", "Two dogs.", []),
        ("de", "Ein Hund läuft im Park.", ["läuft im Park"]),
        ("ja", "犬が赤いボールをくわえて走っている。", ["赤いボールをくわえて走っている"]),
    ],
)
def test_a_fragment_begins_with_the_verb_or_its_object(language, caption, fragments):
    assert restyle([caption], "fragment", language).captions == fragments


def test_a_paragraph_has_the_captions_of_one_photo():
    captions = ["a dog runs", "A cat sleeps.", "the dog is brown .", "a dog runs", "A man."]
    found = restyle(captions, "paragraph", "en", photos=["d", "c", "d", "d", "m"])
    assert found.captions == ["A dog runs. The dog is brown."] and found.rows == [0]
    chinese = restyle(["狗在跑", "棕色的狗。"], "paragraph", "zh", photos=[1, 1])
    assert chinese.captions == ["狗在跑。棕色的狗。"]


def test_a_paragraph_has_at_most_120_words():
    captions = [f"{number} {'word ' * 29}." for number in range(9)]
    (text,) = restyle(captions, "paragraph", photos=[0] * 9).captions
    assert len(text.split()) == PARAGRAPH == 120


def test_rows_tell_what_a_text_was_made_of():
    found = restyle(["A dog", "dogs", "A cat"], "lower", "en")
    assert found.captions == ["a dog", "a cat"] and found.rows == [0, 2]


def test_order_does_not_matter():
    captions = [CAPTIONS["en"], CAPTIONS["en"], "Two dogs run.", "A man rides a brown horse."]
    for style in STYLES[:-1]:
        there, back = restyle(captions, style), restyle(captions[::-1], style)
        assert there.captions == back.captions[::-1]


def test_bad_input_is_named():
    with pytest.raises(InputError, match="style 'loud' is not one of given, lower"):
        restyle(["a dog"], "loud")
    with pytest.raises(InputError, match="1 photos for 2 captions"):
        restyle(["a dog", "a cat"], "paragraph", photos=["x"])
    with pytest.raises(InputError, match="blank") as caught:
        restyle(["a dog", ""], "lower")
    assert caught.value.row == 1
