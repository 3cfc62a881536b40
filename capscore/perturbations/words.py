"""A caption → its words and the white space around them."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Iterable, Sequence

from ..text import segmentation
from ..text.letters import upper

Span = tuple[int, int]


def caption_random(seed: int, use: str, caption: str) -> random.Random:
    """A random generator that depends on the seed, the use and the caption alone."""
    # a string seed goes through SHA-512, so it is the same in every process and on every machine
    return random.Random(f"{seed}|{use}|{caption}")


def words_and_gaps(caption: str, code: str | None) -> tuple[list[str], list[str]]:
    """The n words of a caption, and the n + 1 stretches of white space around them."""
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


def join(words: Sequence[str], code: str | None) -> str:
    """Words → a text: joined by blanks, in Japanese, Chinese and Thai by nothing."""
    between = " " if segmentation.has_spaces(code) else ""
    return between.join(words)


def spans_of(words: Sequence[str], gaps: Sequence[str]) -> list[Span]:
    """The (start, end) span of each word in its caption."""
    spans, end = [], 0
    for word, gap in zip(words, gaps, strict=False):  # the last gap follows the last word
        start = end + len(gap)
        end = start + len(word)
        spans.append((start, end))
    return spans


def overlaps(span: Span, others: Iterable[Span]) -> bool:
    """Whether a span shares a character with any of the others."""
    return any(span[0] < end and start < span[1] for start, end in others)


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
    return "".join(gap + word for gap, word in zip(gaps, [*words, ""], strict=True))


def only_words(words: Sequence[str], gaps: Sequence[str], stays: Sequence[bool]) -> str:
    """The caption with the words that stay; of the white space between two of them, the first.

    >>> only_words(["a", "red", "dog"], ["", "  ", " ", ""], [True, False, True])
    'a  dog'
    """
    out, gap = [gaps[0]], ""
    for word, word_stays, after in zip(words, stays, gaps[1:], strict=True):
        if word_stays:
            out += [gap, word]
            gap = after
        elif len(out) > 1:
            gap = gap or after
    return "".join([*out, gaps[-1]])


def placed_words(caption: str, code: str) -> list[Span]:
    """Spans of the words, without punctuation around them; words of punctuation alone are left out."""
    cores = [core(caption, span) for span in spans_of(*words_and_gaps(caption, code))]
    return [(start, end) for start, end in cores if start < end]


def core(caption: str, span: Span) -> Span:
    """A span without the punctuation at its ends."""
    start, end = span
    while start < end and is_punctuation(caption[start]):
        start += 1
    while start < end and is_punctuation(caption[end - 1]):
        end -= 1
    return start, end


def with_texts(caption: str, spans: Sequence[Span], texts: Sequence[str]) -> str:
    """The caption with other texts at spans of it, from left to right."""
    parts, last = [], 0
    for (start, end), text in zip(spans, texts, strict=True):
        parts += [caption[last:start], text]
        last = end
    return "".join([*parts, caption[last:]])


def with_text(caption: str, span: Span, text: str) -> str:
    """The caption with another text at a span of it."""
    return with_texts(caption, [span], [text])


def is_punctuation(character: str) -> bool:
    """Whether a character is punctuation, a symbol or a control character."""
    return unicodedata.category(character)[0] in "PSC"


def without_stop(caption: str) -> str:
    """The caption without punctuation and white space at its end."""
    end = len(caption)
    while end and (is_punctuation(caption[end - 1]) or caption[end - 1].isspace()):
        end -= 1
    return caption[:end]


def with_capital_of(word: str, model: str, code: str = "") -> str:
    """The word, with a capital of the language if the model has one."""
    if model[:1].isupper():
        return upper(word[0], code) + word[1:]
    return word
