"""Captions → captions with one wrong word, and a label for each word (InfoMetIC, Hu et al. 2023, §3.2.2).

One semantic word is replaced by a frequent word of its class. It is labelled 0 and the other semantic words
1; all other words are left out. Works in every language whose word classes `capscore.text.word_classes`
finds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from capscore.errors import InputError, Setting
from capscore.infometic.words import CaptionWord, caption_words
from capscore.text.languages import language_code

MOST = 300
# Number of most similar words that may replace a word; the very first, SAME, are too often synonyms.
LIKE, SAME = 24, 1
CORRECT, WRONG, EXCLUDED = 1, 0, -1

# Endings that distinguish the forms of a class (dog, dogs; runs, running): a word is replaced by a word of
# the same form if possible, so that the image, and not the grammar, shows which word is wrong. They replace
# the finer tags of English taggers (NN, NNS, VBG, …).
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
    """A caption with a wrong word.

    Attributes:
        caption: The caption with the wrong word.
        words: Its words, in order, with their places.
        labels: Label of each word: `WRONG` (0) for the wrong word, `CORRECT` (1) for the other semantic
            words, `EXCLUDED` (-1) for the rest.
        replaced: Number of the wrong word.
        original: The word that it replaced.
    """

    caption: str
    words: tuple[CaptionWord, ...]
    labels: tuple[int, ...]
    replaced: int
    original: str


def frequent_words(
    captions: Sequence[str],
    language: str,
    *,
    most: int = MOST,
    words: Sequence[Sequence[CaptionWord]] | None = None,
) -> dict[str, list[str]]:
    """The words of captions by class, the most frequent first.

    Upper and lower case are one word, spelled in its most frequent form within captions.

    Args:
        captions: Captions (n).
        language: Their language.
        most: Most words per class.
        words: Words of the captions, as `capscore.infometic.words.caption_words` finds them, if known.

    Returns:
        Class ("noun", "verb", "adjective", "adverb", "number") → its words. Equally frequent words are in
        alphabetical order.

    Raises:
        InputError: `most` is below 1, or the language has no tagger.
        MissingExtraError: the tagger of the language is not installed.

    >>> frequent_words(["Two dogs run.", "A cat and two dogs run."], "en")["noun"]
    ['dogs', 'cat']
    """
    if most < 1:
        raise InputError(Setting("most", most), ": expected at least 1 word per class")
    found = caption_words(captions, language) if words is None else words
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    spellings: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for listed in found:
        for number, word in enumerate(listed):
            if word.semantic:
                kind, folded = word.word_class, word.text.casefold()
                counts[kind][folded] += 1
                # the first word of a caption may have a capital anyway
                spellings[kind, folded][word.text] += 2 if number else 0
                spellings[kind, folded][word.text.lower()] += 0 if number else 1
    return {
        kind: [
            max(sorted(spellings[kind, word]), key=spellings[kind, word].__getitem__)
            for word, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:most]
        ]
        for kind, counted in sorted(counts.items())
    }


def like_words(
    frequent: Mapping[str, Sequence[str]], embed: Callable[[Sequence[str]], np.ndarray], *, most: int = LIKE
) -> dict[str, dict[str, list[str]]]:
    """The most similar words of each frequent word within its class: dog → cat, red → blue.

    Args:
        frequent: Result of `frequent_words`.
        embed: n words → (n, d), rows of unit length.
        most: Most similar words per word.

    Returns:
        Class → word, in lower case → the most similar words without the very first, by cosine, then by
        frequency.

    >>> places = {"dog": 0.0, "puppy": 0.1, "cat": 0.4, "car": 1.2}
    >>> embed = lambda words: np.array([[np.cos(places[word]), np.sin(places[word])] for word in words])
    >>> like_words({"noun": ["dog", "cat", "puppy", "car"]}, embed)["noun"]["dog"]
    ['cat', 'car']
    """
    found = {}
    for kind, words in frequent.items():
        rows = np.asarray(embed(words), np.float64)
        cosines = rows @ rows.T
        np.fill_diagonal(cosines, -np.inf)
        order = np.argsort(-cosines, axis=1, kind="stable")[:, SAME : len(words) - 1][:, :most]
        found[kind] = {
            word.casefold(): [words[place] for place in places]
            for word, places in zip(words, order.tolist(), strict=True)
        }
    return found


def word_labels(words: Sequence[CaptionWord], wrong: Collection[int] = ()) -> tuple[int, ...]:
    """Label of each word: `WRONG` for numbers in `wrong`, `CORRECT` for semantic words, else `EXCLUDED`."""
    return tuple(
        WRONG if number in wrong else CORRECT if word.semantic else EXCLUDED
        for number, word in enumerate(words)
    )


def pollute(
    caption: str,
    language: str,
    frequent: Mapping[str, Sequence[str]],
    rng: np.random.Generator,
    *,
    avoid: Collection[str] = frozenset(),
    words: Sequence[CaptionWord] | None = None,
    like: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
) -> Polluted | None:
    """Replace one semantic word of a caption by a frequent word of its class.

    The word and its replacement are drawn with equal probability. The replacement has the same form if
    possible (a plural for a plural), and is never a word of the caption or a word to avoid.

    Args:
        caption: The caption.
        language: Its language.
        frequent: Result of `frequent_words`.
        rng: Random generator.
        avoid: Words, in lower case, that would be right: those of the image's other captions.
        words: Words of the caption, as `capscore.infometic.words.caption_words` finds them, if known.
        like: Result of `like_words`, to draw the replacement from the most similar words.

    Returns:
        The caption with its labels; None where no semantic word can be replaced.

    Raises:
        InputError, MissingExtraError: errors of `frequent_words`.

    >>> drawn = pollute("A dog sleeps.", "en", {"noun": ["dog", "cat"]}, np.random.default_rng(0))
    >>> drawn.caption, drawn.original, drawn.labels
    ('A cat sleeps.', 'dog', (-1, 0, 1))
    """
    listed = list(caption_words([caption], language)[0] if words is None else words)
    code = language_code(language)
    taken = {word.text.casefold() for word in listed} | set(avoid)
    semantic = [number for number, word in enumerate(listed) if word.semantic]
    for number in rng.permutation(semantic).tolist():
        word = listed[number]
        kind = word.word_class
        similar = (like or {}).get(kind, {}).get(word.text.casefold(), frequent.get(kind, ()))
        choices = [other for other in similar if other.casefold() not in taken]
        same_form = [other for other in choices if _form(other, kind, code) == _form(word.text, kind, code)]
        if pool := same_form or choices:
            return _replaced(caption, listed, number, pool[int(rng.integers(len(pool)))])
    return None


@cache  # the same few thousand words recur
def _form(word: str, kind: str, code: str) -> str:
    if kind == "number":
        return "digits" if any(map(str.isdigit, word)) else "letters"
    folded = word.casefold()
    return next((ending for ending in _ENDINGS.get(code, ()) if folded.endswith(ending)), "")


def _replaced(caption: str, words: list[CaptionWord], number: int, new: str) -> Polluted:
    old = words[number]
    if number == 0 and old.text[:1].isupper():
        new = new[:1].upper() + new[1:]
    moved = len(new) - len(old.text)
    behind = [word._replace(start=word.start + moved, end=word.end + moved) for word in words[number + 1 :]]
    return Polluted(
        caption=caption[: old.start] + new + caption[old.end :],
        words=(*words[:number], old._replace(text=new, end=old.end + moved), *behind),
        labels=word_labels(words, (number,)),
        replaced=number,
        original=old.text,
    )
