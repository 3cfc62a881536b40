"""Captions → the same captions negated, by rules of their language."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import zip_longest

from ..text.segmentation import chinese_simplifier
from ..text.word_classes import Word, tag, tagger_name
from .words import Span, placed_words, with_capital_of, with_text, without_stop

# The word before the verb, and words that may stand between it and the verb.
_BEFORE_VERB = {
    "ar": ("لا", ""),
    "es": ("no", "se lo la los las le les me te nos"),
    "he": ("לא", ""),
    "id": ("tidak", "sedang"),
    "it": ("non", "si lo la li le gli ci vi ne mi ti"),
    "pl": ("nie", ""),
    "pt": ("não", "se lhe lhes me te"),
    "ro": ("nu", "se o îl îi le își"),
    "ru": ("не", ""),
    "uk": ("не", ""),
}
# Auxiliaries and copulas, which taggers count as "other".
_AUXILIARIES = {
    "en": "is are was were am can will would could should must may might",
    "es": "es son está están era eran estaba estaban hay ha han fue",
    "fr": "est sont était étaient a ont avait peut peuvent",
    "it": "è sono era erano sta stanno ha hanno può possono",
    "pl": "jest są był była były może",
    "pt": "é são está estão era eram estava estavam há tem têm foi",
    "ro": "este sunt e era erau are au",
    "ru": "был была было были есть",
    "uk": "був була було були є",
    "id": "sedang akan bisa",
}
# Without a verb, the negation stands before the first of these: A man not in the street.
_PREPOSITIONS = {
    "da": "i på ved med under foran bag over mod gennem langs til",
    "de": "in im auf an am bei mit vor hinter unter über neben zwischen durch entlang aus zu zum zur",
    "en": "in on at with near under behind by over above along beside inside between through against next",
    "es": "en sobre con junto ante bajo detrás cerca entre por",
    "fr": "dans sur avec devant derrière sous près en au aux à parmi",
    "id": "di dengan pada dalam",
    "it": "in nel nella nello su sul sulla con davanti dietro sotto vicino tra al alla",
    "nl": "in op aan bij met voor achter onder over naast tussen door langs",
    "no": "i på ved med under foran bak over mot gjennom langs til",
    "pl": "w we na z ze przy pod nad obok przed za między",
    "pt": "em no na nos nas sobre com junto sob perto entre por",
    "ro": "în pe cu lângă sub la printre",
    "ru": "в во на с со у под над возле перед за между",
    "sv": "i på vid med under framför bakom över mot genom längs till",
    "uk": "в у на з із біля під над перед за між",
}
# The article becomes "no".
_NO_ARTICLE = {
    "da": {"en": "ingen", "et": "intet"},
    "de": {f"ein{end}": f"kein{end}" for end in ("", "e", "en", "em", "er", "es")},
    "nl": {"een": "geen"},
    "no": {"en": "ingen", "et": "intet"},
    "sv": {"en": "ingen", "ett": "inget"},
}
_NOT = {"da": "ikke", "de": "nicht", "en": "not", "fr": "pas", "nl": "niet", "no": "ikke", "sv": "inte"}
# Endings: the first one in the list that the caption contains, at its last place.
_ENDINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "ja": (
        (r"([てで])いる", r"\1いない"),
        (r"([てで])います", r"\1いません"),
        (r"([てで])いた", r"\1いなかった"),
        (r"([てで])いました", r"\1いませんでした"),
        (r"([がもは])ある", r"\1ない"),
        (r"([がもはに])いる", r"\1いない"),
        (r"([がもは])あります", r"\1ありません"),
        (r"([がもはに])います", r"\1いません"),
        (r"である", "ではない"),
        (r"ました", "ませんでした"),
        (r"ます(?!ま)", "ません"),
        (r"です", "ではありません"),
        (r"([っし着])た(?=[\u4e00-\u9fff\u30a0-\u30ff])", r"\1ていない"),
        (r"んだ(?=[\u4e00-\u9fff\u30a0-\u30ff])", "んでいない"),
    ),
    "ko": (
        (r"고 있는", "고 있지 않은"),
        (r"고 있", "고 있지 않"),
        (r"([아어여해와워]) 있는", r"\1 있지 않은"),
        (r"([아어여해와워]) 있", r"\1 있지 않"),
        (r"([이가은는에]) 있", r"\1 없"),
    ),
}
_NEEDS_VERBS = frozenset((*_BEFORE_VERB, "cs", "en", "fr", "th", "zh"))


def verb_finder(language: str | None) -> str:
    """Name, for signatures, of what finds the verbs of a language; "" if its rules need no verbs.

    Raises:
        InputError, MissingExtraError: see `capscore.text.word_classes.tagger_name`.
    """
    return tagger_name(language) if (language or "en") in _NEEDS_VERBS else ""


def negate(caption: str, code: str, rng: random.Random) -> str:
    """The caption with a "not".

    It is unchanged if no rule of the language applies.
    """
    if code in _ENDINGS:
        return _by_ending(caption, code)
    if code in _NO_ARTICLE:
        return _by_article(caption, code, rng)
    if code == "tr":
        there = re.search(r"\bvar\b", caption)
        if there is None:
            return _at_end(caption, " değil")
        return with_text(caption, there.span(), "yok")
    return _NEGATIONS.get(code, _before_verb)(caption, code, tag([caption], code)[0])


def _replaced(caption: str, span: Span, word: str) -> str:
    """The caption with another word at a place; it takes over a capital."""
    return with_text(caption, span, with_capital_of(word, caption[slice(*span)]))


def _by_ending(caption: str, code: str) -> str:
    for pattern, negated in _ENDINGS[code]:
        matches = list(re.finditer(pattern, caption))
        if matches:
            return with_text(caption, matches[-1].span(), matches[-1].expand(negated))
    return caption


def _by_article(caption: str, code: str, rng: random.Random) -> str:
    """'No dog' for 'a dog'; without an article, 'not' before the first preposition, otherwise at the end."""
    places = placed_words(caption, code)
    # at the end it is part of the verb: er steigt ein
    articles = [place for place in places[:-1] if caption[slice(*place)].lower() in _NO_ARTICLE[code]]
    if articles:
        place = rng.choice(articles)
        return _replaced(caption, place, _NO_ARTICLE[code][caption[slice(*place)].lower()])
    return _before_preposition(caption, code, _NOT[code]) or _at_end(caption, f" {_NOT[code]}")


def _at_end(caption: str, ending: str) -> str:
    end = len(without_stop(caption))
    return caption[:end] + ending + caption[end:] if end else caption


def _before_preposition(caption: str, code: str, negation: str) -> str:
    """The caption, negated before the first preposition that does not begin it; "" if there is none."""
    for start, end in placed_words(caption, code)[1:]:
        if caption[start:end] in _PREPOSITIONS.get(code, "").split():
            return with_text(caption, (start, start), f"{negation} ")
    return ""


def _first_verb(tagged: Sequence[Word], code: str) -> int | None:
    """Index of the first verb or auxiliary."""
    auxiliaries = _AUXILIARIES.get(code, "").split()
    for index, word in enumerate(tagged):
        if word.word_class == "verb" or word.text.lower() in auxiliaries:
            return index
    return None


def _before_verb(caption: str, code: str, tagged: Sequence[Word]) -> str:
    negation, between = _BEFORE_VERB[code]
    index = _first_verb(tagged, code)
    if index is None:
        return _before_preposition(caption, code, negation) or caption
    while index and tagged[index - 1].text.lower() in between.split():
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
    for word, after in zip_longest(tagged, tagged[1:]):
        text, is_verb = word.text.lower(), word.word_class == "verb"
        has = text in ("has", "have", "had")
        if text in _AUXILIARIES[code].split() or (has and after is not None and after.word_class == "verb"):
            return with_text(caption, (word.end, word.end), " not")
        if is_verb and text.endswith(("ing", "ed", "en", "wn")):
            return _inserted(caption, word.start, "not")
        if is_verb or has:
            return _replaced(caption, (word.start, word.end), _do_not(text))
    return _before_preposition(caption, code, "not") or caption


def _do_not(verb: str) -> str:
    """A negated English verb.

    >>> [_do_not(verb) for verb in ("carries", "watches", "lies", "has", "ran")]
    ['does not carry', 'does not watch', 'does not lie', 'does not have', 'did not run']
    """
    if verb in _ENGLISH_PAST:
        return f"did not {_ENGLISH_PAST[verb]}"
    if not verb.endswith("s") or verb.endswith("ss"):
        return f"do not {verb}"
    base = {"has": "have", "does": "do", "goes": "go"}.get(verb, verb[:-1])
    if verb.endswith("ies") and len(verb) > 4:
        base = f"{verb[:-3]}y"
    elif verb.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")):
        base = verb[:-2]
    return f"does not {base}"


_ENGLISH_PAST = dict(
    pair.split(":")
    for pair in "ran:run sat:sit stood:stand rode:ride held:hold wore:wear took:take ate:eat drank:drink "
    "made:make lay:lie flew:fly swam:swim went:go had:have did:do threw:throw caught:catch drove:drive "
    "got:get came:come".split()
)


def _french(caption: str, code: str, tagged: Sequence[Word]) -> str:
    """Ne … pas around a verb, ne pas before an infinitive, pas before a participle or, without a verb, in."""
    index = _first_verb(tagged, code)
    if index is None:
        return _before_preposition(caption, code, "pas") or caption
    verb = tagged[index]
    text = verb.text.lower()
    if text not in _AUXILIARIES[code].split():
        before = tagged[index - 1].text.lower() if index else ""
        opens = before in ("à", "de", "pour", "sans", "d'", "d’", "en train")
        if opens and text.endswith(("er", "ir", "re")):
            return _inserted(caption, verb.start, "ne pas")
        if re.search(r"(?:é|ée|és|ées|u|ue|us|ues|is|ise|ises|it|ite|ert|erte|erts|ertes)$", text):
            return _inserted(caption, verb.start, "pas")
    while index and tagged[index - 1].text.lower() in ("se", "s'", "s’", "y", "en", "lui", "leur"):
        index -= 1
    span = tagged[index].start, verb.end
    inner = caption[slice(*span)]
    is_elided = unicodedata.normalize("NFD", inner[0].lower())[0] in "aeiouy"
    negation = "n’" if is_elided else "ne "
    return with_text(caption, span, f"{negation}{inner} pas")


def _czech(caption: str, code: str, tagged: Sequence[Word]) -> str:
    """The verb with the prefix ne-."""
    for word in tagged:
        text = word.text.lower()
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
LANGUAGES = sorted({*_BEFORE_VERB, *_NEGATIONS, *_NO_ARTICLE, *_ENDINGS, "tr"})
