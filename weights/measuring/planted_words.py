"""Nouns, colours, numbers and verbs of six languages in the forms in which one can stand for another.

In: the lexicon `planted_words.txt`, and `planted_rules.yaml`. Out: `NOUNS`, `COLOURS`, `NUMBERS`, `VERBS`,
concepts with their forms in English, German, French, Spanish, Portuguese and Chinese; `KEEPS`, what the words
after a verb must be.

A form has a slot, which says what it agrees with: gender and number, in German the case, of verbs the person.
A word can stand for another if it has the same form in every slot that the other one may be in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weights.making.jsonl import beside

LANGUAGES = ("en", "de", "fr", "es", "pt", "zh")

PLANTED_NUMBERS = ("3", "4", "5", "6", "7")
# verbs of motion replace only each other: directions ("into") do not suit verbs of rest
MOTION = frozenset(("run", "jump", "walk", "swim", "dance", "climb"))

RULES: dict[str, Any] = beside(__file__, "planted_rules.yaml")
FAR: Mapping[str, Sequence[str]] = RULES["far"]
ALSO: Mapping[str, Sequence[str]] = RULES["also"]
KEEPS: Mapping[str, Mapping[str, str]] = RULES["keeps"]


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
        return Variant({ending: text + ending for ending in RULES["german_endings"]})
    return Variant({"": text}) if language in ("en", "zh") else _slotted(text, RULES["colour_slots"])


def _verb(text: str, language: str) -> Variant:
    if language == "zh" and " " not in text:
        return Variant({"with an object": text})
    return _slotted(text, RULES["verb_slots"][language])


def _slotted(text: str, slots: Sequence[str]) -> Variant:
    return Variant({slot: form for slot, form in zip(slots, text.split(), strict=True) if form != "-"})


NOUNS = _concepts("nouns", _noun)
COLOURS = _concepts("colours", _colour)
NUMBERS = _concepts("numbers", lambda text, language: Variant({"": text}))
VERBS = _concepts("verbs", _verb)
