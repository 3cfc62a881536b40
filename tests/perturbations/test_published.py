"""The five published perturbations, against draws and definitions that are worked out here a second time."""

import random
import sys
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import capscore
from capscore import perturbations
from capscore.errors import CapscoreError, InputError, MissingExtraError
from capscore.perturbations import KINDS, MASK, ORDERS, P, find_nouns, perturb, word_finder
from capscore.perturbations.by_degree import by_degree
from capscore.perturbations.words import is_one_sign
from capscore.text import segmentation

LONG = "A small boat with a red sail drifts past the old stone bridge while two children wave from the bank"


def drawn_places(caption, n, seed=0, p=P):
    """Which of n words a seed draws: uniform numbers below p; one at least, and never all of several."""
    chance = random.Random(f"{seed}|draw|{caption}")
    numbers = [chance.random() for _ in range(n)]
    places = {place for place, number in enumerate(numbers) if number < p}
    if not places:
        return {min(range(n), key=numbers.__getitem__)}
    if n > 1 and len(places) == n:
        return places - {max(range(n), key=numbers.__getitem__)}
    return places


# words, with blanks also where they are written without
SPLIT = {
    **{"en": "Two goats climb a steep, stony hill.", "fr": "L'âne mange une pomme près du mur."},
    **{"ko": "소년이 공원에서 연을 날린다.", "ar": "قطة تنام على كرسي خشبي", "ja": "猫 が 椅子 で 寝る 。"},
    **{"zh": "小孩 在 公园 里 跑步", "th": "แมว นอน บน เก้าอี้"},
}


@pytest.mark.parametrize("language", SPLIT)
def test_each_language_by_its_definition(language):
    words, blank = SPLIT[language].split(), "" if language in ("ja", "zh", "th") else " "
    caption = blank.join(words)
    for seed in (0, 7):
        drawn = drawn_places(caption, len(words), seed)
        expected = {
            "repetition": [word for place, word in enumerate(words) for _ in range(1 + (place in drawn))],
            "removal": [word for place, word in enumerate(words) if place in drawn],
            "masking": [MASK if place in drawn else word for place, word in enumerate(words)],
            "jumble": random.Random(f"{seed}|jumble|{caption}").sample(words, len(words)),
        }
        for kind, pieces in expected.items():
            assert perturb([caption], kind, language, seed=seed).captions == [blank.join(pieces)], kind


def test_literal_results():
    """The seed's draws, below 0.4 for fox, a, an and under; the rest is the definition, by hand."""
    caption = "a fox waits under an old tree"
    chance = random.Random(f"1|draw|{caption}")
    assert [round(chance.random(), 2) for _ in range(7)] == [0.14, 0.09, 0.58, 0.37, 0.23, 0.55, 0.63]
    drawing = {"seed": 1, "words": "blanks", "p": 0.4, "draws": "shared"}
    found = {kind: perturb([caption], kind, seed=1) for kind in KINDS[:4]}
    assert {kind: result.captions[0] for kind, result in found.items()} == {
        "repetition": "a a fox fox waits under under an an old tree",
        "removal": "a fox under an",
        "masking": "[MASK] [MASK] waits [MASK] [MASK] old tree",
        "jumble": "tree waits fox a under old an",
    }
    assert found["masking"].settings == found["repetition"].settings == drawing
    assert found["removal"].settings == {**drawing, "removal": "keep"}
    assert found["jumble"].settings == {"seed": 1, "words": "blanks"}
    exchanged = perturb([caption], "substitution", objects=[["tree", "fox"]])
    assert exchanged.captions == ["a tree waits under an old fox"]
    assert exchanged.settings == {"seed": 0, "objects": "given", "order": "published"}


def test_p_is_the_share_of_the_words():
    captions = [f"{LONG} {number}" for number in range(500)]
    for p in (0.1, 0.4, 0.8):
        masked = perturb(captions, "masking", p=p).captions
        share = sum(text.split().count(MASK) for text in masked) / (500 * len(captions[0].split()))
        assert share == pytest.approx(p, abs=0.02)  # four standard deviations of 10,000 draws
    for p in (0, 0.9, 1):
        for caption in (LONG, "two words", "three small words"):
            text = perturb([caption], "masking", p=p).captions[0].split()
            drawn = drawn_places(caption, len(text), p=p)
            assert {place for place, word in enumerate(text) if word == MASK} == drawn


