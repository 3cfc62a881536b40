"""Captions → captions with one wrong word (InfoMetIC, Hu et al. 2023, §3.2.2).

One semantic word is replaced by a frequent word of its class, in every language whose word classes
`capscore.text.word_classes` finds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from capscore.infometic.words import CaptionWord
from capscore.text.languages import language_code
from capscore.text.letters import folded, lower

# A word → the words that may replace it.
Choices = Callable[[CaptionWord], Sequence[str]]
# Chance → what may replace each word of one caption.
DrawnChoices = Callable[[np.random.Generator], Choices]

# Endings that distinguish the forms of a class (dog, dogs; runs, running): a word is replaced by a word of
# the same form if possible, so that the image, and not the grammar, shows which word is wrong.
_ENDINGS = {
    "de": ("en", "er", "es", "em", "e", "t"),
    "en": ("ing", "ed", "s"),
    "es": ("ando", "iendo", "os", "as", "o", "a", "s"),
    "fr": ("ant", "ent", "ées", "és", "ée", "é", "er", "s", "x", "e"),
    "it": ("ando", "endo", "o", "a", "i", "e"),
    "nl": ("en", "s", "t", "e"),
    "pt": ("ando", "endo", "indo", "os", "as", "o", "a", "s"),
}


@dataclass(frozen=True)
class Polluted:
    """A caption with a wrong word: its words, and the number of the wrong one."""

    caption: str
    words: list[CaptionWord]
    replaced: int


def frequent_words(captions: Sequence[Sequence[CaptionWord]], *, most: int = 300) -> dict[str, list[str]]:
    """The words of captions of one language by class, the most frequent first, at most `most` per class.

    Upper and lower case are one word, spelled in its most frequent form within captions. Equally frequent
    words are in alphabetical order.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    spellings: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for words in captions:
        for number, word in enumerate(words):
            if word.semantic:
                kind, name = word.word_class, folded(word.text)
                counts[kind][name] += 1
                # the first word of a caption may have a capital anyway
                text, weight = (word.text, 2) if number else (lower(word.text), 1)
                spellings[kind, name][text] += weight
    frequent: dict[str, list[str]] = {}
    for kind, counted in sorted(counts.items()):
        frequent[kind] = []
        for name, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:most]:
            spelled = spellings[kind, name]
            frequent[kind].append(max(sorted(spelled), key=spelled.__getitem__))
    return frequent


def any_frequent(frequent: Mapping[str, Sequence[str]]) -> Choices:
    """The words that may replace a word: the `frequent_words` of its class."""
    return lambda word: frequent.get(word.word_class, ())


def pollute(
    caption: str,
    language: str,
    words: Sequence[CaptionWord],
    choices: Choices,
    rng: np.random.Generator,
    *,
    avoid: Collection[str] = frozenset(),
) -> Polluted | None:
    """Replace one semantic word of a caption by another of its class; None where that is not possible.

    The word and its replacement are drawn with equal probability. The replacement has the same form if
    possible (a plural for a plural), and is never a word of the caption or a word to avoid, in lower case.
    """
    code = language_code(language)
    taken = {folded(word.text) for word in words} | set(avoid)
    semantic = [number for number, word in enumerate(words) if word.semantic]
    for number in rng.permutation(semantic).tolist():
        word = words[number]
        kind = word.word_class
        others = [other for other in choices(word) if folded(other) not in taken]
        same_form = [other for other in others if _form(other, kind, code) == _form(word.text, kind, code)]
        if pool := same_form or others:
            new = pool[int(rng.integers(len(pool)))]
            if number == 0 and word.text[:1].isupper():
                new = new[:1].upper() + new[1:]
            return replaced(caption, words, number, new)
    return None


@cache  # the same few thousand words recur
def _form(word: str, kind: str, code: str) -> str:
    if kind == "number":
        return str(any(map(str.isdigit, word)))  # digits are not put in for words
    word = folded(word)
    return next((ending for ending in _ENDINGS.get(code, ()) if word.endswith(ending)), "")


def replaced(caption: str, words: Sequence[CaptionWord], number: int, new: str) -> Polluted:
    """A caption with another word in place of one of its words."""
    old = words[number]
    moved = len(new) - len(old.text)
    behind = [word._replace(start=word.start + moved, end=word.end + moved) for word in words[number + 1 :]]
    words = [*words[:number], old._replace(text=new, end=old.end + moved), *behind]
    return Polluted(caption[: old.start] + new + caption[old.end :], words, number)
