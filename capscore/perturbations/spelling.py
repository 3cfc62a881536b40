"""Captions → the same captions, hastily written: words or letters exchanged, or the end missing."""

from __future__ import annotations

import random
import unicodedata

from .words import placed_words, weave, words_and_gaps


def swap_neighbours(caption: str, code: str, rng: random.Random) -> str:
    """The caption with two adjacent words exchanged; unchanged if all its words are equal."""
    spans = placed_words(caption, code)
    words = [caption[start:end] for start, end in spans]
    pairs = [index for index in range(len(words) - 1) if words[index] != words[index + 1]]
    if not pairs:
        return caption
    index = rng.choice(pairs)
    (a, b), (c, d) = spans[index : index + 2]
    return caption[:a] + caption[c:d] + caption[b:c] + caption[a:b] + caption[d:]


def mistype(caption: str, code: str, rng: random.Random) -> str:
    """The caption with a typo in a word of three or more letters; in two, if it has eight or more words.

    In Japanese and Chinese a character is replaced by its neighbour.
    """
    if code in ("ja", "zh"):
        return _another_character(caption, rng)
    spans = placed_words(caption, code)
    long = [span for span in spans if len(_letters(caption[slice(*span)])) >= 3]
    chosen = rng.sample(long, min(len(long), 2 if len(spans) >= 8 else 1))
    for start, end in sorted(chosen, reverse=True):
        caption = caption[:start] + _mistyped_word(caption[start:end], rng) + caption[end:]
    return caption


def truncate(caption: str, code: str, rng: random.Random) -> str:
    """The caption without the last 30 to 50 percent of its words."""
    words, gaps = words_and_gaps(caption, code)
    counts = [cut for cut in range(1, len(words)) if 3 * len(words) <= 10 * cut <= 5 * len(words)]
    if not counts:
        return caption
    remaining = len(words) - rng.choice(counts)
    return weave(words[:remaining], [*gaps[:remaining], ""])


def _letters(word: str) -> list[str]:
    """Characters with the marks on them, which a reader sees as one letter each."""
    found: list[str] = []
    for character in word:
        if found and (unicodedata.category(character)[0] == "M" or character in "\u200c\u200d"):
            found[-1] += character
        else:
            found.append(character)
    return found


def _mistyped_word(word: str, rng: random.Random) -> str:
    letters = _letters(word)
    way = rng.choice(("swap", "drop", "double"))
    different = [index for index in range(len(letters) - 1) if letters[index] != letters[index + 1]]
    if way == "swap" and different:
        index = rng.choice(different)
        letters[index : index + 2] = letters[index + 1], letters[index]
        return "".join(letters)
    index = rng.randrange(len(letters))
    letters[index : index + 1] = [] if way == "drop" else letters[index : index + 1] * 2
    return "".join(letters)


def _another_character(caption: str, rng: random.Random) -> str:
    indices = [index for index, character in enumerate(caption) if character.isalnum()]
    pairs = [
        (index, other)
        for index in indices
        for other in (index - 1, index + 1)
        if other in indices and caption[index] != caption[other]
    ]
    if not pairs:
        return caption
    index, other = rng.choice(pairs)
    return caption[:index] + caption[other] + caption[index + 1 :]
