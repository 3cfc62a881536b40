"""Captions → the same captions with a stated amount of lexical noise, for curves by degree.

A perturbed caption depends only on the caption, the kind, the degree and the seed. The words of a lower
degree are among those of a higher one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np

from ..errors import CapscoreError, Setting
from ..text.languages import language_code
from ..text.letters import folded
from .kinds import KINDS, check_captions, kind_of
from .objects import Object, exchange_objects, find_nouns, find_objects
from .published import MASK
from .words import Span, caption_random, overlaps, spans_of, words_and_gaps

RULES = "degree1"  # in signatures; the number grows whenever the rules for a caption change
# Degrees of a curve
DEGREES = (0.1, 0.2, 0.4, 0.6, 0.8)


@dataclass(frozen=True)
class DegreePerturbed:
    """Result of perturbing n captions to a degree.

    Attributes:
        touched: float64 (n,), share of the words that are repeated, removed, masked or in another place, from
            0 to 1; 0 where the caption is unchanged.
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
    """Perturb a share of the words of each caption, rounded, and at least one.

    As `capscore.perturbations.perturb`, which draws each word with a probability instead; but removal leaves
    out the drawn words, never all (as published, p = 0.4 keeps 40 percent: that is degree 0.6), jumble
    swaps at least two drawn words so that each changes its place, and substitution does so with the
    share of the objects, rounded up. A caption is unchanged if it lacks two different words (jumble), two
    words (removal) or two different objects (substitution), or if every word is `[MASK]` (masking).

    >>> by_degree(["a dog runs on the beach"], "masking", "en", degree=0.2).captions
    ['a dog runs on the [MASK]']
    >>> by_degree(["a dog runs on the beach"], "masking", "en", degree=0.5).touched.tolist()
    [0.5]
    """
    if kind not in KINDS:
        raise CapscoreError(f"perturbation {kind!r} is not one of {', '.join(KINDS)}")
    if isinstance(degree, bool) or not isinstance(degree, Real) or not 0 < degree <= 1:
        raise CapscoreError(Setting("degree", degree), ": expected a share of the words, above 0, at most 1")
    code = None if language is None else language_code(language)
    check_captions(captions)
    places: Sequence[Sequence[Span]] = []
    if kind == "substitution":
        places, _ = find_objects(captions, find_nouns(captions, code) if objects is None else objects)
    texts = []
    touched = np.zeros(len(captions))
    for row, caption in enumerate(captions):
        words, gaps = words_and_gaps(caption, code)
        rng = caption_random(seed, f"degree|{kind}", caption)
        if kind in ("jumble", "substitution"):
            spans = spans_of(words, gaps)
            text, moved = _exchange(caption, places[row] if places else spans, kind, degree, rng)
            n_touched = sum(overlaps(span, moved) for span in spans)
        else:
            drawn = _draw(kind, words, degree, rng)
            n_touched = sum(drawn)
            if kind == "removal" and len(words) > 1:  # which keeps the words that it is given
                drawn = [not is_drawn for is_drawn in drawn]
            text = kind_of(kind).change(words, gaps, drawn, code)
        texts.append(text)
        if text != caption:
            touched[row] = n_touched / len(words)
    unchanged = np.array([a == b for a, b in zip(texts, captions, strict=True)], dtype=bool)
    return DegreePerturbed(texts, touched, unchanged)


def _draw(kind: str, words: list[str], degree: float, rng: random.Random) -> list[bool]:
    """Draw a share of the words, rounded, at least one; of those to remove, never all."""
    numbers = [index for index, word in enumerate(words) if kind != "masking" or word != MASK]
    count = max(1, int(degree * len(words) + 0.5))
    if kind == "removal":
        count = min(count, max(1, len(words) - 1))
    drawn = set(rng.sample(numbers, len(numbers))[:count])
    return [index in drawn for index in range(len(words))]


def _exchange(
    caption: str, spans: Sequence[Span], kind: str, degree: float, rng: random.Random
) -> tuple[str, list[Span]]:
    """The caption with the texts of a share of its spans exchanged, and the spans with another text."""
    share = degree * len(spans)
    number = int(share + 0.5) if kind == "jumble" else math.ceil(share - 1e-9)
    order = rng.sample(list(spans), len(spans))
    names = [folded(caption[start:end]) for start, end in order]
    if len(set(names)) < 2:
        return caption, []
    # two different texts come first, so that the least degree changes the caption too
    other = next(index for index, name in enumerate(names) if name != names[0])
    order.insert(1, order.pop(other))
    return exchange_objects(caption, sorted(order[: max(2, number)]), rng, "every")
