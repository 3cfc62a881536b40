"""The five perturbations of PR-MCS (Kim et al. 2023, section 5.2 and Algorithm 1)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations, islice

from .objects import exchange_objects
from .words import Span, join, only_words, weave, words_and_gaps

MASK = "[MASK]"
# Pairs of words that a jumble tries to exchange: more than enough, except for thousands of words such as
# ha, haha without spaces
_MAX_PAIRS = 1000


def repeat(words: list[str], gaps: list[str], drawn: Sequence[bool], code: str) -> str:
    """The caption with each drawn word written twice."""
    twice = words.copy()
    for index, word in enumerate(words):
        if drawn[index]:
            twice[index] = join([word, word], code)
    return weave(twice, gaps)


def keep(words: list[str], gaps: list[str], drawn: Sequence[bool], code: str) -> str:
    """The drawn words of the caption, as in the published code and figures; the text says the opposite."""
    return only_words(words, gaps, drawn)


def mask(words: list[str], gaps: list[str], drawn: Sequence[bool], code: str) -> str:
    """The caption with `[MASK]` in place of each drawn word."""
    masked = words.copy()
    for index, is_drawn in enumerate(drawn):
        if is_drawn:
            masked[index] = MASK
    return weave(masked, gaps)


def draw(n: int, p: float, rng: random.Random) -> list[bool]:
    """Draw words, each with probability p: at least one and, of two or more, never all."""
    draws = [rng.random() for _ in range(n)]
    drawn = [draw < p for draw in draws]
    if not any(drawn):
        drawn[draws.index(min(draws))] = True
    elif n > 1 and all(drawn):
        drawn[draws.index(max(draws))] = False
    return drawn


def draw_words(words: Sequence[str], p: float, rng: random.Random) -> list[bool]:
    """Draw words as `draw` does, among those that are not masked already, if there are any."""
    places = [index for index, word in enumerate(words) if word != MASK] or [*range(len(words))]
    drawn = [False] * len(words)
    for index, is_drawn in zip(places, draw(len(places), p, rng), strict=True):
        drawn[index] = is_drawn
    return drawn


def jumble(caption: str, code: str, rng: random.Random) -> str:
    """The caption with all of its words in another order."""
    words, gaps = words_and_gaps(caption, code)
    text = weave(rng.sample(words, len(words)), gaps)
    if text != caption or len(set(words)) < 2:
        return text
    pairs = combinations(rng.sample(range(len(words)), len(words)), 2)
    different = (pair for pair in pairs if words[pair[0]] != words[pair[1]])
    for a, b in islice(different, _MAX_PAIRS):
        order = words.copy()
        order[a], order[b] = order[b], order[a]
        text = weave(order, gaps)
        if text != caption:
            break
    return text


def substitute(caption: str, places: Sequence[Span], rng: random.Random, order: str) -> str:
    """The caption with its critical objects in any other order; with `order="every"`, every object moves."""
    return exchange_objects(caption, places, rng, order)[0]
