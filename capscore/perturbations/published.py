"""Captions → the same captions with lexical noise: the five perturbations of PR-MCS (Kim et al. 2023).

In: captions of one language. Out: perturbed captions, and which of them are unchanged. This is Algorithm 1 of
both versions of the paper, with p = 0.4. A perturbed caption depends only on the caption, the seed and the
settings, never on other captions.
"""

from __future__ import annotations

import difflib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from numbers import Integral, Real

import numpy as np

from ..errors import CapscoreError, InputError, Setting
from ..text.checks import text_problem
from ..text.languages import language_code
from ..text.segmentation import has_spaces, segmenter_name
from .objects import ORDERS, Object, exchange_objects, find_nouns, find_objects, noun_finder
from .words_and_gaps import caption_random, only_kept, weave, words_and_gaps

__all__ = [
    "BLANKS",
    "KINDS",
    "MASK",
    "ORDERS",
    "REMOVALS",
    "Object",
    "P",
    "Perturbed",
    "check_captions",
    "find_nouns",
    "find_objects",
    "noun_finder",
    "perturb",
    "word_finder",
]

KINDS = ("repetition", "removal", "masking", "jumble", "substitution")
MASK = "[MASK]"
P = 0.4  # Kim et al. 2023, section 5.2
REMOVALS = ("keep", "drop")
BLANKS = "blanks"  # in signatures: words are separated by white space


@dataclass(frozen=True)
class Perturbed:
    """Result of perturbing n captions.

    Attributes:
        captions: n perturbed captions, none empty.
        unchanged: bool (n,), True where the caption is unchanged.
        not_found: int (n,), number of critical objects given as texts that are not in their caption.
        kind: One of `KINDS`.
        language: Primary subtag, or None if no language was stated.
        settings: Settings that the result depends on, for signatures.
    """

    captions: list[str]
    unchanged: np.ndarray
    not_found: np.ndarray
    kind: str
    language: str | None
    settings: dict[str, object]


def perturb(
    captions: Sequence[str],
    kind: str,
    language: str | None = None,
    *,
    p: float = P,
    seed: int = 0,
    objects: Sequence[Sequence[Object]] | None = None,
    shared_draws: bool = True,
    removal: str = "keep",
    order: str = "published",
) -> Perturbed:
    """Perturb captions (Kim et al. 2023, section 5.2 and Algorithm 1).

    Repetition, removal and masking draw words, each with probability p, but always at least one and, of two
    or more words, never all: no caption becomes empty, and each changes if it can. Repetition writes a drawn
    word twice, and masking replaces it by `[MASK]`. Removal keeps the drawn words and drops the others, as in
    the published code and figures (the paper's text says the opposite). Jumble reorders all words.
    Substitution puts the critical objects of a caption into another order. As in the published code, this is
    any order that differs, so that some of three or more objects may stay in place (20 percent of three, 22
    of four, 19 of five); with `order="every"`, a stronger perturbation, every object leaves its place.

    Words are separated by white space; in Japanese, Chinese and Thai the segmenter finds them. White space
    stays in place, so a caption differs only by its perturbation. A caption is unchanged if it lacks two
    different words (jumble, removal) or objects (substitution), or if its drawn words are already `[MASK]`
    (masking).

    Args:
        captions: n texts in one language.
        kind: One of `KINDS`.
        language: Language code (see `capscore.text.languages.language_code`); None for English.
        p: Probability of drawing a word, from 0 to 1.
        seed: Whole number that seeds the draws.
        objects: Critical objects of each caption for substitution, as texts or as (start, end) places in it
            (see `find_objects`); None for the caption's nouns (`find_nouns`). An object that is not in the
            caption is left out and counted. A caption with fewer than two different objects, ignoring case,
            is unchanged.
        shared_draws: Whether repetition, removal and masking draw the same words of a caption, as published.
        removal: "keep" the drawn words, as published, or "drop" them.
        order: Order of the objects in a substitution: "published", any order that differs, or "every", an
            order in which every object moves (unless one of them fills more than half of the places).

    Raises:
        CapscoreError: an unknown kind or setting, p outside 0 to 1, or objects for another kind.
        InputError: a caption is not a string or is blank, or an object is neither a text nor a place in its
            caption (the error names the row); or the numbers of objects and captions differ, or no words can
            be found in the language.
        MissingExtraError: the language's segmenter, or its tagger, is not installed.

    >>> perturb(["a dog runs on the beach"], "masking", "en", seed=1).captions
    ['a [MASK] runs on the beach']
    >>> perturb(["a dog runs on the beach"], "repetition", "en", seed=1).captions
    ['a dog dog runs on the beach']
    >>> perturb(["a dog on a beach"], "substitution", "en", objects=[["dog", "beach"]]).captions
    ['a beach on a dog']
    >>> caption, objects = ["a cat and a dog and a man"], [["cat", "dog", "man"]]
    >>> perturb(caption, "substitution", "en", objects=objects, seed=1).captions
    ['a dog and a cat and a man']
    >>> perturb(caption, "substitution", "en", objects=objects, seed=1, order="every").captions
    ['a man and a cat and a dog']
    """
    p, seed = _check_settings(kind, p, seed, shared_draws, removal, order, objects)
    code = None if language is None else language_code(language)
    check_captions(captions)
    settings: dict[str, object] = {"seed": seed}
    not_found = np.zeros(len(captions), dtype=np.int64)
    if kind == "substitution":
        settings["objects"] = "given"
        if objects is None:
            objects, settings["objects"] = find_nouns(captions, code), noun_finder(code)
        settings["order"] = order
        found, not_found = find_objects(captions, objects)
        texts = [
            exchange_objects(caption, places, caption_random(seed, kind, caption), order)
            for caption, places in zip(captions, found, strict=True)
        ]
    else:
        settings["words"] = word_finder(code)
        if kind != "jumble":
            settings["p"] = p
            settings["draws"] = "shared" if shared_draws else "own"
        if kind == "removal":
            settings["removal"] = removal
        drawing = "draw" if shared_draws and kind != "jumble" else kind
        between = " " if has_spaces(code) else ""
        texts = []
        for caption in captions:
            pieces, gaps = words_and_gaps(caption, code)
            chance = caption_random(seed, drawing, caption)
            if kind == "jumble":
                texts.append(_jumbled(pieces, gaps, chance))
                continue
            drawn = _drawn(len(pieces), p, chance)
            if kind == "removal":
                kept = (
                    drawn if removal == "keep" or len(pieces) == 1 else [not is_drawn for is_drawn in drawn]
                )
                texts.append(only_kept(pieces, gaps, kept))
            else:
                texts.append(weave(_written(pieces, drawn, kind, between), gaps))
    unchanged = np.array([a == b for a, b in zip(texts, captions, strict=True)], dtype=bool)
    return Perturbed(texts, unchanged, not_found, kind, code, settings)


