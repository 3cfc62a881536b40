"""Nouns, colours, numbers and verbs of six languages in the forms in which one can stand for another.

In: the lexicon `planted_words.txt`. Out: `NOUNS`, `COLOURS`, `NUMBERS`, `VERBS`, concepts with their forms in
English, German, French, Spanish, Portuguese and Chinese; `KEEPS`, what the words after a verb must be.

A form has a slot, which says what it agrees with: gender and number, in German the case, of verbs the person.
A word can stand for another if it has the same form in every slot that the other one may be in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LANGUAGES = ("en", "de", "fr", "es", "pt", "zh")
_COLOUR_SLOTS = ("m sg", "f sg", "m pl", "f pl")
_GERMAN_ENDINGS = ("", "e", "er", "es", "en", "em")
_VERB_SLOTS = {
    "en": ("3", "ing"),
    "de": ("3 sg", "3 pl"),
    "fr": ("3 sg", "3 pl", "ing", "infinitive"),
    "es": ("3 sg", "3 pl", "ing"),
    "pt": ("3 sg", "3 pl", "ing"),
    "zh": ("alone", "before a place"),
}

PLANTED_NUMBERS = ("3", "4", "5", "6", "7")
# verbs of motion replace only each other: directions ("into") do not suit verbs of rest
MOTION = frozenset(("run", "jump", "walk", "swim", "dance", "climb"))

# Groups of nouns that are far from a noun of this group. Clothes, places and buildings are in many photos
# without being mentioned, and food or a sofa is not: only what captions would mention is planted.
FAR = {
    "person": ("food", "furniture", "vehicle", "instrument"),
    "animal": ("food", "furniture", "vehicle", "instrument"),
    "vehicle": ("food", "furniture", "animal", "instrument"),
    "food": ("vehicle", "animal", "instrument"),
    "furniture": ("food", "vehicle", "animal"),
    "instrument": ("food", "furniture", "vehicle", "animal"),
    "device": ("food", "vehicle", "animal"),
    "sport": ("food", "furniture", "vehicle", "animal"),
    "place": ("food", "furniture", "animal", "instrument"),
    "ground": ("food", "furniture", "animal", "instrument"),
    "building": ("food", "animal", "instrument"),
    "clothing": ("food", "furniture", "vehicle", "instrument"),
}

# If the first is mentioned, the others may be meant or visible: none of them is planted.
ALSO = {
    "man": ("person",),
    "woman": ("person",),
    "boy": ("child", "person"),
    "girl": ("child", "person"),
    "baby": ("child", "boy", "girl", "person"),
    "child": ("boy", "girl", "baby", "person"),
    "bird": ("duck",),
    "duck": ("bird",),
    "car": ("truck",),
    "truck": ("car",),
    "bicycle": ("motorcycle",),
    "motorcycle": ("bicycle",),
    "chair": ("bench",),
    "bench": ("chair",),
    "beach": ("sea", "sand"),
    "sea": ("beach", "water", "lake"),
    "lake": ("water", "river", "sea"),
    "river": ("water", "lake"),
    "pool": ("water",),
    "water": ("sea", "lake", "river", "pool"),
    "sand": ("beach",),
    "snow": ("ice",),
    "ice": ("snow",),
    "field": ("grass", "park"),
    "park": ("grass", "field"),
    "grass": ("field", "park"),
    "house": ("building",),
    "building": ("house", "church", "castle", "tower"),
    "church": ("building",),
    "castle": ("building",),
    "tower": ("building",),
    "fence": ("wall",),
    "wall": ("fence",),
    "hat": ("helmet",),
    "helmet": ("hat",),
    "dress": ("shirt",),
    "red": ("pink", "orange", "brown"),
    "pink": ("red", "purple"),
    "orange": ("red", "yellow", "brown"),
    "yellow": ("orange", "brown"),
    "brown": ("red", "orange", "yellow"),
    "blue": ("purple",),
    "purple": ("blue", "pink"),
    "black": ("grey",),
    "grey": ("black", "white"),
    "white": ("grey",),
    "sit": ("kneel", "lie"),
    "kneel": ("sit",),
    "lie": ("sleep", "sit"),
    "sleep": ("lie",),
    "climb": ("walk",),
    "run": ("jump", "play"),
    "play": ("run", "jump"),
    "hold": ("carry", "catch"),
    "carry": ("hold",),
    "catch": ("hold", "throw"),
    "throw": ("catch",),
}

# Words that must follow a verb of the group so that another verb of the group can replace it: one of these or
# nothing for "move", one of these for "handle". Chinese verbs of a table need none.
KEEPS = {
    "move": {
        "en": "in on at through into over down up across along near by with under around outside next beside "
        "towards toward from off onto while and together behind above",
        "de": "in im ins auf an am durch über vor hinter neben unter mit zum zur aus vom bei beim und "
        "während",
        "fr": "dans sur à au aux avec devant sous vers près par derrière et pendant en",
        "es": "en por sobre con a al hacia junto cerca desde entre y bajo mientras dentro delante detrás",
        "pt": "em no na nos nas num numa pelo pela pelos pelas sobre com ao perto dentro enquanto e sob "
        "durante entre",
    },
    "handle": {
        "en": "a an the his her their some two three another",
        "de": "ein eine einen das die den seinen seine ihre ihren zwei",
        "fr": "un une des le la les son sa ses leur leurs deux",
        "es": "un una unos unas el la los las su sus dos",
        "pt": "um uma uns umas o a os as seu sua seus suas dois duas",
    },
}


@dataclass(frozen=True, eq=False)
class Variant:
    """One way to write a concept in a language: slot → form, and Chinese measure words that go with it."""

    forms: dict[str, str]
    replaced: bool = True  # whether it is replaced where it is found
    measures: str = ""


@dataclass(frozen=True, eq=False)
class Concept:
    """A concept that can be planted, by its English name, in a group of similar things."""

    name: str
    group: str
    variants: dict[str, tuple[Variant, ...]]  # language → the ways to write it, the preferred one first
    mentions: dict[str, frozenset[str]]  # language → words that say it, lower-cased; every form is one


_LEXICON = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()


def _concepts(table: str, variant: Callable[[str, str], Variant]) -> tuple[Concept, ...]:
    """The concepts of a table of the lexicon, which describes its format."""
    found, group = [], None
    for line in _LEXICON:
        if line.startswith("["):
            name, _, group = line.strip("[]").partition(": ")
            group = group if name == table else None
        elif line and group is not None:
            name, *cells = (cell.strip() for cell in line.split("|"))
            variants, mentions = {}, {}
            for language, cell in zip(LANGUAGES, cells, strict=True):
                planted, _, others = cell.partition("~")
                made = [variant(t.strip(), language) for t in planted.split(",") if t.strip("- ")]
                forms = [form for item in made for form in item.forms.values()]
                variants[language] = tuple(made)
                mentions[language] = frozenset(word.lower() for word in (*forms, *others.split()))
            found.append(Concept(name, group, variants, mentions))
    return tuple(found)


def _noun(text: str, language: str) -> Variant:
    """ "m Hund Hunde" → its forms."""
    replaced, text = not text.startswith("+"), text.removeprefix("+")
    if language == "zh":
        word, measures = text.split()
        return Variant({"": word}, replaced, measures)
    gender, *forms = text.split() if language != "en" else ("", *text.split())
    if forms[0].startswith("="):
        return Variant({f"{gender} mass": forms[0][1:]}, replaced)
    singular, plural = forms
    slots = {"sg": singular, "pl": plural}
    if language == "de":
        direct, _, oblique = singular.partition("/")
        dative = plural if plural.endswith(("n", "s")) else plural + "n"
        slots = {"sg direct": direct, "sg oblique": oblique or direct}
        slots |= {"pl direct": plural, "pl dative": dative}
    return Variant({f"{gender} {slot}": form for slot, form in slots.items() if form != "-"}, replaced)


def _colour(text: str, language: str) -> Variant:
    if language == "de":
        return Variant({ending: text + ending for ending in _GERMAN_ENDINGS})
    return Variant({"": text}) if language in ("en", "zh") else _slotted(text, _COLOUR_SLOTS)


def _verb(text: str, language: str) -> Variant:
    if language == "zh" and " " not in text:
        return Variant({"with an object": text})
    return _slotted(text, _VERB_SLOTS[language])


def _slotted(text: str, slots: tuple[str, ...]) -> Variant:
    return Variant({slot: form for slot, form in zip(slots, text.split(), strict=True) if form != "-"})


NOUNS = _concepts("nouns", _noun)
COLOURS = _concepts("colours", _colour)
NUMBERS = _concepts("numbers", lambda text, language: Variant({"": text}))
VERBS = _concepts("verbs", _verb)
