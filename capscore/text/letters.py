"""The letters of a text as they are read: composed, without signs that show nothing, in lower case.

Everything that looks at words reads texts through this module: metrics, taggers, perturbations, recipes. Only
English words of n-gram metrics are those of a Java program (`capscore.text.ptb`).
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import NamedTuple

# Soft hyphen, writing directions, word joiner and invisible operators, byte order mark.
_INVISIBLE = "\u00ad\u061c\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
# Scripts in which joiners change how a word is written, or part it: Arabic to Mandaic, those of India,
# Tibetan, Burmese, Khmer, Mongolian.
_JOINING = "\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\ufb50-\ufdff\ufe70-\ufefe"
_DROPPED = re.compile(
    rf"[{_INVISIBLE}]|(?<![{_JOINING}{_INVISIBLE}])[\u200c\u200d]+|[\u200c\u200d]+(?![{_JOINING}])"
)
# In these languages İ and I are the capitals of i and ı.
_DOTTED = frozenset(("az", "crh", "gag", "tr"))
_SECOND_DOT = re.compile("(?<=[ijį])\u0307")


def clean(text: str) -> str:
    """A text in composed letters (NFC), without the signs that show nothing.

    Left out are soft hyphens, word joiners, marks of direction and of byte order, and zero-width joiners
    beside letters of scripts in which they do nothing.

    >>> clean("scho\u0308n, Fuß\u00adball"), clean("می\u200cرود") == "می\u200cرود"
    ('schön, Fußball', True)
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text if text.isprintable() else _DROPPED.sub("", text))


def lower(text: str, code: str = "") -> str:
    """A `clean` text in the lower case of a language.

    In Turkish, Azerbaijani, Crimean Tatar and Gagauz İ becomes i and I becomes ı. Elsewhere both become i,
    and so does i with a second dot, as Lithuanian writes it below an accent.

    >>> lower("IŞIK İKİ", "tr"), lower("GROẞ", "de"), lower("İstanbul", "de")
    ('ışık iki', 'groß', 'istanbul')
    """
    if text.isascii() and code not in _DOTTED:
        return text.lower()
    text = clean(text)
    if code in _DOTTED:
        text = text.replace("İ", "i").replace("I", "ı")
    text = text.lower()
    if "\u0307" in text:
        text = unicodedata.normalize("NFC", _SECOND_DOT.sub("", unicodedata.normalize("NFC", text)))
    return text


def folded(text: str) -> str:
    """A text as texts are compared, in any language: whatever its capitals, composition and white space."""
    return " ".join(lower(text).casefold().split())


def upper(text: str, code: str = "") -> str:
    """A text in the capitals of a language: i becomes İ where `lower` makes i of İ."""
    return (text.replace("i", "İ") if code in _DOTTED else text).upper()


class Placed(NamedTuple):
    """A text as `clean` returns it, with the places of its characters in the original.

    Attributes:
        text: The clean text, n characters.
        starts, ends: n places each: where a character of the clean text begins and ends in the original.
    """

    text: str
    starts: list[int] | range
    ends: list[int] | range

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Places of the original text for those of at least one character of the clean text."""
        return self.starts[start], self.ends[end - 1]


def placed(text: str) -> Placed:
    """`clean`, with places.

    >>> placed("scho\u0308n").span(3, 4)
    (3, 5)
    """
    n = len(text)
    if clean(text) == text:
        return Placed(text, range(n), range(1, n + 1))
    dropped = {place for found in _DROPPED.finditer(text) for place in range(*found.span())}
    places = [place for place in range(n) if place not in dropped]
    shown = "".join(text[place] for place in places)
    signs: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for cluster in _clusters().finditer(shown):
        composed = unicodedata.normalize("NFC", cluster[0])
        own = places[cluster.start() : cluster.end()]
        for index in range(len(composed)):
            first = own[min(index, len(own) - 1)]
            is_last = index == len(composed) - 1
            starts.append(first)
            ends.append(own[-1] + 1 if is_last else first + 1)
        signs.append(composed)
    return Placed("".join(signs), starts, ends)


@cache
def _clusters() -> re.Pattern[str]:
    """A character, and those after it with which it may be composed: marks, and vowels and ends of Hangul."""
    marks = rf"[{marks_of_words()}\u1160-\u11ff]"
    return re.compile(rf"(?s:.){marks}*")


@cache
def marks_of_words() -> str:
    """Combining marks as ranges for a character class: `re` does not count them as parts of words."""
    ranges: list[str] = []
    first = ""
    for number in range(0x300, 0x20001):
        sign = chr(number)
        if unicodedata.category(sign)[0] == "M":
            first = first or sign
        elif first:
            ranges.append(f"{first}-{chr(number - 1)}")
            first = ""
    return "".join(ranges) + "\U000e0100-\U000e01ef"  # and variation selectors
