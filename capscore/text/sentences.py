"""Texts of any language → their sentences, by the signs that end one; needs no language and no package.

In: a text, or its pieces. Out: sentences, or where they end. Abbreviations ("St.", an initial) end none. Thai
separates sentences by blanks, and is not split.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

# Noise moves full stops, too: in a text of up to so many pieces, a sentence has at least LEAST_IN_SHORT.
SHORT, LEAST_IN_SHORT = 40, 8
# Smallest number of pieces of a part: what follows an abbreviation is no sentence of its own.
SHORTEST = 4
BLANK = "\u2581"  # stands before a piece that follows a blank, as in SentencePiece
_ENDS = frozenset(".!?…؟۔।。！？．｡")
_CLOSING = frozenset("\"'”’»)]」』）")
# Signs after which a sentence ends even if no blank follows.
_FULL_WIDTH = frozenset("。！？．｡")
# A word, a character of Chinese, Japanese or Korean, or a sign.
_PIECE = re.compile(r"[\u2e80-\ud7ff\uff00-\uffef]|[^\W\u2e80-\ud7ff\uff00-\uffef]+|\S")
_MAY_SPLIT = re.compile(rf"[{''.join(_ENDS)}]\D").search


def split_texts(texts: Iterable[str], short: int = 0) -> dict[str, list[tuple[str, int]]]:
    """The texts of several sentences → their `sentences`, with the length of each."""
    split = {}
    for text in dict.fromkeys(texts):
        found = sentences(text, short)
        if len(found) > 1:
            split[text] = found
    return split


def sentences(text: str, short: int = 0) -> list[tuple[str, int]]:
    """The sentences of a text, each with its length in words and signs (in zh, ja and ko characters).

    Args:
        text: Text; its white space is kept within a sentence, and dropped between two.
        short: Length up to which each sentence of a text has at least `LEAST_IN_SHORT` words and signs.

    >>> sentences("A man in St. Ives waves. He is old!")
    [('A man in St. Ives waves.', 8), ('He is old!', 4)]
    >>> [sentence for sentence, _ in sentences("一只狗在跑。它是棕色的。")]
    ['一只狗在跑。', '它是棕色的。']
    """
    if not _MAY_SPLIT(text):
        return [(text, 1)]
    spans = [match.span() for match in _PIECE.finditer(text)]
    pieces, before = [], -1  # where the piece before ends
    for start, end in spans:
        pieces.append(BLANK * (start != before) + text[start:end])
        before = end
    bounds = [0, *sentence_ends(pieces, short)]
    if len(bounds) == 2:
        return [(text, 1)]
    return [(text[spans[a][0] : spans[b - 1][1]], b - a) for a, b in pairwise(bounds)]


def sentence_ends(pieces: Sequence[str], short: int = SHORT) -> list[int]:
    """Pieces of a text, `BLANK` before those that follow a blank → the indices at which its sentences end.

    >>> sentence_ends(["▁a", "▁dog", "▁runs", ".", "▁it", "▁is", "▁brown", "."], short=0)
    [4, 8]
    """
    cuts, start = [], 0
    least = LEAST_IN_SHORT if len(pieces) <= short else SHORTEST
    for index in range(len(pieces) - least):
        if index + 1 - start >= least and _ends_sentence(pieces, index):
            cuts.append(index + 1)
            start = index + 1
    return [*cuts, len(pieces)]


def _ends_sentence(pieces: Sequence[str], index: int) -> bool:
    signs = set(pieces[index].lstrip(BLANK))
    if not signs or not signs <= _ENDS | _CLOSING:
        return False
    following = pieces[index + 1]
    if not signs & _ENDS:  # a closing quote: the full stop stands before it
        index -= 1
        if index < 0 or not set(pieces[index]) & _ENDS:
            return False
    if set(pieces[index]) & _FULL_WIDTH:
        return following.lstrip(BLANK)[:1] not in _CLOSING
    if not following.startswith(BLANK):
        return False
    if "." not in pieces[index] or index == 0:
        return True
    # "St.", "mr.", an initial, in any case; words of three letters may be nouns in German ("Bus", "See")
    before = pieces[index - 1]
    word = before.lstrip(BLANK)
    return not (before.startswith(BLANK) and len(word) <= 2 and word[:1].isalpha())
