"""Texts of any language → their sentences, by lines and by the signs that end one; needs no language.

In: a text. Out: its sentences, or where they end. None ends within an abbreviation (`abbreviations.txt`), an
ordinal, a quotation or brackets; where it cannot be told, the text stays whole. Thai and Lao end by lines.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from .letters import clean, lower

# What a signature says of texts that were split; its number changes with where sentences end.
RULE = "sentences2"
# Noise moves full stops, too: in a text of up to so many words, a sentence has at least LEAST_IN_SHORT.
SHORT, LEAST_IN_SHORT = 40, 8
# Smallest length of a sentence: what is shorter belongs to the one before.
SHORTEST = 4
# Signs that end a sentence even if no blank follows, and those that need one: ";" in Greek, ":" in Armenian.
_FULL = "。！？．｡؟۔।॥։።፧។៕။།༎᠃"
_SURE = f".!?…‼⁇⁈⁉{_FULL}"
_ENDS = f"{_SURE};\u037e:"
_DATA = json.loads(Path(__file__).with_name("sentences.json").read_text(encoding="utf-8"))
_QUOTES: dict[str, str] = _DATA["quotes"]  # what opens a quotation, or brackets → what closes it
_MARKS = re.compile("[{}]".format(re.escape("".join({*_QUOTES, *"".join(_QUOTES.values())}))))
_OPENING = "“„«»‹›「『《(（[\"'‘‚¿¡*-–—•"
_CLOSING = tuple("”“’»«›‹》\"')]」』）")
_GO_ON = tuple(",;:、，；：/%")  # before these, no sentence ends
_SIGNS = re.compile(rf"[{_SURE}](?:[ \t]?[{_SURE}])*|[{_ENDS}]")
_MAY_SPLIT = re.compile(rf"[{_ENDS}\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029](?!\s?\Z)").search
# A word, a character of Chinese, Japanese or Korean, or a sign.
_PIECE = re.compile(r"[\u2e80-\ud7ff\uff00-\uffef]|[^\W\u2e80-\ud7ff\uff00-\uffef]+|\S")
_ORDINAL = re.compile(r"\d{1,3}|[ivx]{2,}")
# Words before a number that is a name, and no ordinal; abbreviations before numbers; those after which, and
# after ordinals, a sentence ends if an article or a pronoun follows; and these.
_NUMBERED, _BEFORE_NUMBERS, _LAST, _STARTERS = (
    frozenset(_DATA[name].split()) for name in ("numbered", "before_numbers", "last", "starters")
)
_VOWELS = frozenset("aeiouyæøœıаеёиоуыэюяіїєαεηιουω")
_NOT_SHORTENED = frozenset("tv pc dj cd hd vr тв пк km cm mm kg ml км см мм кг".split())


@cache
def _abbreviations() -> frozenset[str]:
    lines = Path(__file__).with_name("abbreviations.txt").read_text(encoding="utf-8").splitlines()
    words = [word.replace("␣", " ") for line in lines for word in line.partition(":")[2].split()]
    return frozenset(words)


def split_texts(texts: Iterable[str], short: int = 0) -> dict[str, list[tuple[str, int]]]:
    """The texts of several sentences → their `sentences`, with the length of each."""
    split = {}
    for text in filter(_MAY_SPLIT, dict.fromkeys(texts)):
        found = sentences(text, short)
        if len(found) > 1:
            split[text] = found
    return split


def sentences(text: str, short: int = 0) -> list[tuple[str, int]]:
    """The sentences of a text, each with its length in words and signs (in zh, ja and ko characters).

    Args:
        short: Length up to which each sentence of a text has at least `LEAST_IN_SHORT` words and signs.

    >>> sentences("A man in St. Ives waves. He is old!")
    [('A man in St. Ives waves.', 8), ('He is old!', 4)]
    >>> [sentence for sentence, _ in sentences("一只狗在跑。它是棕色的。")]
    ['一只狗在跑。', '它是棕色的。']
    """
    ends = sentence_ends(text, short)
    if len(ends) == 1:
        return [(text, 1)]
    parts = [text[start:end].strip() for start, end in pairwise([0, *ends])]
    return [(part, len(_PIECE.findall(clean(part)))) for part in parts]


def sentence_ends(text: str, short: int = SHORT, shortest: int = SHORTEST) -> list[int]:
    """The offsets in a text at which its sentences end, the last of them its length.

    `short` is as of `sentences`, `shortest` the fewest words and signs of a sentence.

    >>> sentence_ends("a dog runs home. it is brown.", short=0)
    [16, 29]
    """
    cleaned = clean(text)
    ends = _sentence_ends(cleaned, short, shortest)
    return ends if cleaned == text else _ends_before_cleaning(text, ends)


def _ends_before_cleaning(text: str, ends: list[int]) -> list[int]:
    """The offsets in a text of the ends in the `clean` text."""
    found, start = [], 0
    for before, end in pairwise([0, *ends[:-1]]):
        start += _offset_before_cleaning(text[start:], end - before)
        found.append(start)
    return [*found, len(text)]


def _offset_before_cleaning(text: str, size: int) -> int:
    """The length of the shortest beginning of a text that has `size` letters and signs when it is `clean`."""
    most = size
    while most < len(text) and len(clean(text[:most])) < size:
        most *= 2
    return bisect_left(range(most), size, key=lambda n: len(clean(text[:n])))


def _sentence_ends(text: str, short: int, shortest: int) -> list[int]:
    found = list(_line_and_sentence_ends(text)) if _MAY_SPLIT(text) else []
    if not found:
        return [len(text)]
    pieces = [match.start() for match in _PIECE.finditer(text)]
    least = LEAST_IN_SHORT if len(pieces) <= short else shortest
    ends, start = [], 0
    for end in found:
        index = bisect_left(pieces, end)
        if index - start >= least and len(pieces) - index >= least:
            ends.append(end)
            start = index
    return [*ends, len(text)]


def _line_and_sentence_ends(text: str) -> Iterator[int]:
    """Where a line or a sentence ends, but for the last, however short it is."""
    first = next((letter for letter in text if letter.isalnum()), "")
    # whether capitals begin sentences here: lower case then begins none
    by_case = (first.isupper() or first.isdigit()) and text != text.upper() and text != text.lower()
    start = 0
    for line in text.splitlines(keepends=True):
        for end in _ends_in_line(line, by_case):
            yield start + end
        start += len(line)
        if start < len(text):
            yield start


def _ends_in_line(line: str, by_case: bool) -> Iterator[int]:
    """Where sentences end within a line; `by_case`: none begins in lower case."""
    closing, quoted = _quotations(line)
    has_kana = any("\u3041" <= letter <= "\u30ff" for letter in line)
    for match in _SIGNS.finditer(line):
        signs, end = match[0].replace(" ", "").replace("\t", ""), match.end()
        is_closed = False
        while True:  # closing signs belong to the sentence; after a blank only those of a pair
            following = end
            while following < len(line) and line[following].isspace():
                following += 1
            if not (following in closing or (following == end and line.startswith(_CLOSING, end))):
                break
            end, is_closed = following + 1, True
        if following == len(line) or quoted[end]:
            continue
        begins = line[following : following + 40].lstrip(_OPENING + " ")
        letter = begins[:1] or line[following]
        if by_case and letter.islower():
            continue
        if is_closed:
            is_end = _ends_after_quotation(letter, following > end, by_case, has_kana)
        else:
            is_end = _ends_after_signs(line, match.start(), signs, following > end, begins, by_case)
        if is_end:
            yield end


def _ends_after_quotation(letter: str, has_blank: bool, by_case: bool, has_kana: bool) -> bool:
    """Whether a sentence ends with a quotation that has an end of its own; "he says" may follow “Go!”."""
    if has_kana:  # a particle continues the sentence
        return letter.isalnum() and not "\u3041" <= letter <= "\u309f"
    return has_blank and by_case and (letter.isupper() or letter.isdigit())


def _ends_after_signs(line: str, at: int, signs: str, has_blank: bool, begins: str, by_case: bool) -> bool:
    """Whether a sentence ends with the signs at `at`, before what begins with `begins`."""
    if begins.startswith(_GO_ON):
        return False
    if set(signs) & set(_FULL):
        return signs != "．" or has_blank or not begins[:1].isdigit()
    if not has_blank:
        return False
    if "…" in signs or ".." in signs:
        return by_case and begins[:1].isupper()
    before = line[max(0, at - 40) : at].split()
    word = lower(before[-1].lstrip(_OPENING)) if before else ""
    if signs[0] not in _SURE:
        alphabet = "ARMENIAN" if signs == ":" else "GREEK"
        return bool(word) and unicodedata.name(word[-1], "").startswith(alphabet)
    return signs != "." or _ends_with_stop(word, before, begins)


def _ends_with_stop(word: str, before: list[str], begins: str) -> bool:
    """Whether a full stop after a word, in lower case, ends a sentence: not after what is shortened."""
    if not word or "\u0e00" <= word[-1] <= "\u0eff":  # Thai and Lao have no full stop
        return False
    next_word = re.split(r"[\W_]", lower(begins), maxsplit=1)[0]
    if word in _LAST or _ORDINAL.fullmatch(word):
        if word.isdigit() and len(before) > 1 and lower(before[-2]) in _NUMBERED:
            return True
        # in lower case, "a" and "i" are words for "and", too: "v 2. a 3. patře"
        return next_word in _STARTERS and (len(next_word) > 1 or begins[0].isupper())
    if word in _BEFORE_NUMBERS:
        return not (next_word.isdigit() or _ORDINAL.fullmatch(next_word))
    return not _is_shortened(word, before)


def _is_shortened(word: str, before: list[str]) -> bool:
    """Whether a word, the last of those before a full stop, is an abbreviation or an initial."""
    known = _abbreviations()
    parts = [part for part in re.split(r"[.\-‐'’]", word) if part]
    if len(parts) > 1 and "." in word:  # "z.b", "sig.ra", "ph.d"; not "node.js"
        return parts[0] in known or any(len(part) == 1 and part.isalpha() for part in parts)
    last = parts[-1] if parts else word
    if last in known or lower(" ".join(before[-2:])) in known:
        return True
    has_alphabet = last[:1] != last[:1].upper() or "\u0590" <= last[:1] <= "\u06ff"
    if len(last) == 1:  # an initial
        return has_alphabet
    if len(last) != 2 or not last.isalpha() or last in _NOT_SHORTENED or last == last.upper():
        return False
    return not _VOWELS & set(unicodedata.normalize("NFD", last))  # such as "mr", "пл"


def _quotations(line: str) -> tuple[set[int], bytearray]:
    """Where the closing signs of quotations and brackets are, and for each offset whether it is in one."""
    opened: dict[str, int] = {}
    closing, quoted = set(), bytearray(len(line) + 1)
    first, last = len(line) - len(line.lstrip()), len(line.rstrip(" \t\r\n.")) - 1
    for match in _MARKS.finditer(line):
        at, mark = match.start(), match[0]
        has_letters = line[max(0, at - 1) : at].isalnum(), line[at + 1 : at + 2].isalnum()
        if mark in "\"'’" and all(has_letters):
            continue  # an apostrophe, or within a Hebrew abbreviation
        opener = next((one for one in opened if mark in _QUOTES[one]), "")
        if opener:
            start = opened.pop(opener)
            closing.add(at)
            if (start, at) != (first, last):  # not around all of it
                quoted[start + 1 : at + 1] = b"\1" * (at - start)
        elif mark in _QUOTES and mark not in opened and not (mark in "\"'" and has_letters[0]):
            opened[mark] = at
    return closing, quoted
