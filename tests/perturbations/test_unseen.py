"""Kinds of noise beyond the published five, and styles: what each does, in which languages."""

import re
from collections import Counter

import pytest

from capscore.errors import InputError
from capscore.perturbations.kinds import perturb
from capscore.perturbations.styles import PARAGRAPH, PHRASE, STYLES, restyle
from capscore.perturbations.unseen import common_nouns
from capscore.text.segmentation import words

from ..test_perturbation_laws import CAPTIONS, CASED, NO_TAGGER


def of_seeds(caption, kind, language="en", n=12):
    return [perturb([caption], kind, language, seed=seed).captions[0] for seed in range(n)]


def test_neighbours_swaps_two_words_and_leaves_punctuation():
    found = set(of_seeds("A cat, asleep, dreams.", "neighbours", n=20))
    assert found == {"cat A, asleep, dreams.", "A asleep, cat, dreams.", "A cat, dreams, asleep."}
    for caption in ("fish", "fish, fish!"):
        assert set(of_seeds(caption, "neighbours")) == {caption}


def test_a_typo_swaps_drops_or_doubles_one_letter():
    lengths = set()
    for text in of_seeds("ab horse", "typos", n=30):
        first, second = text.split()
        assert first == "ab" and second != "horse"  # too short
        before, after = Counter("horse"), Counter(second)
        assert sum(((before - after) + (after - before)).values()) == {4: 1, 5: 0, 6: 1}[len(second)]
        lengths.add(len(second))
    assert lengths == {4, 5, 6}
    long = "some people watch birds above quiet water", "seven people watch birds above some quiet water"
    for typos, caption in enumerate(long, start=1):
        for text in of_seeds(caption, "typos"):
            assert sum(a != b for a, b in zip(caption.split(), text.split(), strict=True)) == typos
    # marks stay with their letters
    assert not re.search(r"(?:^|\s)[\u093e-\u094d]", "\n".join(of_seeds("नीली किताब", "typos", "hi", 20)))


def test_in_japanese_a_character_becomes_its_neighbour():
    expected = "がが走る。 犬犬走る。 犬走走る。 犬ががる。 犬がるる。 犬が走走。"
    assert set(of_seeds("犬が走る。", "typos", "ja", 40)) == set(expected.split())


@pytest.mark.parametrize(
    ("language", "caption", "expected"),
    [
        ("en", "Two dogs and a cat", "(Three|Four|Five|Six|Seven|Eight|Nine|Ten) dogs and a cat"),
        ("en", "bus 42 stops", r"bus (?!42)[1-9]\d stops"),
        *(("en", "a 3.5 inch disk", "a 3.5 inch disk"), ("en", "one dog", "one dog")),
        *(("en", "twofold", "twofold"), ("fr", "un vélo neuf", "un vélo neuf")),
        ("ru", "две кошки", "(три|четыре) кошки"),
        ("ru", "пять собак", "(шесть|семь|восемь|девять|десять) собак"),
        *(("pl", "dwaj chłopcy", "dwaj chłopcy"), ("ja", "二人の男性", "[一三四五六七八九]人の男性")),
        *(("ja", "二十人の男性", "二十人の男性"), ("ja", "３人の男性", "[２４-９]人の男性")),
        *(("zh", "两个男人", "[三四五六七八九]个男人"), ("zh", "一个男人", "一个男人")),
        ("ko", "두 마리의 개", "(세|네|다섯|여섯|일곱|여덟|아홉|열) 마리의 개"),
        ("th", "สุนัข3ตัว", "สุนัข[24-9]ตัว"),
    ],
)
def test_numbers(language, caption, expected):
    assert all(re.fullmatch(expected, text) for text in of_seeds(caption, "number", language, 30))


def test_another_number_has_as_many_digits():
    numbers = {int(text.split()[0]) for text in of_seeds("12 dogs", "number", "en", 900)}
    assert min(numbers) == 10 and max(numbers) == 99 and 12 not in numbers


PAST = {"sang": "sing", "slept": "sleep", "fell": "fall"}


