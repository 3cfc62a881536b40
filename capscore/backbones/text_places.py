"""Places in a normalised text → places in the original text.

In: a text, the form that a tokenizer gave it before splitting (lower case, NFKC, blanks collapsed, entities
resolved, …), and spans in that form. Out: spans in characters of the original text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

BLANK = "▁"  # a blank in SentencePiece
# Characters searched after a difference for a place where both texts continue alike, and how many must agree.
_REACH, _ALIKE = 40, 4
# Quotation marks are compared as straight ones, since open_clip's cleaning makes them straight.
_STRAIGHT = {sign: "'" for sign in "\u02bc\u2018\u2019\u201a\u201b"} | {
    sign: '"' for sign in "\u201c\u201d\u201e\u201f"
}


def original_spans(original: str, changed: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in `changed` → the corresponding spans in `original`.

    Characters are compared in compatibility decomposition (NFKD) and without case, several blanks as one,
    quotation marks as straight ones. Where the texts still differ, both are searched for the nearest place
    from which they continue alike; the characters in between are matched in proportion. Letters and digits
    that were removed belong to the character before them (the "amp;" of an entity); removed blanks and
    punctuation belong to none.

    Args:
        original: Original text.
        changed: Its changed form, in the same order.
        spans: n pairs of start and end in `changed`; a span whose start is its end is empty.

    Returns:
        n pairs in characters of `original`, from 0.

    >>> original_spans("  The  ﬁne Café", "the fine café", [(0, 3), (4, 6), (9, 13)])
    [(2, 5), (7, 8), (11, 15)]
    """
    if original == changed:
        return [(start, end) for start, end in spans]
    starts, ends = _places(original, changed)
    return [
        (starts[start], ends[end - 1])
        if start < end
        else (starts[start], starts[start])
        if start < len(starts)
        else (len(original), len(original))
        for start, end in spans
    ]


def in_originals(
    originals: Sequence[str], changed: Sequence[str], rows: Sequence[Sequence[tuple[int, int, int]]]
) -> list[list[tuple[int, int, int]]]:
    """Pieces (token id, start, end) of n changed texts → the same pieces in the originals, `settled`."""
    return [
        settled(
            original,
            [
                (token, *span)
                for (token, _, _), span in zip(
                    row, original_spans(original, text, [(start, end) for _, start, end in row]), strict=True
                )
            ],
        )
        for original, text, row in zip(originals, changed, rows, strict=True)
    ]


def spans_of_pieces(text: str, ids: Sequence[int], pieces: Sequence[str]) -> list[tuple[int, int, int]]:
    """Pieces of SentencePiece, which together are the normalised text → their places in the original text.

    Args:
        text: Original text.
        ids: n token ids.
        pieces: Text of each token; "▁" stands for a blank.

    >>> spans_of_pieces("Two ﬁne dogs", [4, 8, 2, 1], ["▁Two", "▁fine", "▁dog", "s"])
    [(4, 0, 3), (8, 4, 7), (2, 8, 11), (1, 11, 12)]
    """
    written = [piece.replace(BLANK, " ") for piece in pieces]
    if written and written[0].startswith(" "):  # SentencePiece puts a blank before every text
        written[0] = written[0][1:]
    spans, place = [], 0
    for piece in written:
        bare = len(piece) - len(piece.lstrip(" "))
        spans.append((place + bare, place + len(piece)))
        place += len(piece)
    found = original_spans(text, "".join(written), spans)
    return settled(text, [(token, *span) for token, span in zip(ids, found, strict=True)])