@pytest.mark.parametrize(
    ("caption", "language", "kind", "expected"),
    [
        *(("owl", "en", "repetition", "owl owl"), ("owl", "en", "removal", "owl")),
        *(("no no no no", "en", "jumble", "no no no no"), ("so long", "en", "jumble", "long so")),
        *(("...", "zh", "masking", "[MASK]"), ("👍🏽", "en", "repetition", "👍🏽 👍🏽")),
        *(("חתול ישן", "he", "jumble", "ישן חתול"), (" so \t long\n", "en", "jumble", " long \t so\n")),
        ("哈哈哈哈哈哈", "zh", "jumble", "哈哈哈哈哈哈"),  # 哈哈哈 twice
        ("哈哈哈 哈", "zh", "jumble", "哈 哈哈哈"),
    ],
)
def test_small_captions(caption, language, kind, expected):
    for seed in range(20):
        assert perturb([caption], kind, language, seed=seed).captions == [expected]


def test_white_space_between_words_that_stay_is_the_first():
    caption = "one  two\tthree   four"
    words, after = caption.split(), {0: "  ", 1: "\t", 2: "   "}
    for seed in range(20):
        drawn = sorted(drawn_places(caption, 4, seed))
        expected = "".join(words[place] + after[place] for place in drawn[:-1]) + words[drawn[-1]]
        assert perturb([caption], "removal", seed=seed).captions == [expected]
    thai, words = "แมวนอนบนเก้าอี้ หมาวิ่ง", ["แมว", "นอน", "บน", "เก้าอี้", "หมา", "วิ่ง"]
    drawn = drawn_places(thai, 6)
    parts = [word * (1 + (place in drawn)) for place, word in enumerate(words)]
    assert perturb([thai], "repetition", "th").captions == ["".join(parts[:4]) + " " + "".join(parts[4:])]


@pytest.mark.parametrize("sign", ["👨\u200d👩\u200d👧", "👍🏽", "❤\ufe0f", "か\u3099", "🇯🇵"])
def test_grapheme_clusters_are_never_cut(sign):
    for language in ("ja", "zh"):
        for seed in range(10):
            assert sign in perturb([f"犬と{sign}と猫"], "jumble", language, seed=seed).captions[0]
    assert is_one_sign("🇩🇪🇫", "🇷") and is_one_sign("🇩", "🇪")
    assert not is_one_sign("🇩🇪", "🇫") and not is_one_sign("🇩🇪🇫🇷", "🇯")


def test_captions_of_a_list_are_perturbed_as_those_of_a_file_are():
    texts = ["a dog runs on the beach", " ", "zwei Hunde"]
    found = capscore.perturb(texts, ["jumble", "masking"], seed=3, on_error="skip")
    table = found.to_pandas()
    first = [perturb(texts[:1], kind, seed=3).captions[0] for kind in found.kinds]
    assert list(table["caption"][:2]) == first
    assert list(table["original"][2:4]) == [" ", " "]
    assert found.to_dict()["perturbations"]["jumble"]["failed"] == 1
    assert "| jumble | 3 |" in found.markdown() and "not stated" in str(found)
    blank = "captions, row 1, counted from 0: caption: .*blank"
    for captions, message in ((texts, blank), ([], "no captions")):
        with pytest.raises(InputError, match=message):
            capscore.perturb(captions, "jumble")


