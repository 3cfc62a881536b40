"""A text → the same with lexical noise of one kind, where the noise is, and how much of its score it takes.

The kinds are those of PR-MCS (Kim et al. 2023, §3.2 and Algorithm 1), from a single word to all of them. What
a perturbation leaves well-formed is no damage, and None comes back: a phrase without its article, words of
one stretch, one noun.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from capscore.perturbations import MASK, P
from weights.making.noise_gate.styles import Styled
from weights.making.noise_gate.texts import Span

# The share of a score that is kept falls with the share s of words that are touched, as (1 − s) to the power:
# one word of ten takes about half of it, four of ten take nearly all.
POWERS = {"repetition": 6.0, "removal": 3.0, "masking": 6.0, "jumble": 5.0}
# Of a substitution, s is the share of the objects that moved, each of which says what the caption is about.
_SUBSTITUTION_POWER = 1.5
# Share of damaged texts with the paper's own draws.
_PUBLISHED = 0.4


@dataclass(frozen=True, slots=True)
class Damaged:
    """A damaged text."""

    text: str
    touched: tuple[Span, ...]  # places where noise is, or where a word is missing
    taken: float  # share of the score that the noise should take, from 0 to 1


def damaged(text: Styled, kind: str, chance: random.Random) -> Damaged | None:
    """Damage a well-formed text by a random degree of a kind of `KINDS`; None where this cannot damage it."""
    p = P if chance.random() < _PUBLISHED else chance.uniform(0.05, 0.9)
    if kind == "substitution":
        return _substituted(text, p, chance)
    if kind == "jumble":
        return _jumbled(text, p, chance)
    n = len(text.words)
    drawn = [chance.random() < p for _ in range(n)]
    if kind == "removal":
        return _removed(text, drawn, chance)
    if not any(drawn):
        drawn[chance.randrange(n)] = True
    elif n > 1 and all(drawn):
        drawn[chance.randrange(n)] = False
    return _rewritten(text, drawn, kind)


def taken_of(kind: str, share: float) -> float:
    """Share of the words that noise touched → share of the score that it takes.

    >>> round(taken_of("repetition", 0.1), 2), round(taken_of("repetition", 0.4), 2)
    (0.47, 0.95)
    """
    power = _SUBSTITUTION_POWER if kind == "substitution" else POWERS[kind]
    return 1 - (1 - share) ** power


def _put(
    text: Styled, spans: Sequence[Span], new: Sequence[str], marked: Sequence[bool]
) -> tuple[str, list[Span]]:
    """The text with new content at some places, and where those are that are marked."""
    written, last = "", 0
    touched: list[Span] = []
    for (start, end), content, is_marked in zip(spans, new, marked, strict=True):
        written += text.text[last:start]
        if is_marked:
            touched.append((len(written), len(written) + len(content)))
        written += content
        last = end
    return written + text.text[last:], touched


def _rewritten(text: Styled, drawn: list[bool], kind: str) -> Damaged | None:
    between = "" if text.language in ("ja", "zh") else " "
    words = [text.text[start:end] for start, end in text.words]
    new = [
        (MASK if kind == "masking" else f"{word}{between}{word}") if is_drawn else word
        for word, is_drawn in zip(words, drawn, strict=True)
    ]
    written, touched = _put(text, text.words, new, drawn)
    return Damaged(written, tuple(touched), taken_of(kind, sum(drawn) / len(drawn)))


def _removed(text: Styled, kept: list[bool], chance: random.Random) -> Damaged | None:
    n = len(kept)
    if not any(kept):
        kept[chance.randrange(n)] = True
    gone = [number for number, is_kept in enumerate(kept) if not is_kept]
    left = [number for number, is_kept in enumerate(kept) if is_kept]
    # without its articles a phrase is right, and one stretch of a text is a fragment
    if not [number for number in gone if left[0] < number < left[-1] and number not in text.openers]:
        return None
    written = ""
    touched: list[Span] = []
    for number, before in zip(left, [None, *left], strict=False):
        start, end = text.words[number]
        if before is not None:
            gap = text.text[text.words[before][1] : text.words[before + 1][0]]
            written += gap
            if number > before + 1:
                touched.append((max(len(written) - len(gap) - 1, 0), len(written) + end - start))
        written += text.text[start:end]
    share = sum(number not in text.openers for number in gone) / max(n - len(text.openers), 1)
    return Damaged(written, tuple(touched), taken_of("removal", share))


def _jumbled(text: Styled, p: float, chance: random.Random) -> Damaged | None:
    n = len(text.words)
    if n < 2:
        return None
    words = [text.text[start:end] for start, end in text.words]
    moving = list(range(n)) if p == P else [number for number in range(n) if chance.random() < p]
    while len(moving) < 2:
        moving = sorted({*moving, chance.randrange(n)})
    order = _shuffled(n, moving, chance)
    new = [words[number] for number in order]
    if new == words:
        return None
    parted = [number > 0 and order[number] != order[number - 1] + 1 for number in range(n)]
    written, touched = _put(text, text.words, new, [order[0] != 0, *parted[1:]])
    displaced = sum(old != word for old, word in zip(words, new, strict=True))
    # a text whose two halves changed places has moved every word, and yet reads well
    share = (displaced / n + min(sum(parted) / (n - 1), 1.0)) / 2
    return Damaged(written, tuple(touched), taken_of("jumble", share))


def _substituted(text: Styled, p: float, chance: random.Random) -> Damaged | None:
    names = [text.text[start:end] for start, end in text.objects]
    folded = [name.lower() for name in names]
    if len(set(folded)) < 2:
        return None
    n = len(names)
    moving = list(range(n))
    if p != P and n > 2:
        moving = sorted(chance.sample(moving, max(2, min(n, round(p * n)))))
    for _ in range(8):
        order = _shuffled(n, moving, chance)
        changed = [folded[order[number]] != folded[number] for number in range(n)]
        if any(changed):
            written, touched = _put(text, text.objects, [names[number] for number in order], changed)
            return Damaged(written, tuple(touched), taken_of("substitution", sum(changed) / n))
    return None


def _shuffled(n: int, moving: Sequence[int], chance: random.Random) -> list[int]:
    """The numbers below n, of which some change places at random."""
    order = list(range(n))
    for number, other in zip(moving, chance.sample(moving, len(moving)), strict=True):
        order[number] = other
    return order
