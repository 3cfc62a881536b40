"""A caption → its words and the white space around them; the words in which two captions differ.

In: captions and their language. Out: words, white space and (start, end) spans, from which the caption can be
woven again; a random generator for each caption.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher

from ..text import segmentation
from ..text.languages import language_code

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


def word_changes(before: str, after: str, language: str | None = None) -> tuple[list[Span], list[Span]]:
    """The spans of words that only one of two captions has there.

    Args:
        before, after: Two captions.
        language: Language code of both (see `capscore.text.languages.language_code`); None for English.

    Returns:
        Spans in `before`, and in `after`, from left to right; adjacent words are one span.

    Raises:
        InputError: the language is written without spaces and has no segmenter.
        MissingExtraError: the segmenter of the language is not installed.

    >>> word_changes("a dog on a beach", "a cat on a a beach", "en")
    ([(2, 5)], [(2, 5), (11, 12)])
    """
    code = None if language is None else language_code(language)
    old, new = words_and_gaps(before, code), words_and_gaps(after, code)
    runs = _different_runs(old[0], new[0])
    old_spans, new_spans = spans_of(*old), spans_of(*new)
    return (
        [(old_spans[a][0], old_spans[b - 1][1]) for a, b, _, _ in runs if b > a],
        [(new_spans[c][0], new_spans[d - 1][1]) for _, _, c, d in runs if d > c],
    )


def _different_runs(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Differences of two lists of words: (start, end) in the first and in the second, in order."""
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    aligned = [change[1:] for change in matcher.get_opcodes() if change[0] != "equal"]
    if len(first) != len(second):
        return aligned
    # if words were replaced, comparing word by word often needs fewer marks
    paired: list[tuple[int, int, int, int]] = []
    for index, (a, b) in enumerate(zip(first, second, strict=True)):
        if a != b:
            start = paired.pop()[0] if paired and paired[-1][1] == index else index
            paired.append((start, index + 1, start, index + 1))
    return min(paired, aligned, key=lambda runs: sum(b - a + d - c for a, b, c, d in runs))
