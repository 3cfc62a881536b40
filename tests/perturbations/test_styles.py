"""`restyle`: what each style looks like, in every language, and what has no such form."""

import pytest

from capscore.errors import InputError
from capscore.perturbations.styles import PARAGRAPH, PHRASE, STYLES, restyle
from capscore.text.segmentation import words

from ..test_perturbation_laws import CAPTIONS, CASED, NO_TAGGER


@pytest.mark.parametrize("language", sorted({*CAPTIONS} - NO_TAGGER))
def test_every_language_has_every_style_that_it_can_have(language):
    caption = CAPTIONS[language]
    without = [] if language in CASED else ["title", "capitals"]
    without += [] if caption.endswith((".", "。")) else ["lower", "bare"]
    for style in STYLES[:-1]:
        found = restyle([caption, "...", caption], style, language)
        there = [row for row in (0, 2) if style not in without]
        assert [row for row in found.rows if row != 1] == there, style
        assert len(set(found.captions[: len(there) : 2])) <= 1
        assert all((text == caption) == (style == "given") and text.strip() for text in found.captions[:1])
    (phrase,) = restyle([caption], "nouns", language).captions
    assert 1 <= len(words(phrase, language)) <= PHRASE and phrase.lower() in caption.lower()
    back = restyle(["Two dogs run.", caption], "stopped", "en").captions
    assert restyle([caption, "Two dogs run."], "stopped", "en").captions == back[::-1]


@pytest.mark.parametrize(
    ("style", "language", "caption", "expected"),
    [
        ("lower", "en", "Two dogs, on Mary's well-kept lawn.", {"two dogs, on mary's well-kept lawn"}),
        ("bare", "en", "Two dogs, on Mary's well-kept lawn.", {"Two dogs on Mary's well-kept lawn"}),
        ("title", "en", "Two dogs, on Mary's well-kept lawn.", {"Two Dogs, On Mary's Well-kept Lawn."}),
        ("capitals", "en", "Two dogs on Mary's lawn.", {"TWO DOGS ON MARY'S LAWN."}),
        ("blanks", "en", "Two dogs.", {"Two dogs.  "}),
        ("lower", "tr", "Kırmızı bisikletli İki ILIK kız.", {"kırmızı bisikletli iki ılık kız"}),
        ("capitals", "tr", "İyi kız.", {"İYİ KIZ."}),
        # with and without the article
        ("nouns", "en", "Two big dogs play on the beach.", {"two big dogs", "big dogs"}),
        ("nouns", "en", "In the park, a dog runs.", {"the park", "park"}),
        ("nouns", "en", "A tennis player hits a ball.", {"a tennis player", "tennis player"}),
        ("nouns", "en", "The big old wet shiny heavy long dog sleeps.", set()),
        ("nouns", "de", "Der schwarze Hund rennt.", {"der schwarze Hund"}),
        ("nouns", "de", "Ein Hund rennt.", {"ein Hund", "Hund"}),
        ("nouns", "es", "Un perro marrón corre por la playa.", {"un perro marrón", "perro marrón"}),
        ("nouns", "zh", "一只棕色的狗在沙滩上奔跑。", {"一只棕色的狗", "棕色的狗"}),
        ("nouns", "ja", "茶色の犬が走っている。", {"茶色の犬"}),
        ("nouns", "tr", "Bir köpek kumsalda koşuyor.", {"bir köpek", "köpek"}),
        ("stopped", "de", "Der schwarze Hund rennt.", {"Der schwarze Hund."}),
        ("stopped", "tr", "İki köpek kumsalda koşuyor.", {"İki köpek.", "Köpek."}),
        ("stopped", "ja", "茶色の犬が走っている。", {"茶色の犬。"}),
        ("fragment", "en", "A man is running in the street.", {"running in the street"}),
        ("fragment", "en", "A dog runs fast.", {"runs fast"}),
        ("fragment", "en", "Two dogs.", set()),
        ("fragment", "de", "Ein Hund läuft im Park.", {"läuft im Park"}),
        ("fragment", "ja", "犬が赤いボールをくわえて走っている。", {"赤いボールをくわえて走っている"}),
    ],
)
def test_a_caption_in_a_style(style, language, caption, expected):
    found = restyle([caption], style, language).captions
    assert len(found) == min(1, len(expected)) and set(found) <= expected


def test_phrases_come_with_and_without_their_article():
    captions = [f"A {colour} dog runs." for colour in "red blue green black white brown grey pink".split()]
    found = restyle(captions, "nouns", "en").captions
    assert 0 < sum(text.startswith("a ") for text in found) < len(captions)


def test_a_paragraph_has_the_captions_of_one_photo():
    captions = ["a dog runs", "A cat sleeps.", "the dog is brown .", "a dog runs", "A man."]
    found = restyle(captions, "paragraph", "en", photos=["d", "c", "d", "d", "m"])
    assert found.captions == ["A dog runs. The dog is brown."] and found.rows == [0]
    chinese = restyle(["狗在跑", "棕色的狗。"], "paragraph", "zh", photos=[1, 1])
    assert chinese.captions == ["狗在跑。棕色的狗。"]
    long = [f"{number} {'word ' * 29}." for number in range(9)]
    (text,) = restyle(long, "paragraph", photos=[0] * 9).captions
    assert len(text.split()) == PARAGRAPH == 120


def test_texts_without_the_form_are_left_out_and_bad_input_is_named():
    found = restyle(["A dog", "dogs", "A cat"], "lower", "en")
    assert found.captions == ["a dog", "a cat"] and found.rows == [0, 2]
    with pytest.raises(InputError, match="style 'loud' is not one of given, lower"):
        restyle(["a dog"], "loud")
    with pytest.raises(InputError, match="1 photos for 2 captions"):
        restyle(["a dog", "a cat"], "paragraph", photos=["x"])
    with pytest.raises(InputError, match="blank") as caught:
        restyle(["a dog", ""], "lower")
    assert caught.value.row == 1
