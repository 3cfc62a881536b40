"""A caption → its words and the white space around them, and a random generator for it.

In: a caption and its language. Out: words, white space and places, from which the caption can be woven again.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Sequence

from ..text.segmentation import words


def caption_random(seed: int, use: str, caption: str) -> random.Random:
    """A random generator that depends on the seed, the use and the caption alone."""
    # a string seed goes through SHA-512, so it is the same in every process and on every machine
    return random.Random(f"{seed}|{use}|{caption}")


def words_and_gaps(caption: str, code: str | None) -> tuple[list[str], list[str]]:
    """The n words of a caption, and the n + 1 stretches of white space around them.

    >>> words_and_gaps("a  dog ", "en")
    (['a', 'dog'], ['', '  ', ' '])
    """
    pieces: list[str] = []
    gaps: list[str] = []
    last = 0
    for piece in words(caption, code):
        start = caption.index(piece, last)
        if pieces and start == last and is_one_sign(pieces[-1], piece):
            pieces[-1] += piece
        else:
            pieces.append(piece)
            gaps.append(caption[last:start])
        last = start + len(piece)
    return pieces, [*gaps, caption[last:]]


def is_one_sign(before: str, after: str) -> bool:
    """Whether the characters around a cut are one for a reader: a letter and its mark, an emoji."""
    last, first = before[-1], after[0]
    return (
        first == "\u200d"
        or last == "\u200d"
        or "\U0001f3fb" <= first <= "\U0001f3ff"  # colours of skin
        or unicodedata.category(first)[0] == "M"
        or (_is_flag_half(first) and len(before) % 2 == 1 and all(map(_is_flag_half, before)))
    )


def _is_flag_half(sign: str) -> bool:
    return "\U0001f1e6" <= sign <= "\U0001f1ff"


def weave(pieces: Sequence[str], gaps: Sequence[str]) -> str:
    """n words and the n + 1 stretches of white space around them → the caption."""
    return "".join(part for pair in zip(gaps, [*pieces, ""], strict=True) for part in pair)


def only_kept(pieces: Sequence[str], gaps: Sequence[str], kept: Sequence[bool]) -> str:
    """The caption without the words that are not kept; of the white space between two that are, the first.

    >>> only_kept(["a", "red", "dog"], ["", "  ", " ", ""], [True, False, True])
    'a  dog'
    """
    out, gap = [gaps[0]], None
    for piece, is_kept, after in zip(pieces, kept, gaps[1:], strict=True):
        if is_kept:
            out += [piece] if gap is None else [gap, piece]
            gap = after
        elif gap is not None:
            gap = gap or after
    return "".join(out) + gaps[-1]


def placed_words(caption: str, code: str) -> list[tuple[int, int]]:
    """(start, end) of the words, without punctuation around them; words of punctuation alone are left out."""
    places, end = [], 0
    pieces, gaps = words_and_gaps(caption, code)
    for piece, gap in zip(pieces, gaps[:-1], strict=True):
        start = end + len(gap)
        last = end = start + len(piece)
        while start < last and is_punctuation(caption[start]):
            start += 1
        while start < last and is_punctuation(caption[last - 1]):
            last -= 1
        if start < last:
            places.append((start, last))
    return places


def is_punctuation(character: str) -> bool:
    """Whether a character is punctuation, a symbol or a control character."""
    return unicodedata.category(character)[0] in "PSC"


def with_capital_of(word: str, model: str) -> str:
    """The word, with a capital if the model has one."""
    return word[0].upper() + word[1:] if model[:1].isupper() else word
