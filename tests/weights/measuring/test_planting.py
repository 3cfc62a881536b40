"""Wrong words planted in invented captions, and what is counted of them, by hand."""

from __future__ import annotations

import doctest
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weights.measuring import planting
from weights.measuring.believable_marks import language_cases
from weights.measuring.planted_words import ALSO, COLOURS, FAR, LANGUAGES, MOTION, NOUNS, NUMBERS, VERBS
from weights.measuring.planting import KINDS, Planted, drop_clause, mentions, plant


def outcomes(caption, language, kind, draws=400, **others):
    """Every word that is ever planted in a caption, as written."""
    captions = {language: [caption], **others}
    found = [plant(captions, language, kind, random.Random(seed)) for seed in range(draws)]
    return {one.caption[one.start : one.end] for one in found if one}


def test_docstrings():
    result = doctest.testmod(planting)
    assert result.attempted and not result.failed


# ------------------------------------------------------------------ the words


def test_every_concept_that_is_named_is_there():
    names = [concept.name for table in (NOUNS, COLOURS, NUMBERS, VERBS) for concept in table]
    assert len(names) == len(set(names))
    assert {*ALSO, *(other for others in ALSO.values() for other in others), *MOTION} <= set(names)
    groups = {concept.group for concept in NOUNS}
    assert set(FAR) == groups
    assert all(group not in others and set(others) <= groups for group, others in FAR.items())


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_form_of_a_table_belongs_to_two_concepts(language):
    for table in (NOUNS, COLOURS, NUMBERS, VERBS):
        owner = {}
        for concept in table:
            for variant in concept.variants[language]:
                for form in variant.forms.values():
                    assert owner.setdefault(form.lower(), concept.name) == concept.name, form


# ------------------------------------------------------------------ agreement


