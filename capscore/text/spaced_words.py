"""Words of captions in languages that write spaces between words.

In: a text and a language code. Out: its words as metrics count them, or its words and punctuation with their
places in the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import chain, groupby

SPACED = "space1"  # in signatures; the number grows whenever a word can change

# Characters inside words that show nothing: soft hyphen, writing directions, word joiner, byte order mark.
INVISIBLE = dict.fromkeys(
    [0xAD, 0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), 0x2060, *range(0x2066, 0x206A), 0xFEFF]
)
# One character for each meaning.
_ONE_SPELLING = (
    dict.fromkeys(map(ord, "’‘ʼʻ´`׳＇"), "'")
    | dict.fromkeys(map(ord, "‐‑"), "-")
    | {ord("_"): " ", ord("״"): '"'}
)
_PLAIN = str.maketrans(INVISIBLE | _ONE_SPELLING)
# Characters that may stand between two letters of a word.
_INSIDE, _INSIDE_IN = "['-]", {"ca": "['·-]", "he": "['\"-]", "yi": "['\"-]"}
# In these languages an apostrophe ends a word: l'homme is l' and homme.
_ELIDING = frozenset(
    ("ca", "co", "fr", "fur", "it", "lij", "lmo", "oc", "pcd", "pms", "rm", "sc", "scn", "vec", "wa")
)
_ELIDED = re.compile(r"(?:aujourd|prud|quelqu|presqu|grand)'[^']+|[^']+'?")
# İ and I are the capitals of i and ı.
_DOTTED = frozenset(("az", "crh", "tr"))
# Endings that English and German write onto a word without being part of it: the dog's, isn't, geht's.
_CLITIC = {
    "en": re.compile(r"(?i)(?<=\w)(?:'(?:s|re|ve|ll|d|m)|n't)$"),
    "de": re.compile(r"(?i)(?<=\w)'s$"),
}


def spaced_words(text: str, code: str) -> list[str]:
    """The words of a text, as metrics count them.

    Words are composed (NFC) and in lower case: by the rules of the language for Turkish, Azerbaijani and
    Crimean Tatar (İ → i, I → ı), and ß stays ß. A word is a run of letters, the marks on them, and digits.
    Inside a word also count: hyphens (T-shirt, anak-anak); apostrophes of any shape (foto's, м'яч,
    Ankara'da), after which French, Italian, Catalan and related languages begin a new word (l' homme); the
    zero-width joiners of Persian and Indic scripts; ".", "," and ":" between digits (3.5, 10:30); '"' in
    Hebrew abbreviations and "·" in Catalan. Everything else, including symbols and emoji, separates words and
    is dropped.
    """
    text = unicodedata.normalize("NFC", text.translate(_PLAIN))
    if code in _DOTTED:
        text = text.replace("İ", "i").replace("I", "ı")
    words = _word_pattern(_INSIDE_IN.get(code, _INSIDE)).findall(text.lower())
    if code not in _ELIDING:
        return words
    return list(chain.from_iterable(map(_ELIDED.findall, words)))


def counted_words(pieces: Sequence[str]) -> list[str]:
    """Pieces from a segmenter → the words in them by the rules of `spaced_words`, in lower case."""
    # "\n" is in no word, so words end where pieces end
    return _word_pattern(_INSIDE).findall("\n".join(pieces).replace("_", " ").lower())


def placed_tokens(text: str, code: str) -> list[tuple[str, int, int]]:
    """The words of a text by the rules of `spaced_words`, and its punctuation signs, each with start and end.

    They are composed (NFC), and in one spelling of apostrophes and hyphens.

    >>> placed_tokens("The dog’s ball.", "en")
    [('The', 0, 3), ('dog', 4, 7), ("'s", 7, 9), ('ball', 10, 14), ('.', 14, 15)]
    """
    places: Sequence[int] = range(len(text))
    plain = text
    if not text.isascii():
        places = [place for place, sign in enumerate(text) if ord(sign) not in INVISIBLE]
        plain = "".join(text[place] for place in places)
    plain = plain.translate(_ONE_SPELLING)
    tokens = []
    for found in _token_pattern(code).finditer(plain):
        for start, end in _parts(found.group(), code):
            start, end = found.start() + start, found.start() + end
            token = unicodedata.normalize("NFC", plain[start:end])
            tokens.append((token, places[start], places[end - 1] + 1))
    return tokens


def _parts(word: str, code: str) -> list[tuple[int, int]]:
    """The places of the words that are written as one."""
    if "'" in word[1:] and code in _ELIDING:
        return [part.span() for part in _ELIDED.finditer(word)]
    if "'" in word and code in _CLITIC:
        clitic = _CLITIC[code].search(word)
        if clitic is not None:
            return [(0, clitic.start()), clitic.span()]
    return [(0, len(word))]


@cache
def _token_pattern(code: str) -> re.Pattern[str]:
    return re.compile(rf"{_word_pattern(_INSIDE_IN.get(code, _INSIDE)).pattern}|[^\w\s]")


@cache
def _word_pattern(inside: str) -> re.Pattern[str]:
    """A word; `inside` is the class of the characters that may occur between two of its letters."""
    sign = rf"[\w{_marks()}]"
    joint = rf"(?:{inside}(?=\w)|[\u200c\u200d]+|(?<=\d)[.,:](?=\d))"
    return re.compile(rf"\w{sign}*(?:{joint}{sign}+)*")


@cache
def _marks() -> str:
    """Combining marks as ranges for a character class: `re` does not count them as parts of words."""
    ranges = []
    for category, run in groupby(map(chr, range(0x300, 0x20000)), key=unicodedata.category):
        if category[0] == "M":
            marks = "".join(run)
            ranges.append(f"{marks[0]}-{marks[-1]}")
    return "".join(ranges) + "\U000e0100-\U000e01ef"  # and variation selectors
