"""Captions of a photo → one of them with a wrong word, or without its last clauses.

In: captions by language, what kind of error, a source of chance; `planted_words.yaml`, a lexicon of nouns,
colours, numbers and verbs in six languages, and `planted_rules.yaml`. Out: a caption that is wrong in one
word and still a sentence, since the word agrees as the right one did; no caption of the photo mentions it.

A form has a slot, which says what it agrees with: gender and number, in German the case, of verbs the person.
A word can stand for another if it has the same form in every slot that the other one may be in.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from weights.making.jsonl import beside

LANGUAGES = ("en", "de", "fr", "es", "pt", "zh")
RULES: dict[str, Any] = beside(__file__, "planted_rules.yaml")
# kind of error → table of words
KINDS = {"blatant": "nouns", "same_kind": "nouns", "colour": "colours", "number": "numbers", "verb": "verbs"}
ALSO: Mapping[str, Sequence[str]] = RULES["also"]
# numbers that are planted, and their least distance from every mentioned number
PLANTED_NUMBERS, _NUMBERS_APART = ("3", "4", "5", "6", "7"), 2
_KEPT_WORDS, _DROPPED_WORDS, _KEPT_CHARACTERS = 3, 2, 4
# German words of at most this many letters are not second parts of others: drei does not end in Ei
_SHORT = 3
_ENDINGS = ("", "s", "es", "n", "en")
_MEASURED = re.compile(
    "[一二两三四五六七八九十几这那每]([个只条匹辆艘张把名位座头些架台列顶件双副面堵片块根碗杯瓶本部家间])"
)
_COUNTED, _CHINESE_NUMBERS = "个只条名位辆匹张头艘人", "一二两三四五六七八九十"


class Variant(NamedTuple):
    """One way to write a concept in a language: slot → form, and Chinese measure words that go with it."""

    forms: dict[str, str]
    replaced: bool  # whether it is replaced where it is found
    measures: str


class Concept(NamedTuple):
    """A concept that can be planted, by its English name, in a group of similar things."""

    name: str
    group: str
    variants: dict[str, list[Variant]]  # language → the ways to write it, the preferred one first
    mentions: dict[str, frozenset[str]]  # language → words that say it, lower-cased; every form is one


def _concepts(table: str, groups: Mapping[str, Mapping[str, str]]) -> Iterator[Concept]:
    """The concepts of a table of the lexicon, which describes its format."""
    for group, concepts in groups.items():
        for name, line in concepts.items():
            variants, mentions = {}, {}
            for language, cell in zip(LANGUAGES, line.split("|"), strict=True):
                planted, _, others = cell.partition("~")
                texts = [text.strip() for text in planted.split(",") if text.strip("- ")]
                variants[language] = [_variant(text, table, language) for text in texts]
                forms = [form for item in variants[language] for form in item.forms.values()]
                mentions[language] = frozenset(word.lower() for word in (*forms, *others.split()))
            yield Concept(name, group, variants, mentions)


def _variant(text: str, table: str, language: str) -> Variant:
    """ "m chien chiens" → its forms."""
    words, gender, measures = text.removeprefix("+").split(), "", ""
    if table == "nouns" and language == "zh":
        measures = words.pop(0)
    elif table == "nouns" and language != "en":
        gender = words.pop(0) + " "
    slots = RULES["slots"][table].get(language) or RULES["slots"][table]["others"]
    if words[0].startswith("="):
        words, slots = [words[0][1:]], ["mass"]
    forms = {gender + slot: form for slot, form in zip(slots, words, strict=True) if form != "-"}
    return Variant(forms, not text.startswith("+"), measures)


TABLES = {
    table: tuple(_concepts(table, groups)) for table, groups in beside(__file__, "planted_words.yaml").items()
}


class Planted(NamedTuple):
    """A caption with one wrong word, `caption[start:end]`; `concept` is what it says, in English."""

    caption: str
    original: str
    start: int
    end: int
    concept: str


class _Found(NamedTuple):
    """A word of a caption that another of its table could replace, if it has the same form in all slots."""

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
    mentioned = mentions(captions, KINDS[kind])
    for caption in shuffled(captions.get(language, ()), rng):
        choices = []
        for found in _occurrences(caption, language, KINDS[kind]):
            if forms := [*_replacements(caption, found, language, kind, mentioned)]:
                choices.append((found, forms))
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
    """A caption up to where its first clause with a word of `clauses` begins, or None.

    At least three words stay (Chinese: four characters), two go, and no colour is torn from another. A
    Chinese caption without such a clause loses what stands before its last 的, at least four characters.
    """
    starts = "|".join(map(re.escape, RULES["clauses"][language]))
    for place in re.finditer(f"(?=({starts}))", caption):
        kept, dropped = caption[: place.start()], caption[place.end(1) :]
        last = "".join(_words(kept)[-1:]).lower()
        is_colour = any(last in colour.mentions[language] for colour in TABLES["colours"])
        is_long = _length(kept, language) >= _KEPT_WORDS and _length(dropped, language) >= _DROPPED_WORDS
        if is_long and not is_colour:
            return kept.rstrip()
    if language == "zh":
        before, _, after = caption.rpartition("的")
        if len(before) >= _KEPT_CHARACTERS and _words(after):
            return after
    return None


def _length(text: str, language: str) -> float:
    words = _words(text)
    return len("".join(words)) * _KEPT_WORDS / _KEPT_CHARACTERS if language == "zh" else len(words)


_TOKEN = re.compile(r"[^\W\d_]+|\d+")
_words = _TOKEN.findall


def mentions(captions: Mapping[str, Sequence[str]], table: str) -> frozenset[str]:
    """Names of a table's concepts that any of a photo's captions mentions in any of `LANGUAGES`.

    German words also mention what they end on (Rennhund), Chinese ones what they hold.
    """
    texts = ((caption, language) for language in LANGUAGES for caption in captions.get(language, ()))
    return frozenset().union(*(_mentioned(*text, table) for text in texts))


@lru_cache(maxsize=1 << 16)
def _mentioned(caption: str, language: str, table: str) -> frozenset[str]:
    text = caption.lower()
    words = set(_words(text))

    def says(concept: Concept) -> bool:
        said = concept.mentions[language]
        if language == "zh":
            return any(word in text for word in said)
        is_said = not said.isdisjoint(words)
        if language == "de":
            ends = tuple(form + ending for form in said if len(form) > _SHORT for ending in _ENDINGS)
            return is_said or any(word.endswith(ends) for word in words)
        return is_said

    return frozenset(concept.name for concept in TABLES[table] if says(concept))


@cache
def _index(table: str, language: str) -> dict[str, list[tuple[Concept, str, str]]]:
    """Lower-cased form that may be replaced → its concept, slot and measure words."""
    index: dict[str, list[tuple[Concept, str, str]]] = {}
    for concept in TABLES[table]:
        for variant in concept.variants[language]:
            for slot, form in variant.forms.items() if variant.replaced else ():
                index.setdefault(form.lower(), []).append((concept, slot, variant.measures))
    return index


@cache
def _pattern(table: str, language: str) -> re.Pattern[str]:
    """What a word is; in Chinese one of the table, longest first, so that none is found within another."""
    if language != "zh":
        return _TOKEN
    words = {word for concept in TABLES[table] for word in concept.mentions["zh"]}
    return re.compile("|".join(sorted(words, key=lambda word: (-len(word), word))))


def _occurrences(caption: str, language: str, table: str) -> Iterator[_Found]:
    """Words of a table in a caption, in order, that another word of the table could replace."""
    words = list(_pattern(table, language).finditer(caption))
    for place, word in enumerate(words):
        entries = _index(table, language).get(word.group().lower(), [])
        if len({concept.name for concept, _, _ in entries}) == 1:
            concept, _, measures = entries[0]
            slots = frozenset(slot for _, slot, _ in entries)
            following = words[place + 1].group().lower() if place + 1 < len(words) else ""
            if language == "de" and table == "nouns":
                slots = _of_number(slots, [other.group().lower() for other in words[:place]])
            if slots and _fits(caption, word, following, concept.group, language, table):
                yield _Found(*word.span(), concept, slots, measures)


def _fits(caption: str, word: re.Match[str], following: str, group: str, language: str, table: str) -> bool:
    """Whether a word may be replaced: it is no part of another word, and a verb is none of a phrase."""
    start, end = word.span()
    before, after = caption[start - 1 : start], caption[end : end + 1]
    if language == "zh":
        if table == "numbers":
            return bool(after) and after in _COUNTED and (not before or before not in _CHINESE_NUMBERS)
        is_whole = before in RULES["before_one"] and after in RULES["after_one"]
        return table != "nouns" or end - start > 1 or is_whole
    if "-" in (before, after):
        return False
    if table == "nouns" and language == "en":  # the first part of a compound: a water bottle
        is_noun = any(following in concept.mentions["en"] for concept in TABLES["nouns"])
        return not (after == " " and is_noun and following not in _index("verbs", "en"))
    if table != "verbs":
        return True
    ends_here = not re.match(r"\s*[\w']", caption[end:])
    return group == "move" if ends_here else following in RULES["keeps"][group][language].split()


def _of_number(slots: frozenset[str], before: Sequence[str]) -> frozenset[str]:
    """The slots that fit the nearest determiner, where a German word may be singular or plural."""
    numbers = {slot.split()[1] for slot in slots}
    for word in reversed(before[-3:]) if numbers == {"sg", "pl"} else ():
        for number, determiners in RULES["determiners"].items():
            if word in determiners.split():
                return frozenset(slot for slot in slots if slot.split()[1] == number)
    return slots


def _replacements(
    caption: str, found: _Found, language: str, kind: str, mentioned: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """Possible replacements: names of concepts and their forms, capitalised as in the caption."""
    own = found.concept
    excluded = {own.name, *mentioned, *(name for name, others in ALSO.items() if own.name in others)}
    excluded.update(other for name in (own.name, *mentioned) for other in ALSO.get(name, ()))
    groups = RULES["far"][own.group] if kind == "blatant" else [own.group]
    for concept in TABLES[KINDS[kind]]:
        fits = concept.group in groups and concept.name not in excluded
        if fits and kind == "number":
            apart = min(abs(int(concept.name) - int(other)) for other in (own.name, *mentioned))
            fits = concept.name in PLANTED_NUMBERS and apart >= _NUMBERS_APART
        if own.name in RULES["motion"]:
            fits = fits and concept.name in RULES["motion"]
        if fits and (form := _form(concept, caption, found, language)):
            first = form[0].upper() if caption[found.start].isupper() else form[0].lower()
            yield concept.name, first + form[1:]


def _form(concept: Concept, caption: str, found: _Found, language: str) -> str:
    """The first form of a concept that is right in every slot of the replaced one, or ""."""
    article = "".join(_words(caption[: found.start])[-1:]).lower()
    replaced = caption[found.start : found.end]
    clause = re.split("[，。、]", caption[: found.start])[-1]
    counted = set(_MEASURED.findall(clause)) & set(found.measures)
    for variant in concept.variants[language]:
        form, *others = {variant.forms.get(slot) for slot in found.slots}
        if form is None or others or not counted <= set(variant.measures):
            continue
        if _onset(form, language, article) == _onset(replaced, language, article):
            return form
    return ""


def _onset(word: str, language: str, before: str) -> list[bool]:
    """Which sounds that shape the word before it a word begins with: a dog, an apple; le, l'; y, e."""
    rule = RULES["onsets"].get(language, {"sounds": []})
    if before not in rule.get("after", [before]):
        return []
    return [re.match(sound, word.lower()) is not None for sound in rule["sounds"]]
