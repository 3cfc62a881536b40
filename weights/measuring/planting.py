"""Captions of a photo → one of them with a wrong word, or without its last clauses.

In: captions by language, what kind of error, a source of chance. Out: a caption that is wrong in one word and
still a sentence, since the word agrees as the right one did; no caption of the photo mentions what it says.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from .planted_words import (
    ALSO,
    COLOURS,
    FAR,
    KEEPS,
    LANGUAGES,
    MOTION,
    NOUNS,
    NUMBERS,
    PLANTED_NUMBERS,
    RULES,
    VERBS,
    Concept,
    Variant,
)

KINDS = ("blatant", "same_kind", "colour", "number", "verb")
_TABLES = {"blatant": NOUNS, "same_kind": NOUNS, "colour": COLOURS, "number": NUMBERS, "verb": VERBS}
# least distance of a planted number from every mentioned number
_NUMBERS_APART = 2
# words at which a dropped clause begins
CLAUSES: Mapping[str, Sequence[str]] = RULES["clauses"]
_KEPT_WORDS, _DROPPED_WORDS = 3, 2
_CLAUSE_CHARACTERS = 4
# German words of at most this many letters are not second parts of others: drei does not end in Ei
_SHORT = 3
_ENDINGS = ("", "s", "es", "n", "en")


class Planted(NamedTuple):
    """A caption with one wrong word, `caption[start:end]`; `concept` is what it says, in English."""

    caption: str
    original: str
    start: int
    end: int
    concept: str


class _Found(NamedTuple):
    start: int
    end: int
    concept: Concept
    slots: frozenset[str]
    measures: str


def plant(
    captions: Mapping[str, Sequence[str]], language: str, kind: str, rng: random.Random
) -> Planted | None:
    """The first caption in random order that can have a wrong word, which agrees as the right one did.

    Nothing is planted that any of the photo's captions mentions. `kind` is one of `KINDS`: a noun of a group
    far from the replaced one's ("blatant"), one of its own group ("same_kind"), a colour, number or verb.
    """
    table = _TABLES[kind]
    mentioned = mentions(captions, table)
    for caption in shuffled(captions.get(language, ()), rng):
        found = _occurrences(caption, language, table)
        forms = [_replacements(caption, item, language, kind, mentioned) for item in found]
        choices = [(item, own) for item, own in zip(found, forms, strict=True) if own]
        if choices:
            (start, end, *_), forms = rng.choice(choices)
            concept, form = rng.choice(forms)
            return Planted(caption[:start] + form + caption[end:], caption, start, start + len(form), concept)
    return None


def shuffled(captions: Sequence[str], rng: random.Random) -> list[str]:
    """Distinct captions in an order that does not depend on the given one."""
    distinct = sorted(set(captions))
    rng.shuffle(distinct)
    return distinct


def drop_clause(caption: str, language: str) -> str | None:
    """A caption up to where its first clause with `CLAUSES` begins, or None.

    At least three words stay (Chinese: four characters), two go, and no colour is torn from another. A
    Chinese caption without such a clause loses what stands before its last 的, at least four characters.
    """
    starts = "|".join(map(re.escape, CLAUSES[language]))
    for place in re.finditer(f"(?=({starts}))", caption):
        kept, dropped = caption[: place.start()], caption[place.end(1) :]
        last = _tokens(kept)[-1].group().lower() if _tokens(kept) else ""
        is_colour = any(last in colour.mentions[language] for colour in COLOURS)
        is_long = _length(kept, language) >= _KEPT_WORDS and _length(dropped, language) >= _DROPPED_WORDS
        if is_long and not is_colour:
            return kept.rstrip()
    if language == "zh":
        before, _, after = caption.rpartition("的")
        if len(before) >= _CLAUSE_CHARACTERS and _tokens(after):
            return after
    return None


def _length(text: str, language: str) -> float:
    words = _tokens(text)
    if language == "zh":
        return sum(len(word.group()) for word in words) * _KEPT_WORDS / _CLAUSE_CHARACTERS
    return len(words)


def mentions(captions: Mapping[str, Sequence[str]], table: Sequence[Concept]) -> frozenset[str]:
    """Names of a table's concepts that any of a photo's captions mentions in any of `LANGUAGES`.

    German words also mention what they end on (Rennhund), Chinese ones what they hold.
    """
    texts = ((caption, language) for language in LANGUAGES for caption in captions.get(language, ()))
    return frozenset().union(*(_mentioned(*text, tuple(table)) for text in texts))


@lru_cache(maxsize=1 << 16)
def _mentioned(caption: str, language: str, table: tuple[Concept, ...]) -> frozenset[str]:
    text = caption.lower()
    words = {word.group() for word in _tokens(text)}

    def says(concept: Concept) -> bool:
        said = concept.mentions[language]
        if language == "zh":
            return any(word in text for word in said)
        if language == "de":
            ends = tuple(form + ending for form in said if len(form) > _SHORT for ending in _ENDINGS)
            if any(word.endswith(ends) for word in words):
                return True
        return not said.isdisjoint(words)

    return frozenset(concept.name for concept in table if says(concept))


def _tokens(text: str) -> list[re.Match[str]]:
    return list(re.finditer(r"[^\W\d_]+|\d+", text))


@cache
def _index(table: tuple[Concept, ...], language: str) -> dict[str, list[tuple[Concept, str, str]]]:
    """Lower-cased form → its concept, slot and measure words."""
    index: dict[str, list[tuple[Concept, str, str]]] = {}
    for concept, variant in ((each, item) for each in table for item in each.variants[language]):
        for slot, form in variant.forms.items():
            places = index.setdefault(form.lower(), [])
            if variant.replaced:
                places.append((concept, slot, variant.measures))
    return index


@cache
def _chinese(table: tuple[Concept, ...]) -> re.Pattern[str]:
    """All words of a table, longest first, so that none is found within another."""
    words = {word for concept in table for word in concept.mentions["zh"]}
    return re.compile("|".join(sorted(words, key=lambda word: (-len(word), word))))


_BEFORE_ONE, _AFTER_ONE = RULES["before_one"], RULES["after_one"]
_MEASURED = re.compile(
    "[一二两三四五六七八九十几这那每]([个只条匹辆艘张把名位座头些架台列顶件双副面堵片块根碗杯瓶本部家间])"
)
_COUNTED = "个只条名位辆匹张头艘人"


def _occurrences(caption: str, language: str, table: tuple[Concept, ...]) -> list[_Found]:
    """Words of a table in a caption, in order, that another word of the table could replace."""
    index = _index(table, language)
    words = list(_chinese(table).finditer(caption)) if language == "zh" else _tokens(caption)
    found = []
    for place, word in enumerate(words):
        entries = index.get(word.group().lower(), [])
        if len({concept.name for concept, _, _ in entries}) != 1:
            continue
        concept = entries[0][0]
        slots = frozenset(slot for _, slot, _ in entries)
        start, end = word.span()
        if language == "zh":
            fits = _fits_chinese(caption, start, end, table)
        else:
            following = words[place + 1].group().lower() if place + 1 < len(words) else ""
            fits = _fits(caption, start, end, following, concept.group, language, table)
            if language == "de" and table is NOUNS:
                slots = _of_number(slots, [other.group().lower() for other in words[:place]])
        if fits and slots:
            found.append(_Found(start, end, concept, slots, entries[0][2]))
    return found


def _fits(
    caption: str, start: int, end: int, following: str, group: str, language: str, table: tuple[Concept, ...]
) -> bool:
    if "-" in (caption[start - 1 : start], caption[end : end + 1]):
        return False
    if table is NOUNS and language == "en":  # the first part of a compound: a water bottle
        is_noun = any(following in concept.mentions["en"] for concept in NOUNS)
        return not (caption[end : end + 1] == " " and is_noun and following not in _index(VERBS, "en"))
    if table is not VERBS:
        return True
    ends_here = not re.match(r"\s*[\w']", caption[end:])
    return group == "move" if ends_here else following in KEEPS[group][language].split()


def _fits_chinese(caption: str, start: int, end: int, table: tuple[Concept, ...]) -> bool:
    before, after = caption[start - 1 : start], caption[end : end + 1]
    if table is NUMBERS:
        return bool(after) and after in _COUNTED and before not in tuple("一二两三四五六七八九十")
    if table is NOUNS and end - start == 1:
        return before in ("", *_BEFORE_ONE) and after in ("", *_AFTER_ONE)
    return True


_ONE, _MANY = (frozenset(RULES[name].split()) for name in ("one", "many"))


def _of_number(slots: frozenset[str], before: Sequence[str]) -> frozenset[str]:
    """The slots that fit the nearest determiner, where a German word may be singular or plural."""
    numbers = {slot.split()[1] for slot in slots}
    if numbers != {"sg", "pl"}:
        return slots
    for word in reversed(before[-3:]):
        if word in _ONE | _MANY:
            number = "sg" if word in _ONE else "pl"
            return frozenset(slot for slot in slots if slot.split()[1] == number)
    return slots


def _replacements(
    caption: str, found: _Found, language: str, kind: str, mentioned: frozenset[str]
) -> list[tuple[str, str]]:
    """Possible replacements: names of concepts and their forms, capitalised as in the caption."""
    own = found.concept
    excluded = {own.name, *mentioned, *(name for name, others in ALSO.items() if own.name in others)}
    excluded.update(other for name in (own.name, *mentioned) for other in ALSO.get(name, ()))
    groups = FAR[own.group] if kind == "blatant" else (own.group,)
    replacements = []
    for concept in _TABLES[kind]:
        if concept.group not in groups or concept.name in excluded:
            continue
        if kind == "number" and (
            concept.name not in PLANTED_NUMBERS
            or min(abs(int(concept.name) - int(other)) for other in (own.name, *mentioned)) < _NUMBERS_APART
        ):
            continue
        if own.name in MOTION and concept.name not in MOTION:
            continue
        form = _form(concept.variants[language], caption, found, language)
        if form:
            capital = caption[found.start].isupper()
            first = form[0].upper() if capital else form[0].lower()
            replacements.append((concept.name, first + form[1:]))
    return replacements


def _form(variants: Sequence[Variant], caption: str, found: _Found, language: str) -> str:
    """The first form that is right in every slot of the replaced one, or ""."""
    replaced = caption[found.start : found.end]
    before = _tokens(caption[: found.start])
    article = before[-1].group().lower() if before else ""
    for variant in variants:
        forms = {variant.forms.get(slot) for slot in found.slots}
        if len(forms) != 1 or None in forms:
            continue
        (form,) = forms
        if language == "zh":
            clause = re.split("[，。、]", caption[: found.start])[-1]
            counted = set(_MEASURED.findall(clause)) & set(found.measures)
            if not counted <= set(variant.measures):
                continue
        elif _onset(form, language, article) != _onset(replaced, language, article):
            continue
        return form
    return ""


def _onset(word: str, language: str, before: str) -> str:
    """The property of a word's beginning that shapes the word before it: a dog, an apple; le, l'; y, e."""
    word = word.lower()
    if language == "en":
        return "vowel" if before in ("a", "an") and word[0] in "aeiou" else ""
    if language == "fr":
        return "vowel" if word[0] in "aeiouhâàéèêëîïôûœ" else ""
    if language == "es" and before in ("y", "e", "o", "u"):
        sound = word.removeprefix("h")
        return sound[0] if sound[0] in "io" else ""
    return ""
