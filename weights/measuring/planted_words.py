"""Nouns, colours, numbers and verbs of six languages in the forms in which one can stand for another.

In: the lexicon `planted_words.txt`, and `planted_rules.yaml`. Out: `TABLES`, concepts with their forms in
English, German, French, Spanish, Portuguese and Chinese.

A form has a slot, which says what it agrees with: gender and number, in German the case, of verbs the person.
A word can stand for another if it has the same form in every slot that the other one may be in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weights.making.jsonl import beside

LANGUAGES = ("en", "de", "fr", "es", "pt", "zh")
RULES: dict[str, Any] = beside(__file__, "planted_rules.yaml")
_LEXICON = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()


@dataclass(frozen=True, eq=False)
class Variant:
    """One way to write a concept in a language: slot → form, and Chinese measure words that go with it."""

    forms: dict[str, str]
    replaced: bool  # whether it is replaced where it is found
    measures: str


@dataclass(frozen=True, eq=False)
class Concept:
    """A concept that can be planted, by its English name, in a group of similar things."""

    name: str
    group: str
    variants: dict[str, list[Variant]]  # language → the ways to write it, the preferred one first
    mentions: dict[str, frozenset[str]]  # language → words that say it, lower-cased; every form is one


def _concepts(table: str) -> Iterator[Concept]:
    """The concepts of a table of the lexicon, which describes its format."""
    group = None
    for line in _LEXICON:
        if line.startswith("["):
            name, _, group = line.strip("[]").partition(": ")
            group = group if name == table else None
        elif line and group is not None:
            name, *cells = (cell.strip() for cell in line.split("|"))
            variants, mentions = {}, {}
            for language, cell in zip(LANGUAGES, cells, strict=True):
                planted, _, others = cell.partition("~")
                texts = [text.strip() for text in planted.split(",") if text.strip("- ")]
                variants[language] = [_variant(text, table, language) for text in texts]
                forms = [form for item in variants[language] for form in item.forms.values()]
                mentions[language] = frozenset(word.lower() for word in (*forms, *others.split()))
            yield Concept(name, group, variants, mentions)


def _variant(text: str, table: str, language: str) -> Variant:
    """ "m Hund Hunde" → its forms."""
    words, measures = text.removeprefix("+").split(), ""
    slots = RULES["slots"][table].get(language) or RULES["slots"][table]["others"]
    if table == "nouns" and language == "zh":
        words, measures = words[:1], words[1]
    elif table == "nouns":
        gender = "" if language == "en" else words.pop(0)
        if words[0].startswith("="):
            words, slots = [words[0][1:]], ["mass"]
        elif language == "de":
            (direct, _, oblique), plural = words[0].partition("/"), words[1]
            dative = plural if plural.endswith(("n", "s")) else plural + "n"
            words = [direct, oblique or direct, plural, dative]
        slots = [f"{gender} {slot}" for slot in slots]
    elif table == "colours" and language == "de":
        words = [text + ending for ending in slots]
    elif table == "verbs" and language == "zh" and len(words) == 1:
        slots = ["with an object"]
    forms = {slot: form for slot, form in zip(slots, words, strict=True) if form != "-"}
    return Variant(forms, not text.startswith("+"), measures)


TABLES = {table: tuple(_concepts(table)) for table in ("nouns", "colours", "numbers", "verbs")}
