"""A photo and what the scorer says of its captions → a picture: marked regions, marked words, scores."""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CapscoreError, warn
from ..files.whole_file import whole_file
from .benchmark_figure import figure_class
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
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL import Image

DPI = 150
# Okabe and Ito's blue and orange, told apart by everybody; lines and signs differ too. Words are small and
# stand on white, where their vermilion is too light to read: it is darkened.
_MENTIONED, _MISSED, _WRONG = "#0072B2", "#E69F00", "#B93D00"
_INK, _SOFT, _LINE, _TRACK = "#1b1d21", "#565c66", "#dcdcd8", "#e4e3df"

# ---- lengths in points ----
_WIDTH, _MARGIN, _GAP = 780.0, 20.0, 24.0
_PHOTO_WIDTH, _PHOTO_HEIGHT, _PHOTO_HEIGHT_OF_SEVERAL = 390.0, 420.0, 290.0
_COLUMN = _WIDTH - 2 * _MARGIN - _PHOTO_WIDTH - _GAP
_CAPTION, _BODY, _SMALL = 15.0, 9.5, 7.5
_SIGN_ROOM = 13.0
_LINE_HEIGHT = 33.0  # of captions: a word, its mark, its score


class FontWarning(UserWarning):
    """Characters could not be drawn as they are, for want of a font that has them."""


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
    """Draw captions of a photo; the file gets its name once it is whole.

    Args:
        path: a .png; what is there already is replaced.
        others: as of `draw`.

    Raises:
        MissingExtraError: matplotlib is not installed.
        CapscoreError: another suffix, or no caption.
        ResultWriteError: the file cannot be written.
    """
    path = Path(path).expanduser()
    if path.suffix.lower() != ".png":
        raise CapscoreError(f"{path}: expected a name that ends in .png")
    figure = draw(image, captions, title=title, signature=signature, beta=beta, most_missed=most_missed)
    with whole_file(path, "picture", make_folders=True) as file:
        figure.savefig(file, format="png", dpi=DPI, facecolor="white")
    return path


def draw(
    image: Image.Image,
    captions: Sequence[ExplainedCaption],
    *,
    title: str = "",
    signature: str = "",
    beta: float | None = None,
    most_missed: int = MOST_MISSED,
) -> Figure:
    """Draw captions of a photo below each other, each beside the photo with its regions (001, Figure 3).

    A character that no installed font has is drawn as "?", the picture says which, and so does a warning.

    Args:
        image: the photo that the boxes belong to.
        captions: at least one.
        title: above all, such as the photo's name.
        signature: everything that the scores depend on; at the foot.
        beta: the threshold of words and regions, for the legend.
        most_missed: how many missed regions are drawn at most.

    Raises:
        MissingExtraError: matplotlib is not installed.
        CapscoreError: no caption.

    >>> told = {"words": [], "regions": [], "null": 1.0, "image_size": [9, 9], "n_words_cut": 0}
    >>> scores = {"precision": 1.0, "recall": 2.0, "overall": 3.0}
    >>> figure = draw(image, [ExplainedCaption("a cat", "en", told, scores)])     # doctest: +SKIP
    >>> figure.savefig("cat.png")                                               # doctest: +SKIP
    """
    new_figure = figure_class()
    if not captions:
        raise CapscoreError("there is no caption to draw")
    labels = [(region["label"], "") for caption in captions for region in caption.explanation["regions"]]
    fonts = find_fonts([*((caption.text, caption.language) for caption in captions), *labels, (title, "")])
    page = _Page(fonts)
    end = bars_end(captions)
    photo_height = _PHOTO_HEIGHT if len(captions) == 1 else _PHOTO_HEIGHT_OF_SEVERAL
    page.heading(title)
    for caption in captions:
        page.caption(image, caption, photo_height, end, most_missed)
    page.legend(beta, end, signature, _font_problems(fonts))
    return page.figure(new_figure)


