"""English captions → the words that CIDEr, BLEU and ROUGE-L count, the same as those of the Java tokenizer.

The published numbers of these metrics rest on one tokenizer: pycocoevalcap runs the Penn Treebank tokenizer
of Stanford CoreNLP 3.4.1 on all captions (one per line, in lower case) and drops a list of punctuation marks.
This module finds the same words. It was written from that program's answers, a sample of which is in
`tests/text/ptb_answers.jsonl`; it contains none of its code.

Known differences, all of them intended or irrelevant for captions:

- Each caption is read alone. The Java program joins captions by line breaks and reads beyond them, so whether
  "… the letter L." ends in "l." or in "l" depends on the beginning of the next caption; and a carriage
  return, U+2028 or U+2029 inside a caption shifts all later captions by one. Here such characters are spaces,
  and the word is "l.".
- A word that contains a space ("1 1/2") is two words, as CIDEr and BLEU count it, which split at all blanks;
  `whole` keeps it as one, as ROUGE-L counts it, which splits at spaces, where the program writes a no-break
  space.
- Letters added to Unicode after version 6.1 are letters; the Java program loses them, as it loses emoji.
- Soft hyphens are removed before words are found, not after.
- Letters and their marks are composed (NFC) before; the Java program splits a word at marks that stand alone.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TypeAlias

_Form: TypeAlias = "tuple[frozenset[str], Callable[[str, int], re.Match[str] | None]]"
NAME = "ptb2"  # in signatures; the digit grows whenever a word can change


def tokenize(text: str, *, whole: bool = False) -> list[str]:
    """The words of one caption, in lower case and without punctuation; [] if there are none.

    Args:
        whole: Whether a word that contains a blank stays one, with a no-break space in it.

    Brackets are words, such as "-lrb-": the list of dropped marks has them in capitals only.

    >>> tokenize("A man's dog doesn't jump; it sits (on 2 1/2 chairs) in the U.S.")
    ['a', 'man', "'s", 'dog', 'does', "n't", 'jump', 'it', 'sits', '-lrb-', 'on', '2', '1/2', 'chairs',
     '-rrb-', 'in', 'the', 'u.s.']
    >>> tokenize("a 2 1/2 year old boy", whole=True)
    ['a', '2\\xa01/2', 'year', 'old', 'boy']
    """
    return _Pieces().words(text, whole)


def tokenize_all(texts: Sequence[str], *, whole: bool = False) -> list[list[str]]:
    """`tokenize` for many captions; each distinct piece of text is analysed once."""
    pieces = _Pieces()
    return [pieces.words(text, whole) for text in texts]


# Rules read beyond the next blank only at these: markup, two numbers ("1 1/2"), a full stop before a number
# or another full stop; and after a single letter with a full stop. Otherwise the pieces between blanks can be
# analysed separately, each once.
_ACROSS_BLANKS = re.compile(r"<[A-Za-z/!?]|[0-9)] [0-9]|\. [0-9.]")
_LINE_BREAKS = re.compile(r"[\n-\r\x85\u2028\u2029]")
# Most pieces; a full stop at their end is dropped.
_PLAIN_PIECE = re.compile(r"([A-Za-z]+)(?:,|(?<=[A-Za-z]{2})\.)?")


class _Pieces(dict):
    """A piece of text between blanks → its words, computed at its first occurrence."""

    def words(self, text: str, whole: bool) -> list[str]:
        if not text.isascii():
            text = unicodedata.normalize("NFC", text)
        if not text.isprintable():
            text = _LINE_BREAKS.sub(" ", text.replace("\xad", ""))
        if text.isprintable() and not _ACROSS_BLANKS.search(text):
            words = list(chain.from_iterable(map(self.__getitem__, text.split())))
            if ". " not in text or not any(len(word) == 2 and word[1] == "." for word in words):
                return words
        words = _lex(text)
        return words if whole else " ".join(words).split()

    def __missing__(self, piece: str) -> Sequence[str]:
        plain = _PLAIN_PIECE.fullmatch(piece)
        if plain is not None and plain[1].lower() not in _NOT_PLAIN:
            words = [plain[1].lower()]
        else:
            words = _lex(piece)
        self[piece] = tuple(map(sys.intern, words))
        return self[piece]


def _lex(text: str) -> list[str]:
    """The words of a caption, or of a piece of one that no rule reads beyond."""
    kinds = (text if text.isascii() else text.translate(_KINDS)) + "\n"
    present = frozenset(kinds)
    matches = [match for needed, match in _rules() if not needed or not needed.isdisjoint(present)]
    words: list[str] = []
    position = 0
    while position < len(text):
        longest, chosen = position, None
        for match in matches:
            found = match(kinds, position)
            if found is not None and found.end() > longest:
                longest, chosen = found.end(), found
        if chosen is None:
            position += 1
            continue
        end = chosen.end(chosen.lastindex or 0)
        word = _written(text[position:end])
        if word:
            words.append(word)
        position = end
    return words


# Characters outside ASCII are analysed as a character that stands for their kind; the words are then cut from
# the original text. Characters without a kind separate words and are lost.
_LETTER, _MARK, _DIGIT, _SYMBOL, _LOST = "é", "\u0300", "٣", "§", "\x01"
# Blanks that are not ASCII: a no-break space joins numbers as a space does, the wide ones are blanks after an
# abbreviation only; both may stand in an address. Those that the Java program does not know are lost.
_FIRM, _WIDE = "\xa0", "\u2000"
_BY_NAME = {"mark": _MARK, "symbol": _SYMBOL, "firm": _FIRM, "wide": _WIDE}
# Ranges of characters of each kind; lists of words: abbreviations that always keep their full stop; those
# that win over a word up to two characters longer too ("etc.a" is two words, "mr.a" is one); of the latter,
# those that are written with a capital; those before a number ("no. 5"); more that are not plain; words
# before which a single letter ends a sentence ("the letter l. The"); endings of files; and the spelling of
# the output.
_DATA = json.loads(Path(__file__).with_name("ptb.json").read_text(encoding="utf-8"))


class _Kinds(dict):
    """Code point → the character that represents its kind; entries are added at their first occurrence."""

    def __init__(self) -> None:
        super().__init__((code, chr(code)) for code in range(128))
        for kind, ranges in _DATA["kinds"].items():
            kind = _BY_NAME.get(kind, kind)
            for item in ranges.split():
                first, _, last = item.partition("-")
                self.update(dict.fromkeys(range(int(first, 16), int(last or first, 16) + 1), kind))

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = _LOST
        if code <= 0xFFFF and character.isalpha():
            kind = _LETTER
        elif code <= 0xFFFF and character.isdecimal():
            kind = _DIGIT
        self[code] = kind
        return kind


_KINDS = _Kinds()


# Pieces of letters that are two words, or may keep a full stop: those of the first five lists.
_NOT_PLAIN = frozenset(chain.from_iterable(map(str.split, [*_DATA["words"].values()][:5])))


@cache
def _rules() -> list[_Form]:
    """The forms of words, from ptb.rules: characters of which a text must contain one, and a pattern."""
    parts = {"«letter»": _LETTER, "«mark»": _MARK, "«digit»": _DIGIT, "«firm»": _FIRM, "«wide»": _WIDE}
    for name, words in _DATA["words"].items():
        longest_first = sorted(words.split(), key=len, reverse=True)
        parts[f"«{name}»"] = f"(?i:{'|'.join(longest_first)})"
    rules: list[_Form] = []
    for line in Path(__file__).with_name("ptb.rules").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            continue
        for name, part in parts.items():
            line = line.replace(name, part)
        needed, pattern = line.split("\t")
        if needed.startswith("«"):
            parts[needed] = pattern
        else:
            rules.append((frozenset(needed), re.compile(pattern).match))
    return rules


_DOTS = re.compile(r"\.(?:[ \xa0]\.)+")
# A word in lower case → its spelling in the output: brackets by name, quotation marks as in TeX, and "" for
# marks that pycocoevalcap drops.
_WRITTEN = {word: written for written, words in _DATA["written"].items() for word in words.split(" ")}


def _written(word: str) -> str:
    """A word of the text → the word to count, in lower case, with no-break spaces in it; "" for none."""
    word = word.lower()
    known = _WRITTEN.get(word)
    if known is not None:
        return known
    if _DOTS.fullmatch(word):
        return ""
    if "&amp;" in word and "@" not in word and "/" not in word:
        word = word.replace("&amp;", "&")
    if ("(" in word or ")" in word) and not word.endswith(">"):
        word = word.replace("(", "-lrb-").replace(")", "-rrb-")
    return word.replace(" ", _FIRM)
