"""Captions → the same captions hastily written, with another number, or with a word of another language."""

from __future__ import annotations

import csv
import random
import re
import unicodedata
from functools import cache
from importlib.resources import files

from ..text.letters import lower
from .rules import rule
from .words import Span, placed_words, weave, with_capital_of, with_text, with_texts, words_and_gaps


def swap_neighbours(caption: str, code: str, rng: random.Random) -> str:
    """The caption with two adjacent words exchanged."""
    spans = placed_words(caption, code)
    words = [caption[start:end] for start, end in spans]
    pairs = [index for index in range(len(words) - 1) if words[index] != words[index + 1]]
    if not pairs:
        return caption
    index = rng.choice(pairs)
    return with_texts(caption, spans[index : index + 2], [words[index + 1], words[index]])


def mistype(caption: str, code: str, rng: random.Random) -> str:
    """The caption with a typo in a word of three or more letters; in two, if it has eight or more words."""
    if code in ("ja", "zh"):
        return _another_character(caption, rng)
    spans = placed_words(caption, code)
    long = [span for span in spans if len(_letters(caption[slice(*span)])) >= 3]
    n_typos = 2 if len(spans) >= 8 else 1
    chosen = rng.sample(long, min(len(long), n_typos))
    for span in sorted(chosen, reverse=True):
        caption = with_text(caption, span, _mistyped_word(caption[slice(*span)], rng))
    return caption


def truncate(caption: str, code: str, rng: random.Random) -> str:
    """The caption without the last 30 to 50 percent of its words."""
    words, gaps = words_and_gaps(caption, code)
    counts = [cut for cut in range(1, len(words)) if 3 * len(words) <= 10 * cut <= 5 * len(words)]
    if not counts:
        return caption
    remaining = len(words) - rng.choice(counts)
    return weave(words[:remaining], [*gaps[:remaining], ""])


def _letters(word: str) -> list[str]:
    """Characters with their marks, each of which reads as one letter."""
    letters: list[str] = []
    for character in word:
        is_mark = unicodedata.category(character)[0] == "M" or character in "\u200c\u200d"
        if letters and is_mark:
            letters[-1] += character
        else:
            letters.append(character)
    return letters


def _mistyped_word(word: str, rng: random.Random) -> str:
    letters = _letters(word)
    way = rng.choice(("swap", "drop", "double"))
    different = [index for index in range(len(letters) - 1) if letters[index] != letters[index + 1]]
    if way == "swap" and different:
        index = rng.choice(different)
        letters[index : index + 2] = letters[index + 1], letters[index]
        return "".join(letters)
    index = rng.randrange(len(letters))
    letters[index] = "" if way == "drop" else letters[index] * 2
    return "".join(letters)


def _another_character(caption: str, rng: random.Random) -> str:
    pairs = []
    for index, character in enumerate(caption):
        for other in (index - 1, index + 1):
            neighbour = caption[max(other, 0) : other + 1]
            if character.isalnum() and neighbour.isalnum() and neighbour != character:
                pairs.append((index, neighbour))
    if not pairs:
        return caption
    index, neighbour = rng.choice(pairs)
    return with_text(caption, (index, index + 1), neighbour)


# ---- numbers ----

_DIGITS = re.compile(r"(?<![\w.,:])\d+(?!\w|[.,:]\d)")
_DIGITS_IN_TEXT = re.compile(r"(?<!\d)\d+(?!\d)")


def change_number(caption: str, code: str, rng: random.Random) -> str:
    """The caption with one of its numbers changed."""
    found: list[tuple[Span, list[str]]] = []
    if counted := rule(code, "counted"):
        for match in re.finditer(counted["pattern"], caption):
            others = [other for other in counted["numbers"].split() if other != match.group()]
            found.append((match.span(), others))
    rows = _number_rows(code)
    for start, end in placed_words(caption, code) if rows else ():
        word = caption[start:end]
        small = lower(word, code).replace("’", "'")
        row = rows.get(small, [])
        if others := [with_capital_of(other, word, code) for other in row if other != small]:
            found.append(((start, end), others))
    digits = _DIGITS_IN_TEXT if code in ("ja", "ko", "th", "zh") else _DIGITS
    found += [(match.span(), [_another_number(match[0], rng)]) for match in digits.finditer(caption)]
    if not found:
        return caption
    span, others = rng.choice(sorted(found))
    return with_text(caption, span, rng.choice(others))


@cache
def _number_rows(code: str) -> dict[str, list[str]]:
    """A number as a word → the words of its row, or of the first row if it is in several."""
    rows: dict[str, list[str]] = {}
    for row in rule(code, "numbers"):
        listed = [word for word in row.split() if word != "-"]
        for word in listed:
            rows.setdefault(word, listed)
    return rows


def _another_number(digits: str, rng: random.Random) -> str:
    """Another number with as many digits, in the same script; single digits are 2 to 9."""
    zero = ord(digits[0]) - unicodedata.decimal(digits[0])
    value, n = int(digits), len(digits)
    low = 2 if n == 1 else 10 ** (n - 1)
    while (other := rng.randrange(low, 10**n)) == value:
        pass
    return "".join(chr(zero + int(digit)) for digit in str(other))


# ---- words of another language ----


@cache
def common_nouns() -> list[dict[str, str]]:
    """Common nouns of captions: one {language: noun} per thing."""
    with files(__package__).joinpath("nouns.tsv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@cache
def _noun_rows(code: str) -> dict[str, dict[str, str]]:
    """A noun of a language in lower case → its row."""
    return {lower(row[code], code): row for row in reversed(common_nouns()) if code in row}


def replace_by_foreign_word(caption: str, code: str, rng: random.Random) -> str:
    """The caption with one word in another language: a common noun if there is one, otherwise any word."""
    places = placed_words(caption, code)
    if not places:
        return caption
    named = _noun_rows(code)
    common = [place for place in places if lower(caption[slice(*place)], code) in named]
    span = rng.choice(common or places)
    word = caption[slice(*span)]
    row = named[lower(word, code)] if common else rng.choice(common_nouns())
    others = {text for language, text in row.items() if language != code and text.lower() != word.lower()}
    other = rng.choice(sorted(others))
    if not common:
        other = with_capital_of(other, word)
    return with_text(caption, span, other)
