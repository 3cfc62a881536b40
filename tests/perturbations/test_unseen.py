"""Kinds of noise beyond the published five: what each does, in which languages, and to nothing else."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.errors import CapscoreError, InputError
from capscore.perturbations.kinds import UNSEEN_KINDS as KINDS
from capscore.perturbations.kinds import has_rules, perturb
from capscore.perturbations.unseen import common_nouns

CAPTIONS = {
    "en": "Two brown dogs are running on the wet beach near a red ball.",
    "de": "Zwei braune Hunde laufen mit einem Ball über den nassen Strand.",
    "fr": "Deux chiens bruns courent sur la plage avec un ballon rouge.",
    "es": "Dos perros marrones corren por la playa con una pelota roja.",
    "ja": "二匹の茶色い犬が浜辺でボールを追いかけている。",
    "zh": "两只棕色的狗在海滩上追着一个红色的球。",
}


def one(caption, kind, language, seed=0):
    return perturb([caption], kind, language, seed=seed).captions[0]


@pytest.mark.parametrize("language", CAPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_changes_an_ordinary_caption(kind, language):
    found = perturb([CAPTIONS[language]] * 2, kind, language, seed=3)
    assert found.captions[0] != CAPTIONS[language]
    assert found.captions[0] == found.captions[1]
    assert found.unchanged.tolist() == [False, False]
    assert (found.kind, found.language) == (kind, language)
    assert found.settings["rules"] == "unseen1" and found.settings["seed"] == 3


@pytest.mark.parametrize("seed", range(8))
def test_neighbours_swaps_two_words_and_leaves_punctuation(seed):
    caption = "A cat, asleep, dreams of fish."
    found = one(caption, "neighbours", "en", seed)
    before, after = (re.findall(r"\w+", text) for text in (caption, found))
    places = [n for n, pair in enumerate(zip(before, after, strict=True)) if len(set(pair)) > 1]
    assert places == [places[0], places[0] + 1]
    assert [after[places[1]], after[places[0]]] == [before[n] for n in places]
    assert re.sub(r"\w+", "", found) == re.sub(r"\w+", "", caption)


@pytest.mark.parametrize("caption", ["fish", "fish fish", "fish, fish!"])
def test_neighbours_without_two_words_are_counted(caption):
    found = perturb([caption], "neighbours", "en")
    assert found.captions == [caption] and found.unchanged.tolist() == [True]


@pytest.mark.parametrize("seed", range(12))
def test_a_typo_swaps_drops_or_doubles_one_letter(seed):
    found = one("ab horse", "typos", "en", seed)
    first, second = found.split()
    assert first == "ab"  # too short
    before, after = Counter("horse"), Counter(second)
    assert second != "horse"
    assert sum(((before - after) + (after - before)).values()) == {4: 1, 5: 0, 6: 1}[len(second)]


def test_long_captions_get_two_typos():
    caption = "several people watch birds above some quiet water"
    pairs = zip(caption.split(), one(caption, "typos", "en").split(), strict=True)
    assert sum(a != b for a, b in pairs) == 2


@pytest.mark.parametrize("seed", range(6))
def test_in_japanese_a_character_becomes_its_neighbour(seed):
    caption = "犬が走る。"
    found = one(caption, "typos", "ja", seed)
    (n,) = [n for n in range(len(caption)) if found[n] != caption[n]]
    assert found[n] in (caption[n - 1 : n], caption[n + 1 : n + 2])
    assert found.endswith("。")


def test_marks_stay_with_their_letters():
    for seed in range(20):
        found = one("नीली किताब", "typos", "hi", seed)
        assert not re.search(r"(?:^|\s)[\u093e-\u094d]", found)


@pytest.mark.parametrize(
    ("language", "caption", "expected"),
    [
        ("en", "Two dogs and a cat", r"(Three|Four|Five|Six|Seven|Eight|Nine|Ten) dogs and a cat"),
        ("en", "bus 42 stops", r"bus (?!42)[1-9]\d stops"),
        ("en", "a 3.5 inch disk", None),
        ("en", "one dog", None),
        ("en", "twofold", None),
        (
            "de",
            "Ein Hund und drei Katzen",
            r"Ein Hund und (zwei|vier|fünf|sechs|sieben|acht|neun|zehn) Katzen",
        ),
        ("fr", "un vélo neuf", None),
        ("ru", "две кошки", r"(три|четыре) кошки"),
        ("ru", "пять собак", r"(шесть|семь|восемь|девять|десять) собак"),
        ("pl", "dwaj chłopcy", None),
        ("ar", "ثلاثة رجال", r"(أربعة|خمسة|ستة|سبعة|ثمانية|تسعة|عشرة) رجال"),
        ("ja", "二人の男性", r"[一三四五六七八九]人の男性"),
        ("ja", "二十人の男性", None),
        ("ja", "3人の男性", r"[245-9]人の男性"),
        ("ja", "３人の男性", r"[２４-９]人の男性"),
        ("zh", "两个男人", r"[三四五六七八九]个男人"),
        ("zh", "一个男人", None),
        ("ko", "두 마리의 개", r"(세|네|다섯|여섯|일곱|여덟|아홉|열) 마리의 개"),
        ("th", "สุนัขสองตัว", r"สุนัข(สาม|สี่|ห้า|หก|เจ็ด|แปด|เก้า|สิบ)ตัว"),
    ],
)
def test_numbers(language, caption, expected):
    for seed in range(6):
        found = perturb([caption], "number", language, seed=seed)
        if expected is None:
            assert found.captions == [caption] and found.unchanged.all()
        else:
            assert re.fullmatch(expected, found.captions[0]), found.captions[0]


@pytest.mark.parametrize(
    ("language", "caption", "expected"),
    [
        ("en", "A man is riding a horse.", "A man is not riding a horse."),
        ("en", "A man riding a horse.", "A man not riding a horse."),
        ("en", "A dog runs on the beach.", "A dog does not run on the beach."),
        ("en", "A man has a hat.", "A man does not have a hat."),
        ("en", "A man has lost a hat.", "A man has not lost a hat."),
        ("en", "A dog in the snow", "A dog not in the snow"),
        ("de", "Ein Hund läuft.", "Kein Hund läuft."),
        ("de", "Die Hunde liegen auf dem Sofa.", "Die Hunde liegen nicht auf dem Sofa."),
        ("de", "Die Kinder spielen!", "Die Kinder spielen nicht!"),
        ("nl", "een hond", "geen hond"),
        ("fr", "Un homme est assis.", "Un homme n’est pas assis."),
        ("fr", "Un homme mange une pomme.", "Un homme ne mange pas une pomme."),
        ("es", "Un hombre está sentado.", "Un hombre no está sentado."),
        ("ja", "犬が走っている。", "犬が走っていない。"),
        ("ja", "猫がいます。", "猫がいません。"),
        ("ja", "走る犬", "走る犬"),
        ("zh", "一个男人站在街上", "一个男人没有站在街上"),
        ("zh", "兩個男人正在騎馬", "兩個男人沒有在騎馬"),
        ("ru", "Собака бежит по снегу.", "Собака не бежит по снегу."),
        ("cs", "Pes je na louce.", "Pes není na louce."),
        ("ko", "개가 달리고 있다.", "개가 달리고 있지 않다."),
        ("ko", "고양이가 있다", "고양이가 없다"),
        ("tr", "Bir köpek koşuyor.", "Bir köpek koşuyor değil."),
        ("sv", "en hund springer", "ingen hund springer"),
        ("th", "สุนัขสองตัววิ่งบนหญ้า", "สุนัขสองตัวไม่ได้วิ่งบนหญ้า"),
        ("th", "สุนัขกำลังวิ่ง", "สุนัขไม่ได้กำลังวิ่ง"),
        ("th", "บ้านมีแมว", "บ้านไม่มีแมว"),
    ],
)
def test_negations(language, caption, expected):
    found = perturb([caption], "negation", language)
    assert found.captions == [expected]
    assert found.unchanged.tolist() == [caption == expected]


def test_a_foreign_word_is_the_counterpart_where_it_is_has_rules():
    dogs = {row["en"]: set(row.values()) for row in common_nouns()}["dog"]
    for seed in range(10):
        first, second, third = one("the dog barks", "foreign", "en", seed).split()
        assert (first, third) == ("the", "barks")
        assert second in dogs - {"dog"}


def test_without_a_common_noun_any_word_becomes_one():
    every = {word for row in common_nouns() for language, word in row.items() if language != "en"}
    for seed in range(10):
        changed = set(one("somebody jumps", "foreign", "en", seed).split()) - {"somebody", "jumps"}
        assert len(changed) == 1 and changed.pop().lower() in {word.lower() for word in every}


def test_every_row_of_nouns_is_one_word_in_every_language():
    assert len(common_nouns()) == 24
    assert all(len(row) == 16 and all(row.values()) for row in common_nouns())


@given(st.integers(1, 40), st.integers(0, 5))
def test_truncation_cuts_30_to_50_percent(n, seed):
    caption = "  ".join(f"w{number}" for number in range(n))
    found = one(caption, "truncation", "en", seed)
    assert caption.startswith(found)
    cut = n - len(found.split())
    assert cut == 0 if n == 1 else 0.3 * n <= cut <= 0.5 * n


@given(st.permutations(list(CAPTIONS)), st.sampled_from(["neighbours", "typos", "foreign", "truncation"]))
def test_a_caption_comes_out_the_same_wherever_it_stands(order, kind):
    texts = [CAPTIONS[language] for language in order]
    together = perturb(texts, kind, "en", seed=1).captions
    assert together == [one(text, kind, "en", 1) for text in texts]


def test_the_seed_matters():
    assert len({one(CAPTIONS["en"], "neighbours", "en", seed) for seed in range(20)}) > 3


def test_a_language_without_rules_is_told():
    assert not has_rules("negation", "sw") and has_rules("foreign", "sw")
    with pytest.raises(InputError, match=r"^language: there are no rules for 'negation' in Swahili \('sw'\)"):
        perturb(["Mbwa anakimbia."], "negation", "sw")


@pytest.mark.parametrize(
    ("captions", "kind", "seed", "message"),
    [
        (["a cat"], "typo", 0, r"'typo' is not one of .*"),
        (["a cat"], "typos", 0.5, "seed=0.5: expected a whole number"),
        (["a cat", " "], "typos", 0, "row 1, caption: the caption is blank"),
        ("a cat", "typos", 0, "is one string; expected a list of captions"),
    ],
)
def test_bad_input(captions, kind, seed, message):
    with pytest.raises(CapscoreError, match=message):
        perturb(captions, kind, "en", seed=seed)