@pytest.mark.parametrize(
    ("language", "caption", "expected"),
    [
        ("en", "A man is riding a horse.", "A man is not riding a horse."),
        ("en", "A man watches a horse.", "A man does not watch a horse."),
        ("en", "A man riding a horse.", "A man not riding a horse."),
        ("en", "A dog runs on the beach.", "A dog does not run on the beach."),
        ("en", "A man has a hat.", "A man does not have a hat."),
        ("en", "A man has lost a hat.", "A man has not lost a hat."),
        *(("en", f"A girl {was} there", f"A girl did not {verb} there") for was, verb in PAST.items()),
        ("en", "A dog in the snow", "A dog not in the snow"),
        *(("en", "in the snow a dog on grass", "in the snow a dog not on grass"), ("en", "...", "...")),
        ("de", "Ein Hund läuft.", "Kein Hund läuft."),
        ("de", "Die Hunde liegen auf dem Sofa.", "Die Hunde liegen nicht auf dem Sofa."),
        ("de", "Die Kinder spielen!", "Die Kinder spielen nicht!"),
        ("de", "Er steigt ein.", "Er steigt ein nicht."),
        ("fr", "Un homme est assis.", "Un homme n’est pas assis."),
        ("fr", "Un homme mange une pomme.", "Un homme ne mange pas une pomme."),
        ("es", "Un hombre está sentado.", "Un hombre no está sentado."),
        *(("it", "Si siede.", "Non si siede."), ("ja", "猫がいます。", "猫がいません。")),
        *(("ja", "走る犬", "走る犬"), ("zh", "一个男人站在街上", "一个男人没有站在街上")),
        *(("zh", "兩個男人正在騎馬", "兩個男人沒有在騎馬"), ("zh", "这是狗", "这不是狗")),
        *(("zh", "猫在桌子上", "猫不在桌子上"), ("cs", "Pes je na louce.", "Pes není na louce.")),
        ("ko", "고양이가 있다", "고양이가 없다"),
        ("tr", "Evde bir köpek var.", "Evde bir köpek yok."),
        ("sv", "en hund springer", "ingen hund springer"),
        *(("th", "สุนัขกำลังวิ่ง", "สุนัขไม่ได้กำลังวิ่ง"), ("th", "บ้านมีแมว", "บ้านไม่มีแมว")),
    ],
)
def test_negations(language, caption, expected):
    assert perturb([caption], "negation", language).captions == [expected]
    if expected != caption and language != "cs":  # what is negated is not negated again
        assert perturb([expected], "negation", language).captions == [expected]


NEGATED = {
    "en": ["A dog isn't running", "A man can’t swim", "No dog runs", "nobody sings"],
    "fr": ["Il n'y a pas de chien", "L’homme ne court pas", "aucun chien ne court"],
    "ar": ["الكلب لا يجري"], "cs": ["Pes neběží", "Pes není na louce."], "da": ["ingen hund"],
    "de": ["Niemand läuft"], "es": ["no hay perros"], "he": ["הכלב לא רץ"], "id": ["anjing tidak berlari"],
    "it": ["Il cane non corre"], "ko": ["개가 없다"], "nl": ["geen hond"], "pl": ["Pies nie biegnie"],
    "pt": ["O cão não corre"], "ro": ["Câinele nu aleargă"], "ru": ["Кот не спит"], "sv": ["ingen hund"],
    "th": ["สุนัขไม่ได้วิ่ง"], "tr": ["Köpek koşmuyor"], "uk": ["Кіт не спить"],
    "zh": ["没有人在跑步", "他没有跑", "他沒有跑", "这不是狗"],
}  # fmt: skip


@pytest.mark.parametrize("language", NEGATED)
def test_negated_captions_stay(language):
    assert perturb(NEGATED[language], "negation", language).captions == NEGATED[language]


def test_a_foreign_word_is_the_counterpart_of_a_common_noun_or_any():
    nouns = common_nouns()
    assert len(nouns) == 24 and all(len(row) == 16 and all(row.values()) for row in nouns)
    (dogs,) = (set(row.values()) for row in nouns if row["en"] == "dog")
    assert {*of_seeds("the dog barks", "foreign")} <= {f"the {word} barks" for word in dogs - {"dog"}}
    foreign = {word.lower() for row in nouns for language, word in row.items() if language != "en"}
    for text in of_seeds("somebody jumps", "foreign"):
        (changed,) = {*text.split()} - {"somebody", "jumps"}
        assert changed.lower() in foreign


def test_truncation_cuts_30_to_50_percent():
    for n in (1, 2, 3, 4, 10, 33):
        caption = "  ".join(f"w{number}" for number in range(n))
        shorter = [text for text in of_seeds(caption, "truncation", n=40) if caption.startswith(text)]
        cuts = {n - len(text.split()) for text in shorter}
        assert cuts == ({cut for cut in range(n) if 0.3 * n <= cut <= 0.5 * n} or {0})


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
    for texts, style, photos, message in (
        (["a dog"], "loud", None, "style 'loud' is not one of given, lower"),
        (["a dog", "a cat"], "paragraph", ["x"], "1 photos for 2 captions"),
        (["a dog", ""], "lower", None, "row 1, .*blank"),
    ):
        with pytest.raises(InputError, match=message):
            restyle(texts, style, photos=photos)