@pytest.mark.parametrize(
    ("caption", "language", "kind", "expected"),
    [
        # an after "a" or "an" stays right; elephant does not come after "a"
        ("An elephant sleeps .", "en", "same_kind", set()),
        ("A man sleeps .", "en", "same_kind", {"woman", "boy", "girl", "baby", "child"}),
        ("Some sand .", "en", "same_kind", {"snow", "grass", "water", "mud", "ice"}),
        ("Some cheese .", "en", "blatant", set()),  # what is counted is not planted for what is not
        # masculine, and the same in the nominative and the accusative: neither Affe nor Elefant
        ("Ein Hund schläft.", "de", "same_kind", {"Vogel", "Fisch", "Tiger", "Esel"}),
        ("Er sieht Affen.", "de", "same_kind", {"Elefanten", "Bären"}),  # one or many
        ("Er sieht einen Affen.", "de", "same_kind",
         {"Hund", "Vogel", "Elefanten", "Bären", "Tiger", "Esel", "Fisch"}),
        ("Eine Katze schläft.", "de", "same_kind", {"Kuh", "Ente", "Ziege", "Giraffe"}),
        ("Ein Junge schläft.", "de", "same_kind", {"Mann"}),
        ("Zwei Jungen schlafen.", "de", "blatant", {"Lastwagen", "Krankenwagen", "Kuchen", "Traktoren"}),
        ("Er sieht einen Jungen.", "de", "same_kind", {"Mann"}),
        ("Er sitzt bei zwei Hunden.", "de", "same_kind",
         {"Vögeln", "Elefanten", "Affen", "Bären", "Tigern", "Eseln", "Fischen"}),
        ("Das Mädchen lacht.", "de", "blatant",
         {"Sandwich", "Ei", "Sofa", "Bett", "Kissen", "Auto", "Fahrrad", "Motorrad", "Boot", "Flugzeug",
          "Klavier"}),
        # before a vowel only vowels: l'
        ("L' homme dort.", "fr", "blatant", {"avion", "œuf", "oreiller"}),
        ("L'âne dort.", "fr", "same_kind", {"oiseau", "éléphant", "ours"}),
        ("Une vache dort.", "fr", "same_kind", {"chèvre", "girafe"}),
        ("en train de dormir", "fr", "blatant", set()),
        # gender
        ("Una vaca duerme.", "es", "same_kind", {"oveja", "cabra", "jirafa"}),
        ("Toro o cabra", "es", "same_kind", {"jirafa"}),  # or "u oveja"
        ("Duas ovelhas dormem.", "pt", "same_kind", {"vacas", "cabras", "girafas"}),
        # the measure word
        ("一匹马在睡觉。", "zh", "same_kind", set()),
        ("一条狗在睡觉。", "zh", "same_kind", {"鱼"}),
        ("这是热狗。", "zh", "same_kind", set()),
        # colours
        ("Ein schwarzer Hund.", "de", "colour", {"roter", "blauer", "grüner", "gelber", "weißer", "brauner"}),
        ("Des robes rouges.", "fr", "colour", {"jaunes"}),
        ("Una camisa roja.", "es", "colour",
         {"blanca", "negra", "amarilla", "azul", "verde", "gris", "morada"}),
        ("Camisas azuis.", "pt", "colour", {"verdes", "marrons"}),
        # verbs
        ("A man sleeps on sand", "en", "verb",
         {"runs", "jumps", "walks", "swims", "dances", "sings", "climbs", "plays", "sits", "stands",
          "kneels"}),
        ("A man climbs into it", "en", "verb", {"jumps", "swims", "dances", "runs"}),
        ("He is jumping rope", "en", "verb", set()),
        ("Ein Kind liest ein Blatt.", "de", "verb",
         {"hält", "schiebt", "zieht", "wirft", "fängt", "wäscht", "malt", "isst"}),
        ("Elle veut lire.", "fr", "verb", set()),
        ("Elle veut danser.", "fr", "verb",
         {"courir", "sauter", "marcher", "nager", "grimper"}),
        ("女孩坐在地上。", "zh", "verb", {"走在", "睡在", "站在"}),
        # numbers
        ("Duas garotas", "pt", "number", {"Quatro", "Cinco", "Seis", "Sete"}),
        ("五只狗", "zh", "number", {"三", "七"}),
        ("五颜六色的狗", "zh", "number", set()),
    ],
)  # fmt: skip
def test_what_is_planted_agrees(caption, language, kind, expected):
    assert outcomes(caption, language, kind) == expected


def test_one_planted_word_in_full():
    photo = {"en": ["Two dogs run ."], "fr": ["Cinq chiens"]}
    assert plant(photo, "en", "number", random.Random(0)) == Planted(
        "Seven dogs run .", "Two dogs run .", 0, 5, "number", "7", "Two"
    )


def test_without_a_word_of_the_lexicon_there_is_nothing():
    for kind in KINDS:
        assert plant({"en": ["Something quite remarkable ."]}, "en", kind, random.Random(0)) is None
        assert plant({"de": ["Ein Hund."]}, "en", kind, random.Random(0)) is None


# ------------------------------------------------------------------ what is mentioned

# what each is said to show is written by hand, not read from the tables
SAID = {
    "en": {
        "Two kittens .": {"cat"},
        "an orange coat": {"jacket"},
        "a lorry": {"truck"},
        "a big cake": {"cake"},
    },
    "de": {"Ein Spielzeugauto.": {"car"}, "Ein Welpe.": {"dog"}, "drei Kühe": {"cow"}, "im Haus": {"house"}},
    "fr": {"des œufs": {"egg"}, "l'avion": {"airplane"}, "une vache": {"cow"}, "un canapé": {"sofa"}},
    "es": {"un toro": {"cow"}, "dos sillas": {"chair"}, "la cama": {"bed"}, "las manzanas": {"apple"}},
    "pt": {"um ônibus": {"bus"}, "pães e bolos": {"cake"}, "um macaco": {"monkey"}, "a maçã": {"apple"}},
    "zh": {"一头牛": {"cow"}, "披萨": {"pizza"}, "公共汽车": {"bus", "car"}, "吉他": {"guitar"}},
}
PARTS = [(language, text, names) for language, texts in SAID.items() for text, names in texts.items()]