def word_finder(language: str | None = None) -> str:
    """Name, for signatures, of what finds the words of a language: white space, or its segmenter.

    Raises:
        InputError, MissingExtraError: see `capscore.text.segmentation.segmenter_name`.

    >>> word_finder("de"), word_finder("ko")
    ('blanks', 'blanks')
    """
    return BLANKS if has_spaces(language) else segmenter_name(language)


def check_captions(captions: Sequence[str]) -> None:
    """Raise unless all captions can be perturbed.

    Raises:
        InputError: a caption is not a string, is blank or holds half a surrogate pair; the error names the
            row.
    """
    if isinstance(captions, str):
        raise InputError(f"{captions!r:.60} is one string; expected a list of captions", field="caption")
    for row, caption in enumerate(captions):
        problem = text_problem(caption)
        if problem is None and not caption.replace("\0", " ").strip():
            problem = "the caption is blank: there is nothing to perturb"
        if problem:
            raise InputError(problem, row=row, field="caption")


def _check_settings(
    kind: str, p: float, seed: int, shared_draws: bool, removal: str, order: str, objects: object
) -> tuple[float, int]:
    for name, given, known in (
        ("perturbation", kind, KINDS),
        ("removal", removal, REMOVALS),
        ("order", order, ORDERS),
    ):
        if given not in known:
            close = difflib.get_close_matches(str(given).lower(), known, n=1, cutoff=0.4)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise CapscoreError(f"{name} {given!r} is not one of {', '.join(known)}{hint}")
    if isinstance(p, bool) or not isinstance(p, Real) or not 0 <= p <= 1:
        raise CapscoreError(Setting("p", p), ": expected a probability from 0 to 1")
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise CapscoreError(Setting("seed", seed), ": expected a whole number")
    if not isinstance(shared_draws, (bool, np.bool_)):
        raise CapscoreError(Setting("shared_draws", shared_draws), ": expected True or False")
    if objects is not None and kind != "substitution":
        raise CapscoreError(Setting("objects"), f" are for substitution; {kind} takes none")
    return float(p), int(seed)


def _drawn(n: int, p: float, chance: random.Random) -> list[bool]:
    draws = [chance.random() for _ in range(n)]
    drawn = [draw < p for draw in draws]
    if not any(drawn):
        drawn[draws.index(min(draws))] = True
    elif n > 1 and all(drawn):
        drawn[draws.index(max(draws))] = False
    return drawn


def _written(pieces: list[str], drawn: list[bool], kind: str, between: str) -> list[str]:
    return [
        piece if not is_drawn else MASK if kind == "masking" else f"{piece}{between}{piece}"
        for piece, is_drawn in zip(pieces, drawn, strict=True)
    ]


def _jumbled(pieces: list[str], gaps: list[str], chance: random.Random) -> str:
    caption, text = weave(pieces, gaps), weave(chance.sample(pieces, len(pieces)), gaps)
    if text == caption and len(set(pieces)) > 1:
        pairs = combinations(chance.sample(range(len(pieces)), len(pieces)), 2)
        # 1,000 are more than enough, except for thousands of words such as ha, haha without spaces
        for one, other in islice((pair for pair in pairs if pieces[pair[0]] != pieces[pair[1]]), 1000):
            order = pieces.copy()
            order[one], order[other] = order[other], order[one]
            text = weave(order, gaps)
            if text != caption:
                break
    return text
