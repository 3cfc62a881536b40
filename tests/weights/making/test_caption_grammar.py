"""Captions out of the grammar: what they say, where their nouns are, that every language says everything."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from capscore.errors import CapscoreError, InputError
from weights.making import caption_grammar
from weights.making.caption_grammar import LANGUAGES, Grammar, Scene, Scenes, concepts, generate, load

UNSPACED = ("ja", "zh")


def wordings(language: str | Grammar, kind: str, **slots: str) -> set[str]:
    """Everything that a language may say of a scene, in lower case and without the full stop."""
    grammar = load(language) if isinstance(language, str) else language
    draw = random.Random(0)
    said = {grammar.say(Scene(kind, slots, draw.getrandbits(60))).text for _ in range(700)}
    return {text.rstrip(".。").lower() for text in said}


def toy(**changes: object) -> dict:
    """A file in which every concept has a phrase: "s: a [x]" where it has an agreement key."""
    data: dict = {
        "agreement": ["s", "p"],
        "verb_forms": ["s", "p"],
        "verbs": {"pres": {"s": "s", "p": "p"}},
        "words": {"is": "<is|are>"},
        "templates": {
            "action": {"{S}( {C})( {K}) {A:pres}( {P})( {T})": 1},
            "static": {"{S}( {C}) {is} {P}( {T})": 1},
            "pair": {"{S} {A:pres} while {R} {B:pres}( {P})": 1},
            "exist": {"{is@O} {O} {P}( {T})": 1},
            "still": {"{O}( and {Q})( {P})": 1},
            "holder": {"{H}": 1},
            "view": {"{V}( {T})": 1},
        },
        "subjects": dict.fromkeys(concepts()["subjects"], "s: a [one]"),
        "things": dict.fromkeys(concepts()["things"], "s: a [thing]"),
        "holders": dict.fromkeys(concepts()["holders"], "a [table] with $O and $Q"),
        "actions": {
            action: "{does|do} $O" if "objects" in rule else "{does|do}"
            for action, rule in concepts()["actions"].items()
        },
    }
    for category in ("clothing", "companions", "times", "places", "views"):
        data[category] = dict.fromkeys(concepts()[category], "in a [place]")
    for key, change in changes.items():
        data[key] = {**data[key], **change} if isinstance(change, dict) and key in data else change
    return data


def nouns(caption: caption_grammar.Caption) -> list[str]:
    return [caption.text[start:end] for start, end in caption.nouns]


# --- the grammar's engine, on a language made up here


def test_forms_and_agreement_follow_the_subject_and_the_thing():
    grammar = Grammar(
        "xx",
        toy(
            thing_forms=["nom", "acc"],
            object_form="acc",
            subjects={"two_dogs": "p: two [dogs]"},
            things={"pizza": "s: {a|an} [pizza{|m}]"},
            clothing={"helmet": "in <a [helmet]|[helmets]>"},
            actions={"eat": "now {eats|eat} $O {up|ups}"},
        ),
    )
    eating = Scene("action", {"S": "two_dogs", "A": "eat", "O": "pizza", "C": "helmet"}, 5)
    caption = grammar.say(eating)
    assert caption.text.lower().rstrip(".") == "two dogs in helmets now eat an pizzam ups"
    assert nouns(caption) == ["dogs", "helmets", "pizzam"]
    assert wordings(grammar, "exist", O="pizza", P="in_park") == {"is a pizza in a place"}
    assert wordings(grammar, "static", S="two_dogs", P="in_park") == {"two dogs are in a place"}


def test_the_verb_can_stand_apart_from_the_rest_and_clothing_before_the_noun():
    templates = {"action": {"{P} {A:verb.pres} {S^C}( {A:rest.pres})": 1}}
    grammar = Grammar(
        "xx",
        toy(
            templates=templates,
            subjects={"man": "s: one ^[man]"},
            clothing={"suit": "suited"},
            actions={"stand": "{stands|stand}", "get_on_train": "{gets|get} in a [train] {up|ups}"},
        ),
    )
    assert wordings(grammar, "action", S="man", A="stand", P="in_park", C="suit") == {
        "in a place stands one suited man"
    }
    assert wordings(grammar, "action", S="man", A="get_on_train", P="in_park") == {
        "in a place gets one man in a train up"
    }


def test_a_join_moves_the_nouns_behind_it():
    grammar = Grammar("xx", toy(joins=[["while a", "whilst"], ["in a", "i"]], subjects={"man": "s: a [man]"}))
    scene = Scene("pair", {"S": "man", "A": "walk", "R": "man", "B": "run", "P": "in_park"}, 1)
    caption = grammar.say(scene)
    assert caption.text.lower().rstrip(".") == "a man does whilst man does i place"
    assert [noun.lower() for noun in nouns(caption)] == ["man", "man", "place"]


def test_capitals_and_full_stop_are_the_languages_own():
    grammar = Grammar("xx", toy(capitals={"a": "Ä"}, stop="!"))
    said = {
        grammar.say(Scene("view", {"V": "street_cars"}, style)).text
        for style in random.Random(1).choices(range(1 << 60), k=200)
    }
    assert said == {"in a place", "in a place!", "In a place", "In a place!"}
    dogs = {
        grammar.say(Scene("still", {"O": "pizza"}, s)).text
        for s in random.Random(2).choices(range(1 << 60), k=200)
    }
    assert dogs == {"a thing", "a thing!", "Ä thing", "Ä thing!"}


def test_an_action_chooses_the_form_of_its_place():
    grammar = Grammar(
        "xx",
        toy(
            place_forms=["at", "in"],
            places={"in_park": "{at|in} the [park]"},
            actions={"stand": "in: {stands|stand}"},
        ),
    )
    assert wordings(grammar, "action", S="man", A="stand", P="in_park") == {"a one stands in the park"}
    assert wordings(grammar, "action", S="man", A="walk", P="in_park") == {"a one does at the park"}


def test_a_missing_concept_is_named():
    data = toy()
    del data["places"]["in_park"]
    with pytest.raises(CapscoreError, match=r"in_park"):
        Grammar("xx", data)


# --- every language's file


def simple_scenes() -> list[Scene]:
    """Scenes that between them name every concept, wherever it may stand, with all slots and with few."""
    data, draw = concepts(), random.Random(7)
    people = [s for s, words in data["subjects"].items() if words.startswith("person")]
    outdoor = ["on_street", "in_park"]
    scenes: list[tuple[str, dict[str, str]]] = []
    for action, rule in data["actions"].items():
        done_by = [s for s, words in data["subjects"].items() if set(words.split()) & set(rule["by"].split())]
        one, many = draw.choice(done_by), draw.choice(done_by)
        things = {
            t
            for t, words in data["things"].items()
            if set(words.split()) & set(rule.get("objects", "").split())
        }
        own = {"O": draw.choice(sorted(things))} if things else {}
        scenes.append(("action", {"S": one, "A": action, **own}))
        scenes.append(("action", {"S": many, "A": action, **own, "P": "in_park", "T": "sunny_day"}))
        full = {"S": draw.choice(people), "A": action, **own, "C": "red_shirt", "K": "with_backpack"}
        scenes.append(("action", {**full, "P": "on_street"}))
        if not things:
            scenes.append(("pair", {"S": one, "A": action, "R": "two_dogs", "B": "catch_frisbee"}))
            scenes.append(("pair", {"S": "girl", "A": "run", "R": many, "B": action, "P": "in_park"}))
    for subject in data["subjects"]:
        scenes.append(("static", {"S": subject, "P": "in_park"}))
        scenes.append(("action", {"S": subject, "A": "walk", "T": "at_night"}))
        scenes.append(("pair", {"S": "cat", "A": "gallop", "R": subject, "B": "sit_on_bench"}))
    for clothes, who in itertools.product(data["clothing"], ("woman", "two_boys")):
        scenes.append(("static", {"S": who, "C": clothes, "P": "on_beach", "T": "in_fog"}))
        scenes.append(("action", {"S": who, "C": clothes, "A": "stand"}))
    for companion, who in itertools.product(data["companions"], ("woman", "two_boys")):
        scenes.append(("action", {"S": who, "K": companion, "A": "walk", "T": "in_rain", "P": "on_street"}))
    for place in data["places"]:
        scenes.append(("action", {"S": "girl", "A": "stand", "P": place}))
        scenes.append(("exist", {"O": "suitcase", "P": place}))
        scenes.append(("static", {"S": "cows", "P": place}))
    for time, place in itertools.product(data["times"], outdoor):
        scenes.append(("exist", {"O": "books", "P": place, "T": time}))
        scenes.append(("view", {"V": "street_cars", "T": time}))
    for thing in data["things"]:
        scenes.append(("exist", {"O": thing, "P": "on_floor"}))
        scenes.append(("still", {"O": thing}))
        scenes.append(("still", {"O": thing, "Q": "lamp", "P": "on_desk"}))
        scenes.append(("still", {"O": "lamp", "Q": thing}))
        scenes.append(("holder", {"H": "table", "O": thing, "Q": "candle"}))
        scenes.append(("holder", {"H": "table", "O": "candle", "Q": thing}))
        scenes.append(("action", {"S": "man", "A": "hold", "O": thing}))
    for holder in data["holders"]:
        scenes.append(("holder", {"H": holder, "O": "pizza", "Q": "two_glasses"}))
    for view in data["views"]:
        scenes.append(("view", {"V": view}))
    return [Scene(kind, slots, draw.getrandbits(60)) for kind, slots in scenes for _ in range(2)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_says_every_concept_and_leaves_no_slot_open(language):
    grammar = load(language)
    for scene in simple_scenes():
        text, spans = grammar.say(scene)
        assert not set(text) & set("{}[]<>|$^()"), (scene, text)
        assert text == text.strip() and "  " not in text and " ." not in text, (scene, text)
        assert text.count(".") + text.count("。") <= 1, (scene, text)
        assert spans, (scene, text)
        assert all(0 <= start < end <= len(text) for start, end in spans), (scene, text)
        assert all(left[1] <= right[0] for left, right in itertools.pairwise(spans)), (scene, text)
        for start, end in spans:
            noun = text[start:end]
            assert re.fullmatch(r"[\w'’\-ー\u0300-\u036f\u064b-\u0652]+", noun), (scene, text, noun)
            assert not re.search(r"\s", noun), (scene, text, noun)
            if language not in (*UNSPACED, "ko", "ar"):
                assert not (start and text[start - 1].isalpha()), (scene, text, noun)
                assert not (end < len(text) and text[end].isalpha()), (scene, text, noun)


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_that_a_scene_has_is_said(language):
    """Another place, time, garment or thing makes another caption."""
    grammar = load(language)
    slots = {"S": "woman", "C": "red_shirt", "A": "hold", "O": "umbrella", "P": "on_beach", "T": "at_night"}
    others = {"S": "boy", "C": "straw_hat", "A": "watch_beast", "O": "flag", "P": "in_park", "T": "in_fog"}
    draw = random.Random(4)
    for style in (draw.getrandbits(60) for _ in range(60)):
        said = grammar.say(Scene("action", slots, style))
        for slot, other in others.items():
            assert grammar.say(Scene("action", {**slots, slot: other}, style)).text != said.text, slot
        for slot in "CPT":
            less = {name: concept for name, concept in slots.items() if name != slot}
            assert len(grammar.say(Scene("action", less, style)).nouns) < len(said.nouns) + 1
    view = "street_umbrellas"
    assert len(wordings(language, "view", V=view) & wordings(language, "view", V=view, T="at_night")) == 0


TWO_WOMEN_ON_A_BENCH = {
    "en": {
        "there are two women sitting on a bench",
        "two women are sitting on a bench",
        "two women sit on a bench",
        "two women sitting on a bench",
        "two women who are sitting on a bench",
    },
    "es": {
        "dos mujeres están sentadas en un banco",
        "dos mujeres que están sentadas en un banco",
        "dos mujeres sentadas en un banco",
        "hay dos mujeres sentadas en un banco",
    },
    "pt": {
        "duas mulheres estão sentadas em um banco",
        "duas mulheres que estão sentadas em um banco",
        "duas mulheres sentadas em um banco",
        "há duas mulheres sentadas em um banco",
    },
    "it": {
        "ci sono due donne che siedono su una panchina",
        "ci sono due donne sedute su una panchina",
        "due donne che siedono su una panchina",
        "due donne sedute su una panchina",
        "due donne siedono su una panchina",
        "due donne sono sedute su una panchina",
    },
    "fr": {
        "deux femmes assises sur un banc",
        "deux femmes qui sont assises sur un banc",
        "deux femmes sont assises sur un banc",
        "il y a deux femmes qui sont assises sur un banc",
    },
    "de": {"zwei frauen sitzen auf einer bank", "zwei frauen, die auf einer bank sitzen"},
    "nl": {"twee vrouwen zitten op een bankje", "twee vrouwen die op een bankje zitten"},
}


@pytest.mark.parametrize("language", TWO_WOMEN_ON_A_BENCH)
def test_gender_and_number_agree(language):
    said = wordings(language, "action", S="two_women", A="sit_on_bench")
    assert said == TWO_WOMEN_ON_A_BENCH[language]


@pytest.mark.parametrize(
    ("language", "kind", "slots", "said"),
    [
        # a separable verb closes up at the end of a clause
        ("de", "action", {"S": "girl", "A": "fly_kite"}, "ein mädchen, das einen drachen steigen lässt"),
        ("nl", "action", {"S": "girl", "A": "cross_street"}, "een meisje dat de straat oversteekt"),
        ("nl", "action", {"S": "two_men", "A": "hold", "O": "flag"}, "twee mannen houden een vlag vast"),
        # case
        ("de", "still", {"O": "apple", "Q": "teddy_bear"}, "ein apfel neben einem teddybären"),
        ("de", "action", {"S": "man", "A": "carry", "O": "ladder"}, "ein mann trägt eine leiter"),
        (
            "de",
            "action",
            {"S": "man", "A": "hold", "O": "red_balloon"},
            "ein mann hält einen roten luftballon",
        ),
        ("de", "action", {"S": "dog", "A": "swim", "P": "in_sea"}, "im meer schwimmt ein hund"),
        # elision and contraction
        (
            "fr",
            "pair",
            {"S": "dog", "A": "dig_hole", "R": "man", "B": "swim"},
            "un chien creuse un trou pendant qu'un homme nage",
        ),
        ("es", "action", {"S": "cook", "A": "bake_pizza"}, "un chef está sacando una pizza del horno"),
        ("it", "exist", {"O": "books", "P": "on_desk"}, "su una scrivania ci sono alcuni libri"),
        ("pt", "exist", {"O": "lamp", "P": "on_floor"}, "no chão há uma luminária"),
        ("en", "exist", {"O": "books", "P": "on_desk"}, "there are some books on a desk"),
        ("es", "action", {"S": "girl", "A": "look_in_mirror"}, "una niña mirándose en el espejo"),
    ],
)
def test_what_a_native_would_write_is_among_what_is_said(language, kind, slots, said):
    assert said in wordings(language, kind, **slots)


# --- scenes


def test_subjects_do_only_what_they_can_where_it_is_done():
    """The rules are read a second time here, straight from the file."""
    data, scenes = concepts(), Scenes(5)
    words = {
        c: {k: set(v.split()) for k, v in data[c].items()}
        for c in ("subjects", "places", "things", "clothing")
    }
    kinds = set()
    for _ in range(4000):
        scene = scenes.draw()
        kinds.add(scene.kind)
        slots = scene.slots
        place = words["places"].get(slots.get("P", ""), set())
        for subject, action in (("S", "A"), ("R", "B")):
            if action in slots:
                rule = data["actions"][slots[action]]
                assert words["subjects"][slots[subject]] & set(rule["by"].split())
                assert "P" not in slots or place & set(rule["at"].split())
                assert ("O" in slots) == ("objects" in rule)
                if "O" in slots:
                    assert words["things"][slots["O"]] & set(rule["objects"].split())
                if "C" in slots:
                    assert words["clothing"][slots["C"]] & set(rule["wear"].split())
        if scene.kind == "pair":
            assert data["subjects"][slots["S"]].split()[0] != data["subjects"][slots["R"]].split()[0]
        if scene.kind == "exist":
            assert any(
                place & set(at.split()) and name in words["things"][slots["O"]]
                for name, at in data["exists"].items()
            )
        if "C" in slots:
            of = words["subjects"][slots["S"]]
            assert "person" in of and not of & {"baby", "collective"}
            assert "female" in of or "dress" not in words["clothing"][slots["C"]]
        if "T" in slots and "P" in slots:
            rule = data["times"][slots["T"]]
            assert not place & set(rule.get("not", "").split())
            assert rule["at"] == "any" or place & set(data["outdoor"].split())
        if "Q" in slots:
            assert slots["O"] != slots["Q"]
    assert kinds == set(data["weights"])


def test_a_dog_catches_a_frisbee_and_never_the_other_way_round():
    texts = [scene["en"].text.lower() for scene in generate(6000, ["en"], seed=0)]
    assert any(re.search(r"\bdogs?\b.*\bcatch", text) for text in texts)
    assert not any(re.search(r"frisbee.*\bcatch(es|ing)? a (dog|cat|man)", text) for text in texts)
    subjects = {
        re.search(r"\[(\w+)\]", phrase).group(1)  # type: ignore[union-attr]
        for given in caption_grammar.read_grammar(caption_grammar.FOLDER / "en.json")["subjects"].values()
        for phrase in ([given] if isinstance(given, str) else given)
    }
    drawn = Scenes(3)
    for scene in (drawn.draw() for _ in range(500)):
        if scene.kind == "action" and not set(scene.slots) & {"P", "T"}:
            caption = load("en").say(scene)
            assert nouns(caption)[0].lower() in {noun.lower() for noun in subjects}


def test_a_seed_says_the_same_whatever_is_asked_besides():
    few, many = generate(20, ["en", "es"], seed=9), generate(60, ["de", "es", "en"], seed=9)
    assert [scene["es"] for scene in few] == [scene["es"] for scene in many[:20]]
    assert [scene["en"] for scene in few] == [scene["en"] for scene in many[:20]]
    assert generate(20, ["en"], seed=10) != generate(20, ["en"], seed=9)
    assert generate(0, ["en"]) == []


def test_there_are_more_than_a_million_captions_whatever_the_wording():
    """Only scenes of kind action, each counted once whatever its wording, without companions."""
    data, total = concepts(), 0
    words = {
        c: {k: set(v.split()) for k, v in data[c].items()}
        for c in ("subjects", "places", "things", "clothing")
    }
    for rule in data["actions"].values():
        settings = 1
        for of in words["places"].values():
            if of & set(rule["at"].split()):
                settings += 1 + sum(
                    not of & set(time.get("not", "").split())
                    and (time["at"] == "any" or bool(of & set(data["outdoor"].split())))
                    for time in data["times"].values()
                )
        things = sum(bool(of & set(rule.get("objects", "").split())) for of in words["things"].values()) or 1
        worn = [of for of in words["clothing"].values() if of & set(rule.get("wear", "").split())]
        for of in words["subjects"].values():
            if of & set(rule["by"].split()):
                dressed = "person" in of and not of & {"baby", "collective"}
                garments = sum(
                    ("dress" not in w or "female" in of) and ("formal" not in w or "child" not in of)
                    for w in worn
                )
                total += settings * things * (1 + garments * dressed)
    assert total > 1_000_000
    texts = [scene["es"].text for scene in generate(5000, ["es"], seed=1)]
    assert len(set(texts)) > 4500


def test_english_captions_are_as_long_as_captions_are():
    lengths = [len(scene["en"].text.split()) for scene in generate(4000, ["en"], seed=2)]
    assert min(lengths) >= 2 and max(lengths) <= 27
    assert 8 < sum(lengths) / len(lengths) < 13


def test_a_language_without_a_grammar_is_refused():
    with pytest.raises(InputError, match="no caption grammar for 'eo', only for ar, cs"):
        generate(1, ["en", "eo"])
