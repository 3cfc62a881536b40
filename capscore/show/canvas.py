"""Texts, lines, boxes and photos, placed in points → one image, drawn by Pillow."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

from PIL import Image, ImageDraw

from .explained import Box
from .fonts import Fonts

DPI = 150
_SCALE = DPI / 72  # pixels per point
Dashes = tuple[float, float] | None
"""Lengths of the dashes and gaps of a line; None for a solid one."""


class Canvas:
    """A white page that grows with what is drawn on it. Lengths are in points; y counts from the top.

    Args:
        fonts: Fonts for all texts.
        width: Width of the page.
    """

    def __init__(self, fonts: Fonts, width: float):
        self.fonts = fonts
        self._image = Image.new("RGB", (round(width * _SCALE), 2000), "white")
        self._width = functools.lru_cache(maxsize=None)(fonts.width)

    def image(self, height: float) -> Image.Image:
        """The page, cut at its height; 150 pixels per inch."""
        self._pen(height)
        return self._image.crop((0, 0, self._image.width, round(height * _SCALE)))

    def _pen(self, bottom: float) -> ImageDraw.ImageDraw:
        if bottom * _SCALE > self._image.height:
            shorter = self._image
            self._image = Image.new("RGB", (shorter.width, round(2 * bottom * _SCALE)), "white")
            self._image.paste(shorter)
        return ImageDraw.Draw(self._image)

    def width(self, text: str, size: float, language: str = "", bold: bool = False) -> float:
        """The width of a text."""
        return self._width(text, size * _SCALE, language=language, bold=bold) / _SCALE

    def text(self, x: float, y: float, text: str, size: float, colour: str, **options: Any) -> None:
        """Draw a text from its left end, on its baseline; options as in `Fonts.placed`."""
        pen = self._pen(y + size)
        for right, piece, font, own in self.fonts.placed(text, size * _SCALE, **options):
            at = x * _SCALE + right, y * _SCALE
            pen.text(at, piece, font=font, fill=colour, anchor="ls", **own)

    def line(
        self, left: float, right: float, y: float, colour: str, width: float, dashes: Dashes = None
    ) -> None:
        """Draw a horizontal line."""
        for start, end in _dashes(left, right, dashes):
            self.fill((start, y - width / 2, end, y + width / 2), colour)

    def frame(self, box: Box, colour: str, width: float, dashes: Dashes = None) -> None:
        """Draw the four edges of a box."""
        left, top, right, bottom = box
        half = width / 2
        over = half if dashes is None else 1.0  # dashes of several widths begin at the same place
        for y in (top, bottom):
            self.line(left - over, right + over, y, colour, width, dashes)
        for x in (left, right):
            for start, end in _dashes(top - over, bottom + over, dashes):
                self.fill((x - half, start, x + half, end), colour)

    def fill(self, box: Box, colour: str, edge: str | None = None) -> None:
        """Draw a filled box, with a thin edge where one is given."""
        left, top, right, bottom = (round(side * _SCALE) for side in box)
        place = left, top, max(right - 1, left), max(bottom - 1, top)
        self._pen(box[3] + 1).rectangle(place, fill=colour, outline=edge)

    def wave(self, left: float, right: float, y: float, colour: str) -> None:
        """Draw a wavy line, four times larger and scaled down, so that it is smooth."""
        self._pen(y + 5)
        width, height = math.ceil((right - left) * _SCALE) + 1, round(5 * _SCALE)
        mask = Image.new("L", (4 * width, 4 * height))
        pixel = 4 * _SCALE
        points = [(x, pixel * (2.5 + 1.3 * math.sin(x / pixel * math.tau / 5))) for x in range(4 * width)]
        ImageDraw.Draw(mask).line(points, fill=255, width=round(1.4 * pixel))
        mask = mask.resize((width, height), Image.Resampling.BOX)
        self._image.paste(colour, (round(left * _SCALE), round((y - 2.5) * _SCALE)), mask)

    def photo(self, photo: Image.Image, box: Box) -> None:
        """Draw a photo that fills a box."""
        self._pen(box[3] + 1)
        left, top, right, bottom = (round(edge * _SCALE) for edge in box)
        size = max(right - left, 1), max(bottom - top, 1)
        self._image.paste(photo.convert("RGB").resize(size, Image.Resampling.LANCZOS), (left, top))


def _dashes(start: float, end: float, dashes: Dashes) -> Iterator[tuple[float, float]]:
    """The parts of a line that are drawn: all of it, or its dashes."""
    dash, gap = dashes or (end - start, 1.0)
    while start < end:
        yield start, min(start + dash, end)
        start += dash + gap