@pytest.mark.parametrize(
    ("caption", "objects", "places", "missing"),
    [
        ("A dog at a dog house", ["dog", "dog house", "cat"], [(2, 5), (11, 20)], 1),
        *(("dogged by a dog", ["dog"], [(12, 15)], 0), ("three dogs", ["dog"], [(6, 9)], 0)),
        ("Dog sees dog", ["dog"], [(9, 12)], 0),
        *(("dog and dog", ["dog", [0, 3]], [(0, 3), (8, 11)], 0), ("dog", ["dog", "dog"], [(0, 3)], 1)),
        *(("a.b and axb", ["a.b"], [(0, 3)], 0), ("abc", ["bc", "ab"], [(0, 2)], 1)),
        *(("golf\n  course", [" golf course "], [(0, 13)], 0), ("cafe\u0301", ["café"], [(0, 5)], 0)),
        ("cafe\u0301", ["cafe"], [], 1),  # another word
        *(("straße", ["STRASSE", "STRAßE"], [(0, 6)], 1), ("👩\u200d👧", ["👩"], [], 1)),
        *(("犬が犬小屋にいる", ["犬", "犬小屋"], [(0, 1), (2, 5)], 0), ("a dog", ["", " "], [], 2)),
        ("a dog", np.array([[2, 5]]), [(2, 5)], 0),
    ],
)
def test_positions_of_objects(caption, objects, places, missing):
    for in_order in (objects, list(objects)[::-1]):
        found, not_found = perturbations.find_objects([caption], [in_order])
        assert found == [places] and not_found.tolist() == [missing]


def test_objects_without_another_one_leave_the_caption():
    captions = ["a dog", "a dog and a Dog", "a cafe\u0301 by a caf\u00e9", "a dog and a cat"]
    objects = [["dog", "bone"], ["dog", "Dog"], ["caf\u00e9", "cafe\u0301"], ["dog", "cat"]]
    for order in ORDERS:
        found = perturb(captions, "substitution", objects=objects, order=order)
        assert found.captions == [*captions[:3], "a cat and a dog"]
        assert found.unchanged.tolist() == [True, True, True, False]
        assert found.not_found.tolist() == [1, 0, 0, 0]
    # Khmer, which has no segmenter here
    assert perturb(["ឆ្កែ និង ឆ្មា"], "substitution", "km", objects=[["ឆ្កែ", "ឆ្មា"]]).captions == ["ឆ្មា និង ឆ្កែ"]


def orders(things, order, n):
    """The orders of a caption's objects that n seeds give, with how often."""
    caption, objects = " by ".join(things), [sorted(things)]
    made = [perturb([caption], "substitution", objects=objects, seed=seed, order=order) for seed in range(n)]
    return Counter(tuple(part.captions[0].split(" by ")) for part in made)


@pytest.mark.parametrize("things", [["cat", "dog", "man"], list("wxyz"), ["dog house", "dog", "do"]])
def test_all_other_orders_are_equally_likely_as_in_algorithm_1(things):
    others = set(permutations(things)) - {tuple(things)}
    found = orders(things, "published", 120 * len(others))
    assert set(found) == others and stats.chisquare(list(found.values())).pvalue > 0.001
    moved = {other for other in others if all(a != b for a, b in zip(things, other, strict=True))}
    assert len(others) > 5 or set(orders(things, "every", 100)) == moved
    assert set(orders(things, "every", 100)) <= moved


def test_equal_objects_are_one_to_an_order():
    found = orders(["dog", "dog", "cat"], "published", 600)
    assert set(found) == {("dog", "cat", "dog"), ("cat", "dog", "dog")}
    assert stats.binomtest(found["dog", "cat", "dog"], 600).pvalue > 0.001


some_things = st.sampled_from(["dog", "Dog", "dog house", "do", "a.b", "ß", "é"])


@given(st.lists(some_things, min_size=1, max_size=8), st.integers(0, 3), st.sampled_from(ORDERS))
def test_substitution_exchanges_objects_and_nothing_else(things, seed, order):
    caption = " (и) ".join(things)
    ends = np.cumsum([len(thing) for thing in things]) + 5 * np.arange(len(things))
    places = [(int(end) - len(thing), int(end)) for end, thing in zip(ends, things, strict=True)]
    result = perturb([caption], "substitution", objects=[places], seed=seed, order=order)
    found = result.captions[0].split(" (и) ")
    assert sorted(found) == sorted(things)
    most = max(Counter(thing.casefold() for thing in things).values())
    stayed = sum(a.casefold() == b.casefold() for a, b in zip(things, found, strict=True))
    assert result.unchanged.tolist() == [most == len(things)]
    if most < len(things):
        # with "every" each leaves its place, unless there are too many of a kind for the others' places
        fewest = max(0, 2 * most - len(things))
        assert stayed == fewest if order == "every" else fewest <= stayed <= len(things) - 2


