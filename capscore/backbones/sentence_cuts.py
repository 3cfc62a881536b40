"""Token ids of a long text → the ids of its sentences, which a gate judges one by one.

In: pieces of a SentencePiece model. Noise moves full stops, too, so that in a text of up to `SHORT` pieces a
sentence ends only where a capital follows.
"""

from __future__ import annotations

from collections.abc import Sequence

SHORT = 40
# Most pieces of a part; a longer sentence, or a text without full stops, is cut where a word begins.
LONGEST = 96
# Fewest pieces of a part, so that what stands behind an abbreviation is not a sentence of its own.
SHORTEST = 4
_BLANK = "\u2581"  # SentencePiece's sign for the blank before a word
_ENDS = frozenset(".!?…؟。！？．｡")
_CLOSED = frozenset("\"'”’»)]」』）")
# Signs after which a sentence ends even if no blank follows.
_FULL_WIDTH = frozenset("。！？．｡")


def sentence_cuts(pieces: Sequence[str]) -> list[int]:
    """Pieces of a text → the places where its parts end, the last of them len(pieces).

    >>> pieces = ["▁a", "▁dog", "▁runs", "."] * 12
    >>> sentence_cuts(pieces)[:3], sentence_cuts(pieces)[-1]
    ([4, 8, 12], 48)
    >>> sentence_cuts(pieces[:8])
    [8]
    >>> sentence_cuts(["▁A", "▁dog", "▁runs", ".", "▁It", "▁is", "▁brown", "."])
    [4, 8]
    """
    n = len(pieces)
    cuts, start = [], 0
    for place in range(n - SHORTEST):
        if n <= SHORT and not pieces[place + 1].lstrip(_BLANK)[:1].isupper():
            continue
        if place + 1 - start >= SHORTEST and _ends_sentence(pieces, place):
            cuts.append(place + 1)
            start = place + 1
    cuts.append(n)
    return _none_too_long(pieces, cuts)


def _ends_sentence(pieces: Sequence[str], place: int) -> bool:
    sign = pieces[place].lstrip(_BLANK)
    if not sign or not all(letter in _ENDS or letter in _CLOSED for letter in sign):
        return False
    last = place
    while not (set(pieces[last]) & _ENDS):  # a closing quote: the full stop stands before it
        last -= 1
        if last < place - 1 or last < 0:
            return False
    if set(pieces[last]) & _FULL_WIDTH:
        return not (set(pieces[place + 1].lstrip(_BLANK)[:1]) & _CLOSED)
    if not pieces[place + 1].startswith(_BLANK):
        return False
    word = pieces[last - 1].lstrip(_BLANK) if last else ""
    # "St.", "Mr.", an initial: a short word with a capital
    abbreviated = pieces[last - 1].startswith(_BLANK) and len(word) <= 3 and word[:1].isupper()
    return "." not in pieces[last] or not abbreviated


def _none_too_long(pieces: Sequence[str], cuts: Sequence[int]) -> list[int]:
    out, start = [], 0
    for stop in cuts:
        parts = -(-(stop - start) // LONGEST)
        for number in range(1, parts):
            wanted = start + (stop - start) * number // parts
            nearest = min(
                (place for place in range(wanted - 8, wanted + 9) if pieces[place].startswith(_BLANK)),
                key=lambda place: abs(place - wanted),
                default=wanted,
            )
            out.append(nearest)
        out.append(stop)
        start = stop
    return out
