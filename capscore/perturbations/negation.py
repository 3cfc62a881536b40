"""Captions → the same captions negated, by rules of their language."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain, zip_longest

from ..text.letters import lower
from ..text.segmentation import chinese_simplifier
from ..text.word_classes import Word, tag, tagger_name
from .rules import languages_with, listed, rule
from .words import Span, placed_words, with_capital_of, with_text, without_stop


def verb_finder(language: str | None) -> str:
    """Name, for signatures, of what finds the verbs of a language; "" if its rules need no verbs."""
    code = language or "en"
    if code in _NEGATIONS or rule(code, "not_before_verb"):
        return tagger_name(code)
    return ""


def negate(caption: str, code: str, rng: random.Random) -> str:
    """The caption with a "not"."""
    negations = rule(code, "negated")
    if negations and re.search(negations, caption, re.IGNORECASE):
        return caption
    if endings := rule(code, "negated_endings"):
        return _by_ending(caption, endings)
    if articles := rule(code, "no_articles"):
        return _by_article(caption, code, articles, rng)
    if code == "tr":
        there = re.search(r"\bvar\b", caption)
        if there is None:
            return _at_end(caption, " değil")
        return with_text(caption, there.span(), "yok")
    return _NEGATIONS.get(code, _before_verb)(caption, code, tag([caption], code)[0])


def _replaced(caption: str, span: Span, word: str) -> str:
    """The caption with another word at a place; it takes over a capital."""
    return with_text(caption, span, with_capital_of(word, caption[slice(*span)]))


def _by_ending(caption: str, endings: Mapping[str, str]) -> str:
    for pattern, negated in endings.items():
        matches = list(re.finditer(pattern, caption))
        if matches:
            return with_text(caption, matches[-1].span(), matches[-1].expand(negated))
    return caption


def _by_article(caption: str, code: str, articles: Mapping[str, str], rng: random.Random) -> str:
    """'No dog' for 'a dog'; without an article, 'not' before the first preposition, otherwise at the end."""
    # at the end it is part of the verb: er steigt ein
    places = placed_words(caption, code)[:-1]
    found = [place for place in places if lower(caption[slice(*place)], code) in articles]
    if found:
        place = rng.choice(found)
        return _replaced(caption, place, articles[lower(caption[slice(*place)], code)])
    negation = rule(code, "not")
    return _before_preposition(caption, code, negation) or _at_end(caption, f" {negation}")


def _at_end(caption: str, ending: str) -> str:
    end = len(without_stop(caption))
    return caption[:end] + ending + caption[end:] if end else caption


def _before_preposition(caption: str, code: str, negation: str) -> str:
    """The caption, negated before the first preposition that does not begin it; "" if there is none."""
    for start, end in placed_words(caption, code)[1:]:
        if caption[start:end] in listed(code, "prepositions"):
            return with_text(caption, (start, start), f"{negation} ")
    return ""


def _first_verb(tagged: Sequence[Word], code: str) -> int | None:
    """Index of the first verb or auxiliary."""
    auxiliaries = listed(code, "auxiliaries")
    for index, word in enumerate(tagged):
        if word.word_class == "verb" or lower(word.text, code) in auxiliaries:
            return index
    return None


def _before_verb(caption: str, code: str, tagged: Sequence[Word]) -> str:
    negation = rule(code, "not_before_verb")
    index = _first_verb(tagged, code)
    if index is None:
        return _before_preposition(caption, code, negation) or caption
    while index and lower(tagged[index - 1].text, code) in listed(code, "before_verb"):
        index -= 1
    return _inserted(caption, tagged[index].start, negation)


def _inserted(caption: str, place: int, word: str) -> str:
    """The caption with a word and a blank inserted; the word takes over a capital."""
    rest = caption[place:]
    if not caption[:place].strip() and rest[:1].isupper():
        word, rest = with_capital_of(word, rest), rest[0].lower() + rest[1:]
    return f"{caption[:place]}{word} {rest}"


def _english(caption: str, code: str, tagged: Sequence[Word]) -> str:
    """Is not, does not run, do not run, not running; without a verb, not in."""
    auxiliaries = listed(code, "auxiliaries")
    for word, after in zip_longest(tagged, tagged[1:]):
        text, is_verb = lower(word.text, code), word.word_class == "verb"
        has = text in ("has", "have", "had")
        if text in auxiliaries or (has and after is not None and after.word_class == "verb"):
            return with_text(caption, (word.end, word.end), " not")
        if is_verb and text.endswith(("ing", "ed", "en", "wn")):
            return _inserted(caption, word.start, "not")
        if is_verb or has:
            return _replaced(caption, (word.start, word.end), _do_not(text))
    return _before_preposition(caption, code, "not") or caption


@cache
def _past_tenses() -> dict[str, str]:
    return dict(pair.split(":") for pair in listed("en", "past"))


def _do_not(verb: str) -> str:
    """A negated English verb.

    >>> [_do_not(verb) for verb in ("carries", "watches", "lies", "has", "ran")]
    ['does not carry', 'does not watch', 'does not lie', 'does not have', 'did not run']
    """
    past = _past_tenses()
    if verb in past:
        return f"did not {past[verb]}"
    if not verb.endswith("s") or verb.endswith("ss"):
        return f"do not {verb}"
    base = {"has": "have", "does": "do", "goes": "go"}.get(verb, verb[:-1])
    if verb.endswith("ies") and len(verb) > 4:
        base = f"{verb[:-3]}y"
    elif verb.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")):
        base = verb[:-2]
    return f"does not {base}"


def _french(caption: str, code: str, tagged: Sequence[Word]) -> str:
    """Ne … pas around a verb, ne pas before an infinitive, pas before a participle or, without a verb, in."""
    index = _first_verb(tagged, code)
    if index is None:
        return _before_preposition(caption, code, "pas") or caption
    verb = tagged[index]
    text = lower(verb.text, code)
    if text not in listed(code, "auxiliaries"):
        before = lower(tagged[index - 1].text, code) if index else ""
        opens = before in ("à", "de", "pour", "sans", "d'", "d’", "en train")
        if opens and text.endswith(("er", "ir", "re")):
            return _inserted(caption, verb.start, "ne pas")
        if re.search(r"(?:é|ée|és|ées|u|ue|us|ues|is|ise|ises|it|ite|ert|erte|erts|ertes)$", text):
            return _inserted(caption, verb.start, "pas")
    while index and lower(tagged[index - 1].text, code) in ("se", "s'", "s’", "y", "en", "lui", "leur"):
        index -= 1
    span = tagged[index].start, verb.end
    inner = caption[slice(*span)]
    is_elided = unicodedata.normalize("NFD", inner[0].lower())[0] in "aeiouy"
    negation = "n’" if is_elided else "ne "
    return with_text(caption, span, f"{negation}{inner} pas")


def _czech(caption: str, code: str, tagged: Sequence[Word]) -> str:
    """The verb with the prefix ne-."""
    for word in tagged:
        text = lower(word.text, code)
        if word.word_class == "verb" and re.match("ne(?!s[eoul]|ch)", text):
            return caption  # its prefix negates it
        if word.word_class == "verb" or text in ("je", "jsou", "byl", "byla", "byli", "byly"):
            negated = "není" if text == "je" else f"ne{text}"
            return _replaced(caption, (word.start, word.end), negated)
    return caption


def _chinese(caption: str, code: str, tagged: Sequence[Word]) -> str:
    """没有 (沒有) before the first verb or the mark of its continuous form, 不 before 是 and 在."""
    is_simplified = chinese_simplifier()(caption) == caption
    have_not = "没有" if is_simplified else "沒有"
    negations = {"是": "不", "有": have_not[0]}
    for word, after in zip_longest(tagged, tagged[1:]):
        if word.text == "正在":
            return with_text(caption, (word.start, word.end), f"{have_not}在")
        is_going_on = word.text == "在" and after is not None and after.word_class == "verb"
        if word.text in negations or is_going_on or word.word_class == "verb":
            return with_text(caption, (word.start, word.start), negations.get(word.text, have_not))
    for word in tagged:
        if word.text == "在":
            return with_text(caption, (word.start, word.start), "不")
    return caption


def _thai(caption: str, code: str, tagged: Sequence[Word]) -> str:
    """ไม่ได้ before the mark of the continuous form, or before the first verb; ไม่ before มี."""
    going_on = [word for word in tagged if word.text == "กำลัง"]
    verbs = going_on or [word for word in tagged if word.word_class == "verb"]
    if not verbs:
        return caption
    negation = "ไม่" if verbs[0].text == "มี" else "ไม่ได้"
    return with_text(caption, (verbs[0].start, verbs[0].start), negation)


_NEGATIONS: dict[str, Callable[[str, str, Sequence[Word]], str]] = {
    "cs": _czech,
    "en": _english,
    "fr": _french,
    "th": _thai,
    "zh": _chinese,
}
_BY_RULE = map(languages_with, ("not_before_verb", "no_articles", "negated_endings"))
LANGUAGES = sorted({"tr", *_NEGATIONS, *chain.from_iterable(_BY_RULE)})
