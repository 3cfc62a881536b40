"""A photo and what the scorer says about its captions → a picture: marked regions, marked words, scores."""

from __future__ import annotations

from collections.abc import Sequence
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
    ShownRegion,
    bars_end,
    bars_note,
    notes,
    place_tags,
    score_bars,
    shown_regions,
    stage,
    verdict,
)
from .fonts import Fonts, find_fonts
from .marked_words import INK, RIGHT, SOFT, WRONG, draw_words, plain_lines, underline

if TYPE_CHECKING:
    from PIL import Image

# Okabe and Ito's orange, which is distinct from the blue of `RIGHT` with every kind of colour vision.
_MISSED, _LINE, _TRACK = "#E69F00", "#dcdcd8", "#e4e3df"

# ---- lengths in points ----
_WIDTH, _MARGIN, _GAP = 780.0, 20.0, 24.0
_PHOTO_WIDTH, _PHOTO_HEIGHT, _PHOTO_HEIGHT_OF_SEVERAL = 390.0, 420.0, 290.0
_COLUMN = _WIDTH - 2 * _MARGIN - _PHOTO_WIDTH - _GAP
_COLUMN_LEFT = _MARGIN + _PHOTO_WIDTH + _GAP
_BODY, _NOTE = 9.5, 8.0


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


# ---- the page ----


class _Page:
    """Draws the parts on a canvas, from the top down."""

    def __init__(self, canvas: Canvas):
        self.canvas = canvas
        self.bottom = _MARGIN

    def heading(self, title: str) -> None:
        if not title:
            return
        for line in plain_lines(self.canvas, title, 12.0, 0.9 * (_WIDTH - 2 * _MARGIN)):
            self.canvas.text(_MARGIN, self.bottom + 10, line, 12.0, INK, bold=True)
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
        y = draw_words(self.canvas, caption, _COLUMN_LEFT, top, _COLUMN)
        self.canvas.text(_COLUMN_LEFT, y + 9, verdict(caption), _BODY, INK)
        y = self._bars(caption, y + 22, end) + 6
        y = self._list(regions, y) + 4
        for note in notes(caption, most_missed):
            y = self._paragraph(note, _COLUMN_LEFT, y, _COLUMN)
        bottom = max(y, below_photo) + 12
        self.canvas.line(_MARGIN, _WIDTH - _MARGIN, bottom, _LINE, 0.8)
        self.bottom = bottom + 14

    def _paragraph(self, text: str, left: float, y: float, width: float, colour: str = SOFT) -> float:
        """Draw a small text from its top; returns where it ends."""
        for line in plain_lines(self.canvas, text, _NOTE, width):
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
            outer, inner = ("white", RIGHT) if region.mentioned else ("black", _MISSED)
            dashes = None if region.mentioned else (9.0, 5.0)
            self.canvas.frame(box, outer, 3.8, dashes)
            self.canvas.frame(box, inner, 2.4, dashes)
        tags = [self.canvas.fonts.drawable(region.tag) for region in regions]
        sizes = [(self.canvas.width(tag, 8.5, bold=True) + 6, 12.5) for tag in tags]
        for region, tag, at in zip(regions, tags, place_tags(boxes, sizes, place), strict=True):
            fill, ink = (RIGHT, "white") if region.mentioned else (_MISSED, "black")
            self.canvas.fill(at, fill, ink)
            self.canvas.text(at[0] + 3, at[3] - 3.3, tag, 8.5, ink, bold=True)
        return place[1] + place[3]

    # ---- scores and lists ----

    def _bars(self, caption: ExplainedCaption, y: float, end: float) -> float:
        left, wide = _COLUMN_LEFT + 84, _COLUMN - 84 - 62
        for bar in score_bars(caption, end):
            bold = bar.label == "Overall"
            self.canvas.text(_COLUMN_LEFT, y + 9, bar.label, _BODY, INK, bold=bold)
            self.canvas.line(left, left + wide, y + 5.5, _TRACK, 8)
            if bar.share:
                self.canvas.line(left, left + wide * bar.share, y + 5.5, INK, 8)
            self.canvas.text(left + wide + 8, y + 9, bar.value, _BODY, INK, bold=bold)
            y += 16
        return y

    def _list(self, regions: Sequence[ShownRegion], y: float) -> float:
        for heading, colour, dashes in (("Mentioned", RIGHT, None), ("Missed", _MISSED, (4.8, 2.9))):
            part = [region for region in regions if region.mentioned is (dashes is None)]
            if not part:
                continue
            self.canvas.line(_COLUMN_LEFT, _COLUMN_LEFT + 20, y + 6, colour, 2.4, dashes)
            listed = ",   ".join(
                f"{region.sign} {region.number} {region.label} ({region.note})".replace("  ", " ")
                for region in part
            )
            for line in plain_lines(self.canvas, f"{heading}:  {listed}", _BODY, _COLUMN - 28):
                self.canvas.text(_COLUMN_LEFT + 28, y + 9, line, _BODY, INK)
                y += 13.5
            y += 1.5
        return y

    def legend(self, beta: float | None, end: float, signature: str, problems: Sequence[str]) -> None:
        above = "" if beta is None else f", score above {beta:g}"
        below = "" if beta is None else f", score {beta:g} or below"
        x, y = _MARGIN, self.bottom - 2
        for kind, sample in (
            ("right", f"right content word{above}"),
            ("wrong", f"likely wrong{below}"),
            *([("unsure", "cannot tell")] if beta is None else []),
            ("unseen", "word that was cut off"),
        ):
            if SIGNS[kind]:
                self.canvas.text(x, y + 9, SIGNS[kind], 8.5, WRONG, bold=True)
                x += 9
            underline(self.canvas, kind, x, x + 22, y + 7)
            self.canvas.text(x + 27, y + 9, sample, _NOTE, SOFT)
            x += 27 + self.canvas.width(sample, _NOTE) + 20
        y += 16
        for problem in problems:
            y = self._paragraph(problem, _MARGIN, y, _WIDTH - 2 * _MARGIN, WRONG)
        y = self._paragraph(f"{bars_note(end)}.", _MARGIN, y, _WIDTH - 2 * _MARGIN)
        if signature:
            y += 2
            for line in plain_lines(self.canvas, signature.replace("|", "| "), 6.5, _WIDTH - 2 * _MARGIN):
                self.canvas.text(_MARGIN, y + 7, line.replace("| ", "|"), 6.5, SOFT)
                y += 9
        self.bottom = y + _MARGIN
