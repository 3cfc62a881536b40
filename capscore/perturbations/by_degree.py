"""Captions → the same captions with a stated amount of lexical noise, for curves by degree.

In: captions of one language, a kind of the five of PR-MCS, and the share of the words to touch. Out:
perturbed captions and the share of words that was touched. A perturbed caption depends only on the caption,
the kind, the degree and the seed, never on other captions. The words of a lower degree are among those of a
higher one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np

from ..errors import CapscoreError, Setting
from ..text.languages import language_code
from ..text.segmentation import has_spaces
from .objects import Object, exchanged_texts, find_nouns, find_objects
from .published import KINDS, MASK, check_captions
from .words_and_gaps import caption_random, only_kept, weave, words_and_gaps

RULES = "degree1"  # in signatures; the number grows whenever the rules for a caption change
# Degrees of a curve
DEGREES = (0.1, 0.2, 0.4, 0.6, 0.8)

Place = tuple[int, int]


@dataclass(frozen=True)
class DegreePerturbed:
    """Result of perturbing n captions to a degree.

    Attributes:
        captions: n perturbed captions, none empty.
        touched: float64 (n,), share of the words that are repeated, removed, masked or in another place, from
            0 to 1; 0 where the caption is unchanged.
        unchanged: bool (n,), True where the caption could not be changed.
    """

    captions: list[str]
    touched: np.ndarray
    unchanged: np.ndarray


def by_degree(
    captions: Sequence[str],
    kind: str,
    language: str | None = None,
    *,
    degree: float,
    seed: int = 0,
    objects: Sequence[Sequence[Object]] | None = None,
) -> DegreePerturbed:
    """Perturb a share of the words of each caption.

    The kinds are those of `capscore.perturbations.perturb`, where each word is drawn with a probability; here
    a fixed number is: the share of the words, rounded, and at least one.

    - repetition writes the drawn words twice.
    - removal leaves out the drawn words, but never all. (As published, removal with p = 0.4 keeps 40 percent
      of the words: that is degree 0.6.)
    - masking writes `[MASK]` for the drawn words; a word that is `[MASK]` already is not drawn.
    - jumble exchanges the drawn words, at least two, so that each stands in another place.
    - substitution does the same with the share of the caption's objects, rounded up, at least two.

    A caption is unchanged if it lacks two different words (jumble), two words (removal) or two different
    objects (substitution), or if every word is `[MASK]` (masking).

    Args:
        captions: n texts in one language.
        kind: One of `capscore.perturbations.KINDS`.
        language: Language code (see `capscore.text.languages.language_code`); None for English.
        degree: Share of the words, or of the objects, above 0 and at most 1.
        seed: Whole number that seeds the draws.
        objects: Critical objects for substitution as in `capscore.perturbations.perturb`; None for the nouns.

    Raises:
        CapscoreError: an unknown kind, a degree outside 0 to 1, a seed that is not a whole number, or objects
            for another kind.
        InputError: a caption is not a string or is blank, or an object is not in it (the error names the
            row); or no words can be found in the language.
        MissingExtraError: the language's segmenter, or its tagger, is not installed.

    >>> by_degree(["a dog runs on the beach"], "masking", "en", degree=0.2).captions
    ['a dog runs on the [MASK]']
    >>> by_degree(["a dog runs on the beach"], "masking", "en", degree=0.5).touched.tolist()
    [0.5]
    """
    _check(kind, degree, seed, objects)
    code = None if language is None else language_code(language)
    check_captions(captions)
    places: Sequence[Sequence[Place]] = [()] * len(captions)
    if kind == "substitution":
        places, _ = find_objects(captions, find_nouns(captions, code) if objects is None else objects)
    between = " " if has_spaces(code) else ""
    texts = []
    touched = np.zeros(len(captions))
    for row, caption in enumerate(captions):
        pieces, gaps = words_and_gaps(caption, code)
        chance = caption_random(seed, f"degree|{kind}", caption)
        if kind in _OF_WORDS:
            text, number = _OF_WORDS[kind](pieces, gaps, degree, chance, between)
        else:
            words = _places(pieces, gaps)
            if kind == "jumble":
                text, moved = _exchanged(caption, words, int(degree * len(words) + 0.5), chance)
            else:
                number = math.ceil(degree * len(places[row]) - 1e-9)
                text, moved = _exchanged(caption, places[row], number, chance)
            number = sum(any(start < b and a < end for a, b in moved) for start, end in words)
        texts.append(text)
        if text != caption:
            touched[row] = number / len(pieces)
    unchanged = np.array([a == b for a, b in zip(texts, captions, strict=True)], dtype=bool)
    return DegreePerturbed(texts, touched, unchanged)


def _check(kind: str, degree: float, seed: int, objects: object) -> None:
    if kind not in KINDS:
        raise CapscoreError(f"perturbation {kind!r} is not one of {', '.join(KINDS)}")
    if isinstance(degree, bool) or not isinstance(degree, Real) or not 0 < degree <= 1:
        raise CapscoreError(Setting("degree", degree), ": expected a share of the words, above 0, at most 1")
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise CapscoreError(Setting("seed", seed), ": expected a whole number")
    if objects is not None and kind != "substitution":
        raise CapscoreError(Setting("objects"), f" are for substitution; {kind} takes none")


def _drawn(numbers: list[int], degree: float, chance: random.Random, n: int) -> set[int]:
    """Of the given numbers of words, a share of n, rounded, at least one."""
    return set(chance.sample(numbers, len(numbers))[: max(1, int(degree * n + 0.5))])


def _repeated(
    pieces: list[str], gaps: list[str], degree: float, chance: random.Random, between: str
) -> tuple[str, int]:
    drawn = _drawn(list(range(len(pieces))), degree, chance, len(pieces))
    written = [
        f"{piece}{between}{piece}" if number in drawn else piece for number, piece in enumerate(pieces)
    ]
    return weave(written, gaps), len(drawn)


def _removed(
    pieces: list[str], gaps: list[str], degree: float, chance: random.Random, between: str
) -> tuple[str, int]:
    # the word that is drawn last always stays
    order = chance.sample(range(len(pieces)), len(pieces))
    drawn = set(order[: min(max(1, int(degree * len(pieces) + 0.5)), len(pieces) - 1)])
    return only_kept(pieces, gaps, [number not in drawn for number in range(len(pieces))]), len(drawn)


def _masked(
    pieces: list[str], gaps: list[str], degree: float, chance: random.Random, between: str
) -> tuple[str, int]:
    words = [number for number, piece in enumerate(pieces) if piece != MASK]
    drawn = _drawn(words, degree, chance, len(pieces))
    return weave([MASK if number in drawn else piece for number, piece in enumerate(pieces)], gaps), len(
        drawn
    )


_OF_WORDS: dict[str, Callable[[list[str], list[str], float, random.Random, str], tuple[str, int]]] = {
    "repetition": _repeated,
    "removal": _removed,
    "masking": _masked,
}


def _places(pieces: list[str], gaps: list[str]) -> list[Place]:
    """(start, end) of each word."""
    places, end = [], 0
    for piece, gap in zip(pieces, gaps[:-1], strict=True):
        start = end + len(gap)
        end = start + len(piece)
        places.append((start, end))
    return places


def _exchanged(
    caption: str, places: Sequence[Place], number: int, chance: random.Random
) -> tuple[str, list[Place]]:
    """The caption with the texts of so many of its places exchanged, and the places with another text."""
    order = chance.sample(list(places), len(places))
    names = [caption[start:end].casefold() for start, end in order]
    other = next((place for place, name in enumerate(names) if name != names[0]), None)
    if other is None:
        return caption, []
    # two different texts come first, so that the least degree changes the caption too
    order.insert(1, order.pop(other))
    chosen = sorted(order[: max(2, number)])
    out, last, moved = [], 0, []
    for (start, end), text in zip(chosen, exchanged_texts(caption, chosen, chance, "every"), strict=True):
        out += [caption[last:start], text]
        last = end
        if text != caption[start:end]:
            moved.append((start, end))
    return "".join(out) + caption[last:], moved