@pytest.mark.parametrize(("language", "text", "names"), PARTS)
def test_what_a_caption_mentions(language, text, names):
    assert mentions({language: [text], "ar": ["…"]}, NOUNS) == names


@given(
    said=st.lists(st.sampled_from(PARTS), max_size=8),
    kind=st.sampled_from(["blatant", "same_kind"]),
    language=st.sampled_from(["en", "de", "fr", "es", "pt"]),
    seed=st.integers(0, 10_000),
)
def test_nothing_that_is_mentioned_is_planted(said, kind, language, seed):
    own = {"en": "A dog", "de": "Ein Hund", "fr": "Un chien", "es": "Un perro", "pt": "Um cachorro"}[language]
    captions = {}
    for code, text, _ in said:
        captions.setdefault(code, []).append(text)
    before = captions.pop(language, [])
    found = plant({**captions, language: [own], "hu": before}, language, kind, random.Random(seed))
    mentioned = {name for code, _, names in said if code != language for name in names}
    assert found.original == own
    assert found.concept not in {"dog", *mentioned}
    groups = {concept.name: concept.group for concept in NOUNS}
    assert (groups[found.concept] == "animal") == (kind == "same_kind")


def test_what_may_be_the_same_thing_is_not_planted():
    assert "boy" not in outcomes("A woman smiles .", "en", "same_kind", de=["Ein Kind."])
    assert "boy" in outcomes("A woman smiles .", "en", "same_kind", de=["Ein Hund."])
    assert outcomes("Five people .", "en", "same_kind") == set()


# ------------------------------------------------------------------ chance

CAPTIONS = {
    "en": ["A dog runs in the red snow .", "Two dogs and a man sit on grass .", "A black cat sleeps ."],
    "de": ["Ein Hund rennt im Schnee.", "Zwei schwarze Hunde, und ein Mann sitzt auf der Bank."],
}


@given(st.permutations(CAPTIONS["en"]), st.sampled_from(KINDS), st.integers(0, 500))
def test_the_order_of_captions_does_not_matter(captions, kind, seed):
    first = plant(CAPTIONS, "en", kind, random.Random(seed))
    again = plant({"de": CAPTIONS["de"], "en": captions * 2}, "en", kind, random.Random(seed))
    assert first == again
    assert first.caption[: first.start] + first.replaced + first.caption[first.end :] == first.original


def test_a_photo_has_its_errors_whatever_other_photos_there_are():
    photos = {f"{number}.jpg": CAPTIONS for number in range(12)}
    every = language_cases(photos, "en", 12, seed=3)
    one = language_cases({"4.jpg": CAPTIONS}, "en", 1, seed=3)
    assert one.planted == [(name, found) for name, found in every.planted if name == "4.jpg"]
    assert language_cases(photos, "en", 12, seed=4).planted != every.planted
    assert len({found.caption for _, found in every.planted if found.kind == "blatant"}) > 5


# ------------------------------------------------------------------ clauses


@pytest.mark.parametrize(
    ("language", "caption", "expected"),
    [
        ("en", "A man runs while dogs sleep .", "A man runs"),
        ("en", "A man and a woman run home with two dogs .", "A man and a woman run home"),
        ("en", "A small black and white dog runs .", None),
        ("en", "A man with .", None),
        ("de", "Ein Hund rennt, und ein Kind lacht.", "Ein Hund rennt"),
        ("fr", "Un chien noir et un chat dorment.", None),
        ("fr", "Un chien qui court et un chat.", "Un chien qui court"),
        ("es", "Un hombre rubio con gafas negras", "Un hombre rubio"),
        ("pt", "Um homem corre enquanto chove muito", "Um homem corre"),
        ("zh", "男人坐着和狗玩耍。", "男人坐着"),
        ("zh", "穿着裙子的女孩。", "女孩。"),
        ("zh", "白色的狗。", None),
    ],
)
def test_the_clause_that_is_dropped(language, caption, expected):
    assert drop_clause(caption, language) == expected
