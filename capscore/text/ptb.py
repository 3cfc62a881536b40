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
# ranges of characters of each kind, and lists of words
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


# Abbreviations that always keep their full stop; those that win over a word up to two characters longer too
# ("etc.a" is two words, "mr.a" is one); of the latter, those that are written with a capital; those before a
# number ("no. 5"); and words before which a single letter ends a sentence ("the letter l. The").
_ABBREVIATIONS, _CLOSING_ABBREVIATIONS, _PLACES, _NUMBERED, _STARTERS, _FILE_ENDINGS = _DATA["words"].values()
# Pieces of letters that are two words, or may keep a full stop.
_NOT_PLAIN = frozenset(
    f"cannot gonna gotta lemme gimme wanna {_ABBREVIATIONS} {_CLOSING_ABBREVIATIONS} {_PLACES} {_NUMBERED} "
    "mfg mtg pte ptes pty ptys ppte pptes ppty pptys".split()
)


def _any(words: str) -> str:
    """ "mr mrs" → a pattern for either word in any case."""
    return f"(?i:{'|'.join(sorted(words.split(), key=len, reverse=True))})"


# The forms of words: characters of which the text must contain one, and a pattern. The group that matched is
# the word; the rest of the pattern is lookahead. The rule that matches the most characters, lookahead
# included, wins; among equals, the first.
_LETTERS, _NUMERALS = f"A-Za-z{_LETTER}", f"0-9{_DIGIT}"
_A_DIGIT, _ALNUM = f"[{_NUMERALS}]", f"[{_LETTERS}{_NUMERALS}]+"
_BLANK, _JOINT = f"[ \t{_FIRM}{_WIDE}]", f"[- {_FIRM}]"
_SPACE = f"(?:{_BLANK}|&nbsp;)"
_APOSTROPHE = "(?:['’]|(?i:&apos;))"
_STROKE = "(?:['’‘`]|(?i:&apos;))"  # inside some words an opening quote counts as an apostrophe
_ACCENT = "(?i:&[aeiou](?:acute|grave|uml);)"
_STEM = f"(?:[{_LETTERS}{_MARK}]|{_ACCENT})(?:[{_LETTERS}{_MARK}{_NUMERALS}]|{_ACCENT})*"
_WORD = f"{_STEM}(?:[.!?]{_STEM})*"
_CLITIC = f"{_APOSTROPHE}(?i:[msd]|re|ve|ll)"
_NEGATION = f"[nN]{_STROKE}[tT]"
_INITIALS = r"[A-Za-z](?:\.[A-Za-z])+\."
_PART = f"(?:[dDoOlL]{_STROKE}[{_LETTERS}{_NUMERALS}])?[{_LETTERS}{_NUMERALS}]+"
_COMPOUND = f"{_PART}(?:[-_‐]{_PART})*"
_HYPHENED = f"[A-Za-z0-9][A-Za-z0-9.,]*(?:-(?:{_INITIALS}|[A-Za-z0-9]+))+"
_SLASHED = "[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}"
_CAPITALS = "[A-Z]+(?:(?:&(?i:amp);|[+&])[A-Z]+)+"
_ADDRESS, _ADDRESS_END = '[^ \t\n"<>|(){}]', '[^ \t\n"<>|(){}.!?,-]'
_PATH = rf'(?:/[^ \t\n"<>|()]+{_ADDRESS_END})?'
_FACE = "[-'<=>^x~]"
_STROKES, _DIGITS = "'’‘`&", f"0123456789{_DIGIT}"
_RULES = [
    # two words written as one
    ("", "(?i:(can)not|(gon|wan)na|(got)ta|(lem|gim)me)"),
    ("'", "('[tT])(?i:is|was)"),
    # words, and endings with an apostrophe
    (_STROKES, f"({_WORD}){_CLITIC}"),
    (_STROKES, f"([A-Za-z]+){_NEGATION}"),
    (_STROKES, f"([A-HJ-XZn]{_STROKE}[{_LETTERS}]{{2,}})"),
    (_STROKES, f"({_NEGATION}|{_CLITIC})[^A-Za-z]"),
    ("", f"({_WORD})"),
    ("", f"({_COMPOUND})"),
    (_STROKES, f"([{_LETTERS}]+[aeiouyAEIOUY]{_STROKE}[aeiouA-Z][{_LETTERS}]*)"),
    (_STROKES, f"([dDlLjJ]{_APOSTROPHE})"),
    (_STROKES, f"([yY]{_APOSTROPHE})[A-Za-z]"),
    (_STROKES, f"((?i:ol|dunkin|somethin){_APOSTROPHE})"),
    (_STROKES, f"((?i:li{_APOSTROPHE}l|c{_APOSTROPHE}(?:mon|est)|e{_APOSTROPHE}er|o{_APOSTROPHE}o))"),
    (_STROKES, f"((?i:ev{_APOSTROPHE}ry|nat{_APOSTROPHE}l|nor{_APOSTROPHE}easter|s{_APOSTROPHE}mores))"),
    (_STROKES, rf"((?i:cap{_APOSTROPHE}n|cont{_APOSTROPHE}d\.?))"),
    (_STROKES, f"({_APOSTROPHE}(?i:em|till?|cause|n{_APOSTROPHE}?|[2-9]0s))"),
    (_STROKES, rf"({_APOSTROPHE}{_A_DIGIT}{{2}})(?:{_BLANK}|\n)"),
    ("'", "(')[A-Za-z][^ \t\n]"),
    (_STROKES, f"({_CLITIC})"),
    # addresses of people; before abbreviations, as "al.@x" is one
    (
        "@",
        f"(<?(?i:mailto:)?[A-Za-z0-9](?:(?!{_FIRM}){_ADDRESS})*@"
        rf"""(?:[^ \t\n{_FIRM}"<>|(){{}}.]+\.)*[^ \t\n{_FIRM}"<>|(){{}}.]+>?)""",
    ),
    # abbreviations and other words that keep their full stop
    (
        ".",
        rf"([A-Za-z])\.{_SPACE}+(?:(?=[A-Z])(?:{_any(_STARTERS)}|(?i:m[rs])\.)|<[^<>\n]+>)(?:{_BLANK}|\n)",
    ),
    (".", rf"({_INITIALS}|[A-Za-z]\.|{_any(_ABBREVIATIONS)}\.|[mM][ft]g\.)"),
    (".", rf"((?:{_any(_CLOSING_ABBREVIATIONS)}|[pP]p?t(?:es?|ys?)|(?i:(?:ph|ed)\.d))\.)(?s:.){{0,2}}"),
    (".", rf"((?=[A-Z]){_any(_PLACES)}\.)(?s:.){{0,2}}"),
    (".", rf"({_any(_NUMBERED)}\.){_SPACE}?{_A_DIGIT}"),
    (",:;、", rf"((?:{_WORD}|{_HYPHENED}|{_CAPITALS}|{_COMPOUND})\.)[,:;、]"),
    # compounds
    ("-", f"({_HYPHENED})"),
    ("/", rf"({_SLASHED}(?:\\?/{_SLASHED}){{1,2}})"),
    ("&+", f"((?i:s&ls|s&p-500)|{_CAPITALS})"),
    ("-", r"((?i:pro|anti)-|-(?i:[lr][rcs]b)-|(?i:canada|sino|korea|japan|eu|uk|pro|anti)-U\.S\.)"),
    ("+#", r"([cC]\+\+|[cCfF]#)"),
    # numbers
    (_DIGITS, f"([-+]?(?:{_A_DIGIT}+(?:[.:,٬]{_A_DIGIT}+)*|(?:[.:,٬]{_A_DIGIT}+)+))"),
    ("-/", f"({_A_DIGIT}{{1,2}}[-/]{_A_DIGIT}{{1,2}}[-/]{_A_DIGIT}{{2,4}})"),
    ("/⁄", rf"((?:{_A_DIGIT}{{1,4}}{_JOINT})?{_A_DIGIT}{{1,4}}(?:\\?/|⁄){_A_DIGIT}{{1,4}})"),
    ("²₂", "(⁺?(?:²+|₂+))"),
    (
        f"-){_FIRM} ",
        rf"((?:\([0-9]{{2,3}}\)[ {_FIRM}]?|(?:\+\+?)?(?:[0-9]{{2,4}}{_JOINT})?[0-9]{{2,4}}{_JOINT})"
        f"[0-9]{{3,4}}{_JOINT}?[0-9]{{3,5}})",
    ),
    (".", r"((?:(?:\+\+?)?[0-9]{2,4}\.)?[0-9]{2,4}\.[0-9]{3,4}\.[0-9]{3,5})"),
    ("$", r"([A-Z]*\$)"),
    # addresses on networks, names, files, markup
    (":", f"((?i:https?)://{_ADDRESS}+{_ADDRESS_END})"),
    (".", rf"""((?i:www)\.(?:[^ \t\n"<>|(){{}}.!?,]+\.)+[A-Za-z]{{2,4}}{_PATH})"""),
    (".", rf"""((?:[^ \t\n"`'<>|.!?(){{}},-_$]+\.)+(?i:com|net|org|edu){_PATH})"""),
    ("@#", f"(@[A-Za-z_][A-Za-z_0-9]*|#(?:[{_LETTERS}{_MARK}]|{_ACCENT})+)"),
    (
        ".",
        rf"({_ALNUM}(?:\.{_ALNUM})*\.{_any(_FILE_ENDINGS)})(?:{_BLANK}|[\n.,!?])",
    ),
    (
        "<",
        r"""(</?[A-Za-z][\w.:-]*(?: +[A-Za-z_:][\w.:-]*(?: *= *(?:"[^"]*"|'[^']*'|[^ "'<>]+))?)* */?>)""",
    ),
    ("<", r"(<[!?][A-Za-z-][^>\n]*>)"),
    # faces
    (":;=", r"([<>]?[:;=]['o*-]?[()DPOdp@|\[\]\\{])[^A-Za-z0-9]"),
    ("_(", rf"({_FACE}_{_FACE}|\({_FACE}[-_.]?{_FACE}\))"),
    # signs, single and repeated
    ("", r"(-+|<<|>>|\.(?:[ \xa0]\.){2,4}|\.{3,5}|@+|_+|#+|\*+|(?:\\\*){1,3}|[!?]+|''|[’‘`“]{2})"),
    ("&", "(&(?i:lt|gt|amp|quot|apos|mdash|ndash|md|nbsp);|&#[0-9]+;)"),
    ("", rf"([^\x00-\x20\x7f{_FIRM}{_WIDE}‐٬])"),
]


@cache
def _rules() -> list[tuple[frozenset[str], Callable[[str, int], re.Match[str] | None]]]:
    return [(frozenset(needed), re.compile(pattern).match) for needed, pattern in _RULES]


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