def _font_problems(fonts: Fonts) -> list[str]:
    """What could not be drawn as it is; warned about as well."""
    problems = []
    if fonts.missing:
        codes = [f"U+{ord(letter):04X}" for letter in sorted(fonts.missing)]
        listed = ", ".join(codes[:8]) + (f" and {len(codes) - 8} more" if len(codes) > 8 else "")
        problems.append(
            f"No font on this machine has {len(codes)} of the characters, drawn as “?”: {listed}. "
            "A font such as Noto Sans (CJK) has them; the HTML page needs none"
        )
    if fonts.unshaped:
        problems.append(
            "Letters that join or run from right to left may stand in the wrong order here: matplotlib 3.11 "
            "draws them right, and so does the HTML page"
        )
    for problem in problems:
        warn(FontWarning(problem))
    return problems


# ---- measuring and breaking text ----


@dataclass(frozen=True)
class _Atom:
    """A part of a line that is drawn in one go; its width is what it takes up, mark and score included."""

    text: str
    kind: str
    note: str
    width: float


class _Type:
    """Measures texts as they will be drawn."""

    def __init__(self, fonts: Fonts):
        from matplotlib.backends.backend_agg import RendererAgg

        self.fonts = fonts
        self._renderer = RendererAgg(8, 8, DPI)
        self.width = functools.lru_cache(maxsize=None)(self._width)

    def properties(self, text: str, size: float, language: str = "", weight: str = "normal") -> Any:
        from matplotlib.font_manager import FontProperties

        families = self.fonts.for_language(language)
        if weight == "bold":  # only the font that comes with matplotlib is sure to have a bold one
            weight, families = (
                ("normal", families) if self.fonts.found & set(text) else (weight, families[:1])
            )
        return FontProperties(family=families, size=size, weight=weight)

    def _width(self, text: str, size: float, language: str = "", weight: str = "normal") -> float:
        if not text.strip():
            return 0.3 * size * len(text)
        properties = self.properties(text, size, language, weight)
        return self._renderer.get_text_width_height_descent(text, properties, False)[0] * 72 / DPI

    def lines(self, text: str, size: float, width: float, language: str = "") -> list[str]:
        """A plain text in lines, broken at blanks, and within words that are longer than a line."""
        lines = [""]
        for word in re.findall(r"\S+\s*|\s+", text):
            if lines[-1] and self.width((lines[-1] + word).rstrip(), size, language) > width:
                lines.append("")
            lines[-1] += word
            while self.width(lines[-1].rstrip(), size, language) > width and len(lines[-1].rstrip()) > 1:
                fits = self._fitting(lines[-1], size, width, language)
                lines[-1:] = [lines[-1][:fits], lines[-1][fits:]]
        return [line.rstrip() for line in lines]

    def _fitting(self, text: str, size: float, width: float, language: str) -> int:
        low, high = 1, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (
                (middle, high) if self.width(text[:middle], size, language) <= width else (low, middle - 1)
            )
        while low > 1 and low < len(text) and unicodedata.combining(text[low]):
            low -= 1
        return low

    def caption_lines(self, caption: ExplainedCaption, width: float) -> list[list[_Atom]]:
        """A caption in lines of atoms, in the order in which they are read."""
        lines: list[list[_Atom]] = [[]]
        free = width
        for group in _groups(segments(caption)):
            atoms = [atom for piece in group for atom in self._atoms(piece, caption.language, width)]
            needed = sum(atom.width for atom in atoms)
            if lines[-1] and needed > free and group[0].text.strip():
                lines.append([])
                free = width
            for atom in atoms:
                if atom.width > free and lines[-1] and atom.text.strip():
                    lines.append([])
                    free = width
                if lines[-1] or atom.text.strip():  # no blank begins a line
                    lines[-1].append(atom)
                    free -= atom.width
        return lines

    def _atoms(self, piece: Segment, language: str, width: float) -> list[_Atom]:
        text = self.fonts.drawable(piece.text)
        note = "" if piece.score is None else number(piece.score)
        sign = _SIGN_ROOM if SIGNS[piece.kind] else 0.0
        parts = self.lines(text, _CAPTION, width - sign, language) if text.strip() else [text]
        atoms = []
        for place, part in enumerate(parts):
            own = note if place == 0 else ""
            taken = self.width(part, _CAPTION, language) + (sign if place == 0 else 0)
            if own:
                taken = max(taken, self.width(own, _SMALL) + 3)
            atoms.append(_Atom(part, piece.kind, own, taken))
        return atoms