@pytest.mark.parametrize(
    ("language", "caption", "nouns", "exchanged"),
    [
        ("de", "Ein Hund liegt neben einem Stock.", ["Hund", "Stock"], "Ein Stock liegt neben einem Hund."),
        ("ja", "犬が骨を噛む。", ["犬", "骨"], "骨が犬を噛む。"),
        ("zh", "男孩坐在公园里", ["男孩", "公园"], "公园坐在男孩里"),
        ("th", "แมวนอนบนเก้าอี้", ["แมว", "เก้าอี้"], "เก้าอี้นอนบนแมว"),
        ("ko", "소년이 공원에서 달린다.", ["소년", "공원"], "공원이 소년에서 달린다."),
    ],
)
def test_without_objects_nouns_are_swapped(language, caption, nouns, exchanged):
    assert [caption[start:end] for start, end in find_nouns([caption], language)[0]] == nouns
    result = perturb([caption], "substitution", language)
    assert result.captions == [exchanged]
    finder = perturbations.noun_finder(language)
    assert result.settings == {"seed": 0, "objects": finder, "order": "published"}
    assert perturb([caption], "substitution", language, objects=[nouns]).captions == [exchanged]


def test_compounds_are_one_where_they_are_written_as_one(monkeypatch):
    from capscore.text.word_classes import Word

    words = [Word("ab", 0, 2, "noun"), Word("cd", 2, 4, "noun"), Word("e", 5, 6, "noun")]
    monkeypatch.setattr("capscore.perturbations.objects.tag", lambda texts, language: [words])
    assert find_nouns(["abcd e"], "ja") == [[(0, 4), (5, 6)]]
    assert find_nouns(["abcd e"], "de") == [[(0, 2), (2, 4), (5, 6)]]


BAD = ["dog", None, [5], [(0.0, 3.0)], [b"ab"], [(0, 1, 2)], [(3, 99)], [(2, 2)], [(-1, 2)], [(0, 3), [2, 5]]]


@pytest.mark.parametrize("objects", BAD)
def test_bad_objects_are_named_with_their_row(objects):
    with pytest.raises(InputError) as caught:
        perturb(["a dog", "a cat"], "substitution", objects=[["dog"], objects])
    assert (caught.value.row, caught.value.field) == (1, "objects")
    for too_few in ([["dog"]], "do"):
        with pytest.raises(InputError, match="for 2 captions"):
            perturb(["a dog", "a cat"], "substitution", objects=too_few)


WRONG = [*(("p", p, f"p={p}") for p in (1.1, -0.1, float("nan"), True)), ("order", None, "published, every")]
WRONG += [("kind", "shuffle", "'shuffle' is not one of repetition"), ("language", "km", "Khmer .'km'.")]


@pytest.mark.parametrize(("option", "value", "message"), WRONG)
def test_bad_settings(option, value, message):
    with pytest.raises(CapscoreError, match=message):
        perturb(["a dog"], **{"kind": "masking", option: value})


def test_sets_of_kinds():
    assert perturbations.chosen_kinds(["typos", "paper", "typos"]) == ("typos", *KINDS)
    with pytest.raises(InputError, match="kind"):
        perturbations.chosen_kinds([])


def test_seeds_of_any_size_and_type():
    for seed in (-1, 10**30, np.int64(-1)):
        result = perturb([LONG], "masking", seed=seed, p=np.float32(0.4))
        drawn = drawn_places(LONG, len(LONG.split()), int(seed))
        assert [n for n, word in enumerate(result.captions[0].split()) if word == MASK] == sorted(drawn)
        assert (type(result.settings["seed"]), type(result.settings["p"])) == (int, float)


def test_the_word_finder_of_a_language(monkeypatch):
    assert [word_finder(code) for code in (None, "de", "ko", "vi")] == ["blanks"] * 4
    assert word_finder("ja") == segmentation.segmenter_name("ja")
    for package in ("mecab_ko", "fugashi"):
        monkeypatch.setitem(sys.modules, package, None)
    segmentation._load.cache_clear()
    try:
        assert perturb(["소년이 달린다"], "jumble", "ko").captions == ["달린다 소년이"]
        with pytest.raises(MissingExtraError, match=r"\[ja\]'"):
            perturb(["犬が走る"], "jumble", "ja")
    finally:
        segmentation._load.cache_clear()


