"""Words of captions in languages that write spaces between words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import chain

from .letters import lower, marks_of_words, placed

SPACED = "space1"  # in signatures; the number grows whenever a word can change

# One character for each meaning.
_ONE_SPELLING = (
    dict.fromkeys(map(ord, "’‘ʼʻ´`׳＇"), "'")
    | dict.fromkeys(map(ord, "‐‑"), "-")
    | {ord("_"): " ", ord("״"): '"'}
)
# Characters that may stand between two letters of a word.
_INSIDE, _INSIDE_IN = "['-]", {"ca": "['·-]", "he": "['\"-]", "yi": "['\"-]"}
# In these languages an apostrophe ends a word: l'homme is l' and homme.
_ELIDING = frozenset(
    ("ca", "co", "fr", "fur", "it", "lij", "lmo", "oc", "pcd", "pms", "rm", "sc", "scn", "vec", "wa")
)
# Words with an apostrophe of their own: aujourd'hui, entr'acte, p'tit, and names such as McDonald's.
_ELIDED = re.compile(r"(?i:aujourd|prud|quelqu|presqu|grand|entr|p|rock'n)'[^']+|[^']{2,}'s\Z|[^']+'?")
# Endings that English and German write onto a word without being part of it: the dog's, isn't, geht's.
_CLITIC = {
    "en": re.compile(r"(?i)(?<=\w)(?:'(?:s|re|ve|ll|d|m)|n't)$"),
    "de": re.compile(r"(?i)(?<=\w)'s$"),
}


def spaced_words(text: str, code: str) -> list[str]:
    """The words of a text, as metrics count them.

    Words are `clean` and in the `lower` case of their language (`capscore.text.letters`). A word is a run of
    letters, the marks on them, and digits. Inside a word also count: hyphens (T-shirt, anak-anak);
    apostrophes of any shape (foto's, м'яч, Ankara'da), after which French, Italian, Catalan and related
    languages begin a new word (l' homme); the zero-width joiners of Persian and Indic scripts; ".", "," and
    ":" between digits (3.5, 10:30); '"' in Hebrew abbreviations and "·" in Catalan. Everything else,
    including symbols and emoji, separates words and is dropped.
    """
    text = lower(text.translate(_ONE_SPELLING), code)
    words = _word_pattern(_INSIDE_IN.get(code, _INSIDE)).findall(text)
    if code not in _ELIDING:
        return words
    return list(chain.from_iterable(map(_ELIDED.findall, words)))


def counted_words(pieces: Sequence[str]) -> list[str]:
    """Pieces from a segmenter → the words in them by the rules of `spaced_words`, in lower case."""
    # "\n" is in no word, so words end where pieces end
    return _word_pattern(_INSIDE).findall(lower("\n".join(pieces).replace("_", " ")))


def placed_tokens(text: str, code: str) -> list[tuple[str, int, int]]:
    """The words of a text by the rules of `spaced_words`, and its punctuation signs, each with start and end.

    They are `clean`, and in one spelling of apostrophes and hyphens.

    >>> placed_tokens("The dog’s ball.", "en")
    [('The', 0, 3), ('dog', 4, 7), ("'s", 7, 9), ('ball', 10, 14), ('.', 14, 15)]
    """
    cleaned = placed(text)
    plain = cleaned.text.translate(_ONE_SPELLING)
    tokens = []
    for found in _token_pattern(code).finditer(plain):
        for start, end in _parts(found.group(), code):
            start, end = found.start() + start, found.start() + end
            tokens.append((plain[start:end], *cleaned.span(start, end)))
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
    sign = rf"[\w{marks_of_words()}]"
    joint = rf"(?:{inside}(?=\w)|[\u200c\u200d]+|(?<=\d)[.,:](?=\d))"
    return re.compile(rf"\w{sign}*(?:{joint}{sign}+)*")