def settled(text: str, pieces: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Pieces of a text whose spans have no blanks at their ends and include all marks on their last
    character.

    A piece of blanks only, or of nothing, gets an empty span before the following text. A combining mark or
    joiner that no other piece includes belongs to the piece before it. Spans are in order: neither starts nor
    ends ever decrease.

    Args:
        text: Text of the pieces.
        pieces: Token id, start and end of each piece, in order.

    >>> settled("a  e\u0301!", [(5, 0, 1), (6, 1, 4), (7, 5, 6)])
    [(5, 0, 1), (6, 3, 5), (7, 5, 6)]
    """
    spans: list[tuple[int, int]] = []
    first = last = 0
    for _, start, end in pieces:
        end = min(max(end, start), len(text))
        start = min(start, end)
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        while start == end < len(text) and text[end].isspace():
            start, end = start + 1, end + 1
        first, last = max(first, start if start < end else last), max(last, end)
        spans.append((first, last) if start < end else (last, last))
    following = len(text)  # start of the next piece that does not begin inside this one
    for row in range(len(spans) - 1, -1, -1):
        start, end = spans[row]
        if row + 1 < len(spans) and spans[row + 1][0] >= end:
            following = spans[row + 1][0]
        limit = following
        while start < end < limit and _belongs(text, start, end):
            end += 1
        spans[row] = (start, end)
    return [(piece, start, end) for (piece, _, _), (start, end) in zip(pieces, spans, strict=True)]


def _belongs(text: str, start: int, place: int) -> bool:
    """Whether the character at a place is part of the preceding one, in a piece that begins at `start`."""
    category = unicodedata.category(text[place])
    if category[0] == "M" or category == "Cf":
        return True
    if text[place] < "\u1100":
        return False
    composed = unicodedata.normalize("NFC", text[start:place])  # the letters of a Korean syllable
    return len(unicodedata.normalize("NFC", text[start : place + 1])) == len(composed)


def _places(original: str, changed: str) -> tuple[list[int], list[int]]:
    """Start and end in `original` of each character of `changed`."""
    here, here_from = _folded(original)
    there, there_from = _folded(changed)
    starts: list[int] = []
    ends: list[int] = []
    for (start, end), character in zip(_aligned(here, there), there_from, strict=True):
        begin = here_from[start] if start < len(here) else len(original)
        finish = here_from[end - 1] + 1 if start < end else begin
        if character == len(starts) - 1:  # a further character of a single one's decomposition
            ends[-1] = max(ends[-1], finish)
            continue
        _repeat_last(starts, ends, character)
        starts.append(begin)
        ends.append(finish)
    _repeat_last(starts, ends, len(changed))
    return starts, ends


def _repeat_last(starts: list[int], ends: list[int], length: int) -> None:
    """Add entries for blanks that follow a blank, which the comparison left out."""
    missing = length - len(starts)
    if missing:
        starts.extend([ends[-1]] * missing)
        ends.extend([ends[-1]] * missing)


def _folded(text: str) -> tuple[str, list[int]]:
    """The form of a text for comparison, and the place in the text of each character of that form."""
    signs: list[str] = []
    places: list[int] = []
    for place, sign in enumerate(text):
        if sign.isspace():
            folded = "" if signs and signs[-1] == " " else " "
        elif sign.isascii():
            folded = sign.lower()
        elif sign in _STRAIGHT:
            folded = _STRAIGHT[sign]
        else:
            folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", sign).casefold()) or sign
        if folded:
            signs.append(folded)
            places.extend([place] * len(folded))
    # All characters are decomposed; this only sorts the marks on one letter.
    return unicodedata.normalize("NFD", "".join(signs)), places


def _aligned(here: str, there: str) -> list[tuple[int, int]]:
    """A span of `here` for each character of `there`."""
    spans: list[tuple[int, int]] = []
    i = j = 0
    while j < len(there):
        if i < len(here) and here[i] == there[j]:
            spans.append((i, i + 1))
            i, j = i + 1, j + 1
            continue
        kept = _after_signs(here, i, there[j])
        if kept > i and _alike(here, there, kept, j):
            i = kept
        elif there[j] == " " and _alike(here, there, i, j + 1):  # an inserted blank
            spans.append((i, i))
            j += 1
        else:
            skip, fill = _next_alike(here, there, i, j)
            spans.extend(_in_proportion(i, skip, fill))
            i, j = i + skip, j + fill
            if spans and not fill and any(map(str.isalnum, here[i - skip : i])):
                # the removed part, up to where the texts continue alike
                i = _after_signs(here, i, there[j]) if j < len(there) else len(here)
                spans[-1] = (spans[-1][0], i)
    if spans and any(map(str.isalnum, here[i:])):
        spans[-1] = (spans[-1][0], len(here))
    return spans


def _after_signs(text: str, place: int, sought: str) -> int:
    """The first place, from `place` on, of a letter, a digit or the character sought."""
    while place < len(text) and text[place] != sought and not text[place].isalnum():
        place += 1
    return place


def _next_alike(here: str, there: str, i: int, j: int) -> tuple[int, int]:
    """Characters of each text to skip so that they continue alike; the rest of both if they never do."""
    for total in range(1, _REACH):
        for fill in range(min(total, len(there) - j) + 1):
            if _alike(here, there, i + total - fill, j + fill):
                return total - fill, fill
    return len(here) - i, len(there) - j


def _alike(here: str, there: str, i: int, j: int) -> bool:
    """Whether two texts continue alike, except for signs missing from and blanks inserted into the second."""
    alike = 0
    while alike < _ALIKE and i < len(here) and j < len(there):
        if here[i] == there[j]:
            alike, i, j = alike + 1, i + 1, j + 1
        elif not here[i].isalnum():
            i += 1
        elif there[j] == " ":
            j += 1
        else:
            return False
    return alike == _ALIKE or (j == len(there) and (alike > 0 or i == len(here)))


def _in_proportion(start: int, count: int, parts: int) -> list[tuple[int, int]]:
    """`count` characters from `start` on, divided among `parts` characters."""
    return [(start + part * count // parts, start - (-(part + 1) * count // parts)) for part in range(parts)]
