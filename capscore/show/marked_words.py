"""A caption whose words are marked as right, wrong or cut off → lines on a canvas."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from .canvas import Canvas
from .explained import SIGNS, ExplainedCaption, Segment, number, segments
from .markup import text_direction

# Okabe and Ito's blue is distinct with every kind of colour vision; lines and signs differ too. Their
# vermilion is too light for small words on white, so it is darkened.
RIGHT, WRONG = "#0072B2", "#B93D00"
INK, SOFT, FAINT = "#1b1d21", "#565c66", "#8a9099"
_SIZE, _SMALL = 15.0, 7.5  # of the words and of their scores, in points
_SIGN_ROOM = 13.0
_LINE_HEIGHT = 33.0  # of a caption: room for words, their marks and their scores
_MOST_LETTERS = 500  # per line; a very long word is measured in parts of this length


# ---- lines and their order ----


@dataclass(frozen=True)
class _Atom:
    """A part of a line that is drawn at once; its width includes the mark and the score."""

    text: str
    kind: str
    note: str
    width: float


def _break(
    canvas: Canvas, pieces: Sequence[Segment], size: float, width: float, language: str = ""
) -> list[list[_Atom]]:
    """Pieces of a text → lines, in reading order. A word that is longer than a line is broken."""
    lines: list[list[_Atom]] = [[]]
    free = width
    for group in _unbreakable(pieces):
        atoms = list(chain(*(_atoms(canvas, piece, size, width, language) for piece in group)))
        whole = sum(atom.width for atom in atoms) <= free
        for place, atom in enumerate(atoms):
            blank = not atom.text.strip()
            if lines[-1] and not blank and (atom.width > free or (place == 0 and not whole)):
                lines.append([])
                free = width
            if lines[-1] or not blank:  # no line begins with a blank
                lines[-1].append(atom)
                free -= atom.width
    return lines


def plain_lines(canvas: Canvas, text: str, size: float, width: float) -> list[str]:
    lines = _break(canvas, [Segment(text, "plain")], size, width)
    return ["".join(atom.text for atom in line).rstrip() for line in lines]


def _atoms(canvas: Canvas, piece: Segment, size: float, width: float, language: str) -> list[_Atom]:
    """One atom, or several where the piece is longer than a line; the first has the sign and the score."""
    text = canvas.fonts.drawable(piece.text)
    note = "" if piece.score is None else number(piece.score)
    room = _SIGN_ROOM if SIGNS[piece.kind] else 0.0
    atoms: list[_Atom] = []
    while text:
        fits = _fitting(canvas, text, size, width - room, language)
        wide = canvas.width(text[:fits], size, language) + (0 if atoms else room)
        own = "" if atoms else note
        if own:
            wide = max(wide, canvas.width(own, _SMALL) + 3)
        atoms.append(_Atom(text[:fits], piece.kind, own, wide))
        text = text[fits:]
    return atoms


def _fitting(canvas: Canvas, text: str, size: float, width: float, language: str) -> int:
    """The number of characters of a text that fit a line: at least one, and no accent without its letter."""
    longest = min(len(text), _MOST_LETTERS)
    if text.isspace() or canvas.width(text[:longest], size, language) <= width:
        return longest
    fits = bisect_right(range(longest), width, key=lambda end: canvas.width(text[:end], size, language)) - 1
    while fits > 1 and unicodedata.combining(text[fits]):
        fits -= 1
    return max(fits, 1)


def _unbreakable(pieces: Sequence[Segment]) -> list[list[Segment]]:
    """Pieces that stay on one line together: a word with its quotation marks and commas."""
    groups: list[list[Segment]] = []
    for piece in pieces:
        parts = _units(piece.text) if piece.kind == "plain" else [piece.text]
        for part in parts:
            chunk = Segment(part, piece.kind, piece.score)
            if groups and not _may_break(groups[-1][-1].text, part):
                groups[-1].append(chunk)
            else:
                groups.append([chunk])
    return groups


def _units(text: str) -> list[str]:
    """The blanks, words and signs of a text, each on its own; each wide character counts as a word.

    >>> _units("in (an 猫が) at")
    ['in', ' ', '(', 'an', ' ', '猫', 'が', ')', ' ', 'at']
    """
    units: list[str] = []
    for letter in text:
        sort = _sort_of(letter)
        joins = units and _sort_of(units[-1][-1]) == sort
        if joins and (sort == "blank" or not _may_break(units[-1], letter)):
            units[-1] += letter
        else:
            units.append(letter)
    return units


def _sort_of(letter: str) -> str:
    if letter.isspace():
        return "blank"
    return "sign" if unicodedata.category(letter)[0] in "PS" else "letter"


def _may_break(before: str, after: str) -> bool:
    last, first = before[-1], after[0]
    if last.isspace() or first.isspace():
        return True
    # a closing sign, an accent or a lengthening mark does not begin a line; an opening sign does not end one
    if unicodedata.category(first) in ("Pe", "Pf", "Po", "Mn", "Mc", "Lm"):
        return False
    if unicodedata.category(last) in ("Ps", "Pi"):
        return False
    return _breaks_anywhere(last) or _breaks_anywhere(first)


def _breaks_anywhere(letter: str) -> bool:
    """Whether it is Chinese or Japanese; Korean has spaces between words."""
    return unicodedata.east_asian_width(letter) in "WF" and not "\uac00" <= letter <= "\ud7a3"


def visual_order(texts: Sequence[str], right_to_left: bool) -> list[int]:
    """Texts of one line in reading order → their numbers from left to right.

    Texts that run against the line keep their own order; blanks and signs between two of them go with them.

    >>> visual_order(["قطة", " ", "on", " ", "top"], True)
    [2, 3, 4, 1, 0]
    """
    sides = _sides(texts, right_to_left)
    runs = [list(run) for _, run in groupby(range(len(texts)), key=sides.__getitem__)]
    order = [run[::-1] if sides[run[0]] else run for run in runs]
    return list(chain(*(order[::-1] if right_to_left else order)))


def _sides(texts: Sequence[str], base: bool) -> list[bool]:
    """Whether each text runs from right to left; `base` is the direction of the line."""
    own = [_runs_right_to_left(text) for text in texts]

    def nearest(places: Iterable[int]) -> dict[int, bool]:
        found, last = {}, base
        for place in places:
            side = own[place]
            found[place] = last = last if side is None else side
        return found

    before, after = nearest(range(len(own))), nearest(reversed(range(len(own))))
    return [before[place] if before[place] == after[place] else base for place in range(len(own))]


def _runs_right_to_left(text: str) -> bool | None:
    """False for text that runs from left to right, numbers included; None for neither."""
    for letter in text:
        kind = unicodedata.bidirectional(letter)
        if kind in ("L", "EN", "AN", "R", "AL"):
            return kind in ("R", "AL")
    return None


def _begins_right(caption: ExplainedCaption) -> bool:
    direction = text_direction(caption.language) if caption.language else "auto"
    return bool(_runs_right_to_left(caption.text)) if direction == "auto" else direction == "rtl"


# ---- words ----


def draw_words(canvas: Canvas, caption: ExplainedCaption, left: float, top: float, width: float) -> float:
    """Draw a caption with its marks and the scores of its words.

    Args:
        canvas: Canvas to draw on.
        caption: Caption with its explanation.
        left, top, width: Place of the column, in points.

    Returns:
        Where the words end, in points from the top of the canvas.
    """
    backwards = _begins_right(caption)
    for line in _break(canvas, segments(caption), _SIZE, width, caption.language):
        texts = [atom.text for atom in line]
        x = left + (width - sum(atom.width for atom in line) if backwards else 0)
        sides = _sides(texts, backwards)
        for place in visual_order(texts, backwards):
            _draw_word(canvas, line[place], x, top + 16, caption.language, sides[place])
            x += line[place].width
        top += _LINE_HEIGHT
    return top + 2


def _draw_word(canvas: Canvas, atom: _Atom, x: float, base: float, language: str, backwards: bool) -> None:
    wide = canvas.width(atom.text, _SIZE, language)
    sign = SIGNS[atom.kind] if atom.note else ""
    room = _SIGN_ROOM if sign else 0.0
    x += max(atom.width - wide - room, 0) / 2
    left = x if backwards else x + room
    colour = {"wrong": WRONG, "unseen": FAINT}.get(atom.kind, INK)
    direction = "rtl" if backwards else "ltr"
    canvas.text(left, base, atom.text, _SIZE, colour, language=language, direction=direction)
    if sign:
        canvas.text(x + (wide + 2.5 if backwards else 1.5), base - 1, sign, 11.0, WRONG, bold=True)
    underline(canvas, atom.kind, left, left + wide, base + 5.0)
    if atom.note:
        middle = left + (wide - canvas.width(atom.note, _SMALL)) / 2
        canvas.text(middle, base + 15.5, atom.note, _SMALL, WRONG if sign else SOFT)


def underline(canvas: Canvas, kind: str, left: float, right: float, y: float) -> None:
    """Draw the line below a word: solid for right, wavy for wrong, dashed for unsure, dotted for unseen."""
    if kind == "right":
        canvas.line(left, right, y, RIGHT, 1.3)
    elif kind == "unseen":
        canvas.line(left, right, y, FAINT, 1.3, (1.3, 1.9))
    elif kind == "unsure":
        canvas.line(left, right, y, SOFT, 1.3, (3.4, 1.9))
    elif kind == "wrong":
        canvas.wave(left, right, y, WRONG)
