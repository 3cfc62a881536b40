"""Captions → the same captions with lexical noise of kinds that PR-MCS neither trains on nor reports.

In: captions of one language. Out: `capscore.perturbations.published.Perturbed`; a perturbed caption depends
only on the caption, the seed and the language. These kinds show whether a metric has learnt that something is
wrong with a caption's words, or only the five kinds of its training. Number and negation leave fluent
captions that say something else.

Each kind that depends on the language has tables in a module of its own (`number`, `negation`, `foreign`). A
kind without a table for a language is an error.
"""

from __future__ import annotations

import difflib
import random
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

from ..errors import CapscoreError, InputError, Setting
from ..text.languages import NAMES, language_code
from .foreign import replace_by_foreign_word
from .negation import NEGATED_LANGUAGES, negate, verb_finder
from .number import NUMBERS, change_number
from .published import Perturbed, check_captions, word_finder
from .words_and_gaps import caption_random, placed_words, weave, words_and_gaps

KINDS = ("neighbours", "typos", "number", "negation", "foreign", "truncation")
RULES = "unseen1"  # in signatures; the number grows whenever the rules for a caption change


def perturb_unseen(
    captions: Sequence[str], kind: str, language: str | None = None, *, seed: int = 0
) -> Perturbed:
    """Perturb captions in ways that the five published kinds do not cover.

    - neighbours: two adjacent words change places.
    - typos: two letters of a word of three or more letters change places, or one is left out or doubled; in
      captions of eight or more words, in two words. In Japanese and Chinese a character is replaced by its
      neighbour.
    - number: a number, as a word from two to ten or in digits, becomes another one. A caption without numbers
      is unchanged.
    - negation: a "not" is added by the rules of the language. A caption without an applicable rule is
      unchanged.
    - foreign: a word becomes a word of another language: its translation if it is one of the common nouns in
      the table, otherwise any of these nouns.
    - truncation: the last 30 to 50 percent of the words are cut off.

    Args:
        captions: n texts in one language.
        kind: One of `KINDS`.
        language: Language code (see `capscore.text.languages.language_code`); None for English.
        seed: Whole number that seeds the draws.

    Raises:
        CapscoreError: an unknown kind, or a seed that is not a whole number.
        InputError: a caption is not a string or is blank (the error names the row), or the kind has no rules
            for the language.
        MissingExtraError: the language's segmenter, or its tagger, is not installed.

    >>> perturb_unseen(["two dogs run on the beach"], "number", "en").captions
    ['six dogs run on the beach']
    >>> perturb_unseen(["Ein Hund läuft."], "negation", "de").captions
    ['Kein Hund läuft.']
    """
    if kind not in KINDS:
        close = difflib.get_close_matches(str(kind).lower(), KINDS, n=1, cutoff=0.4)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise CapscoreError(f"perturbation {kind!r} is not one of {', '.join(KINDS)}{hint}")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise CapscoreError(Setting("seed", seed), ": expected a whole number")
    check_captions(captions)
    code = None if language is None else language_code(language)
    if not known(kind, code):
        raise InputError(
            f"there are no rules for {kind!r} in {_named(code)}; there are for {', '.join(_TABLES[kind])}",
            field="language",
        )
    settings: dict[str, object] = {"seed": seed, "rules": RULES}
    if kind in ("neighbours", "typos", "foreign", "truncation"):
        settings["words"] = word_finder(code)
    verbs = verb_finder(code or "en") if kind == "negation" else None
    if verbs is not None:
        settings["verbs"] = verbs
    change = _CHANGES[kind]
    texts = [change(caption, code or "en", caption_random(seed, kind, caption)) for caption in captions]
    unchanged = np.array([a == b for a, b in zip(texts, captions, strict=True)], dtype=bool)
    return Perturbed(texts, unchanged, np.zeros(len(texts), dtype=np.int64), kind, code, settings)


def known(kind: str, language: str | None = None) -> bool:
    """Whether a kind has rules for a language.

    >>> known("negation", "ja"), known("negation", "sw"), known("typos", "sw")
    (True, False, True)
    """
    code = "en" if language is None else language_code(language)
    return kind not in _TABLES or code in _TABLES[kind]


def _named(code: str | None) -> str:
    return f"{NAMES[code][1]} ({code!r})" if code in NAMES else repr(code)


def _neighbours(caption: str, code: str, chance: random.Random) -> str:
    places = placed_words(caption, code)
    texts = [caption[start:end] for start, end in places]
    pairs = [n for n in range(len(texts) - 1) if texts[n] != texts[n + 1]]
    if not pairs:
        return caption
    n = chance.choice(pairs)
    (a, b), (c, d) = places[n : n + 2]
    return caption[:a] + caption[c:d] + caption[b:c] + caption[a:b] + caption[d:]


def _typos(caption: str, code: str, chance: random.Random) -> str:
    places = placed_words(caption, code)
    if code in ("ja", "zh"):
        return _another_character(caption, chance)
    long = [place for place in places if len(_letters(caption[slice(*place)])) >= 3]
    chosen = chance.sample(long, min(len(long), 2 if len(places) >= 8 else 1))
    for start, end in sorted(chosen, reverse=True):
        caption = caption[:start] + _mistyped(caption[start:end], chance) + caption[end:]
    return caption


def _letters(word: str) -> list[str]:
    """Characters with the marks on them, which a reader sees as one letter each."""
    found: list[str] = []
    for character in word:
        if found and (unicodedata.category(character)[0] == "M" or character in "\u200c\u200d"):
            found[-1] += character
        else:
            found.append(character)
    return found


def _mistyped(word: str, chance: random.Random) -> str:
    letters = _letters(word)
    way = chance.choice(("swap", "drop", "double"))
    different = [n for n in range(len(letters) - 1) if letters[n] != letters[n + 1]]
    if way == "swap" and different:
        n = chance.choice(different)
        letters[n : n + 2] = letters[n + 1], letters[n]
        return "".join(letters)
    n = chance.randrange(len(letters))
    letters[n : n + 1] = [] if way == "drop" else letters[n : n + 1] * 2
    return "".join(letters)


def _another_character(caption: str, chance: random.Random) -> str:
    places = [n for n, character in enumerate(caption) if character.isalnum()]
    pairs = [(n, m) for n in places for m in (n - 1, n + 1) if m in places and caption[n] != caption[m]]
    if not pairs:
        return caption
    n, m = chance.choice(pairs)
    return caption[:n] + caption[m] + caption[n + 1 :]


def _truncation(caption: str, code: str, chance: random.Random) -> str:
    pieces, gaps = words_and_gaps(caption, code)
    counts = [cut for cut in range(1, len(pieces)) if 3 * len(pieces) <= 10 * cut <= 5 * len(pieces)]
    if not counts:
        return caption
    kept = len(pieces) - chance.choice(counts)
    return weave(pieces[:kept], [*gaps[:kept], ""])


_CHANGES: dict[str, Callable[[str, str, random.Random], str]] = {
    "neighbours": _neighbours,
    "typos": _typos,
    "number": change_number,
    "negation": negate,
    "foreign": replace_by_foreign_word,
    "truncation": _truncation,
}
# kind → the languages that it has rules for; other kinds need none
_TABLES: dict[str, list[str]] = {
    "number": sorted(NUMBERS),
    "negation": NEGATED_LANGUAGES,
}
