"""A photo and what the scorer says about its captions → a picture: marked regions, marked words, scores."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CapscoreError, CapscoreWarning, warn
from ..files.whole_file import whole_file
from .canvas import DPI, Canvas
from .explained import (
    MOST_MISSED,
    SIGNS,
    Box,
    ExplainedCaption,
    Segment,
    ShownRegion,
    bars_end,
    bars_note,
    notes,
    number,
    place_tags,
    score_bars,
    segments,
    shown_regions,
    stage,
    verdict,
)
from .fonts import Fonts, find_fonts
from .markup import text_direction

if TYPE_CHECKING:
    from PIL import Image

# Okabe and Ito's blue and orange are distinct with every kind of colour vision; lines and signs differ too.
# Their vermilion is too light for small words on white, so it is darkened.
_MENTIONED, _MISSED, _WRONG = "#0072B2", "#E69F00", "#B93D00"
_INK, _SOFT, _FAINT, _LINE, _TRACK = "#1b1d21", "#565c66", "#8a9099", "#dcdcd8", "#e4e3df"

# ---- lengths in points ----
_WIDTH, _MARGIN, _GAP = 780.0, 20.0, 24.0
_PHOTO_WIDTH, _PHOTO_HEIGHT, _PHOTO_HEIGHT_OF_SEVERAL = 390.0, 420.0, 290.0
_COLUMN = _WIDTH - 2 * _MARGIN - _PHOTO_WIDTH - _GAP
_COLUMN_LEFT = _MARGIN + _PHOTO_WIDTH + _GAP
_CAPTION, _BODY, _NOTE, _SMALL = 15.0, 9.5, 8.0, 7.5
_SIGN_ROOM = 13.0
_LINE_HEIGHT = 33.0  # of a caption: room for words, their marks and their scores
_MOST_LETTERS = 500  # per line; a very long word is measured in parts of this length


class FontWarning(CapscoreWarning):
    """Characters could not be drawn correctly, because no font has them or libraqm is missing."""


def write_png(
    path: str | Path,
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    *,
    title: str = "",
    signature: str = "",
    beta: float | None = None,
    most_missed: int = MOST_MISSED,
) -> Path:
    """Draw captions of a photo into a file. The file gets its name once it is complete.

    Args:
        path: File that ends in .png; an existing one is replaced.
        image, captions, title, signature, beta, most_missed: As in `draw`.

    Raises:
        MissingExtraError: matplotlib is not installed.
        CapscoreError: another suffix, or no caption.
        ResultWriteError: the file cannot be written.
    """
    path = Path(path).expanduser()
    if path.suffix.lower() != ".png":
        raise CapscoreError(f"{path}: expected a name that ends in .png")
    picture = draw(image, captions, title=title, signature=signature, beta=beta, most_missed=most_missed)
    with whole_file(path, "picture", make_folders=True) as file:
        picture.save(file, "PNG", dpi=(DPI, DPI))
    return path


def draw(
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    *,
    title: str = "",
    signature: str = "",
    beta: float | None = None,
    most_missed: int = MOST_MISSED,
) -> Image.Image:
    """Draw captions of a photo below each other, each beside the photo with its regions.

    The layout follows Figure 3 of Hu et al. (2023). A character that no installed font has is drawn as "?";
    the picture says which, and so does a warning.

    Args:
        image: Photo that the regions' boxes refer to.
        captions: At least one caption.
        title: Heading, such as the photo's name.
        signature: Everything that the scores depend on; shown at the foot.
        beta: Threshold of words and regions, for the legend.
        most_missed: Maximum number of missed regions drawn.

    Returns:
        The picture, 1,625 pixels wide.

    Raises:
        MissingExtraError: matplotlib, whose fonts are used, is not installed.
        CapscoreError: no caption.

    >>> told = {"words": [], "regions": [], "null": 1.0, "image_size": [9, 9], "n_words_cut": 0}
    >>> scores = {"precision": 1.0, "recall": 2.0, "overall": 3.0}
    >>> picture = draw(image, [ExplainedCaption("a cat", "en", told, scores)])     # doctest: +SKIP
    >>> picture.size                                                             # doctest: +SKIP
    (1625, 1027)
    """
    if not captions:
        raise CapscoreError("there is no caption to draw")
    labels = [(region["label"], "") for caption in captions for region in caption.explanation["regions"]]
    fonts = find_fonts([*((caption.text, caption.language) for caption in captions), *labels, (title, "")])
    page = _Page(Canvas(fonts, _WIDTH))
    end = bars_end(captions)
    photo_height = _PHOTO_HEIGHT if len(captions) == 1 else _PHOTO_HEIGHT_OF_SEVERAL
    page.heading(title)
    for caption in captions:
        page.caption(image, caption, photo_height, end, most_missed)
    page.legend(beta, end, signature, _font_problems(fonts))
    return page.canvas.image(page.bottom)


def _font_problems(fonts: Fonts) -> list[str]:
    """What cannot be drawn correctly, as sentences; each is also a warning."""
    problems = []
    if fonts.missing:
        codes = [f"U+{ord(letter):04X}" for letter in sorted(fonts.missing)]
        listed = ", ".join(codes[:8]) + (f" and {len(codes) - 8} more" if len(codes) > 8 else "")
        problems.append(
            f"No font on this machine has {len(codes)} of the characters; they are drawn as “?”: {listed}. "
            "A font such as Noto Sans (CJK) has them; the HTML page needs none"
        )
    if fonts.unshaped:
        problems.append(
            "Letters that join or run from right to left may be in the wrong order here, because this Pillow "
            "was built without libraqm; the HTML page shows them correctly"
        )
    for problem in problems:
        warn(FontWarning(problem))
    return problems


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


def _plain_lines(canvas: Canvas, text: str, size: float, width: float) -> list[str]:
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


# ---- the page ----


class _Page:
    """Draws the parts on a canvas, from the top down."""

    def __init__(self, canvas: Canvas):
        self.canvas = canvas
        self.bottom = _MARGIN

    def heading(self, title: str) -> None:
        if not title:
            return
        for line in _plain_lines(self.canvas, title, 12.0, 0.9 * (_WIDTH - 2 * _MARGIN)):
            self.canvas.text(_MARGIN, self.bottom + 10, line, 12.0, _INK, bold=True)
            self.bottom += 17
        self.bottom += 7

    def caption(
        self,
        image: Image.Image,
        caption: ExplainedCaption,
        photo_height: float,
        end: float,
        most_missed: int,
    ) -> None:
        top = self.bottom
        regions = shown_regions(caption.explanation, most_missed)
        below_photo = self._photo(image, top, photo_height, regions)
        y = self._words(caption, top)
        self.canvas.text(_COLUMN_LEFT, y + 9, verdict(caption), _BODY, _INK)
        y = self._bars(caption, y + 22, end) + 6
        y = self._list(regions, y) + 4
        for note in notes(caption, most_missed):
            y = self._paragraph(note, _COLUMN_LEFT, y, _COLUMN)
        bottom = max(y, below_photo) + 12
        self.canvas.line(_MARGIN, _WIDTH - _MARGIN, bottom, _LINE, 0.8)
        self.bottom = bottom + 14

    def _paragraph(self, text: str, left: float, y: float, width: float, colour: str = _SOFT) -> float:
        """Draw a small text from its top; returns where it ends."""
        for line in _plain_lines(self.canvas, text, _NOTE, width):
            self.canvas.text(left, y + 8, line, _NOTE, colour)
            y += 11
        return y

    # ---- photo ----

    def _photo(self, image: Image.Image, top: float, height: float, regions: Sequence[ShownRegion]) -> float:
        """Draw the photo with its regions, at most `height` high; returns where it ends."""
        field = stage(image.size)
        scale = min(_PHOTO_WIDTH / field[2], height / field[3])
        x0 = _MARGIN + (_PHOTO_WIDTH - field[2] * scale) / 2
        place = (x0, top, field[2] * scale, field[3] * scale)
        left, upper = x0 - field[0] * scale, top - field[1] * scale
        right, lower = left + image.width * scale, upper + image.height * scale
        self.canvas.fill((x0, top, x0 + place[2], top + place[3]), "#efeeea")
        self.canvas.photo(image, (left, upper, right, lower))
        boxes: list[Box] = []
        for region in regions:  # moved inwards, so that lines are fully visible at the photo's edges
            x = [min(max(left + edge * scale, left + 1.5), right - 1.5) for edge in region.box[::2]]
            y = [min(max(upper + edge * scale, upper + 1.5), lower - 1.5) for edge in region.box[1::2]]
            boxes.append((x[0], y[0], x[1], y[1]))
        for region, box in zip(regions, boxes, strict=True):
            outer, inner = ("white", _MENTIONED) if region.mentioned else ("black", _MISSED)
            dashes = None if region.mentioned else (9.0, 5.0)
            self.canvas.frame(box, outer, 3.8, dashes)
            self.canvas.frame(box, inner, 2.4, dashes)
        tags = [self.canvas.fonts.drawable(region.tag) for region in regions]
        sizes = [(self.canvas.width(tag, 8.5, bold=True) + 6, 12.5) for tag in tags]
        for region, tag, at in zip(regions, tags, place_tags(boxes, sizes, place), strict=True):
            fill, ink = (_MENTIONED, "white") if region.mentioned else (_MISSED, "black")
            self.canvas.fill(at, fill, ink)
            self.canvas.text(at[0] + 3, at[3] - 3.3, tag, 8.5, ink, bold=True)
        return place[1] + place[3]

    # ---- words ----

    def _words(self, caption: ExplainedCaption, y: float) -> float:
        backwards = _begins_right(caption)
        for line in _break(self.canvas, segments(caption), _CAPTION, _COLUMN, caption.language):
            texts = [atom.text for atom in line]
            x = _COLUMN_LEFT + (_COLUMN - sum(atom.width for atom in line) if backwards else 0)
            sides = _sides(texts, backwards)
            for place in visual_order(texts, backwards):
                self._word(line[place], x, y + 16, caption.language, sides[place])
                x += line[place].width
            y += _LINE_HEIGHT
        return y + 2

    def _word(self, atom: _Atom, x: float, base: float, language: str, backwards: bool) -> None:
        wide = self.canvas.width(atom.text, _CAPTION, language)
        sign = SIGNS[atom.kind] if atom.note else ""
        room = _SIGN_ROOM if sign else 0.0
        x += max(atom.width - wide - room, 0) / 2
        left = x if backwards else x + room
        colour = {"wrong": _WRONG, "unseen": _FAINT}.get(atom.kind, _INK)
        self.canvas.text(
            left,
            base,
            atom.text,
            _CAPTION,
            colour,
            language=language,
            direction="rtl" if backwards else "ltr",
        )
        if sign:
            self.canvas.text(x + (wide + 2.5 if backwards else 1.5), base - 1, sign, 11.0, _WRONG, bold=True)
        self._underline(atom.kind, left, left + wide, base + 5.0)
        if atom.note:
            middle = left + (wide - self.canvas.width(atom.note, _SMALL)) / 2
            self.canvas.text(middle, base + 15.5, atom.note, _SMALL, _WRONG if sign else _SOFT)

    def _underline(self, kind: str, left: float, right: float, y: float) -> None:
        if kind == "right":
            self.canvas.line(left, right, y, _MENTIONED, 1.3)
        elif kind == "unseen":
            self.canvas.line(left, right, y, _FAINT, 1.3, (1.3, 1.9))
        elif kind == "wrong":
            self.canvas.wave(left, right, y, _WRONG)

    # ---- scores and lists ----

    def _bars(self, caption: ExplainedCaption, y: float, end: float) -> float:
        left, wide = _COLUMN_LEFT + 84, _COLUMN - 84 - 62
        for bar in score_bars(caption, end):
            bold = bar.label == "Overall"
            self.canvas.text(_COLUMN_LEFT, y + 9, bar.label, _BODY, _INK, bold=bold)
            self.canvas.line(left, left + wide, y + 5.5, _TRACK, 8)
            if bar.share:
                self.canvas.line(left, left + wide * bar.share, y + 5.5, _INK, 8)
            self.canvas.text(left + wide + 8, y + 9, bar.value, _BODY, _INK, bold=bold)
            y += 16
        return y

    def _list(self, regions: Sequence[ShownRegion], y: float) -> float:
        for heading, colour, dashes in (("Mentioned", _MENTIONED, None), ("Missed", _MISSED, (4.8, 2.9))):
            part = [region for region in regions if region.mentioned is (dashes is None)]
            if not part:
                continue
            self.canvas.line(_COLUMN_LEFT, _COLUMN_LEFT + 20, y + 6, colour, 2.4, dashes)
            listed = ",   ".join(
                f"{region.sign} {region.number} {region.label} ({number(region.score)})".replace("  ", " ")
                for region in part
            )
            for line in _plain_lines(self.canvas, f"{heading}:  {listed}", _BODY, _COLUMN - 28):
                self.canvas.text(_COLUMN_LEFT + 28, y + 9, line, _BODY, _INK)
                y += 13.5
            y += 1.5
        return y

    def legend(self, beta: float | None, end: float, signature: str, problems: Sequence[str]) -> None:
        above = "" if beta is None else f", score above {beta:g}"
        below = "" if beta is None else f", score {beta:g} or below"
        x, y = _MARGIN, self.bottom - 2
        for kind, sample in (
            ("right", f"right content word{above}"),
            ("wrong", f"wrong content word{below}"),
            ("unseen", "word that was cut off"),
        ):
            if SIGNS[kind]:
                self.canvas.text(x, y + 9, SIGNS[kind], 8.5, _WRONG, bold=True)
                x += 9
            self._underline(kind, x, x + 22, y + 7)
            self.canvas.text(x + 27, y + 9, sample, _NOTE, _SOFT)
            x += 27 + self.canvas.width(sample, _NOTE) + 20
        y += 16
        for problem in problems:
            y = self._paragraph(problem, _MARGIN, y, _WIDTH - 2 * _MARGIN, _WRONG)
        y = self._paragraph(f"{bars_note(end)}.", _MARGIN, y, _WIDTH - 2 * _MARGIN)
        if signature:
            y += 2
            for line in _plain_lines(self.canvas, signature.replace("|", "| "), 6.5, _WIDTH - 2 * _MARGIN):
                self.canvas.text(_MARGIN, y + 7, line.replace("| ", "|"), 6.5, _SOFT)
                y += 9
        self.bottom = y + _MARGIN
