"""A caption → its words and the white space around them.

In: captions and their language. Out: words, white space and (start, end) spans, from which the caption can be
woven again; a random generator for each caption.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Sequence

from ..text import segmentation

Span = tuple[int, int]


def caption_random(seed: int, use: str, caption: str) -> random.Random:
    """A random generator that depends on the seed, the use and the caption alone."""
    # a string seed goes through SHA-512, so it is the same in every process and on every machine
    return random.Random(f"{seed}|{use}|{caption}")


def words_and_gaps(caption: str, code: str | None) -> tuple[list[str], list[str]]:
    """The n words of a caption, and the n + 1 stretches of white space around them.

    >>> words_and_gaps("a  dog ", "en")
    (['a', 'dog'], ['', '  ', ' '])
    """
    words: list[str] = []
    gaps: list[str] = []
    end = 0
    for word in segmentation.words(caption, code):
        start = caption.index(word, end)
        if words and start == end and is_one_sign(words[-1], word):
            words[-1] += word
        else:
            words.append(word)
            gaps.append(caption[end:start])
        end = start + len(word)
    return words, [*gaps, caption[end:]]


def spans_of(words: Sequence[str], gaps: Sequence[str]) -> list[Span]:
    """The (start, end) span of each word in its caption."""
    spans, end = [], 0
    for word, gap in zip(words, gaps, strict=False):  # the last gap follows the last word
        start = end + len(gap)
        end = start + len(word)
        spans.append((start, end))
    return spans


def is_one_sign(before: str, after: str) -> bool:
    """Whether the characters around a cut are one for a reader: a letter and its mark, an emoji, a flag."""
    last, first = before[-1], after[0]
    flag = re.fullmatch("[\U0001f1e6-\U0001f1ff]+", before + first)
    return (
        "\u200d" in (first, last)
        or "\U0001f3fb" <= first <= "\U0001f3ff"  # colours of skin
        or unicodedata.category(first)[0] == "M"
        or (flag is not None and len(before) % 2 == 1)
    )


def weave(words: Sequence[str], gaps: Sequence[str]) -> str:
    """n words and the n + 1 stretches of white space around them → the caption."""
    return "".join(part for pair in zip(gaps, [*words, ""], strict=True) for part in pair)


def only_words(words: Sequence[str], gaps: Sequence[str], stays: Sequence[bool]) -> str:
    """The caption with the words that stay; of the white space between two of them, the first.

    >>> only_words(["a", "red", "dog"], ["", "  ", " ", ""], [True, False, True])
    'a  dog'
    """
    out, gap = [gaps[0]], None
    for word, word_stays, after in zip(words, stays, gaps[1:], strict=True):
        if word_stays:
            out += [word] if gap is None else [gap, word]
            gap = after
        elif gap is not None:
            gap = gap or after
    return "".join(out) + gaps[-1]


def placed_words(caption: str, code: str) -> list[Span]:
    """Spans of the words, without punctuation around them; words of punctuation alone are left out."""
    spans = []
    for start, end in spans_of(*words_and_gaps(caption, code)):
        inside = [index for index in range(start, end) if not is_punctuation(caption[index])]
        if inside:
            spans.append((inside[0], inside[-1] + 1))
    return spans


def is_punctuation(character: str) -> bool:
    """Whether a character is punctuation, a symbol or a control character."""
    return unicodedata.category(character)[0] in "PSC"


def without_stop(caption: str) -> str:
    """The caption without punctuation and white space at its end."""
    end = len(caption)
    while end and (is_punctuation(caption[end - 1]) or caption[end - 1].isspace()):
        end -= 1
    return caption[:end]


def with_capital_of(word: str, model: str) -> str:
    """The word, with a capital if the model has one."""
    return word[0].upper() + word[1:] if model[:1].isupper() else word