def _groups(pieces: Sequence[Segment]) -> list[list[Segment]]:
    """Pieces that stay on one line together: a word with its quotation marks and commas."""
    chunks: list[Segment] = []
    for piece in pieces:
        parts = _split(piece.text) if piece.kind == "plain" else ()
        chunks += [Segment(part, "plain") for part in parts] or [piece]
    groups: list[list[Segment]] = []
    for chunk in chunks:
        if groups and not _may_break(groups[-1][-1].text, chunk.text):
            groups[-1].append(chunk)
        else:
            groups.append([chunk])
    return groups


def _split(text: str) -> list[str]:
    """Blanks, words and the signs around them, each on its own; of wide characters each.

    >>> _split("in (an 猫が) at")
    ['in', ' ', '(', 'an', ' ', '猫', 'が', ')', ' ', 'at']
    """
    parts: list[str] = []
    for letter in text:
        if parts and _sort_of(parts[-1][-1]) == _sort_of(letter) and not _may_break(parts[-1], letter):
            parts[-1] += letter
        elif parts and letter.isspace() and parts[-1].isspace():
            parts[-1] += letter
        else:
            parts.append(letter)
    return parts


def _sort_of(letter: str) -> str:
    if letter.isspace():
        return "blank"
    return "sign" if unicodedata.category(letter)[0] in "PS" else "letter"


def _may_break(before: str, after: str) -> bool:
    last, first = before[-1], after[0]
    if last.isspace() or first.isspace():
        return True
    # no closing sign, accent or lengthening begins a line, and no opening sign ends one
    if unicodedata.category(first) in ("Pe", "Pf", "Po", "Mn", "Mc", "Lm"):
        return False
    if unicodedata.category(last) in ("Ps", "Pi"):
        return False
    return _breaks_anywhere(last) or _breaks_anywhere(first)


def _breaks_anywhere(letter: str) -> bool:
    """Chinese and Japanese characters; not Korean ones, which are written with blanks between words."""
    return unicodedata.east_asian_width(letter) in "WF" and not "\uac00" <= letter <= "\ud7a3"


_MIRRORED = str.maketrans("()[]{}<>«»", ")(][}{><»«")


def visual_order(texts: Sequence[str], right_to_left: bool) -> list[int]:
    """Texts of one line in reading order → their numbers from left to right.

    What is written from left to right keeps its order within a line that runs the other way, and the
    reverse; blanks and signs between two of a kind go with them.

    >>> visual_order(["قطة", " ", "on", " ", "top"], True)
    [2, 3, 4, 1, 0]
    """
    base = 1 if right_to_left else 0
    levels = _levels(texts, base)
    order = list(range(len(texts)))
    for level in range(max(levels, default=0), 0, -1):
        start = 0
        while start < len(order):
            end = start
            while end < len(order) and levels[order[end]] >= level:
                end += 1
            order[start:end] = order[start:end][::-1]
            start = max(end, start + 1)
    return order


def _levels(texts: Sequence[str], base: int) -> list[int]:
    """Even where a text runs from left to right, odd where it does not; as far as lines nest."""
    sides = [_side(text) for text in texts]
    levels = []
    for place, side in enumerate(sides):
        if side is None:
            before = next((s for s in sides[:place][::-1] if s is not None), base)
            after = next((s for s in sides[place + 1 :] if s is not None), base)
            side = before if before == after else base
        levels.append(side if side >= base else 2)
    return levels


