"""Captions → captions with one wrong word, and a label for each word (InfoMetIC, Hu et al. 2023, §3.2.2).

In: right captions of a language. Out: which words are frequent in them, by class; and captions in which one
semantic word is replaced by a frequent word of the same class: it is labelled 0, the other semantic words 1,
and all others are left out. Works in every language whose classes of words `capscore.text.word_classes`
tells.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from capscore.errors import InputError
from capscore.infometic.words import CaptionWord, caption_words
from capscore.text.languages import language_code

MOST = 300
# Of the words most like one, so many may stand for it; the very first is too often another word for it.
LIKE, SAME = 24, 1
CORRECT, WRONG, EXCLUDED = 1, 0, -1

# What tells the forms of a class apart (dog, dogs; runs, running): a word is replaced by one of the same form
# where there is one, so that it is the image, and not the grammar, that shows which word is wrong. It stands
# for the finer tags of English taggers (NN, NNS, VBG, …), which a tagger of classes does not give.
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
        caption: the caption.
        words: its words, in order, with their places in it.
        labels: a label a word: `WRONG` (0) for the word that was put in, `CORRECT` (1) for the other semantic
            words, `EXCLUDED` (-1) for the rest.
        replaced: number of the word that was put in.
        original: the word that stood there.
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

    Capitals do not tell words apart; a word is written as it most often is within a caption.

    Args:
        captions: n captions.
        language: of all of them.
        most: how many words of a class are kept.
        words: what `capscore.infometic.words.caption_words` gives for them, if it is there already.

    Returns:
        Class ("noun", "verb", "adjective", "adverb", "number") → its words. Words equally frequent are in the
        order of their letters.

    Raises:
        InputError: `most` below 1; the language has no tagger.
        MissingExtraError: the tagger of the language is not installed.

    >>> frequent_words(["Two dogs run.", "A cat and two dogs run."], "en")["noun"]
    ['dogs', 'cat']
    """
    if most < 1:
        raise InputError(f"most={most!r}: expected at least 1 word of a class")
    found = caption_words(captions, language) if words is None else words
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    spellings: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for listed in found:
        for number, word in enumerate(listed):
            if word.semantic:
                kind, folded = word.word_class, word.text.casefold()
                counts[kind][folded] += 1
                # a caption's first word says nothing of its capital
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
    """Of each frequent word those of its class that are most like it: dog → cat, red → blue.

    Args:
        frequent: what `frequent_words` gives.
        embed: n words → (n, d), rows of unit length.
        most: how many of a word.

    Returns:
        Class → word, in lower case → the words most like it, without the very first, in the order of their
        cosines; words equally like it in that of their frequency.

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
    """A label a word: `WRONG` for those numbered in `wrong`, `CORRECT` for semantic ones, else `EXCLUDED`."""
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

    Which word and by what is drawn evenly. A word is replaced by one of its own form where there is one (a
    plural by a plural); never by a word that the caption has already, or that is to be avoided.

    Args:
        caption: the caption.
        language: its language.
        frequent: what `frequent_words` gives.
        rng: what draws.
        avoid: words, in lower case, that would be right: those of the image's other captions.
        words: what `capscore.infometic.words.caption_words` gives for the caption, if it is there already.
        like: what `like_words` gives, to replace a word that has any by one of those most like it.

    Returns:
        The caption with its labels; None where no semantic word has anything to be replaced by.

    Raises:
        InputError, MissingExtraError: as `frequent_words`.

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
        listed_like = (like or {}).get(kind, {}).get(word.text.casefold())
        pool = frequent.get(kind, ()) if listed_like is None else listed_like
        choices = [other for other in pool if other.casefold() not in taken]
        alike = [other for other in choices if _form(other, kind, code) == _form(word.text, kind, code)]
        if not choices:
            continue
        pool = alike or choices
        return _replaced(caption, listed, number, pool[int(rng.integers(len(pool)))])
    return None


@cache  # the same few thousand words are asked for again and again
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
    shifted = [
        word
        if place < number
        else word._replace(
            text=new if place == number else word.text,
            start=word.start + (moved if place > number else 0),
            end=word.end + moved,
        )
        for place, word in enumerate(words)
    ]
    return Polluted(
        caption=caption[: old.start] + new + caption[old.end :],
        words=tuple(shifted),
        labels=word_labels(words, (number,)),
        replaced=number,
        original=old.text,
    )
