"""Wrong words planted in invented captions, and the clauses that are dropped, by hand."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weights.measuring.believable_marks import language_cases
from weights.measuring.planting import KINDS, LANGUAGES, RULES, TABLES, Planted, drop_clause, mentions, plant

GROUPS = {concept.name: concept.group for concept in TABLES["nouns"]}


def outcomes(caption, language, kind, **others):
    """Every word that is ever planted in a caption, as written."""
    captions = {language: [caption], **others}
    found = [plant(captions, language, kind, random.Random(seed)) for seed in range(200)]
    return {planted.caption[planted.start : planted.end] for planted in found if planted}


def test_every_concept_that_is_named_is_in_the_tables():
    names = [concept.name for table in TABLES.values() for concept in table]
    assert len(names) == len(set(names))
    also, groups = RULES["also"], set(GROUPS.values())
    assert {*also, *(other for others in also.values() for other in others), *RULES["motion"]} <= set(names)
    assert set(RULES["far"]) == groups
    assert all(group not in others and set(others) <= groups for group, others in RULES["far"].items())


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_form_of_a_table_belongs_to_two_concepts(language):
    for table in TABLES.values():
        owner = {}
        for concept in table:
            for form in (form for variant in concept.variants[language] for form in variant.forms.values()):
                assert owner.setdefault(form.lower(), concept.name) == concept.name, form


@pytest.mark.parametrize(
    ("caption", "language", "kind", "expected"),
    [
        # an after "a" or "an" stays right; elephant does not come after "a"
        ("An elephant sleeps .", "en", "same_kind", set()),
        # masculine, and the same in the nominative and the accusative: neither Affe nor Elefant
        ("Ein Hund schläft.", "de", "same_kind", {"Vogel", "Fisch", "Tiger", "Esel"}),
        ("Er sieht Affen.", "de", "same_kind", {"Elefanten", "Bären"}),  # one or many
        ("Ein Junge schläft.", "de", "same_kind", {"Mann"}),
        ("Er sitzt bei zwei Hunden.", "de", "same_kind",
         {"Vögeln", "Elefanten", "Affen", "Bären", "Tigern", "Eseln", "Fischen"}),
        # before a vowel only vowels: l'
        ("L' homme dort.", "fr", "blatant", {"avion", "œuf", "oreiller"}),
        ("Une vache dort.", "fr", "same_kind", {"chèvre", "girafe"}),
        ("en train de dormir", "fr", "blatant", set()),
        # gender
        ("Toro o cabra", "es", "same_kind", {"jirafa"}),  # or "u oveja"
        # the measure word
        ("一条狗在睡觉。", "zh", "same_kind", {"鱼"}),
        ("这是热狗。", "zh", "same_kind", set()),
        # colours
        ("Ein schwarzer Hund.", "de", "colour", {"roter", "blauer", "grüner", "gelber", "weißer", "brauner"}),
        ("Camisas azuis.", "pt", "colour", {"verdes", "marrons"}),
        # verbs
        ("A man sleeps on sand", "en", "verb",
         {"runs", "jumps", "walks", "swims", "dances", "sings", "climbs", "plays", "sits", "stands",
          "kneels"}),
        ("A man climbs into it", "en", "verb", {"jumps", "swims", "dances", "runs"}),
        ("Elle veut danser.", "fr", "verb",
         {"courir", "sauter", "marcher", "nager", "grimper"}),
        ("女孩坐在地上。", "zh", "verb", {"走在", "睡在", "站在"}),
        # numbers
        ("Duas garotas", "pt", "number", {"Quatro", "Cinco", "Seis", "Sete"}),
        ("五只狗", "zh", "number", {"三", "七"}),
        ("五颜六色的狗", "zh", "number", set()),
    ],
)  # fmt: skip
def test_planted_words_agree_with_their_captions(caption, language, kind, expected):
    assert outcomes(caption, language, kind) == expected


def test_one_planted_word_in_full_and_none_without_a_word_of_the_lexicon():
    photo = {"en": ["Two dogs run ."], "fr": ["Cinq chiens"]}
    found = plant(photo, "en", "number", random.Random(0))
    assert found == Planted("Seven dogs run .", "Two dogs run .", 0, 5, "7")
    for captions in ({"en": ["Something quite remarkable ."]}, {"de": ["Ein Hund."]}):
        assert all(plant(captions, "en", kind, random.Random(0)) is None for kind in KINDS)


# what each is said to show is written by hand, not read from the tables
MENTIONED = [
    ("en", "Two kittens .", {"cat"}),
    ("en", "an orange coat", {"jacket"}),
    ("de", "Ein Spielzeugauto.", {"car"}),
    ("de", "drei Kühe", {"cow"}),
    ("fr", "l'avion", {"airplane"}),
    ("es", "dos sillas", {"chair"}),
    ("pt", "pães e bolos", {"cake"}),
    ("zh", "公共汽车", {"bus", "car"}),
    ("zh", "披萨", {"pizza"}),
]


@pytest.mark.parametrize(("language", "text", "names"), MENTIONED)
def test_things_that_a_caption_mentions(language, text, names):
    assert mentions({language: [text], "ar": ["…"]}, "nouns") == names


@settings(max_examples=20)
@given(
    said=st.lists(st.sampled_from(MENTIONED), max_size=8),
    kind=st.sampled_from(["blatant", "same_kind"]),
    seed=st.integers(0, 10_000),
)
def test_nothing_that_is_mentioned_in_another_language_is_planted(said, kind, seed):
    captions = {"en": ["A dog"]}
    for code, text, _ in said:
        if code != "en":
            captions.setdefault(code, []).append(text)
    found = plant(captions, "en", kind, random.Random(seed))
    mentioned = {name for code, _, names in said if code != "en" for name in names}
    assert found.original == "A dog" and found.concept not in {"dog", *mentioned}
    assert (GROUPS[found.concept] == "animal") == (kind == "same_kind")


def test_words_for_the_same_thing_are_not_planted():
    assert "boy" not in outcomes("A woman smiles .", "en", "same_kind", de=["Ein Kind."])
    assert "boy" in outcomes("A woman smiles .", "en", "same_kind", de=["Ein Hund."])
    assert outcomes("Five people .", "en", "same_kind") == set()


CAPTIONS = {
    "en": ["A dog runs in the red snow .", "Two dogs and a man sit on grass .", "A black cat sleeps ."],
    "de": ["Ein Hund rennt im Schnee.", "Zwei schwarze Hunde, und ein Mann sitzt auf der Bank."],
}


def test_a_photo_has_its_errors_whatever_other_photos_there_are():
    photos = {f"{number}.jpg": CAPTIONS for number in range(12)}
    every, alone, others = (
        [case for case in language_cases(given, "en", 12, seed) if case.kind in KINDS]
        for given, seed in ((photos, 3), ({"4.jpg": CAPTIONS}, 3), (photos, 4))
    )
    assert alone == [case for case in every if case.photo == "4.jpg"] and others != every
    mixed = {language: own[::-1] * 2 for language, own in reversed(CAPTIONS.items())}
    assert language_cases({"4.jpg": mixed}, "en", 12, 3) == language_cases({"4.jpg": CAPTIONS}, "en", 12, 3)
    for case in alone:
        before, after = case.caption[: case.start], case.caption[case.end :]
        assert case.original.startswith(before) and case.original.endswith(after)


@pytest.mark.parametrize(
    ("language", "caption", "expected"),
    [
        ("en", "A man runs while dogs sleep .", "A man runs"),
        ("en", "A man and a woman run home with two dogs .", "A man and a woman run home"),
        ("en", "A small black and white dog runs .", None),
        ("en", "A man with .", None),
        ("de", "Ein Hund rennt, und ein Kind lacht.", "Ein Hund rennt"),
        ("zh", "男人坐着和狗玩耍。", "男人坐着"),
        ("zh", "穿着裙子的女孩。", "女孩。"),
        ("zh", "白色的狗。", None),
    ],
)
def test_the_clause_that_is_dropped(language, caption, expected):
    assert drop_clause(caption, language) == expected