def _side(text: str) -> int | None:
    """0 for what is written from left to right, numbers included, 1 for the other way; None for neither."""
    for letter in text:
        kind = unicodedata.bidirectional(letter)
        if kind in ("L", "EN", "AN"):
            return 0
        if kind in ("R", "AL"):
            return 1
    return None


def _runs_right_to_left(caption: ExplainedCaption) -> bool:
    direction = text_direction(caption.language) if caption.language else "auto"
    if direction == "auto":
        return next((side for letter in caption.text if (side := _side(letter)) is not None), 0) == 1
    return direction == "rtl"


# ---- the page ----


class _Page:
    """What is drawn, from the top down; lengths are in points, y from the top."""

    def __init__(self, fonts: Fonts):
        self.type = _Type(fonts)
        self.bottom = _MARGIN
        self._drawn: list[Any] = []  # functions of the axes

    def figure(self, new_figure: type[Figure]) -> Figure:
        """All of it."""
        height = self.bottom + _MARGIN
        figure = new_figure(figsize=(_WIDTH / 72, height / 72), dpi=DPI, facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1))
        for part in self._drawn:
            part(axes)
        axes.set(xlim=(0, _WIDTH), ylim=(height, 0), autoscale_on=False, aspect="auto")
        axes.set_axis_off()
        return figure

    def heading(self, title: str) -> None:
        if title:
            for line in self.type.lines(self.type.fonts.drawable(title), 12.0, 0.9 * (_WIDTH - 2 * _MARGIN)):
                self._text(_MARGIN, self.bottom + 10, line, 12.0, weight="bold")
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
        left, y = _MARGIN + _PHOTO_WIDTH + _GAP, top
        y = self._words(caption, left, y)
        self._text(left, y + 9, verdict(caption), _BODY)
        y += 22
        y = self._bars(caption, left, y, end) + 6
        y = self._list(regions, left, y) + 4
        for note in notes(caption, most_missed):
            for line in self.type.lines(note, 8.0, _COLUMN):
                self._text(left, y + 8, line, 8.0, colour=_SOFT)
                y += 11
        self.bottom = max(y, below_photo) + 12
        self._line([_MARGIN, _WIDTH - _MARGIN], [self.bottom] * 2, _LINE, 0.8)
        self.bottom += 14

    # ---- photo ----

    def _photo(self, image: Image.Image, top: float, height: float, regions: Sequence[ShownRegion]) -> float:
        """Draw the photo with its regions, at most so high; where it ends."""
        field = stage(image.size)
        scale = min(_PHOTO_WIDTH / field[2], height / field[3])
        x0 = _MARGIN + (_PHOTO_WIDTH - field[2] * scale) / 2
        place = (x0, top, field[2] * scale, field[3] * scale)
        left, upper = x0 - field[0] * scale, top - field[1] * scale
        right, lower = left + image.width * scale, upper + image.height * scale
        self._picture(image, (left, upper, right, lower), place)
        boxes = []
        for region in regions:  # lines at the photo's edge are whole
            x = [min(max(left + edge * scale, left + 1.5), right - 1.5) for edge in region.box[::2]]
            y = [min(max(upper + edge * scale, upper + 1.5), lower - 1.5) for edge in region.box[1::2]]
            boxes.append((x[0], y[0], x[1], y[1]))
        tags = [self.type.fonts.drawable(region.tag) for region in regions]
        sizes = [(self.type.width(tag, 8.5, "", "bold") + 6, 12.5) for tag in tags]
        for region, box in zip(regions, boxes, strict=True):
            self._box(box, region.mentioned)
        for region, tag, at in zip(regions, tags, place_tags(boxes, sizes, place), strict=True):
            self._tag(tag, at, region.mentioned)
        return place[1] + place[3]

    def _picture(self, image: Image.Image, box: Box, field: Box) -> None:
        from PIL import Image as PIL_Image

        left, top, right, bottom = box
        small = image.convert("RGB")
        most = math.ceil(max(right - left, bottom - top) / 72 * DPI)
        small.thumbnail((most, most), PIL_Image.Resampling.LANCZOS)

        def part(axes: Axes) -> None:
            if (right - left, bottom - top) != field[2:]:
                x, y, width, height = field
                axes.fill_between((x, x + width), y, y + height, color="#efeeea", linewidth=0, zorder=0)
            axes.imshow(small, extent=(left, right, bottom, top), aspect="auto", zorder=1)

        self._drawn.append(part)

    def _box(self, box: Box, mentioned: bool) -> None:
        left, top, right, bottom = box
        x, y = [left, right, right, left, left], [top, top, bottom, bottom, top]
        for colour, width in (
            [("white", 3.8), (_MENTIONED, 2.4)] if mentioned else [("black", 3.8), (_MISSED, 2.4)]
        ):
            # between dashes one sees what is beneath, a solid line too; lengths of dashes go by the width
            style = "-" if mentioned else (0, (9 / width, 5 / width))
            self._line(x, y, colour, width, style=style, zorder=2)

    def _tag(self, tag: str, place: Box, mentioned: bool) -> None:
        left, top, right, bottom = place
        fill, ink = (_MENTIONED, "white") if mentioned else (_MISSED, "black")

        def part(axes: Axes) -> None:
            from matplotlib.patches import Rectangle

            patch = Rectangle((left, top), right - left, bottom - top, zorder=3)
            patch.set(facecolor=fill, edgecolor="white" if mentioned else "black", linewidth=0.7)
            axes.add_patch(patch)

        self._drawn.append(part)
        self._text(left + 3, bottom - 3.3, tag, 8.5, colour=ink, weight="bold", zorder=4)

    # ---- words ----

    def _words(self, caption: ExplainedCaption, left: float, y: float) -> float:
        backwards = _runs_right_to_left(caption)
        for line in self.type.caption_lines(caption, _COLUMN):
            x = left + (_COLUMN - sum(atom.width for atom in line) if backwards else 0)
            levels = _levels([atom.text for atom in line], int(backwards))
            for place in visual_order([atom.text for atom in line], backwards):
                self._word(line[place], x, y + 16, caption.language, levels[place] % 2 == 1)
                x += line[place].width
            y += _LINE_HEIGHT
        return y + 2

    def _word(self, atom: _Atom, x: float, base: float, language: str, backwards: bool) -> None:
        if not atom.text.strip():
            return
        text = atom.text.translate(_MIRRORED) if backwards and _side(atom.text) is None else atom.text
        wide = self.type.width(atom.text, _CAPTION, language)
        sign = SIGNS[atom.kind] if atom.note else ""
        room = _SIGN_ROOM if sign else 0.0
        spare = max(atom.width - wide - room, 0) / 2
        colour = {"wrong": _WRONG, "unseen": "#8a9099"}.get(atom.kind, _INK)
        word_at = x + spare + (0 if backwards else room)
        self._text(word_at, base, text, _CAPTION, language=language, colour=colour)
        if sign:
            self._text(
                x + spare + (wide + 2.5 if backwards else 1.5),
                base - 1,
                sign,
                11.0,
                colour=_WRONG,
                weight="bold",
            )
        self._underline(atom.kind, word_at, word_at + wide, base + 5.0)
        if atom.note:
            note_at = word_at + (wide - self.type.width(atom.note, _SMALL)) / 2
            self._text(note_at, base + 15.5, atom.note, _SMALL, colour=_WRONG if sign else _SOFT)

    def _underline(self, kind: str, left: float, right: float, y: float) -> None:
        if kind == "right":
            self._line([left, right], [y, y], _MENTIONED, 1.3)
        elif kind == "unseen":
            self._line([left, right], [y, y], "#8a9099", 1.3, style=(0, (1, 1.5)))
        elif kind == "wrong":
            steps = max(math.ceil(right - left), 2)
            x = [left + (right - left) * step / steps for step in range(steps + 1)]
            self._line(x, [y + 1.3 * math.sin((at - left) * math.tau / 5) for at in x], _WRONG, 1.4)

    # ---- scores and lists ----

    def _bars(self, caption: ExplainedCaption, left: float, y: float, end: float) -> float:
        start, wide = left + 84, _COLUMN - 84 - 62
        for bar in score_bars(caption, end):
            weight = "bold" if bar.label == "Overall" else "normal"
            self._text(left, y + 9, bar.label, _BODY, weight=weight)
            self._line([start, start + wide], [y + 5.5] * 2, _TRACK, 8)
            if bar.share:
                self._line([start, start + wide * bar.share], [y + 5.5] * 2, _INK, 8)
            self._text(start + wide + 8, y + 9, bar.value, _BODY, weight=weight)
            y += 16
        return y

    def _list(self, regions: Sequence[ShownRegion], left: float, y: float) -> float:
        for mentioned, heading in ((True, "Mentioned"), (False, "Missed")):
            part = [region for region in regions if region.mentioned is mentioned]
            if not part:
                continue
            colour = _MENTIONED if mentioned else _MISSED
            style: Any = "-" if mentioned else (0, (2, 1.2))
            self._line([left, left + 20], [y + 6] * 2, colour, 2.4, style=style)
            pieces = []
            for region in part:
                label = self.type.fonts.drawable(region.label)
                pieces.append(
                    f"{region.sign} {region.number} {label} ({number(region.score)})".replace("  ", " ")
                )
            text = f"{heading}:  " + ",   ".join(pieces)
            for line in self.type.lines(text, _BODY, _COLUMN - 28):
                self._text(left + 28, y + 9, line, _BODY)
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
            base = y + 9
            if SIGNS[kind]:
                self._text(x, base, SIGNS[kind], 8.5, colour=_WRONG, weight="bold")
                x += 9
            self._underline(kind, x, x + 22, base - 2)
            self._text(x + 27, base, sample, 8.0, colour=_SOFT)
            x += 27 + self.type.width(sample, 8.0) + 20
        y += 16
        for text, colour in [(problem, _WRONG) for problem in problems] + [(f"{bars_note(end)}.", _SOFT)]:
            for line in self.type.lines(text, 8.0, _WIDTH - 2 * _MARGIN):
                self._text(_MARGIN, y + 8, line, 8.0, colour=colour)
                y += 11
        if signature:
            y += 2
            for line in self.type.lines(signature.replace("|", "| "), 6.5, _WIDTH - 2 * _MARGIN):
                self._text(_MARGIN, y + 7, line.replace("| ", "|"), 6.5, colour=_SOFT)
                y += 9
        self.bottom = y

    # ---- strokes ----

    def _text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        *,
        language: str = "",
        colour: str = _INK,
        weight: str = "normal",
        zorder: float = 3,
    ) -> None:
        properties = self.type.properties(text, size, language, weight)

        def part(axes: Axes) -> None:
            drawn = axes.text(x, y, text, color=colour, fontproperties=properties, zorder=zorder)
            drawn.set(ha="left", va="baseline", parse_math=False, usetex=False)

        self._drawn.append(part)

    def _line(
        self,
        x: Sequence[float],
        y: Sequence[float],
        colour: str,
        width: float,
        *,
        style: Any = "-",
        zorder: float = 2.5,
    ) -> None:
        def part(axes: Axes) -> None:
            (line,) = axes.plot(
                x, y, color=colour, linewidth=width, linestyle=style, marker="", zorder=zorder
            )
            line.set(solid_capstyle="butt", dash_capstyle="butt", solid_joinstyle="miter")

        self._drawn.append(part)
