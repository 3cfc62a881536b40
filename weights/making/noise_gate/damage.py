"""A text → the same with lexical noise of one kind, where the noise is, and how much of its score it takes.

The kinds are those of PR-MCS (Kim et al. 2023, §3.2 and Algorithm 1), from a single word to all of them. What
a perturbation leaves well-formed is no damage, and None comes back: a phrase without its article, words of
one stretch, one noun.
"""

from __future__ import annotations

import random
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
    """A damaged text.

    Attributes:
        text: The text.
        touched: Places where noise is, or where a word is missing.
        taken: Share of the score that the noise should take, from 0 to 1.
    """

    text: str
    touched: tuple[Span, ...]
    taken: float


def damaged(text: Styled, kind: str, chance: random.Random) -> Damaged | None:
    """Damage a text by a random degree.

    Args:
        text: A well-formed text.
        kind: One of `capscore.perturbations.published.KINDS`.
        chance: Random generator.

    Returns:
        The damaged text, or None where this kind cannot damage it.
    """
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


def _rewritten(text: Styled, drawn: list[bool], kind: str) -> Damaged | None:
    between = "" if text.language in ("ja", "zh") else " "
    parts: list[str] = []
    touched: list[Span] = []
    last = length = 0
    for (start, end), is_drawn in zip(text.words, drawn, strict=True):
        parts.append(text.text[last:start])
        length += start - last
        word = text.text[start:end]
        if is_drawn:
            word = MASK if kind == "masking" else f"{word}{between}{word}"
            touched.append((length, length + len(word)))
        parts.append(word)
        length += len(word)
        last = end
    parts.append(text.text[last:])
    share = sum(drawn) / len(drawn)
    return Damaged("".join(parts), tuple(touched), taken_of(kind, share))


def _removed(text: Styled, kept: list[bool], chance: random.Random) -> Damaged | None:
    n = len(kept)
    if not any(kept):
        kept[chance.randrange(n)] = True
    gone = [number for number, is_kept in enumerate(kept) if not is_kept]
    places = [number for number, is_kept in enumerate(kept) if is_kept]
    inner = [number for number in gone if places[0] < number < places[-1]]
    # without its articles a phrase is right, and one stretch of a text is a fragment
    if not [number for number in inner if number not in text.openers]:
        return None
    parts: list[str] = []
    touched: list[Span] = []
    length = 0
    before = None
    for number in places:
        start, end = text.words[number]
        if before is not None:
            gap = text.text[text.words[before][1] : text.words[before + 1][0]]
            parts.append(gap)
            length += len(gap)
            if number > before + 1:
                place = length
                touched.append((max(place - len(gap) - 1, 0), place + end - start))
        parts.append(text.text[start:end])
        length += end - start
        before = number
    share = sum(number not in text.openers for number in gone) / max(n - len(text.openers), 1)
    return Damaged("".join(parts), tuple(touched), taken_of("removal", share))


def _jumbled(text: Styled, p: float, chance: random.Random) -> Damaged | None:
    n = len(text.words)
    if n < 2:
        return None
    pieces = [text.text[start:end] for start, end in text.words]
    if p == P:
        spots = list(range(n))
    else:
        spots = [number for number in range(n) if chance.random() < p]
        while len(spots) < 2:
            spots = sorted({*spots, chance.randrange(n)})
    order = list(range(n))
    moved = chance.sample(spots, len(spots))
    for spot, other in zip(spots, moved, strict=True):
        order[spot] = other
    new = [pieces[number] for number in order]
    if new == pieces:
        return None
    parts: list[str] = []
    touched: list[Span] = []
    length = last = 0
    displaced = parted = 0
    for place, (start, end) in enumerate(text.words):
        gap = text.text[last:start]
        parts.append(gap)
        length += len(gap)
        word = new[place]
        is_parted = place > 0 and order[place] != order[place - 1] + 1
        displaced += pieces[place] != word
        parted += is_parted
        if is_parted or (place == 0 and order[0] != 0):
            touched.append((length, length + len(word)))
        parts.append(word)
        length += len(word)
        last = end
    parts.append(text.text[last:])
    # a text whose two halves changed places has moved every word, and yet reads well
    share = (displaced / n + min(parted / max(n - 1, 1), 1.0)) / 2
    return Damaged("".join(parts), tuple(touched), taken_of("jumble", share))


def _substituted(text: Styled, p: float, chance: random.Random) -> Damaged | None:
    places = text.objects
    names = [text.text[start:end] for start, end in places]
    folded = [name.lower() for name in names]
    if len(set(folded)) < 2:
        return None
    n = len(places)
    spots = list(range(n))
    if p != P and n > 2:
        spots = sorted(chance.sample(spots, max(2, min(n, round(p * n)))))
    for _ in range(8):
        moved = chance.sample(spots, len(spots))
        order = list(range(n))
        for spot, other in zip(spots, moved, strict=True):
            order[spot] = other
        changed = [spot for spot in range(n) if folded[order[spot]] != folded[spot]]
        if changed:
            break
    else:
        return None
    parts: list[str] = []
    touched: list[Span] = []
    length = last = 0
    for spot, (start, end) in enumerate(places):
        parts.append(text.text[last:start])
        length += start - last
        name = names[order[spot]]
        if spot in changed:
            touched.append((length, length + len(name)))
        parts.append(name)
        length += len(name)
        last = end
    parts.append(text.text[last:])
    return Damaged("".join(parts), tuple(touched), taken_of("substitution", len(changed) / n))