def test_a_masked_word_is_not_drawn_again():
    found = {perturb(["[MASK] a dog"], "masking", "en", seed=seed, p=0.1).captions[0] for seed in range(20)}
    assert found == {"[MASK] [MASK] dog", "[MASK] a [MASK]"}


def test_a_caption_too_long_to_tag_is_skipped_where_the_language_is_stated_too():
    texts = ["a dog runs", "a dog " * 834]
    for stated in ({}, {"language": "en"}):
        found = capscore.perturb(texts, ["negation"], on_error="skip", **stated)
        assert [*found.failures] == [1] and next(found.rows())["caption"] == "a dog does not run"
        with pytest.raises(InputError, match=r"captions, row 1, counted from 0: .*5,00[0-9] characters"):
            capscore.perturb(texts, ["negation"], **stated)


WORDS = [f"w{number}" for number in range(10)]


def made(kind, degree, **objects):
    found = by_degree([" ".join(WORDS)], kind, degree=degree, seed=1, **objects)
    return found.captions[0].split(), found.touched.tolist()


def test_each_kind_touches_the_share_that_it_says():
    repeated, touched = made("repetition", 0.3)
    twice = [word for word in WORDS if repeated.count(word) == 2]
    assert repeated == [word for word in WORDS for _ in range(1 + (word in twice))]
    assert (len(twice), touched) == (3, [0.3])
    removed, touched = made("removal", 0.3)
    assert removed == [word for word in WORDS if word in removed] and (len(removed), touched) == (7, [0.3])
    masked, touched = made("masking", 0.25)  # 2.5 words, rounded up
    assert (masked.count(MASK), touched) == (3, [0.3])
    jumbled, touched = made("jumble", 0.3)
    assert sorted(jumbled) == WORDS and touched == [0.3]
    assert sum(a != b for a, b in zip(jumbled, WORDS, strict=True)) == 3
    exchanged, touched = made("substitution", 0.5, objects=[WORDS[::2]])  # 2.5 of five objects, rounded up
    moved = [number for number, word in enumerate(exchanged) if word != WORDS[number]]
    assert len(moved) == 3 and all(number % 2 == 0 for number in moved) and touched == [0.3]


def test_everything_may_be_touched_and_nothing_becomes_empty():
    caption = "  a\tb c d  "
    assert by_degree([caption], "repetition", degree=1).captions == ["  a a\tb b c c d d  "]
    assert by_degree([caption], "masking", degree=1).captions == [f"  {MASK}\t{MASK} {MASK} {MASK}  "]
    assert len(by_degree([caption], "removal", degree=1).captions[0].split()) == 1
    jumbled = by_degree([caption], "jumble", degree=1)
    assert all(a != b for a, b in zip(jumbled.captions[0].split(), caption.split(), strict=True))
    assert jumbled.touched.tolist() == [1]


SAME = {"removal": "dog", "jumble": "ha Ha ha", "masking": f"{MASK} {MASK}", "substitution": "dog or Dog"}


@pytest.mark.parametrize(("kind", "caption"), SAME.items())
def test_a_caption_that_cannot_change_has_degree_zero(kind, caption):
    given = {"objects": [["dog", "Dog"], ["men", "horse"]]} if kind == "substitution" else {}
    found = by_degree([caption, "two men ride one horse"], kind, degree=0.5, **given)
    assert found.captions[0] == caption and found.unchanged.tolist() == [True, False]
    assert found.touched[0] == 0 < found.touched[1]


def test_least_degree_changes_a_caption_whose_first_drawn_words_are_equal():
    captions = [f"{'very ' * 30}tall man number {number}" for number in range(20)]
    assert not by_degree(captions, "jumble", degree=0.01).unchanged.any()


def test_substitution_takes_nouns_where_no_objects_are_given():
    found = by_degree(["A dog chases a ball."], "substitution", "en", degree=0.5)
    assert found.captions == ["A ball chases a dog."]
    np.testing.assert_allclose(found.touched, [0.4])


@pytest.mark.parametrize("degree", [0, 1.1, True, "half", float("nan"), None])
def test_a_degree_is_a_share(degree):
    with pytest.raises(CapscoreError, match="degree="):
        by_degree(["a dog"], "jumble", degree=degree)
